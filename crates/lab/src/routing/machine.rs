//! The applier of this machine: its link plane, its nodes' kernels and its map.

use std::sync::Arc;
use std::time::Duration;

use constel_drivers::{Links, PendingUpdate};
use constel_link::{EdgeChange, EdgeUpdate};
use constel_plan::{
    Adjacency, Applier, EdgesApplied, Planner, RouteDestination, RouteRow, RoutesApplied,
    RoutesPlan, at_clock,
};
use constel_topology::Snapshot;

use crate::answers::impair;
use crate::clock::mono_ns;
use crate::error::EngineError;
use crate::information::{Informant, News};
use crate::nodes::kernels::Kernels;

/// The applier of plans to this machine.
pub(crate) struct Machine {
    kernels: Arc<Kernels>,
    links: Arc<dyn Links>,
    informant: Option<Arc<Informant>>,
    /// Lab time zero by the machine's clock; 0 until lab time runs.
    zero_ns: u64,
}

impl Machine {
    /// Creates the applier before lab time runs.
    pub(crate) fn new(
        kernels: Arc<Kernels>,
        links: Arc<dyn Links>,
        informant: Option<Arc<Informant>>,
    ) -> Self {
        Self {
            kernels,
            links,
            informant,
            zero_ns: 0,
        }
    }
}

impl Machine {
    /// Returns the routes of nodes on other machines that are needed to follow paths: those to endpoints of
    /// traffic. All routes would need as much memory as if this machine had every node.
    fn followed_elsewhere(&self, routes: &RoutesPlan) -> Vec<RouteRow> {
        let layout = &self.kernels.blueprint.lab.layout;
        let here = self.kernels.ours();
        let is_followed = |row: &&RouteRow| {
            let leads_to_an_end =
                matches!(row.goal, RouteDestination::Node(to) if layout.node(to).class.endpoint);
            leads_to_an_end && !here.has(row.node)
        };
        routes.rows.iter().filter(is_followed).cloned().collect()
    }
}

/// A submitted update of the edge table, and its due time by the machine's clock.
pub(crate) struct Submitted {
    update: PendingUpdate,
    due_ns: Option<u64>,
}

impl Applier for Machine {
    type Error = EngineError;
    type Pending = Submitted;

    fn start(&mut self, zero_ns: u64, glide: &[EdgeChange]) -> Result<(), EngineError> {
        self.zero_ns = zero_ns;
        let pending = self.submit_edges(glide, Some(0))?;
        self.edges_applied(pending)?;
        // Time-dependent laws begin with lab time.
        impair::put_profiles(&self.kernels.blueprint, self.links.as_ref(), zero_ns)
    }

    fn submit_edges(
        &mut self,
        changes: &[EdgeChange],
        at_ns: Option<u64>,
    ) -> Result<Submitted, EngineError> {
        let layout = &self.kernels.blueprint.lab.layout;
        let here = self.kernels.ours();
        // An edge belongs to the machine that sends its frames.
        let ours = here.edges(layout, changes);
        let changes = at_clock(&ours, self.zero_ns);
        let due_ns = at_ns.map(|at_ns| self.zero_ns + at_ns);
        Ok(Submitted {
            update: self.links.submit(EdgeUpdate { changes }, due_ns)?,
            due_ns,
        })
    }

    fn edges_applied(&mut self, pending: Submitted) -> Result<EdgesApplied, EngineError> {
        let applied = pending.update.wait()?;
        Ok(EdgesApplied {
            took_ns: applied.took_ns,
            late_ns: pending
                .due_ns
                .map_or(0, |due_ns| applied.at_ns.saturating_sub(due_ns)),
        })
    }

    fn put_map(&mut self, rows: &[RouteRow]) {
        if let Some(forwarding) = &self.kernels.forwarding {
            let layout = &self.kernels.blueprint.lab.layout;
            let here = self.kernels.ours();
            // The map contains only entries of this machine's nodes.
            let ours = rows.iter().filter(|row| here.has(row.node));
            ours.for_each(|row| forwarding.put(layout, row));
        }
    }

    fn put_ways(&mut self, routes: &RoutesPlan) {
        if let Some(stackless) = &self.kernels.stackless {
            stackless.put(routes);
        }
    }

    fn in_force(&mut self, topology: &Arc<Snapshot>) {
        if let Some(informant) = &self.informant {
            informant.tell(News::Topology(Arc::clone(topology)));
        }
    }

    fn forget(&mut self, gone: &[Adjacency]) -> Result<(), EngineError> {
        let layout = &self.kernels.blueprint.lab.layout;
        self.kernels.forget(&self.kernels.ours().ends(layout, gone))
    }

    fn learn(&mut self, come: &[Adjacency]) -> Result<(), EngineError> {
        let layout = &self.kernels.blueprint.lab.layout;
        self.kernels.learn(&self.kernels.ours().ends(layout, come))
    }

    fn look_after(&self, planner: &Planner, left: Duration) -> Result<(), EngineError> {
        self.kernels.look_after(planner, left)
    }

    fn install_routes(&mut self, routes: &RoutesPlan) -> Result<RoutesApplied, EngineError> {
        let here = self.kernels.ours();
        let ours = here.routes(routes);
        let (first, rest) = ours.rows.split_at(ours.first);
        // The first rows make all packets take the new paths; the time after them is the one that counts for
        // convergence.
        let mut requests = self.kernels.route(first)?;
        let mut stood_ns = mono_ns();
        requests += self.kernels.route(rest)?;
        if !ours.paths.is_empty() {
            requests += self.kernels.route(&ours.paths)?;
            stood_ns = mono_ns();
        }
        // These go to placeholders in memory, and so are not counted as requests.
        if !here.is_all() {
            self.kernels.route(&self.followed_elsewhere(routes))?;
        }
        Ok(RoutesApplied { requests, stood_ns })
    }
}
