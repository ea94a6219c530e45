//! One suite for all drivers. On this host's kernel it runs for the driver named by `CONSTEL_DRIVERS` (several with
//! commas), `relay` by default; `make test-kernels` runs it for the others on kernels that have what they need.
//!
//! What every driver must do exactly, wherever it runs: which frames arrive where, their order, what is counted,
//! that nothing arrives before its time. How late a frame may be depends on the machine: [`late`] says it, and
//! `CONSTEL_SLOW=1` says that the machine is emulated.

#[path = "support/plane.rs"]
mod plane;
mod support;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;

use constel_drivers::relay::mono_ns;
use constel_drivers::{DriverError, DriverKind};
use constel_link::{
    ChangeError, Delay, Edge, EdgeUpdate, Effects, EffectsChange, Impairment, Jitter, JitterLaw,
    Loss, PortId, QueueLimit, mac_of,
};
use plane::{PlaneLab, SEED, Sent};
use support::*;

const BROADCAST: [u8; 6] = [0xff; 6];
/// An EtherType that is nobody's: experimental (IEEE 802).
const ODD: u16 = 0x88b5;

fn slow() -> bool {
    std::env::var_os("CONSTEL_SLOW").is_some()
}

/// How late a frame may be, ns: 10 ms where other tests run beside this one, 150 ms on an emulated machine.
fn late() -> u64 {
    if slow() { 150 * MS } else { 10 * MS }
}

/// Runs a case for each driver asked for.
fn each(case: impl Fn(DriverKind)) {
    let names = std::env::var("CONSTEL_DRIVERS").unwrap_or_else(|_| "relay".into());
    for name in names.split(',') {
        let kind = DriverKind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.unwrap_or_else(|| panic!("CONSTEL_DRIVERS: there is no driver {name}"));
        eprintln!("driver {kind}");
        case(kind);
    }
}

/// Frames of the odd EtherType, each with a number.
fn numbered(to: [u8; 6], number: u32, len: usize) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(len - 14, 0x55);
    frame(to, mac_of(PortId(0)), ODD, &payload)
}

fn number_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

/// What has come within `patience` after the last one: numbers and times.
fn drain(raw: &Raw, patience: Duration) -> Vec<(u32, u64)> {
    raw.timeout(patience);
    std::iter::from_fn(|| raw.next())
        .map(|(frame, at)| (number_of(&frame), at))
        .collect()
}

fn listener(lab: &PlaneLab, node: usize) -> Raw {
    let raw = lab.nodes[node].run(|| Raw::new(ODD));
    stamp(&raw);
    raw
}

fn sender(lab: &PlaneLab) -> Raw {
    lab.nodes[0].run(|| Raw::new(0))
}

fn rated(rate_bps: u64, queue_bytes: u64, delay_ns: u64) -> Impairment {
    Impairment {
        rate_bps: NonZeroU64::new(rate_bps),
        queue: QueueLimit { bytes: queue_bytes },
        ..Impairment::delay_only(delay_ns)
    }
}

/// Sums of the driver, once nothing is under way.
fn settled(lab: &PlaneLab) -> constel_drivers::PlaneStats {
    eventually("all frames are out", || {
        let stats = lab.handle.snapshot().unwrap();
        (stats.totals.held == 0).then_some(stats)
    })
}

