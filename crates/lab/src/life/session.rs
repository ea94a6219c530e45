//! A run with the lab's name ours: results folder, socket, fabric, life, take-down, summary.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use constel_api::answers::LabState as ApiState;
use constel_api::summary::{DOCUMENTS, FlowStatus, Size, Summary, Times};
use constel_api::{Happening, SOCKET_NAME, Server};
use constel_drivers::{Chosen, PlaneStats};
use constel_host::claim::{Claim, LabState, RuntimeDir};
use constel_observe::results::Results;
use constel_observe::verdict::{Bounds, Fidelity, Machine};
use constel_plan::Lab;
use serde_json::json;

use crate::answers::view::{Live, View};
use crate::clock::LabClock;
use crate::error::EngineError;
use crate::life::bring_up::fabric;
use crate::life::manifest::{bounds, manifest, stolen_ns};
use crate::life::run::{Finished, Options};
use crate::life::stages::{Context, Lived, in_words, live};
use crate::life::take_down::{settled_stats, take_down};
use crate::nodes::launcher::Cgroups;
use crate::progress::Progress;
use crate::traffic::congestion::provide_wanted;
use crate::watch::event_log::EventLog;
use crate::watch::series::Recorder;
use crate::watch::summary::step_rows;

/// Runs the lab; what it made is gone when it returns, whatever it returns.
pub(crate) fn session(
    lab: Lab,
    driver: &Chosen,
    options: &Options,
    claim: &mut Claim,
    progress: &dyn Progress,
) -> Result<Finished, EngineError> {
    let started = Instant::now();
    let recorder = Recorder::new(progress, started);
    let sampler = recorder.sample();
    let progress: &dyn Progress = &recorder;
    let duration_ns = options
        .duration_ns
        .unwrap_or(lab.scenario.duration.ns().unsigned_abs());
    let results_error = |source| EngineError::Results {
        path: options.results.clone(),
        source,
    };
    let results = Results::create(&options.results).map_err(results_error)?;
    let document = manifest(
        &lab,
        driver,
        options.lab.as_str(),
        duration_ns,
        options.traffic,
    )
    .map_err(results_error)?;
    results
        .write_json("manifest.json", &document)
        .map_err(results_error)?;
    results
        .write("scenario.yaml", options.scenario_text.as_bytes())
        .map_err(results_error)?;
    let log = Arc::clone(&options.events);
    log.write_to(Box::new(results.events().map_err(results_error)?));
    let clock = Arc::new(LabClock::held());
    let view = Arc::new(View {
        lab: options.lab.to_string(),
        lab_dir: claim.dir().to_owned(),
        live: Mutex::new(Live {
            state: ApiState::Starting,
            scenario: options.scenario_file.clone(),
            ..Live::default()
        }),
        clock: Arc::clone(&clock),
        log: Arc::clone(&log),
        stop: Arc::clone(&options.stop),
        failed: Arc::default(),
    });
    let nodes = lab.layout.nodes().len();
    log.emit(
        None,
        Happening::Starting {
            lab: options.lab.to_string(),
            nodes,
        },
    );
    let server = Server::start(&claim.dir().join(SOCKET_NAME), view.clone()).map_err(|source| {
        EngineError::Io {
            what: "listen on the lab's socket".to_owned(),
            source,
        }
    })?;
    let globals = RuntimeDir::default().globals();
    let scenario = Arc::clone(&lab.scenario);
    let daemon_routing = scenario.routing.mode.daemons();
    let cgroups = Cgroups::create(claim.lab(), daemon_routing.is_some())?;
    let sharing = cgroups.sharing();
    let flows: &[_] = if options.traffic {
        &scenario.traffic
    } else {
        &[]
    };
    // Held until the lab is down.
    let _provided = provide_wanted(&scenario, flows)?;
    let fabric = fabric(lab, driver.kind, claim, &globals, cgroups, progress)?;
    view.change(|live| {
        live.kernels = Some(Arc::clone(&fabric.kernels));
        live.links = Some(Arc::clone(&fabric.handle));
    });
    let mut times = Times {
        nodes_s: fabric.nodes_s,
        ..Times::default()
    };
    let mut size = Size {
        nodes,
        ports: fabric.blueprint.lab.layout.ports().len(),
        edges: 0,
        memory_per_node_bytes: fabric.memory_per_node_bytes,
    };
    let context = Context {
        options,
        claim,
        results: &results,
        log: &log,
        clock: &clock,
        view: &view,
        progress,
        recorder: &recorder,
        started,
        duration_ns,
    };
    let stolen_before_ns = stolen_ns();
    let lived = live(context, &fabric, &mut times);
    let stolen_ns = stolen_ns().saturating_sub(stolen_before_ns);

    view.change(|live| live.state = ApiState::Stopping);
    claim.update(|record| record.state = LabState::Stopping)?;
    log.emit(clock.now_ns().map(|t| t as i64), Happening::Stopping);
    let down = Instant::now();
    let stats = settled_stats(&fabric);
    let classes = fabric.handle.lateness_by_class();
    let stalls = fabric.handle.stalls();
    // Whoever holds nodes must let go before they can go.
    let scenario_file = options.scenario_file.clone();
    view.change(|live| {
        *live = Live {
            state: ApiState::Stopping,
            scenario: scenario_file,
            ..Live::default()
        };
    });
    drop(server);
    let removed = take_down(fabric, &globals, &claim.owner(), progress);
    times.take_down_s = down.elapsed().as_secs_f64();
    let lived = lived?;
    let stats = stats?;
    removed?;

    size.edges = lived.edges;
    let bounds = bounds(&scenario);
    let fidelity = fidelity(&stats, &lived, &log, stolen_ns, bounds);
    let zero_ns = clock.zero_mono_ns().unwrap_or(0) as i64;
    let stalls: Vec<_> = stalls?
        .iter()
        .map(|stall| {
            json!({
                "from_ns": stall.from_ns as i64 - zero_ns,
                "to_ns": stall.to_ns as i64 - zero_ns,
                "in_run_queue_ns": stall.in_run_queue_ns,
            })
        })
        .collect();
    results
        .write_json("stalls.json", &stalls)
        .map_err(results_error)?;
    let summary = Summary {
        version: DOCUMENTS,
        lab: options.lab.to_string(),
        scenario: scenario.name.to_string(),
        seed: scenario.seed,
        interrupted: options.stop.load(Ordering::Acquire),
        lab_time_ns: lived.seen.lab_time_ns,
        size,
        times,
        routing: daemon_routing.map(|routing| format!("{}; {sharing}", in_words(routing))),
        convergence: lived.convergence,
        converged: lived.converged,
        link_state: lived.link_state,
        disjoint: lived.disjoint,
        daemons: lived.daemons,
        transport: lived.helpers,
        handovers: lived.seen.handovers,
        changes: lived.seen.changes,
        flows: lived.flows,
        steps: step_rows(&lived.step_times),
        relay: stats.detail,
        lateness_by_class: classes?,
        verdict: fidelity.judge(bounds),
        fidelity,
        bounds,
    };
    log.emit(
        None,
        Happening::Finished {
            trustworthy: summary.verdict.trustworthy,
        },
    );
    log.close();
    sampler
        .finish(&format!("{}: {nodes} nodes", scenario.name), &results)
        .map_err(results_error)?;
    results
        .write_json("summary.json", &summary)
        .map_err(results_error)?;
    Ok(Finished {
        summary,
        results: results.dir().to_owned(),
    })
}

