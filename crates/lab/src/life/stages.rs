//! The stages from a fabric to the end of its lab time: edges, routes, clock, traffic.

mod run;
mod start;

pub(crate) use run::paths_file;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use constel_api::summary::{CrossedRow, DaemonsRow, HelpersRow, Messages, Plans};
use constel_host::claim::Claim;
use constel_host::threads::result_of;
use constel_measure::results::Results;
use constel_scenario::model::PortCarrier;
use constel_topology::NodeId;

use crate::answers::orders::Orders;
use crate::answers::view::View;
use crate::clock::LabClock;
use crate::error::EngineError;
use crate::life::bring_up::Fabric;
use crate::life::manifest::bounds;
use crate::life::observed::Observed;
use crate::life::options::Options;
use crate::life::together::MachineConnection;
use crate::nodes::carrier;
use crate::nodes::containers::Containers;
use crate::nodes::own_stack::Spans;
use crate::nodes::ports::PortMaker;
use crate::progress::Progress;
use crate::routing::daemons::Daemons;
use crate::routing::router::Router;
use crate::routing::steps::StepTimes;
use crate::traffic;
use crate::traffic::helpers::Helpers;
use crate::watch::converged::Converged;
use crate::watch::event_log::EventLog;
use crate::watch::path_rows::PathRows;
use crate::watch::series::Recorder;
use crate::watch::summary::{
    Converged as ConvergedRow, Convergence, DisjointRow, FlowRow, StackRow, Times, disjoint_rows,
    stack_rows,
};

/// The input of the stages.
pub(crate) struct Context<'a> {
    /// The port maker for lab time: for nodes that move here, and for ports that programs in nodes removed.
    pub(crate) ports: &'a dyn PortMaker,
    pub(crate) options: &'a Options,
    pub(crate) claim: &'a mut Claim,
    pub(crate) results: &'a Results,
    pub(crate) log: &'a Arc<EventLog>,
    pub(crate) clock: &'a Arc<LabClock>,
    pub(crate) view: &'a Arc<View>,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) recorder: &'a Recorder<'a>,
    pub(crate) started: Instant,
    /// The end of lab time.
    pub(crate) end_ns: u64,
    /// The folder of the nodes' information files.
    pub(crate) information: Option<PathBuf>,
}

/// The output of the stages.
pub(crate) struct Outcome {
    pub(crate) seen: Observed,
    pub(crate) convergence: Convergence,
    pub(crate) converged: Option<ConvergedRow>,
    pub(crate) link_state: Option<Messages>,
    pub(crate) disjoint: Vec<DisjointRow>,
    pub(crate) daemons: Vec<DaemonsRow>,
    pub(crate) helpers: Vec<HelpersRow>,
    pub(crate) stacks: Vec<StackRow>,
    pub(crate) flows: Vec<FlowRow>,
    pub(crate) step_times: StepTimes,
    /// A fingerprint of the plans, if all machines of the lab plan the same.
    pub(crate) plans: Option<Plans>,
    /// The frames from other machines during lab time.
    pub(crate) crossed: Vec<CrossedRow>,
    pub(crate) edges: usize,
}

/// Runs all stages of a lab whose fabric exists. Every process that they started has ended when this returns, with
/// any result.
///
/// # Errors
/// The error of a stage; [`EngineError::Interrupted`] when the lab was stopped before lab time.
pub(crate) fn run_stages(
    context: Context<'_>,
    fabric: &Fabric,
    times: &mut Times,
) -> Result<Outcome, EngineError> {
    let mut daemons = Daemons::none();
    let converged = Converged::default();
    let over = AtomicBool::new(false);
    let helpers = RefCell::new(Helpers::none());
    let containers = RefCell::new(Containers::default());
    let (view, recorder) = (Arc::clone(context.view), context.recorder);
    let router = Router::of(&fabric.blueprint.lab.scenario);
    let (outcome, watched) = std::thread::scope(|scope| {
        // Only the routes of daemons converge on their own; Constel's are installed by the step loop.
        let watcher = router.daemons().map(|_| {
            scope.spawn(|| {
                let seen = |look| recorder.converged(look);
                converged.watch(&fabric.kernels, &view, &over, seen)
            })
        });
        let stages = Stages {
            context,
            fabric,
            router,
            times,
            daemons: &mut daemons,
            converged: &converged,
            helpers: &helpers,
            containers: &containers,
        };
        let follows = fabric.blueprint.lab.scenario.carrier == PortCarrier::Follows;
        let carrier = follows.then(|| scope.spawn(|| carrier::follow(fabric, &view, &over)));
        if let Some(orders) = &view.orders {
            scope.spawn(|| orders.follow(&view, &over));
        }
        // The flag is set however the stages end, also by a panic, because the threads of this scope wait for it.
        let _over = SetOnDrop(&over);
        let outcome = stages.run();
        over.store(true, Ordering::Release);
        view.policy.close();
        let watched = watcher.map_or(Ok(()), result_of);
        let carried = carrier.map_or(Ok(()), result_of);
        (outcome, watched.and(carried))
    });
    // Helpers and daemons are stopped even after an error; the error of the stages is reported first.
    let helped = helpers.into_inner().stop(&fabric.launcher);
    let stopped = daemons
        .stop(&fabric.launcher)
        .and(containers.into_inner().stop());
    let mut outcome = outcome?;
    outcome.helpers = helped?;
    watched?;
    stopped?;
    Ok(outcome)
}

/// Sets a flag when it is dropped.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The stages between a fabric and its take-down, in order.
struct Stages<'a> {
    context: Context<'a>,
    fabric: &'a Fabric,
    router: Router<'a>,
    times: &'a mut Times,
    daemons: &'a mut Daemons,
    converged: &'a Converged,
    helpers: &'a RefCell<Helpers>,
    containers: &'a RefCell<Containers>,
}

