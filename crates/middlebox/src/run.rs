//! The life of one box, from the check of its interfaces to their release.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use constel_api::answers::LabState as ApiState;
use constel_api::summary::FlowRow;
use constel_api::{EventData, LabReader as _, SOCKET_NAME, Server};
use constel_drivers::relay::{Captured, External, Relay, RelayConfig, RelayHandle};
use constel_drivers::{BACKLOG, DriverError, Links, PlaneStats, mono_ns};
use constel_host::claim::{Claim, LabState, RuntimeDir};
use constel_host::globals::Globals;
use constel_host::netlink::Socket;
use constel_host::wire::Promiscuous;
use constel_lab::wires::{Use, Wire, look, no_loop};
use constel_lab::{EventLog, Progress};
use constel_link::PortId;
use constel_measure::results::Results;
use constel_scenario::model::{BoxEnds, BoxForm, Machine};

use crate::answers::{Now, Running, View};
use crate::edits::odd_interfaces;
use crate::error::BoxError;
use crate::joined::Joined;
use crate::live::Live;
use crate::machines::Machines;
use crate::options::{Finished, Options};
use crate::ports::PORTS;
use crate::programs::Programs;
use crate::report::{EndedBox, write_manifest, write_summary};
use crate::router::Router;

/// How often the box checks for stop, end and confirmation.
const LOOK: Duration = Duration::from_millis(20);
/// How often rates are sampled and unused edges removed.
const TICK: Duration = Duration::from_secs(1);

/// Runs a box in the foreground.
///
/// # Errors
/// [`BoxError::Refused`] before anything was changed; otherwise the reason why it could not run, with the
/// interfaces in their earlier state.
///
/// # Panics
/// When a part of it panics; the interfaces are then in their earlier state.
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Finished, BoxError> {
    let names = options.ends.names();
    let mut against = options.form.refusals(&names);
    let routes = matches!(options.form, BoxForm::Router(_));
    against.extend(odd_interfaces(&options.rules.rules, &names, routes));
    if !against.is_empty() {
        return Err(BoxError::Refused(against));
    }
    // Interfaces of the host are checked before anything is changed.
    let stand = match &options.ends {
        BoxEnds::Interfaces(names) => BoxInterfaces::Host(usable(names, options)?),
        BoxEnds::Machines(machines) => BoxInterfaces::Machines(machines),
    };
    let runtime = RuntimeDir::default();
    let mut claim = runtime
        .claim(&options.name, options.rules.source.file())
        .map_err(|error| match error {
            constel_host::Error::Conflict(reason) => BoxError::Taken(reason),
            other => other.into(),
        })?;
    // Unwinding drops all resources: programs, sockets, threads, machines.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let results =
            Results::create(&options.results).map_err(|source| options.no_results(source))?;
        let place = (&results, &mut claim);
        match stand {
            BoxInterfaces::Host(wires) => session(options, (&wires, None), place, progress),
            BoxInterfaces::Machines(machines) => {
                among_machines(options, machines, runtime.globals(), place, progress)
            }
        }
    }));
    let released = claim.release();
    drop(runtime.remove_if_empty());
    options.events.close();
    let finished = outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
    released?;
    Ok(finished)
}

/// The interfaces between which a box runs.
enum BoxInterfaces<'a> {
    /// Interfaces of the host.
    Host(Vec<Wire>),
    /// Interfaces of machines that do not exist yet.
    Machines(&'a [Machine]),
}

/// Returns these interfaces of the calling thread's namespace if a box can use them.
fn usable(names: &[String], options: &Options) -> Result<Vec<Wire>, BoxError> {
    let wanted = Use {
        who: "a box",
        exclusive: options.exclusive,
        may_lose_host: options.confirm_within.is_some(),
    };
    let wires = look(names, wanted)?;
    no_loop(&wires)?;
    Ok(wires)
}

/// Runs a box between machines that exist as long as it does.
fn among_machines(
    options: &Options,
    machines: &[Machine],
    globals: Globals,
    (results, claim): (&Results, &mut Claim),
    progress: &dyn Progress,
) -> Result<Finished, BoxError> {
    let started = Instant::now();
    let made = Machines::make(claim, globals, machines, results)?;
    let made = Arc::new(made);
    progress.say(&format!(
        "machines {} are up after {:.2} s",
        made.names().join(" and "),
        started.elapsed().as_secs_f64()
    ));
    let outcome = {
        let _there = made.middle().enter()?;
        let wires = usable(&options.ends.names(), options)?;
        session(options, (&wires, Some(&made)), (results, claim), progress)
    };
    made.end()?;
    outcome
}

