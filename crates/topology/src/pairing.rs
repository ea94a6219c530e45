//! Which satellites could ever be linked by a laser: pairs of ports, chosen once at time 0 and kept.
//!
//! Whether a pair is up at an instant is decided elsewhere ([`crate::why`]); keeping pairs for the whole run
//! keeps interfaces and addresses stable.

use crate::node::PortRole;
use crate::spec::{Neighbours, PlusGrid, Satellite, Wrap};
use constel_orbit::{DVec3, line_of_sight};
use std::collections::BTreeMap;

/// What kind of neighbours an ISL joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IslKind {
    /// Same plane.
    IntraPlane,
    /// Adjacent planes flying side by side.
    InterPlane,
    /// Adjacent planes flying in opposite directions.
    Seam,
}

/// A pair within one constellation, by index into its satellites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) a: usize,
    pub(crate) a_role: PortRole,
    pub(crate) b: usize,
    pub(crate) b_role: PortRole,
    pub(crate) kind: IslKind,
}

/// Satellites of one shell by plane, each plane in order of flight; values are indices.
type Planes = BTreeMap<u16, Vec<usize>>;

/// All pairs of a +Grid, shell by shell.
///
/// `positions` are the satellites' at time 0, `phase_rad` their arguments of latitude then.
pub(crate) fn plus_grid(
    satellites: &[Satellite],
    grid: &PlusGrid,
    positions: &[DVec3],
    phase_rad: &[f64],
) -> Vec<Pair> {
    let mut shells: BTreeMap<u16, Planes> = BTreeMap::new();
    for (i, sat) in satellites.iter().enumerate() {
        shells
            .entry(sat.shell)
            .or_default()
            .entry(sat.plane)
            .or_default()
            .push(i);
    }
    let mut pairs = Vec::new();
    for planes in shells.values_mut() {
        for ring in planes.values_mut() {
            match grid.neighbours {
                Neighbours::Walker { .. } => ring.sort_by_key(|&i| satellites[i].slot),
                Neighbours::Nearest { .. } => {
                    ring.sort_by(|&x, &y| phase_rad[x].total_cmp(&phase_rad[y]).then(x.cmp(&y)));
                }
            }
            intra_plane(ring, &mut pairs);
        }
        let rings: Vec<&Vec<usize>> = planes.values().collect();
        inter_plane(&rings, grid, positions, &mut pairs);
    }
    pairs
}

fn intra_plane(ring: &[usize], pairs: &mut Vec<Pair>) {
    // Two satellites make one link, not two; one makes none.
    let links = if ring.len() > 2 {
        ring.len()
    } else {
        ring.len() - 1
    };
    for s in 0..links {
        pairs.push(Pair {
            a: ring[s],
            a_role: PortRole::IslFore,
            b: ring[(s + 1) % ring.len()],
            b_role: PortRole::IslAft,
            kind: IslKind::IntraPlane,
        });
    }
}

fn inter_plane(rings: &[&Vec<usize>], grid: &PlusGrid, positions: &[DVec3], pairs: &mut Vec<Pair>) {
    let wrap = match grid.neighbours {
        Neighbours::Walker { wrap, .. } | Neighbours::Nearest { wrap } => wrap,
    };
    for p in 0..rings.len().saturating_sub(1) {
        let found = match grid.neighbours {
            // Plane p+1 is ahead by F/P of a slot: the same slot is nearest in phase, or the one behind it.
            Neighbours::Walker { phasing, .. } => {
                shifted(rings[p], rings[p + 1], -ahead(phasing, rings.len()))
            }
            Neighbours::Nearest { .. } => nearest(rings[p], rings[p + 1], positions, grid),
        };
        push_inter(found, IslKind::InterPlane, pairs);
    }
    // With two planes, the wrap would join the same planes again; a delta's two planes are 180 degrees apart
    // both ways, so one link is all there is.
    if rings.len() < 3 {
        return;
    }
    let (last, first) = (rings[rings.len() - 1], rings[0]);
    match wrap {
        Wrap::StarSeamOff => {}
        // Opposite directions: no phase to speak of, only who is near now.
        Wrap::StarSeamOn => {
            push_inter(nearest(last, first, positions, grid), IslKind::Seam, pairs);
        }
        Wrap::Delta => {
            let found = match grid.neighbours {
                // All the F/P of the planes add up to F slots on the way round.
                Neighbours::Walker { phasing, .. } => shifted(
                    last,
                    first,
                    i64::from(phasing) - ahead(phasing, rings.len()),
                ),
                Neighbours::Nearest { .. } => nearest(last, first, positions, grid),
            };
            push_inter(found, IslKind::InterPlane, pairs);
        }
    }
}

