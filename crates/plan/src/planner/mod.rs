//! Plans steps: scenario, sky, time and what failed go in, [`StepPlan`]s come out. Touches nothing else.
//!
//! Every machine of a lab plans the same steps from the same blueprint and the same failures, and carries out its
//! [share](StepPlan::share). What is planned counts as done only when [`Planner::installed`] says so: a plan that
//! is thrown away leaves no trace.

mod link_state;
mod moment;
mod pairs;
mod parting;
mod ports;
mod routes;

use std::collections::BTreeSet;
use std::sync::Arc;

use constel_link::{EdgeChange, PortId};
use constel_routing::link_state::LsaCount;
use constel_scenario::model::Mode;
use constel_topology::{Delta, Handover, Layout, NodeId, Snapshot, Stepper, diff};

use crate::blueprint::Blueprint;
use crate::failed::FailedEdges;
use crate::step_plan::{Adjacency, NodeChanges, RouteRow, StepPlan};

use moment::Moment;
pub use pairs::{PairSeen, PathSeen, PathsNews};
use parting::part;
use routes::RoutePlanner;
pub use routes::{PlannedRoutes, destinations};

/// Everything that changes with time, as planned so far.
pub struct Planner {
    blueprint: Arc<Blueprint>,
    stepper: Stepper,
    /// The step that is in force.
    current: Arc<Snapshot>,
    /// Where Constel computes the routes.
    routes: Option<RoutePlanner>,
    /// Whether links that go outlive the routes over them.
    drains: bool,
    /// Ports on switches, behind which any Ethernet address may be: their nodes ask each other for it.
    asking: BTreeSet<PortId>,
}

/// A step that is planned and not in force.
pub struct PlannedStep {
    /// What the machines must be told.
    pub plan: StepPlan,
    /// The topology of the step.
    pub snapshot: Arc<Snapshot>,
    /// Stations that change their satellite.
    pub handovers: Vec<Handover>,
    routes: Option<PlannedRoutes>,
}

impl PlannedStep {
    /// How many routes change; `None` where Constel does not compute any.
    #[must_use]
    pub fn route_changes(&self) -> Option<usize> {
        self.routes.as_ref().map(|_| self.plan.routes.len())
    }
}

/// A topology of the same shape without edges, every antenna free.
fn nothing_before(first: &Snapshot) -> Snapshot {
    Snapshot {
        beams: vec![None; first.beams.len()],
        ..Snapshot::default()
    }
}

impl Planner {
    /// Nothing planned yet.
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

    /// A failure of the lab's that waits to be told begins with the first step at or after `from_ns` that is planned from here on.
    /// False when there is no such failure.
    pub fn fail_from(&mut self, failure: &str, from_ns: u64) -> bool {
        self.stepper.fail_from(failure, from_ns)
    }

    /// As [`Planner::fail_from`], for nodes that go with the failure and that the lab does not name in it.
    pub fn fail_also(&mut self, failure: &str, nodes: &[NodeId], from_ns: u64) -> bool {
        self.stepper.fail_also(failure, nodes, from_ns)
    }

    /// These nodes of a failure that was told are whole again with the first step at or after `until_ns` that is planned from here on.
    pub fn heal_from(&mut self, failure: &str, nodes: &[NodeId], until_ns: u64) -> bool {
        self.stepper.heal_from(failure, nodes, until_ns)
    }

    /// What the lab is made of.
    #[must_use]
    pub fn blueprint(&self) -> &Arc<Blueprint> {
        &self.blueprint
    }

    /// The topology of the step in force.
    #[must_use]
    pub fn current(&self) -> &Arc<Snapshot> {
        &self.current
    }

    /// The lab at time zero, held still: all nodes come, edges are there and no delay glides until
    /// [`Planner::glide`]. Routes are in node order, for empty kernels.
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

