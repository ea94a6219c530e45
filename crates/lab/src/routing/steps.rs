//! The step loop: the plan for the next step is ready before its time, then one atomic table update.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use constel_api::summary::Plans;
use constel_link::Tally;
use constel_plan::{Adjacency, Applier, FailedEdges, PlannedStep, Planner, StepPlan};
use constel_topology::Snapshot;

use crate::clock::{LabClock, mono_ns};
use crate::failed::Failed;
use crate::life::manifest::bounds;

/// Edges that only glide on are changed so many at a time, which takes a fraction of a millisecond, with a pause
/// between: frames do not wait for all of a large constellation.
const GLIDING_AT_ONCE: usize = 500;
const GLIDING_PAUSE_NS: u64 = 1_000_000;

/// How often a waiting loop looks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(20);

/// How the steps of a run went. Times in nanoseconds. It takes no more memory the more steps there are.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepTimes {
    /// Positions, edges and delta.
    pub(crate) compute_ns: Tally,
    /// Routes and their delta.
    pub(crate) routes_ns: Tally,
    /// The link plane's own time for the table update, between two frames.
    pub(crate) update_ns: Tally,
    /// Neighbour entries and routes written to kernels.
    pub(crate) kernel_ns: Tally,
    /// All that a step took: its planning, and the kernels.
    pub(crate) whole_ns: Tally,
    /// What the planning of the next step took.
    planning_ns: u64,
    /// How long after its lab time the table update took effect.
    pub(crate) lateness_ns: Tally,
    /// Following the paths of flows through the kernels' tables, between this step and the next.
    pub(crate) paths_ns: Tally,
    /// Edge changes.
    pub(crate) edge_changes: Tally,
    /// Route changes.
    pub(crate) route_changes: Tally,
    /// How many requests they were put into: neighbouring changes of one node go together.
    pub(crate) route_requests: Tally,
    /// Table updates later than the scenario allows, nanoseconds, and how many were.
    pub(crate) late_above_ns: u64,
    pub(crate) late: u64,
}

impl StepTimes {
    /// A table update took effect so long after its lab time.
    pub(crate) fn record_lateness(&mut self, late_ns: u64) {
        self.lateness_ns.record(late_ns);
        self.late += u64::from(late_ns > self.late_above_ns);
    }
}

/// Since then, nanoseconds.
pub(crate) fn since_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Everything that changes with time: a planner, and who carries its plans out.
pub(crate) struct Steps<A: Applier> {
    pub(crate) planner: Planner,
    applier: A,
    clock: Arc<LabClock>,
    failed: Arc<Failed>,
    pub(crate) times: StepTimes,
    /// How long links that go outlive the routes over them, nanoseconds; 0 without draining.
    drain_ns: u64,
    /// Links of the step in force that still have to go.
    draining: Option<Draining<A::Pending>>,
    /// When the kernels had all routes of the step in force (`CLOCK_MONOTONIC`).
    pub(crate) routed_at_ns: u64,
    /// Of all plans so far, where somebody compares.
    fingerprint: Option<Fingerprint>,
}

/// A number made of everything that was planned, which machines compare that plan the same.
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
        // Numbers and names: there is nothing that JSON could not say.
        let _ = serde_json::to_writer(self, plan);
    }
}

/// Links that no route leads over any more, and which go when what was on its way has passed.
struct Draining<P> {
    gone: P,
    forget: Vec<Adjacency>,
}

impl<A: Applier> Steps<A> {
    /// Nothing has happened yet.
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

    /// From now on plans are counted into a fingerprint.
    pub(crate) fn keep_fingerprint(&mut self) {
        self.fingerprint = Some(Fingerprint::default());
    }

    /// What was planned so far, where that is kept.
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

    /// The topology of the step in force.
    pub(crate) fn current(&self) -> &Arc<Snapshot> {
        self.planner.current()
    }

