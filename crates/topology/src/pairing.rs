//! The satellites that a laser could ever link: pairs of ports, chosen once at time 0 and kept.
//!
//! Whether a pair is up at an instant is decided elsewhere ([`crate::why`]). Pairs are kept for the whole run,
//! so that interfaces and addresses are stable.

use crate::geometry::Motion;
use crate::node::LaserSlot;
use crate::pairing_free::{listed, nearest_few};
use crate::spec::{LaserPairing, Neighbours, PlusGrid, Satellite, Wrap};
use constel_orbit::TemeState;
use constel_orbit::line_of_sight;
use constel_orbit::shells::along_plane_rad;
use std::collections::BTreeMap;

/// The kind of neighbours that an ISL joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IslKind {
    /// Same plane.
    IntraPlane,
    /// Adjacent planes flying side by side.
    InterPlane,
    /// Adjacent planes flying in opposite directions.
    Seam,
    /// Different shells.
    CrossShell,
}

/// A pair within one constellation, by index into its satellites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) a: usize,
    pub(crate) a_laser: LaserSlot,
    pub(crate) b: usize,
    pub(crate) b_laser: LaserSlot,
    pub(crate) kind: IslKind,
}

/// Satellites of one shell by plane, each plane in order of flight; values are indices.
type Planes = BTreeMap<u16, Vec<usize>>;

/// Two planes of a shell that fly in opposite directions side by side, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeamPlanes {
    pub(crate) shell: u16,
    pub(crate) planes: (u16, u16),
}

/// The result of pairing.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    pub(crate) pairs: Vec<Pair>,
    pub(crate) seams: Vec<SeamPlanes>,
}

/// All pairs of a constellation, from how its satellites move at time 0.
pub(crate) fn pair(
    satellites: &[Satellite],
    grid: &PlusGrid,
    pairing: &LaserPairing,
    motions: &[Motion],
) -> Pairing {
    match pairing {
        LaserPairing::Grid => plus_grid(satellites, grid, motions),
        LaserPairing::Ring => {
            let mut rings = plus_grid(satellites, grid, motions);
            rings.pairs.retain(|p| p.kind == IslKind::IntraPlane);
            rings
        }
        LaserPairing::Nearest(most) => Pairing {
            pairs: nearest_few(satellites, grid, usize::from(*most), motions),
            seams: Vec::new(),
        },
        LaserPairing::List(names) => Pairing {
            pairs: listed(satellites, names),
            seams: Vec::new(),
        },
    }
}

/// Pairs off satellites of two shells one to one: `spans` gives each pair's longest distance over the time
/// looked at, `None` where they do not see each other. The shortest first.
pub(crate) fn cross(
    from: &[usize],
    to: &[usize],
    max_range_m: f64,
    span_m: impl Fn(usize, usize) -> Option<f64>,
) -> Vec<(usize, usize)> {
    nearest(from, to, max_range_m, span_m)
}

/// All pairs of a +Grid, shell by shell, from how its satellites move at time 0.
fn plus_grid(satellites: &[Satellite], grid: &PlusGrid, motions: &[Motion]) -> Pairing {
    let mut shells: BTreeMap<u16, Planes> = BTreeMap::new();
    for (i, sat) in satellites.iter().enumerate() {
        shells
            .entry(sat.shell)
            .or_default()
            .entry(sat.plane)
            .or_default()
            .push(i);
    }
    let mut pairing = Pairing::default();
    for (&shell, planes) in &mut shells {
        for ring in planes.values_mut() {
            match grid.neighbours {
                Neighbours::Walker { .. } => ring.sort_by_key(|&i| satellites[i].slot),
                Neighbours::Nearest { .. } => sort_by_flight(ring, motions),
            }
            intra_plane(ring, &mut pairing.pairs);
        }
        let mut rings: Vec<(u16, &[usize])> = planes
            .iter()
            .map(|(number, ring)| (*number, ring.as_slice()))
            .collect();
        let wrap = match grid.neighbours {
            Neighbours::Walker { wrap, .. } => wrap,
            Neighbours::Nearest { wrap } => {
                seam_last(&mut rings, motions);
                wrap
            }
        };
        if wrap != Wrap::Delta
            && let [first, .., last] = rings[..]
            && rings.len() > 2
        {
            pairing.seams.push(SeamPlanes {
                shell,
                planes: (last.0, first.0),
            });
        }
        let rings: Vec<&[usize]> = rings.iter().map(|r| r.1).collect();
        inter_plane(&rings, grid, wrap, motions, &mut pairing.pairs);
    }
    pairing
}