#[test]
fn every_ether_type_takes_the_delay() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        let delay = 20 * MS;
        lab.apply(link(0, 1, delay));
        let (near, far) = (mac_of(PortId(0)), mac_of(PortId(1)));
        let payload = [7u8; 100];
        let sender = sender(&lab);
        for (to, ether_type) in [
            (far, ODD),
            (BROADCAST, ODD),
            // ARP, IPv4, IPv6, MPLS, LLDP, and IS-IS: a length instead of a type.
            (BROADCAST, 0x0806),
            (far, 0x0800),
            (far, 0x86dd),
            (far, 0x8847),
            ([0x01, 0x80, 0xc2, 0, 0, 0x0e], 0x88cc),
            ([0x01, 0x80, 0xc2, 0, 0, 0x14], 100),
        ] {
            let raw = lab.nodes[1].run(|| Raw::new(libc::ETH_P_ALL as u16));
            stamp(&raw);
            let whole = frame(to, near, ether_type, &payload);
            let sent = Sent::by(|| sender.send(&whole));
            let at = std::iter::from_fn(|| raw.next())
                .find(|(got, _)| *got == whole)
                .unwrap_or_else(|| panic!("{ether_type:#06x} does not arrive"))
                .1;
            lab.assert_took(&sent, at, delay, late());
        }
        let stats = lab.handle.snapshot().unwrap();
        assert_eq!((stats.early, stats.unintended_total()), (0, 0), "{stats:?}");
        assert!(stats.own_lateness.max_ns < late(), "{stats:?}");
        // netem cannot tell.
        assert_eq!(
            stats.lateness.count,
            if kind == DriverKind::Netem { 0 } else { 8 }
        );
    });
}

#[test]
fn ipv4_ipv6_and_tcp_between_nodes() {
    each(|kind| {
        let lab = PlaneLab::new(kind, 2);
        lab.apply(link(0, 1, 5 * MS));
        for ip in [std::net::IpAddr::from(v4(2)), v6(2).into()] {
            let listener = eventually("the address is ready", || {
                lab.nodes[1].run(|| TcpListener::bind((ip, 7000)).ok())
            });
            let reader = thread::spawn(move || {
                let mut bytes = Vec::new();
                listener
                    .accept()
                    .unwrap()
                    .0
                    .read_to_end(&mut bytes)
                    .unwrap();
                bytes
            });
            let mut stream = lab.nodes[0].run(|| TcpStream::connect((ip, 7000)).unwrap());
            let sent: Vec<u8> = (0..2_000_000u32).map(|i| (i * 7) as u8).collect();
            stream.write_all(&sent).unwrap();
            drop(stream);
            assert!(reader.join().unwrap() == sent, "the bytes are others");
        }
        let stats = settled(&lab);
        assert_eq!((stats.early, stats.unintended_total()), (0, 0), "{stats:?}");
    });
}

#[test]
fn frames_take_only_edges_that_exist() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 3);
        let far: Vec<Raw> = (1..3).map(|node| listener(&lab, node)).collect();
        let sender = sender(&lab);
        let seen = || -> Vec<Vec<u32>> {
            let patience = Duration::from_millis(if slow() { 400 } else { 100 });
            far.iter()
                .map(|raw| drain(raw, patience).iter().map(|f| f.0).collect())
                .collect()
        };
        let send = |first: u32| {
            sender.send(&numbered(mac_of(PortId(1)), first, 60));
            sender.send(&numbered(mac_of(PortId(2)), first + 1, 60));
            sender.send(&numbered(BROADCAST, first + 2, 60));
            sender.send(&numbered([2, 0, 0, 0, 0, 9], first + 3, 60));
        };
        send(0);
        assert_eq!(seen(), [[0u32; 0], []], "no edges");
        let wire = Impairment::delay_only(MS);
        // Back to port 0: nothing it sends takes that.
        lab.apply(vec![set(0, 1, wire), set(2, 0, wire)]);
        send(10);
        assert_eq!(
            seen(),
            [vec![10, 11, 12, 13], vec![]],
            "an only edge takes everything"
        );
        lab.apply(vec![set(0, 2, wire)]);
        send(20);
        assert_eq!(seen(), [vec![20, 22], vec![21, 22]]);
        lab.apply(vec![remove(0, 1)]);
        send(30);
        assert_eq!(seen(), [vec![], vec![30, 31, 32, 33]]);
        lab.apply(vec![set(0, 1, wire), remove(0, 2), remove(2, 0)]);
        send(40);
        assert_eq!(seen(), [vec![40, 41, 42, 43], vec![]]);
    });
}

