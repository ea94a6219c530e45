//! From a fabric to the end of its lab time: edges, routes, clock, traffic.

use std::cell::RefCell;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

use constel_api::Happening;
use constel_api::answers::LabState as ApiState;
use constel_api::summary::{DaemonsRow, HelpersRow, Messages, Plans};
use constel_host::claim::{Claim, LabState, RuntimeDir};
use constel_host::rcu::Expedited;
use constel_host::threads::result_of;
use constel_observe::results::Results;
use constel_plan::Planner;
use constel_scenario::model::ClockHold;

use crate::answers::orders::Orders;
use crate::answers::view::View;
use crate::clock::LabClock;
use crate::error::EngineError;
use crate::information::Informant;
use crate::life::bring_up::Fabric;
use crate::life::lab_time::LabTime;
use crate::life::manifest::bounds;
use crate::life::moving::Moving;
use crate::life::observed::Observed;
use crate::life::options::Options;
use crate::life::together::{Between, Standing};
use crate::nodes::containers::Containers;
use crate::nodes::ports::PortMaker;
use crate::progress::{Progress, Stage};
use crate::routing::daemons::{Daemons, logs_folder};
use crate::routing::limit::Limit;
use crate::routing::machine::Machine;
use crate::routing::router::Router;
use crate::routing::steps::{StepTimes, Steps};
use crate::traffic::helpers::Helpers;
use crate::traffic::late::Late;
use crate::traffic::{self, Traffic};
use crate::watch::converged::Converged;
use crate::watch::event_log::EventLog;
use crate::watch::path_rows::PathRows;
use crate::watch::paths::Paths;
use crate::watch::sampling::Sampler;
use crate::watch::series::Recorder;
use crate::watch::stood::{Notes, WAYS_FILE};
use crate::watch::summary::{
    ControlRow, Converged as ConvergedRow, Convergence, DisjointRow, FlowRow, Times, disjoint_rows,
};

/// What the stages are given.
pub(crate) struct Context<'a> {
    /// What makes ports of nodes that come in lab time, where some may.
    pub(crate) ports: Option<&'a dyn PortMaker>,
    pub(crate) options: &'a Options,
    pub(crate) claim: &'a mut Claim,
    pub(crate) results: &'a Results,
    pub(crate) log: &'a Arc<EventLog>,
    pub(crate) clock: &'a Arc<LabClock>,
    pub(crate) view: &'a Arc<View>,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) recorder: &'a Recorder<'a>,
    pub(crate) started: Instant,
    pub(crate) duration_ns: u64,
    /// Where what nodes are told lies.
    pub(crate) information: Option<PathBuf>,
}

/// What they leave.
pub(crate) struct Outcome {
    pub(crate) seen: Observed,
    pub(crate) convergence: Convergence,
    pub(crate) converged: Option<ConvergedRow>,
    pub(crate) link_state: Option<Messages>,
    pub(crate) disjoint: Vec<DisjointRow>,
    pub(crate) daemons: Vec<DaemonsRow>,
    pub(crate) helpers: Vec<HelpersRow>,
    pub(crate) flows: Vec<FlowRow>,
    pub(crate) step_times: StepTimes,
    /// What was planned, where all machines of the lab plan the same.
    pub(crate) plans: Option<Plans>,
    pub(crate) edges: usize,
}

/// Runs all stages of a lab whose fabric stands. Every process they started has ended when it returns, whatever it
/// returns.
///
/// # Errors
/// What a stage met; [`EngineError::Interrupted`] when somebody said stop before lab time.
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
        if let Some(orders) = &view.orders {
            scope.spawn(|| orders.follow(&view, &over));
        }
        // However it ends, by a panic too: nobody who watches must wait for ever.
        let _over = SetOnDrop(&over);
        let outcome = stages.run();
        over.store(true, Ordering::Release);
        let watched = watcher.map_or(Ok(()), result_of);
        (outcome, watched)
    });
    let helped = helpers.into_inner().stop(&fabric.blueprint);
    let stopped = daemons.stop().and(containers.into_inner().stop());
    let mut outcome = outcome?;
    outcome.helpers = helped?;
    watched?;
    stopped?;
    Ok(outcome)
}

