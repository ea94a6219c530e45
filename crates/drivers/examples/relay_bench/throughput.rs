//! Throughput over 1, 5 and 20 hops: UDP frames per second, TCP with two congestion controls, and the CPU time per
//! frame, compared with bare veth pairs and the kernel's own redirection.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::*;
use crate::tcp::Stream;

fn hops(options: &Options) -> Vec<usize> {
    options.hops.map_or(vec![1, 5, 20], |hops| vec![hops])
}

fn relay(delay_ns: u64, gso: bool) -> Path {
    Path::Relay {
        delay_ns,
        gso,
        gro: true,
    }
}

/// As [`relay`], but the relay forwards for the nodes in between.
fn forward(delay_ns: u64, gso: bool) -> Path {
    Path::Forward {
        delay_ns,
        gso,
        gro: true,
    }
}

/// As [`relay`], but without joining frames to super-frames.
fn one_by_one(delay_ns: u64) -> Path {
    Path::Relay {
        delay_ns,
        gso: false,
        gro: false,
    }
}

pub(crate) fn throughput(options: &Options) -> Vec<Value> {
    let mut results = udp(options);
    results.extend(tcp(options));
    results
}

fn udp(options: &Options) -> Vec<Value> {
    say(
        options,
        "\nUDP, as many as arrive from one sender (and most with < 0.1 % lost), MTU frames; by us: lost at the relay, what else is lost in the nodes",
    );
    say(
        options,
        &format!(
            "{:>14} {:>5} {:>6} | {:>10} {:>8} {:>7} {:>7} | {:>13} | {:>16} {:>8}",
            "",
            "hops",
            "bytes",
            "frames/s",
            "Gbit/s",
            "lost %",
            "by us",
            "lossless fps",
            "CPU ns per frame",
            "relay %"
        ),
    );
    let mut results = Vec::new();
    for hops in hops(options) {
        for (name, path) in [
            ("veth", Path::Veth { gso: false }),
            ("redirect", Path::Redirect { gso: false }),
            ("relay", relay(0, false)),
            ("forward", forward(0, false)),
        ] {
            if !options.takes(name) {
                continue;
            }
            let row = match Row::of(options, hops, path) {
                Ok(row) => row,
                Err(why) => {
                    say(
                        options,
                        &format!("{name:>14} {hops:>5}: not measured: {why}"),
                    );
                    continue;
                }
            };
            let sockets = row.sockets();
            for length in [64, 1400] {
                let before = row.handle().map(|h| h.relay_stats().unwrap());
                let cpu = process_cpu_ns();
                let f = flow(&sockets, length, 0, options.seconds_or(SHORT_S), MS);
                let cpu = (process_cpu_ns() - cpu) / f.received.max(1);
                let after = row.handle().map(|h| h.relay_stats().unwrap());
                let relay = before.zip(after).map_or(0.0, |(b, a)| relay_cpu(&b, &a));
                let by_us = before.zip(after).map_or(0, |(b, a)| {
                    let lost = a.emulator_drops.total() - b.emulator_drops.total();
                    lost.min(f.sent - f.received)
                });
                let by_us = by_us as f64 / f.sent.max(1) as f64;
                let mut lossless = 0.0;
                for step in 1..=16 {
                    let rate = step * 25_000;
                    let f = flow(&sockets, length, rate, 0.3, MS);
                    let offered = f.sent as f64 / f.took.as_secs_f64();
                    if f.loss() > 0.001 || offered < 0.8 * rate as f64 {
                        break;
                    }
                    lossless = f.pps();
                }
                let gbps = f.pps() * length as f64 * 8.0 / 1e9;
                say(
                    options,
                    &format!(
                        "{name:>14} {hops:>5} {length:>6} | {:>10.0} {gbps:>8.2} {:>7.1} {:>7.1} | {lossless:>13.0} | {cpu:>16} {relay:>8.1}",
                        f.pps(),
                        f.loss() * 100.0,
                        by_us * 100.0,
                    ),
                );
                results.push(json!({
                    "what": "udp", "path": name, "hops": hops, "length_bytes": length,
                    "delivered_fps": f.pps(), "gbps": gbps, "loss_ratio": f.loss(),
                    "lost_by_us_ratio": by_us,
                    "lossless_fps": lossless, "cpu_ns_per_frame": cpu,
                    "relay_cpu_percent": relay, "unintended": after.map(|a| a.emulator_drops),
                }));
            }
        }
    }
    results
}

fn tcp(options: &Options) -> Vec<Value> {
    say(
        options,
        "\nTCP goodput, one stream, Gbit/s (segments sent again; over all links, 1000 frames/s of the relay, and of these joined, percent; processors busy)",
    );
    let mut results = Vec::new();
    for hops in hops(options) {
        let share = 5 * MS / hops as u64;
        for (name, path) in [
            ("veth, super-frames", Path::Veth { gso: true }),
            ("redirect, super-frames", Path::Redirect { gso: true }),
            ("veth, MTU frames", Path::Veth { gso: false }),
            ("redirect, MTU frames", Path::Redirect { gso: false }),
            ("relay, super-frames", relay(0, true)),
            ("the same, 10 ms round trip", relay(share, true)),
            ("relay, MTU frames", relay(0, false)),
            ("the same, 10 ms round trip", relay(share, false)),
            ("forward, super-frames", forward(0, true)),
            ("the same, 10 ms round trip", forward(share, true)),
            ("forward, MTU frames", forward(0, false)),
            ("the same, 10 ms round trip", forward(share, false)),
            ("relay, MTU frames, one by one", one_by_one(0)),
            ("the same, 10 ms round trip", one_by_one(share)),
        ] {
            if !options.takes(name) {
                continue;
            }
            let row = match Row::of(options, hops, path) {
                Ok(row) => row,
                Err(why) => {
                    say(
                        options,
                        &format!("{name:>29} {hops:>2} hops: not measured: {why}"),
                    );
                    continue;
                }
            };
            let mut text = format!("{name:>29} {hops:>2} hops:");
            for cc in ["cubic", "bbr"] {
                let (near, far, _, to) = row.ends();
                let stream = Stream::open(near, far, to, 9001, cc);
                let before = row.handle().map(|h| h.relay_stats().unwrap());
                let (start, cpu) = (Instant::now(), process_cpu_ns());
                let (bps, again) = stream.run(Duration::from_secs(1), options.seconds_or(SHORT_S));
                let took = start.elapsed().as_secs_f64();
                let busy = (process_cpu_ns() - cpu) as f64 / 1e9 / took;
                let after = row.handle().map(|h| h.relay_stats().unwrap());
                let frames = before.zip(after).map(|(b, a)| {
                    let all = a.totals.counters.delivered - b.totals.counters.delivered;
                    (all as f64 / took, (a.joined - b.joined) as f64 / all as f64)
                });
                let (fps, joined) = frames.unwrap_or_default();
                text.push_str(&format!(
                    "  {cc} {:>6.2} ({again}; {:.0}, {:.0} %; {busy:.2})",
                    bps / 1e9,
                    fps / 1e3,
                    joined * 100.0
                ));
                results.push(json!({
                    "what": "tcp", "path": name, "hops": hops, "congestion_control": cc,
                    "gbps": bps / 1e9, "retransmitted": again, "relay_fps": fps,
                    "joined_ratio": joined, "processors_busy": busy,
                    "unintended": row.handle().map(|h| h.relay_stats().unwrap().emulator_drops),
                }));
                thread::sleep(Duration::from_millis(100));
            }
            say(options, &text);
        }
    }
    results
}
