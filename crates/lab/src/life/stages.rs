//! From a fabric to the end of its lab time: edges, routes, clock, traffic.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use constel_api::Happening;
use constel_api::answers::LabState as ApiState;
use constel_api::summary::{DaemonsRow, HelpersRow, Messages};
use constel_host::claim::{Claim, LabState, RuntimeDir};
use constel_host::rcu::Expedited;
use constel_observe::results::Results;
use constel_plan::Planner;
use constel_scenario::model::{AreaSize, ClockHold, DaemonRouting, Igp, Mode, Software};

use crate::answers::view::View;
use crate::clock::LabClock;
use crate::error::EngineError;
use crate::life::bring_up::Fabric;
use crate::life::lab_time::{Run, Seen};
use crate::life::run::Options;
use crate::progress::{Progress, Stage};
use crate::routing::daemons::{Daemons, logs_folder};
use crate::routing::machine::Machine;
use crate::routing::steps::{StepTimes, Steps};
use crate::traffic::helpers::Helpers;
use crate::traffic::{self, Traffic};
use crate::watch::converged::Converged;
use crate::watch::event_log::EventLog;
use crate::watch::series::Recorder;
use crate::watch::summary::{
    ControlRow, Converged as ConvergedRow, Convergence, DisjointRow, FlowRow, Times, disjoint_rows,
};

/// Computed routes that do not stand by then never will.
const ROUTES_WITHIN: Duration = Duration::from_secs(120);

/// What a life is given.
pub(crate) struct Context<'a> {
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
}

/// What it leaves.
pub(crate) struct Lived {
    pub(crate) seen: Seen,
    pub(crate) convergence: Convergence,
    pub(crate) converged: Option<ConvergedRow>,
    pub(crate) link_state: Option<Messages>,
    pub(crate) disjoint: Vec<DisjointRow>,
    pub(crate) daemons: Vec<DaemonsRow>,
    pub(crate) helpers: Vec<HelpersRow>,
    pub(crate) flows: Vec<FlowRow>,
    pub(crate) step_times: StepTimes,
    pub(crate) edges: usize,
}

