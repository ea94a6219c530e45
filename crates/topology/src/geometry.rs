//! The geometry that links need beyond [`constel_orbit`]'s: slopes, latitudes, phases.

use constel_orbit::DVec3;

/// Earth's rotation, rad/s (IERS nominal mean angular velocity).
const EARTH_RATE_RAD_S: f64 = 7.292_115e-5;

/// Returns the slope that changes `from_ns` to `to_ns` over `step_ns`, in ns per second, rounded to nearest.
///
/// The end of the segment then misses `to_ns` by at most `step / 2 s` nanoseconds, plus one for rounding down
/// (it is exact when the step divides one second). The next segment starts from the exact value again, so
/// errors never add up.
#[must_use]
pub fn slope_ns_per_s(from_ns: u64, to_ns: u64, step_ns: u64) -> i64 {
    const SECOND_NS: u64 = 1_000_000_000;
    if step_ns == SECOND_NS {
        return to_ns as i64 - from_ns as i64;
    }
    // A division of 64 bits where they suffice: this runs at every step for every link, and one of 128 takes
    // several times as long.
    let rise_ns = to_ns.abs_diff(from_ns);
    let slope = match rise_ns.checked_mul(SECOND_NS) {
        Some(scaled) if scaled <= u64::MAX - step_ns => (scaled + step_ns / 2) / step_ns,
        _ => {
            let scaled = u128::from(rise_ns) * u128::from(SECOND_NS);
            // |rise| < 4 s (Earth-Moon and back), step >= 1 ms: fits by far.
            ((scaled + u128::from(step_ns / 2)) / u128::from(step_ns)) as u64
        }
    };
    if to_ns < from_ns {
        -(slope as i64)
    } else {
        slope as i64
    }
}

/// Geocentric latitude, degrees.
#[must_use]
pub fn geocentric_latitude_deg(position_itrf_m: DVec3) -> f64 {
    let p = position_itrf_m;
    p.z.atan2(p.x.hypot(p.y)).to_degrees()
}

/// A satellite's motion at time 0, in the ITRF without rotation, as pairing needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Motion {
    /// The satellite's position, metres.
    pub(crate) position: DVec3,
    /// The position that a circular orbit reaches in a quarter turn, metres.
    pub(crate) quarter: DVec3,
    /// Longitude of the ascending node, radians, -pi..pi.
    pub(crate) node_rad: f64,
}

impl Motion {
    /// Computes the motion from two ITRF positions `dt_s` apart. Earth's rotation over `dt_s` is removed first.
    pub(crate) fn new(now: DVec3, later: DVec3, dt_s: f64) -> Motion {
        let (sin, cos) = (EARTH_RATE_RAD_S * dt_s).sin_cos();
        let later_still = DVec3::new(
            later.x * cos - later.y * sin,
            later.x * sin + later.y * cos,
            later.z,
        );
        let h = now.cross(later_still).normalize_or_zero();
        let n = DVec3::Z.cross(h);
        let node = if n.length() < 1e-9 {
            DVec3::X
        } else {
            n.normalize()
        };
        Motion {
            position: now,
            quarter: h.cross(now),
            node_rad: node.y.atan2(node.x),
        }
    }

    /// Mean square of the distance to `other` over an orbit, square metres. Exact for circular orbits of one
    /// period: the square varies with twice the phase, so two points a quarter turn apart give its mean.
    pub(crate) fn mean_square_m2(&self, other: &Motion) -> f64 {
        let (now, quarter) = (self.position - other.position, self.quarter - other.quarter);
        f64::midpoint(now.length_squared(), quarter.length_squared())
    }
}

/// The angle by which a satellite sees another one turn in `dt_s`, radians, in a frame that flies with it: radial,
/// along its orbit's plane, and across. Pairs are positions now and `dt_s` later.
pub(crate) fn slew_rad(own: (DVec3, DVec3), other: (DVec3, DVec3), dt_s: f64) -> f64 {
    // The orbit's normal is fixed among the stars: the Earth's rotation is first removed from the motion, and
    // then from the normal.
    let (sin, cos) = (EARTH_RATE_RAD_S * dt_s).sin_cos();
    let still = DVec3::new(
        own.1.x * cos - own.1.y * sin,
        own.1.x * sin + own.1.y * cos,
        own.1.z,
    );
    let across = own.0.cross(still).normalize_or_zero();
    let across_later = DVec3::new(
        across.x * cos + across.y * sin,
        -across.x * sin + across.y * cos,
        across.z,
    );
    let seen = |from: DVec3, to: DVec3, across: DVec3| {
        let (radial, away) = (from.normalize_or_zero(), (to - from).normalize_or_zero());
        DVec3::new(
            away.dot(radial),
            away.dot(across.cross(radial)),
            away.dot(across),
        )
    };
    let (a, b) = (
        seen(own.0, other.0, across),
        seen(own.1, other.1, across_later),
    );
    // For small angles the chord equals the angle, and has a far smaller rounding error than an arc cosine.
    2.0 * (a.distance(b) / 2.0).clamp(0.0, 1.0).asin()
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
            // Too far for 64 bits on the way.
            (1_300_000_000, 30_000_000_000),
            (30_000_000_000, 1_300_000_000),
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
    fn two_points_give_the_mean_over_an_orbit() {
        // Two circular orbits of one height, planes 20 degrees apart, out of phase by 10 degrees.
        let (r, i): (f64, f64) = (6.928e6, 53_f64.to_radians());
        let at = |node: f64, u: f64| {
            let p = DVec3::new(r * u.cos(), r * u.sin() * i.cos(), r * u.sin() * i.sin());
            let (s, c) = node.sin_cos();
            DVec3::new(p.x * c - p.y * s, p.x * s + p.y * c, p.z)
        };
        let (node, lead) = (20_f64.to_radians(), 10_f64.to_radians());
        let turned = |p: DVec3, t: f64| {
            let (s, c) = (EARTH_RATE_RAD_S * t).sin_cos();
            DVec3::new(p.x * c + p.y * s, -p.x * s + p.y * c, p.z)
        };
        let motion = |node, u: f64| Motion::new(at(node, u), turned(at(node, u + 1e-3), 1.0), 1.0);
        let steps = 360;
        let mean = (0..steps)
            .map(|k| f64::from(k).to_radians())
            .map(|u| at(0.0, u).distance_squared(at(node, u + lead)))
            .sum::<f64>()
            / f64::from(steps);
        for start in [0.0, 1.0, 2.5] {
            let (a, b) = (motion(0.0, start), motion(node, start + lead));
            assert!((a.mean_square_m2(&b) / mean - 1.0).abs() < 1e-6);
            assert!((b.node_rad - a.node_rad - node).abs() < 1e-9);
        }
    }
}
