//! Circular orbits with the secular drifts of J2: cheap, closed-form, good for designed
//! constellations whose operators keep their stations.

use constel_units::Utc;
use glam::DVec3;

use crate::frames::TemeState;
use crate::{EARTH_EQUATORIAL_RADIUS_M, EARTH_J2, EARTH_MU_M3_PER_S2};

/// A circular orbit. The node drifts and the motion along the orbit is sped up by the secular
/// terms of J2 (Vallado, Fundamentals of Astrodynamics and Applications, 4th ed., section 9.4);
/// radius and inclination stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CircularOrbit {
    epoch: Utc,
    radius_m: f64,
    sin_inclination: f64,
    cos_inclination: f64,
    raan_at_epoch_rad: f64,
    raan_rate_rad_per_s: f64,
    latitude_argument_at_epoch_rad: f64,
    latitude_argument_rate_rad_per_s: f64,
    /// Sine and cosine of the two angles at epoch. An instant then only needs those of the angle turned since,
    /// which are equal for a whole shell.
    raan_at_epoch: SinCos,
    latitude_argument_at_epoch: SinCos,
}

/// Sine and cosine of an angle.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SinCos {
    sin: f64,
    cos: f64,
}

impl SinCos {
    fn of(angle_rad: f64) -> Self {
        let (sin, cos) = angle_rad.sin_cos();
        Self { sin, cos }
    }

    /// Returns the sine and cosine of the sum of two angles.
    fn plus(self, other: Self) -> Self {
        Self {
            sin: self.sin * other.cos + self.cos * other.sin,
            cos: self.cos * other.cos - self.sin * other.sin,
        }
    }
}

/// The rotation of the orbits of one height and inclination from one epoch to an instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    epoch: Utc,
    raan_rate_rad_per_s: f64,
    latitude_argument_rate_rad_per_s: f64,
    raan: SinCos,
    latitude_argument: SinCos,
}

impl Turn {
    /// Whether it is `orbit`'s, too.
    pub(crate) fn is_of(&self, orbit: &CircularOrbit) -> bool {
        self.epoch == orbit.epoch
            && self.raan_rate_rad_per_s == orbit.raan_rate_rad_per_s
            && self.latitude_argument_rate_rad_per_s == orbit.latitude_argument_rate_rad_per_s
    }
}

impl CircularOrbit {
    /// An orbit `altitude_m` above the equatorial radius, whose node and argument of latitude (the
    /// angle from the ascending node, along the orbit) hold at `epoch`. All finite, altitude
    /// positive: the caller's to check ([`crate::WalkerSpec`] does).
    pub fn new(
        epoch: Utc,
        altitude_m: f64,
        inclination_rad: f64,
        raan_rad: f64,
        latitude_argument_rad: f64,
    ) -> Self {
        let radius_m = EARTH_EQUATORIAL_RADIUS_M + altitude_m;
        let (sin_inclination, cos_inclination) = inclination_rad.sin_cos();
        let mean_motion = (EARTH_MU_M3_PER_S2 / radius_m.powi(3)).sqrt();
        let j2_rate = 1.5 * EARTH_J2 * (EARTH_EQUATORIAL_RADIUS_M / radius_m).powi(2) * mean_motion;
        Self {
            epoch,
            radius_m,
            sin_inclination,
            cos_inclination,
            raan_at_epoch_rad: raan_rad,
            raan_rate_rad_per_s: -j2_rate * cos_inclination,
            latitude_argument_at_epoch_rad: latitude_argument_rad,
            // Drift of the perigee plus drift of the mean anomaly, both at zero eccentricity.
            latitude_argument_rate_rad_per_s: mean_motion
                + j2_rate * (4.0 * cos_inclination * cos_inclination - 1.0),
            raan_at_epoch: SinCos::of(raan_rad),
            latitude_argument_at_epoch: SinCos::of(latitude_argument_rad),
        }
    }

    /// Distance from the Earth's centre, m.
    pub fn radius_m(&self) -> f64 {
        self.radius_m
    }

    /// Two-body period `2 pi sqrt(r^3 / mu)`, s.
    pub fn kepler_period_s(&self) -> f64 {
        std::f64::consts::TAU * (self.radius_m.powi(3) / EARTH_MU_M3_PER_S2).sqrt()
    }

    /// Time from one ascending node to the next, s (J2 included).
    pub fn nodal_period_s(&self) -> f64 {
        std::f64::consts::TAU / self.latitude_argument_rate_rad_per_s
    }

    /// Drift of the right ascension of the ascending node, rad/s.
    pub fn raan_rate_rad_per_s(&self) -> f64 {
        self.raan_rate_rad_per_s
    }

    /// Right ascension of the ascending node at `utc`, rad, not reduced.
    pub fn raan_rad(&self, utc: Utc) -> f64 {
        self.raan_at_epoch_rad + self.raan_rate_rad_per_s * seconds_since(self.epoch, utc)
    }

