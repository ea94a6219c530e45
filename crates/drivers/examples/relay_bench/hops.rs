//! Many hops: satellites with stacks, with one or two relay threads, compared with satellites that only forward, and
//! bare veth pairs, alternately in one run. Measured are delivered frames, loss of a steady 300 Mbit/s, throughput of
//! one TCP stream, and the cost of a hop.

use std::time::Duration;

use serde_json::{Value, json};

use crate::common::*;
use crate::spread::{Spread, in_rounds};
use crate::tcp::Stream;

/// Length of one measurement, seconds.
const USUAL_S: f64 = 1.0;
/// Frames of 1,400 bytes in a second that make 300 Mbit/s.
const STEADY_FPS: u64 = 300_000_000 / 8 / 1400;
/// A path of many hops is long: round trip.
const ROUND_TRIP_MS: u64 = 40;

/// The path whose links have a delay.
type Of = fn(u64) -> Path;

/// Kind of nodes on the path.
#[derive(Clone, Copy)]
struct Case {
    hops: usize,
    name: &'static str,
    threads: usize,
    path: Of,
}

/// Results of a round.
struct Round {
    full_fps: f64,
    small_fps: f64,
    steady_lost: f64,
    steady_cpu_ns: f64,
    steady_late_p99_ns: Option<u64>,
    tcp_bps: f64,
    tcp_late_p99_ns: Option<u64>,
}

const STACKS: Of = |delay_ns| Path::Relay {
    delay_ns,
    gso: false,
    gro: true,
};

const ARMS: [(&str, usize, Of); 4] = [
    ("veth", 1, |_| Path::Veth { gso: false }),
    ("stacks", 1, STACKS),
    ("stacks, 2 threads", 2, STACKS),
    ("forward", 1, |delay_ns| Path::Forward {
        delay_ns,
        gso: false,
        gro: true,
    }),
];

pub(crate) fn hops(options: &Options) -> Vec<Value> {
    say(
        options,
        &format!(
            "\nHops with stacks and hops that only forward, {} rounds in turn, medians: UDP of 64 and 1,400 bytes at full speed; at 300 Mbit/s; \
             TCP (cubic) over {ROUND_TRIP_MS} ms",
            options.rounds
        ),
    );
    say(
        options,
        &format!(
            "{:>5} {:>17} | {:>9} {:>9} | {:>9} {:>12} {:>12} | {:>10} {:>12}",
            "hops",
            "by",
            "of 64/s",
            "of 1400/s",
            "lost %",
            "CPU ns/frame",
            "late p99 us",
            "TCP Mbit/s",
            "late p99 us"
        ),
    );
    let counts = options.hops.map_or(vec![1, 5, 20], |hops| vec![hops]);
    let cases: Vec<Case> = counts
        .into_iter()
        .flat_map(|hops| {
            ARMS.map(|(name, threads, path)| Case {
                hops,
                name,
                threads,
                path,
            })
        })
        .filter(|case| options.takes(case.name))
        .collect();
    let measured = in_rounds(options.rounds, &cases, |case| one(options, case));
    let rows = cases.iter().zip(&measured);
    rows.map(|(case, rounds)| row(options, case, rounds))
        .collect()
}

fn one(options: &Options, case: &Case) -> Round {
    let options = &Options {
        threads: case.threads,
        ..options.clone()
    };
    let seconds = options.seconds_or(USUAL_S);
    let row = Row::of(options, case.hops, (case.path)(0)).unwrap();
    let sockets = row.sockets();
    let small = flow(&sockets, 64, 0, seconds, MS);
    std::thread::sleep(Duration::from_millis(200));
    let full = flow(&sockets, 1400, 0, seconds, MS);
    let clear = |row: &Row| {
        if let Some(handle) = row.handle() {
            constel_drivers::Links::clear_lateness(handle).unwrap();
        }
    };
    let late = |row: &Row| Some(row.handle()?.lateness().unwrap().quantiles().p99_ns);
    std::thread::sleep(Duration::from_millis(200));
    clear(&row);
    let cpu = process_cpu_ns();
    let steady = flow(&sockets, 1400, STEADY_FPS, seconds, MS);
    let cpu = process_cpu_ns() - cpu;
    let steady_late_p99_ns = late(&row);
    drop((sockets, row));
    let delay_ns = ROUND_TRIP_MS * MS / 2 / case.hops as u64;
    let row = Row::of(options, case.hops, (case.path)(delay_ns)).unwrap();
    let (near, far, _, to) = row.ends();
    let stream = Stream::open(near, far, to, 9001, "cubic");
    clear(&row);
    let (tcp_bps, _) = stream.run(Duration::from_secs(1), seconds);
    Round {
        full_fps: full.pps(),
        small_fps: small.pps(),
        steady_lost: steady.loss(),
        steady_cpu_ns: cpu as f64 / steady.received.max(1) as f64,
        steady_late_p99_ns,
        tcp_bps,
        tcp_late_p99_ns: late(&row),
    }
}

fn row(options: &Options, case: &Case, rounds: &[Round]) -> Value {
    let spread = |of: fn(&Round) -> f64| Spread::of(rounds.iter().map(of));
    let late = |of: fn(&Round) -> Option<u64>| {
        let known: Vec<f64> = rounds.iter().filter_map(of).map(|ns| ns as f64).collect();
        (!known.is_empty()).then(|| Spread::of(known))
    };
    let full = spread(|r| r.full_fps);
    let small = spread(|r| r.small_fps);
    let lost = spread(|r| r.steady_lost);
    let cpu = spread(|r| r.steady_cpu_ns);
    let tcp = spread(|r| r.tcp_bps);
    let (steady_late, tcp_late) = (late(|r| r.steady_late_p99_ns), late(|r| r.tcp_late_p99_ns));
    let us = |late: Option<Spread>| late.map_or("-".into(), |s| format!("{:.0}", s.median / 1e3));
    say(
        options,
        &format!(
            "{:>5} {:>17} | {:>9.0} {:>9.0} | {:>9.3} {:>12.0} {:>12} | {:>10.0} {:>12}",
            case.hops,
            case.name,
            small.median,
            full.median,
            lost.median * 100.0,
            cpu.median,
            us(steady_late),
            tcp.median / 1e6,
            us(tcp_late)
        ),
    );
    json!({
        "what": "hops", "hops": case.hops, "by": case.name, "rounds": rounds.len(),
        "small_fps": small, "full_fps": full, "steady_bps": 300_000_000, "steady_loss_ratio": lost,
        "steady_cpu_ns_per_frame": cpu, "steady_late_p99_ns": steady_late,
        "tcp_bps": tcp, "tcp_round_trip_ms": ROUND_TRIP_MS, "tcp_late_p99_ns": tcp_late,
    })
}
