//! A victim edge (10 ms, 1,000 frames a second) while 50 others flood, next to the same over bare
//! veth pairs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use constel_drivers::relay::{Relay, RelayConfig};
use constel_link::{Delay, EdgeUpdate, Impairment, PortId, QueueLimit, mac_of};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::{ETH0, Node, Raw, frame, link, set};

const FLOODERS: u32 = 50;

pub(crate) fn isolation(options: &Options) -> Vec<Value> {
    say(
        options,
        "\na victim of 1,000 frames/s of 64 bytes over 10 ms (bare veth: 0) while 50 edges are flooded; error in us",
    );
    say(
        options,
        &format!(
            "{:>34} | {:>8} {:>8} {:>9} {:>9} {:>7} | {:>11} | {:>9} {:>8}",
            "", "p50", "p99", "p99.9", "max", "lost", "flood fps", "relay p99", "stalls"
        ),
    );
    let mut results = Vec::new();
    for flooding in [false, true] {
        let victim = Row::new(options, 1, None, false);
        let pairs: Vec<(Node, Node)> = (0..FLOODERS).map(|_| (Node::new(), Node::new())).collect();
        for (n, (a, b)) in pairs.iter().enumerate() {
            a.wire(0, b, 0, false);
            a.addresses(ETH0, 1 + n as u8);
            b.addresses(ETH0, 1 + n as u8);
        }
        let senders: Vec<Raw> = pairs
            .iter()
            .map(|(a, _)| a.run(|| Raw::new(0x88b5)))
            .collect();
        let name = if flooding {
            "veth, flooded"
        } else {
            "veth, alone"
        };
        results.push(one(
            options,
            name,
            &victim,
            0,
            flooding.then_some(&senders),
            None,
        ));
    }
    // Ports 0 and 1 are the victim's; then two for each flooder.
    let config = RelayConfig {
        priority: options.priority,
        ..RelayConfig::new("bench", 2 + 2 * FLOODERS, 1)
    };
    let relay = Relay::new(config).unwrap();
    let victim = Row::around(&relay);
    let pairs: Vec<(Node, Node)> = (0..FLOODERS)
        .map(|n| {
            let (a, b) = (Node::new(), Node::new());
            a.port(&relay, PortId(2 + 2 * n), 0, 1);
            b.port(&relay, PortId(3 + 2 * n), 0, 2);
            (a, b)
        })
        .collect();
    let handle = relay.start().unwrap();
    let classes = vec!["victim".to_owned(), "flood".to_owned()];
    let class_of = (0..2 + 2 * FLOODERS).map(|port| u8::from(port > 1));
    handle.classify(classes, class_of.collect()).unwrap();
    let senders: Vec<Raw> = pairs
        .iter()
        .map(|(a, _)| a.run(|| Raw::new(0x88b5)))
        .collect();
    let limited = Impairment {
        delay: Delay::constant(10 * MS),
        rate_bps: std::num::NonZeroU64::new(1_000_000),
        queue: QueueLimit { bytes: 10_000 },
        ..Impairment::delay_only(0)
    };
    for (name, flooded) in [
        ("relay, alone", None),
        ("relay, 1 Mbit/s edges flooded", Some(limited)),
        (
            "relay, unlimited edges flooded",
            Some(Impairment::delay_only(10 * MS)),
        ),
    ] {
        let mut changes = link(0, 1, 10 * MS);
        for n in 0..FLOODERS {
            changes.push(set(2 + 2 * n, 3 + 2 * n, flooded.unwrap_or(limited)));
        }
        handle.apply(EdgeUpdate { changes }, None).unwrap();
        handle.clear_lateness().unwrap();
        let flood = flooded.is_some().then_some(&senders);
        results.push(one(options, name, &victim, 10 * MS, flood, Some(&handle)));
    }
    results
}

fn one(
    options: &Options,
    name: &str,
    victim: &Row,
    delay_ns: u64,
    flood: Option<&Vec<Raw>>,
    handle: Option<&constel_drivers::relay::RelayHandle>,
) -> Value {
    let sockets = victim.sockets();
    let before = handle.map(|h| h.snapshot().unwrap().unintended);
    let stop = AtomicBool::new(false);
    let flooded = AtomicU64::new(0);
    let f = thread::scope(|scope| {
        for (n, sender) in flood.into_iter().flatten().enumerate() {
            let (stop, flooded) = (&stop, &flooded);
            scope.spawn(move || {
                let (from, to) = (2 + 2 * n as u32, 3 + 2 * n as u32);
                let bytes = frame(mac_of(PortId(to)), mac_of(PortId(from)), 0x88b5, &[0; 86]);
                while !stop.load(Ordering::Relaxed) {
                    flooded.fetch_add(u64::from(sender.try_send(&bytes)), Ordering::Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_millis(300));
        let f = flow(&sockets, 64, 1000, options.seconds_or(3.0), delay_ns);
        stop.store(true, Ordering::Relaxed);
        f
    });
    thread::sleep(Duration::from_millis(100));
    let after = handle.map(|h| h.snapshot().unwrap());
    let q = f.errors.quantiles();
    let flood_fps = flooded.into_inner() as f64 / (f.took.as_secs_f64() + 0.4);
    let lost = f.sent - f.received;
    // At the relay, of the victim alone.
    let classes = handle.map(|h| h.lateness_by_class().unwrap());
    let late = classes.as_ref().map(|c| c[0].lateness);
    let own = late.map_or(String::new(), |late| us(late.p99_ns));
    let stalls = after.map_or(0, |a| a.stalls.count);
    say(
        options,
        &format!(
            "{name:>34} | {:>8} {:>8} {:>9} {:>9} {lost:>7} | {flood_fps:>11.0} | {own:>9} {stalls:>8}",
            us(q.p50_ns),
            us(q.p99_ns),
            us(q.p999_ns),
            us(q.max_ns),
        ),
    );
    if let (Some(b), Some(a)) = (before, after)
        && a.unintended.total() > b.total()
    {
        let floods = format!(
            "{:?}; lateness of the victim at the relay {late:?}",
            a.unintended
        );
        say(
            options,
            &format!("{:>34}   lost by the relay, floods included: {floods}", ""),
        );
    }
    json!({
        "what": "isolation", "path": name, "delay_ns": delay_ns, "error": q, "early": f.early,
        "sent": f.sent, "received": f.received, "flood_fps": flood_fps,
        "unintended": after.map(|a| a.unintended), "stalls": after.map(|a| a.stalls),
        "lateness": classes,
    })
}
