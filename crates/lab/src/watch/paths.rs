//! The path each flow takes and the shortest there is, sampled at every step.

use std::collections::BTreeMap;
use std::net::IpAddr;

use constel_routing::{Graph, GroundTransit, PathEnd, Scratch};
use constel_scenario::model::{Destination, Family, Name};
use constel_topology::{NodeId, Snapshot};

use crate::error::EngineError;
use crate::nodes::kernels::Kernels;
use crate::routing::tables::walk_asking;
use constel_plan::Blueprint;

/// What one pair saw at one step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PathSample {
    /// Lab time, nanoseconds.
    pub(crate) t_ns: u64,
    /// Nodes passed by the kernels' routes; empty when they did not lead to the goal.
    pub(crate) nodes: Vec<String>,
    /// Sum of the edge delays there and back along the kernels' routes, nanoseconds.
    pub(crate) rtt_ns: Option<u64>,
    /// Twice the delay of the shortest path the topology has: no packet can be faster. Absent when
    /// there is none.
    pub(crate) bound_rtt_ns: Option<u64>,
}

/// The ends of a flow, its Internet protocol, and the disjoint path it is to take, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    family: Family,
    /// The end of the path at `to`.
    path: Option<PathEnd>,
}

impl Pair {
    /// Of a scenario that was checked; `None` when the lab has no such node or path.
    pub(crate) fn new(
        blueprint: &Blueprint,
        from: &Name,
        to: &Destination,
        family: Family,
    ) -> Option<Pair> {
        let node = |name: &Name| Some(blueprint.lab.layout.find(name.as_str())?.id);
        let (from, node) = (node(from)?, node(&to.node)?);
        let path = match &to.path {
            None => None,
            Some(_) => {
                let paths = blueprint.addresses.paths();
                let ends = paths.find(&blueprint.lab.layout, &to.to_string());
                Some(ends.into_iter().next()?)
            }
        };
        Some(Pair {
            from,
            to: node,
            family,
            path,
        })
    }

    /// The address that packets are sent to.
    pub(crate) fn goal(&self, blueprint: &Blueprint) -> IpAddr {
        self.address(blueprint, self.to, self.path)
    }

    /// The address that answers are sent to.
    fn source(&self, blueprint: &Blueprint) -> IpAddr {
        self.address(blueprint, self.from, self.path.map(PathEnd::other))
    }

    fn address(&self, blueprint: &Blueprint, node: NodeId, end: Option<PathEnd>) -> IpAddr {
        let addresses = &blueprint.addresses;
        let own = end.map_or_else(
            || addresses.loopback(node),
            |end| addresses.paths().address(end),
        );
        match self.family {
            Family::Ipv4 => own.v4.into(),
            Family::Ipv6 => own.v6.into(),
        }
    }

    /// What its far end is called: `london`, or `london.tl.2`.
    pub(crate) fn far_name(&self, blueprint: &Blueprint) -> String {
        let layout = &blueprint.lab.layout;
        self.path.map_or_else(
            || layout.node(self.to).name.clone(),
            |end| blueprint.addresses.paths().name(layout, end),
        )
    }
}

/// Samples of every pair.
#[derive(Default)]
pub(crate) struct Paths {
    series: BTreeMap<Pair, Vec<PathSample>>,
}

impl Paths {
    /// Looks at all pairs as they stand at lab time `t_ns` of the step `snapshot`.
    ///
    /// # Errors
    /// When a kernel does not answer.
    pub(crate) fn sample(
        &mut self,
        kernels: &Kernels,
        snapshot: &Snapshot,
        pairs: &[Pair],
    ) -> Result<(), EngineError> {
        if pairs.is_empty() {
            return Ok(());
        }
        let blueprint = kernels.blueprint.as_ref();
        let graph = Graph::new(&blueprint.lab.layout, snapshot, GroundTransit::Never);
        let mut scratch = Scratch::default();
        for &pair in pairs {
            let Pair { from, to, .. } = pair;
            let there = walk_asking(kernels, snapshot, from, pair.goal(blueprint))?;
            let back = walk_asking(kernels, snapshot, to, pair.source(blueprint))?;
            let tree = graph.tree(to, &mut scratch);
            let bound = tree.distance_ns[from.index()];
            let arrived = there.arrived() && back.arrived();
            let name = |id: NodeId| blueprint.lab.layout.node(id).name.clone();
            let nodes = std::iter::once(from)
                .chain(there.hops.iter().map(|hop| hop.to))
                .map(name);
            self.series.entry(pair).or_default().push(PathSample {
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
        let series = self.series.get(&pair);
        series
            .into_iter()
            .flatten()
            .filter(|s| (from_ns..=to_ns).contains(&s.t_ns))
            .collect()
    }
}