/// Rotates the numbering of planes so that the widest step from one ascending node to the next is between the
/// last and the first. In a star that is the seam. (Real planes are numbered from right ascension 0 on, wherever
/// that is.) In a delta it does no harm.
fn seam_last(rings: &mut [(u16, &[usize])], motions: &[Motion]) {
    // Nodes of one plane are close together; the mean of their directions is not affected by the wrap-around at
    // 360 degrees.
    let node = |ring: &[usize]| {
        let nodes = ring.iter().map(|&i| motions[i].node_rad.sin_cos());
        let (sin, cos) = nodes.fold((0.0, 0.0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
        f64::atan2(sin, cos)
    };
    let nodes: Vec<f64> = rings.iter().map(|r| node(r.1)).collect();
    let step =
        |p: usize| (nodes[(p + 1) % nodes.len()] - nodes[p]).rem_euclid(std::f64::consts::TAU);
    // Equally wide steps, as in an ideal delta, differ by rounding only: the last then stays the last.
    let widest = (0..rings.len())
        .rev()
        .reduce(|best, p| if step(p) > step(best) + 1e-6 { p } else { best });
    if let Some(widest) = widest {
        rings.rotate_left((widest + 1) % nodes.len());
    }
}

/// Sorts the satellites of a plane in order of flight, in the mean frame of the plane: near the equator each
/// satellite's own node lies anywhere.
fn sort_by_flight(ring: &mut [usize], motions: &[Motion]) {
    let states: Vec<TemeState> = ring
        .iter()
        .map(|&i| TemeState {
            position_teme_m: motions[i].position,
            velocity_teme_m_per_s: motions[i].quarter,
        })
        .collect();
    let angles = along_plane_rad(&states).into_iter();
    let angles = angles.map(|angle| angle.rem_euclid(std::f64::consts::TAU));
    let mut by_angle: Vec<(f64, usize)> = angles.zip(ring.iter().copied()).collect();
    by_angle.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (place, (_, satellite)) in ring.iter_mut().zip(by_angle) {
        *place = satellite;
    }
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
            a_laser: LaserSlot::Fore,
            b: ring[(s + 1) % ring.len()],
            b_laser: LaserSlot::Aft,
            kind: IslKind::IntraPlane,
        });
    }
}

