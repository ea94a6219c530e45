//! The Sun, and the Earth's shadow.

use constel_units::Utc;
use glam::DVec3;

use crate::EARTH_EQUATORIAL_RADIUS_M;
use crate::frames::EarthRotation;
use crate::time::{DUT1_UNKNOWN_S, julian_date};

/// Astronomical unit, m (IAU 2012, exact).
const ASTRONOMICAL_UNIT_M: f64 = 149_597_870_700.0;
/// Nominal radius of the Sun, m (IAU 2015).
const SUN_RADIUS_M: f64 = 695_700_000.0;

/// Returns the position of the Sun, ITRF, m, by the Astronomical Almanac's low-precision formulas ("Low
/// precision formulas for the Sun", page C5), accurate to 0.01 degrees between 1950 and 2050.
pub fn sun_itrf_m(utc: Utc) -> DVec3 {
    let date = julian_date(utc);
    let days = (date.day - 2_451_545.0) + date.fraction;
    let longitude = 280.460 + 0.985_647_4 * days;
    let anomaly = (357.528 + 0.985_600_3 * days).to_radians();
    let ecliptic = (longitude + 1.915 * anomaly.sin() + 0.020 * (2.0 * anomaly).sin()).to_radians();
    let obliquity = (23.439 - 4e-7 * days).to_radians();
    let distance = 1.000_14 - 0.016_71 * anomaly.cos() - 0.000_14 * (2.0 * anomaly).cos();
    let direction = DVec3::new(
        ecliptic.cos(),
        obliquity.cos() * ecliptic.sin(),
        obliquity.sin() * ecliptic.sin(),
    );
    // Equinox of date: the formulas' frame is TEME's but for some arc seconds.
    let teme = direction * (distance * ASTRONOMICAL_UNIT_M);
    EarthRotation::at(utc, DUT1_UNKNOWN_S).position_itrf_m(teme)
}

/// How much of the Sun's disc the Earth hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shadow {
    /// No shadow.
    Sunlit,
    /// A part of the Sun is covered.
    Penumbra,
    /// The whole Sun is covered.
    Umbra,
}

/// Returns the shadow that a satellite is in, both positions in one frame, m. Sun and Earth are discs as seen
/// from the satellite (Montenbruck and Gill, "Satellite Orbits", section 3.4.2), the Earth a sphere of
/// equatorial radius without air.
pub fn shadow(satellite_m: DVec3, sun_m: DVec3) -> Shadow {
    let to_sun = sun_m - satellite_m;
    let sun = (SUN_RADIUS_M / to_sun.length()).min(1.0).asin();
    let earth = (EARTH_EQUATORIAL_RADIUS_M / satellite_m.length())
        .min(1.0)
        .asin();
    let apart = to_sun.angle_between(-satellite_m);
    if apart >= sun + earth {
        Shadow::Sunlit
    } else if apart <= earth - sun {
        Shadow::Umbra
    } else {
        Shadow::Penumbra
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shadow_behind_the_earth_is_a_cone() {
        let sun = DVec3::new(ASTRONOMICAL_UNIT_M, 0.0, 0.0);
        let at = |x: f64, y: f64| shadow(DVec3::new(x, y, 0.0), sun);
        assert_eq!(at(7e6, 0.0), Shadow::Sunlit);
        assert_eq!(at(-7e6, 0.0), Shadow::Umbra);
        assert_eq!(at(-7e6, 6.5e6), Shadow::Sunlit);
        // 42,164 km behind, the umbra has narrowed by 42,164 km times (695,700 - 6,378) / 1 AU = 194 km, the
        // penumbra widened by about as much.
        assert_eq!(at(-42.164e6, 6.18e6), Shadow::Umbra);
        assert_eq!(at(-42.164e6, 6.19e6), Shadow::Penumbra);
        assert_eq!(at(-42.164e6, 6.57e6), Shadow::Penumbra);
        assert_eq!(at(-42.164e6, 6.58e6), Shadow::Sunlit);
        // The umbra ends at 1.384 million km.
        assert_eq!(at(-1.37e9, 0.0), Shadow::Umbra);
        assert_eq!(at(-1.40e9, 0.0), Shadow::Penumbra);
    }
}