/// Collects what the verdict is made from.
fn fidelity(
    stats: &PlaneStats,
    lived: &Lived,
    log: &EventLog,
    steal_ns: u64,
    bounds: Bounds,
) -> Fidelity {
    let lateness = &lived.step_times.lateness_ns;
    let mut failures = lived.seen.failures.clone();
    for flow in lived
        .flows
        .iter()
        .filter(|flow| flow.status == FlowStatus::Failed)
    {
        let reason = flow.reason.as_deref().unwrap_or_default();
        failures.push(format!("flow {} gave no result: {reason}", flow.name));
    }
    failures.extend(
        log.sink_error()
            .map(|error| format!("events.ndjson is not complete: {error}")),
    );
    Fidelity {
        frames_released: stats.lateness.count,
        lateness_p99_ns: stats.lateness.p99_ns,
        lateness_max_ns: stats.lateness.max_ns,
        own_lateness_p99_ns: stats.own_lateness.p99_ns,
        machine: Machine {
            stalls: stats.stalls.count,
            stalled_ns: stats.stalls.total_ns,
            longest_stall_ns: stats.stalls.longest_ns,
            in_run_queue_ns: stats.stalls.in_run_queue_ns,
            steal_ns,
            processor_wait_ratio: lived.seen.processor_wait_ratio,
        },
        frames_early: stats.early,
        unintended_drops: stats
            .unintended
            .iter()
            .map(|(cause, count)| ((*cause).to_owned(), *count))
            .collect(),
        steps_late: lateness
            .iter()
            .filter(|&&ns| ns > bounds.step_lateness_ns as f64)
            .count() as u64,
        steps: lateness.len() as u64,
        step_lateness_max_ns: lateness.iter().copied().fold(0.0, f64::max) as u64,
        failures,
    }
}
