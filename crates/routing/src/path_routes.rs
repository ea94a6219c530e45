//! Routes along disjoint paths, and the changes from one set of paths to the next.

use crate::graph::{NextHop, PathHop};
use crate::path_addresses::{PathEnd, PathPair};
use constel_topology::NodeId;
use std::collections::BTreeMap;

/// One node's route to one end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    hop: NextHop,
    /// For how many sweeps yet it stays though the path leads elsewhere; `None` on the path.
    left: Option<u8>,
}

/// The routes to ends of paths in the tables of all nodes: at the nodes of each path, and for a while at those that the path
/// has left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathRoutes {
    held: BTreeMap<PathEnd, BTreeMap<NodeId, Held>>,
}

/// One change: `node` now reaches `goal`'s addresses by `hop`, or no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathChange {
    /// The node whose table changes.
    pub node: NodeId,
    /// The end of the path.
    pub goal: PathEnd,
    /// The new next hop, or the one that goes.
    pub hop: NextHop,
    /// False when the route goes.
    pub set: bool,
}

impl PathRoutes {
    /// Returns the tables for the given `paths` (by pair, in order, fewer than requested if there are no more), and the
    /// smallest sequence of changes that creates them without loops.
    ///
    /// The changes are sorted by end: nodes nearer to it on the new path first, removals last. A node that a path leaves
    /// keeps its route, for packets in transit on the old path, until the next change with `sweep`, which comes a step
    /// later. If it is left by a change without `sweep` (somewhere within a step), it keeps the route until the change after
    /// that. Only the path's first node keeps none, so that no new packet is sent on a former path.
    ///
    /// No packet can loop, at any moment and however long old routes stay. Let the age of a route be that of the newest path
    /// its node was on. The next node on that path is then on it or on a newer one, and was changed before. Routes therefore
    /// do not get older from hop to hop, and between routes of one age a packet follows one path and gets nearer with each
    /// hop.
    #[must_use]
    pub fn follow(
        &self,
        pairs: &[PathPair],
        paths: &[Vec<Vec<PathHop>>],
        sweep: bool,
    ) -> (PathRoutes, Vec<PathChange>) {
        let mut after = PathRoutes::default();
        let mut changes = Vec::new();
        for (pair, row) in pairs.iter().enumerate() {
            for path in 1..=row.paths {
                let hops = paths[pair].get(usize::from(path) - 1);
                for second in [true, false] {
                    let goal = PathEnd { pair, path, second };
                    let way = hops.map_or_else(Vec::new, |hops| towards(hops, second));
                    let first = row.ends[usize::from(!second)];
                    let table = self.change(goal, first, &way, sweep, &mut changes);
                    if !table.is_empty() {
                        after.held.insert(goal, table);
                    }
                }
            }
        }
        (after, changes)
    }

    /// The routes that a node's table holds: ends of paths, and the next hop to each.
    pub fn of_node(&self, node: NodeId) -> impl Iterator<Item = (PathEnd, NextHop)> {
        let held = move |(goal, table): (&PathEnd, &BTreeMap<NodeId, Held>)| {
            Some((*goal, table.get(&node)?.hop))
        };
        self.held.iter().filter_map(held)
    }

    /// The routes to one end: `way` is the new path, the node nearest to the end first, `first` the node it begins at.
    fn change(
        &self,
        goal: PathEnd,
        first: NodeId,
        way: &[(NodeId, NextHop)],
        sweep: bool,
        changes: &mut Vec<PathChange>,
    ) -> BTreeMap<NodeId, Held> {
        let before = self.held.get(&goal);
        let mut table = BTreeMap::new();
        for &(node, hop) in way {
            let held = before.and_then(|before| before.get(&node));
            if held.is_none_or(|held| held.hop != hop) {
                changes.push(PathChange {
                    node,
                    goal,
                    hop,
                    set: true,
                });
            }
            table.insert(node, Held { hop, left: None });
        }
        for (&node, held) in before.into_iter().flatten() {
            if table.contains_key(&node) {
                continue;
            }
            let left = match held.left {
                None => Some(u8::from(!sweep)),
                Some(left) if sweep => left.checked_sub(1),
                Some(left) => Some(left),
            };
            match left {
                Some(_) if node != first => {
                    table.insert(node, Held { left, ..*held });
                }
                _ => changes.push(PathChange {
                    node,
                    goal,
                    hop: held.hop,
                    set: false,
                }),
            }
        }
        table
    }
}

