//! Laser pairs without a grid: the nearest few, and lists.

use crate::geometry::Motion;
use crate::node::LaserSlot;
use crate::pairing::{IslKind, Pair};
use crate::spec::{PlusGrid, Satellite};
use constel_orbit::line_of_sight;
use std::collections::BTreeMap;

/// Pairs off satellites of each shell, the nearest over an orbit first, up to `most` links each.
pub(crate) fn nearest_few(
    satellites: &[Satellite],
    grid: &PlusGrid,
    most: usize,
    motions: &[Motion],
) -> Vec<Pair> {
    let mut candidates: Vec<(f64, usize, usize)> = Vec::new();
    let range_squared = grid.max_range_m * grid.max_range_m;
    for (a, x) in motions.iter().enumerate() {
        for (b, y) in motions.iter().enumerate().skip(a + 1) {
            let mean = x.mean_square_m2(y);
            if satellites[a].shell == satellites[b].shell
                && mean <= range_squared
                && (line_of_sight(x.position, y.position, grid.clearance_m)
                    || line_of_sight(x.quarter, y.quarter, grid.clearance_m))
            {
                candidates.push((mean, a, b));
            }
        }
    }
    candidates.sort_unstable_by(|x, y| x.0.total_cmp(&y.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    let mut ports = Ports::new(satellites, most);
    candidates
        .into_iter()
        .filter_map(|(_, a, b)| ports.join(a, b))
        .collect()
}

/// The pairs the user lists; names and numbers are checked before.
pub(crate) fn listed(satellites: &[Satellite], names: &[(String, String)]) -> Vec<Pair> {
    let places: BTreeMap<&str, usize> = satellites
        .iter()
        .enumerate()
        .map(|(i, s)| (s.name.as_str(), i))
        .collect();
    let mut ports = Ports::new(satellites, LaserSlot::IN_SHELL.len());
    let ends = names
        .iter()
        .filter_map(|(a, b)| Some((*places.get(a.as_str())?, *places.get(b.as_str())?)));
    ends.filter_map(|(a, b)| ports.join(a, b)).collect()
}

/// Lasers without a fixed direction: each satellite's are used in order.
struct Ports<'a> {
    satellites: &'a [Satellite],
    used: Vec<usize>,
    most: usize,
}

impl<'a> Ports<'a> {
    fn new(satellites: &'a [Satellite], most: usize) -> Ports<'a> {
        let most = most.min(LaserSlot::IN_SHELL.len());
        Ports {
            satellites,
            used: vec![0; satellites.len()],
            most,
        }
    }

    /// The next free lasers of both; `None` if one has none.
    fn join(&mut self, a: usize, b: usize) -> Option<Pair> {
        let (i, j) = (self.used[a], self.used[b]);
        if i >= self.most || j >= self.most {
            return None;
        }
        self.used[a] += 1;
        self.used[b] += 1;
        let same = |s: &Satellite| (s.shell, s.plane);
        let kind = if same(&self.satellites[a]) == same(&self.satellites[b]) {
            IslKind::IntraPlane
        } else {
            IslKind::InterPlane
        };
        let (a_laser, b_laser) = (LaserSlot::IN_SHELL[i], LaserSlot::IN_SHELL[j]);
        Some(Pair {
            a,
            a_laser,
            b,
            b_laser,
            kind,
        })
    }
}
