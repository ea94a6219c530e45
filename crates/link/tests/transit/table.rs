//! The table: ways come and go, and addresses beside a node are known.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use constel_link::packet::{fold, words_sum};
use constel_link::transit::{
    AddressLocation, DestinationAddresses, DestinationRoutes, Flow, Limit, Member, MemberPort,
    NeighbourRoute, Node, Packet, Table, TableError, TableSpec, Verdict, decide,
};
use constel_link::{PortId, mac_of};

/// If only one path exists, all flows take it.
const ANY: Flow<'_> = Flow {
    addresses: &[],
    protocol: 0,
    transport: &[],
};

fn v4(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

fn v6(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfdc0, 0, 0, 0, 0, 0, 0, last)
}

/// Two nodes with a laser between ports 0 and 2, and ports 1 and 3 to the ground, where port 4 has a stack.
fn spec() -> TableSpec {
    let port = |port, far_port, address, len| MemberPort {
        port: PortId(port),
        far_port,
        subnet: Some((address, len)),
        mtu_bytes: 1500,
    };
    let laser = |last| Ipv4Addr::new(10, 128, 0, last);
    let ground = |last| Ipv4Addr::new(10, 64, 0, last);
    let member = |n: u8, ports| Member {
        v4: Some(v4(n)),
        v6: Some(v6(u16::from(n))),
        ports,
    };
    let a = member(
        1,
        vec![
            port(0, Some(PortId(2)), laser(0), 31),
            port(1, None, ground(1), 12),
        ],
    );
    let b = member(
        2,
        vec![
            port(2, Some(PortId(0)), laser(1), 31),
            port(3, None, ground(2), 12),
        ],
    );
    TableSpec {
        ports: 5,
        members: vec![a, b],
        goals: vec![DestinationAddresses(vec![v4(9).into(), v6(9).into()])],
        v4_of_ports: vec![
            (laser(0), PortId(0)),
            (laser(1), PortId(2)),
            (ground(1), PortId(1)),
            (ground(2), PortId(3)),
            (ground(3), PortId(4)),
        ],
    }
}

fn towards(port: u32, far_port: u32) -> AddressLocation {
    AddressLocation::Towards(NeighbourRoute {
        port: PortId(port),
        far_port: PortId(far_port),
    })
}

#[test]
fn ways_come_change_and_go_for_both_families_at_once() {
    let table = Table::new(spec()).unwrap();
    let goal = table.goal(v4(9).into()).unwrap();
    assert_eq!(table.goal(v6(9).into()), Some(goal));
    let both = |wanted: AddressLocation| {
        for address in [IpAddr::from(v4(9)), v6(9).into()] {
            assert_eq!(table.place(0, address, &ANY), wanted);
            assert_eq!(table.place(1, address, &ANY), AddressLocation::Nowhere);
        }
    };
    both(AddressLocation::Nowhere);
    for (port, far) in [(0, 2), (1, 4), (0xff_ffff, 0xff_fffe)] {
        let way = NeighbourRoute {
            port: PortId(port),
            far_port: PortId(far),
        };
        table.set(0, goal, &[way]);
        assert_eq!(table.ways(0, goal), DestinationRoutes::One(Some(way)));
        both(towards(port, far));
    }
    table.set(0, goal, &[]);
    both(AddressLocation::Nowhere);
    table.set(7, goal, &[]);
    assert_eq!(
        table.ways(7, goal),
        DestinationRoutes::One(None),
        "there is no such node"
    );
}

#[test]
fn a_node_knows_itself_and_who_is_beside_it() {
    let table = Table::new(spec()).unwrap();
    assert_eq!(table.member_of(PortId(3)), Some(1));
    assert_eq!(table.member_of(PortId(4)), None);
    assert_eq!(table.member_of(PortId(5)), None);
    let at = |a, b, c, d| IpAddr::from(Ipv4Addr::new(a, b, c, d));
    for own in [at(10, 0, 0, 1), at(10, 128, 0, 0), at(10, 64, 0, 1)] {
        assert_eq!(table.place(0, own, &ANY), AddressLocation::Own, "{own}");
    }
    assert_eq!(table.place(0, v6(1).into(), &ANY), AddressLocation::Own);
    assert_eq!(table.place(0, at(10, 128, 0, 1), &ANY), towards(0, 2));
    assert_eq!(table.place(0, at(10, 64, 0, 3), &ANY), towards(1, 4));
    assert_eq!(
        table.place(0, at(10, 64, 0, 77), &ANY),
        AddressLocation::Nowhere
    );
    assert_eq!(
        table.place(0, v4(2).into(), &ANY),
        AddressLocation::Nowhere,
        "no goal"
    );
    let mut limit = Limit::default();
    let seat = table.seat(1, &mut limit, 0);
    let local = |port: u8| Ipv6Addr::new(0xfe80, 0, 0, 0, 0xc5, 0xff, 0xfe00, u16::from(port));
    assert_eq!(seat.port_of_link_local(local(3)), Some(PortId(3)));
    assert_eq!(seat.port_of_link_local(v6(3)), None);
    assert!(seat.has_port(PortId(3)) && !seat.has_port(PortId(1)));
    assert_eq!(seat.speaks_as(v4(0).into()), Some(v4(2).into()));
}

