//! Plans steps: a pure function from scenario, sky, time and failures to [`StepPlan`]s.
//!
//! Every machine of a lab plans the same steps from the same blueprint and the same failures, and applies its
//! [share](StepPlan::share). A plan counts as done only after [`Planner::installed`]: a discarded plan leaves no
//! trace.

mod link_state;
mod live;
mod moment;
mod pairs;
mod parting;
mod ports;
mod routes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use constel_link::{EdgeChange, PortId};
use constel_routing::link_state::LsaCount;
use constel_scenario::model::Mode;
use constel_topology::{Delta, Handover, Layout, NodeId, Snapshot, Stepper, diff};

use crate::blueprint::Blueprint;
use crate::failed::FailedEdges;
use crate::step_plan::{Adjacency, NodeChanges, RouteRow, StepPlan};

use moment::Moment;
pub use pairs::{PairStatistics, PathCountChange, PathStatistics};
use parting::part;
use routes::RoutePlanner;
pub use routes::{PlannedRoutes, destinations};

/// The changing state of a lab, as planned so far.
pub struct Planner {
    blueprint: Arc<Blueprint>,
    stepper: Stepper,
    /// The topology of the step in force.
    current: Arc<Snapshot>,
    /// The route planner, if Constel computes the routes.
    routes: Option<RoutePlanner>,
    /// Whether disappearing links stay until the routes have left them.
    drains: bool,
    /// Ports on switches, where any Ethernet address may appear: their nodes resolve neighbours themselves.
    asking: BTreeSet<PortId>,
}

/// A step that is planned and not in force.
pub struct PlannedStep {
    /// The changes for the machines.
    pub plan: StepPlan,
    /// The topology of the step.
    pub snapshot: Arc<Snapshot>,
    /// The stations that change their satellite.
    pub handovers: Vec<Handover>,
    routes: Option<PlannedRoutes>,
}

impl PlannedStep {
    /// Returns the number of changed routes; `None` if Constel does not compute routes.
    #[must_use]
    pub fn route_changes(&self) -> Option<usize> {
        self.routes.as_ref().map(|_| self.plan.routes.len())
    }
}

/// Returns a topology of the same shape without edges, with all antennas free.
fn nothing_before(first: &Snapshot) -> Snapshot {
    Snapshot {
        beams: vec![None; first.beams.len()],
        ..Snapshot::default()
    }
}

impl Planner {
    /// Creates a planner that has planned nothing yet.
    #[must_use]
    pub fn new(blueprint: Arc<Blueprint>) -> Self {
        let routing = &blueprint.lab.scenario.routing;
        let routes = match &routing.mode {
            Mode::Computed(asked) => Some(RoutePlanner::new(&blueprint, asked)),
            Mode::Daemons(_) | Mode::None => None,
        };
        Self {
            stepper: blueprint.lab.stepper(),
            current: Arc::new(Snapshot::default()),
            routes,
            drains: routing.drain.ns() > 0,
            asking: blueprint.lab.switches().concat().into_iter().collect(),
            blueprint,
        }
    }

    /// Starts a failure that waits for a trigger: it begins with the first newly planned step at or after
    /// `from_ns`. Returns false when there is no such failure.
    pub fn fail_from(&mut self, failure: &str, from_ns: u64) -> bool {
        self.stepper.fail_from(failure, from_ns)
    }

    /// As [`Planner::fail_from`], for nodes that fail with the failure although the scenario does not list them in
    /// it.
    pub fn fail_also(&mut self, failure: &str, nodes: &[NodeId], from_ns: u64) -> bool {
        self.stepper.fail_also(failure, nodes, from_ns)
    }

    /// Repairs these nodes of a triggered failure with the first newly planned step at or after `until_ns`.
    pub fn heal_from(&mut self, failure: &str, nodes: &[NodeId], until_ns: u64) -> bool {
        self.stepper.heal_from(failure, nodes, until_ns)
    }

    /// Continues with another blueprint of the same shape ([`Layout::shape_differs`]) from the next newly planned step on.
    ///
    /// # Panics
    /// When the blueprint has another shape.
    pub fn adopt(&mut self, blueprint: Arc<Blueprint>) {
        self.stepper.adopt(Arc::clone(&blueprint.lab.layout));
        if let Some(routes) = &mut self.routes {
            routes.adopt(&blueprint.lab.layout);
        }
        self.blueprint = blueprint;
    }

