//! Computed routing: the shortest paths of each step, and the changes that lead to them.

use std::num::NonZero;
use std::sync::Arc;

use constel_routing::graph::NextHop;
use constel_routing::link_state::Reaction;
use constel_routing::{
    Graph, GroundTransit, HopChange, Metric, PathChange, RouteChange, Routes, Rule, Spare,
    ends_first,
};
use constel_scenario::model::{ComputedRouting, Destinations, Forwarding, Metric as Asked};
use constel_topology::{Layout, NodeId, Snapshot};
use constel_units::TimeSpan;

use super::link_state::LinkState;
use super::moment::Moment;
use super::pairs::{Pairs, PlannedPaths};
use super::ports::{PlannedPorts, PortRoutes};
use crate::blueprint::Blueprint;
use crate::failed::FailedEdges;
use crate::next_nodes::{NextNodes, NextNodesAt};
use crate::step_plan::{RouteDestination, RouteRow, RoutesPlan, SharedRouteRow, StacklessRouteRow};

/// The routes of all nodes as planned last.
pub(super) struct RoutePlanner {
    destinations: Vec<NodeId>,
    rule: Rule,
    /// The routes over time that a file fixes in place of the rule, if there is one.
    chosen: Option<(Arc<NextNodes>, NextNodesAt)>,
    /// Whether the link plane's map forwards packets in transit.
    by_map: bool,
    /// Whether each node has no stack, by node.
    forwards: Vec<bool>,
    planned: Routes,
    /// The memory of the routes before, for reuse.
    spare: Spare,
    /// The number of threads that may share the work. It is kept because a query of the machine takes longer than a
    /// step of a small lab.
    threads: usize,
    /// The version that the planned routes were computed from.
    version: Version,
    /// Whether the planned routes are those of least delay over all of the step's links.
    by_least_delay: bool,
    /// The link-state protocol, if nodes learn of failures by messages.
    pub(super) link_state: Option<LinkState>,
    /// The pairs with disjoint paths, if any; then all nodes know of failures at once.
    pub(super) pairs: Option<Pairs>,
    /// The routes to ports, if networks' ports have addresses.
    ports: Option<PortRoutes>,
}

/// Returns the destinations of computed routes.
#[must_use]
pub fn destinations(layout: &Layout, asked: &ComputedRouting) -> Vec<NodeId> {
    let all = asked.destinations == Destinations::All;
    let wanted = layout.nodes().iter();
    let wanted = wanted.filter(|node| all || node.class.endpoint);
    wanted.map(|node| node.id).collect()
}

/// The number of changes of edges failed by command if all nodes know of them at once; otherwise the number of
/// database changes.
type Version = u64;

/// The routes of a step, and the changes that lead to them.
pub struct PlannedRoutes {
    /// The changes for the kernels.
    pub plan: RoutesPlan,
    routes: Routes,
    version: Version,
    by_least_delay: bool,
    paths: Option<PlannedPaths>,
    ports: Option<PlannedPorts>,
}

impl RoutePlanner {
    /// Creates a planner that has planned nothing yet.
    pub(super) fn new(blueprint: &Blueprint, asked: &ComputedRouting) -> Self {
        Self {
            destinations: destinations(&blueprint.lab.layout, asked),
            rule: Rule {
                metric: match asked.metric {
                    Asked::Delay => Metric::Delay,
                    Asked::Hops => Metric::Hops,
                },
                paths: asked.paths,
            },
            chosen: blueprint.lab.next_nodes.as_ref().map(|chosen| {
                let start = chosen.start();
                (Arc::clone(chosen), start)
            }),
            by_map: asked.forwarding != Forwarding::Tables,
            forwards: (0..)
                .map(NodeId)
                .take(blueprint.lab.layout.nodes().len())
                .map(|node| blueprint.lab.forwards(node))
                .collect(),
            planned: Routes::default(),
            spare: Spare::default(),
            version: 0,
            by_least_delay: false,
            threads: std::thread::available_parallelism().map_or(1, NonZero::get),
            link_state: asked.reaction.map(|r| {
                let ns = |span: TimeSpan| span.ns().unsigned_abs();
                let reaction = Reaction {
                    detect_ns: ns(r.detect),
                    processing_ns: ns(r.processing),
                    reach_hops: r.reach.map(u32::from),
                };
                LinkState::new(blueprint, reaction)
            }),
            pairs: Pairs::wanted(blueprint),
            ports: PortRoutes::wanted(blueprint),
        }
    }

