//! The Earth's gravity with its zonal terms, and motion under it, step by step.
//!
//! Forces: the central term and J2, J3, J4 (EGM96). Drag, the Moon, the Sun, light pressure and terms that turn with the
//! Earth are left out. The latter (C22, S22) change the range of two craft 17 km apart by 6.2 m in two orbits, that of craft
//! 12 km apart by 3.7 m (`crates/plan/tests/data/formation-reference.py`).

use glam::DVec3;

use crate::frames::TemeState;
use crate::{EARTH_EQUATORIAL_RADIUS_M, EARTH_J2, EARTH_MU_M3_PER_S2};

/// Third zonal harmonic, unnormalised (EGM96).
pub const EARTH_J3: f64 = -2.532_656_5e-6;
/// Fourth zonal harmonic, unnormalised (EGM96).
pub const EARTH_J4: f64 = -1.619_621_6e-6;

/// Legendre's polynomials of degree 2 to 4 at `s`, and their derivatives.
fn legendre(s: f64) -> [(f64, f64); 3] {
    let s2 = s * s;
    [
        (1.5 * s2 - 0.5, 3.0 * s),
        ((2.5 * s2 - 1.5) * s, 7.5 * s2 - 1.5),
        ((4.375 * s2 - 3.75) * s2 + 0.375, (17.5 * s2 - 7.5) * s),
    ]
}

const ZONALS: [f64; 3] = [EARTH_J2, EARTH_J3, EARTH_J4];

/// Acceleration at a position in TEME (or any frame whose third axis is the Earth's), m/s^2 (Vallado, Fundamentals of
/// Astrodynamics and Applications, 4th ed., section 8.6).
#[must_use]
pub fn acceleration_m_per_s2(position_m: DVec3) -> DVec3 {
    let r = position_m.length();
    let outward = position_m / r;
    let central = EARTH_MU_M3_PER_S2 / (r * r);
    let ratio = EARTH_EQUATORIAL_RADIUS_M / r;
    let mut power = ratio;
    let mut sum = -outward;
    let terms = (2..).zip(ZONALS).zip(legendre(outward.z));
    for ((degree, zonal), (p, slope)) in terms {
        power *= ratio;
        let along = f64::from(degree + 1) * p + outward.z * slope;
        sum += (outward * along - DVec3::Z * slope) * (zonal * power);
    }
    sum * central
}

/// Energy of a state per kilogram, J/kg, which motion under this gravity keeps.
#[must_use]
pub fn energy_j_per_kg(state: &TemeState) -> f64 {
    0.5 * state.velocity_teme_m_per_s.length_squared() - potential_j_per_kg(state.position_teme_m)
}

/// The potential, positive: work to infinity, J/kg.
pub(crate) fn potential_j_per_kg(position_m: DVec3) -> f64 {
    let r = position_m.length();
    let ratio = EARTH_EQUATORIAL_RADIUS_M / r;
    let mut power = ratio;
    let mut sum = 1.0;
    for (zonal, (p, _)) in ZONALS.into_iter().zip(legendre(position_m.z / r)) {
        power *= ratio;
        sum -= zonal * power * p;
    }
    EARTH_MU_M3_PER_S2 / r * sum
}

/// Longest step of [`propagated`], s.
const STEP_S: f64 = 10.0;

/// Returns the state `seconds` later, or earlier when negative. The integrator is Yoshida's symplectic scheme
/// of order six (Phys. Lett. A 150, 1990, solution A) with steps of at most 10 s; its energy oscillates but
/// does not drift. After a day in a low orbit the result is within centimetres of that at half the step.
#[must_use]
pub fn propagated(state: &TemeState, seconds: f64) -> TemeState {
    const OUTER: [f64; 3] = [
        0.784_513_610_477_560,
        0.235_573_213_359_357,
        -1.177_679_984_178_87,
    ];
    let [w3, w2, w1] = OUTER;
    let weights = [w3, w2, w1, 1.0 - 2.0 * (w1 + w2 + w3), w1, w2, w3];
    let steps = (seconds.abs() / STEP_S).ceil().max(1.0);
    let h = seconds / steps;
    let (mut r, mut v) = (state.position_teme_m, state.velocity_teme_m_per_s);
    for _ in 0..steps as u64 {
        for weight in weights {
            r += v * (0.5 * weight * h);
            v += acceleration_m_per_s2(r) * (weight * h);
            r += v * (0.5 * weight * h);
        }
    }
    TemeState {
        position_teme_m: r,
        velocity_teme_m_per_s: v,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn low() -> TemeState {
        TemeState {
            position_teme_m: DVec3::new(6_878_137.0, 0.0, 0.0),
            velocity_teme_m_per_s: DVec3::new(0.0, -1000.0, 7546.0),
        }
    }

    #[test]
    fn acceleration_is_the_slope_of_the_potential() {
        for at in [
            DVec3::new(4.1e6, -3.3e6, 4.4e6),
            DVec3::new(-1.0e6, 2.0e6, -6.7e6),
        ] {
            let slope = |axis: DVec3| {
                (potential_j_per_kg(at + axis * 10.0) - potential_j_per_kg(at - axis * 10.0)) / 20.0
            };
            let by_difference = DVec3::new(slope(DVec3::X), slope(DVec3::Y), slope(DVec3::Z));
            let apart = (by_difference - acceleration_m_per_s2(at)).length();
            assert!(apart < 1e-8, "{apart}");
        }
    }

    #[test]
    fn energy_stays_and_time_runs_back() {
        let day = propagated(&low(), 86_400.0);
        let lost = energy_j_per_kg(&day) - energy_j_per_kg(&low());
        assert!(lost.abs() < 1e-3, "{lost} J/kg of -2.9e7");
        let back = propagated(&day, -86_400.0);
        let apart = (back.position_teme_m - low().position_teme_m).length();
        assert!(apart < 1e-3, "{apart}");
    }

    #[test]
    fn half_the_step_ends_at_the_same_place() {
        let whole = propagated(&low(), 86_400.0);
        let mut halves = low();
        for _ in 0..17_280 {
            halves = propagated(&halves, 5.0);
        }
        let apart = (whole.position_teme_m - halves.position_teme_m).length();
        assert!(apart < 0.05, "{apart} m");
    }

    /// The node drifts as J2's secular term says.
    #[test]
    fn the_node_drifts() {
        let normal = |s: &TemeState| s.position_teme_m.cross(s.velocity_teme_m_per_s);
        let node = |s: &TemeState| {
            let n = normal(s);
            n.x.atan2(-n.y)
        };
        let drift = node(&propagated(&low(), 86_400.0)) - node(&low());
        let n = (EARTH_MU_M3_PER_S2 / 6_878_137.0_f64.powi(3)).sqrt();
        let cos_i = (normal(&low()).z / normal(&low()).length()).clamp(-1.0, 1.0);
        let ratio = EARTH_EQUATORIAL_RADIUS_M / 6_878_137.0;
        let said = -1.5 * n * EARTH_J2 * ratio * ratio * cos_i * 86_400.0;
        assert!((drift / said - 1.0).abs() < 0.03, "{drift} {said}");
    }
}
