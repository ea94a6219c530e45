//! The path that each flow takes, and the shortest one, sampled at every step.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use constel_drivers::LateSpells;
use constel_link::{PortId, Tally};
use constel_routing::{Graph, GroundTransit, PathEnd, Scratch};
use constel_scenario::model::{Destination, Family, Name};
use constel_topology::{NodeId, Snapshot};

use crate::error::EngineError;
use crate::nodes::kernels::Kernels;
use crate::routing::tables::walk_querying;
use crate::watch::late::Late;
use crate::watch::path_rows::{EVERY_NS, PathRow, PathRows};
use constel_plan::Blueprint;

/// The ends of a flow, its Internet protocol, and the disjoint path that it uses, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    family: Family,
    /// The end of the path at `to`.
    path: Option<PathEnd>,
}

impl Pair {
    /// Returns the pair for a scenario that was checked; `None` when the lab has no such node or path.
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

    /// Returns the destination address of the flow's packets.
    pub(crate) fn goal(&self, blueprint: &Blueprint) -> IpAddr {
        self.address(blueprint, self.to, self.path)
    }

    /// Returns the destination address of answers.
    pub(crate) fn source(&self, blueprint: &Blueprint) -> IpAddr {
        self.address(blueprint, self.from, self.path.map(PathEnd::other))
    }

    fn address(&self, blueprint: &Blueprint, node: NodeId, end: Option<PathEnd>) -> IpAddr {
        let addresses = &blueprint.addresses;
        // Each end of a disjoint path has an address of its own, which keeps the packets on the path.
        let own = end.map_or_else(
            || addresses.loopback(node),
            |end| addresses.paths().address(end),
        );
        match self.family {
            Family::Ipv4 => own.v4.into(),
            Family::Ipv6 => own.v6.into(),
        }
    }

    /// Returns the name of its far end: `london`, or `london.tl.2`.
    pub(crate) fn far_name(&self, blueprint: &Blueprint) -> String {
        let layout = &blueprint.lab.layout;
        self.path.map_or_else(
            || layout.node(self.to).name.clone(),
            |end| blueprint.addresses.paths().name(layout, end),
        )
    }
}

/// The largest number of distinct paths of a flow that are listed.
const LISTED: usize = 1_000;

/// The largest number of changes of a flow's path that are remembered; `paths.csv` has all.
const CHANGES: usize = 1 << 20;

/// A flow whose path is followed, and its statistics. Its memory does not grow with time.
pub(crate) struct Followed {
    pair: Pair,
    /// The flow's lab time, both ends included, nanoseconds.
    time_ns: RangeInclusive<u64>,
    /// The number of handovers of its ends.
    pub(crate) handovers: usize,
    /// The first distinct paths by the kernels' routes, in the order seen.
    listed: Vec<Vec<NodeId>>,
    /// The indices of these paths, from 1.
    known: BTreeMap<Vec<NodeId>, u32>,
    /// The path at the latest step, empty without one; `None` before the first step.
    latest: Option<Vec<NodeId>>,
    /// The times from which each listed path was taken, with its index from 1; 0 for any other. Only the first
    /// changes.
    changes: Vec<(u64, u32)>,
    /// The latest row of `paths.csv`.
    row: Option<PathRow>,
    /// The times at which frames on its path were late.
    pub(crate) late: Late,
    /// The number of steps with a path that is not listed.
    pub(crate) unlisted_steps: u64,
    /// The sums of the edge delays in both directions along the kernels' routes, nanoseconds.
    pub(crate) rtt_ns: Tally,
    /// The lower bound: twice the delay of the shortest path in the topology. No packet can be faster.
    pub(crate) bound_rtt_ns: Tally,
}

/// A change of a flow's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathNews {
    pub(crate) flow: String,
    /// The nodes of the path before, and below it those of the path now; empty without a path.
    pub(crate) from: Vec<NodeId>,
    pub(crate) to: Vec<NodeId>,
}

/// The sample of a pair at one step.
#[derive(Clone, Default)]
struct Sample {
    /// The nodes on the path by the kernels' routes; empty when these did not lead to the destination.
    nodes: Vec<NodeId>,
    /// The ports reached on the path in both directions.
    ports: BTreeSet<PortId>,
    rtt_ns: Option<u64>,
    bound_rtt_ns: Option<u64>,
}

impl Followed {
    /// Ends the flow's time at a lab time, nanoseconds, because the flow was ended by command.
    pub(crate) fn end_at(&mut self, t_ns: u64) {
        let start = *self.time_ns.start();
        self.time_ns = start..=t_ns.min(*self.time_ns.end());
    }

    /// Creates the state before the first step.
    pub(crate) fn new(pair: Pair, time_ns: RangeInclusive<u64>) -> Self {
        Self {
            pair,
            time_ns,
            handovers: 0,
            listed: Vec::new(),
            known: BTreeMap::new(),
            latest: None,
            changes: Vec::new(),
            row: None,
            late: Late::default(),
            unlisted_steps: 0,
            rtt_ns: Tally::default(),
            bound_rtt_ns: Tally::default(),
        }
    }

