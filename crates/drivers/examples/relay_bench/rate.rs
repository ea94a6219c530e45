//! What comes out of a rate-limited edge, over windows of one second or more, and how bursty.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_link::{Delay, EdgeUpdate, Impairment, QueueLimit};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::{real_ns, set, set_option};
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
const WINDOW_NS: u64 = 1_000_000_000;
/// What is sent, and what of it counts not yet: the queue is full after a moment when more is offered
/// than goes through.
const SECONDS: f64 = 2.5;
const WARM_UP_NS: u64 = 300_000_000;
/// So long after a stall what it held up has come out.
const SETTLE_NS: u64 = 20 * MS;
/// A sender that wakes up later than this has stood still, for the relay's book counts from there on, too.
const STALL: Duration = Duration::from_micros(200);

pub(crate) fn rate(options: &Options) -> Vec<Value> {
    say(
        options,
        "\nrate of an edge (or what is offered, if less) over windows of 1 s, error in percent (steady: of the windows that neither a stall of the relay's thread nor one of the sender lies in, and how many those are)",
    );
    say(
        options,
        &format!(
            "{:>12} {:>8} {:>6} | {:>12} {:>8} {:>8} {:>8} {:>6} | {:>14} {:>14} | {:>10} {:>8}",
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
            "stall ms"
        ),
    );
    let relay = Row::new(options, 1, Some(MS), false);
    let sockets = relay.sockets();
    let seconds = options.seconds_or(SECONDS);
    let mut results = Vec::new();
    for (rate_bps, length) in RATES {
        for offered in OFFERED {
            let Some(handle) = relay.handle() else {
                continue;
            };
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
            let before = handle.snapshot().unwrap().unintended.total();
            let (offered_bps, stamps, mut stalls) =
                arrivals(&sockets, length, offered * rate_bps as f64, seconds);
            let after = handle.snapshot().unwrap();
            let lost = after.unintended.total() - before;
            let stall_ms = after.stalls.longest_ns as f64 / 1e6;
            let expected = offered_bps.min(rate_bps as f64);
            stalls.extend(witness::stalls(handle));
            let start = stamps.partition_point(|&t| t < stamps[0] + WARM_UP_NS);
            let stamps = &stamps[start..];
            let bits = |frames: usize| frames as f64 * length as f64 * 8.0;
            let span = (stamps[stamps.len() - 1] - stamps[0]) as f64 / 1e9;
            let out = bits(stamps.len() - 1) / span;
            let mut worst = 0.0f64;
            let (mut steady, mut windows) = (0.0f64, 0u32);
            let mut burst = 0;
            let (mut far, mut near) = (0, 0);
            for (i, &from) in stamps.iter().enumerate() {
                while far < stamps.len() && stamps[far] - from < WINDOW_NS {
                    far += 1;
                }
                if far < stamps.len() {
                    let got = bits(far - i) * 1e9 / (stamps[far] - from) as f64;
                    let error = (got / expected - 1.0).abs();
                    worst = worst.max(error);
                    let (from, to) = (from.saturating_sub(MS), stamps[far]);
                    if stalls
                        .iter()
                        .all(|s| s.end + SETTLE_NS <= from || s.start >= to)
                    {
                        steady = steady.max(error);
                        windows += 1;
                    }
                }
                while near < stamps.len() && stamps[near] - from < MS {
                    near += 1;
                }
                burst = burst.max((near - i) * length);
            }
            let mean = (out / expected - 1.0) * 100.0;
            let at_rate = rate_bps as f64 / 8000.0;
            say(
                options,
                &format!(
                    "{rate_bps:>12} {offered:>7}x {length:>6} | {out:>12.0} {mean:>8.3} {:>8.3} {:>8.3} {windows:>6} | {burst:>14} {at_rate:>14.0} | {lost:>10} {stall_ms:>8.1}",
                    worst * 100.0,
                    steady * 100.0,
                ),
            );
            results.push(json!({
                "what": "rate", "rate_bps": rate_bps, "offered_ratio": offered,
                "offered_bps": offered_bps, "length_bytes": length, "out_bps": out,
                "mean_error_percent": mean, "worst_window_error_percent": worst * 100.0,
                "worst_steady_window_error_percent": steady * 100.0, "steady_windows": windows,
                "burst_bytes_per_ms": burst, "unintended": lost, "stalls": after.stalls,
            }));
        }
    }
    results
}

/// Have the kernel cut up what is sent at once.
fn in_segments_of(sender: &std::net::UdpSocket, bytes: usize) {
    set_option(sender, libc::SOL_UDP, libc::UDP_SEGMENT, bytes as i32);
}

/// Sends evenly for so long and gives what was really offered, the kernel's stamps of arrivals, and when the sender
/// stood still.
fn arrivals(
    (sender, receiver): &(std::net::UdpSocket, std::net::UdpSocket),
    length: usize,
    bps: f64,
    seconds: f64,
) -> (f64, Vec<u64>, Vec<Range<u64>>) {
    let gap = Duration::from_secs_f64(length as f64 * 8.0 / bps);
    let sending = AtomicBool::new(true);
    thread::scope(|scope| {
        let send = scope.spawn(|| {
            real_time();
            // Many at a time where they are closer together than system calls can be.
            let frames = if gap < Duration::from_micros(20) {
                8
            } else {
                1
            };
            in_segments_of(sender, length - HEADERS);
            let buffer = vec![0; (length - HEADERS) * frames];
            let gap = gap * frames as u32;
            let start = Instant::now();
            let (mut turns, mut sent) = (0u32, 0u32);
            let mut stalls = Vec::new();
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
                    // Several at a time where they are closer together than a nap takes.
                    let nap = (due - now).max(Duration::from_micros(100));
                    wanted += nap;
                    thread::sleep(nap);
                    continue;
                }
                turns += 1;
                sent += u32::from(sender.send(&buffer).is_ok()) * frames as u32;
            }
            let took = start.elapsed();
            thread::sleep(Duration::from_millis(200));
            sending.store(false, Ordering::Relaxed);
            let offered = f64::from(sent) * length as f64 * 8.0 / took.as_secs_f64();
            (offered, stalls)
        });
        let receive = scope.spawn(|| {
            // Else two threads that go before it would have both processors.
            real_time();
            let mut stamps = Vec::new();
            let mut many = Many::new();
            while sending.load(Ordering::Relaxed) {
                many.receive(receiver, |_, at| stamps.push(at));
            }
            stamps
        });
        let (offered, stalls) = send.join().unwrap();
        (offered, receive.join().unwrap(), stalls)
    })
}
