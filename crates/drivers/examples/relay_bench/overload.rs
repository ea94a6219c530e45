//! Frames delivered over many hops when more is sent than the host can serve.

use std::thread;
use std::time::Duration;

use constel_drivers::Links;
use constel_link::PortId;
use serde_json::{Value, json};

use crate::common::*;

/// Length of a frame of iperf3's UDP stream, Ethernet header included.
const BYTES: usize = 1442;

pub(crate) fn overload(options: &Options) -> Vec<Value> {
    say(
        options,
        "\nUDP of 1,442 bytes over a row of links, offered and arrived; how late frames left a hop; where they were lost",
    );
    let mut results = Vec::new();
    for hops in options.hops.map_or(vec![5, 20], |hops| vec![hops]) {
        for delay_ns in [0, MS] {
            let path = Path::Relay {
                delay_ns,
                gso: false,
                gro: true,
            };
            let row = match Row::of(options, hops, path) {
                Ok(row) => row,
                Err(why) => {
                    say(options, &format!("{hops:>3} hops: not measured: {why}"));
                    continue;
                }
            };
            let sockets = row.sockets();
            let handle = row.handle().expect("a row of the relay's");
            let let_go = |hop: usize| {
                let (near, far) = (2 * hop as u32, 2 * hop as u32 + 1);
                let edge = handle.edge_stats(PortId(near), PortId(far)).unwrap();
                edge.map_or(0, |edge| edge.counters.dropped_overload)
            };
            let let_go_later = || (1..hops).map(let_go).sum::<u64>();
            for fps in [2_000u64, 5_000, 10_000, 20_000, 40_000, 80_000, 0] {
                let before = handle.relay_stats().unwrap();
                let later_before = let_go_later();
                handle.clear_lateness().unwrap();
                let f = flow(&sockets, BYTES, fps, options.seconds_or(SHORT_S), 50 * MS);
                // Frames still in flight must not count for the next round.
                while handle.relay_stats().unwrap().totals.held > 0 {
                    thread::sleep(Duration::from_millis(20));
                }
                let after = handle.relay_stats().unwrap();
                let lost = |of: fn(&constel_drivers::relay::EmulatorDrops) -> u64| {
                    of(&after.emulator_drops) - of(&before.emulator_drops)
                };
                let later = let_go_later() - later_before;
                let (share, overload) = (lost(|u| u.share), lost(|u| u.overload));
                let others =
                    after.emulator_drops.total() - before.emulator_drops.total() - share - overload;
                let offered = f.sent as f64 / f.took.as_secs_f64();
                let late = after.lateness;
                say(
                    options,
                    &format!(
                        "{hops:>3} hops {:>2} ms: {offered:>8.0} frames/s offered, {:>8.0} arrived ({:>6.1} Mbit/s) | late p50 {:>8.1} p99 {:>9.1} max {:>9.1} us | lost by share {share}, overload {overload} (behind the first hop {later}), else {others} | relay {:.0} %",
                        delay_ns / MS,
                        f.pps(),
                        f.pps() * BYTES as f64 * 8e-6,
                        late.p50_ns as f64 / 1e3,
                        late.p99_ns as f64 / 1e3,
                        late.max_ns as f64 / 1e3,
                        relay_cpu(&before, &after),
                    ),
                );
                results.push(json!({
                    "what": "overload", "hops": hops, "delay_ns": delay_ns, "length_bytes": BYTES,
                    "offered_fps": offered, "arrived_fps": f.pps(), "lateness": late,
                    "lost_share": share, "lost_overload": overload, "lost_behind_first_hop": later, "lost_else": others,
                    "threads": options.threads,
                }));
            }
        }
    }
    results
}