    /// Predicts with another layout of the same shape from now on.
    pub(super) fn adopt(&mut self, layout: &Arc<Layout>) {
        if let Some(link_state) = &mut self.link_state {
            link_state.adopt(layout);
        }
    }

    fn version(&self, failed: &FailedEdges) -> Version {
        let changes = self.link_state.as_ref().map(LinkState::database_changes);
        changes.unwrap_or_else(|| failed.version())
    }

    /// Prepares for the routes of lab time zero.
    pub(super) fn begin_knowing(
        &mut self,
        layout: &Layout,
        snapshot: &Snapshot,
        failed: &FailedEdges,
    ) {
        if let Some(link_state) = &mut self.link_state {
            link_state.foresee();
            link_state.begin_knowing(layout, snapshot, failed);
        }
    }

    /// Prepares for the planning of the next step.
    pub(super) fn foresee(&mut self) {
        if let Some(link_state) = &mut self.link_state {
            link_state.foresee();
        }
    }

    /// Records that a step is in force, with its routes in the kernels.
    pub(super) fn begin(&mut self, layout: &Layout, snapshot: &Snapshot, failed: &FailedEdges) {
        if let Some(link_state) = &mut self.link_state {
            link_state.begin(layout, snapshot, failed);
        }
    }

    /// Returns whether routes must be planned again at lab time `now_ns` of a step, for links failed or repaired by
    /// command, or messages that nodes have received.
    pub(super) fn outdated(
        &mut self,
        layout: &Layout,
        snapshot: &Snapshot,
        now_ns: u64,
        failed: &FailedEdges,
    ) -> bool {
        if let Some(link_state) = &mut self.link_state {
            link_state.react(layout, snapshot, now_ns, failed);
        }
        self.version(failed) != self.version
    }

    /// Returns whether planned routes are still up to date.
    pub(super) fn holds(&self, planned: &PlannedRoutes, failed: &FailedEdges) -> bool {
        self.version(failed) == planned.version
    }