    /// Has antennas use these satellites from the next newly planned step on, as [`Stepper::point`] does.
    pub fn point(&mut self, antennas: BTreeMap<usize, Option<NodeId>>) {
        self.stepper.point(antennas);
    }

    /// Returns the lab's blueprint.
    #[must_use]
    pub fn blueprint(&self) -> &Arc<Blueprint> {
        &self.blueprint
    }

    /// Returns the topology of the step in force.
    #[must_use]
    pub fn current(&self) -> &Arc<Snapshot> {
        &self.current
    }

    /// Plans lab time zero, with constant delays until [`Planner::glide`]: all nodes and edges are created. Routes
    /// are in node order, for empty kernels.
    #[must_use]
    pub fn first(&mut self, failed: &FailedEdges) -> PlannedStep {
        let layout = Arc::clone(&self.blueprint.lab.layout);
        let mut first = self.stepper.advance();
        let delta = diff(&layout, &nothing_before(&first), &first);
        let held = delta.changes(0).map(|mut change| {
            if let EdgeChange::Set { impairment, .. } = &mut change {
                impairment.delay.slope_ns_per_s = 0;
            }
            change
        });
        let edges = held.collect();
        let mut routes = self.routes.as_mut().map(|routes| {
            routes.begin_knowing(&layout, &first, failed);
            routes.plan_first(&self.blueprint, &first, failed)
        });
        first.step = 0;
        let mut plan = plan_of((&layout, &self.asking), &first, &delta, edges);
        if let Some(routes) = &mut routes {
            plan.routes = std::mem::take(&mut routes.plan);
        }
        plan.nodes.make = layout.nodes().iter().map(|node| node.id).collect();
        PlannedStep {
            snapshot: Arc::new(first),
            handovers: Vec::new(),
            plan,
            routes,
        }
    }

    /// Returns the edges of the step in force as they are once lab time runs.
    #[must_use]
    pub fn glide(&self) -> Vec<EdgeChange> {
        let layout = &self.blueprint.lab.layout;
        let delta = diff(layout, &nothing_before(&self.current), &self.current);
        delta.changes(0).collect()
    }

    /// Returns the next step's topology and the changes that lead to it, without routes: [`Planner::route`] plans
    /// those.
    #[must_use]
    pub fn advance(&mut self) -> PlannedStep {
        let layout = Arc::clone(&self.blueprint.lab.layout);
        let snapshot = self.stepper.advance();
        let delta = diff(&layout, &self.current, &snapshot);
        let mut parted = part(&layout, &snapshot, &delta, self.drains);
        let at_once = parted.now.len() - delta.gliding;
        let gliding = parted.now.split_off(at_once);
        let mut plan = plan_of((&layout, &self.asking), &snapshot, &delta, parted.now);
        plan.gliding = gliding;
        plan.forget = served((&layout, &self.asking), &parted.gone);
        plan.drain = parted.later;
        plan.forget_drained = served((&layout, &self.asking), &parted.gone_later);
        if let Some(routes) = &mut self.routes {
            routes.foresee();
        }
        PlannedStep {
            snapshot: Arc::new(snapshot),
            handovers: delta.handovers,
            plan,
            routes: None,
        }
    }

    /// Plans the routes of a step, or plans them again if links have failed or been repaired by command since, or
    /// nodes have received advertisements. Returns whether it did.
    pub fn route(&mut self, step: &mut PlannedStep, failed: &FailedEdges) -> bool {
        let Some(routes) = &mut self.routes else {
            return false;
        };
        let holds = |planned: &PlannedRoutes| routes.holds(planned, failed);
        if step.routes.as_ref().is_some_and(holds) {
            return false;
        }
        let mut planned = routes.plan(&self.blueprint, &step.snapshot, Moment::Step, failed);
        step.plan.routes = std::mem::take(&mut planned.plan);
        step.routes = Some(planned);
        true
    }

    /// Records that the step is in force, with its routes in the kernels.
    pub fn installed(&mut self, step: PlannedStep, failed: &FailedEdges) {
        if let (Some(routes), Some(planned)) = (&mut self.routes, step.routes) {
            routes.installed(planned);
            if step.snapshot.step > 0 {
                routes.begin(&self.blueprint.lab.layout, &step.snapshot, failed);
            }
        }
        self.current = step.snapshot;
    }

