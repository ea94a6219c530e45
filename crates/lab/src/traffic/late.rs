//! Flows that begin while the lab runs: those that are added to its scenario, and those of a lost machine's nodes that were
//! created again here. For the latter, servers are started again, and clients whose time is still to come.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;

use constel_drivers::congestion::Provided;
use constel_host::threads::results_of;
use constel_measure::results::Results;
use constel_scenario::model::{Action, Flow};
use constel_topology::NodeId;

use crate::answers::node_states::NodesByHand;
use crate::answers::steering::Added;
use crate::clock::LabClock;
use crate::error::EngineError;
use crate::nodes::launcher::Launcher;
use crate::traffic::congestion::provide_wanted;
use crate::traffic::{Ended, Job, Traffic};
use crate::watch::event_log::EventLog;

/// Nodes that are on this machine from now on.
pub(crate) struct Come {
    pub(crate) nodes: Vec<NodeId>,
    /// The lab time from which they have links, nanoseconds.
    pub(crate) back_ns: u64,
}

/// The dependencies of such flows.
#[derive(Clone, Copy)]
pub(crate) struct Late<'a> {
    pub(crate) flows: &'a [Flow],
    pub(crate) launcher: &'a Arc<Launcher>,
    pub(crate) by_hand: &'a Arc<NodesByHand>,
    pub(crate) results: &'a Results,
    pub(crate) clock: &'a LabClock,
    pub(crate) log: &'a EventLog,
}

/// Flows, and how each ended.
type Jobs = Vec<(Job, Ended)>;

/// The outcome of such flows.
#[derive(Default)]
pub(crate) struct LateRan {
    pub(crate) jobs: Jobs,
    /// The reasons why some did not run.
    pub(crate) failures: Vec<String>,
}

impl LateRan {
    fn of(all: Vec<Result<Jobs, EngineError>>, flows: &str) -> Self {
        let mut ran = Self::default();
        for ended in all {
            match ended {
                Ok(jobs) => ran.jobs.extend(jobs),
                Err(error) => ran.failures.push(format!("{flows}: {error}")),
            }
        }
        ran
    }

    /// Adds the outcome of other flows.
    pub(crate) fn add(&mut self, other: Self) {
        self.jobs.extend(other.jobs);
        self.failures.extend(other.failures);
    }
}

impl Late<'_> {
    /// Runs the flows of all nodes that arrive, until the channel is closed and `stop` returns true.
    pub(crate) fn run(
        self,
        coming: Receiver<Come>,
        stop: impl Fn() -> bool + Copy + Send,
    ) -> LateRan {
        let all: Vec<Result<Jobs, EngineError>> = thread::scope(|scope| {
            // Each arrival has its own thread, because its flows last until the end of the lab.
            let come = |come: Come| scope.spawn(move || self.run_of(&come, stop));
            let threads: Vec<_> = coming.into_iter().map(come).collect();
            results_of(threads)
        });
        LateRan::of(all, "flows of nodes that came here")
    }

    /// Runs flows that are added while the lab runs, until the channel is closed and `stop` returns true. Flows are reported as
    /// ready when their servers listen.
    pub(crate) fn run_added(
        self,
        adding: Receiver<Added>,
        stop: impl Fn() -> bool + Copy + Send,
    ) -> LateRan {
        // Congestion controls that Constel installs for these flows stay until all of them have ended.
        let mut provided = Vec::new();
        let all: Vec<Result<Jobs, EngineError>> = thread::scope(|scope| {
            let mut threads = Vec::new();
            for Added { flows, ready } in adding {
                match self.prepare(&flows) {
                    Ok((traffic, own)) => {
                        provided.extend(own);
                        let followed = traffic.followed().flows.into_iter().collect();
                        // The thread that waits for it may have ended.
                        drop(ready.send(Ok(followed)));
                        let run = move || Ok(traffic.run(self.clock, self.log, stop)?.jobs);
                        threads.push(scope.spawn(run));
                    }
                    Err(error) => drop(ready.send(Err(error.to_string()))),
                }
            }
            results_of(threads)
        });
        LateRan::of(all, "added flows")
    }

    /// Plans added flows, and starts their servers.
    fn prepare(self, flows: &[Flow]) -> Result<(Traffic, Vec<Provided>), EngineError> {
        let blueprint = &self.launcher.kernels.blueprint;
        let provided = provide_wanted(&blueprint.lab.scenario, flows)?;
        let (launcher, dir) = (Arc::clone(self.launcher), &self.launcher.lab_dir);
        let programs = (launcher, self.by_hand);
        let mut traffic = Traffic::plan(blueprint, flows, dir, self.results, programs)?;
        traffic.start_servers()?;
        Ok((traffic, provided))
    }

    fn run_of(self, come: &Come, stop: impl Fn() -> bool) -> Result<Jobs, EngineError> {
        let launcher = Arc::clone(self.launcher);
        let dir = launcher.lab_dir.clone();
        let blueprint = Arc::clone(&launcher.kernels.blueprint);
        let programs = (launcher, self.by_hand);
        let traffic = Traffic::plan(&blueprint, self.flows, &dir, self.results, programs)?;
        let mut traffic = traffic.only_of(come);
        traffic.start_servers()?;
        Ok(traffic.run(self.clock, self.log, stop)?.jobs)
    }
}

impl Traffic {
    /// Keeps only the programs in the nodes that arrived: servers, unless their flows are over by then, and clients
    /// that begin later. Clients that began before are over. Only commands begin again, as after an outage of the
    /// node.
    fn only_of(mut self, come: &Come) -> Self {
        let has_come = |node: NodeId| come.nodes.contains(&node);
        let (jobs, serving) = (
            std::mem::take(&mut self.jobs),
            std::mem::take(&mut self.serving),
        );
        for mut job in jobs.into_iter().chain(serving) {
            // The other servers have been listening since the lab came up.
            let server = job.plan.server.take();
            job.plan.server = server.filter(|server| has_come(server.launch.node));
            let time = job.time_ns();
            let begins = *time.start() >= come.back_ns || matches!(job.flow.action, Action::Run(_));
            // A flow that is over when the nodes return does not run again.
            if *time.end() <= come.back_ns {
                continue;
            }
            if !has_come(job.client_node()) {
                self.serving
                    .extend(Some(job).filter(|job| job.plan.server.is_some()));
            } else if begins {
                self.jobs.push(job);
            }
        }
        self
    }
}
