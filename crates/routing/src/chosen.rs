//! Routes that were chosen beforehand, as far as the links that there are carry them.

use std::collections::BTreeMap;

use constel_topology::NodeId;

use crate::graph::{Arc, Graph, NextHop, ShortestPaths, UNREACHABLE};
use crate::routes::Routes;

impl Graph {
    /// Returns the paths to `destination` that `chosen` defines: for each node, the neighbour that gets its packets, or
    /// `None`. A node has a path if all of it exists: each hop has a link, no intermediate node forbids transit, and it ends
    /// at the destination. If several links lead to the same neighbour, the one with the least delay is used. Costs are hops, so
    /// they decrease with each hop, as [`Routes::each_change`] requires.
    #[must_use]
    pub fn chosen_ways(&self, destination: NodeId, chosen: &[Option<NodeId>]) -> ShortestPaths {
        let nodes = self.node_count();
        let mut ways = ShortestPaths {
            cost: vec![UNREACHABLE; nodes],
            next: vec![None; nodes],
            others: BTreeMap::new(),
        };
        let mut settled = vec![false; nodes];
        ways.cost[destination.index()] = 0;
        settled[destination.index()] = true;
        let mut way: Vec<(u32, NextHop)> = Vec::new();
        for node in 0..nodes as u32 {
            way.clear();
            let mut at = node;
            while !settled[at as usize] {
                // A path that returns to a visited node leads nowhere, and is not followed twice.
                settled[at as usize] = true;
                let next = chosen.get(at as usize).copied().flatten();
                let Some(arc) = next.and_then(|next| self.link(at, next, destination)) else {
                    break;
                };
                way.push((at, arc.hop()));
                at = arc.peer;
            }
            let mut cost = ways.cost[at as usize];
            if cost == UNREACHABLE {
                continue;
            }
            for &(node, hop) in way.iter().rev() {
                cost += 1;
                ways.cost[node as usize] = cost;
                ways.next[node as usize] = Some(hop);
            }
        }
        ways
    }

    /// The link from a node to its neighbour `next` by which packets may go on to the destination.
    fn link(&self, node: u32, next: NodeId, destination: NodeId) -> Option<&Arc> {
        if next != destination && !self.is_transit(next.0) {
            return None;
        }
        let ways = self.ways_out(node).map(|(_, arc)| arc);
        ways.filter(|arc| arc.peer == next.0)
            .min_by_key(|arc| (arc.delay_ns, arc.port))
    }
}

impl Routes {
    /// Returns the next hops that were chosen beforehand, by [`Graph::chosen_ways`]. `chosen` has one list for each
    /// destination, in the order of node numbers.
    ///
    /// If there is not one list for each destination, or these are not in order.
    #[must_use]
    pub fn chosen(graph: &Graph, destinations: &[NodeId], chosen: &[Vec<Option<NodeId>>]) -> Self {
        assert_eq!(destinations.len(), chosen.len());
        assert!(destinations.is_sorted());
        let ways = destinations.iter().zip(chosen);
        Self::of(
            destinations.to_vec(),
            ways.map(|(destination, chosen)| graph.chosen_ways(*destination, chosen)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hops(ways: &ShortestPaths) -> Vec<Option<u32>> {
        let port = |hop: &Option<NextHop>| hop.as_ref().map(|hop| hop.port.0);
        ways.next.iter().map(port).collect()
    }

    fn nodes(chosen: &[u32]) -> Vec<Option<NodeId>> {
        let node = |n: &u32| (*n != u32::MAX).then_some(NodeId(*n));
        chosen.iter().map(node).collect()
    }

    const NONE: u32 = u32::MAX;

    /// 0 - 1 - 2 - 3 in a row, and 0 - 3.
    const RING: [(u32, u32, u64, u64); 4] =
        [(0, 1, 5, 5), (1, 2, 5, 5), (2, 3, 5, 5), (0, 3, 50, 50)];

    #[test]
    fn the_way_is_the_one_chosen_not_the_shortest() {
        let graph = Graph::of(4, &RING, &[]);
        let ways = graph.chosen_ways(NodeId(0), &nodes(&[NONE, 2, 3, 0]));
        assert_eq!(ways.cost, [0, 3, 2, 1]);
        assert_eq!(hops(&ways), [None, Some(2), Some(4), Some(7)]);
    }

    #[test]
    fn what_does_not_arrive_is_no_route() {
        let graph = Graph::of(4, &RING, &[]);
        // 1 and 2 hand to each other; 3 arrives.
        let ways = graph.chosen_ways(NodeId(0), &nodes(&[NONE, 2, 1, 0]));
        assert_eq!(ways.cost, [0, UNREACHABLE, UNREACHABLE, 1]);
        // 2 has no link to 0; what leads through it has no route either.
        let ways = graph.chosen_ways(NodeId(0), &nodes(&[NONE, 2, 0, NONE]));
        assert_eq!(hops(&ways), [None; 4]);
        // Node 2 forbids transit.
        let ends = Graph::of(4, &RING, &[2]);
        let ways = ends.chosen_ways(NodeId(0), &nodes(&[NONE, 2, 3, 0]));
        assert_eq!(hops(&ways), [None, None, Some(4), Some(7)]);
    }

    #[test]
    fn of_two_links_the_shorter_one() {
        let links = [(0, 1, 9, 9), (0, 1, 3, 3)];
        let ways = Graph::of(2, &links, &[]).chosen_ways(NodeId(0), &nodes(&[NONE, 0]));
        assert_eq!(hops(&ways), [None, Some(3)]);
    }

    proptest! {
        #[test]
        fn every_route_arrives_in_as_many_hops_as_it_costs(
            links in prop::collection::vec((0u32..8, 0u32..8, 1u64..9, 1u64..9), 0..24),
            chosen in prop::collection::vec(prop::option::of((0u32..8).prop_map(NodeId)), 8),
        ) {
            let links: Vec<_> = links.into_iter().filter(|(a, b, ..)| a != b).collect();
            let graph = Graph::of(8, &links, &[]);
            let ways = graph.chosen_ways(NodeId(0), &chosen);
            for node in 0..8u32 {
                // The model: follow the choice at most eight times.
                let (mut at, mut steps) = (node, 0);
                while at != 0 && steps < 8 {
                    let next = chosen[at as usize].map(|next| next.0);
                    let linked = |next: u32| {
                        links.iter().any(|(a, b, ..)| (*a, *b) == (at, next) || (*b, *a) == (at, next))
                    };
                    match next.filter(|next| linked(*next)) {
                        Some(next) => (at, steps) = (next, steps + 1),
                        None => break,
                    }
                }
                let cost = if at == 0 { steps } else { UNREACHABLE };
                prop_assert_eq!(ways.cost[node as usize], cost);
                prop_assert_eq!(ways.next[node as usize].is_some(), node != 0 && at == 0);
            }
        }
    }
}
