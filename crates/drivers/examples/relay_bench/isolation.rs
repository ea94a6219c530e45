//! A victim edge (10 ms, 1,000 frames a second) while 50 others flood, compared with the same over bare veth pairs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use constel_drivers::Links;
use constel_drivers::relay::{Relay, RelayConfig, RelayHandle};
use constel_link::{Delay, EdgeUpdate, Impairment, PortId, Quantiles, QueueLimit, mac_of};
use serde_json::{Value, json};

use crate::common::*;
use crate::spread::{Errors, Spread, in_rounds};
use crate::support::{ETH0, Node, Raw, frame, link, set};

const FLOODERS: u32 = 50;

/// Load beside the victim.
#[derive(Clone, Copy)]
enum Beside<'s> {
    Nothing,
    /// Frames from these senders; the number of the first flooder is given.
    Frames(&'s [Raw], u32),
    /// Threads that only count, and send no frames.
    Busy(u32),
}

/// One round of a case.
struct Round {
    errors: Quantiles,
    lost: u64,
    early: u64,
    flood_fps: f64,
    /// Lateness at the relay, of the victim alone.
    late_p99_ns: u64,
    stalls: u64,
    /// Frames lost by the relay, those of floods included.
    emulator_drops: u64,
}

pub(crate) fn isolation(options: &Options) -> Vec<Value> {
    say(
        options,
        &format!(
            "\na victim of 1,000 frames/s of 64 bytes over 10 ms (bare veth: 0) while 50 edges are flooded; error in us, median of {} rounds (least to greatest)",
            options.rounds
        ),
    );
    say(
        options,
        &format!(
            "{:>30} | {:>20} {:>24} {:>8} {:>8} {:>5} | {:>9} | {:>9} {:>7} {:>12}",
            "",
            "p50",
            "p99",
            "p99.9",
            "max",
            "lost",
            "flood fps",
            "relay p99",
            "stalls",
            "lost by us"
        ),
    );
    let mut results = over_veth(options);
    results.extend(over_relay(options));
    results
}

fn over_veth(options: &Options) -> Vec<Value> {
    let victim = Row::new(options, 1, None, false);
    let pairs: Vec<(Node, Node)> = (0..FLOODERS).map(|_| (Node::new(), Node::new())).collect();
    for (n, (a, b)) in pairs.iter().enumerate() {
        a.wire(0, b, 0, false);
        a.addresses(ETH0, 1 + n as u8);
        b.addresses(ETH0, 1 + n as u8);
    }
    let senders = senders(&pairs);
    let all = Beside::Frames(&senders, 0);
    let cases = [("veth, alone", Beside::Nothing), ("veth, flooded", all)];
    let measured = in_rounds(options.rounds, &cases, |(_, beside)| {
        one(options, &victim, 0, *beside, None)
    });
    let rows = cases.iter().zip(&measured);
    rows.map(|((name, _), rounds)| row(options, name, rounds))
        .collect()
}

