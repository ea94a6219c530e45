//! Throughput of a rate-limited edge over windows of one second or more, and its burstiness.
//!
//! A window is from one frame to another that arrives a second later or more, so that every frame is counted
//! completely. The expected throughput is the edge's rate, or the sender's load between these two frames if that is
//! less.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_drivers::Links;
use constel_drivers::relay::RelayHandle;
use constel_link::{Delay, EdgeUpdate, Impairment, PortId, QueueLimit};
use serde_json::{Value, json};

use crate::common::*;
use crate::spread::{Spread, in_rounds};
use crate::support::{go_before_normal_threads, real_ns, set, set_option};
use crate::witness;

/// bit/s, and the length of the frames sent (Ethernet header included).
const RATES: [(u64, usize); 6] = [
    (64_000, 100),
    (1_000_000, 1400),
    (10_000_000, 1400),
    (100_000_000, 1400),
    (1_000_000_000, 1400),
    (2_000_000_000, 1514),
];
const OFFERED: [f64; 4] = [0.5, 0.99, 1.01, 2.0];
/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 42;
/// Target: maximum error of each window.
const AIM_RATIO: f64 = 0.005;
const WINDOW_NS: u64 = 1_000_000_000;
/// Sending time, and its beginning that is not counted: the queue fills first if the load exceeds the rate.
const SECONDS: f64 = 2.5;
const WARM_UP_NS: u64 = 300_000_000;
/// Time after a stall until all frames that it held up have left.
const SETTLE_NS: u64 = 20 * MS;
/// Wake-up delay from which a sender counts as stalled; the relay's record uses the same limit.
const STALL: Duration = Duration::from_micros(200);

/// A rate, the length of the frames, and the load relative to the rate.
#[derive(Clone, Copy)]
struct Case {
    rate_bps: u64,
    length: usize,
    offered: f64,
}

/// One round of a case.
struct Round {
    offered_bps: f64,
    out_bps: f64,
    /// Error over all delivered frames, relative to the lesser of rate and load.
    mean_error: f64,
    /// Error of the worst window.
    worst: f64,
    /// Error of the worst window in which neither side stalled, and the number of such windows.
    steady: f64,
    windows: u64,
    burst_bytes: usize,
    emulator_drops: u64,
    /// Frames on the edge that the bench did not send.
    others: u64,
    stalled_ns: u64,
}

pub(crate) fn rate(options: &Options) -> Vec<Value> {
    say(
        options,
        &format!(
            "\nrate of an edge (or what is offered, if less) over windows of 1 s, error in percent: median of {} rounds (least to greatest); steady: worst of all windows that neither a stall of the relay's thread nor one of the sender lies in, and how many those are; others: frames of the nodes' own",
            options.rounds
        ),
    );
    say(
        options,
        &format!(
            "{:>10} {:>7} {:>5} | {:>12} {:>25} {:>22} {:>7} {:>7} | {:>13} {:>8} | {:>7} {:>6} {:>9}",
            "bit/s",
            "offered",
            "bytes",
            "out bit/s",
            "mean %",
            "worst %",
            "steady %",
            "of",
            "bytes in 1 ms",
            "at rate",
            "lost by us",
            "others",
            "stalls ms"
        ),
    );
    let relay = Row::new(options, 1, Some(MS), false);
    let sockets = relay.sockets();
    let Some(handle) = relay.handle() else {
        return Vec::new();
    };
    let cases: Vec<Case> = RATES
        .iter()
        .flat_map(|&(rate_bps, length)| {
            OFFERED.map(|offered| Case {
                rate_bps,
                length,
                offered,
            })
        })
        .collect();
    let measured = in_rounds(options.rounds, &cases, |case| {
        one(options, *case, &sockets, handle)
    });
    let rows = cases.iter().zip(&measured);
    let results: Vec<Value> = rows.map(|(case, r)| row(options, *case, r)).collect();
    let worst = |rounds: &Vec<Round>| Spread::of(rounds.iter().map(|r| r.worst)).median;
    let held = measured.iter().filter(|r| worst(r) <= AIM_RATIO).count();
    let text = format!(
        "within {} % in {held} of {} cases",
        AIM_RATIO * 100.0,
        cases.len()
    );
    say(options, &text);
    results
}