#[test]
fn a_broadcast_is_one_frame_for_each_edge_each_in_its_time() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 5);
        let delays = [10 * MS, 40 * MS, 5 * MS, 60 * MS];
        lab.apply(
            (1..5)
                .map(|to| set(0, to, Impairment::delay_only(delays[to as usize - 1])))
                .collect(),
        );
        let far: Vec<Raw> = (1..5).map(|node| listener(&lab, node)).collect();
        let sender = sender(&lab);
        let sent: Vec<Sent> = (0..5)
            .map(|n| {
                let sent = Sent::by(|| sender.send(&numbered(BROADCAST, n, 200)));
                thread::sleep(Duration::from_millis(2));
                sent
            })
            .collect();
        for (raw, delay) in far.iter().zip(delays) {
            let got = drain(raw, Duration::from_millis(500));
            assert_eq!(got.iter().map(|f| f.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
            for ((_, at), sent) in got.iter().zip(&sent) {
                lab.assert_took(sent, *at, delay, late());
            }
        }
    });
}

#[test]
fn order_is_kept_while_delays_change() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        let mut number = 0;
        for delay in [40, 5, 60, 1, 30, 2] {
            lab.apply(vec![set(0, 1, Impairment::delay_only(delay * MS))]);
            for _ in 0..60 {
                sender.send(&numbered(mac_of(PortId(1)), number, 100));
                number += 1;
                thread::sleep(Duration::from_micros(300));
            }
        }
        let got: Vec<u32> = drain(&far, Duration::from_secs(1))
            .iter()
            .map(|f| f.0)
            .collect();
        if kind.capabilities().keeps_order {
            assert_eq!(got, (0..number).collect::<Vec<_>>());
        } else {
            let swapped = got.windows(2).filter(|pair| pair[0] > pair[1]).count();
            assert_eq!(got.len(), number as usize);
            assert!(swapped <= got.len() / 50, "{swapped} of {number} overtaken");
        }
    });
}

#[test]
fn loss_is_binomial_and_follows_from_the_seed() {
    each(|kind| {
        for (ratio, count) in [(0.3, 2000u32), (0.02, 3000)] {
            let lab = PlaneLab::silent(kind, 2);
            let lossy = Impairment {
                loss: Loss::Bernoulli { loss_ratio: ratio },
                ..Impairment::delay_only(3 * MS)
            };
            lab.apply(vec![set(0, 1, lossy)]);
            let far = listener(&lab, 1);
            let sender = sender(&lab);
            for n in 0..count {
                sender.send(&numbered(mac_of(PortId(1)), n, 60));
                if n % 50 == 49 {
                    thread::sleep(Duration::from_millis(2));
                }
            }
            let got: BTreeSet<u32> = drain(&far, Duration::from_secs(1))
                .iter()
                .map(|f| f.0)
                .collect();
            let lost = f64::from(count) - got.len() as f64;
            let mean = f64::from(count) * ratio;
            let deviation = (mean * (1.0 - ratio)).sqrt();
            assert!(
                (lost - mean).abs() < 4.5 * deviation,
                "{lost} of {count} lost at {ratio}"
            );
            let stats = settled(&lab);
            assert_eq!(stats.totals.counters.dropped_loss, lost as u64, "{stats:?}");
            if kind.capabilities().seeded {
                assert_eq!(
                    got,
                    survivors(&lossy, count),
                    "not those that the seed says"
                );
            }
        }
    });
}

/// Which frames the pure model lets pass.
fn survivors(impairment: &Impairment, count: u32) -> BTreeSet<u32> {
    let mut edge = Edge::new(*impairment, SEED, 0, 1, 0);
    let lost = &mut |_, _| {};
    for n in 0..count {
        edge.arrive(u64::from(n), n, 60, lost).unwrap();
    }
    std::iter::from_fn(|| edge.pop_due(u64::MAX, lost))
        .map(|released| released.frame)
        .collect()
}