/// The nodes of a path with their hops towards its second end or its first, the nearest to that end first.
fn towards(path: &[PathHop], second: bool) -> Vec<(NodeId, NextHop)> {
    let there = |hop: &PathHop| {
        let next = NextHop {
            port: hop.port,
            far_port: hop.far_port,
        };
        (hop.from, next)
    };
    let back = |hop: &PathHop| {
        let next = NextHop {
            port: hop.far_port,
            far_port: hop.port,
        };
        (hop.to, next)
    };
    if second {
        path.iter().rev().map(there).collect()
    } else {
        path.iter().map(back).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use constel_link::PortId;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A ladder with a bypass.
    const LINKS: &[(u32, u32)] = &[
        (0, 1),
        (0, 2),
        (1, 3),
        (2, 4),
        (3, 5),
        (4, 6),
        (5, 7),
        (6, 7),
        (1, 2),
        (3, 4),
        (5, 6),
        (0, 8),
        (8, 9),
        (9, 7),
        (8, 3),
        (9, 5),
    ];
    const PAIR: [NodeId; 2] = [NodeId(0), NodeId(7)];

    /// The paths of a moment: some links gone, the others with delays of few values.
    fn paths(delays: &[u64]) -> Vec<Vec<Vec<PathHop>>> {
        let links: Vec<_> = LINKS
            .iter()
            .zip(delays)
            .map(|(&(a, b), &delay)| (a, b, delay, delay))
            .collect();
        vec![Graph::of(10, &links, &[]).disjoint(PAIR[0], PAIR[1], 3)]
    }

    fn pairs() -> Vec<PathPair> {
        vec![PathPair {
            name: "p".to_owned(),
            ends: PAIR,
            paths: 3,
        }]
    }

    fn node_at(port: PortId) -> NodeId {
        let (a, b) = LINKS[port.0 as usize / 2];
        NodeId(if port.0.is_multiple_of(2) { a } else { b })
    }

    /// The tables of all nodes: to whom each hands packets for each end.
    #[derive(Default)]
    struct Kernels {
        next: BTreeMap<(NodeId, PathEnd), NodeId>,
    }

    impl Kernels {
        fn apply(&mut self, change: &PathChange) {
            let key = (change.node, change.goal);
            assert_eq!(node_at(change.hop.port), change.node);
            if change.set {
                self.next.insert(key, node_at(change.hop.far_port));
            } else {
                assert!(self.next.remove(&key).is_some(), "{change:?}");
            }
        }

        fn comes_round(&self, goal: PathEnd) -> bool {
            (0..10).map(NodeId).any(|start| {
                let (mut at, mut seen) = (start, BTreeSet::new());
                while let Some(&next) = self.next.get(&(at, goal)) {
                    if !seen.insert(at) {
                        return true;
                    }
                    at = next;
                }
                false
            })
        }

        /// Returns the path of packets to the other end of the path.
        fn way(&self, goal: PathEnd) -> Vec<NodeId> {
            let mut at = PAIR[usize::from(!goal.second)];
            let mut way = vec![at];
            while let Some(&next) = self.next.get(&(at, goal)) {
                at = next;
                way.push(at);
                assert!(way.len() < 20);
            }
            way
        }
    }

    fn goals() -> impl Iterator<Item = PathEnd> {
        (1..=3).flat_map(|path| {
            [false, true].map(|second| PathEnd {
                pair: 0,
                path,
                second,
            })
        })
    }

    /// The nodes of a path from the one end or the other; none where there is no path.
    fn nodes(path: Option<&Vec<PathHop>>, second: bool) -> Vec<NodeId> {
        let Some(path) = path else { return vec![] };
        let mut nodes: Vec<NodeId> = std::iter::once(path[0].from)
            .chain(path.iter().map(|hop| hop.to))
            .collect();
        if !second {
            nodes.reverse();
        }
        nodes
    }

    proptest! {
        /// After every single change no packet loops, and each packet on a path arrives by the old or the new one. In the
        /// end the tables hold exactly the new paths and permitted old routes.
        #[test]
        fn paths_change_without_loops(
            moments in prop::collection::vec((prop::collection::vec(0_u64..6, 16), any::<bool>()), 2..8),
        ) {
            let mut kernels = Kernels::default();
            let mut routes = PathRoutes::default();
            let mut before = vec![Vec::new()];
            for (delays, sweep) in moments {
                let now = paths(&delays);
                let (after, changes) = routes.follow(&pairs(), &now, sweep);
                for change in &changes {
                    kernels.apply(change);
                    for goal in goals() {
                        prop_assert!(!kernels.comes_round(goal), "{:?} after {:?}", goal, change);
                    }
                    let (goal, at) = (change.goal, usize::from(change.goal.path) - 1);
                    let old = nodes(before[0].get(at), goal.second);
                    let way = kernels.way(goal);
                    if !old.is_empty() {
                        let lost = way.last() != old.last() && now[0].get(at).is_some();
                        prop_assert!(!lost, "{:?} ends at {:?}", goal, way);
                    }
                }
                for goal in goals() {
                    let new = nodes(now[0].get(usize::from(goal.path) - 1), goal.second);
                    let way = kernels.way(goal);
                    if new.is_empty() {
                        prop_assert_eq!(way.len(), 1, "no path, no way");
                    } else {
                        prop_assert_eq!(way, new);
                    }
                }
                routes = after;
                before = now;
            }
            // Without further changes, two sweeps later the tables hold only the paths.
            let (routes, _) = routes.follow(&pairs(), &before, true);
            let (routes, _) = routes.follow(&pairs(), &before, true);
            let (again, none) = routes.follow(&pairs(), &before, true);
            prop_assert_eq!(none, vec![]);
            for goal in goals() {
                let path = before[0].get(usize::from(goal.path) - 1);
                let held = again.held.get(&goal).map_or(0, BTreeMap::len);
                prop_assert_eq!(held, path.map_or(0, Vec::len));
            }
        }
    }

    #[test]
    fn what_a_path_leaves_stays_for_a_step_but_for_its_first_node() {
        let all = paths(&[1; 16]);
        let (routes, changes) = PathRoutes::default().follow(&pairs(), &all, true);
        let hops: usize = all[0].iter().map(Vec::len).sum();
        assert_eq!(changes.len(), 2 * hops);
        assert!(changes.iter().all(|change| change.set));
        // The change next to the first end comes first among that end's routes.
        let none = vec![Vec::new()];
        let (left, changes) = routes.follow(&pairs(), &none, true);
        let gone: Vec<NodeId> = changes.iter().map(|change| change.node).collect();
        assert_eq!(gone, [0, 7, 0, 7, 0, 7].map(NodeId), "{changes:?}");
        assert!(changes.iter().all(|change| !change.set));
        let (same, changes) = left.follow(&pairs(), &none, false);
        assert_eq!((&same, changes.len()), (&left, 0));
        let (empty, changes) = left.follow(&pairs(), &none, true);
        assert_eq!(changes.len(), 2 * hops - 6);
        assert_eq!(empty, PathRoutes::default());
        // Left within a step: still there after the next one's sweep, and gone after that.
        let (left, _) = routes.follow(&pairs(), &none, false);
        let (left, changes) = left.follow(&pairs(), &none, true);
        assert_eq!(changes, []);
        let (empty, changes) = left.follow(&pairs(), &none, true);
        assert_eq!(
            (empty, changes.len()),
            (PathRoutes::default(), 2 * hops - 6)
        );
    }
}