    /// Plans the changes for `snapshot`, without the links failed by command.
    pub(super) fn plan(
        &mut self,
        blueprint: &Blueprint,
        snapshot: &Snapshot,
        moment: Moment,
        failed: &FailedEdges,
    ) -> PlannedRoutes {
        let version = self.version(failed);
        let layout = &blueprint.lab.layout;
        let rest = failed.without(snapshot);
        let by_least_delay = rest.is_none()
            && self.link_state.is_none()
            && self.chosen.is_none()
            && self.rule.metric == Metric::Delay;
        let snapshot = rest.as_ref().unwrap_or(snapshot);
        let (mut paths, mut known) = (None, None);
        let routes = match &mut self.link_state {
            Some(state) => state.routes(layout, snapshot, &self.destinations, self.rule),
            None => {
                let graph = Graph::new(layout, snapshot, GroundTransit::Never);
                let pairs = self.pairs.as_ref();
                paths = pairs.map(|p| p.plan(blueprint, &graph, snapshot.t_ns, moment));
                let (to, rule) = (&self.destinations, self.rule);
                match &mut self.chosen {
                    Some((all, chosen)) => {
                        Routes::chosen(&graph, to, chosen.at(all, snapshot.t_ns))
                    }
                    None => {
                        let (before, spare) = (&self.planned, &mut self.spare);
                        let (routes, changed) =
                            Routes::compute_from(&graph, to, rule, before, spare, self.threads);
                        known = Some(changed);
                        routes
                    }
                }
            }
        };
        let (mut changes, mut ways) = (Vec::new(), Vec::new());
        let mut shared_ways = Vec::new();
        let mut changed_to = Vec::new();
        let each = |change: HopChange<'_>| {
            if self.ports.is_some() {
                changed_to.push((change.node, change.destination));
            }
            if self.forwards[change.node.index()] {
                if change.others.is_empty() {
                    ways.push(StacklessRouteRow {
                        node: change.node,
                        destination: change.destination,
                        hop: change.next,
                    });
                } else {
                    let hops = change.next.iter().chain(change.others);
                    shared_ways.push(SharedRouteRow {
                        node: change.node,
                        goal: RouteDestination::Node(change.destination),
                        hops: hops.copied().collect(),
                    });
                }
            } else {
                changes.push(change.addressed(&blueprint.addresses));
            }
        };
        match known {
            Some(changed) => routes.each_of(&changed, &self.planned, each),
            None => routes.each_change(&self.planned, each),
        }
        let mut first = changes.len();
        if self.by_map {
            let ends = ends_first(&mut changes, layout);
            // If all destinations are outside the transit, only packets that the map does not forward wait for the
            // other rows.
            if !self.destinations.iter().any(|d| layout.is_transit(*d)) {
                first = ends;
            }
        }
        let mut rows: Vec<RouteRow> = changes.iter().map(|change| self.row(change)).collect();
        let ports = self.ports.as_ref();
        let ports = ports.map(|ports| ports.plan(blueprint, snapshot, &routes, changed_to));
        rows.extend(
            ports
                .iter()
                .flat_map(|planned| planned.rows.iter().cloned()),
        );
        let mut path_rows = Vec::new();
        for change in paths.iter().flat_map(|planned| &planned.changes) {
            if self.forwards[change.node.index()] {
                shared_ways.push(SharedRouteRow {
                    node: change.node,
                    goal: RouteDestination::Path(change.goal),
                    hops: if change.set {
                        vec![change.hop]
                    } else {
                        Vec::new()
                    },
                });
            } else {
                path_rows.push(path_row(change));
            }
        }
        PlannedRoutes {
            plan: RoutesPlan {
                first,
                rows,
                paths: path_rows,
                ways,
                shared_ways,
            },
            routes,
            version,
            by_least_delay,
            paths,
            ports,
        }
    }

    /// As [`RoutePlanner::plan`] for empty kernels: nothing is forwarded yet, so the order does not matter, and
    /// each node gets all its routes in one request.
    pub(super) fn plan_first(
        &mut self,
        blueprint: &Blueprint,
        snapshot: &Snapshot,
        failed: &FailedEdges,
    ) -> PlannedRoutes {
        let mut planned = self.plan(blueprint, snapshot, Moment::Step, failed);
        let RoutesPlan {
            first, rows, paths, ..
        } = &mut planned.plan;
        // Ends stay before the others if the plan puts them first.
        rows[..*first].sort_by_key(|row| row.node);
        rows[*first..].sort_by_key(|row| row.node);
        paths.sort_by_key(|row| row.node);
        planned
    }

    /// Records that the plan is in the kernels.
    pub(super) fn installed(&mut self, planned: PlannedRoutes) {
        let before = std::mem::replace(&mut self.planned, planned.routes);
        self.spare.keep(before);
        self.version = planned.version;
        self.by_least_delay = planned.by_least_delay;
        if let (Some(pairs), Some(paths)) = (&mut self.pairs, planned.paths) {
            pairs.installed(paths);
        }
        if let (Some(known), Some(ports)) = (&mut self.ports, planned.ports) {
            known.installed(ports);
        }
    }

    /// Returns the least delay from a node to another over the topology in force, nanoseconds. The inner `None`
    /// means that there is no path. The outer `None` means that the routes use another metric, or that none leads
    /// there.
    pub(super) fn least_delay_ns(&self, from: NodeId, to: NodeId) -> Option<Option<u64>> {
        let leads_there = self.planned.destinations().binary_search(&to).is_ok();
        (self.by_least_delay && leads_there).then(|| self.planned.cost(from, to))
    }

    /// Returns all routes in a node's table once the last plan is installed.
    pub(super) fn rows_of(&self, node: NodeId) -> Vec<RouteRow> {
        let row = |destination: &NodeId| {
            let mut hops = self.planned.hops(node, *destination);
            Some(RouteRow {
                node,
                goal: RouteDestination::Node(*destination),
                set: true,
                hop: hops.next()?,
                others: hops.collect(),
            })
        };
        let others = self.destinations.iter().filter(|to| **to != node);
        let paths = self.pairs.iter().flat_map(|pairs| pairs.rows_of(node));
        others.filter_map(row).chain(paths).collect()
    }

    fn row(&self, change: &RouteChange) -> RouteRow {
        let (node, goal) = (change.node, RouteDestination::Node(change.destination));
        let row = |set, mut hops: Box<dyn Iterator<Item = NextHop> + '_>| RouteRow {
            node,
            goal,
            set,
            hop: hops.next().unwrap_or_else(|| {
                unreachable!("a route that comes or goes leads somewhere: {change:?}")
            }),
            others: hops.collect(),
        };
        if change.via.is_some() {
            let hops = change.vias().map(|via| NextHop {
                port: via.port,
                far_port: via.far_port,
            });
            row(true, Box::new(hops))
        } else {
            // A removed route is named completely, so that no other route can match.
            row(false, Box::new(self.planned.hops(node, change.destination)))
        }
    }
}

fn path_row(change: &PathChange) -> RouteRow {
    RouteRow {
        node: change.node,
        goal: RouteDestination::Path(change.goal),
        set: change.set,
        hop: change.hop,
        others: Vec::new(),
    }
}
