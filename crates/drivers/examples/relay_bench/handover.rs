//! Handovers of 1 to 1,000 ground links at once: from the command to the first frame on the new edge, compared with
//! deleting veth pairs and making new ones (in one netlink batch, as fast as possible). `benches/handover_mininet.py`
//! measures Mininet's method.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_drivers::Links;
use constel_drivers::relay::{Relay, RelayConfig};
use constel_host::netlink::{Batch, Socket, VethEnd};
use constel_link::{EdgeChange, EdgeUpdate, Impairment, PortId, mac_of};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::{ETH0, Node, Raw, frame, real_ns, remove, set, stamp};

const COUNTS: [u32; 4] = [1, 10, 100, 1000];
const TRIES: usize = 11;
/// Deleting and making that many pairs one after the other takes long enough.
const PAIRS_MAX: u32 = 1000;
const A: u32 = 0;
const B: u32 = 1;

pub(crate) fn handover(options: &Options) -> Vec<Value> {
    say(
        options,
        "\nhandovers at once: from the command to the first frame at the new satellite, ms",
    );
    let mut results = Vec::new();
    for count in COUNTS {
        let times = by_relay(options, count);
        let dark = times.iter().map(|t| t.1).max().unwrap_or(0);
        let mut first: Vec<u64> = times.iter().map(|t| t.0).collect();
        first.sort_unstable();
        let (p50, max) = (first[first.len() / 2], first[first.len() - 1]);
        let pairs = (count <= PAIRS_MAX).then(|| by_new_pairs(count));
        let text = format!(
            "{count:>5}: relay p50 {:.3} max {:.3} (table busy {:.3} at most); new veth pairs {}",
            p50 as f64 / 1e6,
            max as f64 / 1e6,
            dark as f64 / 1e6,
            pairs.map_or("-".into(), |ns| format!("{:.1}", ns as f64 / 1e6)),
        );
        say(options, &text);
        results.push(json!({
            "what": "handover", "count": count, "relay_p50_ns": p50, "relay_max_ns": max,
            "table_busy_max_ns": dark, "tries": TRIES, "new_pairs_ns": pairs,
        }));
    }
    results
}

/// Moves stations on ports 2, 3, ... from satellite A to B and back, all in one update. The last of them is real and
/// sends a frame every few microseconds; all the others change at the same instant. Returns the time to the first
/// frame, and how long the table was busy.
fn by_relay(options: &Options, count: u32) -> Vec<(u64, u64)> {
    let config = RelayConfig {
        priority: options.priority,
        ..RelayConfig::new("bench", 2 + count, 1)
    };
    let relay = Relay::new(config).unwrap();
    let satellites = [Node::new(), Node::new()];
    for (port, node) in [A, B].into_iter().zip(&satellites) {
        node.port(&relay, PortId(port), 0, 1 + port as u8);
    }
    let station = Node::new();
    let port = 1 + count;
    station.port(&relay, PortId(port), 0, 9);
    let handle = relay.start_relay().unwrap();
    let wire = Impairment::delay_only(0);
    let both = |s: u32, sat: u32| [set(s, sat, wire), set(sat, s, wire)];
    let stations = || 2..2 + count;
    let changes = stations().flat_map(|s| both(s, A)).collect();
    handle.apply(EdgeUpdate { changes }, None).unwrap();

    let receivers: Vec<Raw> = satellites
        .iter()
        .map(|s| s.run(|| Raw::new(0x88b5)))
        .collect();
    receivers.iter().for_each(stamp);
    let sender = station.run(|| Raw::new(0x88b5));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Any address: a port with one edge sends everything there.
            let bytes = frame(mac_of(PortId(A)), mac_of(PortId(port)), 0x88b5, &[0; 50]);
            while !stop.load(Ordering::Relaxed) {
                sender.try_send(&bytes);
                let next = Instant::now() + Duration::from_micros(20);
                while Instant::now() < next {
                    std::hint::spin_loop();
                }
            }
        });
        let mut times = Vec::new();
        for n in 0..TRIES {
            let (old, new) = if n % 2 == 0 { (A, B) } else { (B, A) };
            thread::sleep(Duration::from_millis(20));
            let fresh = &receivers[new as usize];
            let off = |s: u32| [remove(s, old), remove(old, s)];
            let changes: Vec<EdgeChange> = stations()
                .flat_map(|s| off(s).into_iter().chain(both(s, new)))
                .collect();
            // Frames that arrived before do not count.
            fresh.drain();
            let command = real_ns();
            let applied = handle.apply(EdgeUpdate { changes }, None).unwrap();
            let (_, at) = fresh.next().expect("a frame on the new edge");
            times.push((at.saturating_sub(command), applied.took_ns));
        }
        stop.store(true, Ordering::Relaxed);
        times
    })
}

/// Does the same with bare veth pairs: they are deleted and made again between the station and the other satellite,
/// each direction of the requests in one batch. Returns the time until the first frame of the last station arrives.
fn by_new_pairs(count: u32) -> u64 {
    let (stations, a, b) = (Node::new(), Node::new(), Node::new());
    let names: Vec<[String; 2]> = (0..count)
        .map(|n| [format!("s{n}"), format!("t{n}")])
        .collect();
    let make = |satellite: &Node| {
        let mut batch = Batch::new();
        for (n, [near, far]) in names.iter().enumerate() {
            let near = VethEnd {
                name: near,
                ifindex: Some(ETH0 + n as u32),
                up: true,
                ..VethEnd::default()
            };
            let far = VethEnd {
                name: far,
                ifindex: Some(ETH0 + n as u32),
                netns: Some(satellite.ns.fd()),
                ..VethEnd::default()
            };
            batch.create_veth(&near, &far).unwrap();
        }
        Socket::open_in(&stations.ns)
            .unwrap()
            .send(&mut batch)
            .unwrap();
        satellite.netlink(|batch| {
            for n in 0..count {
                batch.link_up(ETH0 + n);
            }
        });
    };
    make(&a);
    let last = ETH0 + count - 1;
    let command = real_ns();
    let mut batch = Batch::new();
    for n in 0..count {
        batch.delete_link(ETH0 + n);
    }
    Socket::open_in(&stations.ns)
        .unwrap()
        .send(&mut batch)
        .unwrap();
    make(&b);
    let receiver = b.run(|| Raw::on(last, 0x88b5));
    let sender = stations.run(|| Raw::on(last, 0x88b5));
    stamp(&receiver);
    receiver.timeout(Duration::from_millis(1));
    let bytes = frame([0xff; 6], [2; 6], 0x88b5, &[0; 50]);
    loop {
        sender.try_send(&bytes);
        if let Some((_, at)) = receiver.next() {
            return at.saturating_sub(command);
        }
    }
}
