//! The number of nodes with correct routes in the kernels' tables, sampled again and again while a lab with daemons
//! runs.
//!
//! The cost of reading tables grows with their length: for thousands of nodes with thousands of routes it takes
//! seconds. Therefore a few destinations are selected, the same in every run of a scenario, and every kernel is
//! only queried for its route to each of them (one lookup, independent of the table's length). A node has converged
//! when its packets would arrive at every one of them over existing links, by all the kernels on the path.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use constel_host::netlink::{InstalledRoute, RouteTarget};
use constel_plan::{Blueprint, daemon_spec};
use constel_routing::reach::arrive;
use constel_routing::{Graph, GroundTransit, Scratch, UNREACHABLE};
use constel_topology::{NodeClass, NodeId, Snapshot};

use crate::answers::view::View;
use crate::error::EngineError;
use crate::nodes::kernels::Kernels;
use crate::routing::router::Router;
use crate::routing::tables::MAIN;
use crate::watch::pace::Pace;
use crate::watch::summary::Converged as Row;

/// The number of destinations selected among stations, among hosts and among satellites.
const PICKED: usize = 6;

const PACE: Pace = Pace {
    every: Duration::from_millis(500),
    share: 10,
};

/// The result of the latest sample.
#[derive(Debug, Default)]
pub(crate) struct Converged {
    nodes: AtomicUsize,
    counted: Mutex<Counted>,
}

/// The statistics of the samples since a moment.
#[derive(Debug, Default)]
struct Counted {
    /// The moment before which samples do not count.
    since: Option<Instant>,
    samples: usize,
    /// The number of samples in which all nodes had correct routes.
    complete: usize,
    least_nodes: usize,
    least_right_ratio: f64,
    sum_right_ratio: f64,
}

impl Counted {
    fn add(&mut self, began: Instant, look: ConvergenceSample, nodes: usize) {
        if self.since.is_none_or(|since| began < since) {
            return;
        }
        let first = self.samples == 0;
        let (least, ratio) = (self.least_nodes, self.least_right_ratio);
        self.least_nodes = if first {
            look.nodes
        } else {
            least.min(look.nodes)
        };
        self.least_right_ratio = if first {
            look.right_ratio
        } else {
            ratio.min(look.right_ratio)
        };
        self.samples += 1;
        self.complete += usize::from(look.nodes == nodes);
        self.sum_right_ratio += look.right_ratio;
    }
}

/// The result of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ConvergenceSample {
    /// The number of nodes from which every reachable destination is reached.
    pub(crate) nodes: usize,
    /// The share of the pairs of a node and a destination, each family counted, whose packets arrive.
    pub(crate) right_ratio: f64,
}

impl Converged {
    /// Returns the number of nodes that reached every selected destination in the latest sample.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.load(Ordering::Acquire)
    }

    /// Samples again and again until `stop` is set, and calls `seen` each time.
    ///
    /// # Errors
    /// When a kernel does not answer.
    pub(crate) fn watch(
        &self,
        kernels: &Kernels,
        view: &View,
        stop: &AtomicBool,
        mut seen: impl FnMut(ConvergenceSample),
    ) -> Result<(), EngineError> {
        let blueprint = kernels.blueprint.as_ref();
        let goals = goals(blueprint);
        let routing = Router::of(&blueprint.lab.scenario).daemons();
        let spec = routing.map(|routing| daemon_spec(&blueprint.lab, routing));
        // Autonomous systems advertise only their stations and hosts to each other.
        let told = |from: NodeId, to: NodeId| {
            let inside = spec.as_ref().is_none_or(|spec| spec.same_system(from, to));
            inside || blueprint.lab.layout.node(to).class.endpoint
        };
        PACE.repeat(stop, || {
            let started = Instant::now();
            if let Some(snapshot) = view.snapshot() {
                let look = look(kernels, &snapshot, &goals, told)?;
                self.nodes.store(look.nodes, Ordering::Release);
                self.counted().add(started, look, kernels.count());
                seen(look);
            }
            Ok(())
        })
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Starts the statistics: only samples that begin from now on count.
    pub(crate) fn count_from_now(&self) {
        *self.counted() = Counted {
            since: Some(Instant::now()),
            ..Counted::default()
        };
    }

    /// Returns the statistics of a lab with this number of nodes; `None` without samples.
    pub(crate) fn row(&self, nodes: usize) -> Option<Row> {
        let seen = self.counted();
        (seen.samples > 0).then(|| Row {
            nodes,
            samples: seen.samples,
            complete: seen.complete,
            least_nodes: seen.least_nodes,
            least_right_ratio: seen.least_right_ratio,
            mean_right_ratio: seen.sum_right_ratio / seen.samples as f64,
        })
    }
}

