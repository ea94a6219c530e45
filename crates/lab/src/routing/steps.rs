//! The step loop: the plan for the next step is ready before its time, and then takes effect as one atomic update
//! of the edge table.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use constel_api::summary::Plans;
use constel_host::clock::polling;
use constel_link::Tally;
use constel_plan::{Adjacency, Applier, FailedEdges, PlannedStep, Planner, StepPlan};
use constel_topology::Snapshot;

use crate::clock::{LabClock, mono_ns};
use crate::failed::Failed;
use crate::life::manifest::bounds;

/// The number of edges that are changed at a time if only their delay changes. Such an update takes a fraction of a
/// millisecond and is followed by a pause, so that frames do not wait for all edges of a large constellation.
const GLIDING_AT_ONCE: usize = 500;
const GLIDING_PAUSE_NS: u64 = 1_000_000;

/// How often a waiting loop checks whether it must stop.
const STOP_CHECK: Duration = Duration::from_millis(20);

/// The timing of a run's steps, in nanoseconds. Its memory does not grow with the number of steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepTimes {
    /// The computation of positions, edges and their differences.
    pub(crate) compute_ns: Tally,
    /// The computation of routes and their differences.
    pub(crate) routes_ns: Tally,
    /// The link plane's own time for the table update, between two frames.
    pub(crate) update_ns: Tally,
    /// The writing of neighbour entries and routes to kernels.
    pub(crate) kernel_ns: Tally,
    /// The total time of a step: its planning, and the kernels.
    pub(crate) whole_ns: Tally,
    /// The planning time of the next step.
    planning_ns: u64,
    /// The lateness with which the table update took effect.
    pub(crate) lateness_ns: Tally,
    /// The time to follow the paths of flows through the kernels' tables, between this step and the next.
    pub(crate) paths_ns: Tally,
    /// The number of edge changes.
    pub(crate) edge_changes: Tally,
    /// The number of route changes.
    pub(crate) route_changes: Tally,
    /// The number of requests for them: consecutive changes of one node share a request.
    pub(crate) route_requests: Tally,
    /// The lateness that the scenario allows, nanoseconds, and the number of table updates beyond it.
    pub(crate) late_above_ns: u64,
    pub(crate) late: u64,
}

impl StepTimes {
    /// Records the lateness of a table update.
    pub(crate) fn record_lateness(&mut self, late_ns: u64) {
        self.lateness_ns.record(late_ns);
        self.late += u64::from(late_ns > self.late_above_ns);
    }
}

/// Returns the time since then, nanoseconds.
pub(crate) fn since_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The step loop's state: a planner, and the applier of its plans.
pub(crate) struct Steps<A: Applier> {
    pub(crate) planner: Planner,
    applier: A,
    clock: Arc<LabClock>,
    failed: Arc<Failed>,
    pub(crate) times: StepTimes,
    /// How long disappearing links stay after the routes have left them, nanoseconds; 0 without draining.
    drain_ns: u64,
    /// Links of the step in force that will be removed.
    draining: Option<Draining<A::Pending>>,
    /// The instant at which the kernels had all routes of the step in force (`CLOCK_MONOTONIC`).
    pub(crate) routed_at_ns: u64,
    /// A hash of all plans so far, if machines compare them.
    fingerprint: Option<Fingerprint>,
}

/// A hash of all plans, with which machines verify that they plan the same.
#[derive(Default)]
struct Fingerprint {
    steps: u64,
    hasher: DefaultHasher,
}

impl Write for Fingerprint {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Fingerprint {
    fn add(&mut self, plan: &StepPlan) {
        self.steps += 1;
        // Plans contain only numbers and names, so that JSON cannot fail.
        let _ = serde_json::to_writer(self, plan);
    }
}

/// Links that no route uses any more. They are removed when packets in flight have passed.
struct Draining<P> {
    gone: P,
    forget: Vec<Adjacency>,
}

impl<A: Applier> Steps<A> {
    /// Creates the loop before its first step.
    pub(crate) fn new(
        planner: Planner,
        applier: A,
        clock: Arc<LabClock>,
        failed: Arc<Failed>,
    ) -> Self {
        let scenario = &planner.blueprint().lab.scenario;
        let drain = scenario.routing.drain;
        let times = StepTimes {
            late_above_ns: bounds(scenario).step_lateness_ns,
            ..StepTimes::default()
        };
        Self {
            drain_ns: drain.ns().unsigned_abs(),
            planner,
            applier,
            clock,
            failed,
            times,
            draining: None,
            routed_at_ns: 0,
            fingerprint: None,
        }
    }

