//! Cost of forwarding for a node: by its kernel's tables, and by the map that all nodes share
//! (`constel_drivers::forward`). Both are measured alternately, round after round, over bare veth pairs and over the
//! relay.

mod changes;

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};

use constel_drivers::forward::{Forwarder, NodeRoute};
use constel_host::netlink::{LinkChange, Mac};
use constel_link::{PortId, mac_of};
use serde_json::{Value, json};

use crate::common::*;
use crate::spread::Spread;
use crate::support::{ETH0, receive};

/// Length of one measurement, seconds.
const USUAL_S: f64 = 0.5;
/// Frames per second over all links together when processor time is measured: less than the capacity of every case.
const PACE_LINK_FPS: u64 = 100_000;

pub(crate) fn forwarding(options: &Options) -> Vec<Value> {
    let mut results = packets(options);
    results.extend(changes::changes(options));
    results
}

/// A row of nodes and its method of forwarding.
struct Arm {
    name: &'static str,
    sockets: (UdpSocket, UdpSocket),
    row: Row,
    _forwarder: Option<Forwarder>,
    rounds: Vec<Round>,
}

struct Round {
    full_fps: f64,
    full_loss: f64,
    paced_loss: f64,
    cpu_ns_per_frame: f64,
}

impl Arm {
    fn new(options: &Options, links: usize, path: Path, map: bool) -> Result<Arm, String> {
        let row = Row::of(options, links, path)?;
        let forwarder = map.then(|| share_a_map(&row, links));
        Ok(Arm {
            name: if map { "map" } else { "tables" },
            sockets: row.sockets(),
            row,
            _forwarder: forwarder,
            rounds: Vec::new(),
        })
    }

    fn measure(&mut self, options: &Options, links: usize, length: usize) {
        let seconds = options.seconds_or(USUAL_S);
        let full = flow(&self.sockets, length, 0, seconds, MS);
        // Frames still in flight would be counted for the next flow.
        while receive(&self.sockets.1, &mut [0; 64]).is_some() {}
        let cpu = process_cpu_ns() + softirq_cpu_ns();
        let pace = PACE_LINK_FPS / links as u64;
        let paced = flow(&self.sockets, length, pace, seconds, MS);
        let cpu = process_cpu_ns() + softirq_cpu_ns() - cpu;
        self.rounds.push(Round {
            full_fps: full.pps(),
            full_loss: full.loss(),
            paced_loss: paced.loss(),
            cpu_ns_per_frame: cpu as f64 / paced.received.max(1) as f64,
        });
    }

    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        Spread::of(self.rounds.iter().map(of)).median
    }
}

/// Loads the map in all nodes except the two at the ends, with the routes to these two.
fn share_a_map(row: &Row, links: usize) -> Forwarder {
    let (_, _, near, far) = row.ends();
    let goals = BTreeMap::from([(IpAddr::from(near), 0), (IpAddr::from(far), 1)]);
    let forwarder = Forwarder::new(row.nodes.len(), goals.len(), &goals).unwrap();
    for (number, node) in row.nodes.iter().enumerate() {
        let to_the_right = ETH0 + u32::from(number > 0);
        let left = (number > 0).then(|| (ETH0, 2 * number - 1, 2 * number - 2));
        let right = (number < links).then(|| (to_the_right, 2 * number, 2 * number + 1));
        let ports: Vec<(u32, usize, usize)> = left.into_iter().chain(right).collect();
        node.netlink(|batch| {
            for (ifindex, port, _) in &ports {
                let change = LinkChange {
                    ifindex: *ifindex,
                    mac: Some(Mac(mac_of(PortId(*port as u32)))),
                    group: Some(Forwarder::group(number as u32)),
                    ..LinkChange::default()
                };
                batch.change_link(&change).unwrap();
            }
        });
        let [(left, ..), (right, ..)] = ports[..] else {
            continue;
        };
        node.run(|| [left, right].map(|ifindex| forwarder.attach(ifindex).unwrap()));
        for (goal, (ifindex, port, far_port)) in ports.into_iter().enumerate() {
            let way = NodeRoute {
                ifindex,
                port: PortId(port as u32),
                far_port: PortId(far_port as u32),
            };
            forwarder.set(number as u32, goal as u32, Some(way));
        }
    }
    forwarder
}