impl Stages<'_> {
    fn run(mut self) -> Result<Outcome, EngineError> {
        let begun = Instant::now();
        let mut steps = self.edges()?;
        let edges = steps.current().edges.len();
        let limit = self.limit(begun);
        self.start_daemons(limit.as_ref())?;
        self.start_containers()?;
        let convergence = self.wait_for_routes(&steps, limit.as_ref())?;
        let mut usage = Vec::new();
        if convergence.first_s.is_some() {
            usage.extend(self.daemons.usage("routes-converged")?);
        }
        self.start_helpers()?;
        let traffic = self.start_traffic()?;
        self.wait_for_policy()?;
        // The other machines are waited for last, when everything here is ready.
        let zero_ns = self.wait_for_machines(&steps)?;
        self.running()?;
        let crossed = self.fabric.between.as_ref().map(MachineConnection::counts);

        // Convergence before lab time is reported separately.
        self.converged.count_from_now();
        let (mut seen, ran) = self.lab_time(&mut steps, traffic, zero_ns)?;
        usage.extend(self.daemons.usage("end")?);
        if let Some(problem) = self.context.view.information_error() {
            seen.fail(format!(
                "nodes did not receive their information: {problem}"
            ));
        }
        let mut rows = Vec::new();
        if let Some((between, before)) = self.fabric.between.as_ref().zip(crossed) {
            rows = between.crossed(&before);
            let by_hand = self.context.view.orders.as_ref().map(Orders::doubts);
            let wrong = between.wrong(&before).into_iter();
            let wrong = wrong.chain(by_hand.into_iter().flatten());
            wrong.for_each(|failure| seen.fail(failure));
        }
        let blueprint = &self.fabric.blueprint;
        let knows_all_ways = self.fabric.kernels.knows_all_ways();
        if knows_all_ways {
            // Lost probes can only be assigned to events if the whole path is on this machine.
            traffic::charge(
                blueprint,
                &ran,
                &mut seen.handovers.kept,
                &mut seen.changes.kept,
            );
        }
        let mut flows = Vec::with_capacity(ran.jobs.len());
        for (job, ended) in &ran.jobs {
            // The series is written first, because it determines whether the flow is trustworthy.
            let trust = self.series(job, &ran, &mut seen);
            let mut row = traffic::row(blueprint, job, ended, trust, &seen.paths);
            seen.explain_killed(&mut row, job.client_node());
            row.changed_stacks = self.changed_stacks(job, &seen);
            flows.push(row);
        }
        if let Some(error) = seen.paths.rows.as_ref().and_then(PathRows::error) {
            seen.fail(format!("paths.csv is not complete: {error}"));
        }
        let nodes = self.fabric.kernels.count();
        Ok(Outcome {
            helpers: Vec::new(),
            flows,
            stacks: stack_rows(&self.fabric.kernels, &seen.stacks, self.zero_ns()),
            seen,
            convergence,
            converged: self.converged.row(nodes).filter(|_| knows_all_ways),
            link_state: steps.planner.messages().map(|told| Messages {
                originated: told.originated,
                sent: told.sent,
            }),
            disjoint: disjoint_rows(blueprint, steps.planner.pairs_seen()),
            daemons: usage,
            plans: steps.fingerprint(),
            crossed: rows,
            step_times: steps.times,
            edges,
        })
    }

    /// Returns the instant of lab time zero on the machine's clock.
    fn zero_ns(&self) -> u64 {
        self.context.clock.zero_mono_ns().unwrap_or(0)
    }

    /// Returns the nodes at a flow's ends or on its paths whose programs had changed the node's stack while the
    /// flow ran.
    fn changed_stacks(&self, job: &traffic::Job, seen: &Observed) -> Vec<String> {
        let followed = seen.paths.flows.get(job.flow.name.as_str());
        let (time_ns, zero_ns) = (job.time_ns(), self.zero_ns());
        let meanwhile = |own: &Spans| {
            let lab_ns = |at_ns: u64| at_ns.saturating_sub(zero_ns);
            let mut spans = own.spans.iter();
            spans.any(|(from, to)| {
                lab_ns(*from) <= *time_ns.end() && lab_ns(*to) >= *time_ns.start()
            })
        };
        let concerned = |node: NodeId| {
            job.client_node() == node || followed.is_some_and(|flow| flow.passes(node))
        };
        let layout = &self.fabric.blueprint.lab.layout;
        let changed = seen.stacks.iter();
        let changed = changed.filter(|(node, own)| concerned(**node) && meanwhile(own));
        changed
            .map(|(node, _)| layout.node(*node).name.clone())
            .collect()
    }

    /// Writes the measurements of a flow, in lab time. A write error makes the run untrustworthy, but the summary
    /// is still written.
    fn series(
        &self,
        job: &traffic::Job,
        ran: &traffic::Ran,
        seen: &mut Observed,
    ) -> traffic::series::Trust {
        let name = job.flow.name.as_str();
        let bound_ns = bounds(&self.fabric.blueprint.lab.scenario).lateness_p99_ns;
        let file = self.context.results.flow(name, "csv");
        // Lateness is reported per edge. The edges of other machines' nodes on a path are not known here.
        let tells = seen.tells_lateness && self.fabric.kernels.knows_all_ways();
        let followed = seen.paths.flows.get_mut(name);
        traffic::series::write(&file, job, followed, &ran.wall, bound_ns, tells).unwrap_or_else(
            |error| {
                seen.fail(format!("flows/{name}.csv is not complete: {error}"));
                traffic::series::Trust::default()
            },
        )
    }
}
