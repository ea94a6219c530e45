//! A victim (1,000 frames/s and a ping over 10 ms) while a node outside its path attacks, compared with the same attack
//! on a bare veth pair.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use constel_drivers::Links;
use constel_drivers::relay::{Relay, RelayConfig};
use constel_link::{EdgeUpdate, PortId};
use serde_json::{Value, json};

use crate::common::*;
use crate::hostile_node::{Attack, DELAY_NS, HOSTILE, Hostile, NEIGHBOURS, attacks, edges};
use crate::spread::{Spread, in_rounds};
use crate::support::{ETH0, Node, go_before_normal_threads};
use crate::victim::{Seen, Victim, percentile};

/// One round: percentiles of the stream and of the ping, lost frames, frames sent by the attacker per second, and the
/// relay's lateness of the victim's frames.
struct Round {
    stream: [u64; 2],
    ping_p99_ns: u64,
    lost: usize,
    fps: f64,
    late_p99_ns: u64,
    stalls: u64,
}

pub(crate) fn hostile(options: &Options) -> Vec<Value> {
    say(
        options,
        &format!(
            "\na victim over {} ms while a node elsewhere attacks; us beyond the delay, median of {} rounds (least to greatest)",
            DELAY_NS / MS,
            options.rounds
        ),
    );
    let config = RelayConfig {
        priority: options.priority,
        ..RelayConfig::new("bench", NEIGHBOURS.end, options.seed)
    };
    let relay = Relay::new(config).unwrap();
    let nodes: Vec<Node> = (0..NEIGHBOURS.end)
        .map(|port| {
            let node = Node::new();
            node.port(&relay, PortId(port), 0, port as u8 + 1);
            node
        })
        .collect();
    let handle = relay.start_relay().unwrap();
    let classes = vec!["victim".to_owned(), "others".to_owned()];
    let class_of = (0..NEIGHBOURS.end).map(|port| u8::from(port > 1));
    handle.classify(classes, class_of.collect()).unwrap();
    let (decoy, beyond) = (Node::new(), Node::new());
    decoy.wire(0, &beyond, 0, true);
    decoy.addresses(ETH0, HOSTILE as u8 + 1);
    beyond.addresses(ETH0, NEIGHBOURS.start as u8 + 1);
    let attackers = [
        ("veth", Hostile::new(&decoy, HOSTILE as u8 + 1)),
        (
            "relay",
            Hostile::new(&nodes[HOSTILE as usize], HOSTILE as u8 + 1),
        ),
    ];
    let victim = Victim::new(&nodes);
    let for_ = Duration::from_secs_f64(options.seconds_or(1.0));
    let mut results = Vec::new();
    for attack in attacks() {
        let changes = edges(attack.by_frames);
        handle.apply(EdgeUpdate { changes }, None).unwrap();
        let measured = in_rounds(options.rounds, &attackers, |(_, attacker)| {
            handle.clear_lateness().unwrap();
            let mut round = one(&victim, attacker, &attack, for_);
            let classes = handle.lateness_by_class().unwrap();
            round.late_p99_ns = classes[0].lateness.p99_ns;
            // Stalls are counted since lateness was cleared.
            round.stalls = handle.relay_stats().unwrap().stalls.count;
            while handle.relay_stats().unwrap().totals.held > 0 {
                thread::sleep(Duration::from_millis(5));
            }
            round
        });
        for ((to, _), rounds) in attackers.iter().zip(&measured) {
            results.push(row(options, attack.name, to, rounds));
        }
    }
    results
}

fn one(victim: &Victim, attacker: &Hostile, attack: &Attack, for_: Duration) -> Round {
    let stop = AtomicBool::new(false);
    let (seen, done): (Seen, u64) = thread::scope(|scope| {
        let hog = scope.spawn(|| attacker.attack(&attack.what, &stop));
        let seen = scope.spawn(|| {
            go_before_normal_threads();
            victim.measure(for_)
        });
        let seen = seen.join().unwrap();
        stop.store(true, Ordering::Relaxed);
        (seen, hog.join().unwrap())
    });
    Round {
        stream: [50, 99].map(|n| percentile(&seen.stream, n)),
        ping_p99_ns: percentile(&seen.ping, 99),
        lost: seen.lost(),
        fps: done as f64 / for_.as_secs_f64(),
        late_p99_ns: 0,
        stalls: 0,
    }
}

fn row(options: &Options, name: &str, to: &str, rounds: &[Round]) -> Value {
    let beyond = |of: fn(&Round) -> u64, delay_ns: u64| {
        Spread::of(rounds.iter().map(|r| of(r).saturating_sub(delay_ns) as f64))
    };
    let stream_p50 = beyond(|r| r.stream[0], DELAY_NS);
    let stream_p99 = beyond(|r| r.stream[1], DELAY_NS);
    let ping_p99 = beyond(|r| r.ping_p99_ns, 2 * DELAY_NS);
    let late_p99 = beyond(|r| r.late_p99_ns, 0);
    let lost: usize = rounds.iter().map(|r| r.lost).sum();
    let stalls: u64 = rounds.iter().map(|r| r.stalls).sum();
    let fps = Spread::of(rounds.iter().map(|r| r.fps));
    say(
        options,
        &format!(
            "{name:>28} {to:>6} | stream p50 {:>22} p99 {:>24} | ping p99 {:>24} | lost {lost} | relay p99 {:>6.0} | stalls {stalls} | {:.0} a second",
            stream_p50.in_us(),
            stream_p99.in_us(),
            ping_p99.in_us(),
            late_p99.median / 1e3,
            fps.median,
        ),
    );
    json!({
        "what": "hostile", "attack": name, "into": to, "rounds": rounds.len(), "delay_ns": DELAY_NS,
        "stream_p50_beyond_ns": stream_p50, "stream_p99_beyond_ns": stream_p99,
        "ping_p99_beyond_ns": ping_p99, "victim_lateness_p99_ns": late_p99, "lost": lost, "stalls": stalls, "attacks_per_s": fps,
    })
}
