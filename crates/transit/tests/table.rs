//! The table: ways come and go, and addresses beside a node are known.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use constel_link::PortId;
use constel_transit::{
    GoalAddresses, Limit, Member, MemberPort, Node, Place, Table, TableError, TableSpec, Way,
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
        goals: vec![GoalAddresses(vec![v4(9).into(), v6(9).into()])],
        v4_of_ports: vec![
            (laser(0), PortId(0)),
            (laser(1), PortId(2)),
            (ground(1), PortId(1)),
            (ground(2), PortId(3)),
            (ground(3), PortId(4)),
        ],
    }
}

fn towards(port: u32, far_port: u32) -> Place {
    Place::Towards(Way {
        port: PortId(port),
        far_port: PortId(far_port),
    })
}

#[test]
fn ways_come_change_and_go_for_both_families_at_once() {
    let table = Table::new(spec()).unwrap();
    let goal = table.goal(v4(9).into()).unwrap();
    assert_eq!(table.goal(v6(9).into()), Some(goal));
    let both = |wanted: Place| {
        for address in [IpAddr::from(v4(9)), v6(9).into()] {
            assert_eq!(table.place(0, address), wanted);
            assert_eq!(table.place(1, address), Place::Nowhere);
        }
    };
    both(Place::Nowhere);
    for (port, far) in [(0, 2), (1, 4), (0xff_ffff, 0xff_fffe)] {
        let way = Way {
            port: PortId(port),
            far_port: PortId(far),
        };
        table.set(0, goal, Some(way));
        assert_eq!(table.way(0, goal), Some(way));
        both(towards(port, far));
    }
    table.set(0, goal, None);
    both(Place::Nowhere);
    table.set(7, goal, None);
    assert_eq!(table.way(7, goal), None, "there is no such node");
}

#[test]
fn a_node_knows_itself_and_who_is_beside_it() {
    let table = Table::new(spec()).unwrap();
    assert_eq!(table.member_of(PortId(3)), Some(1));
    assert_eq!(table.member_of(PortId(4)), None);
    assert_eq!(table.member_of(PortId(5)), None);
    let at = |a, b, c, d| IpAddr::from(Ipv4Addr::new(a, b, c, d));
    for own in [at(10, 0, 0, 1), at(10, 128, 0, 0), at(10, 64, 0, 1)] {
        assert_eq!(table.place(0, own), Place::Own, "{own}");
    }
    assert_eq!(table.place(0, v6(1).into()), Place::Own);
    assert_eq!(table.place(0, at(10, 128, 0, 1)), towards(0, 2));
    assert_eq!(table.place(0, at(10, 64, 0, 3)), towards(1, 4));
    assert_eq!(table.place(0, at(10, 64, 0, 77)), Place::Nowhere);
    assert_eq!(table.place(0, v4(2).into()), Place::Nowhere, "no goal");
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
        goals: vec![GoalAddresses::default(); 30_000],
        ..TableSpec::default()
    };
    let TableError::TooLarge { bytes, .. } = Table::new(spec).unwrap_err();
    assert_eq!(bytes, 7_200_000_000);
}
