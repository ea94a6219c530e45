//! Line of sight past the Earth and light time.

use constel_units::SPEED_OF_LIGHT_M_PER_S;
use glam::DVec3;

use crate::EARTH_EQUATORIAL_RADIUS_M;

/// Smallest height of the straight line between two points above a sphere of the Earth's
/// equatorial radius, m; negative if the line passes through it.
///
/// A sphere, not the ellipsoid: the Earth is at most 21.4 km lower (at the poles), so the answer
/// errs towards "blocked", by at most that much, and never lets a link through the ground.
pub fn grazing_altitude_m(a_itrf_m: DVec3, b_itrf_m: DVec3) -> f64 {
    let along = b_itrf_m - a_itrf_m;
    let length_squared = along.length_squared();
    let nearest = if length_squared == 0.0 {
        a_itrf_m
    } else {
        // The point of the segment (0 at a, 1 at b) that is nearest to the Earth's centre.
        let share = (-a_itrf_m.dot(along) / length_squared).clamp(0.0, 1.0);
        a_itrf_m + along * share
    };
    nearest.length() - EARTH_EQUATORIAL_RADIUS_M
}

/// Whether two satellites see each other above an atmosphere `atmosphere_m` high: the line between
/// them stays at or above that height. For satellites; a ground station is below any atmosphere
/// and is judged by elevation ([`crate::Site::look`]). Frame-free: give both in the same frame.
#[inline]
pub fn line_of_sight(a_itrf_m: DVec3, b_itrf_m: DVec3, atmosphere_m: f64) -> bool {
    // Most lines pass far above: that shows without a root and a division. With the Earth's centre nearest inside
    // the segment, its squared distance is |a|^2 - (a . along)^2 / |along|^2.
    let along = b_itrf_m - a_itrf_m;
    let (length_squared, back) = (along.length_squared(), -a_itrf_m.dot(along));
    let limit_m = EARTH_EQUATORIAL_RADIUS_M + atmosphere_m;
    let outer = a_itrf_m.length_squared();
    let spare = (outer - limit_m * limit_m) * length_squared - back * back;
    let inside = back > 0.0 && back < length_squared;
    if inside && limit_m > 0.0 && spare > 1e-9 * outer * length_squared {
        return true;
    }
    grazing_altitude_m(a_itrf_m, b_itrf_m) >= atmosphere_m
}

/// Time light takes over `range_m` metres of vacuum, in whole nanoseconds, rounded up: a delay
/// never implies more than the speed of light. `range_m` must be finite and not negative, and
/// below 5e18 m (64-bit nanoseconds).
#[inline]
pub fn light_time_ns(range_m: f64) -> u64 {
    debug_assert!(
        (0.0..5e18).contains(&range_m),
        "range out of bounds: {range_m}"
    );
    let exact_ns = range_m / SPEED_OF_LIGHT_M_PER_S * 1e9;
    // `ceil` by hand: on x86-64 without SSE4.1 it is a function call, for every link at every step.
    let down_ns = exact_ns as i64;
    (down_ns + i64::from((down_ns as f64) < exact_ns)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_time_by_hand() {
        assert_eq!(light_time_ns(0.0), 0);
        assert_eq!(light_time_ns(299_792_458.0), 1_000_000_000);
        // 0.299792458 m per ns; one millimetre more needs one more nanosecond.
        assert_eq!(light_time_ns(0.299_792_458), 1);
        assert_eq!(light_time_ns(0.300_792_458), 2);
        // A time below a nanosecond counts as one; a whole number of nanoseconds stays as it is.
        assert_eq!(light_time_ns(1e-12), 1);
        assert_eq!(light_time_ns(f64::MIN_POSITIVE), 1);
        assert_eq!(light_time_ns(299_792_458.0 * 3600.0), 3_600_000_000_000);
        // Geostationary height: 35 786 000 m / 299 792 458 m/s = 119 369 247.1 ns.
        assert_eq!(light_time_ns(35_786_000.0), 119_369_248);
    }

    #[test]
    fn line_of_sight_by_hand() {
        // Two satellites at 550 km, seen from the centre under an angle of 2 theta: the line's
        // middle is at r cos(theta).
        let r: f64 = EARTH_EQUATORIAL_RADIUS_M + 550e3;
        let pair = |half_angle: f64| {
            let (sin, cos) = half_angle.sin_cos();
            (
                DVec3::new(r * cos, r * sin, 0.0),
                DVec3::new(r * cos, -r * sin, 0.0),
            )
        };
        let limit = ((EARTH_EQUATORIAL_RADIUS_M + 80e3) / r).acos();
        let (a, b) = pair(limit - 1e-9);
        assert!(line_of_sight(a, b, 80e3));
        let (a, b) = pair(limit + 1e-9);
        assert!(!line_of_sight(a, b, 80e3));
        // The longest such link: 2 r sin(limit) = 5 016 km, hand-worked from
        // 2 * sqrt(6928.137^2 - 6458.137^2) km.
        assert!(
            ((b - a).length() - 5_016_600.0).abs() < 1_000.0,
            "{}",
            (b - a).length()
        );
        // Nearest point at an end: straight up.
        assert_eq!(grazing_altitude_m(DVec3::X * r, DVec3::X * 2.0 * r), 550e3);
        assert_eq!(grazing_altitude_m(DVec3::X * r, DVec3::X * r), 550e3);
        assert!(!line_of_sight(DVec3::X * r, DVec3::NEG_X * r, 0.0));
    }
}