fn over_relay(options: &Options) -> Vec<Value> {
    // Ports 0 and 1 are the victim's; then two for each flooder.
    let config = RelayConfig {
        priority: options.priority,
        threads: options.threads,
        ..RelayConfig::new("bench", 2 + 2 * FLOODERS, options.seed)
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
    let handle = relay.start_relay().unwrap();
    let classes = vec!["victim".to_owned(), "flood".to_owned()];
    let class_of = (0..2 + 2 * FLOODERS).map(|port| u8::from(port > 1));
    handle.classify(classes, class_of.collect()).unwrap();
    let senders = senders(&pairs);
    let limited = Impairment {
        delay: Delay::constant(10 * MS),
        rate_bps: std::num::NonZeroU64::new(1_000_000),
        queue: QueueLimit { bytes: 10_000 },
        ..Impairment::delay_only(0)
    };
    let unlimited = Impairment::delay_only(10 * MS);
    let all = Beside::Frames(&senders, 0);
    let mut cases = vec![
        ("relay, alone", limited, Beside::Nothing),
        ("relay, 1 Mbit/s edges flooded", limited, all),
        ("relay, unlimited edges flooded", unlimited, all),
    ];
    let bare: Vec<(Node, Node)> = match options.threads {
        // If the second half of the flooders belongs to another thread, the result separates the relay's effect from
        // the machine's.
        2 => (0..FLOODERS / 2)
            .map(|_| (Node::new(), Node::new()))
            .collect(),
        _ => Vec::new(),
    };
    for (n, (a, b)) in bare.iter().enumerate() {
        a.wire(0, b, 0, false);
        a.addresses(ETH0, 1 + n as u8);
        b.addresses(ETH0, 1 + n as u8);
    }
    let bare = self::senders(&bare);
    if !bare.is_empty() {
        let (own, other) = senders.split_at(senders.len() / 2);
        let other = Beside::Frames(other, FLOODERS / 2);
        cases.extend([
            (
                "its own thread's edges flooded",
                unlimited,
                Beside::Frames(own, 0),
            ),
            ("the other thread's edges flooded", unlimited, other),
            (
                "as many bare veth pairs flooded",
                unlimited,
                Beside::Frames(&bare, 0),
            ),
            (
                "as many threads that only count",
                unlimited,
                Beside::Busy(FLOODERS / 2),
            ),
        ]);
    }
    let measured = in_rounds(options.rounds, &cases, |(_, impairment, beside)| {
        let mut changes = link(0, 1, 10 * MS);
        for n in 0..FLOODERS {
            changes.push(set(2 + 2 * n, 3 + 2 * n, *impairment));
        }
        handle.apply(EdgeUpdate { changes }, None).unwrap();
        handle.clear_lateness().unwrap();
        one(options, &victim, 10 * MS, *beside, Some(&handle))
    });
    let rows = cases.iter().zip(&measured);
    rows.map(|((name, ..), rounds)| row(options, name, rounds))
        .collect()
}

fn senders(pairs: &[(Node, Node)]) -> Vec<Raw> {
    let senders = pairs.iter().map(|(a, _)| a.run(|| Raw::new(0x88b5)));
    senders.collect()
}

fn one(
    options: &Options,
    victim: &Row,
    delay_ns: u64,
    beside: Beside<'_>,
    handle: Option<&RelayHandle>,
) -> Round {
    let sockets = victim.sockets();
    let before = handle.map(|h| h.relay_stats().unwrap().emulator_drops.total());
    let stop = AtomicBool::new(false);
    let flooded = AtomicU64::new(0);
    let f = thread::scope(|scope| {
        let (senders, first, busy): (&[Raw], u32, u32) = match beside {
            Beside::Nothing => (&[], 0, 0),
            Beside::Frames(senders, first) => (senders, first, 0),
            Beside::Busy(threads) => (&[], 0, threads),
        };
        for _ in 0..busy {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for (n, sender) in (first..).zip(senders) {
            let (stop, flooded) = (&stop, &flooded);
            scope.spawn(move || {
                let (from, to) = (2 + 2 * n, 3 + 2 * n);
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
    let after = handle.map(|h| h.relay_stats().unwrap());
    let classes = handle.map(|h| h.lateness_by_class().unwrap());
    let lost_by_us = after.zip(before).map(|(a, b)| a.emulator_drops.total() - b);
    Round {
        errors: f.errors.quantiles(),
        lost: f.sent - f.received,
        early: f.early,
        flood_fps: flooded.into_inner() as f64 / (f.took.as_secs_f64() + 0.4),
        late_p99_ns: classes.map_or(0, |c| c[0].lateness.p99_ns),
        stalls: after.map_or(0, |a| a.stalls.count),
        emulator_drops: lost_by_us.unwrap_or(0),
    }
}

fn row(options: &Options, name: &str, rounds: &[Round]) -> Value {
    let errors = Errors::of(&rounds.iter().map(|r| r.errors).collect::<Vec<_>>());
    let sum = |of: fn(&Round) -> u64| rounds.iter().map(of).sum::<u64>();
    let spread = |of: fn(&Round) -> f64| Spread::of(rounds.iter().map(of));
    let (lost, stalls) = (sum(|r| r.lost), sum(|r| r.stalls));
    let emulator_drops = sum(|r| r.emulator_drops);
    let (flood_fps, late) = (spread(|r| r.flood_fps), spread(|r| r.late_p99_ns as f64));
    say(
        options,
        &format!(
            "{name:>30} | {:>20} {:>24} {:>8.1} {:>8.1} {lost:>5} | {:>9.0} | {:>9.1} {stalls:>7} {emulator_drops:>12}",
            errors.p50_ns.in_us(),
            errors.p99_ns.in_us(),
            errors.p999_ns.median / 1e3,
            errors.max_ns.median / 1e3,
            flood_fps.median,
            late.median / 1e3,
        ),
    );
    json!({
        "what": "isolation", "path": name, "rounds": rounds.len(), "error": errors,
        "early": sum(|r| r.early), "lost": lost, "flood_fps": flood_fps,
        "victim_lateness_p99_ns": late, "stalls": stalls, "unintended": emulator_drops,
    })
}
