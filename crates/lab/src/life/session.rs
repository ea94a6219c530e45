//! A run once the lab's name is claimed: results folder, socket, fabric, lab time, take-down, summary.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use constel_api::answers::{LabState as ApiState, ScenarioShown};
use constel_api::summary::{ChannelRow, DOCUMENTS, FlowRow, Size, Summary, Times};
use constel_api::{EventData, Followers, SOCKET_NAME, Server};
use constel_drivers::{Chosen, PlaneStats};
use constel_drivers::{ClassLateness, Stall};
use constel_host::claim::{Claim, LabState};
use constel_measure::results::Results;
use constel_measure::verdict::{Fidelity, Machine, Software};
use constel_plan::Lab;
use constel_scenario::Scenario;
use serde_json::json;

use crate::answers::orders::Orders;
use crate::answers::steering::Steering;
use crate::answers::view::{Live, View};
use crate::clock::LabClock;
use crate::error::EngineError;
use crate::life::bring_up::fabric;
use crate::life::manifest::{bounds, manifest, stolen_ns};
use crate::life::observed::explain_killed;
use crate::life::options::{Finished, NEVER_NS, Options};
use crate::life::site::Ground;
use crate::life::stages::{Context, Outcome, run_stages};
use crate::life::take_down::{settled_stats, take_down};
use crate::nodes::kept;
use crate::nodes::management;
use crate::progress::Progress;
use crate::routing::router::Router;
use crate::traffic::congestion::provide_wanted;
use crate::watch::event_log::EventLog;
use crate::watch::series::{self, Recorder, Sampler};
use crate::watch::summary::{channel_rows, step_rows};
use constel_api::manifest::Manifest;

/// Runs the lab. Everything that it created is gone when this returns, with any result.
///
/// # Errors
/// The reason why it could not come up or run; or, with all results written, what could not be removed.
pub(crate) fn session(
    lab: Lab,
    driver: &Chosen,
    options: &Options,
    claim: &mut Claim,
    ground: &Ground<'_>,
    progress: &dyn Progress,
) -> Result<Finished, EngineError> {
    let started = Instant::now();
    let recorder = Recorder::new(progress, started);
    let sampler = recorder.sample();
    let session = Session::open(&lab, driver, options, started)?;
    let series = session.results.series(series::HEADER);
    sampler.write_to(series.map_err(|source| results_error(options, source))?);
    let ended = session.bring_up_and_down(lab, claim, ground, &recorder)?;
    session.close(ended, sampler)
}

/// Returns the scenario for clients of the socket.
fn scenario_shown(options: &Options) -> ScenarioShown {
    let file = Path::new(&options.scenario_file);
    let folder = file.parent().unwrap_or(Path::new(""));
    ScenarioShown {
        file: options.scenario_file.clone(),
        // `absolute` refuses an empty path, which stands for the current directory.
        folder: std::path::absolute(Path::new(".").join(folder)).unwrap_or_default(),
        text: options.scenario_text.clone(),
        results: std::path::absolute(&options.results).unwrap_or_default(),
    }
}

/// The data of a run from its beginning to its end.
struct Session<'a> {
    options: &'a Options,
    scenario: Arc<Scenario>,
    results: Results,
    manifest: Manifest,
    log: Arc<EventLog>,
    clock: Arc<LabClock>,
    view: Arc<View>,
    started: Instant,
    nodes: usize,
}

/// The data of a lab that is down.
struct Ended {
    outcome: Outcome,
    times: Times,
    size: Size,
    stats: PlaneStats,
    classes: Vec<ClassLateness>,
    /// The statistics of the members of channels.
    channels: Vec<ChannelRow>,
    stalls: Vec<Stall>,
    stolen_ns: u64,
    /// How processors were shared with routing daemons.
    sharing: &'static str,
    /// How the lab's init ended early, if it did.
    init_ended: Option<String>,
    /// Those who follow its events.
    followers: Followers,
    /// Whether everything was removed.
    removed: Result<(), EngineError>,
}

