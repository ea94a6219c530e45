//! Parting the nodes of a shell into planes, on the circle.

use std::f64::consts::TAU;

use glam::DVec3;

use crate::frames::TemeState;
use crate::shells::{PlaneRule, ShellSpec, SortError};

/// Planes as lists of members, each in order of right ascension along the circle.
pub(crate) struct Split {
    pub(crate) planes: Vec<Vec<usize>>,
    pub(crate) narrowest_gap_rad: f64,
    pub(crate) widest_inner_gap_rad: f64,
}

/// Divides the nodes `raans_rad` (each in `0..2 pi`) by the rule of `spec`.
pub(crate) fn split_into_planes(raans_rad: &[f64], spec: &ShellSpec) -> Result<Split, SortError> {
    let count = raans_rad.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| raans_rad[*a].total_cmp(&raans_rad[*b]).then(a.cmp(b)));
    // gaps[k]: from node k to the next one along the circle; the last goes round to the first.
    let gaps: Vec<f64> = (0..count)
        .map(|at| {
            if at + 1 < count {
                raans_rad[order[at + 1]] - raans_rad[order[at]]
            } else {
                raans_rad[order[0]] + TAU - raans_rad[order[at]]
            }
        })
        .collect();
    let cuts = match spec.planes {
        PlaneRule::Gap(gap) => (0..count)
            .filter(|at| gaps[*at] > gap.rad())
            .collect::<Vec<usize>>(),
        PlaneRule::Count(planes) => widest(&gaps, planes, spec)?,
    };
    let is_cut = |at: usize| cuts.binary_search(&at).is_ok();
    let narrowest_gap_rad = cuts.iter().map(|at| gaps[*at]).fold(TAU, f64::min);
    let widest_inner_gap_rad = (0..count)
        .filter(|at| !is_cut(*at))
        .map(|at| gaps[at])
        .fold(0.0, f64::max);
    // Walk the circle once, from just after the last cut, so that no plane is split at zero.
    let start = cuts.last().map_or(0, |at| at + 1);
    let mut planes = Vec::with_capacity(cuts.len().max(1));
    let mut plane = Vec::new();
    for at in (start..count).chain(0..start) {
        plane.push(order[at]);
        if is_cut(at) {
            planes.push(std::mem::take(&mut plane));
        }
    }
    if !plane.is_empty() {
        planes.push(plane);
    }
    Ok(Split {
        planes,
        narrowest_gap_rad,
        widest_inner_gap_rad,
    })
}

/// Returns the `planes` widest gaps, in order of position; an error unless they are clearly wider than the
/// others.
fn widest(gaps: &[f64], planes: u32, spec: &ShellSpec) -> Result<Vec<usize>, SortError> {
    let wanted = planes as usize;
    if gaps.len() < wanted {
        return Err(SortError::TooFewSatellites {
            shell: spec.name.clone(),
            planes,
            satellites: gaps.len() as u32,
        });
    }
    let mut by_width: Vec<usize> = (0..gaps.len()).collect();
    by_width.sort_by(|a, b| gaps[*b].total_cmp(&gaps[*a]).then(a.cmp(b)));
    let narrowest = gaps[by_width[wanted - 1]];
    let widest_inner = by_width.get(wanted).map_or(0.0, |at| gaps[*at]);
    // A single plane needs no gap to others.
    if wanted > 1 && narrowest < 2.0 * widest_inner {
        return Err(SortError::UnclearPlanes {
            shell: spec.name.clone(),
            planes,
            narrowest_deg: narrowest.to_degrees(),
            widest_inner_deg: widest_inner.to_degrees(),
        });
    }
    by_width.truncate(wanted);
    by_width.sort_unstable();
    Ok(by_width)
}

/// Spread and mean of the nodes of one plane, rad. `plane` is in order along the circle.
pub(crate) fn spread_and_mean(plane: &[usize], raans_rad: &[f64]) -> (f64, f64) {
    let Some(first) = plane.first().map(|member| raans_rad[*member]) else {
        return (0.0, 0.0);
    };
    // Measured eastwards from the first node, so that a plane across zero is in one piece.
    let from_first = |member: &usize| (raans_rad[*member] - first).rem_euclid(TAU);
    let spread = plane.last().map_or(0.0, from_first);
    let mean = plane.iter().map(from_first).sum::<f64>() / plane.len() as f64;
    let mean = (first + mean).rem_euclid(TAU);
    (spread, if mean >= TAU { 0.0 } else { mean })
}

