//! Nodes without a stack: what reaches them goes on, is answered or is counted, each edge with its own delay.

use super::*;
use std::net::Ipv4Addr;
use std::sync::Arc;

use constel_drivers::Links;
use constel_link::packet::{fold, words_sum};
use constel_link::transit::{
    Cause, DestinationAddresses, Member, MemberPort, NeighbourRoute, Table, TableSpec,
};

pub(super) const IPV4: u16 = 0x0800;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP: u8 = 1;
pub(super) const SLOTS: usize = 4096;
/// The largest packet of the second node's right port.
const NARROW_MTU: u32 = 1000;

fn own(member: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, member + 1)
}

/// Ports 0 and 5 are of nodes, 1 to 4 of two that forward, in a row.
pub(super) fn table() -> Arc<Table> {
    let port = |port, far_port, mtu_bytes| MemberPort {
        port: PortId(port),
        far_port: Some(PortId(far_port)),
        subnet: None,
        mtu_bytes,
    };
    let member = |n: u8, ports| Member {
        v4: Some(own(n)),
        v6: None,
        ports,
    };
    let goal = |n| DestinationAddresses(vec![v4(n).into(), v6(n).into()]);
    let spec = TableSpec {
        ports: 6,
        members: vec![
            member(0, vec![port(1, 0, 1500), port(2, 3, 1500)]),
            member(1, vec![port(3, 2, 1500), port(4, 5, NARROW_MTU)]),
        ],
        goals: vec![goal(1), goal(2)],
        v4_of_ports: Vec::new(),
    };
    let table = Table::new(spec).unwrap();
    for (member, goal, port, far_port) in [(0, 0, 1, 0), (0, 1, 2, 3), (1, 0, 3, 2), (1, 1, 4, 5)] {
        let way = NeighbourRoute {
            port: PortId(port),
            far_port: PortId(far_port),
        };
        table.set(member, goal, &[way]);
    }
    Arc::new(table)
}

fn lab() -> (Lab, Arc<Table>) {
    lab_of(1)
}

/// Starts it with a number of threads.
pub(super) fn lab_of(threads: usize) -> (Lab, Arc<Table>) {
    lab_with(RelayConfig {
        threads,
        ..RelayConfig::new("transit", 6, 1)
    })
}

fn lab_with(config: RelayConfig) -> (Lab, Arc<Table>) {
    let table = table();
    let config = RelayConfig {
        slots: SLOTS as u32,
        transit: Some(table.clone()),
        ..config
    };
    let lab = Lab::with(config, &[0, 5]);
    let links = [(0, 1), (2, 3), (4, 5)];
    lab.apply(
        links
            .into_iter()
            .flat_map(|(a, b)| link(a, b, 5 * MS))
            .collect(),
    );
    (lab, table)
}

/// An IPv4 packet that must not be cut up.
pub(super) fn packet(to: Ipv4Addr, hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 1, 0x40, 0, hops, UDP, 0, 0]);
    packet.extend(v4(1).octets());
    packet.extend(to.octets());
    let check = !fold(words_sum(&packet));
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    packet.extend(payload);
    packet
}

pub(super) fn sent(packet: &[u8]) -> Vec<u8> {
    frame(mac_of(PortId(1)), mac_of(PortId(0)), IPV4, packet)
}

/// The next frame of a protocol, and when it came.
pub(super) fn next(raw: &Raw, protocol: u8) -> (Vec<u8>, u64) {
    std::iter::from_fn(|| raw.next())
        .find(|(got, _)| got.len() > 34 && got[23] == protocol)
        .expect("nothing comes")
}