impl<'a> Session<'a> {
    /// Creates the results folder, with the data that is known before the lab comes up.
    fn open(
        lab: &Lab,
        driver: &Chosen,
        options: &'a Options,
        started: Instant,
    ) -> Result<Self, EngineError> {
        let scenario = Arc::clone(&lab.scenario);
        let failed = |source| results_error(options, source);
        let results = match lab.containers().next() {
            // Root in a container could make its output file `setuid`, so that other users must not reach it during
            // the run.
            Some(_) => Results::create_closed(&options.results),
            None => Results::create(&options.results),
        };
        let results = results.map_err(failed)?;
        let results = match options.duration_ns {
            Some(_) => results,
            None => results.bounded(),
        };
        let name = options.lab.as_str();
        let document = manifest(
            lab,
            driver,
            name,
            options.duration_ns,
            options.traffic,
            options.together.is_some(),
        );
        let manifest = document.map_err(failed)?;
        results
            .write_json("manifest.json", &manifest)
            .map_err(failed)?;
        results
            .write("scenario.yaml", options.scenario_text.as_bytes())
            .map_err(failed)?;
        let log = Arc::clone(&options.events);
        log.speak_of(lab);
        let events = Box::new(results.events().map_err(failed)?);
        log.write_to(events, results.dir().join("events.ndjson"));
        let clock = Arc::new(LabClock::held());
        let view = Arc::new(View {
            lab: options.lab.to_string(),
            steering: Steering::new(scenario_shown(options), driver.kind, options.duration_ns),
            live: Mutex::new(Live {
                state: ApiState::Starting,
                scenario: options.scenario_file.clone(),
                ..Live::default()
            }),
            clock: Arc::clone(&clock),
            log: Arc::clone(&log),
            stop: Arc::clone(&options.stop),
            failed: Arc::default(),
            by_hand: Default::default(),
            away: Default::default(),
            nodes: Arc::default(),
            policy: Default::default(),
            endings: Mutex::default(),
            orders: options
                .together
                .as_ref()
                .map(|together| Orders::new(together.here, Arc::clone(&together.gate))),
        });
        let nodes = lab.layout.nodes().len();
        log.emit(
            None,
            EventData::Starting {
                lab: options.lab.to_string(),
                nodes,
            },
        );
        Ok(Self {
            options,
            scenario,
            results,
            manifest,
            log,
            clock,
            view,
            started,
            nodes,
        })
    }