fn one(
    options: &Options,
    case: Case,
    sockets: &(std::net::UdpSocket, std::net::UdpSocket),
    handle: &RelayHandle,
) -> Round {
    let Case {
        rate_bps,
        length,
        offered,
    } = case;
    let impairment = Impairment {
        delay: Delay::constant(MS),
        rate_bps: std::num::NonZeroU64::new(rate_bps),
        // 20 ms at the rate, or two frames.
        queue: QueueLimit {
            bytes: (rate_bps / 400).max(2 * length as u64),
        },
        ..Impairment::delay_only(0)
    };
    let changes = vec![set(0, 1, impairment)];
    handle.apply(EdgeUpdate { changes }, None).unwrap();
    handle.clear_lateness().unwrap();
    let on_edge = || {
        let edge = handle.edge_stats(PortId(0), PortId(1)).unwrap();
        edge.map_or(0, |edge| edge.counters.offered)
    };
    let (before, edge_before) = (handle.relay_stats().unwrap(), on_edge());
    let seconds = options.seconds_or(SECONDS);
    let flow = send(sockets, length, offered * rate_bps as f64, seconds);
    let (after, edge_after) = (handle.relay_stats().unwrap(), on_edge());
    let emulator_drops = after.emulator_drops.total() - before.emulator_drops.total();
    let mut stalls = flow.stalls;
    stalls.extend(witness::stalls(handle));
    let bits = |frames: u64| frames as f64 * length as f64 * 8.0;
    let all = flow.arrivals;
    let start = all.partition_point(|a| a.at < all[0].at + WARM_UP_NS);
    let arrivals = &all[start..];
    let rate = rate_bps as f64;
    // Delivered and expected bytes between two frames.
    let between = |from: usize, to: usize| {
        let (a, b) = (&arrivals[from], &arrivals[to]);
        let per_s = |frames, ns: u64| bits(frames) * 1e9 / ns.max(1) as f64;
        let out = per_s((to - from) as u64, b.at - a.at);
        let offered = per_s(b.number - a.number, b.sent.saturating_sub(a.sent));
        (out, offered.min(rate))
    };
    let (out_bps, expected) = between(0, arrivals.len() - 1);
    let (mut worst, mut steady, mut windows) = (0.0f64, 0.0f64, 0);
    let (mut burst, mut far, mut near) = (0, 0, 0);
    for (i, from) in arrivals.iter().enumerate() {
        while far < arrivals.len() && arrivals[far].at - from.at < WINDOW_NS {
            far += 1;
        }
        if far < arrivals.len() {
            let (out, expected) = between(i, far);
            let error = (out / expected - 1.0).abs();
            worst = worst.max(error);
            let (from, to) = (from.at.saturating_sub(MS), arrivals[far].at);
            let apart = |s: &Range<u64>| s.end + SETTLE_NS <= from || s.start >= to;
            if stalls.iter().all(apart) {
                steady = steady.max(error);
                windows += 1;
            }
        }
        while near < arrivals.len() && arrivals[near].at - from.at < MS {
            near += 1;
        }
        burst = burst.max((near - i) * length);
    }
    Round {
        offered_bps: flow.offered_bps,
        out_bps,
        mean_error: out_bps / expected - 1.0,
        worst,
        steady,
        windows,
        burst_bytes: burst,
        emulator_drops,
        others: (edge_after - edge_before)
            .saturating_sub(flow.sent - emulator_drops.min(flow.sent)),
        stalled_ns: after.stalls.total_ns,
    }
}

fn row(options: &Options, case: Case, rounds: &[Round]) -> Value {
    let Case {
        rate_bps,
        length,
        offered,
    } = case;
    let spread = |of: fn(&Round) -> f64| Spread::of(rounds.iter().map(of));
    let sum = |of: fn(&Round) -> u64| rounds.iter().map(of).sum::<u64>();
    let (out, mean, worst) = (
        spread(|r| r.out_bps),
        spread(|r| r.mean_error),
        spread(|r| r.worst),
    );
    let steady = rounds.iter().map(|r| r.steady).fold(0.0, f64::max);
    let burst = spread(|r| r.burst_bytes as f64);
    let (windows, emulator_drops, others, stalled_ns) = (
        sum(|r| r.windows),
        sum(|r| r.emulator_drops),
        sum(|r| r.others),
        sum(|r| r.stalled_ns),
    );
    say(
        options,
        &format!(
            "{rate_bps:>10} {offered:>6}x {length:>5} | {:>12.0} {:>25} {:>22} {:>8.3} {windows:>7} | {:>13.0} {:>8.0} | {emulator_drops:>10} {others:>6} {:>9.1}",
            out.median,
            mean.text(100.0, 3),
            worst.text(100.0, 3),
            steady * 100.0,
            burst.median,
            rate_bps as f64 / 8000.0,
            stalled_ns as f64 / 1e6,
        ),
    );
    json!({
        "what": "rate", "rate_bps": rate_bps, "offered_ratio": offered, "length_bytes": length,
        "rounds": rounds.len(), "offered_bps": spread(|r| r.offered_bps), "out_bps": out,
        "mean_error_ratio": mean, "worst_window_error_ratio": worst,
        "worst_steady_window_error_ratio": steady, "steady_windows": windows,
        "burst_bytes_per_ms": burst, "unintended": emulator_drops, "others": others,
        "stalled_ns": stalled_ns,
    })
}

