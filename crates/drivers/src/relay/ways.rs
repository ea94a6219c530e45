//! Edges of a thread's ports, whichever thread serves them. They determine the thread to which a frame is passed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use constel_link::{CheckedUpdate, EdgeChange, PortId, is_group, port_of_mac};

/// An edge that exists, or no longer exists, after an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WayChange {
    from: PortId,
    to: PortId,
    there: bool,
}

/// Returns the changes of an update for each of `threads` threads, by the ports that edges leave.
pub(crate) fn changes(
    update: &CheckedUpdate,
    threads: usize,
    of: impl Fn(PortId) -> usize,
) -> Vec<Vec<WayChange>> {
    let mut all = vec![Vec::new(); threads];
    for change in update.changes() {
        let (from, to) = change.edge();
        all[of(from)].push(WayChange {
            from,
            to,
            there: matches!(change, EdgeChange::Set { .. }),
        });
    }
    all
}

/// The edges that a frame takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgeChoice {
    /// The edge to this port.
    One(PortId),
    /// All edges of its port.
    All,
    /// No edge.
    None,
}

/// The edges of a thread's ports.
#[derive(Debug, Default)]
pub(crate) struct PortEdges {
    /// By port: the far ports of its edges.
    far: Vec<Vec<PortId>>,
    /// Place of each edge in its port's list.
    places: HashMap<u64, u32, BuildHasherDefault<Mixer>>,
}

fn key(from: PortId, to: PortId) -> u64 {
    u64::from(from.0) << 32 | u64::from(to.0)
}

impl PortEdges {
    pub(crate) fn new(ports: u32) -> PortEdges {
        PortEdges {
            far: vec![Vec::new(); ports as usize],
            places: HashMap::default(),
        }
    }

    /// Returns the edges of a frame. The only edge of a port takes every frame; otherwise a frame takes the edge to the
    /// port with its destination address, and a frame for a group takes all edges.
    #[inline]
    pub(crate) fn of(&self, from: PortId, destination: [u8; 6]) -> EdgeChoice {
        match self.far(from) {
            [] => EdgeChoice::None,
            [only] => EdgeChoice::One(*only),
            _ if is_group(destination) => EdgeChoice::All,
            _ => port_of_mac(destination)
                .filter(|to| self.places.contains_key(&key(from, *to)))
                .map_or(EdgeChoice::None, EdgeChoice::One),
        }
    }

    /// Returns the far ports of a port's edges.
    pub(crate) fn far(&self, from: PortId) -> &[PortId] {
        self.far.get(from.0 as usize).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn apply(&mut self, changes: &[WayChange]) {
        for &WayChange { from, to, there } in changes {
            let list = &mut self.far[from.0 as usize];
            let edge = key(from, to);
            if there {
                self.places.entry(edge).or_insert_with(|| {
                    list.push(to);
                    list.len() as u32 - 1
                });
            } else if let Some(place) = self.places.remove(&edge) {
                // The last entry takes the freed place: record its new position.
                list.swap_remove(place as usize);
                if let Some(moved) = list.get(place as usize) {
                    self.places.insert(key(from, *moved), place);
                }
            }
        }
    }
}

/// A hash of the two numbers of an edge, without protection against chosen keys.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use constel_link::mac_of;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// As a plain set of edges says.
        #[test]
        fn ways_are_the_edges_that_are_there(
            all in prop::collection::vec((0u32..4, 0u32..6, any::<bool>()), 0..120)
        ) {
            let mut ways = PortEdges::new(4);
            let mut edges = std::collections::BTreeSet::new();
            for (from, to, there) in all {
                let (from, to) = (PortId(from), PortId(to));
                ways.apply(&[WayChange { from, to, there }]);
                if there { edges.insert((from, to)); } else { edges.remove(&(from, to)); }
                let mut far = ways.far(from).to_vec();
                far.sort_unstable();
                let expected: Vec<PortId> =
                    edges.iter().filter(|e| e.0 == from).map(|e| e.1).collect();
                prop_assert_eq!(&far, &expected);
                let way = |mac| ways.of(from, mac);
                match expected[..] {
                    [] => prop_assert_eq!(way(mac_of(to)), EdgeChoice::None),
                    [only] => {
                        prop_assert_eq!(way([0xff; 6]), EdgeChoice::One(only));
                        prop_assert_eq!(way([0x02, 1, 2, 3, 4, 5]), EdgeChoice::One(only));
                    }
                    _ => {
                        prop_assert_eq!(way([0xff; 6]), EdgeChoice::All);
                        prop_assert_eq!(way([0x02, 1, 2, 3, 4, 5]), EdgeChoice::None);
                        let one = edges.contains(&(from, to)).then_some(EdgeChoice::One(to));
                        prop_assert_eq!(way(mac_of(to)), one.unwrap_or(EdgeChoice::None));
                    }
                }
            }
        }
    }
}