fn packets(options: &Options) -> Vec<Value> {
    say(
        options,
        &format!(
            "\nForwarding by the nodes' tables and by one map, {} rounds in turn; medians. CPU at {PACE_LINK_FPS} frames \
             a second over all links",
            options.rounds
        ),
    );
    say(
        options,
        &format!(
            "{:>6} {:>5} {:>5} {:>7} | {:>9} {:>7} | {:>17} {:>9}",
            "", "nodes", "bytes", "by", "frames/s", "lost %", "CPU ns/frame/node", "saved"
        ),
    );
    let mut results = Vec::new();
    for nodes in options.hops.map_or(vec![1, 5, 20], |nodes| vec![nodes]) {
        for (name, path) in [
            ("veth", Path::Veth { gso: false }),
            (
                "relay",
                Path::Relay {
                    delay_ns: 0,
                    gso: false,
                    gro: true,
                },
            ),
        ] {
            if !options.takes(name) {
                continue;
            }
            let links = nodes + 1;
            for length in [64, 1400] {
                let arms = [false, true].map(|map| Arm::new(options, links, path, map).unwrap());
                results.push(compare(options, arms, (name, nodes, length)));
            }
        }
    }
    results
}

fn compare(options: &Options, mut arms: [Arm; 2], what: (&str, usize, usize)) -> Value {
    let (path, nodes, length) = what;
    for round in 0..options.rounds {
        // The order alternates between rounds.
        if round % 2 == 0 {
            arms.iter_mut()
                .for_each(|arm| arm.measure(options, nodes + 1, length));
        } else {
            arms.iter_mut()
                .rev()
                .for_each(|arm| arm.measure(options, nodes + 1, length));
        }
    }
    let saved: Vec<f64> = (0..options.rounds)
        .map(|round| {
            let [tables, map] = [0, 1].map(|arm: usize| arms[arm].rounds[round].cpu_ns_per_frame);
            (tables - map) / nodes as f64
        })
        .collect();
    let saved = Spread::of(saved);
    let rows: Vec<Value> = arms
        .iter()
        .map(|arm| {
            let fps = arm.median(|r| r.full_fps);
            let lost = arm.median(|r| r.full_loss) * 100.0;
            let cpu = arm.median(|r| r.cpu_ns_per_frame) / nodes as f64;
            let saved = if arm.name == "map" { saved.text(1.0, 0) } else { "-".into() };
            say(
                options,
                &format!(
                    "{path:>6} {nodes:>5} {length:>5} {:>7} | {fps:>9.0} {lost:>7.1} | {cpu:>17.0} {saved:>9}",
                    arm.name
                ),
            );
            json!({
                "by": arm.name, "delivered_fps": fps, "loss_ratio": lost / 100.0,
                "cpu_ns_per_frame_and_node": cpu,
                "paced_loss_ratio": arm.median(|r| r.paced_loss),
                "unintended": arm.row.handle().map(|h| h.relay_stats().unwrap().emulator_drops),
            })
        })
        .collect();
    json!({
        "what": "forwarding", "path": path, "nodes": nodes, "length_bytes": length, "rounds": options.rounds,
        "paced_link_fps": PACE_LINK_FPS, "saved_ns_per_frame_and_node": saved, "arms": rows,
    })
}

/// Processor time of the kernel's threads for software interrupts: the work that the sender's own calls did not finish.
fn softirq_cpu_ns() -> u64 {
    let processes = std::fs::read_dir("/proc").unwrap();
    let threads = processes.flatten().filter(|process| {
        let name = std::fs::read_to_string(process.path().join("comm"));
        name.is_ok_and(|name| name.starts_with("ksoftirqd/"))
    });
    threads
        .filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        })
        .sum()
}