/// Makes the kernel cut up super-frames when they are sent.
fn in_segments_of(sender: &std::net::UdpSocket, bytes: usize) {
    set_option(sender, libc::SOL_UDP, libc::UDP_SEGMENT, bytes as i32);
}

/// A frame that came out, times by `CLOCK_REALTIME`.
struct Arrival {
    /// Number of frames sent before.
    number: u64,
    /// End of the system call that sent it.
    sent: u64,
    /// The kernel's stamp at the far end.
    at: u64,
}

struct Sent {
    offered_bps: f64,
    sent: u64,
    arrivals: Vec<Arrival>,
    /// Periods in which the sender was stalled.
    stalls: Vec<Range<u64>>,
}

/// Sends evenly for `seconds`.
fn send(
    (sender, receiver): &(std::net::UdpSocket, std::net::UdpSocket),
    length: usize,
    bps: f64,
    seconds: f64,
) -> Sent {
    let gap = Duration::from_secs_f64(length as f64 * 8.0 / bps);
    // Several at a time if they are closer together than system calls can be.
    let frames = if gap < Duration::from_micros(20) {
        8
    } else {
        1
    };
    let payload = length - HEADERS;
    let sending = AtomicBool::new(true);
    thread::scope(|scope| {
        let send = scope.spawn(|| {
            go_before_normal_threads();
            in_segments_of(sender, payload);
            let mut buffer = vec![0; payload * frames];
            let gap = gap * frames as u32;
            let start = Instant::now();
            let (mut turns, mut sent) = (0u32, 0u64);
            let (mut stalls, mut calls) = (Vec::new(), Vec::new());
            let mut wanted = start;
            while start.elapsed().as_secs_f64() < seconds {
                let due = start + gap * turns;
                let now = Instant::now();
                let late = now.saturating_duration_since(wanted);
                if late > STALL {
                    let now = real_ns();
                    stalls.push(now - late.as_nanos() as u64..now);
                }
                wanted = now;
                if due > now {
                    // Several at a time if they are closer together than a sleep takes.
                    let nap = (due - now).max(Duration::from_micros(100));
                    wanted += nap;
                    thread::sleep(nap);
                    continue;
                }
                turns += 1;
                for (n, frame) in (sent..).zip(buffer.chunks_exact_mut(payload)) {
                    frame[..8].copy_from_slice(&n.to_be_bytes());
                }
                if sender.send(&buffer).is_ok() {
                    sent += frames as u64;
                    calls.push(real_ns());
                }
            }
            let took = start.elapsed();
            thread::sleep(Duration::from_millis(200));
            sending.store(false, Ordering::Relaxed);
            let offered_bps = sent as f64 * length as f64 * 8.0 / took.as_secs_f64();
            (offered_bps, sent, calls, stalls)
        });
        let receive = scope.spawn(|| {
            // Otherwise two threads of higher priority would occupy both processors.
            go_before_normal_threads();
            let mut stamps = Vec::new();
            many_until(&sending, receiver, |[number, _], at| {
                stamps.push((number, at));
            });
            stamps
        });
        let (offered_bps, sent, calls, stalls) = send.join().unwrap();
        let arrival = |(number, at)| {
            let sent = *calls.get(number as usize / frames)?;
            Some(Arrival { number, sent, at })
        };
        Sent {
            offered_bps,
            sent,
            arrivals: receive
                .join()
                .unwrap()
                .into_iter()
                .filter_map(arrival)
                .collect(),
            stalls,
        }
    })
}
