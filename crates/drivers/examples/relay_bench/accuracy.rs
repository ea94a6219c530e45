//! Delay error between the two node ends: kernel receive stamp minus the time just before `send`,
//! minus the configured delay. It includes the sender's system call and its place in a burst; the
//! bare veth pair next to it shows how much that is.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use constel_drivers::relay::RelayStats;
use constel_link::{EdgeUpdate, Nanos};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::link;
use crate::witness;

const DELAYS_NS: [Nanos; 4] = [MS / 2, 5 * MS, 50 * MS, 270 * MS];
const RATES_FPS: [u64; 4] = [1_000, 10_000, 50_000, 100_000];
const LENGTHS: [usize; 2] = [64, 1400];

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

pub(crate) fn accuracy(options: &Options) -> Vec<Value> {
    say(
        options,
        "delay error in us, one link, between the two node ends (unexpl.: p99 of what neither the sender's system call nor the relay's thread being kept from running explains; late: release minus due time, by the relay's own clock)",
    );
    say(
        options,
        &format!(
            "{:>5} {:>6} {:>7} {:>7} {:>5} | {:>8} {:>7} {:>7} {:>7} {:>8} {:>9} {:>7} {:>5} | {:>8} {:>8} {:>6} {:>6} {:>5}",
            "",
            "load",
            "ms",
            "fps",
            "bytes",
            "got fps",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "loss %",
            "early",
            "unexpl.",
            "late p99",
            "own",
            "stalls",
            "cpu %"
        ),
    );
    let bare = Row::new(options, 1, None, false);
    let relay = Row::new(options, 1, Some(MS), false);
    let (bare_sockets, sockets) = (bare.sockets(), relay.sockets());
    let mut results = Vec::new();
    for busy in [false, true] {
        let _busy = busy.then(Busy::begin);
        let load = if busy { "busy" } else { "idle" };
        for rate in RATES_FPS {
            for length in LENGTHS {
                let f = flow(&bare_sockets, length, rate, options.seconds_or(SHORT_S), 0);
                results.push(row(options, "veth", load, 0, (rate, length), &f, None));
                for delay_ns in DELAYS_NS {
                    let Some(handle) = relay.handle() else {
                        continue;
                    };
                    let changes = link(0, 1, delay_ns);
                    handle.apply(EdgeUpdate { changes }, None).unwrap();
                    handle.clear_lateness().unwrap();
                    let before = handle.snapshot().unwrap();
                    let f = flow(
                        &sockets,
                        length,
                        rate,
                        options.seconds_or(SHORT_S),
                        delay_ns,
                    );
                    let after = handle.snapshot().unwrap();
                    let book = Some((before, after, witness::stalls(handle)));
                    let case = (rate, length);
                    results.push(row(options, "relay", load, delay_ns, case, &f, book));
                }
            }
        }
    }
    results
}

/// What the relay counted before and after, and when its thread was kept from running.
type Book = (RelayStats, RelayStats, Vec<Range<u64>>);

fn row(
    options: &Options,
    name: &str,
    load: &str,
    delay_ns: Nanos,
    (rate, length): (u64, usize),
    f: &Flow,
    book: Option<Book>,
) -> Value {
    let q = f.errors.quantiles();
    let stalls = book.as_ref().map_or(&[][..], |(_, _, stalls)| stalls);
    let unexplained = witness::unexplained(&f.passages, delay_ns, stalls);
    let stats = book.as_ref().map(|(before, after, _)| (before, after));
    let (late, own, count, cpu, unintended) = match stats {
        Some((b, a)) => (
            us(a.lateness.p99_ns),
            us(a.own_lateness.p99_ns),
            a.stalls.count,
            relay_cpu(b, a),
            a.unintended.total() - b.unintended.total(),
        ),
        None => (String::new(), String::new(), 0, 0.0, 0),
    };
    say(
        options,
        &format!(
            "{name:>5} {load:>6} {:>7.1} {rate:>7} {length:>5} | {:>8.0} {:>7} {:>7} {:>7} {:>8} {:>9} {:>7.3} {:>5} | {:>8} {late:>8} {own:>6} {count:>6} {cpu:>5.1}",
            delay_ns as f64 / 1e6,
            f.pps(),
            us(q.p50_ns),
            us(q.p90_ns),
            us(q.p99_ns),
            us(q.p999_ns),
            us(q.max_ns),
            f.loss() * 100.0,
            f.early,
            us(unexplained.p99_ns),
        ),
    );
    json!({
        "what": "delay_error", "path": name, "load": load, "rate_fps": rate,
        "length_bytes": length, "delay_ns": delay_ns, "received_fps": f.pps(),
        "loss_ratio": f.loss(), "early": f.early, "earliest_ns": f.earliest_ns, "error": q,
        "unexplained": unexplained,
        "relay_cpu_percent": cpu, "unintended": unintended,
        "lateness": stats.map(|s| s.1.lateness), "own_lateness": stats.map(|s| s.1.own_lateness),
        "stalls": stats.map(|s| s.1.stalls),
    })
}