    /// Brings the lab up, runs it and takes it down: fabric, stages, take-down.
    fn bring_up_and_down(
        &self,
        lab: Lab,
        claim: &mut Claim,
        ground: &Ground<'_>,
        recorder: &Recorder<'_>,
    ) -> Result<Ended, EngineError> {
        let (options, view) = (self.options, &self.view);
        let socket = claim.dir().join(SOCKET_NAME);
        // The socket is open before the first node, so that `constel show` can report a lab that comes up.
        let server = Server::start(&socket, view.clone()).map_err(|source| EngineError::Io {
            what: "listen on the lab's socket".to_owned(),
            source,
        })?;
        let flows = options.flows(&self.scenario);
        // Held until the lab is down.
        let _provided = provide_wanted(&self.scenario, flows)?;
        // The link's end on the host has a name, so that this record is needed to remove it after a crash.
        if let Some(own) = lab.management(claim.lab().as_str()) {
            claim.about_to_make(management::thing(&own))?;
        }
        let site = ground(claim, self.results.dir());
        let site = site.as_ref();
        let together = options.together.as_ref();
        let place = (claim.lab(), claim.dir());
        let fabric = fabric(lab, site, place, together, recorder)?;
        let ours = fabric.kernels.ours();
        let images = fabric.launcher.images.used(&fabric.blueprint.lab, &ours);
        if !images.is_empty() {
            // The digests are known only now that the images are held.
            let manifest = Manifest {
                images,
                ..self.manifest.clone()
            };
            let written = self.results.write_json("manifest.json", &manifest);
            written.map_err(|source| results_error(options, source))?;
        }
        let sharing = fabric.launcher.cgroups.sharing();
        view.change(|live| {
            live.kernels = Some(Arc::clone(&fabric.kernels));
            live.links = Some(Arc::clone(&fabric.handle));
            live.groups = Some(Arc::clone(&fabric.launcher.cgroups));
        });
        let mut times = Times {
            nodes_s: fabric.nodes_s,
            ..Times::default()
        };
        let mut size = Size {
            nodes: self.nodes,
            ports: fabric.blueprint.lab.layout.ports().len(),
            edges: 0,
            containers: ours.containers(&fabric.blueprint.lab).count(),
            memory_per_node_bytes: fabric.memory_per_node_bytes,
        };
        let map = fabric.kernels.forwarding.clone();
        let ports = site.ports(fabric.plane.as_ref(), fabric.super_frames, map);
        let context = Context {
            ports: ports.as_ref(),
            options,
            claim,
            results: &self.results,
            log: &self.log,
            clock: &self.clock,
            view,
            progress: recorder,
            recorder,
            started: self.started,
            end_ns: options.duration_ns.unwrap_or(NEVER_NS),
            information: site.information(),
        };
        // The time stolen by the hypervisor counts from here: the creation of nodes does not affect the results.
        let stolen_before_ns = stolen_ns();
        let outcome = run_stages(context, &fabric, &mut times);
        drop(ports);
        let stolen_ns = stolen_ns().saturating_sub(stolen_before_ns);

        view.change(|live| live.state = ApiState::Stopping);
        // A failure, for example of a full /run, must not prevent the take-down.
        let recorded = claim.update(|record| record.state = LabState::Stopping);
        let t_ns = self.clock.now_ns().map(|t| t as i64);
        self.log.emit(t_ns, EventData::Stopping);
        let down = Instant::now();
        // The link plane's statistics are read before it is taken down.
        let stats = settled_stats(&fabric);
        let classes = fabric.handle.lateness_by_class();
        let channels = fabric.handle.channels();
        let channels = channels.map(|own| channel_rows(&fabric.blueprint, &own));
        let stalls = fabric.handle.stalls();
        // References to nodes must be dropped before the nodes can be removed.
        let stopping = Live {
            state: ApiState::Stopping,
            scenario: options.scenario_file.clone(),
            ..Live::default()
        };
        view.change(|live| *live = stopping);
        let followers = server.stop();
        let init_ended = site.init_ended();
        // Processes end before the nodes: a process in a node would keep its namespace.
        let ended = site.end_processes();
        let removed = take_down(fabric, site, recorder);
        // Files of nodes are collected after their programs have ended, so that they are complete.
        let kept = self.keep(claim.dir(), recorder);
        times.take_down_s = down.elapsed().as_secs_f64();
        // An error of a stage is reported first; an error of the take-down only if the lab ran.
        let outcome = outcome?;
        size.edges = outcome.edges;
        Ok(Ended {
            outcome,
            times,
            size,
            stats: stats?,
            classes: classes?,
            channels: channels?,
            stalls: stalls?,
            stolen_ns,
            sharing,
            init_ended: init_ended?,
            followers,
            removed: removed
                .and(ended)
                .and(kept)
                .and(recorded.map_err(Into::into)),
        })
    }

    /// Copies the files that nodes kept to the results. From here on the folder is readable for others.
    fn keep(&self, lab_dir: &Path, recorder: &Recorder<'_>) -> Result<(), EngineError> {
        let failed = |source| results_error(self.options, source);
        let left_out = kept::collect(lab_dir, self.results.dir()).map_err(failed)?;
        for (node, count) in left_out.0 {
            recorder.say(&format!(
                "{node}: {count} of the things in /run/constel-node are not in the results: links, FIFOs, sockets, devices, names that \
                 Constel has there, or more than {} MiB in all",
                kept::MOST_BYTES >> 20
            ));
        }
        self.results.open_to_others().map_err(failed)
    }

    /// Writes the results of the run. With a full disk the summary still appears on the terminal, and its verdict
    /// lists what is missing in the folder.
    fn close(self, ended: Ended, sampler: Sampler) -> Result<Finished, EngineError> {
        let zero_ns = self.clock.zero_mono_ns().unwrap_or(0) as i64;
        let stall = |stall: &Stall| {
            json!({
                "from_ns": stall.from_ns as i64 - zero_ns,
                "to_ns": stall.to_ns as i64 - zero_ns,
                "in_run_queue_ns": stall.in_run_queue_ns,
            })
        };
        let stalls: Vec<_> = ended.stalls.iter().map(stall).collect();
        let title = format!("{}: {} nodes", self.scenario.name, self.nodes);
        let followers = ended.followers.clone();
        let (removed, mut summary) = self.summary(ended);
        let written = self.results.write_json("stalls.json", &stalls);
        let written = written.and(sampler.finish(&title, &self.results));
        // The verdict must include unwritten files before the event log records it.
        note_unwritten(&mut summary, written);
        self.log.emit(
            None,
            EventData::Finished {
                trustworthy: summary.verdict.trustworthy,
                failed: summary.software.failed,
            },
        );
        self.log.close();
        let written = self.results.write_json("summary.json", &summary);
        note_unwritten(&mut summary, written);
        followers.hear_the_end();
        removed?;
        Ok(Finished {
            summary,
            results: self.results.dir().to_owned(),
        })
    }