    /// Records the sample of a step at `t_ns`. Returns the path before, if it was another.
    fn see(&mut self, t_ns: u64, sample: Sample) -> Option<Vec<NodeId>> {
        self.late.way(sample.ports);
        sample
            .rtt_ns
            .into_iter()
            .for_each(|ns| self.rtt_ns.record(ns));
        let bound = sample.bound_rtt_ns.into_iter();
        bound.for_each(|ns| self.bound_rtt_ns.record(ns));
        // Only the first paths are listed, so that a flow with ever new paths has bounded memory.
        let is_new = !sample.nodes.is_empty() && !self.known.contains_key(&sample.nodes);
        if is_new && self.listed.len() < LISTED {
            self.listed.push(sample.nodes.clone());
            self.known
                .insert(sample.nodes.clone(), self.listed.len() as u32);
        }
        let place = self.known.get(&sample.nodes).copied().unwrap_or(0);
        self.unlisted_steps += u64::from(place == 0 && !sample.nodes.is_empty());
        if self.latest.as_ref() == Some(&sample.nodes) {
            return None;
        }
        if self.changes.len() < CHANGES {
            self.changes.push((t_ns, place));
        }
        self.latest.replace(sample.nodes)
    }

    /// Returns the row of `paths.csv` for the latest step, if one is due.
    fn due_row(&mut self, t_ns: u64, changed: bool, rtts: [Option<u64>; 2]) -> Option<PathRow> {
        let last = self.row.map(|row| row.t_ns);
        if !changed && last.is_some_and(|last| t_ns < last + EVERY_NS) {
            return None;
        }
        let path = self.changes.last().map_or(0, |(_, place)| *place);
        let [rtt_ns, shortest_rtt_ns] = rtts;
        self.row = Some(PathRow {
            t_ns,
            path,
            rtt_ns,
            shortest_rtt_ns,
        });
        self.row
    }

    /// Returns the listed path that was taken at an instant of lab time, from 1; `None` without one.
    pub(crate) fn path_at(&self, t_ns: u64) -> Option<u32> {
        let next = self
            .changes
            .partition_point(|(from_ns, _)| *from_ns <= t_ns);
        let (_, place) = self.changes[next.checked_sub(1)?];
        // After the last remembered change the path is not known.
        let known = next < CHANGES;
        (place > 0 && known).then_some(place)
    }

    /// Returns whether a node is at one of its ends, or on a listed path.
    pub(crate) fn passes(&self, node: NodeId) -> bool {
        let at_an_end = [self.pair.from, self.pair.to].contains(&node);
        at_an_end || self.listed.iter().any(|path| path.contains(&node))
    }

    /// Returns the listed paths, by the names of their nodes.
    pub(crate) fn paths(&self, blueprint: &Blueprint) -> Vec<Vec<String>> {
        let name = |id: &NodeId| blueprint.lab.layout.node(*id).name.clone();
        let names = |nodes: &Vec<NodeId>| nodes.iter().map(name).collect();
        self.listed.iter().map(names).collect()
    }
}

/// The observations of every flow that has a path, by its name.
#[derive(Default)]
pub(crate) struct Paths {
    pub(crate) flows: BTreeMap<String, Followed>,
    /// The file `paths.csv`.
    pub(crate) rows: Option<PathRows>,
}