/// Within this angle of the equator a plane's node is void: that of a geostationary ring changes with every set.
const EQUATORIAL_RAD: f64 = 0.5 * std::f64::consts::PI / 180.0;
/// Orbits farther than this from their mean are not one plane (all planes of a shell taken for one).
const ONE_PLANE_RAD: f64 = 30.0 * std::f64::consts::PI / 180.0;

/// Returns the angles along the orbit of the members of one plane, rad, `-pi..=pi`, in the frame of the mean of
/// their orbits: from its node, or from the x axis if the mean orbit is equatorial. Any inertial frame with the
/// Earth's axis as z is valid, and only the direction of the velocities matters.
pub fn along_plane_rad(states: &[TemeState]) -> Vec<f64> {
    let normal = |state: &TemeState| {
        state
            .position_teme_m
            .cross(state.velocity_teme_m_per_s)
            .normalize_or_zero()
    };
    let normals: Vec<DVec3> = states.iter().map(normal).collect();
    let mean = normals.iter().sum::<DVec3>().normalize_or_zero();
    let together = normals.iter().all(|n| n.dot(mean) > ONE_PLANE_RAD.cos());
    states
        .iter()
        .zip(&normals)
        .map(|(state, own)| {
            let normal = if together { mean } else { *own };
            let node = DVec3::Z.cross(normal);
            let zero = if node.length() > EQUATORIAL_RAD.sin() {
                node
            } else {
                DVec3::X - normal * normal.x
            };
            let position = state.position_teme_m;
            normal.cross(zero).dot(position).atan2(zero.dot(position))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_units::{Angle, Length};

    fn spec(planes: PlaneRule) -> ShellSpec {
        ShellSpec {
            name: "test".to_owned(),
            altitude: Length::from_m(550e3),
            altitude_tolerance: Length::from_m(5e3),
            inclination: Angle::from_deg(53.0),
            inclination_tolerance: Angle::from_deg(0.1),
            planes,
        }
    }

    fn split(raans_deg: &[f64], planes: PlaneRule) -> Split {
        let raans_rad: Vec<f64> = raans_deg.iter().map(|raan| raan.to_radians()).collect();
        split_into_planes(&raans_rad, &spec(planes)).expect("clear planes")
    }

    #[test]
    fn a_plane_across_zero_stays_whole() {
        let raans_deg = [120.1, 0.2, 359.9, 240.0, 120.0, 359.8, 240.2];
        for rule in [PlaneRule::Gap(Angle::from_deg(1.0)), PlaneRule::Count(3)] {
            let found = split(&raans_deg, rule);
            assert_eq!(found.planes, [vec![5, 2, 1], vec![4, 0], vec![3, 6]]);
            assert!((found.narrowest_gap_rad.to_degrees() - 119.6).abs() < 1e-9);
            assert!((found.widest_inner_gap_rad.to_degrees() - 0.3).abs() < 1e-9);
        }
        let raans_rad = raans_deg.map(f64::to_radians);
        let (spread, mean) = spread_and_mean(&[5, 2, 1], &raans_rad);
        assert!((spread.to_degrees() - 0.4).abs() < 1e-9);
        assert!((mean.to_degrees() - 359.966_666_666_7).abs() < 1e-9);
    }

    #[test]
    fn one_plane_or_none() {
        assert!(
            split(&[], PlaneRule::Gap(Angle::from_deg(1.0)))
                .planes
                .is_empty()
        );
        assert_eq!(split(&[7.0], PlaneRule::Count(1)).planes, [vec![0]]);
        let everywhere: Vec<f64> = (0..360).map(f64::from).collect();
        let found = split(&everywhere, PlaneRule::Gap(Angle::from_deg(2.0)));
        assert_eq!(found.planes.len(), 1, "no gap, no cut");
        assert_eq!(
            split(&[1.0, 2.0, 3.0], PlaneRule::Count(1)).planes,
            [vec![0, 1, 2]]
        );
    }
}
