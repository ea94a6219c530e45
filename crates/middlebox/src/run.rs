//! One box, from looking at its interfaces to letting go of them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use constel_api::answers::LabState as ApiState;
use constel_api::{Happening, LabReader as _, SOCKET_NAME, Server};
use constel_drivers::relay::{Captured, External, Relay, RelayConfig, RelayHandle};
use constel_drivers::{BACKLOG, Links, PlaneStats, mono_ns};
use constel_host::claim::{Claim, LabState, RuntimeDir};
use constel_host::netlink::Socket;
use constel_host::wire::Promiscuous;
use constel_lab::{EventLog, Progress};
use constel_observe::results::Results;

use crate::answers::{Now, Running, View};
use crate::error::BoxError;
use crate::live::Live;
use crate::options::{Finished, Options};
use crate::ports::PORTS;
use crate::report::{Seen, write_manifest, write_summary};
use crate::wires::{Wire, look, no_loop};

/// How often stop, end and confirmation are looked after.
const LOOK: Duration = Duration::from_millis(20);
/// How often rates are taken, and edges that nobody uses go.
const TICK: Duration = Duration::from_secs(1);

/// Runs a box in the foreground.
///
/// # Errors
/// [`BoxError::Refused`] before anything was done; else what kept it from running, and the interfaces are as they were.
///
/// # Panics
/// When something in it does; the interfaces are then as they were.
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Finished, BoxError> {
    let wires = look(
        &options.interfaces,
        options.exclusive,
        options.confirm_within.is_some(),
    )?;
    no_loop(&wires)?;
    let runtime = RuntimeDir::default();
    let mut claim = runtime
        .claim(&options.name, options.rules.source.file())
        .map_err(|error| match error {
            constel_host::Error::Conflict(reason) => BoxError::Taken(reason),
            other => other.into(),
        })?;
    // What is unwound drops what it holds: programs, sockets, threads.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        session(options, &wires, &mut claim, progress)
    }));
    let released = claim.release();
    drop(runtime.remove_if_empty());
    options.events.close();
    let finished = outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
    released?;
    Ok(finished)
}

/// What makes a box.
struct Fabric {
    externals: Vec<External>,
    relay: Relay,
    handle: RelayHandle,
    live: Arc<Live>,
    /// Promiscuity, as long as it is held.
    _promiscuous: Vec<Promiscuous>,
}

impl Fabric {
    /// Everything but that frames come in.
    fn make(options: &Options, wires: &[Wire; 2]) -> Result<Fabric, BoxError> {
        let shared = !options.exclusive;
        let externals: Vec<External> = wires.iter().map(|wire| wire.external(shared)).collect();
        let relay = Relay::new(RelayConfig {
            node_ports: 1,
            // Frames leave as they came.
            gro: false,
            ..RelayConfig::new(options.name.as_str(), PORTS, options.rules.seed)
        })?;
        relay.take(&externals)?;
        let handle = relay.start_relay()?;
        let rules = options.rules.clone();
        let live = Live::start(handle.clone(), rules, options.folder.clone())?;
        let held = wires.iter().map(|wire| Promiscuous::hold(wire.ifindex));
        Ok(Fabric {
            _promiscuous: held.collect::<Result<_, _>>()?,
            externals,
            relay,
            handle,
            live: Arc::new(live),
        })
    }
}