impl Paths {
    /// Samples all flows that run at the time of the step `snapshot`. Returns those whose path changed.
    /// `least_delay_ns` has the values of [`constel_plan::Planner::least_delay_ns`].
    ///
    /// # Errors
    /// When a kernel does not answer.
    pub(crate) fn sample(
        &mut self,
        kernels: &Kernels,
        snapshot: &Snapshot,
        least_delay_ns: impl Fn(NodeId, NodeId) -> Option<Option<u64>>,
    ) -> Result<Vec<PathNews>, EngineError> {
        let t_ns = snapshot.t_ns;
        // Only flows that run at this step are followed, because each walk queries kernels.
        let now = |(_, flow): &(&String, &mut Followed)| flow.time_ns.contains(&t_ns);
        let mut flows = self.flows.iter_mut().filter(now).peekable();
        if flows.peek().is_none() {
            return Ok(Vec::new());
        }
        let mut news = Vec::new();
        let blueprint = kernels.blueprint.as_ref();
        // For a large constellation the graph takes longer than everything else, so that it is built only if it is
        // needed.
        let graph =
            LazyCell::new(|| Graph::new(&blueprint.lab.layout, snapshot, GroundTransit::Never));
        let mut scratch = Scratch::default();
        let mut samples: BTreeMap<Pair, Sample> = BTreeMap::new();
        for (name, flow) in flows {
            // Flows with the same ends share one walk.
            let pair = flow.pair;
            let sample = match samples.get(&pair) {
                Some(sample) => sample.clone(),
                None => {
                    let mut sample = Sample::default();
                    // For a path over other machines' nodes, only the lower bound may be known.
                    if kernels.knows_all_ways() {
                        sample = walked(kernels, snapshot, pair)?;
                    }
                    let bound_ns = least_delay_ns(pair.from, pair.to).unwrap_or_else(|| {
                        let tree = graph.tree(pair.to, &mut scratch);
                        Some(tree.distance_ns[pair.from.index()])
                            .filter(|ns| *ns != constel_routing::UNREACHABLE)
                    });
                    sample.bound_rtt_ns = bound_ns.map(|ns| 2 * ns);
                    samples.insert(pair, sample.clone());
                    sample
                }
            };
            let rtts = [sample.rtt_ns, sample.bound_rtt_ns];
            let first = flow.latest.is_none();
            let before = flow.see(t_ns, sample);
            let changed = first || before.is_some();
            if let Some(row) = flow.due_row(t_ns, changed, rtts)
                && let Some(rows) = &mut self.rows
            {
                rows.put(name, row);
            }
            news.extend(before.map(|from| PathNews {
                flow: name.clone(),
                from,
                to: flow.latest.clone().unwrap_or_default(),
            }));
        }
        if let Some(rows) = &mut self.rows {
            rows.flush();
        }
        Ok(news)
    }

    /// Records the link plane's report of late frames, by a clock that showed `zero_ns` at lab time zero.
    pub(crate) fn late(&mut self, told: &LateSpells, zero_ns: u64) {
        self.flows
            .values_mut()
            .for_each(|flow| flow.late.see(told, zero_ns));
    }

    /// Records the handover of a station at a lab time.
    pub(crate) fn handover(&mut self, station: NodeId, t_ns: u64) {
        let concerns = |flow: &&mut Followed| {
            flow.time_ns.contains(&t_ns) && [flow.pair.from, flow.pair.to].contains(&station)
        };
        let flows = self.flows.values_mut().filter(concerns);
        flows.for_each(|flow| flow.handovers += 1);
    }
}

/// Follows the kernels' tables in both directions.
fn walked(kernels: &Kernels, snapshot: &Snapshot, pair: Pair) -> Result<Sample, EngineError> {
    let blueprint = kernels.blueprint.as_ref();
    let there = walk_querying(kernels, snapshot, pair.from, pair.goal(blueprint))?;
    let back = walk_querying(kernels, snapshot, pair.to, pair.source(blueprint))?;
    // Without a return path there is no round trip, but the forward path is still reported.
    let arrived = there.arrived() && back.arrived();
    let on = there.hops.iter().map(|hop| hop.to);
    let nodes = std::iter::once(pair.from).chain(on);
    let hops = there.hops.iter().chain(&back.hops);
    Ok(Sample {
        nodes: nodes.filter(|_| there.arrived()).collect(),
        ports: hops.map(|hop| hop.far_port).collect(),
        rtt_ns: arrived.then(|| there.delay_ns() + back.delay_ns()),
        bound_rtt_ns: None,
    })
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
        let mut t_ns = 0;
        let mut see = |via: u32, rtt_ns| {
            t_ns += 1;
            let sample = Sample {
                nodes: vec![NodeId(0), NodeId(via), NodeId(1)],
                rtt_ns: Some(rtt_ns),
                ..Sample::default()
            };
            flow.see(t_ns, sample)
        };
        for round in 0..3 {
            for via in 2..2 + LISTED as u32 + 5 {
                see(via, 1_000 + round);
            }
        }
        assert_eq!(see(2, 7), Some(vec![NodeId(0), NodeId(1_006), NodeId(1)]));
        assert_eq!(see(2, 7), None);
        let last = t_ns;
        assert_eq!((flow.path_at(0), flow.path_at(1)), (None, Some(1)));
        assert_eq!(
            (flow.path_at(1_000), flow.path_at(1_001)),
            (Some(1_000), None)
        );
        assert_eq!(flow.path_at(last + 5), Some(1));
        assert_eq!((flow.listed.len(), flow.unlisted_steps), (LISTED, 15));
        assert_eq!(flow.listed[1][1], NodeId(3));
        assert_eq!((flow.rtt_ns.count(), flow.rtt_ns.min()), (3 * 1_005 + 2, 7));
        assert_eq!(flow.bound_rtt_ns.count(), 0);
        let mut paths = Paths {
            flows: BTreeMap::from([("f".to_owned(), flow)]),
            rows: None,
        };
        paths.handover(NodeId(1), 9);
        paths.handover(NodeId(1), 10);
        paths.handover(NodeId(2), 9);
        assert_eq!(paths.flows["f"].handovers, 1);
    }
}