/// Sets a flag when it goes out of scope.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The stages between a fabric and its take-down, in their order.
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
            usage.extend(self.daemons.usage("routes-stand")?);
        }
        self.start_helpers()?;
        let traffic = self.start_traffic()?;
        let zero_ns = self.wait_for_machines(&steps)?;
        self.running()?;
        let crossed = self.fabric.between.as_ref().map(Between::counts);

        self.converged.count_from_now();
        let (mut seen, ran) = self.lab_time(&mut steps, traffic, zero_ns)?;
        usage.extend(self.daemons.usage("end")?);
        if let Some(problem) = self.context.view.untold() {
            seen.fail(format!("nodes were not told: {problem}"));
        }
        if let Some((between, before)) = self.fabric.between.as_ref().zip(crossed) {
            let by_hand = self.context.view.orders.as_ref().map(Orders::doubts);
            let wrong = between.wrong(&before).into_iter();
            let wrong = wrong.chain(by_hand.into_iter().flatten());
            wrong.for_each(|failure| seen.fail(failure));
        }
        let blueprint = &self.fabric.blueprint;
        let knows_all_ways = self.fabric.kernels.knows_all_ways();
        if knows_all_ways {
            traffic::charge(
                blueprint,
                &ran,
                &mut seen.handovers.kept,
                &mut seen.changes.kept,
            );
        }
        let mut flows = Vec::with_capacity(ran.jobs.len());
        for (job, ended) in &ran.jobs {
            let trust = self.series(job, &ran, &mut seen);
            flows.push(traffic::row(blueprint, job, ended, trust, &seen.paths));
        }
        if let Some(error) = seen.paths.rows.as_ref().and_then(PathRows::error) {
            seen.fail(format!("paths.csv is not complete: {error}"));
        }
        let nodes = self.fabric.kernels.count();
        Ok(Outcome {
            helpers: Vec::new(),
            flows,
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
            step_times: steps.times,
            edges,
        })
    }

    /// Writes what a flow measured, in lab time. What cannot be written makes the figures untrustworthy, and keeps no
    /// summary from being written.
    fn series(
        &self,
        job: &traffic::Job,
        ran: &traffic::Ran,
        seen: &mut Observed,
    ) -> traffic::series::Trust {
        let name = job.flow.name.as_str();
        let bound_ns = bounds(&self.fabric.blueprint.lab.scenario).lateness_p99_ns;
        let file = self.context.results.flow(name, "csv");
        // Frames are late on a way: nobody here knows which those of other machines' nodes are.
        let tells = seen.tells_lateness && self.fabric.kernels.knows_all_ways();
        let followed = seen.paths.flows.get_mut(name);
        traffic::series::write(&file, job, followed, &ran.wall, bound_ns, tells).unwrap_or_else(
            |error| {
                seen.fail(format!("flows/{name}.csv is not complete: {error}"));
                traffic::series::Trust::default()
            },
        )
    }

    /// The edges of lab time zero and, where Constel computes them, its routes.
    fn edges(&mut self) -> Result<Steps<Machine>, EngineError> {
        let Context {
            options,
            claim,
            clock,
            view,
            information,
            ..
        } = &mut self.context;
        let fabric = self.fabric;
        let informant = information.as_deref().map(|folder| {
            let together = options.together.as_ref();
            let lab = together.map_or(&fabric.launcher.lab, |together| &together.lab);
            let nodes = (&fabric.blueprint, &*fabric.kernels.ours());
            Informant::start(nodes, lab, folder, clock, &view.failed)
        });
        let informant = informant.transpose()?.flatten().map(Arc::new);
        view.change(|live| live.informant.clone_from(&informant));
        let (kernels, links) = (Arc::clone(&fabric.kernels), Arc::clone(&fabric.handle));
        view.begin_away(&fabric.blueprint, links.as_ref())?;
        let machine = Machine::new(kernels, links, informant.clone());
        let planner = Planner::new(Arc::clone(&fabric.blueprint));
        let failed = Arc::clone(&view.failed);
        let mut steps = Steps::new(planner, machine, Arc::clone(clock), failed);
        let begun = Instant::now();
        if options.together.is_some() {
            steps.keep_fingerprint();
        }
        steps.begin_held()?;
        if let Some(informant) = &informant {
            informant.begin(steps.current());
        }
        self.times.edges_s = begun.elapsed().as_secs_f64();
        let edges = steps.current().edges.len();
        view.change(|live| live.snapshot = Some(Arc::clone(steps.current())));
        claim.update(|record| {
            record.nodes = fabric.kernels.count() as u64;
            record.edges = edges as u64;
        })?;
        self.context.log.emit(None, Happening::EdgesUp { edges });
        Ok(steps)
    }

    /// Until when routes must stand, where the scenario holds the clock for them; `since` is when the edges came.
    fn limit(&self, since: Instant) -> Option<Limit> {
        let scenario = &self.fabric.blueprint.lab.scenario;
        // On several machines, each has told its kernels the routes that are computed before it says that it stands.
        let waits = self.context.options.together.is_none() || self.router.daemons().is_some();
        let hold = waits && scenario.clock_hold == ClockHold::UntilRoutesStand;
        let within = self.router.routes_within().filter(|_| hold)?;
        Some(Limit {
            since,
            within,
            logs: logs_folder(self.context.results),
        })
    }

    fn start_daemons(&mut self, limit: Option<&Limit>) -> Result<(), EngineError> {
        let Some(routing) = self.router.daemons() else {
            return Ok(());
        };
        let Context {
            claim,
            log,
            options,
            progress,
            results,
            duration_ns,
            ..
        } = &self.context;
        let blueprint = &self.fabric.blueprint;
        let ours = self.fabric.kernels.ours();
        let count = self.router.processes(&blueprint.lab, &ours);
        let stage = Stage::begin(*progress, "daemons", count as u64);
        let begun = Instant::now();
        let horizon = duration_ns.div_ceil(blueprint.lab.step_ns());
        let watched = (&stage, options.stop.as_ref(), limit);
        // Moving a process into a cgroup2 waits for a grace period, and every fork of the host with it.
        let expedited = Expedited::hold(&RuntimeDir::default().globals(), &claim.owner())?;
        let launcher = &self.fabric.launcher;
        self.daemons
            .start(blueprint, launcher, routing, horizon, results, watched)?;
        expedited.finish()?;
        self.times.daemons_s = begun.elapsed().as_secs_f64();
        self.times.daemons_held_back_s = self.daemons.held_back_s();
        stage.end(&self.router.words().unwrap_or_default());
        let count = self.daemons.count();
        log.emit(None, Happening::DaemonsStarted { count });
        Ok(())
    }

    /// Waits for routes where the scenario holds the clock until they stand.
    fn wait_for_routes(
        &mut self,
        steps: &Steps<Machine>,
        limit: Option<&Limit>,
    ) -> Result<Convergence, EngineError> {
        let Some(limit) = limit else {
            return Ok(Convergence::default());
        };
        let by_daemons = self.daemons.count() > 0;
        let nodes = by_daemons.then_some(self.converged);
        let lab_time = lab_time_of(&self.context, self.fabric, (self.helpers, self.containers));
        let (standing, _) =
            lab_time.wait_for_routes(steps.current(), self.daemons, nodes, limit)?;
        let took = limit.since.elapsed().as_secs_f64();
        let convergence = Convergence {
            first_s: Some(took),
            pairs: standing.pairs,
            control: if by_daemons {
                control(self.fabric)?
            } else {
                None
            },
        };
        self.context.log.emit(
            None,
            Happening::RoutesStand {
                pairs: standing.pairs,
                after_s: Some(took),
            },
        );
        Ok(convergence)
    }

    /// Starts the programs of nodes that are containers: ports, addresses and computed routes stand by then.
    fn start_containers(&mut self) -> Result<(), EngineError> {
        let launcher = &self.fabric.launcher;
        let planned = Containers::planned(launcher);
        if planned == 0 {
            return Ok(());
        }
        let Context {
            claim,
            log,
            options,
            progress,
            results,
            ..
        } = &self.context;
        let stage = Stage::begin(*progress, "containers", planned as u64);
        let begun = Instant::now();
        // As for daemons.
        let expedited = Expedited::hold(&RuntimeDir::default().globals(), &claim.owner())?;
        let watched = (&stage, options.stop.as_ref());
        let mut containers = self.containers.borrow_mut();
        containers.boot(launcher, results.dir(), watched)?;
        expedited.finish()?;
        self.times.containers_s = begun.elapsed().as_secs_f64();
        stage.end(&format!("{:.2} s", self.times.containers_s));
        log.emit(None, Happening::ContainersStarted { count: planned });
        Ok(())
    }

    fn start_helpers(&mut self) -> Result<(), EngineError> {
        let ours = self.fabric.kernels.ours();
        let planned = Helpers::planned(&self.fabric.blueprint, &ours);
        if planned == 0 {
            return Ok(());
        }
        let stage = Stage::begin(self.context.progress, "transport", planned as u64);
        let Fabric {
            blueprint,
            launcher,
            ..
        } = self.fabric;
        let started = Helpers::start(blueprint, launcher, self.context.results, &stage)?;
        *self.helpers.borrow_mut() = started;
        stage.end("");
        self.context
            .log
            .emit(None, Happening::HelpersStarted { count: planned });
        Ok(())
    }

    /// Plans the flows and starts their servers.
    fn start_traffic(&self) -> Result<Traffic, EngineError> {
        let options = self.context.options;
        let flows: &[_] = if options.traffic {
            &self.fabric.blueprint.lab.scenario.traffic
        } else {
            &[]
        };
        let launcher = Arc::clone(&self.fabric.launcher);
        let dir = launcher.lab_dir.clone();
        let results = self.context.results;
        let mut traffic = Traffic::plan(&self.fabric.blueprint, flows, &dir, results, launcher)?;
        traffic.start_servers()?;
        Ok(traffic)
    }

    /// Waits until the other machines' parts stand as well, where there are others. The instant that is lab time zero on all.
    fn wait_for_machines(&self, steps: &Steps<Machine>) -> Result<Option<u64>, EngineError> {
        let options = self.context.options;
        let Some(together) = &options.together else {
            return Ok(None);
        };
        let part = Standing {
            nodes: self.fabric.kernels.count(),
            plan: steps
                .fingerprint()
                .map(|plans| plans.hash)
                .unwrap_or_default(),
            images: self.fabric.launcher.images.ids(),
        };
        let stage = Stage::begin(self.context.progress, "other machines", 1);
        let zero_ns = together.gate.standing(&part, &options.stop)?;
        stage.end("");
        Ok(Some(zero_ns))
    }

    /// All is up: says so, unless somebody said stop.
    fn running(&mut self) -> Result<(), EngineError> {
        let Context {
            options,
            claim,
            log,
            view,
            started,
            ..
        } = &mut self.context;
        if options.stop.load(Ordering::Acquire) {
            return Err(EngineError::Interrupted);
        }
        let bring_up_s = started.elapsed().as_secs_f64();
        self.times.bring_up_s = bring_up_s;
        // What happened while the lab came up says nothing about the figures measured from here on.
        self.fabric.handle.clear_lateness()?;
        claim.update(|record| record.state = LabState::Running)?;
        view.change(|live| live.state = ApiState::Running);
        log.emit(None, Happening::Running { bring_up_s });
        Ok(())
    }

    /// Lab time, with the traffic beside it.
    fn lab_time(
        &mut self,
        steps: &mut Steps<Machine>,
        traffic: Traffic,
        zero_ns: Option<u64>,
    ) -> Result<(Observed, traffic::Ran), EngineError> {
        let Context {
            options,
            log,
            clock,
            duration_ns,
            ..
        } = self.context;
        let mut paths = traffic.followed();
        paths.rows = paths_file(&paths, self.context.results)?;
        let seen = Observed::begin(paths, !self.fabric.kernels.knows_all_ways());
        let notes = self.notes()?;
        let scenario = &self.fabric.blueprint.lab.scenario;
        let profile = options.profile_hz.map(|hz| scenario.profile(hz));
        let sampler = profile
            .as_ref()
            .or(scenario.sampling.as_ref())
            .map(|wanted| {
                let (kernels, links) = (&self.fabric.kernels, &self.fabric.handle);
                Sampler::begin(wanted, kernels, links, self.context.results.dir())
            })
            .transpose()?;
        let mut lab_time = lab_time_of(&self.context, self.fabric, (self.helpers, self.containers));
        let owner = self.context.claim.owner();
        let claim = RefCell::new(&mut *self.context.claim);
        let count = |nodes: usize| -> Result<(), EngineError> {
            let counted = claim
                .borrow_mut()
                .update(|record| record.nodes = nodes as u64);
            Ok(counted?)
        };
        lab_time.count = Some(&count);
        let (fabric, progress) = (self.fabric, self.context.progress);
        let later = self.context.ports.zip(options.together.as_ref());
        let late = Late {
            flows: if options.traffic {
                &scenario.traffic
            } else {
                &[]
            },
            launcher: &fabric.launcher,
            results: self.context.results,
            clock,
            log,
        };
        let (over, quiet) = (AtomicBool::new(false), AtomicBool::new(false));
        let quiet = &quiet;
        let daemons = &mut *self.daemons;
        let (seen, ended) = std::thread::scope(|scope| {
            let stop = || over.load(Ordering::Acquire) || options.stop.load(Ordering::Acquire);
            let traffic = scope.spawn(move || traffic.run(clock, log, stop));
            let sampler = sampler.map(|sampler| scope.spawn(move || sampler.run(clock, quiet)));
            let (kernels, view, over) = (&self.fabric.kernels, &self.context.view, &over);
            let looks =
                notes.map(|notes| scope.spawn(move || notes.watch(kernels, view, clock, over)));
            let (flows, coming) = channel();
            lab_time.moving = later.and_then(|(ports, together)| {
                Moving::begin(scope, fabric, ports, together, (owner, progress), flows)
            });
            let late = scope.spawn(move || late.run(coming, stop));
            // However lab time ends, by a panic too: the traffic ends with it.
            let ending = SetOnDrop(over);
            // And the samples after it, so that the traffic's last frames are in it.
            let settled = SetOnDrop(quiet);
            let mut seen = lab_time.run(steps, daemons, (zero_ns, duration_ns), seen);
            drop(lab_time);
            drop(ending);
            let ended = result_of(traffic);
            let late = result_of(late);
            drop(settled);
            let sampled = sampler.map_or(Ok(()), result_of);
            let looked = looks.map_or(Ok(()), result_of);
            if let Ok(seen) = &mut seen {
                late.failures
                    .into_iter()
                    .for_each(|failure| seen.fail(failure));
            }
            let ended = ended.map(|mut ran| {
                ran.jobs.extend(late.jobs);
                ran
            });
            if let (Ok(seen), Err(error)) = (&mut seen, sampled) {
                seen.fail(format!("the samples are not complete: {error}"));
            }
            if let (Ok(seen), Err(error)) = (&mut seen, looked) {
                seen.fail(format!("{WAYS_FILE} is not complete: {error}"));
            }
            (seen, ended)
        });
        Ok((seen?, ended?))
    }

    /// Where it is noted what becomes of packets here, if other machines have the rest of their ways.
    fn notes(&self) -> Result<Option<Notes>, EngineError> {
        if self.fabric.kernels.knows_all_ways() {
            return Ok(None);
        }
        let file = File::create_new(self.context.results.dir().join(WAYS_FILE));
        let file = file.map_err(|source| EngineError::Io {
            what: format!("make {WAYS_FILE}"),
            source,
        })?;
        Ok(Some(Notes::begin(file)))
    }
}

/// `paths.csv`, where there are flows to follow.
fn paths_file(paths: &Paths, results: &Results) -> Result<Option<PathRows>, EngineError> {
    if paths.flows.is_empty() {
        return Ok(None);
    }
    let file = results.paths().map_err(|source| EngineError::Io {
        what: "make paths.csv".to_owned(),
        source,
    })?;
    Ok(Some(PathRows::begin(file)))
}

fn lab_time_of<'a>(
    context: &Context<'a>,
    fabric: &'a Fabric,
    (helpers, containers): (&'a RefCell<Helpers>, &'a RefCell<Containers>),
) -> LabTime<'a> {
    LabTime {
        fabric,
        clock: context.clock,
        log: context.log,
        view: context.view,
        stop: &context.options.stop,
        progress: context.progress,
        helpers,
        containers,
        moving: None,
        count: None,
    }
}

/// What was on the links up to now.
fn control(fabric: &Fabric) -> Result<Option<ControlRow>, EngineError> {
    let edges: Vec<(u64, u64)> = fabric
        .handle
        .all_edges()?
        .iter()
        .map(|edge| (edge.counters.offered, edge.counters.offered_bytes))
        .collect();
    Ok(ControlRow::of(&edges))
}