#[test]
fn frames_leave_when_service_and_propagation_say() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        // 1,000 bytes take 8 ms.
        let edge = rated(1_000_000, 1 << 20, 30 * MS);
        lab.apply(vec![set(0, 1, edge)]);
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        let sent = Sent::by(|| {
            for n in 0..25 {
                sender.send(&numbered(mac_of(PortId(1)), n, 1000));
            }
        });
        let got = drain(&far, Duration::from_secs(2));
        assert_eq!(got.len(), 25);
        for (n, at) in got {
            let due = (u64::from(n) + 1) * 8 * MS + 30 * MS;
            lab.assert_took(&sent, at, due, late());
        }
    });
}

#[test]
fn the_queue_holds_what_it_is_to_hold_whatever_the_delay() {
    each(|kind| {
        for delay in [0, 150 * MS] {
            let lab = PlaneLab::silent(kind, 2);
            // A frame of 1,514 bytes takes 121 ms: the burst is over long before the first is served.
            lab.apply(vec![set(0, 1, rated(100_000, 10 * 1514, delay))]);
            let far = listener(&lab, 1);
            let sender = sender(&lab);
            for n in 0..30 {
                sender.send(&numbered(mac_of(PortId(1)), n, 1514));
            }
            let got: Vec<u32> = drain(&far, Duration::from_secs(2))
                .iter()
                .map(|f| f.0)
                .collect();
            assert_eq!(
                got,
                (0..11).collect::<Vec<_>>(),
                "one in service, ten waiting"
            );
            let edge = lab
                .handle
                .edge_stats(PortId(0), PortId(1))
                .unwrap()
                .unwrap();
            assert_eq!(
                (edge.counters.dropped_queue, edge.counters.delivered),
                (19, 11)
            );
        }
    });
}

#[test]
fn the_rate_holds_over_seconds() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        let rate = 2_000_000;
        // All at once, so that it does not matter how fast this machine can send.
        lab.apply(vec![set(0, 1, rated(rate, 1 << 20, 2 * MS))]);
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        for n in 0..600 {
            sender.send(&numbered(mac_of(PortId(1)), n, 1000));
        }
        let got = drain(&far, Duration::from_secs(1));
        assert_eq!(got.len(), 600);
        let span = (got[got.len() - 1].1 - got[0].1) as f64 / 1e9;
        let seen = (got.len() - 1) as f64 * 8000.0 / span;
        let error = (seen / rate as f64 - 1.0).abs();
        let bound = if slow() { 0.03 } else { 0.005 };
        assert!(error < bound, "{seen} bit/s in {span} s");
    });
}

#[test]
fn the_delay_glides() {
    each(|kind| {
        if !kind.capabilities().delay_glides {
            return;
        }
        for slope in [60_000_000, -30_000_000] {
            let lab = PlaneLab::silent(kind, 2);
            let delay = Delay {
                t0_ns: mono_ns(),
                delay_ns: 40 * MS,
                slope_ns_per_s: slope,
            };
            let gliding = Impairment {
                delay,
                ..Impairment::delay_only(0)
            };
            lab.apply(vec![set(0, 1, gliding)]);
            let far = listener(&lab, 1);
            let sender = sender(&lab);
            let mut sent = Vec::new();
            for n in 0..40 {
                sent.push(Sent::by(|| {
                    sender.send(&numbered(mac_of(PortId(1)), n, 100));
                }));
                thread::sleep(Duration::from_millis(20));
            }
            let got = drain(&far, Duration::from_secs(1));
            assert_eq!(got.len(), 40);
            for ((_, at), sent) in got.into_iter().zip(sent) {
                // The delay of the moment it came in at, which lies somewhere in between.
                let ends = [sent.mono.start, sent.mono.end].map(|mono| delay.at(mono));
                let (least, most) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
                lab.assert_took_between(&sent, at, least, most + late());
            }
        }
    });
}