/// The resources of a running box.
struct Fabric {
    externals: Vec<External>,
    relay: Relay,
    /// The router, for a box of that form.
    _router: Option<Router>,
    handle: RelayHandle,
    live: Arc<Live>,
    /// Promiscuous mode, which ends when this is dropped.
    _promiscuous: Vec<Promiscuous>,
}

impl Fabric {
    /// Creates everything, but lets no frames in yet.
    fn make(options: &Options, wires: &[Wire]) -> Result<Fabric, BoxError> {
        let shared = !options.exclusive;
        let externals = (0u32..).zip(wires);
        let externals = externals.map(|(n, wire)| wire.external(PortId(n), shared));
        let mut externals: Vec<External> = externals.collect();
        let (joined, router) = match &options.form {
            BoxForm::Pairs => (Joined::Pairs, None),
            BoxForm::Hub => (Joined::hub(), None),
            BoxForm::Router(asked) => {
                let router = Router::make(&options.name, asked, wires)?;
                externals.extend(router.cables.iter().cloned());
                let own = asked.addresses.iter().map(|(_, address, _)| *address);
                // A box has at most eight interfaces.
                (
                    Joined::Router(wires.len() as u8, own.collect()),
                    Some(router),
                )
            }
        };
        let relay = Relay::new(RelayConfig {
            node_ports: 1,
            // Frames must leave as they arrived, so that none may be merged.
            gro: false,
            ..RelayConfig::new(options.name.as_str(), PORTS, options.rules.seed)
        })?;
        relay
            .take(&externals)
            .map_err(|error| in_use(error, wires))?;
        let handle = relay.start_relay().map_err(|error| in_use(error, wires))?;
        let rules = options.rules.clone();
        let names = wires.iter().map(|wire| wire.name.clone()).collect();
        let place = (options.folder.clone(), joined, names);
        let live = Live::start(handle.clone(), rules, place)?;
        let held = wires.iter().map(|wire| Promiscuous::hold(wire.ifindex));
        Ok(Fabric {
            _promiscuous: held.collect::<Result<_, _>>()?,
            externals,
            relay,
            _router: router,
            handle,
            live: Arc::new(live),
        })
    }
}

/// Names the interface that another program uses, and adds the commands that help.
fn in_use(error: DriverError, wires: &[Wire]) -> BoxError {
    let DriverError::InUse { ifindex } = error else {
        return error.into();
    };
    let wire = wires.iter().find(|wire| wire.ifindex == ifindex);
    let name = wire.map_or("an interface", |wire| wire.name.as_str());
    BoxError::Refused(vec![format!(
        "{name} is in use: another box, or another program with an AF_XDP socket, takes its frames; `constel list` shows boxes, and \
         `constel down NAME` ends one"
    )])
}

fn session(
    options: &Options,
    (wires, machines): (&[Wire], Option<&Arc<Machines>>),
    (results, claim): (&Results, &mut Claim),
    progress: &dyn Progress,
) -> Result<Finished, BoxError> {
    let started = Instant::now();
    let failed = |source| options.no_results(source);
    write_manifest(results, options, wires).map_err(failed)?;
    let log = Arc::clone(&options.events);
    let events = Box::new(results.events().map_err(failed)?);
    log.write_to(events, results.dir().join("events.ndjson"));
    let view = Arc::new(view(options, wires, &log));
    view.emit(EventData::Starting {
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
            machines: machines.cloned(),
        });
    }
    let row = view.state();
    claim.update(|record| {
        record.state = LabState::Running;
        record.edges = row.edges as u64;
    })?;
    view.emit(EventData::Running { bring_up_s });
    progress.say(&up_line(options, wires));
    let programs = machines
        .map(|machines| Programs::new(Arc::clone(machines), options.commands.clone(), results));
    let Lived {
        unconfirmed,
        mut failures,
        flows,
    } = live_through(options, wires, &view, &fabric, programs)?;

    view.now().state = ApiState::Stopping;
    // A failure, for example of a full /run, must not prevent the end of the box.
    let recorded = claim.update(|record| record.state = LabState::Stopping);
    view.emit(EventData::Stopping);
    let (stats, shown) = let_go(captured, &fabric, &view)?;
    view.now().running = None;
    let followers = server.stop();
    let file = fabric.live.file();
    fabric.handle.stop();
    drop(fabric);
    failures.extend(
        log.sink_error()
            .map(|error| format!("events.ndjson is not complete: {error}")),
    );
    let seen = EndedBox {
        stats,
        shown,
        file,
        began_ns,
        bring_up_s,
        failures,
        interrupted: options.stop.load(Ordering::Acquire),
        flows,
    };
    let summary = write_summary(results, options, seen).map_err(failed)?;
    view.emit(EventData::Finished {
        trustworthy: summary.verdict.trustworthy,
        failed: summary.software.failed,
    });
    log.close();
    followers.hear_the_end();
    recorded?;
    Ok(Finished {
        summary,
        results: results.dir().to_owned(),
        unconfirmed,
    })
}

