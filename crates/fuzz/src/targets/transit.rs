//! Packets with arbitrary bytes at a node of a table. The node must not panic. A forwarded packet differs only in its TTL or
//! hop limit, and any other packet is unchanged. An ICMP error never causes another ICMP error.
//!
//! The first byte selects the fields that are corrected before: addresses that the node has and IPv4's checksum, which chance
//! does not find, and whether the packet is the first segment of a super-frame.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use constel_link::packet::{fold, words_sum};
use constel_link::transit::{
    DestinationAddresses, Limit, Member, MemberPort, NeighbourRoute, Packet, Table, TableSpec,
    Verdict, decide,
};
use constel_link::{PortId, mac_of};

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
                DestinationAddresses(vec![Ipv4Addr::new(10, 0, 0, n).into(), v6.into()])
            })
            .collect(),
        v4_of_ports: vec![(Ipv4Addr::new(10, 64, 0, 4), PortId(3))],
    };
    let table = Table::new(spec).expect("small");
    let way = |port, far_port| NeighbourRoute {
        port: PortId(port),
        far_port: PortId(far_port),
    };
    table.set(0, 0, &[way(0, 3), way(1, 2)]);
    table.set(0, 1, &[way(1, 2)]);
    table
}

use super::Target;

pub(super) fn targets() -> Vec<Target> {
    vec![Target::new("transit-verdicts", packets, verdicts)]
}

/// A selector, and a packet that it corrects: an echo request for the node in each family, and one that is forwarded.
fn packets() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (family, ttl) in [(1, 64), (2, 64), (1, 1), (2, 1)] {
        for to in 0..4_u8 {
            let mut packet = vec![0; 86];
            packet[2] = 0x45;
            packet[2 + if family == 1 { 7 } else { 8 }] = ttl;
            packet[2 + if family == 1 { 6 } else { 9 }] = if family == 1 { 58 } else { 1 };
            if family == 1 {
                packet[2 + 5] = 44;
            }
            packet[2 + if family == 1 { 40 } else { 20 }] = if family == 1 { 128 } else { 8 };
            all.push([&[family | 2 << 2 | to << 4][..], &packet].concat());
        }
    }
    all
}

static TABLE: LazyLock<Table> = LazyLock::new(table);

/// Returns an address of the node or of a known node: itself, both destinations, the neighbour on the port.
fn known(version: u8, which: u8) -> Vec<u8> {
    let n = which & 3;
    match version {
        4 if n == 0 => vec![10, 64, 0, 4],
        4 => vec![10, 0, 0, n],
        // The link-local address of port 3, where the packet came from.
        _ if n == 0 => {
            let mac = mac_of(PortId(3));
            let eui = [
                mac[0] ^ 2,
                mac[1],
                mac[2],
                0xff,
                0xfe,
                mac[3],
                mac[4],
                mac[5],
            ];
            [&[0xfe, 0x80, 0, 0, 0, 0, 0, 0][..], &eui].concat()
        }
        _ => Ipv6Addr::new(0xfdc0, 0x57e1, 0, 0, 0, 0, 0, u16::from(n))
            .octets()
            .to_vec(),
    }
}

/// Corrects the fields that the selector's bits name.
fn mend(selector: u8, packet: &mut [u8]) {
    let (kind, version, from, to, len) = match selector & 3 {
        0 => return,
        1 => ([0x86, 0xdd], 6, 8, 24, 16),
        _ => ([0x08, 0x00], 4, 12, 16, 4),
    };
    if packet.len() < 2 + to + len {
        return;
    }
    let (head, ip) = packet.split_at_mut(2);
    head.copy_from_slice(&kind);
    ip[0] = version << 4 | ip[0] & 15;
    ip[from..from + len].copy_from_slice(&known(version, selector >> 2));
    ip[to..to + len].copy_from_slice(&known(version, selector >> 4));
    let header = usize::from(ip[0] & 15) * 4;
    if version == 4 && (20..=ip.len()).contains(&header) {
        let total = ip.len().min(usize::from(u16::MAX)) as u16;
        if selector & 3 == 2 {
            ip[2..4].copy_from_slice(&total.to_be_bytes());
        }
        ip[10..12].fill(0);
        let sum = !fold(words_sum(&ip[..header]));
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn is_complaint(packet: &[u8]) -> bool {
    match packet {
        [0x08, 0x00, rest @ ..] => [3, 11].contains(&rest[20]),
        [0x86, 0xdd, rest @ ..] => rest[40] < 128,
        _ => false,
    }
}

fn judge(bytes: &mut [u8], more: usize, answer: &mut Vec<u8>) -> Verdict {
    let len = bytes.len() + more;
    let packet = Packet {
        port: PortId(0),
        from: PortId(3),
        destination: mac_of(PortId(0)),
        len,
        longest: bytes.len().saturating_sub(2),
        bytes,
    };
    decide(&mut TABLE.seat(0, &mut Limit::default(), 0), packet, answer)
}

fn verdicts(data: &[u8]) -> bool {
    let [selector, packet @ ..] = data else {
        return false;
    };
    let mut came = packet.to_vec();
    mend(*selector, &mut came);
    let more = if selector & 0x80 != 0 { 20_000 } else { 0 };
    let (mut bytes, mut answer) = (came.clone(), Vec::new());
    let verdict = judge(&mut bytes, more, &mut answer);
    let differ = bytes.iter().zip(&came).filter(|(a, b)| a != b).count();
    match verdict {
        Verdict::Forward(_) => assert!((1..=3).contains(&differ)),
        Verdict::Answer(_, cause) => {
            assert!(differ == 0 && answer.len() > 22 && answer.len() <= 1502);
            assert_eq!(cause.is_some(), is_complaint(&answer));
            // The error comes back to the node, which must not answer it with another error.
            let mut again = Vec::new();
            let about = judge(&mut answer, 0, &mut again);
            let complains = matches!(about, Verdict::Answer(_, Some(_)));
            assert!(!(cause.is_some() && complains));
        }
        Verdict::Drop(_) => assert_eq!(differ, 0),
    }
    !matches!(verdict, Verdict::Drop(_))
}
