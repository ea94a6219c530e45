//! What links need beyond [`constel_orbit`]'s geometry: slopes, latitudes, phases.

use constel_orbit::DVec3;

/// Earth's rotation, rad/s (IERS nominal mean angular velocity).
const EARTH_RATE_RAD_S: f64 = 7.292_115e-5;

/// The slope that carries `from_ns` to `to_ns` over `step_ns`, in ns per second, rounded to nearest.
///
/// The end of the piece then misses `to_ns` by at most `step / 2 s` nanoseconds, and one more for rounding
/// down (nothing at all when the step divides one second); the next piece starts from the exact value
/// again, so errors never add up.
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

/// Geocentric latitude, degrees.
#[must_use]
pub fn geocentric_latitude_deg(position_itrf_m: DVec3) -> f64 {
    let p = position_itrf_m;
    p.z.atan2(p.x.hypot(p.y)).to_degrees()
}

/// Argument of latitude in radians, 0..2 pi, from two ITRF positions `dt_s` apart: the angle flown since the
/// ascending node. Earth's rotation over `dt_s` is taken out first. An equatorial orbit has no node; the
/// angle is then counted from the ITRF x axis.
pub(crate) fn argument_of_latitude_rad(now: DVec3, later: DVec3, dt_s: f64) -> f64 {
    let (sin, cos) = (EARTH_RATE_RAD_S * dt_s).sin_cos();
    // In the frame of `now`, held still.
    let later_still = DVec3::new(
        later.x * cos - later.y * sin,
        later.x * sin + later.y * cos,
        later.z,
    );
    let h = now.cross(later_still);
    let n = DVec3::Z.cross(h);
    let node = if n.length() < 1e-9 * h.length() {
        DVec3::X
    } else {
        n
    };
    let x = now.dot(node) / node.length();
    let along = h.cross(node);
    let y = now.dot(along) / along.length();
    y.atan2(x).rem_euclid(std::f64::consts::TAU)
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_link::Delay;

    #[test]
    fn slopes_meet_the_next_value() {
        for (d0, d1) in [
            (5_000_000, 5_010_003),
            (5_010_003, 5_000_000),
            (7, 7),
            (1_000_000, 999_999),
        ] {
            for step_ns in [1_000_000_u64, 100_000_000, 300_000_000, 1_000_000_000] {
                let slope_ns_per_s = slope_ns_per_s(d0, d1, step_ns);
                let piece = Delay {
                    t0_ns: 77,
                    delay_ns: d0,
                    slope_ns_per_s,
                };
                let end = piece.at(77 + step_ns);
                assert!(end.abs_diff(d1) <= 1, "{d0} {d1} {step_ns}: {end}");
            }
        }
    }

    #[test]
    fn argument_of_latitude_counts_from_the_node() {
        // A polar orbit as the turning Earth sees it, 1 s apart.
        let (r, n): (f64, f64) = (7.158e6, 1.0e-3);
        let at = |u: f64, t: f64| {
            let p = DVec3::new(r * u.cos(), 0.0, r * u.sin());
            let (s, c) = (EARTH_RATE_RAD_S * t).sin_cos();
            DVec3::new(p.x * c + p.y * s, -p.x * s + p.y * c, p.z)
        };
        for deg in [0.5, 40.0, 120.0, 200.0, 359.0_f64] {
            let u = deg.to_radians();
            let found = argument_of_latitude_rad(at(u, 0.0), at(u + n, 1.0), 1.0);
            assert!((found - u).abs() < 1e-9, "{deg}: {}", found.to_degrees());
        }
    }
}