    /// The edges of the step in force as they are when lab time runs.
    #[must_use]
    pub fn glide(&self) -> Vec<EdgeChange> {
        let layout = &self.blueprint.lab.layout;
        let delta = diff(layout, &nothing_before(&self.current), &self.current);
        delta.changes(0).collect()
    }

    /// The next step's topology, and what it takes to get there without its routes: those are planned by
    /// [`Planner::route`].
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

    /// Plans the routes of a step, or plans them anew where links have failed or been healed by hand since, or nodes
    /// have heard of something. True when it did.
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

    /// The step is in force, its routes in the kernels.
    pub fn installed(&mut self, step: PlannedStep, failed: &FailedEdges) {
        if let (Some(routes), Some(planned)) = (&mut self.routes, step.routes) {
            routes.installed(planned);
            if step.snapshot.step > 0 {
                routes.begin(&self.blueprint.lab.layout, &step.snapshot, failed);
            }
        }
        self.current = step.snapshot;
    }

    /// What must change within the step in force at lab time `now_ns`, for links failed or healed by hand, or messages
    /// that nodes have heard; `None` when nothing must.
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

    /// What was planned [within](Planner::within) the step is in the kernels.
    pub fn installed_within(&mut self, planned: PlannedRoutes) {
        if let Some(routes) = &mut self.routes {
            routes.installed(planned);
        }
    }

    /// All routes that the table of a node holds by what was installed last; none where Constel does not compute them.
    #[must_use]
    pub fn routes_of(&self, node: NodeId) -> Vec<RouteRow> {
        let routes = self.routes.as_ref();
        routes.map_or_else(Vec::new, |routes| routes.rows_of(node))
    }

    /// What a node knows of the far ends of its ports that have several, by the topology in force.
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

    /// Whether the kernels hold all routes of a step once its plan is carried out: routes that Constel computes, and of
    /// which all nodes know at once.
    #[must_use]
    pub fn routes_stand_with_the_plan(&self) -> bool {
        let routes = self.routes.as_ref();
        routes.is_some_and(|routes| routes.link_state.is_none())
    }

    /// The least delay from a node to another over the topology in force, nanoseconds, where its routes have it: `None` in it without a way.
    #[must_use]
    pub fn least_delay_ns(&self, from: NodeId, to: NodeId) -> Option<Option<u64>> {
        self.routes.as_ref()?.least_delay_ns(from, to)
    }

    /// Lab time at which a node handles the next message about a failure.
    #[must_use]
    pub fn next_message_ns(&self) -> Option<u64> {
        self.routes.as_ref()?.link_state.as_ref()?.next_ns()
    }

    /// Messages about failures so far, where there are any.
    #[must_use]
    pub fn messages(&self) -> Option<LsaCount> {
        let state = self.routes.as_ref()?.link_state.as_ref()?;
        Some(state.lsa_count())
    }

    /// What the steps saw of each pair with disjoint paths, in the order of the addresses' pairs.
    #[must_use]
    pub fn pairs_seen(&self) -> &[PairSeen] {
        let pairs = self
            .routes
            .as_ref()
            .and_then(|routes| routes.pairs.as_ref());
        pairs.map_or(&[], |pairs| pairs.seen())
    }

    /// Pairs that have more or fewer disjoint paths than when last asked.
    pub fn take_paths_news(&mut self) -> Vec<PathsNews> {
        let pairs = self
            .routes
            .as_mut()
            .and_then(|routes| routes.pairs.as_mut());
        pairs.map_or_else(Vec::new, |pairs| pairs.take_news())
    }
}

/// The layout, and the ports whose nodes ask for their neighbours' Ethernet addresses.
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

/// The ends of links among edges whose ports have more than one far port in the course of a run, and are told of them.
fn served((layout, asking): Ports<'_>, edges: &[(PortId, PortId)]) -> Vec<Adjacency> {
    let served = edges
        .iter()
        .filter(|(from, _)| layout.port(*from).medium.several && !asking.contains(from));
    served
        .map(|&(port, far_port)| Adjacency { port, far_port })
        .collect()
}