    fn summary(&self, ended: Ended) -> (Result<(), EngineError>, Summary) {
        let Ended {
            mut outcome, stats, ..
        } = ended;
        if let Some(cause) = &ended.init_ended {
            let rows = outcome.flows.iter_mut();
            rows.for_each(|row| explain_killed(row, cause));
        }
        let bounds = bounds(&self.scenario);
        let mut fidelity = fidelity(&stats, &outcome, &self.log, ended.stolen_ns);
        // The end of the lab's init ended every program, so that no result is complete.
        fidelity.failures.extend(ended.init_ended);
        let software = software(&outcome);
        let words = Router::of(&self.scenario).words();
        let summary = Summary {
            version: DOCUMENTS,
            lab: self.options.lab.to_string(),
            scenario: self.scenario.name.to_string(),
            seed: self.scenario.seed,
            interrupted: self.options.stop.load(Ordering::Acquire),
            lab_time_ns: outcome.seen.lab_time_ns,
            size: ended.size,
            times: ended.times,
            routing: words.map(|words| format!("{words}; {}", ended.sharing)),
            convergence: outcome.convergence,
            converged: outcome.converged,
            link_state: outcome.link_state,
            disjoint: outcome.disjoint,
            channels: ended.channels,
            daemons: outcome.daemons,
            transport: outcome.helpers,
            further_handovers: outcome.seen.handovers.further,
            handovers: outcome.seen.handovers.kept,
            further_changes: outcome.seen.changes.further,
            changes: outcome.seen.changes.kept,
            stacks: outcome.stacks,
            flows: outcome.flows,
            steps: step_rows(&outcome.step_times),
            relay: stats.detail,
            lateness_by_class: ended.classes,
            plans: outcome.plans,
            policies: outcome.seen.policies,
            crossed: outcome.crossed,
            machines: Vec::new(),
            verdict: fidelity.judge(bounds),
            software,
            fidelity,
            bounds,
        };
        (ended.removed, summary)
    }
}

/// Marks the run as not trustworthy if a part of the results could not be written.
fn note_unwritten(summary: &mut Summary, written: io::Result<()>) {
    if let Err(error) = written {
        let failure = format!("the results are not complete: {error}");
        summary.fidelity.failures.push(failure);
        summary.verdict = summary.fidelity.judge(summary.bounds);
    }
}

fn results_error(options: &Options, source: std::io::Error) -> EngineError {
    if source.kind() == std::io::ErrorKind::AlreadyExists {
        return EngineError::ResultsThere(options.results.clone());
    }
    EngineError::Results {
        path: options.results.clone(),
        source,
    }
}

/// Collects the input of the verdict.
fn fidelity(stats: &PlaneStats, outcome: &Outcome, log: &EventLog, steal_ns: u64) -> Fidelity {
    let steps = &outcome.step_times;
    let mut failures = outcome.seen.failures.clone();
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
            steal_ns,
            processor_wait_ratio: outcome.seen.processor_wait_ratio,
            ..stats.stalls.into()
        },
        frames_early: stats.early,
        emulator_drops: stats
            .emulator_drops
            .iter()
            .map(|(cause, count)| ((*cause).to_owned(), *count))
            .collect(),
        steps_late: steps.late,
        steps: steps.lateness_ns.count(),
        step_lateness_max_ns: steps.lateness_ns.max(),
        affected_flows: outcome.flows.iter().filter_map(FlowRow::affected).collect(),
        failures,
    }
}

/// Collects the failures of the lab's own software.
fn software(outcome: &Outcome) -> Software {
    let mut software = outcome.seen.software.clone();
    let failed = outcome.flows.iter().filter_map(FlowRow::failure);
    failed.for_each(|failure| software.fail(failure));
    software
}
