//! The side that makes kernels equal a plan.

use std::sync::Arc;
use std::time::Duration;

use constel_link::EdgeChange;
use constel_topology::Snapshot;

use crate::planner::Planner;
use crate::step_plan::{Adjacency, RouteRow, RoutesPlan, StepPlan};

/// What an update of the edge table took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EdgesApplied {
    /// The link plane's own time for it, between two frames, nanoseconds.
    pub took_ns: u64,
    /// How long after its time it took effect, nanoseconds.
    pub late_ns: u64,
}

/// What telling routes took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoutesApplied {
    /// Requests to kernels: neighbouring changes of one node go together.
    pub requests: usize,
    /// When all that is sent took its new way, nanoseconds of the machine's clock.
    pub stood_ns: u64,
}

/// Makes one machine's kernels equal the plan it is given. It decides nothing: a machine that is given its
/// [share](StepPlan::share) of a plan and one that records what it is given are both appliers.
pub trait Applier {
    /// What a kernel refuses.
    type Error;
    /// An update of the edge table that was handed over and may not have taken effect yet.
    type Pending;

    /// Lab time zero is this instant of the machine's clock: from then on `glide` holds, whose delays glide, and
    /// laws of time run. Until then, lab time stands still. Returns when it is so.
    ///
    /// # Errors
    /// When the link plane refuses.
    fn start(&mut self, zero_ns: u64, glide: &[EdgeChange]) -> Result<(), Self::Error>;

    /// Hands over changes of edges that take effect in one instant: at lab time `at_ns`, or at once. Does not wait.
    ///
    /// # Errors
    /// When the link plane refuses; then nothing of it takes effect.
    fn submit_edges(
        &mut self,
        changes: &[EdgeChange],
        at_ns: Option<u64>,
    ) -> Result<Self::Pending, Self::Error>;

    /// Waits until they have taken effect.
    ///
    /// # Errors
    /// When they could not.
    fn edges_applied(&mut self, pending: Self::Pending) -> Result<EdgesApplied, Self::Error>;

    /// Tells the map that packets in transit go by, where there is one.
    fn put_map(&mut self, rows: &[RouteRow]);

    /// Tells the link plane the ways of nodes without a stack, where there are such nodes. Packets go by them at once.
    fn put_ways(&mut self, _routes: &RoutesPlan) {}

    /// This topology is in force from here on, for those who tell nodes of it. Does not wait.
    fn in_force(&mut self, _topology: &Arc<Snapshot>) {}

    /// Nodes forget far ends that went.
    ///
    /// # Errors
    /// When a kernel refuses.
    fn forget(&mut self, gone: &[Adjacency]) -> Result<(), Self::Error>;

    /// Nodes learn of far ends that came, so that no frame waits for ARP or neighbour discovery.
    ///
    /// # Errors
    /// When a kernel refuses.
    fn learn(&mut self, come: &[Adjacency]) -> Result<(), Self::Error>;

    /// Tells the kernels, in the plan's order. The map was told before.
    ///
    /// # Errors
    /// When a kernel refuses a route: what is installed is then not what was planned.
    fn install_routes(&mut self, routes: &RoutesPlan) -> Result<RoutesApplied, Self::Error>;

    /// Looks after nodes that changed what they were told by earlier plans: `planner` has what they should hold now. For
    /// moments without anything else to do; `left` is how long such a moment lasts.
    ///
    /// # Errors
    /// When a kernel does not answer, or refuses what its node did not make impossible.
    fn look_after(&self, _planner: &Planner, _left: Duration) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Carries a whole plan out, now: what a machine does that joins late, or before lab time runs.
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
