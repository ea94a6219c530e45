//! Packets of whatever bytes, at a node of a table: never a panic; what goes on differs in its hops to live alone, and what
//! does not is as it came.
//!
//! `cargo +nightly fuzz run verdicts --fuzz-dir crates/transit/fuzz`
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use constel_link::{PortId, mac_of};
use constel_transit::{
    GoalAddresses, Limit, Member, MemberPort, Packet, Table, TableSpec, Verdict, Way, decide,
};
use libfuzzer_sys::fuzz_target;

fn table() -> Table {
    let port = |port, far_port, mtu_bytes| MemberPort {
        port: PortId(port),
        far_port,
        subnet: Some((Ipv4Addr::new(10, 64, 0, 1 + port as u8), 12)),
        mtu_bytes,
    };
    let spec = TableSpec {
        ports: 4,
        members: vec![Member {
            v4: Some(Ipv4Addr::new(10, 0, 0, 1)),
            v6: Some(Ipv6Addr::new(0xfdc0, 0x57e1, 0, 0, 0, 0, 0, 1)),
            ports: vec![port(0, None, 1500), port(1, Some(PortId(2)), 1280)],
        }],
        goals: (2..4)
            .map(|n| {
                let v6 = Ipv6Addr::new(0xfdc0, 0x57e1, 0, 0, 0, 0, 0, u16::from(n));
                GoalAddresses(vec![Ipv4Addr::new(10, 0, 0, n).into(), v6.into()])
            })
            .collect(),
        v4_of_ports: vec![(Ipv4Addr::new(10, 64, 0, 4), PortId(3))],
    };
    let table = Table::new(spec).expect("small");
    let way = |port, far_port| Way {
        port: PortId(port),
        far_port: PortId(far_port),
    };
    table.set(0, 0, Some(way(0, 3)));
    table.set(0, 1, Some(way(1, 2)));
    table
}

fuzz_target!(|data: &[u8]| {
    let table = table();
    let (mut limit, mut answer) = (Limit::default(), Vec::new());
    let mut bytes = data.to_vec();
    let packet = Packet {
        port: PortId(0),
        from: PortId(3),
        destination: mac_of(PortId(0)),
        len: bytes.len(),
        longest: bytes.len().saturating_sub(2),
        bytes: &mut bytes,
    };
    let verdict = decide(&mut table.seat(0, &mut limit, 0), packet, &mut answer);
    let differ = bytes.iter().zip(data).filter(|(a, b)| a != b).count();
    match verdict {
        Verdict::Forward(_) => assert!((1..=3).contains(&differ)),
        Verdict::Answer(..) => assert!(differ == 0 && answer.len() > 22),
        Verdict::Drop(_) => assert_eq!(differ, 0),
    }
});
