//! Plain geometry: ranges, elevations, latitudes, lines of sight, and what they mean in nanoseconds.
//!
//! Positions are ITRF metres. Ranges are instantaneous: both ends at the same moment.

use crate::vec3::{V3, cross, distance, dot, norm, sub};
use constel_units::SPEED_OF_LIGHT_M_PER_S;

/// WGS84 equatorial radius, metres.
pub const WGS84_A_M: f64 = 6_378_137.0;
/// WGS84 polar radius, metres.
pub const WGS84_B_M: f64 = 6_356_752.314_245_179;
/// Earth's rotation, rad/s (IERS nominal mean angular velocity).
const EARTH_RATE_RAD_S: f64 = 7.292_115e-5;

/// Distance between two points, metres. Symmetric to the last bit.
#[must_use]
pub fn range_m(a: [f64; 3], b: [f64; 3]) -> f64 {
    distance(a, b)
}

/// Time light needs for `range_m` in vacuum, rounded up to whole nanoseconds so that no delay ever
/// implies more than the speed of light.
#[must_use]
pub fn delay_ns(range_m: f64) -> u64 {
    // Ranges are below 1e9 m here, so the product is far inside u64 and exact enough (1e-7 ns).
    (range_m / SPEED_OF_LIGHT_M_PER_S * 1e9).ceil() as u64
}

/// The slope that carries `from_ns` to `to_ns` over `step_ns`, in ns per second, rounded to nearest.
///
/// The end of the piece then misses `to_ns` by at most `step / 2 s` nanoseconds (nothing at all when the
/// step divides one second); the next piece starts from the exact value again, so errors never add up.
#[must_use]
pub fn slope_ns_per_s(from_ns: u64, to_ns: u64, step_ns: u64) -> i64 {
    let rise = i128::from(to_ns) - i128::from(from_ns);
    let scaled = rise * 1_000_000_000;
    let step = i128::from(step_ns);
    let half = step / 2;
    let rounded = if scaled >= 0 {
        (scaled + half) / step
    } else {
        (scaled - half) / step
    };
    // |rise| < 4 s (Earth-Moon and back), step >= 1 ms: fits by far.
    rounded as i64
}

/// Elevation of `target` above the horizon of a station at `station`, whose ellipsoid normal is `up`
/// (unit vector), in degrees.
#[must_use]
pub fn elevation_deg(station: [f64; 3], up: [f64; 3], target: [f64; 3]) -> f64 {
    let d = sub(target, station);
    (dot(d, up) / norm(d)).clamp(-1.0, 1.0).asin().to_degrees()
}

/// Geocentric latitude, degrees.
#[must_use]
pub fn geocentric_latitude_deg(p: [f64; 3]) -> f64 {
    p[2].atan2(p[0].hypot(p[1])).to_degrees()
}