#[test]
fn an_update_is_all_or_nothing_for_every_frame() {
    each(|kind| {
        if !kind.capabilities().atomic_updates {
            return;
        }
        let lab = PlaneLab::silent(kind, 4);
        let wire = Impairment::delay_only(MS);
        lab.apply(vec![set(0, 1, wire), set(0, 2, wire)]);
        let far: Vec<Raw> = (1..4).map(|node| listener(&lab, node)).collect();
        let sender = sender(&lab);
        let sending = thread::spawn(move || {
            for n in 0..3000 {
                sender.send(&numbered(BROADCAST, n, 60));
                if n % 10 == 9 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        for _ in 0..8 {
            thread::sleep(Duration::from_millis(15));
            lab.apply(vec![remove(0, 1), remove(0, 2), set(0, 3, wire)]);
            thread::sleep(Duration::from_millis(15));
            lab.apply(vec![set(0, 1, wire), set(0, 2, wire), remove(0, 3)]);
        }
        sending.join().unwrap();
        let got: Vec<BTreeSet<u32>> = far
            .iter()
            .map(|raw| {
                drain(raw, Duration::from_millis(500))
                    .iter()
                    .map(|f| f.0)
                    .collect()
            })
            .collect();
        assert_eq!(got[0], got[1], "a frame saw half of a table");
        assert!(got[0].is_disjoint(&got[2]), "a frame saw both tables");
        assert!(!got[2].is_empty() && !got[0].is_empty());
        assert_eq!(got[0].len() + got[2].len(), 3000, "a frame saw no table");
    });
}

#[test]
fn an_update_takes_effect_in_its_time() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        lab.apply(link(0, 1, MS));
        let at = mono_ns() + 60 * MS;
        let changes = vec![remove(0, 1)];
        let pending = lab.handle.submit(EdgeUpdate { changes }, Some(at)).unwrap();
        let applied = pending.wait().unwrap();
        let late = late() + lab.stalled_ns(at, applied.at_ns);
        assert!(
            (at..at + late).contains(&applied.at_ns),
            "{} late",
            applied.at_ns as i64 - at as i64
        );
        assert_eq!(applied.changes.removed, 1);
    });
}

#[test]
fn an_edge_is_up_from_its_instant_on() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        let acquired = Impairment {
            up_from_ns: mono_ns() + 300 * MS,
            ..Impairment::delay_only(MS)
        };
        lab.apply(vec![set(0, 1, acquired)]);
        sender.send(&numbered(mac_of(PortId(1)), 0, 60));
        assert!(
            mono_ns() < acquired.up_from_ns,
            "sent too late to say anything"
        );
        thread::sleep(Duration::from_nanos(
            acquired.up_from_ns + late() - mono_ns(),
        ));
        sender.send(&numbered(mac_of(PortId(1)), 1, 60));
        let got: Vec<u32> = drain(&far, Duration::from_millis(500))
            .iter()
            .map(|f| f.0)
            .collect();
        assert_eq!(got, [1]);
    });
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        lab.apply(link(0, 1, MS));
        let wire = Impairment::delay_only(MS);
        let try_update = |changes| lab.handle.apply(EdgeUpdate { changes }, None).unwrap_err();
        let error = try_update(vec![remove(0, 1), set(0, 7, wire)]);
        assert!(
            matches!(&error, DriverError::Update(e) if matches!(e.errors[0], ChangeError::NoSuchPort { .. }))
        );
        lab.apply(vec![remove(1, 0)]);
        let error = try_update(vec![remove(0, 1), remove(1, 0)]);
        assert!(
            matches!(&error, DriverError::Update(e) if e.errors.len() == 1),
            "{error}"
        );
        assert!(
            lab.handle
                .edge_stats(PortId(0), PortId(1))
                .unwrap()
                .unwrap()
                .impairment
                .is_some()
        );

        let all = Effects {
            jitter: Some(Jitter {
                law: JitterLaw::Uniform { half_width_ns: 1 },
                half_life_ns: 0,
            }),
            duplicate_ratio: Some(0.1),
            queue_frames: Some(3),
            ..Effects::default()
        };
        let change = EffectsChange::Edge {
            from: PortId(0),
            to: PortId(1),
            effects: Some(all.clone()),
        };
        let refusals = kind.capabilities().refusals(&all);
        match lab.handle.apply_effects(vec![change]) {
            Ok(_) => assert!(refusals.is_empty()),
            Err(DriverError::Unsupported(said)) => {
                assert_eq!(said.len(), 3);
                assert!(
                    said.iter()
                        .all(|text| text.ends_with("drivers that have: relay")),
                    "{said:?}"
                );
                assert!(!refusals.is_empty());
            }
            Err(error) => panic!("{error}"),
        }
        let known = lab.handle.effects(PortId(0), PortId(1)).unwrap();
        assert_eq!(known.own.is_empty(), !refusals.is_empty());
    });
}

