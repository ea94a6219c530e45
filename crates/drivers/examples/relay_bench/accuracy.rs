//! Delay error between the two node ends: kernel receive stamp minus the time just before `send`,
//! minus the configured delay. It includes the sender's system call and its place in a burst; the
//! bare veth pair next to it shows how much that is.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use constel_drivers::Links;
use constel_drivers::relay::RelayHandle;
use constel_link::{EdgeUpdate, Nanos, Quantiles};
use serde_json::{Value, json};

use crate::common::*;
use crate::spread::{Errors, Spread, in_rounds};
use crate::support::link;
use crate::witness;

const DELAYS_NS: [Nanos; 4] = [MS / 2, 5 * MS, 50 * MS, 270 * MS];
const RATES_FPS: [u64; 4] = [1_000, 10_000, 50_000, 100_000];
const LENGTHS: [usize; 2] = [64, 1400];
/// Length of a measurement: each is made several times.
const SECONDS: f64 = 0.5;
/// Target for up to this many frames/s with the other core idle.
const AIM_FPS: u64 = 50_000;
const AIM_P50_NS: f64 = 15_000.0;
const AIM_P99_NS: f64 = 50_000.0;

/// A thread of normal priority that keeps the last core busy.
struct Busy {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Busy {
    fn begin() -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = thread::spawn(move || {
            let cpus = thread::available_parallelism().map_or(1, |n| n.get());
            // SAFETY: an all-zero set is valid; the call is about the calling thread.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpus - 1, &mut set);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
            }
            while !flag.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Busy {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The medium that frames cross.
#[derive(Clone, Copy)]
enum Way {
    Veth,
    /// A relay, by its number among those of the run, with this delay.
    Relay(usize, Nanos),
}

/// A case: frames of this rate and length.
#[derive(Clone, Copy)]
struct Case {
    fps: u64,
    length: usize,
    way: Way,
}

/// One round of a case.
struct Round {
    errors: Quantiles,
    unexplained: Quantiles,
    /// Delay error by the relay's own clock, without the time in which its thread was kept from running.
    own_p99_ns: Nanos,
    received_fps: f64,
    sent: u64,
    received: u64,
    early: u64,
    emulator_drops: u64,
    stalls: u64,
    stalled_ns: Nanos,
    cpu_percent: f64,
}

pub(crate) fn accuracy(options: &Options) -> Vec<Value> {
    say(
        options,
        &format!(
            "delay error in us, one link, between the two node ends: median of {} rounds (least to greatest). unexpl.: p99 of what neither the sender's system call nor the relay's thread being kept from running explains; own: p99 of release minus due time by the relay's own clock, without the latter",
            options.rounds
        ),
    );
    say(
        options,
        &format!(
            "{:>5} {:>7} {:>5} {:>6} {:>6} {:>5} | {:>7} {:>21} {:>24} {:>8} {:>8} {:>5} {:>5} | {:>24} {:>6} {:>6} {:>9} {:>5}",
            "",
            "threads",
            "load",
            "ms",
            "fps",
            "bytes",
            "got fps",
            "p50",
            "p99",
            "p99.9",
            "max",
            "lost",
            "early",
            "unexpl.",
            "own",
            "stalls",
            "stalls ms",
            "cpu %"
        ),
    );
    let bare = Row::new(options, 1, None, false);
    // If several threads are requested, each round also measures a relay with one thread, alternately.
    let threads = match options.threads {
        1 => vec![1],
        threads => vec![1, threads],
    };
    let relay = |&threads: &usize| {
        let options = Options {
            threads,
            ..options.clone()
        };
        Row::new(&options, 1, Some(MS), false)
    };
    let relays: Vec<Row> = threads.iter().map(relay).collect();
    let bare_sockets = bare.sockets();
    let sockets: Vec<_> = relays.iter().map(Row::sockets).collect();
    let handles: Option<Vec<&RelayHandle>> = relays.iter().map(Row::handle).collect();
    let Some(handles) = handles else {
        return Vec::new();
    };
    let over_relays = |delay_ns| (0..threads.len()).map(move |nth| Way::Relay(nth, delay_ns));
    let ways = || std::iter::once(Way::Veth).chain(DELAYS_NS.into_iter().flat_map(over_relays));
    let cases: Vec<Case> = RATES_FPS
        .iter()
        .flat_map(|&fps| LENGTHS.map(|length| (fps, length)))
        .flat_map(|(fps, length)| ways().map(move |way| Case { fps, length, way }))
        .collect();
    let mut results = Vec::new();
    for load in ["idle", "busy"] {
        if options.load.as_deref().is_some_and(|asked| asked != load) {
            continue;
        }
        let _busy = (load == "busy").then(Busy::begin);
        let measured = in_rounds(options.rounds, &cases, |case| match case.way {
            Way::Veth => over_veth(options, *case, &bare_sockets),
            Way::Relay(nth, delay_ns) => {
                over_relay(options, *case, delay_ns, &sockets[nth], handles[nth])
            }
        });
        let mut aims = vec![[0; 3]; threads.len()];
        for (case, rounds) in cases.iter().zip(&measured) {
            let errors = Errors::of(&rounds.iter().map(|r| r.errors).collect::<Vec<_>>());
            if let Way::Relay(nth, _) = case.way
                && case.fps <= AIM_FPS
            {
                let [aimed, p50s, p99s] = &mut aims[nth];
                *aimed += 1;
                *p50s += u32::from(errors.p50_ns.median < AIM_P50_NS);
                *p99s += u32::from(errors.p99_ns.median < AIM_P99_NS);
            }
            results.push(row(options, load, *case, &threads, (&errors, rounds)));
        }
        for (threads, [aimed, p50s, p99s]) in threads.iter().zip(aims) {
            let text = format!(
                "{load}, threads: {threads}, up to {AIM_FPS} frames/s: p50 below {} us in {p50s} of {aimed} cases, p99 below {} us in {p99s}",
                AIM_P50_NS / 1e3,
                AIM_P99_NS / 1e3,
            );
            say(options, &text);
        }
    }
    results
}

fn over_veth(options: &Options, case: Case, sockets: &(UdpSocket, UdpSocket)) -> Round {
    let seconds = options.seconds_or(SECONDS);
    let f = flow(sockets, case.length, case.fps, seconds, 0);
    round(&f, witness::unexplained(&f.passages, 0, &[]))
}

fn over_relay(
    options: &Options,
    case: Case,
    delay_ns: Nanos,
    sockets: &(UdpSocket, UdpSocket),
    handle: &RelayHandle,
) -> Round {
    let changes = link(0, 1, delay_ns);
    handle.apply(EdgeUpdate { changes }, None).unwrap();
    handle.clear_lateness().unwrap();
    let before = handle.relay_stats().unwrap();
    let seconds = options.seconds_or(SECONDS);
    let f = flow(sockets, case.length, case.fps, seconds, delay_ns);
    let after = handle.relay_stats().unwrap();
    let stalls = witness::stalls(handle);
    Round {
        own_p99_ns: after.own_lateness.p99_ns,
        emulator_drops: after.emulator_drops.total() - before.emulator_drops.total(),
        stalls: after.stalls.count,
        stalled_ns: after.stalls.total_ns,
        cpu_percent: relay_cpu(&before, &after),
        ..round(&f, witness::unexplained(&f.passages, delay_ns, &stalls))
    }
}

fn round(f: &Flow, unexplained: Quantiles) -> Round {
    Round {
        errors: f.errors.quantiles(),
        unexplained,
        own_p99_ns: 0,
        received_fps: f.pps(),
        sent: f.sent,
        received: f.received,
        early: f.early,
        emulator_drops: 0,
        stalls: 0,
        stalled_ns: 0,
        cpu_percent: 0.0,
    }
}

fn row(
    options: &Options,
    load: &str,
    case: Case,
    threads: &[usize],
    (errors, rounds): (&Errors, &[Round]),
) -> Value {
    let (path, threads, delay_ns) = match case.way {
        Way::Veth => ("veth", 0, None),
        Way::Relay(nth, delay_ns) => ("relay", threads[nth], Some(delay_ns)),
    };
    let sum = |of: fn(&Round) -> u64| rounds.iter().map(of).sum::<u64>();
    let spread = |of: fn(&Round) -> f64| Spread::of(rounds.iter().map(of));
    let unexplained = spread(|r| r.unexplained.p99_ns as f64);
    let own = spread(|r| r.own_p99_ns as f64);
    let (got, cpu) = (spread(|r| r.received_fps), spread(|r| r.cpu_percent));
    let (lost, early) = (sum(|r| r.sent - r.received), sum(|r| r.early));
    let (stalls, stalled_ns) = (sum(|r| r.stalls), sum(|r| r.stalled_ns));
    say(
        options,
        &format!(
            "{path:>5} {threads:>7} {load:>5} {:>6.1} {:>6} {:>5} | {:>7.0} {:>21} {:>24} {:>8.1} {:>8.1} {lost:>5} {early:>5} | {:>24} {:>6.1} {stalls:>6} {:>9.1} {:>5.1}",
            delay_ns.unwrap_or(0) as f64 / 1e6,
            case.fps,
            case.length,
            got.median,
            errors.p50_ns.in_us(),
            errors.p99_ns.in_us(),
            errors.p999_ns.median / 1e3,
            errors.max_ns.median / 1e3,
            unexplained.in_us(),
            own.median / 1e3,
            stalled_ns as f64 / 1e6,
            cpu.median,
        ),
    );
    json!({
        "what": "delay_error", "path": path, "threads": threads, "load": load, "rate_fps": case.fps,
        "length_bytes": case.length, "delay_ns": delay_ns, "rounds": rounds.len(),
        "received_fps": got, "sent": sum(|r| r.sent), "lost": lost, "early": early,
        "unintended": sum(|r| r.emulator_drops), "error": errors, "unexplained_p99_ns": unexplained,
        "own_lateness_p99_ns": own, "stalls": stalls, "stalled_ns": stalled_ns,
        "relay_cpu_percent": cpu,
    })
}