    /// Argument of latitude at `utc`, rad, not reduced.
    pub fn latitude_argument_rad(&self, utc: Utc) -> f64 {
        self.latitude_argument_at_epoch_rad
            + self.latitude_argument_rate_rad_per_s * seconds_since(self.epoch, utc)
    }

    /// How far it has turned at `utc`.
    pub(crate) fn turn(&self, utc: Utc) -> Turn {
        let since_s = seconds_since(self.epoch, utc);
        Turn {
            epoch: self.epoch,
            raan_rate_rad_per_s: self.raan_rate_rad_per_s,
            latitude_argument_rate_rad_per_s: self.latitude_argument_rate_rad_per_s,
            raan: SinCos::of(self.raan_rate_rad_per_s * since_s),
            latitude_argument: SinCos::of(self.latitude_argument_rate_rad_per_s * since_s),
        }
    }

    /// Unit vectors towards the satellite and along its motion in the orbital plane, after a turn of its own.
    #[inline]
    fn directions(&self, turn: &Turn) -> (DVec3, DVec3) {
        let u = self.latitude_argument_at_epoch.plus(turn.latitude_argument);
        let raan = self.raan_at_epoch.plus(turn.raan);
        let in_equator = |x: f64, y: f64| {
            DVec3::new(
                raan.cos * x - raan.sin * y * self.cos_inclination,
                raan.sin * x + raan.cos * y * self.cos_inclination,
                y * self.sin_inclination,
            )
        };
        (in_equator(u.cos, u.sin), in_equator(-u.sin, u.cos))
    }

    /// Position in TEME at `utc`, m.
    pub fn position_teme_m(&self, utc: Utc) -> DVec3 {
        self.position_after_m(&self.turn(utc))
    }

    /// Position in TEME after a turn of its own, m.
    #[inline]
    pub(crate) fn position_after_m(&self, turn: &Turn) -> DVec3 {
        self.directions(turn).0 * self.radius_m
    }

    /// Position and velocity in TEME at `utc`; the velocity is the exact rate of the position,
    /// drift of the node included.
    pub fn teme(&self, utc: Utc) -> TemeState {
        let (outward, forward) = self.directions(&self.turn(utc));
        let position_teme_m = outward * self.radius_m;
        let drift = DVec3::new(0.0, 0.0, self.raan_rate_rad_per_s).cross(position_teme_m);
        TemeState {
            position_teme_m,
            velocity_teme_m_per_s: forward
                * (self.radius_m * self.latitude_argument_rate_rad_per_s)
                + drift,
        }
    }
}

/// Seconds from `epoch` to `utc`, of either sign. 128 bits where 64 overflow: slower, and never needed in a
/// lifetime.
#[inline]
pub(crate) fn seconds_since(epoch: Utc, utc: Utc) -> f64 {
    let (from, to) = (epoch.unix_ns(), utc.unix_ns());
    let ns = match to.checked_sub(from) {
        Some(ns) => ns as f64,
        None => (i128::from(to) - i128::from(from)) as f64,
    };
    ns / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::propagator::{Sgp4Orbit, brouwer_orbit};
    use constel_units::TimeSpan;

    /// After a day the closed form must be where SGP4 (whose theory goes two orders further) has a
    /// drag-free satellite of the same mean elements. Without the J2 terms they would be 3 to 5
    /// degrees apart; what is left is J2's short-period swing.
    #[test]
    fn keeps_up_with_sgp4() {
        for (inclination, line_2) in [
            (
                53.0,
                "2 00001  53.0000 100.0000 0000001   0.0000   0.0000 15.05000000    15",
            ),
            (
                86.4,
                "2 00001  86.4000 100.0000 0000001   0.0000   0.0000 14.34000000    16",
            ),
            (
                28.5,
                "2 00001  28.5000 100.0000 0000001   0.0000   0.0000 15.05000000    12",
            ),
        ] {
            let text = format!(
                "1 00001U 22001A   22257.00000000  .00000000  00000-0  00000-0 0    18\n{line_2}"
            );
            let set = match crate::tle::parse(&text) {
                Ok(sets) => sets[0].clone(),
                Err(errors) => panic!("{errors}"),
            };
            let sgp4 = Sgp4Orbit::new(&set).expect("usable");
            let mean = brouwer_orbit(&set).expect("usable");
            let axis_m = (sgp4::WGS72.ke / mean.mean_motion).powf(2.0 / 3.0) * sgp4::WGS72.ae * 1e3;
            let ours = CircularOrbit::new(
                set.epoch(),
                axis_m - EARTH_EQUATORIAL_RADIUS_M,
                f64::to_radians(inclination),
                100_f64.to_radians(),
                0.0,
            );
            for hours in [0, 6, 12, 24] {
                let at = set.epoch() + TimeSpan::from_ns(hours * 3_600_000_000_000);
                let theirs = sgp4.teme(at).expect("propagates").position_teme_m;
                let apart = theirs.angle_between(ours.position_teme_m(at)).to_degrees();
                assert!(apart < 0.15, "{inclination} deg, {hours} h: {apart} deg");
                assert!((theirs.length() - ours.radius_m()).abs() < 12e3);
            }
        }
    }
}