fn session(
    options: &Options,
    wires: &[Wire; 2],
    claim: &mut Claim,
    progress: &dyn Progress,
) -> Result<Finished, BoxError> {
    let started = Instant::now();
    let failed = |source| BoxError::Results {
        path: options.results.clone(),
        source,
    };
    let results = Results::create(&options.results).map_err(failed)?;
    write_manifest(&results, options, wires).map_err(failed)?;
    let log = Arc::clone(&options.events);
    let events = Box::new(results.events().map_err(failed)?);
    log.write_to(events, results.dir().join("events.ndjson"));
    let view = Arc::new(view(options, wires, &log));
    view.emit(Happening::Starting {
        lab: options.name.to_string(),
        nodes: 0,
    });
    let socket = claim.dir().join(SOCKET_NAME);
    let server = Server::start(&socket, view.clone()).map_err(BoxError::Socket)?;
    let fabric = Fabric::make(options, wires)?;
    let captured = fabric.relay.capture(&fabric.externals)?;
    let bring_up_s = started.elapsed().as_secs_f64();
    let began_ns = mono_ns();
    {
        let mut now = view.now();
        now.state = ApiState::Running;
        now.since = Some(Instant::now());
        now.confirm_until = options.confirm_within.map(|within| Instant::now() + within);
        now.running = Some(Running {
            live: Arc::clone(&fabric.live),
            handle: fabric.handle.clone(),
        });
    }
    let row = view.state();
    claim.update(|record| {
        record.state = LabState::Running;
        record.edges = row.edges as u64;
    })?;
    view.emit(Happening::Running { bring_up_s });
    progress.say(&up_line(options, wires));
    let (unconfirmed, failures) = live_through(options, wires, &view, &fabric);

    view.now().state = ApiState::Stopping;
    // A full /run keeps nobody from taking the box down.
    let recorded = claim.update(|record| record.state = LabState::Stopping);
    view.emit(Happening::Stopping);
    let (stats, shown) = let_go(captured, &fabric, &view)?;
    view.now().running = None;
    drop(server);
    let file = fabric.live.file();
    fabric.handle.stop();
    drop(fabric);
    let mut failures = failures;
    failures.extend(
        log.sink_error()
            .map(|error| format!("events.ndjson is not complete: {error}")),
    );
    let seen = Seen {
        stats,
        shown,
        file,
        began_ns,
        bring_up_s,
        failures,
        interrupted: options.stop.load(Ordering::Acquire),
    };
    let summary = write_summary(&results, options, seen).map_err(failed)?;
    view.emit(Happening::Finished {
        trustworthy: summary.verdict.trustworthy,
    });
    recorded?;
    Ok(Finished {
        summary,
        results: results.dir().to_owned(),
        unconfirmed,
    })
}

fn view(options: &Options, wires: &[Wire; 2], log: &Arc<EventLog>) -> View {
    View {
        lab: options.name.to_string(),
        scenario: options.rules.source.file().to_owned(),
        exclusive: options.exclusive,
        wires: wires.clone(),
        log: Arc::clone(log),
        stop: Arc::clone(&options.stop),
        now: Mutex::new(Now::default()),
    }
}

fn up_line(options: &Options, wires: &[Wire; 2]) -> String {
    let name = &options.name;
    let mut line = format!(
        "box {name} is up: {} <-> {}, {} rules; `constel box show {name}` shows them, Ctrl-C ends it",
        wires[0].name,
        wires[1].name,
        options.rules.rules.len()
    );
    if let Some(within) = options.confirm_within {
        line.push_str(&format!(
            "\n`constel box confirm {name}` within {} s, or it takes itself down",
            within.as_secs()
        ));
    }
    line
}

/// Until it is stopped, its time is over, nobody confirmed it, or an interface is gone. Whether nobody confirmed it, and
/// what failed.
fn live_through(
    options: &Options,
    wires: &[Wire; 2],
    view: &View,
    fabric: &Fabric,
) -> (bool, Vec<String>) {
    let end = options.duration.map(|duration| Instant::now() + duration);
    let past = |at: Option<Instant>| at.is_some_and(|at| Instant::now() >= at);
    let mut next_tick = Instant::now() + TICK;
    loop {
        if options.stop.load(Ordering::Acquire) || past(end) {
            return (false, Vec::new());
        }
        if past(view.now().confirm_until) {
            view.emit(Happening::Unconfirmed);
            return (true, Vec::new());
        }
        if Instant::now() >= next_tick {
            next_tick += TICK;
            let failures: Vec<String> = tick(wires, &fabric.live);
            if !failures.is_empty() {
                return (false, failures);
            }
        }
        std::thread::sleep(LOOK);
    }
}

fn tick(wires: &[Wire; 2], live: &Live) -> Vec<String> {
    let mut failures = Vec::new();
    if let Err(error) = live.tick() {
        failures.push(format!("the link plane failed: {error}"));
    }
    let links = Socket::open().and_then(|mut socket| socket.links());
    // A kernel that does not answer now may do so later.
    if let Ok(links) = links {
        let gone = wires
            .iter()
            .filter(|wire| !links.iter().any(|link| link.ifindex == wire.ifindex));
        failures.extend(gone.map(|wire| format!("interface {} is gone", wire.name)));
    }
    failures
}

/// The interfaces' frames are the host's again; what was under way is given up.
fn let_go(
    captured: Captured,
    fabric: &Fabric,
    view: &View,
) -> Result<(PlaneStats, constel_api::answers::BoxShown), BoxError> {
    drop(captured);
    let stats = fabric.handle.snapshot()?;
    debug_assert_eq!(stats.lost_to(BACKLOG), 0, "nothing goes over the trunk");
    let shown = view.shown().map_err(|error| {
        constel_drivers::DriverError::Unable(format!("the counters cannot be read: {error}"))
    })?;
    Ok((stats, shown))
}