fn inter_plane(
    rings: &[&[usize]],
    grid: &PlusGrid,
    wrap: Wrap,
    motions: &[Motion],
    pairs: &mut Vec<Pair>,
) {
    let nearest_mean = |a: &[usize], b: &[usize]| {
        nearest(a, b, grid.max_range_m, |x, y| {
            let (x, y) = (&motions[x], &motions[y]);
            let sight = line_of_sight(x.position, y.position, grid.clearance_m)
                || line_of_sight(x.quarter, y.quarter, grid.clearance_m);
            sight.then(|| x.mean_square_m2(y).sqrt())
        })
    };
    for p in 0..rings.len().saturating_sub(1) {
        let found = match grid.neighbours {
            // Plane p+1 is ahead by F/P of a slot: the same slot is nearest in phase, or the one behind it.
            Neighbours::Walker {
                phasing,
                slots_ahead,
                ..
            } => {
                let nearest = -ahead(phasing, rings.len());
                shifted(rings[p], rings[p + 1], nearest + i64::from(slots_ahead))
            }
            Neighbours::Nearest { .. } => nearest_mean(rings[p], rings[p + 1]),
        };
        push_inter(found, IslKind::InterPlane, pairs);
    }
    // With two planes, the wrap would join the same planes again; a delta's two planes are 180 degrees apart in
    // both directions, so one link is sufficient.
    if rings.len() < 3 {
        return;
    }
    let (last, first) = (rings[rings.len() - 1], rings[0]);
    match wrap {
        Wrap::StarSeamOff => {}
        // The planes have opposite directions: phases have no meaning, only the distance now has.
        Wrap::StarSeamOn => {
            let found = nearest(last, first, grid.max_range_m, |x, y| {
                let (x, y) = (motions[x].position, motions[y].position);
                line_of_sight(x, y, grid.clearance_m).then(|| x.distance(y))
            });
            push_inter(found, IslKind::Seam, pairs);
        }
        Wrap::Delta => {
            let found = match grid.neighbours {
                // The phase differences F/P of all planes add up to F slots around the Earth.
                Neighbours::Walker {
                    phasing,
                    slots_ahead,
                    ..
                } => {
                    let nearest = i64::from(phasing) - ahead(phasing, rings.len());
                    shifted(last, first, nearest + i64::from(slots_ahead))
                }
                Neighbours::Nearest { .. } => nearest_mean(last, first),
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
        a_laser: LaserSlot::East,
        b,
        b_laser: LaserSlot::West,
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

/// Pairs off two planes one to one: the shortest first, ties to the lower indices. `length_m` is `None` for
/// satellites that never see each other.
fn nearest(
    from: &[usize],
    to: &[usize],
    max_range_m: f64,
    length_m: impl Fn(usize, usize) -> Option<f64>,
) -> Vec<(usize, usize)> {
    let mut candidates: Vec<(f64, usize, usize)> = Vec::new();
    for &a in from {
        let seen = to.iter().filter_map(|&b| Some((length_m(a, b)?, a, b)));
        candidates.extend(seen.filter(|c| c.0 <= max_range_m));
    }
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
    use constel_orbit::DVec3;

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
        ahead_pairs(planes, slots, phasing, wrap, 0)
    }

    fn ahead_pairs(
        planes: u16,
        slots: u16,
        phasing: u32,
        wrap: Wrap,
        slots_ahead: i16,
    ) -> Vec<Pair> {
        let sats = walker(planes, slots);
        let still = Motion::new(DVec3::X, DVec3::X, 1.0);
        let grid = grid(Neighbours::Walker {
            phasing,
            wrap,
            slots_ahead,
        });
        plus_grid(&sats, &grid, &vec![still; sats.len()]).pairs
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
                assert!(used.insert((pair.a, pair.a_laser)), "{pair:?}");
                assert!(used.insert((pair.b, pair.b_laser)), "{pair:?}");
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
    fn slots_ahead_count_from_the_nearest_on_every_link_and_round_the_wrap() {
        let lead = |pair: &Pair, slots: usize, planes: i64, f: i64| {
            let phase = |i: usize| (i % slots) as i64 * planes + f * (i / slots) as i64;
            (phase(pair.b) - phase(pair.a)).rem_euclid(planes * slots as i64)
        };
        // 7/5/3: the nearest of the next plane is 2/5 of a slot behind; one slot on, it is 3/5 ahead.
        let (planes, slots, f) = (5, 7, 3);
        for (slots_ahead, expected) in [(0, 33), (1, 3), (-1, 28), (2, 8)] {
            let pairs = ahead_pairs(planes, slots, f, Wrap::Delta, slots_ahead);
            let across = pairs.iter().filter(|p| p.kind == IslKind::InterPlane);
            let leads: Vec<i64> = across.map(|p| lead(p, 7, 5, 3)).collect();
            assert_eq!(leads, [expected; 35], "{slots_ahead}");
        }
    }

    #[test]
    fn nearest_is_one_to_one_and_leaves_out_the_far() {
        let pair = |from: &[f64], to: &[f64], max| {
            let places = [from, to].concat();
            let (from, to): (Vec<usize>, Vec<usize>) =
                (0..places.len()).partition(|i| *i < from.len());
            nearest(&from, &to, max, |a, b| Some((places[a] - places[b]).abs()))
        };
        assert_eq!(
            pair(&[0.0, 10.0], &[0.5, 9.0, 99.0], 5.0),
            vec![(0, 2), (1, 3)]
        );
        // Both want 2; the shorter wins, the other takes what is left in range.
        assert_eq!(pair(&[0.0, 1.0], &[0.9, 3.0], 5.0), vec![(0, 3), (1, 2)]);
        assert_eq!(pair(&[0.0, 1.0], &[0.9, 3.0], 2.0), vec![(1, 2)]);
        // A pair that never sees each other is left out.
        assert_eq!(nearest(&[0], &[1], 1e9, |_, _| None), vec![]);
    }

    #[test]
    fn the_seam_is_where_the_nodes_are_farthest_apart() {
        // Nodes at 16, 48, 250, 282, 313, 345 degrees: the seam is between 48 and 250.
        let nodes = [16.0, 48.0, 250.0, 282.0, 313.0, 345.0_f64];
        let still = Motion::new(DVec3::X, DVec3::X, 1.0);
        let motions: Vec<Motion> = nodes
            .iter()
            .map(|n| Motion {
                node_rad: n.to_radians(),
                ..still
            })
            .collect();
        let members: Vec<Vec<usize>> = (0..6).map(|i| vec![i]).collect();
        let mut rings: Vec<(u16, &[usize])> = members
            .iter()
            .enumerate()
            .map(|(p, m)| (p as u16, m.as_slice()))
            .collect();
        seam_last(&mut rings, &motions);
        assert_eq!(
            rings.iter().map(|r| r.0).collect::<Vec<_>>(),
            [2, 3, 4, 5, 0, 1]
        );
        // An even spread stays as it is.
        let motions: Vec<Motion> = (0..6)
            .map(|p| Motion {
                node_rad: (f64::from(p) * 60.0 - 180.0).to_radians(),
                ..still
            })
            .collect();
        let mut rings: Vec<(u16, &[usize])> = members
            .iter()
            .enumerate()
            .map(|(p, m)| (p as u16, m.as_slice()))
            .collect();
        seam_last(&mut rings, &motions);
        assert_eq!(
            rings.iter().map(|r| r.0).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5]
        );
    }
}
