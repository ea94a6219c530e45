//! The path each flow takes and the shortest there is, sampled at every step.

use std::collections::BTreeMap;
use std::net::IpAddr;

use constel_routing::{Graph, GroundTransit, Scratch};
use constel_scenario::model::Family;
use constel_topology::{NodeId, Snapshot};
use serde::Serialize;

use crate::error::EngineError;
use crate::nodes::LiveNode;
use crate::tables::walk_asking;
use crate::wiring::Wiring;

/// What one pair saw at one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathSample {
    /// Lab time, nanoseconds.
    pub t_ns: u64,
    /// Nodes passed by the kernels' routes; empty when they did not lead to the goal.
    pub nodes: Vec<String>,
    /// Sum of the edge delays there and back along the kernels' routes, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<u64>,
    /// Twice the delay of the shortest path the topology has: no packet can be faster. Absent when
    /// there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_rtt_ns: Option<u64>,
}

/// The ends of a flow and its Internet protocol.
pub(crate) type Pair = (NodeId, NodeId, Family);

/// Samples of every pair.
#[derive(Default)]
pub(crate) struct Paths {
    series: BTreeMap<(NodeId, NodeId, bool), Vec<PathSample>>,
}

fn goal(wiring: &Wiring, node: NodeId, family: Family) -> IpAddr {
    let own = wiring.addresses.loopback(node);
    match family {
        Family::Ipv4 => own.v4.into(),
        Family::Ipv6 => own.v6.into(),
    }
}

fn key((from, to, family): Pair) -> (NodeId, NodeId, bool) {
    (from, to, family == Family::Ipv6)
}

impl Paths {
    /// Looks at all pairs as they stand at lab time `t_ns` of the step `snapshot`.
    ///
    /// # Errors
    /// When a kernel does not answer.
    pub(crate) fn sample(
        &mut self,
        wiring: &Wiring,
        nodes: &[LiveNode],
        snapshot: &Snapshot,
        pairs: &[Pair],
    ) -> Result<(), EngineError> {
        if pairs.is_empty() {
            return Ok(());
        }
        let graph = Graph::new(&wiring.lab.layout, snapshot, GroundTransit::Never);
        let mut scratch = Scratch::default();
        for &pair in pairs {
            let (from, to, family) = pair;
            let there = walk_asking(wiring, nodes, snapshot, from, goal(wiring, to, family))?;
            let back = walk_asking(wiring, nodes, snapshot, to, goal(wiring, from, family))?;
            let tree = graph.tree(to, &mut scratch);
            let bound = tree.distance_ns[from.index()];
            let arrived = there.arrived() && back.arrived();
            let name = |id: NodeId| wiring.lab.layout.node(id).name.clone();
            let nodes = std::iter::once(from)
                .chain(there.hops.iter().map(|hop| hop.to))
                .map(name);
            self.series.entry(key(pair)).or_default().push(PathSample {
                t_ns: snapshot.t_ns,
                nodes: if there.arrived() {
                    nodes.collect()
                } else {
                    Vec::new()
                },
                rtt_ns: arrived.then(|| there.delay_ns() + back.delay_ns()),
                bound_rtt_ns: (bound != constel_routing::UNREACHABLE).then(|| 2 * bound),
            });
        }
        Ok(())
    }

    /// The samples of a pair between two lab times, both included.
    pub(crate) fn between(&self, pair: Pair, from_ns: u64, to_ns: u64) -> Vec<&PathSample> {
        let series = self.series.get(&key(pair));
        series
            .into_iter()
            .flatten()
            .filter(|s| (from_ns..=to_ns).contains(&s.t_ns))
            .collect()
    }
}