/// Returns nodes of every class, spread evenly over their numbers and so the same in every run.
fn goals(blueprint: &Blueprint) -> Vec<NodeId> {
    let spread = |class: &NodeClass| {
        let all: Vec<NodeId> = blueprint
            .lab
            .layout
            .nodes()
            .iter()
            .filter(|node| node.class == class)
            .map(|node| node.id)
            .collect();
        let step = all.len().div_ceil(PICKED).max(1);
        // Starting at half a step centres the selection.
        let first = step / 2;
        let picked = all
            .iter()
            .skip(first.min(all.len().saturating_sub(1)))
            .step_by(step);
        picked.copied().collect::<Vec<_>>()
    };
    let mut classes: Vec<&NodeClass> = Vec::new();
    for node in blueprint.lab.layout.nodes() {
        if !classes.contains(&node.class) {
            classes.push(node.class);
        }
    }
    // Endpoints of traffic come first.
    classes.sort_by_key(|class| !class.endpoint);
    classes.into_iter().flat_map(spread).collect()
}

/// Queries every kernel of this machine. Returns the number of nodes whose packets arrive at every destination that
/// the topology lets them reach and that is advertised to them (`told`). Packets that leave for another machine's
/// node do not count as lost.
///
/// # Errors
/// When a kernel does not answer.
fn look(
    kernels: &Kernels,
    snapshot: &Snapshot,
    goals: &[NodeId],
    told: impl Fn(NodeId, NodeId) -> bool,
) -> Result<ConvergenceSample, EngineError> {
    let Kernels {
        blueprint, nodes, ..
    } = kernels;
    let ours = kernels.ours();
    // The addresses of every destination, in every family.
    let asked: Vec<(NodeId, IpAddr)> = goals
        .iter()
        .flat_map(|goal| blueprint.loopbacks(*goal).into_iter().map(|a| (*goal, a)))
        .collect();
    let addresses: Vec<IpAddr> = asked.iter().map(|(_, address)| *address).collect();
    // `next[d][n]` is the node to which node n sends packets for address d.
    let mut next = vec![vec![None; nodes.len()]; asked.len()];
    for (index, live) in nodes.iter().enumerate() {
        let node = NodeId(index as u32);
        // A node of another machine counts as arriving, because its kernel cannot be queried here.
        if !ours.has(node) {
            for (hops, (goal, _)) in next.iter_mut().zip(&asked) {
                hops[index] = Some(goal.index());
            }
            continue;
        }
        let found = live.lookup(&addresses)?;
        for (hops, route) in next.iter_mut().zip(found) {
            hops[index] = route.and_then(|route| hop(blueprint, snapshot, node, &route));
        }
    }
    let layout = &blueprint.lab.layout;
    let graph = Graph::new(layout, snapshot, GroundTransit::Never);
    let mut scratch = Scratch::default();
    let here = |node: usize| ours.has(NodeId(node as u32));
    let mut good: Vec<bool> = (0..nodes.len()).map(here).collect();
    let (mut pairs, mut right) = (0_usize, 0_usize);
    let mut reachable = BTreeMap::new();
    for ((goal, _), next) in asked.iter().zip(&next) {
        // The tree is computed once per destination, and used for both address families.
        let can = reachable.entry(*goal).or_insert_with(|| {
            let tree = graph.tree(*goal, &mut scratch);
            let distances = (0..).map(NodeId).zip(&tree.distance_ns);
            let can =
                distances.map(|(from, d)| ours.has(from) && *d != UNREACHABLE && told(from, *goal));
            can.collect::<Vec<bool>>()
        });
        for ((good, arrives), can) in good.iter_mut().zip(arrive(next, goal.index())).zip(can) {
            *good &= arrives || !*can;
            pairs += usize::from(*can);
            right += usize::from(*can && arrives);
        }
    }
    Ok(ConvergenceSample {
        nodes: good.iter().filter(|good| **good).count(),
        right_ratio: right as f64 / pairs.max(1) as f64,
    })
}

/// Returns the node that gets the packet: the far end of an existing edge to which the gateway's address belongs.
fn hop(
    blueprint: &Blueprint,
    snapshot: &Snapshot,
    node: NodeId,
    route: &InstalledRoute,
) -> Option<usize> {
    if route.table != MAIN {
        return None;
    }
    let hop = match &route.target {
        RouteTarget::Hop(hop) => hop,
        RouteTarget::Multipath(hops) => hops.first()?,
        RouteTarget::Unreachable | RouteTarget::Blackhole => return None,
    };
    let port = blueprint.port_of_ifindex(node, hop.ifindex?)?;
    let far = blueprint.addresses.port_of(hop.via?)?;
    snapshot.edge(port, far)?;
    Some(blueprint.lab.layout.port(far).node.index())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_count_from_a_moment_on() {
        let converged = Converged::default();
        let early = Instant::now();
        let look = |nodes, right_ratio| ConvergenceSample { nodes, right_ratio };
        converged.counted().add(early, look(0, 0.0), 4);
        assert_eq!(converged.row(4), None);
        converged.count_from_now();
        converged.counted().add(early, look(0, 0.0), 4);
        assert_eq!(converged.row(4), None);
        for (nodes, right_ratio) in [(4, 1.0), (2, 0.5), (4, 1.0), (3, 0.7)] {
            converged
                .counted()
                .add(Instant::now(), look(nodes, right_ratio), 4);
        }
        let row = converged.row(4).unwrap();
        assert_eq!((row.samples, row.complete, row.least_nodes), (4, 2, 2));
        assert_eq!(row.least_right_ratio, 0.5);
        assert!((row.mean_right_ratio - 0.8).abs() < 1e-12);
    }
}