#[test]
fn packets_go_on_hop_by_hop_and_take_every_delay() {
    let (lab, table) = lab();
    let sender = lab.nodes[0].run(|| Raw::new(IPV4));
    let receiver = lab.nodes[1].run(|| Raw::new(IPV4));
    let payload: Vec<u8> = (0..200).map(|n| n as u8).collect();
    for hops in [64, 3] {
        let whole = packet(v4(2), hops, &payload);
        let mut ways = (0..20).map(|_| {
            let before = real_ns();
            sender.send(&sent(&whole));
            let (got, _) = next(&receiver, UDP);
            let took = real_ns() - before;
            assert_eq!(got[..12], [mac_of(PortId(5)), mac_of(PortId(4))].concat());
            assert_eq!(got[14..], packet(v4(2), hops - 2, &payload));
            assert!(took >= 15 * MS, "{took}");
            took
        });
        // No later than a busy machine makes it.
        assert!(ways.any(|took| took < 25 * MS));
    }
    // Over the table's other way: back to where it came from.
    table.set(
        1,
        1,
        &[NeighbourRoute {
            port: PortId(3),
            far_port: PortId(2),
        }],
    );
    sender.send(&sent(&packet(v4(2), 5, &payload)));
    let (answer, _) = next(&sender, ICMP);
    assert_eq!(
        answer[34], 11,
        "it comes round until it has lived for too long"
    );
    table.set(1, 1, &[]);
    sender.send(&sent(&packet(v4(2), 5, &payload)));
    let (answer, _) = next(&sender, ICMP);
    assert_eq!((answer[34], answer[35]), (3, 0));
    assert_eq!(answer[26..30], own(1).octets());
    let stats = lab.handle.relay_stats().unwrap();
    assert_eq!(
        (stats.early, stats.emulator_drops.total()),
        (0, 0),
        "{stats:?}"
    );
    every_slot_comes_back(&lab, SLOTS);
}

/// Packets go back and forth between two nodes, so that one reaches a node every three microseconds: the relay sleeps from
/// one multiple of its grain to the next all the same.
#[test]
fn with_a_grain_the_relay_sleeps_whatever_comes_due() {
    const GRAIN_NS: u64 = 500_000;
    const PACKETS: usize = 300;
    let (lab, table) = lab_with(RelayConfig {
        grain_ns: GRAIN_NS,
        ..RelayConfig::new("transit", 6, 1)
    });
    lab.apply(link(2, 3, MS));
    let back = NeighbourRoute {
        port: PortId(3),
        far_port: PortId(2),
    };
    table.set(1, 1, &[back]);
    let sender = lab.nodes[0].run(|| Raw::new(IPV4));
    let looping = sent(&packet(v4(2), 255, &[7; 64]));
    // The machine may have other work in one try.
    let slept = (0..5).map(|_| {
        for _ in 0..PACKETS {
            let next = mono_ns() + MS / PACKETS as u64;
            sender.send(&looping);
            while mono_ns() < next {}
        }
        let before = lab.handle.relay_stats().unwrap();
        thread::sleep(Duration::from_millis(100));
        let after = lab.handle.relay_stats().unwrap();
        assert!(after.totals.held >= PACKETS * 9 / 10, "{after:?}");
        assert_eq!(
            (after.early, after.emulator_drops.total()),
            (0, 0),
            "{after:?}"
        );
        eventually("all have lived for too long", || {
            let held = lab.handle.relay_stats().unwrap().totals.held;
            (held == 0).then_some(())
        });
        let multiples = (after.at_ns - before.at_ns) / GRAIN_NS;
        (after.sleeps - before.sleeps, multiples)
    });
    let slept: Vec<(u64, u64)> = slept.collect();
    let all = |(sleeps, multiples): &(u64, u64)| *sleeps >= multiples * 3 / 4;
    assert!(slept.iter().any(all), "{slept:?}");
    every_slot_comes_back(&lab, SLOTS);
}

