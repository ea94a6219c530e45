//! Lab time: steps, traffic, handovers and supervision of daemons, until it is over or a user stops the lab.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use constel_api::EventData;
use constel_api::summary::ChangeKind;
use constel_measure::results::Results;
use constel_measure::verdict::SoftwareFailure;
use constel_topology::{NodeId, Snapshot};

use crate::answers::node_states::BY_HAND;
use crate::answers::view::View;
use crate::clock::{LabClock, mono_ns};
use crate::error::EngineError;
use crate::information::News;
use crate::life::bring_up::Fabric;
use crate::life::moving::NodeCreator;
use crate::life::observed::Observed;
use crate::life::options::NEVER_NS;
use crate::nodes::containers::Containers;
use crate::nodes::ports::PortMaker;
use crate::policy::Decisions;
use crate::progress::{ENDLESS, Progress, Stage};
use crate::routing::daemons::{DaemonIncident, Daemons};
use crate::routing::limit::Limit;
use crate::routing::machine::Machine;
use crate::routing::router::Router;
use crate::routing::steps::{Steps, since_ns};
use crate::routing::tables::{self, ConvergenceState};
use crate::routing::ways;
use crate::traffic::helpers::{Death, Helpers};
use crate::watch::changes::{self, Baseline, SampledChanges};
use crate::watch::converged::Converged;
use crate::watch::event_log::EventLog;
use crate::watch::pace::{Begun, Pace, SampleTimes};
use crate::watch::summary::ChangeRow;

/// How often the kernels' tables are sampled, and the share of time for it.
const LOOKS: Pace = Pace {
    every: Duration::from_millis(100),
    share: 8,
};

/// The time between setting lab time zero and the instant itself, so that the first change of delays begins exactly
/// then.
const START_AHEAD_NS: u64 = 20_000_000;

/// The lab time of a lab that is up: waits until routes have converged, runs the steps, and observes the lab.
pub(crate) struct LabTime<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) clock: &'a LabClock,
    pub(crate) log: &'a EventLog,
    pub(crate) view: &'a View,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) helpers: &'a RefCell<Helpers>,
    pub(crate) containers: &'a RefCell<Containers>,
    /// The decisions of live policies.
    pub(crate) decisions: RefCell<Decisions>,
    /// The port maker, for ports that programs in nodes removed.
    pub(crate) ports: &'a dyn PortMaker,
    /// The results, for files that begin only while the lab runs.
    pub(crate) results: &'a Results,
    /// The creation of nodes of lost machines, if the scenario asks for it.
    pub(crate) moving: Option<NodeCreator>,
    /// Called with the number of nodes on this machine when it changes.
    pub(crate) count: Option<&'a Count<'a>>,
}

/// A function that receives the number of nodes.
pub(crate) type Count<'a> = dyn Fn(usize) -> Result<(), EngineError> + 'a;

