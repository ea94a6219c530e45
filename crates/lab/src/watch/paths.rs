//! The path each flow takes and the shortest there is, sampled at every step.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use constel_link::Tally;
use constel_routing::{Graph, GroundTransit, PathEnd, Scratch};
use constel_scenario::model::{Destination, Family, Name};
use constel_topology::{NodeId, Snapshot};

use crate::error::EngineError;
use crate::nodes::kernels::Kernels;
use crate::routing::tables::walk_asking;
use constel_plan::Blueprint;

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

/// So many distinct paths of a flow are listed.
const LISTED: usize = 1_000;

/// A flow whose path is followed, and what was seen of it. It takes no more memory the longer that goes on.
pub(crate) struct Followed {
    pair: Pair,
    /// The flow's lab time, both ends included, nanoseconds.
    time_ns: RangeInclusive<u64>,
    /// Handovers of its ends.
    pub(crate) handovers: usize,
    /// Distinct ways by the kernels' routes, in the order seen, the first ones.
    listed: Vec<Vec<NodeId>>,
    known: BTreeSet<Vec<NodeId>>,
    latest: Vec<NodeId>,
    /// Steps on ways that are not listed.
    pub(crate) unlisted_steps: u64,
    /// Sums of the edge delays there and back along the kernels' routes, nanoseconds.
    pub(crate) rtt_ns: Tally,
    /// Twice the delay of the shortest path the topology has: no packet can be faster.
    pub(crate) bound_rtt_ns: Tally,
}

/// What a pair saw at one step.
#[derive(Clone)]
struct Sample {
    /// Nodes passed by the kernels' routes; empty when they did not lead to the goal.
    nodes: Vec<NodeId>,
    rtt_ns: Option<u64>,
    bound_rtt_ns: Option<u64>,
}

impl Followed {
    /// Nothing seen yet.
    pub(crate) fn new(pair: Pair, time_ns: RangeInclusive<u64>) -> Self {
        Self {
            pair,
            time_ns,
            handovers: 0,
            listed: Vec::new(),
            known: BTreeSet::new(),
            latest: Vec::new(),
            unlisted_steps: 0,
            rtt_ns: Tally::default(),
            bound_rtt_ns: Tally::default(),
        }
    }

    fn see(&mut self, sample: Sample) {
        sample
            .rtt_ns
            .into_iter()
            .for_each(|ns| self.rtt_ns.record(ns));
        let bound = sample.bound_rtt_ns.into_iter();
        bound.for_each(|ns| self.bound_rtt_ns.record(ns));
        if sample.nodes.is_empty() {
            return;
        }
        if sample.nodes != self.latest
            && !self.known.contains(&sample.nodes)
            && self.listed.len() < LISTED
        {
            self.known.insert(sample.nodes.clone());
            self.listed.push(sample.nodes.clone());
        }
        if sample.nodes != self.latest {
            self.latest = sample.nodes;
        }
        self.unlisted_steps += u64::from(!self.known.contains(&self.latest));
    }

    /// The ways that are listed, by the names of their nodes.
    pub(crate) fn paths(&self, blueprint: &Blueprint) -> Vec<Vec<String>> {
        let name = |id: &NodeId| blueprint.lab.layout.node(*id).name.clone();
        let names = |nodes: &Vec<NodeId>| nodes.iter().map(name).collect();
        self.listed.iter().map(names).collect()
    }
}

/// What was seen of every flow that has a path, by its name.
#[derive(Default)]
pub(crate) struct Paths(pub(crate) BTreeMap<String, Followed>);

impl Paths {
    /// Looks at all flows of the time of the step `snapshot`.
    ///
    /// # Errors
    /// When a kernel does not answer.
    pub(crate) fn sample(
        &mut self,
        kernels: &Kernels,
        snapshot: &Snapshot,
    ) -> Result<(), EngineError> {
        let now = |flow: &&mut Followed| flow.time_ns.contains(&snapshot.t_ns);
        let mut flows = self.0.values_mut().filter(now).peekable();
        if flows.peek().is_none() {
            return Ok(());
        }
        let blueprint = kernels.blueprint.as_ref();
        let graph = Graph::new(&blueprint.lab.layout, snapshot, GroundTransit::Never);
        let mut scratch = Scratch::default();
        let mut samples: BTreeMap<Pair, Sample> = BTreeMap::new();
        for flow in flows {
            let pair = flow.pair;
            let sample = match samples.get(&pair) {
                Some(sample) => sample.clone(),
                None => {
                    let there = walk_asking(kernels, snapshot, pair.from, pair.goal(blueprint))?;
                    let back = walk_asking(kernels, snapshot, pair.to, pair.source(blueprint))?;
                    let tree = graph.tree(pair.to, &mut scratch);
                    let bound = tree.distance_ns[pair.from.index()];
                    let arrived = there.arrived() && back.arrived();
                    let on = there.hops.iter().map(|hop| hop.to);
                    let nodes = std::iter::once(pair.from).chain(on);
                    let sample = Sample {
                        nodes: nodes.filter(|_| there.arrived()).collect(),
                        rtt_ns: arrived.then(|| there.delay_ns() + back.delay_ns()),
                        bound_rtt_ns: (bound != constel_routing::UNREACHABLE).then(|| 2 * bound),
                    };
                    samples.insert(pair, sample.clone());
                    sample
                }
            };
            flow.see(sample);
        }
        Ok(())
    }

    /// A station changed its satellite at a lab time.
    pub(crate) fn handover(&mut self, station: NodeId, t_ns: u64) {
        let concerns = |flow: &&mut Followed| {
            flow.time_ns.contains(&t_ns) && [flow.pair.from, flow.pair.to].contains(&station)
        };
        let flows = self.0.values_mut().filter(concerns);
        flows.for_each(|flow| flow.handovers += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_ways_than_are_listed_are_counted() {
        let pair = Pair {
            from: NodeId(0),
            to: NodeId(1),
            family: Family::Ipv4,
            path: None,
        };
        let mut flow = Followed::new(pair, 0..=9);
        let mut see = |via: u32, rtt_ns| {
            flow.see(Sample {
                nodes: vec![NodeId(0), NodeId(via), NodeId(1)],
                rtt_ns: Some(rtt_ns),
                bound_rtt_ns: None,
            });
        };
        for round in 0..3 {
            for via in 2..2 + LISTED as u32 + 5 {
                see(via, 1_000 + round);
            }
        }
        see(2, 7);
        assert_eq!((flow.listed.len(), flow.unlisted_steps), (LISTED, 15));
        assert_eq!(flow.listed[1][1], NodeId(3));
        assert_eq!((flow.rtt_ns.count(), flow.rtt_ns.min()), (3 * 1_005 + 1, 7));
        assert_eq!(flow.bound_rtt_ns.count(), 0);
        let mut paths = Paths(BTreeMap::from([("f".to_owned(), flow)]));
        paths.handover(NodeId(1), 9);
        paths.handover(NodeId(1), 10);
        paths.handover(NodeId(2), 9);
        assert_eq!(paths.0["f"].handovers, 1);
    }
}