    /// Plans the changes within the step in force at lab time `now_ns`, for links failed or repaired by command, or
    /// advertisements that nodes have received. Returns `None` when nothing must change.
    #[must_use]
    pub fn within(&mut self, now_ns: u64, failed: &FailedEdges) -> Option<PlannedRoutes> {
        let routes = self.routes.as_mut()?;
        let layout = &self.blueprint.lab.layout;
        if !routes.outdated(layout, &self.current, now_ns, failed) {
            return None;
        }
        let moment = Moment::Within(now_ns);
        Some(routes.plan(&self.blueprint, &self.current, moment, failed))
    }

    /// Records that the routes planned [within](Planner::within) the step are in the kernels.
    pub fn installed_within(&mut self, planned: PlannedRoutes) {
        if let Some(routes) = &mut self.routes {
            routes.installed(planned);
        }
    }

    /// Returns all routes in the table of a node after the last installation; empty if Constel does not compute
    /// routes.
    #[must_use]
    pub fn routes_of(&self, node: NodeId) -> Vec<RouteRow> {
        let routes = self.routes.as_ref();
        routes.map_or_else(Vec::new, |routes| routes.rows_of(node))
    }

    /// Returns a node's neighbour entries on ports that can have several, in the topology in force.
    #[must_use]
    pub fn adjacencies_of(&self, node: NodeId) -> Vec<Adjacency> {
        let layout = &self.blueprint.lab.layout;
        let own = self.current.edges.iter();
        let own = own.filter(|edge| layout.port(edge.from).node == node);
        served(
            (layout, &self.asking),
            &own.map(|e| (e.from, e.to))
                .collect::<Vec<(PortId, PortId)>>(),
        )
    }

    /// Returns whether the kernels hold all routes of a step as soon as its plan is applied. This is so if Constel
    /// computes the routes and all nodes learn of changes at once.
    #[must_use]
    pub fn routes_follow_the_plan(&self) -> bool {
        let routes = self.routes.as_ref();
        routes.is_some_and(|routes| routes.link_state.is_none())
    }

    /// Returns the least delay from a node to another over the topology in force, nanoseconds. The inner `None`
    /// means that there is no path. The outer `None` means that the routes do not have the value.
    #[must_use]
    pub fn least_delay_ns(&self, from: NodeId, to: NodeId) -> Option<Option<u64>> {
        self.routes.as_ref()?.least_delay_ns(from, to)
    }

    /// Returns the lab time at which a node handles the next message about a failure.
    #[must_use]
    pub fn next_message_ns(&self) -> Option<u64> {
        self.routes.as_ref()?.link_state.as_ref()?.next_ns()
    }

    /// Returns the number of messages about failures so far, if nodes send any.
    #[must_use]
    pub fn messages(&self) -> Option<LsaCount> {
        let state = self.routes.as_ref()?.link_state.as_ref()?;
        Some(state.lsa_count())
    }

    /// Returns the statistics of each pair with disjoint paths, in the order of the addresses' pairs.
    #[must_use]
    pub fn pairs_seen(&self) -> &[PairStatistics] {
        let pairs = self
            .routes
            .as_ref()
            .and_then(|routes| routes.pairs.as_ref());
        pairs.map_or(&[], |pairs| pairs.seen())
    }

    /// Returns the pairs whose number of disjoint paths changed since the last call.
    pub fn take_paths_news(&mut self) -> Vec<PathCountChange> {
        let pairs = self
            .routes
            .as_mut()
            .and_then(|routes| routes.pairs.as_mut());
        pairs.map_or_else(Vec::new, |pairs| pairs.take_news())
    }
}

/// The layout, and the ports whose nodes resolve their neighbours' Ethernet addresses.
type Ports<'a> = (&'a Layout, &'a BTreeSet<PortId>);

fn plan_of(
    ports: Ports<'_>,
    snapshot: &Snapshot,
    delta: &Delta,
    edges: Vec<EdgeChange>,
) -> StepPlan {
    let come: Vec<_> = delta.added.iter().map(|e| (e.from, e.to)).collect();
    StepPlan {
        step: snapshot.step,
        t_ns: snapshot.t_ns,
        nodes: NodeChanges::default(),
        edges,
        learn: served(ports, &come),
        ..StepPlan::default()
    }
}

/// Returns the ends of links among edges whose ports have more than one far port in the course of a run, and whose
/// neighbour entries Constel sets.
fn served((layout, asking): Ports<'_>, edges: &[(PortId, PortId)]) -> Vec<Adjacency> {
    let served = edges
        .iter()
        .filter(|(from, _)| layout.port(*from).medium.several && !asking.contains(from));
    served
        .map(|&(port, far_port)| Adjacency { port, far_port })
        .collect()
}