impl LabTime<'_> {
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Waits until every station reaches every other by the kernels' tables and, with `nodes`, every node reaches
    /// the selected destinations. A daemon that ends during the wait is an error at once, not after the limit.
    ///
    /// # Errors
    /// [`EngineError::NoRoutes`] after the limit; [`EngineError::Interrupted`].
    pub(crate) fn wait_for_routes(
        &self,
        steps: &Steps<Machine>,
        daemons: &mut Daemons,
        nodes: Option<&Converged>,
        limit: &Limit,
    ) -> Result<(ConvergenceState, Duration), EngineError> {
        let started = Instant::now();
        let mut stage = None;
        loop {
            let begun = Begun::now();
            steps.look_after(LOOKS.every)?;
            let snapshot = self.without_those_down(steps.current());
            let standing = self.standing(&snapshot)?;
            let stage = stage.get_or_insert_with(|| {
                let total = nodes.map_or(standing.pairs, |_| self.fabric.kernels.count());
                Stage::begin(self.progress, "routes", total as u64)
            });
            // The count is a moment old, but a node that has converged stays so while the sky does not move.
            let count = nodes.map(Converged::nodes);
            let all = count.is_none_or(|count| count == self.fabric.kernels.count());
            let done = count.unwrap_or(standing.good) as u64;
            // Routes that a node's own programs prevent must not delay lab time for all others.
            let hindered = self.fabric.kernels.own_stacks.is_changed();
            let computed = daemons.count() == 0;
            if standing.complete() && all || hindered && computed {
                let took = started.elapsed();
                stage.note(
                    done,
                    &format!("converged after {:.1} s", took.as_secs_f64()),
                );
                return Ok((standing, took));
            }
            stage.note(
                done,
                &format!(
                    "{} daemons, {} of {} pairs of stations",
                    daemons.count(),
                    standing.good,
                    standing.pairs
                ),
            );
            if self.stopped() {
                return Err(EngineError::Interrupted);
            }
            // The limit error has an example of a missing route, or else the number of nodes that have converged.
            let checked = limit.check(|| {
                let nodes = self.fabric.kernels.count();
                let few = count.map(|count| format!("{count} of {nodes} nodes have converged"));
                standing.example.clone().or(few).unwrap_or_default()
            });
            match checked {
                Err(EngineError::NoRoutes { .. }) if hindered => {
                    return Ok((standing, started.elapsed()));
                }
                checked => checked?,
            }
            // Daemons are watched during the pause, so that a daemon's end is noticed at once.
            let pause = LOOKS.next(begun).saturating_duration_since(Instant::now());
            for incident in daemons.watch(&self.fabric.blueprint, pause)? {
                if let Some(failure) = self.tell(None, &incident) {
                    return Err(limit.refused(failure.reason));
                }
            }
            for end in self.watch_containers()? {
                if let Some(failure) = end.failure {
                    self.progress.say(&failure.reason);
                    self.containers.borrow_mut().failed_early.push(failure);
                }
            }
            self.changes_of_stacks();
            // Without daemons, `watch` returns at once.
            if daemons.count() == 0 {
                std::thread::sleep(LOOKS.every);
            }
        }
    }

    /// Returns whether routes have converged, as far as this machine can determine.
    fn standing(&self, snapshot: &Snapshot) -> Result<ConvergenceState, EngineError> {
        let kernels = &self.fabric.kernels;
        match kernels.knows_all_ways() {
            true => tables::standing(kernels, snapshot),
            false => Ok(ways::look(kernels, snapshot)?.1),
        }
    }

    /// Starts the clock at the given instant, or at once, and runs steps until `end_ns` of lab time, with traffic in
    /// parallel. The observations are added to `seen`, which has only the open output files at first.
    ///
    /// # Errors
    /// When the link plane or a kernel refuses.
    pub(crate) fn run(
        &self,
        steps: &mut Steps<Machine>,
        daemons: &mut Daemons,
        (zero_ns, end_ns): (Option<u64>, u64),
        mut seen: Observed,
    ) -> Result<Observed, EngineError> {
        let failed_early = std::mem::take(&mut self.containers.borrow_mut().failed_early);
        for failure in failed_early {
            seen.software.fail(failure);
        }
        // On several machines the instant comes from the gate, so that all start together.
        let zero = zero_ns.unwrap_or_else(|| mono_ns() + START_AHEAD_NS);
        steps.release(zero)?;
        self.clock.start(zero);
        self.view.inform(|| News::Clock);
        self.log.emit(Some(0), EventData::ClockStarted);
        let seconds = match end_ns {
            NEVER_NS => ENDLESS,
            end_ns => end_ns.div_ceil(1_000_000_000),
        };
        let stage = Stage::begin(self.progress, "lab time (s)", seconds);
        let mut look = SampleTimes::new(LOOKS);
        let waited_ns = || self.fabric.launcher.cgroups.processor_wait_ns();
        let (began, waited_before_ns) = (Instant::now(), waited_ns());
        self.log_paths(steps);
        self.sample(steps, &mut seen)?;
        let step_ns = self.fabric.blueprint.lab.step_ns();
        // The last step has no end of its own: `wait_out` covers the time from it to the end of the run.
        while steps.current().t_ns + step_ns < end_ns {
            if !self.step(steps, daemons, &mut look, &mut seen)? {
                break;
            }
            self.sample(steps, &mut seen)?;
            stage.reach(steps.current().t_ns / 1_000_000_000);
        }
        self.wait_out(steps, daemons, &mut look, &mut seen, end_ns)?;
        self.end_policy(&mut seen);
        self.changes_of_stacks();
        // From here on changes of stacks are part of the take-down, and are not recorded.
        self.fabric.kernels.own_stacks.close();
        seen.stacks = self.fabric.kernels.own_stacks.spans(mono_ns());
        self.note_late(&mut seen)?;
        // The clock may have run past the end while the last sample was taken.
        seen.lab_time_ns = self.clock.now_ns().unwrap_or(0).min(end_ns);
        let waited_ns = waited_before_ns.zip(waited_ns());
        let waited_ns = waited_ns.map(|(before, now)| now.saturating_sub(before));
        seen.processor_wait_ratio =
            waited_ns.map(|ns| ns as f64 / began.elapsed().as_nanos().max(1) as f64);
        if self.stopped() && seen.lab_time_ns < end_ns {
            // The progress line must not claim that the whole lab time passed.
            let passed_s = seen.lab_time_ns as f64 / 1e9;
            let of = match end_ns {
                NEVER_NS => String::new(),
                end_ns => format!(" of {} s", end_ns as f64 / 1e9),
            };
            self.progress
                .say(&format!("lab time ended at {passed_s:.1} s{of}"));
        } else {
            stage.end("");
        }
        Ok(seen)
    }

    /// Runs one step: plans it, waits for its time, applies and records it. Returns false if the lab was stopped
    /// before its time.
    fn step(
        &self,
        steps: &mut Steps<Machine>,
        daemons: &mut Daemons,
        look: &mut SampleTimes,
        seen: &mut Observed,
    ) -> Result<bool, EngineError> {
        // Losses come first: the step planned next must already be without the nodes of lost machines.
        self.lose_machines(steps, seen)?;
        self.plan_nodes_by_hand(steps);
        // A changed scenario may have other failures, so that each step is read with its own layout.
        let before = Arc::clone(&steps.planner.blueprint().lab.layout);
        self.adopt_changes(steps, seen)?;
        self.policy_decides(steps, daemons, look, seen)?;
        let next = steps.prepare();
        let handovers = next.handovers.clone();
        let current = Arc::clone(steps.current());
        let layout = Arc::clone(&steps.planner.blueprint().lab.layout);
        let broken = changes::broken((&before, &current), (&layout, &next.snapshot));
        // The closure cannot return an error, so that it is kept here until the step has ended.
        let mut problem = None;
        let mut stop = |left: Duration| {
            // Work that takes longer than the remaining time would make the step's routes late.
            if problem.is_none() && look.fits(left) {
                problem = self.between_steps(&current, daemons, look, seen).err();
            }
            self.stopped() || problem.is_some()
        };
        let took_effect = steps.take_effect(next, &mut stop)?;
        self.log_paths(steps);
        if let Some(error) = problem {
            return Err(error);
        }
        if !took_effect {
            return Ok(false);
        }
        self.view.change(|live| {
            live.snapshot = Some(Arc::clone(steps.current()));
            live.blueprint = Some(Arc::clone(steps.planner.blueprint()));
        });
        self.cut_new_links(steps);
        // The baseline is taken before the events are recorded, because control traffic caused by them counts from
        // here.
        let before = if broken.is_empty() && handovers.is_empty() {
            None
        } else {
            self.baseline(daemons)?
        };
        // The failure of nodes by command was recorded when their links were cut.
        let is_noted =
            |change: &ChangeRow| change.cause == BY_HAND && change.kind == ChangeKind::Failure;
        for change in broken.into_iter().filter(|change| !is_noted(change)) {
            self.note_broken(change, steps, before.clone(), seen);
        }
        self.note_moved(steps.current().t_ns, seen);
        for handover in &handovers {
            self.note_handover(handover, steps, before.clone(), seen);
        }
        Ok(true)
    }

    /// Samples the flows' paths in this step.
    fn sample(&self, steps: &mut Steps<Machine>, seen: &mut Observed) -> Result<(), EngineError> {
        let start = Instant::now();
        let kernels = &self.fabric.kernels;
        // Late frames must be assigned to the paths before these change.
        self.note_late(seen)?;
        let t_ns = steps.current().t_ns as i64;
        let least = |from, to| steps.planner.least_delay_ns(from, to);
        for news in seen.paths.sample(kernels, steps.current(), least)? {
            let layout = &self.fabric.blueprint.lab.layout;
            let names = |nodes: Vec<NodeId>| {
                let name = |id: NodeId| layout.node(id).name.clone();
                nodes.into_iter().map(name).collect()
            };
            self.log.emit(
                Some(t_ns),
                EventData::PathChanged {
                    flow: news.flow,
                    from: names(news.from),
                    to: names(news.to),
                },
            );
        }
        steps.times.paths_ns.record(since_ns(start));
        Ok(())
    }

    /// Records the flows with frames that left late since the last call.
    fn note_late(&self, seen: &mut Observed) -> Result<(), EngineError> {
        if let (Some(told), Some(zero_ns)) =
            (self.fabric.handle.late_spells()?, self.clock.zero_mono_ns())
        {
            seen.tells_lateness = true;
            seen.paths.late(&told, zero_ns);
        }
        Ok(())
    }

    /// Waits until the end of lab time, during which the last step holds.
    fn wait_out(
        &self,
        steps: &mut Steps<Machine>,
        daemons: &mut Daemons,
        look: &mut SampleTimes,
        seen: &mut Observed,
        end_ns: u64,
    ) -> Result<(), EngineError> {
        while let Some(left) = self.clock.until(end_ns).filter(|left| !left.is_zero()) {
            if self.stopped() {
                break;
            }
            steps.route_round_failures()?;
            steps.look_after(left)?;
            self.log_paths(steps);
            self.between_steps(steps.current(), daemons, look, seen)?;
            std::thread::sleep(left.min(steps.pause()));
        }
        Ok(())
    }

    /// Does the periodic work between two steps: ended daemons, changes by command, and the convergence of routes.
    pub(crate) fn between_steps(
        &self,
        snapshot: &Snapshot,
        daemons: &mut Daemons,
        look: &mut SampleTimes,
        seen: &mut Observed,
    ) -> Result<(), EngineError> {
        for incident in daemons.watch(&self.fabric.blueprint, Duration::ZERO)? {
            let now = self.clock.now_ns();
            let failure = self.tell(now.map(|t| t as i64), &incident);
            let failures = failure.into_iter();
            failures.for_each(|failure| seen.software.fail(failure));
            // A daemon's end changes the network like a failure, so that the time to converge again is measured.
            if let (DaemonIncident::Died { .. }, Some(t_ns)) = (&incident.what, now) {
                let before = self.baseline(daemons)?;
                let steady_ns = Router::of(&self.fabric.blueprint.lab.scenario).steady_ns();
                seen.change(incident.row(t_ns), steady_ns, before);
            }
        }
        for death in self.helpers.borrow_mut().deaths(&self.fabric.blueprint)? {
            let Death { node, how } = death;
            seen.software.fail(SoftwareFailure {
                node: node.clone(),
                flow: None,
                reason: format!("the helper in {node} ended: {how}"),
            });
            let t_ns = self.clock.now_ns().map(|t| t as i64);
            self.log.emit(t_ns, EventData::HelperDied { node, how });
        }
        for end in self.watch_containers()? {
            seen.container_ended(end);
        }
        self.obey(daemons);
        // Changes by command are recorded before the sample below, which may already end their watch.
        self.changes_by_hand(daemons, seen)?;
        self.changes_of_stacks();
        if seen.watches.is_empty() || !look.due() {
            return Ok(());
        }
        let begun = Begun::now();
        // Edges failed by command carry nothing, so that routes over them do not count as correct.
        let snapshot = self.without_those_down(snapshot);
        let standing = tables::standing(&self.fabric.kernels, &snapshot)?;
        look.done(begun);
        let now_ns = self.clock.now_ns().unwrap_or(0);
        let SampledChanges { over, news } = seen.watches.look(now_ns, standing.complete());
        if news {
            self.log.emit(
                Some(now_ns as i64),
                EventData::RoutesConverged {
                    pairs: standing.pairs,
                    after_s: None,
                },
            );
        }
        // The control traffic of an event is the traffic between its baseline and the convergence.
        for (row, after_ns, before) in over {
            let control = match &before {
                Some(before) => changes::since(self.fabric.handle.as_ref(), before)?,
                None => None,
            };
            let rows = (&mut seen.handovers.kept, &mut seen.changes.kept);
            changes::close(rows.0, rows.1, (row, after_ns), control);
        }
        Ok(())
    }

    /// Returns the topology with the edges that carry frames, without those failed by command.
    fn without_those_down<'s>(&self, snapshot: &'s Snapshot) -> Cow<'s, Snapshot> {
        let rest = self.view.failed.now().without(snapshot);
        rest.map_or(Cow::Borrowed(snapshot), Cow::Owned)
    }

    /// Returns the counters of the edges now, if daemons run, whose control traffic is counted until routes have
    /// converged again.
    pub(super) fn baseline(&self, daemons: &Daemons) -> Result<Option<Baseline>, EngineError> {
        if daemons.count() == 0 || !self.fabric.kernels.knows_all_ways() {
            return Ok(None);
        }
        changes::baseline(self.fabric.handle.as_ref()).map(Some)
    }
}