#[test]
fn what_would_take_all_memory_is_refused() {
    let member = Member {
        v4: None,
        v6: None,
        ports: Vec::new(),
    };
    let spec = TableSpec {
        members: vec![member; 30_000],
        goals: vec![DestinationAddresses::default(); 30_000],
        ..TableSpec::default()
    };
    let TableError::TooLarge { bytes, .. } = Table::new(spec).unwrap_err();
    assert_eq!(bytes, 7_200_000_000);
}

/// Ways that share packets do so flow by flow, each node by itself, and all are used.
#[test]
fn flows_keep_to_one_way_and_are_spread_over_all() {
    let table = Table::new(spec()).unwrap();
    let goal = table.goal(v4(9).into()).unwrap();
    let ways: Vec<NeighbourRoute> = (0..3)
        .map(|n| NeighbourRoute {
            port: PortId(n % 2),
            far_port: PortId(n + 2),
        })
        .collect();
    for member in 0..2 {
        table.set(member, goal, &ways);
        assert_eq!(table.ways(member, goal), DestinationRoutes::Several(&ways));
        assert_eq!(table.ways_to(member, v6(9).into()), ways);
    }
    let taken = |member, protocol, source_port: u16, rest: u8| {
        let [high, low] = source_port.to_be_bytes();
        let flow = Flow {
            addresses: &[10, 0, 0, 7, 10, 0, 0, 9],
            protocol,
            transport: &[high, low, 0, 80, rest, rest],
        };
        match table.place(member, v4(9).into(), &flow) {
            AddressLocation::Towards(way) => ways.iter().position(|own| *own == way).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let mut counts = [[0u32; 3]; 2];
    let mut alike = 0;
    for port in 0..3000 {
        for member in 0..2 {
            let way = taken(member, 6, port, 1);
            assert_eq!(way, taken(member, 6, port, 2), "what is behind the ports");
            counts[member as usize][way] += 1;
        }
        alike += u32::from(taken(0, 17, port, 1) == taken(1, 17, port, 1));
        assert_eq!(
            taken(0, 1, port, 1),
            taken(0, 1, 0, 2),
            "no ports: one flow"
        );
    }
    for count in counts.as_flattened() {
        assert!((800..1200).contains(count), "{counts:?}");
    }
    assert!(
        (800..1200).contains(&alike),
        "nodes choose by themselves: {alike}"
    );
    table.set(0, goal, &ways[..1]);
    assert_eq!(table.ways(0, goal), DestinationRoutes::One(Some(ways[0])));
    assert_eq!(table.ways_to(0, v4(1).into()), [], "its own");
}

/// UDP for 10.0.0.9 or its like, from this port; `fragment`: a first piece.
fn udp(ipv6: bool, source_port: u16, fragment: bool) -> Vec<u8> {
    let mut packet = if ipv6 {
        let mut packet = vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64];
        packet.extend(v6(7).octets());
        packet.extend(v6(9).octets());
        packet
    } else {
        let flags = if fragment { 0x20 } else { 0x40 };
        let mut packet = vec![8, 0, 0x45, 0, 0, 28, 0, 1, flags, 0, 64, 17, 0, 0];
        packet.extend(v4(7).octets());
        packet.extend(v4(9).octets());
        let sum = !fold(words_sum(&packet[2..]));
        packet[12..14].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    packet.extend(source_port.to_be_bytes());
    packet.extend([0, 80, 0, 8, 0, 0]);
    packet
}

#[test]
fn packets_take_the_way_of_their_flow() {
    let table = Table::new(spec()).unwrap();
    let ways = [(0, 2), (1, 4)].map(|(port, far_port)| NeighbourRoute {
        port: PortId(port),
        far_port: PortId(far_port),
    });
    table.set(0, 0, &ways);
    let taken = |mut bytes: Vec<u8>| {
        let packet = Packet {
            port: PortId(0),
            from: PortId(2),
            destination: mac_of(PortId(0)),
            len: bytes.len(),
            longest: bytes.len() - 2,
            bytes: &mut bytes,
        };
        let mut limit = Limit::default();
        match decide(&mut table.seat(0, &mut limit, 0), packet, &mut Vec::new()) {
            Verdict::Forward(way) => ways.iter().position(|own| *own == way).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    for ipv6 in [false, true] {
        let first = (0..1000).filter(|port| taken(udp(ipv6, *port, false)) == 0);
        assert!((400..600).contains(&first.count()), "ipv6: {ipv6}");
    }
    let pieces: Vec<usize> = (0..100).map(|port| taken(udp(false, port, true))).collect();
    assert!(
        pieces.iter().all(|way| *way == pieces[0]),
        "pieces stay together"
    );
}
