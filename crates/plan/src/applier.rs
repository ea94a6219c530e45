//! The interface through which a plan is applied to the kernels of a machine.

use std::sync::Arc;
use std::time::Duration;

use constel_link::EdgeChange;
use constel_topology::Snapshot;

use crate::planner::Planner;
use crate::step_plan::{Adjacency, RouteRow, RoutesPlan, StepPlan};

/// The timing of an update of the edge table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EdgesApplied {
    /// The link plane's own time for it, between two frames, nanoseconds.
    pub took_ns: u64,
    /// The lateness with which it took effect, nanoseconds.
    pub late_ns: u64,
}

/// The result of installing routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoutesApplied {
    /// The number of requests to kernels; consecutive changes of one node share a request.
    pub requests: usize,
    /// The instant from which all packets take the new routes, nanoseconds of the machine's clock.
    pub stood_ns: u64,
}

/// The part of a machine that applies plans to its kernels. It decides nothing. A machine that gets its
/// [share](StepPlan::share) of a plan and a recorder of plans are both appliers.
pub trait Applier {
    /// The error of a kernel.
    type Error;
    /// An update of the edge table that was submitted and may not have taken effect yet.
    type Pending;

    /// Starts lab time: lab time zero is this instant of the machine's clock. From then on the delays of `glide`
    /// change continuously, and time-dependent laws run. Until then lab time does not advance. Returns once it is
    /// done.
    ///
    /// # Errors
    /// When the link plane refuses.
    fn start(&mut self, zero_ns: u64, glide: &[EdgeChange]) -> Result<(), Self::Error>;

    /// Submits changes of edges that take effect at one instant: at lab time `at_ns`, or at once for `None`. Does
    /// not wait.
    ///
    /// # Errors
    /// When the link plane refuses; then nothing of it takes effect.
    fn submit_edges(
        &mut self,
        changes: &[EdgeChange],
        at_ns: Option<u64>,
    ) -> Result<Self::Pending, Self::Error>;

    /// Waits until the update has taken effect.
    ///
    /// # Errors
    /// When it could not take effect.
    fn edges_applied(&mut self, pending: Self::Pending) -> Result<EdgesApplied, Self::Error>;

    /// Updates the link plane's map for packets in transit, if there is one.
    fn put_map(&mut self, rows: &[RouteRow]);

    /// Updates the link plane's routes of nodes without a stack, if there are such nodes. They take effect at once.
    fn put_ways(&mut self, _routes: &RoutesPlan) {}

    /// Announces that this topology is in force from here on, for components that inform nodes of it. Does not
    /// wait.
    fn in_force(&mut self, _topology: &Arc<Snapshot>) {}

    /// Removes the neighbour entries of far ends that disappeared.
    ///
    /// # Errors
    /// When a kernel refuses.
    fn forget(&mut self, gone: &[Adjacency]) -> Result<(), Self::Error>;

    /// Adds neighbour entries for new far ends, so that no frame waits for ARP or neighbour discovery.
    ///
    /// # Errors
    /// When a kernel refuses.
    fn learn(&mut self, come: &[Adjacency]) -> Result<(), Self::Error>;

    /// Installs routes in the kernels, in the plan's order. The map must already have them.
    ///
    /// # Errors
    /// When a kernel refuses a route: the installed routes then differ from the plan.
    fn install_routes(&mut self, routes: &RoutesPlan) -> Result<RoutesApplied, Self::Error>;

    /// Repairs nodes that changed routes or addresses which earlier plans installed. `planner` has the present
    /// values. For idle moments; `left` is the length of such a moment.
    ///
    /// # Errors
    /// When a kernel does not answer, or refuses a repair for a reason other than its node's own changes.
    fn look_after(&self, _planner: &Planner, _left: Duration) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Applies a whole plan now, for a machine that joins late, or before lab time runs.
    ///
    /// # Errors
    /// The first refusal.
    fn apply_now(&mut self, plan: &StepPlan) -> Result<RoutesApplied, Self::Error> {
        let edges = self.submit_edges(&plan.edges, None)?;
        self.edges_applied(edges)?;
        if !plan.gliding.is_empty() {
            let gliding = self.submit_edges(&plan.gliding, None)?;
            self.edges_applied(gliding)?;
        }
        self.put_ways(&plan.routes);
        self.put_map(&plan.routes.rows);
        self.forget(&plan.forget)?;
        self.learn(&plan.learn)?;
        let routed = self.install_routes(&plan.routes)?;
        if !plan.drain.is_empty() {
            let gone = self.submit_edges(&plan.drain, None)?;
            self.edges_applied(gone)?;
            self.forget(&plan.forget_drained)?;
        }
        Ok(routed)
    }
}
