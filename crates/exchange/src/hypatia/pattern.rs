//! The Walker pattern that satellites form, if they form one.

use constel_orbit::{EARTH_EQUATORIAL_RADIUS_M, EARTH_J2, EARTH_MU_M3_PER_S2, ElementSet};

use crate::draft::{Draft, Shell};

/// How far an element may be from the pattern's, degrees: four digits of an angle, and the rounding of F.
const TOLERANCE_DEG: f64 = 0.02;

/// Smallest distance of two angles modulo `round`, degrees.
fn apart(a: f64, b: f64, round: f64) -> f64 {
    let d = (a - b).rem_euclid(round);
    d.min(round - d)
}

/// Returns the Walker pattern that the satellites form.
///
/// # Errors
/// The first satellite that does not fit, and the element that differs.
pub(super) fn fit(
    planes: u32,
    per_plane: u32,
    sets: &[ElementSet],
    draft: &mut Draft,
) -> Result<Shell, String> {
    let first = sets[0].elements();
    let u = |set: &ElementSet| set.elements().argument_of_perigee + set.elements().mean_anomaly;
    let plane = |p: u32| &sets[(p * per_plane) as usize];
    let slot_deg = 360.0 / f64::from(per_plane);
    let total = f64::from(planes) * f64::from(per_plane);
    let spread = match planes {
        1 => 360.0,
        _ => {
            (plane(1).elements().right_ascension - first.right_ascension).rem_euclid(360.0)
                * f64::from(planes)
        }
    };
    let star = (spread - 180.0).abs() < 1.0;
    let spread = if star { 180.0 } else { 360.0 };
    let lead = if planes > 1 {
        (u(plane(1)) - u(plane(0))).rem_euclid(slot_deg)
    } else {
        0.0
    };
    let phasing = (lead * total / 360.0).round();
    for (n, set) in sets.iter().enumerate() {
        let (p, s) = ((n as u32 / per_plane), (n as u32 % per_plane));
        let e = set.elements();
        let node = first.right_ascension + f64::from(p) * spread / f64::from(planes);
        let phase = u(&sets[0]) + f64::from(s) * slot_deg + f64::from(p) * phasing * 360.0 / total;
        let off = [
            (
                apart(e.inclination, first.inclination, 360.0),
                "inclination",
            ),
            (apart(e.right_ascension, node, 360.0), "right ascension"),
            // A plane may start at another slot: Hypatia's `phase_diff`.
            (apart(u(set), phase, slot_deg), "place in the orbit"),
            (
                (e.mean_motion - first.mean_motion).abs() * 100.0,
                "mean motion",
            ),
        ];
        if let Some((off, what)) = off.into_iter().find(|(off, _)| *off > TOLERANCE_DEG) {
            return Err(format!(
                "the {what} of satellite {n} differs by {off:.3} deg"
            ));
        }
        if e.eccentricity > 0.01 {
            return Err(format!(
                "satellite {n} has an eccentricity of {}",
                e.eccentricity
            ));
        }
    }
    let turned = apart(u(&sets[0]), 0.0, slot_deg);
    if turned > TOLERANCE_DEG {
        draft.note(format!("all satellites were moved along their orbits by {turned:.3} deg, so that the first is at its node"));
    }
    let altitude_m = altitude_m(first.mean_motion, first.inclination);
    Ok(Shell {
        star,
        altitude_m: altitude_m.round(),
        inclination_deg: first.inclination,
        planes,
        per_plane,
        phasing: phasing as u32 % planes,
        raan0_deg: first.right_ascension.rem_euclid(360.0),
        isl: true,
        min_elevation_deg: None,
    })
}

/// Revolutions a day of a two-line set (Kozai's mean motion: the mean anomaly's rate, J2 included) for a circular
/// orbit at a mean altitude.
pub fn mean_motion_rev_per_day(altitude_m: f64, inclination_deg: f64) -> f64 {
    let radius_m = EARTH_EQUATORIAL_RADIUS_M + altitude_m;
    let n = (EARTH_MU_M3_PER_S2 / radius_m.powi(3)).sqrt();
    let j2_rate = 1.5 * EARTH_J2 * (EARTH_EQUATORIAL_RADIUS_M / radius_m).powi(2) * n;
    let cos = inclination_deg.to_radians().cos();
    (n + 0.5 * j2_rate * (3.0 * cos * cos - 1.0)) * 86_400.0 / std::f64::consts::TAU
}

/// The inverse of [`mean_motion_rev_per_day`].
pub(super) fn altitude_m(rev_per_day: f64, inclination_deg: f64) -> f64 {
    let (mut low, mut high) = (-6e6, 1e9);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if mean_motion_rev_per_day(middle, inclination_deg) > rev_per_day {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}