/// Lives. Every process it started has ended when it returns, whatever it returns.
pub(crate) fn live(
    context: Context<'_>,
    fabric: &Fabric,
    times: &mut Times,
) -> Result<Lived, EngineError> {
    let mut daemons = Daemons::none();
    let converged = Converged::default();
    let over = AtomicBool::new(false);
    let helpers = RefCell::new(Helpers::none());
    let (view, recorder) = (Arc::clone(context.view), context.recorder);
    let (lived, watched) = std::thread::scope(|scope| {
        let routing = fabric.blueprint.lab.scenario.routing.mode.daemons();
        let watcher = routing.map(|_| {
            scope.spawn(|| {
                let seen = |look| recorder.converged(look);
                converged.watch(&fabric.kernels, &view, &over, seen)
            })
        });
        let lived = live_with(context, fabric, times, &mut daemons, &converged, &helpers);
        over.store(true, Ordering::Release);
        let watched = watcher.map_or(Ok(()), |watcher| {
            watcher
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        (lived, watched)
    });
    let helped = helpers.into_inner().stop(&fabric.blueprint);
    let stopped = daemons.stop();
    let mut lived = lived?;
    lived.helpers = helped?;
    watched?;
    stopped?;
    Ok(lived)
}

fn live_with(
    context: Context<'_>,
    fabric: &Fabric,
    times: &mut Times,
    daemons: &mut Daemons,
    converged: &Converged,
    helpers: &RefCell<Helpers>,
) -> Result<Lived, EngineError> {
    let Context {
        options,
        claim,
        results,
        log,
        clock,
        view,
        progress,
        recorder: _,
        started,
        duration_ns,
    } = context;
    let blueprint = &fabric.blueprint;
    let scenario = &blueprint.lab.scenario;
    let machine = Machine::new(Arc::clone(&fabric.kernels), Arc::clone(&fabric.handle));
    let planner = Planner::new(Arc::clone(blueprint));
    let mut steps = Steps::new(
        planner,
        machine,
        Arc::clone(clock),
        Arc::clone(&view.failed),
    );
    let begun = Instant::now();
    steps.begin_held()?;
    times.edges_s = begun.elapsed().as_secs_f64();
    let edges = steps.current().edges.len();
    view.change(|live| live.snapshot = Some(Arc::clone(steps.current())));
    claim.update(|record| {
        record.nodes = fabric.kernels.nodes.len() as u64;
        record.edges = edges as u64;
    })?;
    log.emit(None, Happening::EdgesUp { edges });

    let run = Run {
        fabric,
        clock,
        log,
        view,
        stop: &options.stop,
        progress,
        helpers,
    };
    if let Some(routing) = scenario.routing.mode.daemons() {
        let count = Daemons::expected(&blueprint.lab, routing);
        let stage = Stage::begin(progress, "daemons", count as u64);
        let begun = Instant::now();
        let horizon = duration_ns.div_ceil(blueprint.lab.step_ns());
        let stopped = options.stop.as_ref();
        let launcher = &fabric.launcher;
        let watched = (&stage, stopped);
        // Moving a process into a cgroup2 waits for a grace period, and every fork of the host with it.
        let expedited = Expedited::hold(&RuntimeDir::default().globals(), &claim.owner())?;
        daemons.start(blueprint, launcher, routing, horizon, results, watched)?;
        expedited.finish()?;
        times.daemons_s = begun.elapsed().as_secs_f64();
        times.daemons_held_back_s = daemons.held_back_s();
        stage.end(&in_words(routing));
        let count = daemons.count();
        log.emit(None, Happening::DaemonsStarted { count });
    }
    let hold = scenario.clock_hold == ClockHold::UntilRoutesStand;
    let mut convergence = Convergence::default();
    let mut usage = Vec::new();
    if scenario.routing.mode != Mode::None && hold {
        let logs = logs_folder(results);
        let limit = scenario
            .routing
            .mode
            .daemons()
            .map_or(ROUTES_WITHIN, |routing| {
                Duration::from_nanos(routing.within.ns().unsigned_abs())
            });
        let nodes = daemons.count() > 0;
        let nodes = nodes.then_some(converged);
        let (standing, _) = run.wait_for_routes(steps.current(), daemons, nodes, limit, &logs)?;
        let took = begun.elapsed().as_secs_f64();
        convergence = Convergence {
            first_s: Some(took),
            pairs: standing.pairs,
            control: if daemons.count() > 0 {
                control(fabric)?
            } else {
                None
            },
        };
        usage.extend(daemons.usage("routes-stand")?);
        log.emit(
            None,
            Happening::RoutesStand {
                pairs: standing.pairs,
                after_s: Some(took),
            },
        );
    }
    let planned = Helpers::planned(blueprint);
    if planned > 0 {
        let stage = Stage::begin(progress, "transport", planned as u64);
        *helpers.borrow_mut() = Helpers::start(blueprint, &fabric.launcher, results, &stage)?;
        stage.end("");
        log.emit(None, Happening::HelpersStarted { count: planned });
    }
    let flows: &[_] = if options.traffic {
        &scenario.traffic
    } else {
        &[]
    };
    let launcher = Arc::clone(&fabric.launcher);
    let mut traffic = Traffic::plan(
        blueprint,
        flows,
        &launcher.lab_dir.clone(),
        results,
        launcher,
    )?;
    let pairs = traffic.pairs();
    traffic.start_servers()?;
    if options.stop.load(Ordering::Acquire) {
        return Err(EngineError::Interrupted);
    }
    times.bring_up_s = started.elapsed().as_secs_f64();
    // What happened while the lab came up says nothing about the figures measured from here on.
    fabric.handle.clear_lateness()?;
    claim.update(|record| record.state = LabState::Running)?;
    view.change(|live| live.state = ApiState::Running);
    let bring_up_s = times.bring_up_s;
    log.emit(None, Happening::Running { bring_up_s });

    let since = Instant::now();
    let over = AtomicBool::new(false);
    let (seen, ended) = std::thread::scope(|scope| {
        let stop = || over.load(Ordering::Acquire) || options.stop.load(Ordering::Acquire);
        let traffic = scope.spawn(move || traffic.run(clock, log, stop));
        let seen = run.lab_time(&mut steps, daemons, duration_ns, &pairs);
        over.store(true, Ordering::Release);
        let ended = traffic
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (seen, ended)
    });
    let (mut seen, ended) = (seen?, ended?);
    usage.extend(daemons.usage("end")?);
    traffic::charge(
        blueprint,
        clock,
        &ended,
        &mut seen.handovers,
        &mut seen.changes,
    );
    let row = |(job, ended): &(traffic::Job, traffic::Ended)| {
        traffic::row(blueprint, job, ended, &seen.paths, &seen.handovers)
    };
    let flows = ended.iter().map(row).collect();
    Ok(Lived {
        helpers: Vec::new(),
        flows,
        seen,
        convergence,
        converged: converged.row(fabric.kernels.nodes.len(), since),
        link_state: steps.planner.messages().map(|told| Messages {
            originated: told.originated,
            sent: told.sent,
        }),
        disjoint: disjoint_rows(blueprint, steps.planner.pairs_seen()),
        daemons: usage,
        step_times: steps.times,
        edges,
    })
}

/// The daemons for a person who watches.
pub(crate) fn in_words(routing: &DaemonRouting) -> String {
    let software = match routing.software {
        Software::Bird => "BIRD",
        Software::Frr => "FRR",
    };
    let protocol = match routing.protocol {
        Igp::Ospf => "OSPF",
        Igp::Isis => "IS-IS",
        Igp::Babel => "Babel",
    };
    let mut words = format!("{software}, {protocol}");
    if !routing.kernel_events {
        words.push_str(", without kernel events");
    }
    if routing.protocol == Igp::Ospf {
        let (lasers, ospf) = (routing.timers, routing.ospf);
        let _ = write!(
            words,
            "; hello {} s, dead {} s (ground {} s, {} s), retransmit {} s, tick {} s",
            lasers.hello_s,
            lasers.dead_s,
            ospf.ground.hello_s,
            ospf.ground.dead_s,
            ospf.retransmit_s,
            ospf.tick_s
        );
        match ospf.areas {
            Some(AreaSize::Planes(planes)) => {
                let _ = write!(words, "; areas of {planes} planes");
            }
            Some(AreaSize::Satellites(satellites)) => {
                let _ = write!(words, "; areas of {satellites} satellites");
            }
            None => {}
        }
    }
    words
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