#[test]
fn what_goes_no_further_is_answered_and_counted() {
    let (lab, _) = lab();
    let raw = lab.nodes[0].run(|| Raw::new(IPV4));
    for (hops, member) in [(1, 0), (2, 1)] {
        raw.send(&sent(&packet(v4(2), hops, b"expires on its way")));
        let (answer, _) = next(&raw, ICMP);
        assert_eq!((answer[34], answer[35]), (11, 0));
        assert_eq!(answer[26..30], own(member).octets());
    }
    raw.send(&sent(&packet(v4(2), 64, &[7; 1200])));
    let (answer, _) = next(&raw, ICMP);
    assert_eq!((answer[34], answer[35]), (3, 4));
    let mtu = u16::from_be_bytes([answer[40], answer[41]]);
    assert_eq!(u32::from(mtu), NARROW_MTU);
    // For the node itself, where no program listens.
    raw.send(&sent(&packet(own(0), 64, b"hello")));
    let (answer, _) = next(&raw, ICMP);
    assert_eq!((answer[34], answer[35]), (3, 3));
    // Not IP, for another node, cut short.
    raw.send(&frame(mac_of(PortId(1)), mac_of(PortId(0)), ODD, &[1; 60]));
    raw.send(&frame(
        BROADCAST,
        mac_of(PortId(0)),
        IPV4,
        &packet(v4(2), 9, b"x"),
    ));
    raw.send(&sent(&packet(v4(2), 9, b"cut short")[..22]));
    let first = eventually("all is counted", || {
        let counts = lab.handle.transit(0).unwrap().unwrap();
        (counts.dropped_for(Cause::Malformed) == 1).then_some(counts)
    });
    for (cause, least) in [
        (Cause::Expired, 1),
        (Cause::NoProgram, 1),
        (Cause::NotIp, 1),
        (Cause::NotForUs, 1),
    ] {
        assert!(first.dropped_for(cause) >= least, "{cause:?}: {first:?}");
    }
    let second = lab.handle.transit(1).unwrap().unwrap();
    assert_eq!(second.dropped_for(Cause::TooBig), 1);
    assert_eq!(lab.handle.transit(2).unwrap(), None);
    let sums = lab.handle.snapshot().unwrap().counters;
    assert_eq!(sums["forward_dropped_too_big"], 1);
    assert_eq!(sums["answered"], first.answered + second.answered);
    every_slot_comes_back(&lab, SLOTS);
}

/// A flood that dies at the first node causes no more answers than the bound that RFC 1812 requires. Frames for which
/// the relay had no time were refused at the port, and every frame is counted once.
#[test]
fn a_flood_that_expires_is_answered_seldom() {
    let (lab, _) = lab();
    let raw = lab.nodes[0].run(|| Raw::new(IPV4));
    let flood = sent(&packet(v4(2), 1, &[0; 64]));
    let start = Instant::now();
    let sent_frames = (0..20_000).filter(|_| raw.try_send(&flood)).count() as u64;
    let (counts, stats) = eventually("every frame is counted", || {
        let counts = lab.handle.transit(0).unwrap().unwrap();
        let stats = lab.handle.relay_stats().unwrap();
        let known = counts.dropped_for(Cause::Expired) + stats.emulator_drops.total();
        (stats.totals.held == 0 && known >= sent_frames).then_some((counts, stats))
    });
    let took_s = start.elapsed().as_secs() + 1;
    let (expired, shed) = (
        counts.dropped_for(Cause::Expired),
        stats.emulator_drops.share + stats.emulator_drops.ring,
    );
    assert!(expired > 1000, "{counts:?}, {stats:?}");
    // The node's kernel may have had a word of its own with its neighbours.
    assert!(
        (sent_frames..sent_frames + 10).contains(&(expired + shed)),
        "{sent_frames} frames: {counts:?}, {stats:?}"
    );
    // A burst, and a hundred a second.
    assert!(
        (50..=50 + 100 * took_s).contains(&counts.answered),
        "{took_s} s: {counts:?}, {stats:?}"
    );
    every_slot_comes_back(&lab, SLOTS);
}
