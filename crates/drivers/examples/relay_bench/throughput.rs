//! How much goes through 1, 5 and 20 hops: UDP frames per second, TCP by two congestion controls,
//! and the CPU time per frame; next to bare veth pairs and to the kernel's own redirection.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::*;
use crate::tcp::Stream;

fn hops(options: &Options) -> Vec<usize> {
    options.hops.map_or(vec![1, 5, 20], |hops| vec![hops])
}

fn relay(delay_ns: u64, gso: bool) -> Path {
    Path::Relay { delay_ns, gso }
}

pub(crate) fn throughput(options: &Options) -> Vec<Value> {
    let mut results = udp(options);
    results.extend(tcp(options));
    results
}

fn udp(options: &Options) -> Vec<Value> {
    say(
        options,
        "\nUDP, as many as arrive from one sender (and most with < 0.1 % lost), MTU frames",
    );
    say(
        options,
        &format!(
            "{:>14} {:>5} {:>6} | {:>10} {:>8} {:>7} | {:>13} | {:>16} {:>8}",
            "",
            "hops",
            "bytes",
            "frames/s",
            "Gbit/s",
            "lost %",
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
                let before = row.handle().map(|h| h.snapshot().unwrap());
                let cpu = process_cpu_ns();
                let f = flow(&sockets, length, 0, options.seconds_or(SHORT_S), MS);
                let cpu = (process_cpu_ns() - cpu) / f.received.max(1);
                let after = row.handle().map(|h| h.snapshot().unwrap());
                let relay = before.zip(after).map_or(0.0, |(b, a)| relay_cpu(&b, &a));
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
                        "{name:>14} {hops:>5} {length:>6} | {:>10.0} {gbps:>8.2} {:>7.1} | {lossless:>13.0} | {cpu:>16} {relay:>8.1}",
                        f.pps(),
                        f.loss() * 100.0
                    ),
                );
                results.push(json!({
                    "what": "udp", "path": name, "hops": hops, "length_bytes": length,
                    "delivered_fps": f.pps(), "gbps": gbps, "loss_ratio": f.loss(),
                    "lossless_fps": lossless, "cpu_ns_per_frame": cpu,
                    "relay_cpu_percent": relay, "unintended": after.map(|a| a.unintended),
                }));
            }
        }
    }
    results
}

fn tcp(options: &Options) -> Vec<Value> {
    say(
        options,
        "\nTCP goodput, one stream, Gbit/s (segments sent again)",
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
        ] {
            if !options.takes(name) {
                continue;
            }
            let row = match Row::of(options, hops, path) {
                Ok(row) => row,
                Err(why) => {
                    say(
                        options,
                        &format!("{name:>26} {hops:>2} hops: not measured: {why}"),
                    );
                    continue;
                }
            };
            let mut text = format!("{name:>26} {hops:>2} hops:");
            for cc in ["cubic", "bbr"] {
                let (near, far, _, to) = row.ends();
                let stream = Stream::open(near, far, to, 9001, cc);
                let (bps, again) = stream.run(Duration::from_secs(1), options.seconds_or(SHORT_S));
                text.push_str(&format!("  {cc} {:>6.2} ({again})", bps / 1e9));
                results.push(json!({
                    "what": "tcp", "path": name, "hops": hops, "congestion_control": cc,
                    "gbps": bps / 1e9, "retransmitted": again,
                    "unintended": row.handle().map(|h| h.snapshot().unwrap().unintended),
                }));
                thread::sleep(Duration::from_millis(100));
            }
            say(options, &text);
        }
    }
    results
}