#[test]
fn effects_lie_on_top_of_updates() {
    each(|kind| {
        let lab = PlaneLab::silent(kind, 2);
        lab.apply(link(0, 1, MS));
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        let patience = Duration::from_millis(if slow() { 500 } else { 150 });
        let ends = |effects: Option<Effects>| EffectsChange::Edge {
            from: PortId(0),
            to: PortId(1),
            effects,
        };
        let took = |n: u32| {
            let sent = Sent::by(|| sender.send(&numbered(mac_of(PortId(1)), n, 60)));
            let at = drain(&far, patience).first().map(|(_, at)| *at)?;
            Some((sent, at))
        };
        let down = Effects {
            down: Some(true),
            ..Effects::default()
        };
        lab.handle.apply_effects(vec![ends(Some(down))]).unwrap();
        assert!(took(0).is_none(), "a failed edge");
        lab.apply(link(0, 1, 2 * MS));
        assert!(took(1).is_none(), "a failed edge that a step has changed");
        let longer = Effects {
            delay_ns: Some(90 * MS),
            ..Effects::default()
        };
        lab.handle.apply_effects(vec![ends(Some(longer))]).unwrap();
        let (sent, at) = took(2).expect("healed");
        assert!(at - sent.real.start >= 90 * MS, "with a delay of its own");
        lab.handle.apply_effects(vec![ends(None)]).unwrap();
        let (sent, at) = took(3).unwrap();
        lab.assert_took(&sent, at, 2 * MS, late());
    });
}

#[test]
fn frames_wait_for_no_other_edge() {
    each(|kind| {
        // Two edges into one port: what is far away must not hold up what is near.
        let lab = PlaneLab::silent(kind, 3);
        lab.apply(vec![
            set(0, 2, Impairment::delay_only(200 * MS)),
            set(1, 2, Impairment::delay_only(5 * MS)),
        ]);
        let far = listener(&lab, 2);
        let (a, b) = (sender(&lab), lab.nodes[1].run(|| Raw::new(0)));
        let sent = Sent::by(|| {
            a.send(&numbered(mac_of(PortId(2)), 0, 60));
            b.send(&numbered(mac_of(PortId(2)), 1, 60));
        });
        let got = drain(&far, Duration::from_secs(1));
        assert_eq!(got.iter().map(|f| f.0).collect::<Vec<_>>(), [1, 0]);
        lab.assert_took(&sent, got[0].1, 5 * MS, late());
        assert!(got[1].1 - sent.real.start >= 200 * MS);
    });
}

#[test]
fn edges_come_and_go() {
    each(|kind| {
        // Frames on the way of an edge that goes still arrive; one that comes back starts afresh.
        let lab = PlaneLab::silent(kind, 2);
        let far = listener(&lab, 1);
        let sender = sender(&lab);
        let mut wanted = Vec::new();
        for n in 0..5u32 {
            lab.apply(link(0, 1, 60 * MS));
            sender.send(&numbered(mac_of(PortId(1)), n, 60));
            wanted.push(n);
            lab.apply(vec![remove(0, 1), remove(1, 0)]);
            sender.send(&numbered(mac_of(PortId(1)), 100 + n, 60));
        }
        let got: Vec<u32> = drain(&far, Duration::from_secs(1))
            .iter()
            .map(|f| f.0)
            .collect();
        assert_eq!(got, wanted);
        let edge = lab
            .handle
            .edge_stats(PortId(0), PortId(1))
            .unwrap()
            .unwrap();
        assert_eq!((edge.impairment, edge.counters.delivered), (None, 5));
    });
}