    /// Starts to hash all plans.
    pub(crate) fn keep_fingerprint(&mut self) {
        self.fingerprint = Some(Fingerprint::default());
    }

    /// Returns the hash of the plans so far, if it is kept.
    pub(crate) fn fingerprint(&self) -> Option<Plans> {
        let kept = self.fingerprint.as_ref();
        kept.map(|kept| Plans {
            steps: kept.steps,
            hash: format!("{:016x}", kept.hasher.finish()),
        })
    }

    fn planned(&mut self, plan: &StepPlan) {
        if let Some(fingerprint) = &mut self.fingerprint {
            fingerprint.add(plan);
        }
    }

    /// Returns the topology of the step in force.
    pub(crate) fn current(&self) -> &Arc<Snapshot> {
        self.planner.current()
    }

    /// Creates the edges of lab time zero, with constant delays until the clock starts.
    ///
    /// # Errors
    /// When the link plane or a kernel refuses.
    pub(crate) fn begin_held(&mut self) -> Result<(), A::Error> {
        let failed = self.failed.now();
        let first = self.planner.first(&failed);
        self.planned(&first.plan);
        self.applier.apply_now(&first.plan)?;
        self.planner.installed(first, &failed);
        Ok(())
    }

    /// Starts the change of delays: lab time zero is `zero_mono_ns`.
    ///
    /// # Errors
    /// When the link plane refuses.
    pub(crate) fn release(&mut self, zero_mono_ns: u64) -> Result<(), A::Error> {
        self.applier.start(zero_mono_ns, &self.planner.glide())
    }

    /// Plans the next step, without any effect outside the planner.
    pub(crate) fn prepare(&mut self) -> PlannedStep {
        let begun = Instant::now();
        let mut step = self.planner.advance();
        self.planned(&step.plan);
        self.times.compute_ns.record(since_ns(begun));
        let plan = &step.plan;
        let edge_changes = plan.edges.len() + plan.gliding.len() + plan.drain.len();
        self.times.edge_changes.record(edge_changes as u64);
        let start = Instant::now();
        self.planner.route(&mut step, &self.failed.now());
        if let Some(changes) = step.route_changes() {
            self.times.routes_ns.record(since_ns(start));
            self.times.route_changes.record(changes as u64);
        }
        self.times.planning_ns = since_ns(begun);
        step
    }

    /// Applies the step at its time: the link plane gets one atomic table update in advance and executes it itself;
    /// then the kernels get neighbours and routes. Returns false if `stop` ended the wait.
    ///
    /// With draining, disappearing links are removed in a second update, after the routes that avoid them; failed
    /// links are removed at once. Steps never overlap: a step that takes longer than its length makes the next one
    /// late, and draining is shortened if the next step is due.
    ///
    /// # Errors
    /// When the link plane or a kernel refuses.
    pub(crate) fn take_effect(
        &mut self,
        mut step: PlannedStep,
        mut stop: impl FnMut(Duration) -> bool,
    ) -> Result<bool, A::Error> {
        let t_ns = step.plan.t_ns;
        let pending = self.applier.submit_edges(&step.plan.edges, Some(t_ns))?;
        let gliding = self.submit_gliding(&step)?;
        loop {
            let left = self.clock.until(t_ns).unwrap_or(STOP_CHECK);
            if left.is_zero() {
                break;
            }
            if stop(left) {
                return Ok(false);
            }
            self.route_round_failures()?;
            // Idle time before the step is used to repair stacks, as long as it suffices.
            self.look_after(self.clock.until(t_ns).unwrap_or(STOP_CHECK))?;
            let left = self.clock.until(t_ns).unwrap_or(STOP_CHECK);
            self.clock.sleep(left.min(self.pause()));
        }
        let applied = self.applier.edges_applied(pending)?;
        let mut update_ns = applied.took_ns;
        self.times.record_lateness(applied.late_ns);
        self.applier.in_force(&step.snapshot);
        let start = mono_ns();
        // Routes are planned again if edges were failed by command or messages were received since the step was
        // planned.
        let failed = self.failed.now();
        self.planner.route(&mut step, &failed);
        // The map is updated before the kernels, because a request to a kernel may have to wait.
        self.applier.put_ways(&step.plan.routes);
        self.applier.put_map(&step.plan.routes.rows);
        self.drained()?;
        self.applier.forget(&step.plan.forget)?;
        self.applier.learn(&step.plan.learn)?;
        let routed = self.applier.install_routes(&step.plan.routes)?;
        self.routed_at_ns = routed.stood_ns;
        if step.route_changes().is_some() {
            self.times.route_requests.record(routed.requests as u64);
        }
        // The parts take effect at their own times, independent of the kernels.
        let told = mono_ns();
        for pending in gliding {
            update_ns = update_ns.max(self.applier.edges_applied(pending)?.took_ns);
        }
        // The wait is not work of the kernels, and is subtracted below.
        let waited_ns = mono_ns() - told;
        self.times.update_ns.record(update_ns);
        self.drain(&mut step)?;
        self.planner.installed(step, &failed);
        self.tell_routes(&failed);
        let kernel_ns = mono_ns() - start - waited_ns;
        self.times.kernel_ns.record(kernel_ns);
        self.times
            .whole_ns
            .record(self.times.planning_ns + kernel_ns);
        Ok(true)
    }