fn view(options: &Options, wires: &[Wire], log: &Arc<EventLog>) -> View {
    View {
        lab: options.name.to_string(),
        scenario: options.rules.source.file().to_owned(),
        exclusive: options.exclusive,
        wires: wires.to_vec(),
        log: Arc::clone(log),
        stop: Arc::clone(&options.stop),
        now: Mutex::new(Now::default()),
    }
}

fn up_line(options: &Options, wires: &[Wire]) -> String {
    let name = &options.name;
    let names: Vec<&str> = wires.iter().map(|wire| wire.name.as_str()).collect();
    let between = match &options.form {
        BoxForm::Pairs => {
            let pairs: Vec<String> = names.chunks(2).map(|pair| pair.join(" <-> ")).collect();
            pairs.join(", ")
        }
        BoxForm::Hub => format!("a hub of {}", names.join(", ")),
        BoxForm::Router(_) => format!("a router between {}", names.join(", ")),
    };
    let mut line = format!(
        "box {name} is up: {between}, {} rules; `constel box show {name}` shows them, Ctrl-C ends it",
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

/// The outcome of a box's life.
#[derive(Default)]
struct Lived {
    /// Whether it ended because it was not confirmed.
    unconfirmed: bool,
    failures: Vec<String>,
    flows: Vec<FlowRow>,
}

/// Runs until the box is stopped, its time is over, it is not confirmed in time, or an interface disappears.
///
/// # Errors
/// When its programs cannot be supervised.
fn live_through(
    options: &Options,
    wires: &[Wire],
    view: &View,
    fabric: &Fabric,
    mut programs: Option<Programs>,
) -> Result<Lived, BoxError> {
    let end = options.duration.map(|duration| Instant::now() + duration);
    let past = |at: Option<Instant>| at.is_some_and(|at| Instant::now() >= at);
    let mut next_tick = Instant::now() + TICK;
    let mut lived = Lived::default();
    while !options.stop.load(Ordering::Acquire) && !past(end) {
        if past(view.now().confirm_until) {
            view.emit(EventData::Unconfirmed);
            lived.unconfirmed = true;
            break;
        }
        for handover in fabric.live.glide(mono_ns())? {
            view.emit(EventData::Handover {
                station: handover.end,
                from: handover.from,
                to: handover.to,
                port: None,
            });
        }
        if Instant::now() >= next_tick {
            next_tick += TICK;
            lived.failures = tick(wires, &fabric.live);
            if !lived.failures.is_empty() {
                break;
            }
        }
        if let (Some(programs), Some(now_ns)) = (&mut programs, view.t_ns()) {
            programs.look(now_ns, &|what| view.emit(what))?;
        }
        std::thread::sleep(LOOK);
    }
    if let Some(programs) = programs {
        lived.flows = programs.end()?;
    }
    Ok(lived)
}

fn tick(wires: &[Wire], live: &Live) -> Vec<String> {
    let mut failures = Vec::new();
    if let Err(error) = live.tick() {
        failures.push(format!("the link plane failed: {error}"));
    }
    let links = Socket::open().and_then(|mut socket| socket.links());
    // An error of the kernel here may be temporary; the next tick checks again.
    if let Ok(links) = links {
        let gone = wires
            .iter()
            .filter(|wire| !links.iter().any(|link| link.ifindex == wire.ifindex));
        failures.extend(gone.map(|wire| format!("interface {} is gone", wire.name)));
    }
    failures
}

/// Returns the interfaces to the host. Frames in flight are discarded.
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
