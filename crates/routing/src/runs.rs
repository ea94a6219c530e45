//! Planes of satellites in the graph: nodes with consecutive numbers whose links lead to consecutive numbers, so that many
//! of them are compared at a time.

use std::ops::Range;

use crate::graph::UNREACHABLE;
use crate::hops::NONE;

/// Shorter runs are not worth it.
const SHORTEST: u32 = 8;
/// Number of nodes of a run that are compared at a time.
const AT_ONCE: usize = 64;

/// Consecutively numbered nodes with four links each, whose peers are numbered consecutively as well.
pub(crate) struct Run {
    nodes: Range<u32>,
    /// For each link, the peer's number minus the node's.
    away: [i64; 4],
    /// The index of the costs of their links among all costs: those of all first links, of all second links, and so on.
    costs: usize,
}

/// All runs of a graph.
pub(crate) struct Runs {
    runs: Vec<Run>,
    costs: Vec<u64>,
}

impl Run {
    pub(crate) fn nodes(&self) -> Range<u32> {
        self.nodes.clone()
    }

    /// Returns its nodes in parts.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Range<u32>> {
        let Range { start, end } = self.nodes;
        let begins = (start..end).step_by(AT_ONCE);
        begins.map(move |begin| begin..end.min(begin + AT_ONCE as u32))
    }

    /// Returns the known costs of the peers of a part's links.
    fn peers<'c>(&self, part: &Range<u32>, cost: &'c [u64]) -> [&'c [u64]; 4] {
        let peers = |away: i64| (i64::from(part.start) + away) as usize;
        self.away.map(|away| &cost[peers(away)..][..part.len()])
    }
}

impl Runs {
    /// Finds the runs of `nodes` nodes. `ways` returns a node's peers with the link costs, if there are four.
    pub(crate) fn find(nodes: u32, ways: impl Fn(u32) -> Option<[(u32, u64); 4]>) -> Self {
        let away = |node: u32| {
            let distance = |(peer, _): (u32, u64)| i64::from(peer) - i64::from(node);
            Some(ways(node)?.map(distance))
        };
        let (mut runs, mut costs) = (Vec::new(), Vec::new());
        let mut first = 0;
        while first < nodes {
            let Some(all_away) = away(first) else {
                first += 1;
                continue;
            };
            let alike = |node: &u32| away(*node) == Some(all_away);
            let end = first + (first..nodes).take_while(alike).count() as u32;
            if end - first >= SHORTEST {
                runs.push(Run {
                    nodes: first..end,
                    away: all_away,
                    costs: costs.len(),
                });
                for way in 0..4 {
                    let cost = |node| Some(ways(node)?[way].1);
                    costs.extend((first..end).filter_map(cost));
                }
            }
            first = end;
        }
        Self { runs, costs }
    }

    /// By number of their first node.
    pub(crate) fn all(&self) -> &[Run] {
        &self.runs
    }

    /// Returns whether each node of a part of a run has exactly one link whose total cost does not exceed the node's known
    /// cost. That link then is the one that gave the known cost. If a total does not exceed it, the difference minus one is
    /// negative.
    pub(crate) fn stand(&self, run: &Run, part: Range<u32>, cost: &[u64]) -> bool {
        let own = &cost[part.start as usize..][..part.len()];
        let peers = run.peers(&part, cost);
        let begin = run.costs + (part.start - run.nodes.start) as usize;
        let ways: [&[u64]; 4] =
            std::array::from_fn(|way| &self.costs[begin + way * run.nodes.len()..][..part.len()]);
        let mut odd = 0;
        for n in 0..part.len() {
            let sign = |way: usize| {
                let whole = peers[way][n].wrapping_add(ways[way][n]);
                whole.wrapping_sub(own[n]).wrapping_sub(1) >> 63
            };
            let signs = sign(0) + sign(1) + sign(2) + sign(3);
            // The cost of a node that is cut off is negative itself.
            odd |= (signs ^ 1) | (own[n] >> 63);
        }
        odd == 0
    }

    /// Whether nothing leads from any node of a part, and nothing did.
    pub(crate) fn stay_cut_off(
        &self,
        run: &Run,
        part: Range<u32>,
        cost: &[u64],
        places: &[u8],
    ) -> bool {
        let cut_off = |costs: &[u64]| costs.iter().all(|cost| *cost == UNREACHABLE);
        let range = part.start as usize..part.end as usize;
        let placeless = places[range.clone()].iter().all(|place| *place == NONE);
        let peers = run.peers(&part, cost);
        placeless && cut_off(&cost[range]) && peers.iter().all(|costs| cut_off(costs))
    }
}