    /// Submits the changes of links whose delay changes continuously, in parts.
    fn submit_gliding(&mut self, step: &PlannedStep) -> Result<Vec<A::Pending>, A::Error> {
        let plan = &step.plan;
        let parts = plan.gliding.chunks(GLIDING_AT_ONCE);
        // The pauses are limited so that all parts are well within the step.
        let step_ns = self.planner.blueprint().lab.step_ns();
        let pause_ns = GLIDING_PAUSE_NS.min(step_ns / 4 / (parts.len() as u64).max(1));
        let mut at_ns = plan.t_ns;
        let mut pending = Vec::with_capacity(parts.len());
        for part in parts {
            at_ns += pause_ns;
            pending.push(self.applier.submit_edges(part, Some(at_ns))?);
        }
        Ok(pending)
    }

    /// Submits the removal of links that no route uses any more.
    fn drain(&mut self, step: &mut PlannedStep) -> Result<(), A::Error> {
        if step.plan.drain.is_empty() {
            return Ok(());
        }
        // The time counts from here, because the routes must come first, however long the kernels took. The removal
        // must be before the end of the step, because the next one may bring a link back.
        let now_ns = self.clock.now_ns().unwrap_or(step.plan.t_ns);
        let last_ns = step.plan.t_ns + self.planner.blueprint().lab.step_ns() - 1;
        let at_ns = (now_ns + self.drain_ns).min(last_ns);
        self.draining = Some(Draining {
            gone: self.applier.submit_edges(&step.plan.drain, Some(at_ns))?,
            forget: std::mem::take(&mut step.plan.forget_drained),
        });
        Ok(())
    }

    /// Returns how long a waiting loop may sleep: at most until some node handles a message.
    pub(crate) fn pause(&self) -> Duration {
        let next = self.planner.next_message_ns();
        let news = next.and_then(|next_ns| self.clock.until(next_ns));
        let poll = polling(STOP_CHECK);
        news.map_or(poll, |news| news.min(poll))
    }

    /// Updates computed routes at once, without waiting for the next step, if links were failed or repaired by
    /// command or messages were received.
    ///
    /// # Errors
    /// When a kernel refuses a route.
    pub(crate) fn route_round_failures(&mut self) -> Result<(), A::Error> {
        let now_ns = self.clock.now_ns().unwrap_or(0);
        let failed = self.failed.now();
        if let Some(planned) = self.planner.within(now_ns, &failed) {
            self.applier.put_ways(&planned.plan);
            self.applier.put_map(&planned.plan.rows);
            self.applier.install_routes(&planned.plan)?;
            self.planner.installed_within(planned);
        }
        self.tell_routes(&failed);
        Ok(())
    }

    /// Repairs the stacks of nodes whose programs changed them, in the given time.
    ///
    /// # Errors
    /// When a kernel does not answer.
    pub(crate) fn look_after(&self, left: Duration) -> Result<(), A::Error> {
        self.applier.look_after(&self.planner, left)
    }

    /// Notifies waiting callers that routes follow this version of the list.
    fn tell_routes(&self, failed: &FailedEdges) {
        if self.planner.routes_follow_the_plan() {
            self.failed.routes_converged(failed.version());
        }
    }

    /// Waits until the links of the step before are removed, and removes their neighbour entries.
    fn drained(&mut self) -> Result<(), A::Error> {
        if let Some(draining) = self.draining.take() {
            self.applier.edges_applied(draining.gone)?;
            self.applier.forget(&draining.forget)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod flat;
#[cfg(test)]
mod tests;