/// Lowest height of the straight line between two points above the WGS84 ellipsoid, metres; negative when
/// it passes through the Earth.
///
/// The lowest point is sought on the sphere into which the ellipsoid is squeezed; for satellites the height
/// found is within some tens of metres of the true one, far below what the atmosphere's edge is known to.
#[must_use]
pub fn lowest_altitude_m(a: [f64; 3], b: [f64; 3]) -> f64 {
    let squeeze = WGS84_A_M / WGS84_B_M;
    let s = |p: V3| [p[0], p[1], p[2] * squeeze];
    let (sa, sb) = (s(a), s(b));
    let d = sub(sb, sa);
    let length_sq = dot(d, d);
    let at = if length_sq > 0.0 {
        (-dot(sa, d) / length_sq).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let lowest = [
        a[0] + (b[0] - a[0]) * at,
        a[1] + (b[1] - a[1]) * at,
        a[2] + (b[2] - a[2]) * at,
    ];
    let r = norm(lowest);
    if r == 0.0 {
        return -WGS84_B_M;
    }
    // Ellipsoid radius in the direction of the lowest point.
    let (cos_sq, sin_sq) = {
        let sin = lowest[2] / r;
        (1.0 - sin * sin, sin * sin)
    };
    let surface = (cos_sq / (WGS84_A_M * WGS84_A_M) + sin_sq / (WGS84_B_M * WGS84_B_M))
        .sqrt()
        .recip();
    r - surface
}

/// Position (ITRF metres) and unit normal of the ellipsoid at geodetic coordinates.
#[must_use]
pub fn geodetic_to_itrf(
    latitude_deg: f64,
    longitude_deg: f64,
    altitude_m: f64,
) -> ([f64; 3], [f64; 3]) {
    let (sin_lat, cos_lat) = latitude_deg.to_radians().sin_cos();
    let (sin_lon, cos_lon) = longitude_deg.to_radians().sin_cos();
    let e2 = 1.0 - (WGS84_B_M * WGS84_B_M) / (WGS84_A_M * WGS84_A_M);
    let n = WGS84_A_M / (1.0 - e2 * sin_lat * sin_lat).sqrt();
    let position = [
        (n + altitude_m) * cos_lat * cos_lon,
        (n + altitude_m) * cos_lat * sin_lon,
        (n * (1.0 - e2) + altitude_m) * sin_lat,
    ];
    (position, [cos_lat * cos_lon, cos_lat * sin_lon, sin_lat])
}

/// Argument of latitude in radians, 0..2 pi, from two ITRF positions `dt_s` apart: the angle flown since the
/// ascending node. Earth's rotation over `dt_s` is taken out first. An equatorial orbit has no node; the
/// angle is then counted from the ITRF x axis.
pub(crate) fn argument_of_latitude_rad(now: V3, later: V3, dt_s: f64) -> f64 {
    let (sin, cos) = (EARTH_RATE_RAD_S * dt_s).sin_cos();
    // The frame of `now`, held still.
    let later_still = [
        later[0] * cos - later[1] * sin,
        later[0] * sin + later[1] * cos,
        later[2],
    ];
    let h = cross(now, later_still);
    let node = {
        let n = cross([0.0, 0.0, 1.0], h);
        if norm(n) < 1e-9 * norm(h) {
            [1.0, 0.0, 0.0]
        } else {
            n
        }
    };
    let along = cross(h, node);
    let x = dot(now, node) / norm(node);
    let y = dot(now, along) / norm(along);
    y.atan2(x).rem_euclid(std::f64::consts::TAU)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_is_range_over_c_rounded_up() {
        assert_eq!(delay_ns(299_792_458.0), 1_000_000_000);
        assert_eq!(delay_ns(0.299_792_458), 1);
        assert_eq!(delay_ns(0.299_792_459), 2);
        assert_eq!(delay_ns(0.0), 0);
        // 550 km straight up: 1.834603 ms.
        assert_eq!(delay_ns(550_000.0), 1_834_603);
    }

    #[test]
    fn slopes_meet_the_next_value() {
        for (d0, d1) in [(5_000_000, 5_010_003), (5_010_003, 5_000_000), (7, 7)] {
            for step in [100_000_000_u64, 250_000_000, 1_000_000_000, 2_000_000_000] {
                let slope = slope_ns_per_s(d0, d1, step);
                let end = i128::from(d0) + i128::from(slope) * i128::from(step) / 1_000_000_000;
                assert!((end - i128::from(d1)).abs() <= 1, "{d0} {d1} {step}: {end}");
            }
        }
    }

    #[test]
    fn lines_of_sight() {
        let r = WGS84_A_M + 780_000.0;
        // Opposite sides: through the middle.
        assert!(lowest_altitude_m([r, 0.0, 0.0], [-r, 0.0, 0.0]) < -6_000_000.0);
        // 60 degrees apart in the equatorial plane: the chord's middle is at r cos 30.
        let a = 60_f64.to_radians();
        let mid = lowest_altitude_m([r, 0.0, 0.0], [r * a.cos(), r * a.sin(), 0.0]);
        assert!((mid - (r * 30_f64.to_radians().cos() - WGS84_A_M)).abs() < 1e-6);
        // A short link is lowest at an end.
        let near = lowest_altitude_m([r, 0.0, 0.0], [r + 1000.0, 1000.0, 0.0]);
        assert!((near - 780_000.0).abs() < 1e-6);
        // Over the pole the Earth is 21 km thinner.
        let up = lowest_altitude_m([0.0, 0.0, r], [0.0, 1.0, r + 1000.0]);
        assert!((up - (r - WGS84_B_M)).abs() < 1e-3);
    }

    #[test]
    fn stations_look_up() {
        let (p, up) = geodetic_to_itrf(48.0, 11.0, 500.0);
        let zenith = [p[0] + up[0] * 1e6, p[1] + up[1] * 1e6, p[2] + up[2] * 1e6];
        assert!((elevation_deg(p, up, zenith) - 90.0).abs() < 1e-5);
        let (pole, _) = geodetic_to_itrf(90.0, 0.0, 0.0);
        assert!((pole[2] - WGS84_B_M).abs() < 1e-6);
    }

    #[test]
    fn argument_of_latitude_counts_from_the_node() {
        // A polar orbit seen from the still frame, 1 s apart, at u = 40 degrees.
        let (r, n): (f64, f64) = (7.158e6, 1.0e-3);
        let at = |u: f64, t: f64| {
            let p: [f64; 3] = [r * u.cos(), 0.0, r * u.sin()];
            let (s, c) = (EARTH_RATE_RAD_S * t).sin_cos();
            [p[0] * c + p[1] * s, -p[0] * s + p[1] * c, p[2]]
        };
        for deg in [0.5, 40.0, 120.0, 200.0, 359.0_f64] {
            let u = deg.to_radians();
            let found = argument_of_latitude_rad(at(u, 0.0), at(u + n, 1.0), 1.0);
            assert!((found - u).abs() < 1e-9, "{deg}: {}", found.to_degrees());
        }
    }
}