    /// Makes the edges of lab time zero exist, held still: no delay glides until the clock starts.
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

    /// Lets delays glide: lab time zero is `zero_mono_ns`.
    ///
    /// # Errors
    /// When the link plane refuses.
    pub(crate) fn release(&mut self, zero_mono_ns: u64) -> Result<(), A::Error> {
        self.applier.start(zero_mono_ns, &self.planner.glide())
    }

    /// Plans the next step; touches nothing but this.
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

    /// Makes the step take effect at its time: one atomic table update, handed over now and carried out by
    /// the link plane itself, then the kernels' neighbours and routes. False when `stop` said so before.
    /// With draining, links that go leave in a second update, after the routes that lead round them; those that
    /// break go at once. Steps never overlap: one that takes longer than a step makes the next late, and
    /// draining is cut short where the next step's time has come.
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
            self.look_after(self.clock.until(t_ns).unwrap_or(STOP_CHECK))?;
            let left = self.clock.until(t_ns).unwrap_or(STOP_CHECK);
            self.clock.sleep(left.min(self.pause()));
        }
        let applied = self.applier.edges_applied(pending)?;
        let mut update_ns = applied.took_ns;
        self.times.record_lateness(applied.late_ns);
        self.applier.in_force(&step.snapshot);
        let start = mono_ns();
        // Failures by hand since then, or what was heard: other routes, and other routes in the kernels.
        let failed = self.failed.now();
        self.planner.route(&mut step, &failed);
        // The map before the kernels, where anything may have to wait for others.
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
        // They follow each other at their own times, whatever the kernels take.
        let told = mono_ns();
        for pending in gliding {
            update_ns = update_ns.max(self.applier.edges_applied(pending)?.took_ns);
        }
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

    /// Hands over the changes of links whose delay glides on, part by part.
    fn submit_gliding(&mut self, step: &PlannedStep) -> Result<Vec<A::Pending>, A::Error> {
        let plan = &step.plan;
        let parts = plan.gliding.chunks(GLIDING_AT_ONCE);
        // All of them well within the step.
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

    /// Hands over the removal of links that no route leads over any more.
    fn drain(&mut self, step: &mut PlannedStep) -> Result<(), A::Error> {
        if step.plan.drain.is_empty() {
            return Ok(());
        }
        // Counted from here: however long the kernels took, the routes came first.
        // But never beyond the step, which may be followed by one that brings a link back.
        let now_ns = self.clock.now_ns().unwrap_or(step.plan.t_ns);
        let last_ns = step.plan.t_ns + self.planner.blueprint().lab.step_ns() - 1;
        let at_ns = (now_ns + self.drain_ns).min(last_ns);
        self.draining = Some(Draining {
            gone: self.applier.submit_edges(&step.plan.drain, Some(at_ns))?,
            forget: std::mem::take(&mut step.plan.forget_drained),
        });
        Ok(())
    }

    /// How long a waiting loop may sleep: no longer than until some node handles a message.
    pub(crate) fn pause(&self) -> Duration {
        let next = self.planner.next_message_ns();
        let news = next.and_then(|next_ns| self.clock.until(next_ns));
        news.unwrap_or(STOP_CHECK).min(STOP_CHECK)
    }

    /// Links failed or healed by hand, or messages heard: computed routes follow at once, not only at the next step.
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

    /// Looks after nodes whose programs changed their stacks, in a moment that lasts so long.
    ///
    /// # Errors
    /// When a kernel does not answer.
    pub(crate) fn look_after(&self, left: Duration) -> Result<(), A::Error> {
        self.applier.look_after(&self.planner, left)
    }

    /// Tells who waits for it that routes go by this list.
    fn tell_routes(&self, failed: &FailedEdges) {
        if self.planner.routes_stand_with_the_plan() {
            self.failed.routes_stand(failed.version());
        }
    }

    /// Waits until the links of the step before are gone, and forgets who was there.
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
