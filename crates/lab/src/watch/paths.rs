//! The path each flow takes and the shortest there is, sampled at every step.

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
use crate::routing::tables::walk_asking;
use crate::watch::late::Late;
use crate::watch::path_rows::{EVERY_NS, PathRow, PathRows};
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
    pub(crate) fn source(&self, blueprint: &Blueprint) -> IpAddr {
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

/// So many changes of a flow's path are remembered; `paths.csv` has all.
const CHANGES: usize = 1 << 20;

/// A flow whose path is followed, and what was seen of it. It takes no more memory the longer that goes on.
pub(crate) struct Followed {
    pair: Pair,
    /// The flow's lab time, both ends included, nanoseconds.
    time_ns: RangeInclusive<u64>,
    /// Handovers of its ends.
    pub(crate) handovers: usize,
    /// Distinct ways by the kernels' routes, in the order seen, the first ones.
    listed: Vec<Vec<NodeId>>,
    /// Their places, from 1.
    known: BTreeMap<Vec<NodeId>, u32>,
    /// The way of the latest step, empty without one; `None` before the first.
    latest: Option<Vec<NodeId>>,
    /// From when on which listed path was taken, from 1; 0: none of them. The first ones.
    changes: Vec<(u64, u32)>,
    /// The latest row of `paths.csv`.
    row: Option<PathRow>,
    /// When frames on its way were late.
    pub(crate) late: Late,
    /// Steps on ways that are not listed.
    pub(crate) unlisted_steps: u64,
    /// Sums of the edge delays there and back along the kernels' routes, nanoseconds.
    pub(crate) rtt_ns: Tally,
    /// Twice the delay of the shortest path the topology has: no packet can be faster.
    pub(crate) bound_rtt_ns: Tally,
}

/// A flow's packets take another way than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathNews {
    pub(crate) flow: String,
    /// The nodes passed before and now; empty where there was no way.
    pub(crate) from: Vec<NodeId>,
    pub(crate) to: Vec<NodeId>,
}

/// What a pair saw at one step.
#[derive(Clone, Default)]
struct Sample {
    /// Nodes passed by the kernels' routes; empty when they did not lead to the goal.
    nodes: Vec<NodeId>,
    /// Ports reached on the way there and back.
    ports: BTreeSet<PortId>,
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

    /// What a step at `t_ns` showed. Gives the way before, if it was another.
    fn see(&mut self, t_ns: u64, sample: Sample) -> Option<Vec<NodeId>> {
        self.late.way(sample.ports);
        sample
            .rtt_ns
            .into_iter()
            .for_each(|ns| self.rtt_ns.record(ns));
        let bound = sample.bound_rtt_ns.into_iter();
        bound.for_each(|ns| self.bound_rtt_ns.record(ns));
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

    /// The row of `paths.csv` for the latest step, if it is time for one.
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

    /// The listed path that was taken at an instant of lab time, from 1; `None` without one.
    pub(crate) fn path_at(&self, t_ns: u64) -> Option<u32> {
        let next = self
            .changes
            .partition_point(|(from_ns, _)| *from_ns <= t_ns);
        let (_, place) = self.changes[next.checked_sub(1)?];
        // What changed since the last that is remembered is not known.
        let known = next < CHANGES;
        (place > 0 && known).then_some(place)
    }

    /// Whether a node is at one of its ends, or on a path that is listed.
    pub(crate) fn passes(&self, node: NodeId) -> bool {
        let at_an_end = [self.pair.from, self.pair.to].contains(&node);
        at_an_end || self.listed.iter().any(|path| path.contains(&node))
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
pub(crate) struct Paths {
    pub(crate) flows: BTreeMap<String, Followed>,
    /// `paths.csv`.
    pub(crate) rows: Option<PathRows>,
}

impl Paths {
    /// Looks at all flows of the time of the step `snapshot`; tells whose path is another than before. `least_delay_ns` has what
    /// [`constel_plan::Planner::least_delay_ns`] has.
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
        let now = |(_, flow): &(&String, &mut Followed)| flow.time_ns.contains(&t_ns);
        let mut flows = self.flows.iter_mut().filter(now).peekable();
        if flows.peek().is_none() {
            return Ok(Vec::new());
        }
        let mut news = Vec::new();
        let blueprint = kernels.blueprint.as_ref();
        // Of a large sky it takes longer than all the rest.
        let graph =
            LazyCell::new(|| Graph::new(&blueprint.lab.layout, snapshot, GroundTransit::Never));
        let mut scratch = Scratch::default();
        let mut samples: BTreeMap<Pair, Sample> = BTreeMap::new();
        for (name, flow) in flows {
            let pair = flow.pair;
            let sample = match samples.get(&pair) {
                Some(sample) => sample.clone(),
                None => {
                    let mut sample = Sample::default();
                    // Of a way over other machines' nodes, only the shortest that there is may be known.
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

    /// What the link plane told of late frames, on a clock that showed `zero_ns` at lab time zero.
    pub(crate) fn late(&mut self, told: &LateSpells, zero_ns: u64) {
        self.flows
            .values_mut()
            .for_each(|flow| flow.late.see(told, zero_ns));
    }

    /// A station changed its satellite at a lab time.
    pub(crate) fn handover(&mut self, station: NodeId, t_ns: u64) {
        let concerns = |flow: &&mut Followed| {
            flow.time_ns.contains(&t_ns) && [flow.pair.from, flow.pair.to].contains(&station)
        };
        let flows = self.flows.values_mut().filter(concerns);
        flows.for_each(|flow| flow.handovers += 1);
    }
}

/// The way there and back by the kernels' tables.
fn walked(kernels: &Kernels, snapshot: &Snapshot, pair: Pair) -> Result<Sample, EngineError> {
    let blueprint = kernels.blueprint.as_ref();
    let there = walk_asking(kernels, snapshot, pair.from, pair.goal(blueprint))?;
    let back = walk_asking(kernels, snapshot, pair.to, pair.source(blueprint))?;
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