/// 1 when the next plane is ahead by more than half a slot, so that the slot behind is nearer in phase.
fn ahead(phasing: u32, planes: usize) -> i64 {
    i64::from(2 * u64::from(phasing) > planes as u64)
}

fn push_inter(found: Vec<(usize, usize)>, kind: IslKind, pairs: &mut Vec<Pair>) {
    pairs.extend(found.into_iter().map(|(a, b)| Pair {
        a,
        a_role: PortRole::IslEast,
        b,
        b_role: PortRole::IslWest,
        kind,
    }));
}

/// Slot s of one plane with slot s + shift of the other.
fn shifted(from: &[usize], to: &[usize], shift: i64) -> Vec<(usize, usize)> {
    let n = to.len() as i64;
    from.iter()
        .enumerate()
        .map(|(s, &a)| (a, to[(s as i64 + shift).rem_euclid(n) as usize]))
        .collect()
}

/// Pairs off two planes one to one, as far as they see each other within range: the shortest range first,
/// ties to the lower indices.
fn nearest(
    from: &[usize],
    to: &[usize],
    positions: &[DVec3],
    grid: &PlusGrid,
) -> Vec<(usize, usize)> {
    let mut candidates: Vec<(f64, usize, usize)> = from
        .iter()
        .flat_map(|&a| {
            to.iter()
                .map(move |&b| (positions[a].distance(positions[b]), a, b))
        })
        .filter(|c| c.0 <= grid.max_range_m)
        .filter(|c| line_of_sight(positions[c.1], positions[c.2], grid.clearance_m))
        .collect();
    candidates.sort_by(|x, y| x.0.total_cmp(&y.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    let mut taken = std::collections::BTreeSet::new();
    let mut pairs = Vec::new();
    for (_, a, b) in candidates {
        // The planes are disjoint, so one set serves both ends.
        if !taken.contains(&a) && !taken.contains(&b) {
            taken.extend([a, b]);
            pairs.push((a, b));
        }
    }
    pairs.sort_unstable();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(neighbours: Neighbours) -> PlusGrid {
        PlusGrid {
            neighbours,
            polar_cutoff_deg: 90.0,
            max_range_m: 1e9,
            clearance_m: 0.0,
        }
    }

    fn walker(planes: u16, slots: u16) -> Vec<Satellite> {
        (0..planes)
            .flat_map(|p| (0..slots).map(move |s| (p, s)))
            .map(|(plane, slot)| Satellite {
                name: format!("{plane}-{slot}"),
                shell: 0,
                plane,
                slot,
            })
            .collect()
    }

    fn pairs(planes: u16, slots: u16, phasing: u32, wrap: Wrap) -> Vec<Pair> {
        let sats = walker(planes, slots);
        let zero = vec![DVec3::ZERO; sats.len()];
        let phases = vec![0.0; sats.len()];
        plus_grid(
            &sats,
            &grid(Neighbours::Walker { phasing, wrap }),
            &zero,
            &phases,
        )
    }

    #[test]
    fn every_port_is_used_at_most_once() {
        for (p, s, f) in [
            (6, 11, 2),
            (72, 22, 17),
            (72, 22, 45),
            (3, 3, 2),
            (2, 4, 1),
            (1, 5, 0),
        ] {
            let pairs = pairs(p, s, f, Wrap::Delta);
            let mut used = std::collections::BTreeSet::new();
            for pair in &pairs {
                assert_ne!(pair.a, pair.b);
                assert!(used.insert((pair.a, pair.a_role)), "{pair:?}");
                assert!(used.insert((pair.b, pair.b_role)), "{pair:?}");
            }
        }
    }

    #[test]
    fn counts() {
        let count = |k, v: &[Pair]| v.iter().filter(|p| p.kind == k).count();
        let delta = pairs(72, 22, 17, Wrap::Delta);
        assert_eq!(count(IslKind::IntraPlane, &delta), 72 * 22);
        assert_eq!(count(IslKind::InterPlane, &delta), 72 * 22);
        let star = pairs(6, 11, 2, Wrap::StarSeamOff);
        assert_eq!(count(IslKind::IntraPlane, &star), 66);
        assert_eq!(count(IslKind::InterPlane, &star), 55);
        assert_eq!(count(IslKind::Seam, &star), 0);
        assert_eq!(count(IslKind::IntraPlane, &pairs(1, 2, 0, Wrap::Delta)), 1);
        assert_eq!(count(IslKind::IntraPlane, &pairs(1, 1, 0, Wrap::Delta)), 0);
    }

    #[test]
    fn phase_difference_is_never_more_than_half_a_slot() {
        for (planes, slots) in [(6_u16, 11_u16), (72, 22), (5, 4), (7, 3)] {
            for f in 0..u32::from(planes) {
                for pair in pairs(planes, slots, f, Wrap::Delta) {
                    if pair.kind != IslKind::InterPlane {
                        continue;
                    }
                    // Phase in units of 1/P slot, modulo a whole plane.
                    let (pl, sl) = (i64::from(planes), i64::from(slots));
                    let phase = |i: usize| {
                        let (p, s) = (i as i64 / sl, i as i64 % sl);
                        s * pl + i64::from(f) * p
                    };
                    let round = pl * sl;
                    let d = (phase(pair.b) - phase(pair.a)).rem_euclid(round);
                    let d = d.min(round - d);
                    assert!(2 * d <= pl, "{planes}x{slots} F={f}: {d}/{pl} in {pair:?}");
                }
            }
        }
    }

    #[test]
    fn nearest_is_one_to_one_and_leaves_out_the_far() {
        let at = |x: f64, y: f64| DVec3::new(x, y, 7e6);
        let any = Neighbours::Nearest { wrap: Wrap::Delta };
        let within = |max_range_m| PlusGrid {
            max_range_m,
            ..grid(any)
        };
        let positions = [
            at(0.0, 0.0),
            at(10.0, 0.0),
            at(0.0, 1.0),
            at(9.0, 1.0),
            at(99.0, 1.0),
        ];
        assert_eq!(
            nearest(&[0, 1], &[2, 3, 4], &positions, &within(5.0)),
            vec![(0, 2), (1, 3)]
        );
        // Both want 2; the shorter wins, the other takes what is left in range.
        let positions = [at(0.0, 0.0), at(1.0, 0.0), at(0.9, 0.0), at(3.0, 0.0)];
        assert_eq!(
            nearest(&[0, 1], &[2, 3], &positions, &within(5.0)),
            vec![(0, 3), (1, 2)]
        );
        assert_eq!(
            nearest(&[0, 1], &[2, 3], &positions, &within(2.0)),
            vec![(1, 2)]
        );
        // The Earth is in the way, however far a laser reaches.
        let positions = [at(0.0, 0.0), -at(0.0, 0.0)];
        assert_eq!(nearest(&[0], &[1], &positions, &within(1e9)), vec![]);
    }
}
