//! Forwarding by the shared map, in namespaces that exist only here: what is plain transit leaves by the map, and all else
//! is the kernel's.

use crate::support;

mod packets;
mod row;

use std::net::IpAddr;

use constel_link::{PortId, mac_of};

use packets::{
    DONT_FRAGMENT, MORE_FRAGMENTS, Packet, TIME_EXCEEDED, TOO_BIG, UNREACHABLE, icmp, ipv4_checked,
};
use row::{FAR, NEAR, NOWHERE, Row, Tables};

/// Kernels that know no way: whatever arrives came by the map.
#[test]
fn transit_leaves_by_the_map_alone() {
    let row = Row::new(Tables::Empty);
    for v6 in [false, true] {
        let sent = Packet::new(v6, NEAR, FAR).ttl(64);
        let got = row.across(&sent);
        assert_eq!(
            got.destination(),
            mac_of(PortId(5)),
            "the last link's far end"
        );
        assert_eq!(got.source(), mac_of(PortId(4)), "the last link's near end");
        assert_eq!(got.ttl(), 62, "two routers");
        assert!(
            v6 || ipv4_checked(got.packet()),
            "the header's checksum holds"
        );
        assert_eq!(got.payload(), sent.payload(), "nothing else is changed");
    }
    // Every value of the checksum's upper byte, so that each carry is met.
    for payload in 0..=255 {
        let sent = Packet::new(false, NEAR, FAR)
            .identification(payload << 8)
            .ttl(9);
        let got = row.across(&sent);
        assert!(ipv4_checked(got.packet()), "identification {payload} << 8");
    }
    // And not without the map.
    row.forget();
    assert!(row.stays(&Packet::new(false, NEAR, FAR).ttl(64)));
}

/// The errors that traceroute needs.
#[test]
fn the_last_hop_to_live_is_answered_by_the_right_node() {
    let row = Row::new(Tables::Full);
    for v6 in [false, true] {
        for (ttl, router) in [(1, 1), (2, 2)] {
            let sent = Packet::new(v6, NEAR, FAR).ttl(ttl);
            let (from, kind) = row.answer(&sent);
            assert_eq!(kind, icmp(v6, TIME_EXCEEDED));
            assert!(
                row.addresses_of(router).contains(&from),
                "hop {ttl} answers, not {from}"
            );
        }
        row.across(&Packet::new(v6, NEAR, FAR).ttl(3));
    }
}

#[test]
fn too_large_for_the_next_link_is_answered() {
    let row = Row::new(Tables::Full);
    row.narrow_last_link(1400);
    for v6 in [false, true] {
        let large = Packet::new(v6, NEAR, FAR)
            .ttl(9)
            .flags(DONT_FRAGMENT)
            .filled(1450);
        let (from, kind) = row.answer(&large);
        assert_eq!(kind, icmp(v6, TOO_BIG));
        assert!(
            row.addresses_of(2).contains(&from),
            "{from} is not where it is narrow"
        );
        let fits = Packet::new(v6, NEAR, FAR)
            .ttl(9)
            .flags(DONT_FRAGMENT)
            .filled(1400);
        row.across(&fits);
    }
}

#[test]
fn destinations_without_an_entry_are_the_kernels() {
    let row = Row::new(Tables::Full);
    for v6 in [false, true] {
        let (from, kind) = row.answer(&Packet::new(v6, NEAR, NOWHERE).ttl(9));
        assert_eq!(kind, icmp(v6, UNREACHABLE));
        assert!(row.addresses_of(1).contains(&from));
    }
    row.forget();
    for v6 in [false, true] {
        let got = row.across(&Packet::new(v6, NEAR, FAR).ttl(64));
        assert_eq!(got.ttl(), 62);
    }
}

/// The kernels have no way for them, so none of these may arrive.
#[test]
fn no_router_forwards_these() {
    let row = Row::new(Tables::Empty);
    let v4 = || Packet::new(false, NEAR, FAR).ttl(64);
    let v6 = || Packet::new(true, NEAR, FAR).ttl(64);
    let from = |packet: Packet, source: &str| packet.from(source.parse::<IpAddr>().unwrap());
    for (what, packet) in [
        ("a damaged header", v4().damaged()),
        ("a loopback source", from(v4(), "127.0.0.1")),
        ("a source that is a group", from(v4(), "224.0.0.1")),
        ("no source", from(v4(), "0.0.0.0")),
        ("longer than its frame", v4().claims(1000)),
        ("a link-local source, IPv6", from(v6(), "fe80::1")),
        ("no source, IPv6", from(v6(), "::")),
        ("a source that is a group, IPv6", from(v6(), "ff02::1")),
        ("longer than its frame, IPv6", v6().claims(1000)),
        ("IPv4's destination in an IPv6 packet", v6().into_mapped()),
        // These a router does forward, the kernel by its own table.
        ("options", v4().options()),
        ("a first fragment", v4().flags(MORE_FRAGMENTS)),
        ("a last fragment", v4().flags(100)),
        ("a hop-by-hop header", v6().hop_by_hop()),
    ] {
        assert!(row.stays(&packet), "{what}");
    }
    // The way is there all the same.
    row.across(&v4());
    row.across(&v6());
}

#[test]
fn options_and_fragments_go_by_the_kernels_tables() {
    let row = Row::new(Tables::Full);
    let v4 = || Packet::new(false, NEAR, FAR).ttl(64);
    for packet in [v4().options(), v4().flags(MORE_FRAGMENTS), v4().flags(100)] {
        assert_eq!(row.across(&packet).ttl(), 62);
    }
}

/// A tagged frame is not for the port, whatever is in it.
#[test]
fn frames_with_a_tag_stay() {
    let row = Row::new(Tables::Empty);
    assert!(row.stays(&Packet::new(false, NEAR, FAR).ttl(64).tagged()));
}

#[test]
fn a_stream_crosses_as_super_frames() {
    const BYTES: usize = 8 << 20;
    let row = Row::new(Tables::Empty);
    assert_eq!(row.stream(BYTES), BYTES);
    let frames = row.received_by(1);
    assert!(
        frames < BYTES as u64 / 1500 / 2,
        "{frames} frames are no super-frames"
    );
}
