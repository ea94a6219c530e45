//! Tables and packets for tests, and a plain reading of both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use constel_link::transit::{AddressLocation, Flow, NeighbourRoute, Node};
use constel_link::{PortId, mac_of, port_of_mac};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net {
    V4,
    V6,
}

/// A table that is searched from end to end.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    v4: Ipv4Addr,
    v6: Ipv6Addr,
    rows: Vec<(IpAddr, u8, NeighbourRoute)>,
    mtus: Vec<u32>,
    pub(crate) tokens: usize,
}

fn v4_of(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, n >> 4, n).into()
}

fn v6_of(n: u8) -> IpAddr {
    Ipv6Addr::new(0xfdc0, 0, 0, u16::from(n >> 4), 0, 0, 0, u16::from(n)).into()
}

fn way_of(n: u8) -> NeighbourRoute {
    NeighbourRoute {
        port: PortId(u32::from(n % 4)),
        far_port: PortId(u32::from(n % 4) + 9),
    }
}

pub(crate) fn link_local(port: PortId) -> Ipv6Addr {
    let m = mac_of(port);
    let mut octets = [
        0xfe,
        0x80,
        0,
        0,
        0,
        0,
        0,
        0,
        m[0] ^ 2,
        m[1],
        m[2],
        0xff,
        0xfe,
        0,
        0,
        0,
    ];
    octets[13..].copy_from_slice(&m[3..]);
    octets.into()
}

impl Known {
    pub(crate) fn fixed() -> Known {
        Known {
            v4: Ipv4Addr::new(10, 0, 0, 1),
            v6: Ipv6Addr::new(0xfdc0, 0, 0, 0, 0, 0, 0, 1),
            rows: (2..5)
                .flat_map(|n| [(v4_of(n), 32, way_of(n)), (v6_of(n), 128, way_of(n))])
                .collect(),
            mtus: vec![1500; 4],
            tokens: 1,
        }
    }

    pub(crate) fn own(&self, net: Net) -> IpAddr {
        match net {
            Net::V4 => self.v4.into(),
            Net::V6 => self.v6.into(),
        }
    }

    pub(crate) fn station(&self, net: Net) -> IpAddr {
        match net {
            Net::V4 => v4_of(2),
            Net::V6 => v6_of(2),
        }
    }

    pub(crate) fn far_station(&self, net: Net) -> IpAddr {
        match net {
            Net::V4 => v4_of(3),
            Net::V6 => v6_of(3),
        }
    }

    pub(crate) fn mtu(&self, port: PortId) -> usize {
        self.mtus[port.0 as usize] as usize
    }

    pub(crate) fn longest_prefix(&self, to: IpAddr) -> AddressLocation {
        if to == IpAddr::V4(self.v4) || to == IpAddr::V6(self.v6) {
            return AddressLocation::Own;
        }
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
            IpAddr::V6(v6) => (v6.to_bits(), false),
        };
        let (wanted, v4) = bits(to);
        let fits = |(prefix, len, _): &&(IpAddr, u8, NeighbourRoute)| {
            let (prefix, of_v4) = bits(*prefix);
            v4 == of_v4 && (*len == 0 || (prefix ^ wanted) >> (128 - u32::from(*len)) == 0)
        };
        let rows = self.rows.iter().filter(fits);
        // The first of equally long ones.
        let best = rows.rev().max_by_key(|(_, len, _)| *len);
        best.map_or(AddressLocation::Nowhere, |(_, _, way)| {
            AddressLocation::Towards(*way)
        })
    }
}

impl Node for Known {
    fn place(&self, address: IpAddr, _: Flow<'_>) -> AddressLocation {
        self.longest_prefix(address)
    }

    fn port_of_link_local(&self, address: Ipv6Addr) -> Option<PortId> {
        let s = address.octets();
        let port = port_of_mac([s[8] ^ 2, s[9], s[10], s[13], s[14], s[15]])?;
        (link_local(port) == address).then_some(port)
    }

    fn has_port(&self, port: PortId) -> bool {
        port.0 < 4
    }

    fn speaks_as(&self, like: IpAddr) -> Option<IpAddr> {
        Some(match like {
            IpAddr::V4(_) => self.v4.into(),
            IpAddr::V6(_) => self.v6.into(),
        })
    }

    fn mtu_bytes(&self, port: PortId) -> u32 {
        self.mtus[port.0 as usize]
    }

    fn may_complain(&mut self) -> bool {
        let may = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        may
    }
}

pub(crate) fn known() -> impl Strategy<Value = Known> {
    let row = (any::<bool>(), 0_u8..64, 0_u8..=4, 0_u8..4).prop_map(|(v4, n, cut, way)| {
        let (address, len) = if v4 { (v4_of(n), 32) } else { (v6_of(n), 128) };
        (address, len - cut * 4, way_of(way))
    });
    let mtus = prop::collection::vec(prop_oneof![Just(1500), Just(1280), 1280_u32..1600], 4);
    (prop::collection::vec(row, 0..24), mtus, 0_usize..3).prop_map(|(rows, mtus, tokens)| Known {
        rows,
        mtus,
        tokens,
        ..Known::fixed()
    })
}

/// A packet that can be.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) net: Net,
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) hops: u8,
    protocol: u8,
    kind: u8,
    payload: Vec<u8>,
    pub(crate) may_be_cut_up: bool,
    pub(crate) is_echo: bool,
    pub(crate) is_icmp: bool,
    pub(crate) is_complaint: bool,
}

impl Sent {
    fn new(net: Net, (from, to): (IpAddr, IpAddr), hops: u8, what: u8, payload: Vec<u8>) -> Sent {
        let v4 = net == Net::V4;
        let icmp = if v4 { 1 } else { 58 };
        let (protocol, kind) = match (what, v4) {
            (0, true) => (icmp, 8),
            (0, false) => (icmp, 128),
            (1, true) => (icmp, 11),
            (1, false) => (icmp, 3),
            (2, true) => (icmp, 0),
            (2, false) => (icmp, 129),
            (3, _) => (17, 0),
            _ => (6, 0),
        };
        Sent {
            net,
            from,
            to,
            hops,
            protocol,
            kind,
            payload,
            may_be_cut_up: v4 && what == 3,
            is_echo: what == 0,
            is_icmp: what < 3,
            is_complaint: what == 1,
        }
    }

    pub(crate) fn echo(net: Net, from: IpAddr, to: IpAddr) -> Sent {
        Sent::new(net, (from, to), 64, 0, vec![7; 56])
    }

    pub(crate) fn towards(&self, to: IpAddr) -> Sent {
        Sent { to, ..self.clone() }
    }

    pub(crate) fn ip_len(&self) -> usize {
        self.bytes().len() - 2
    }

    /// The bytes behind the header.
    pub(crate) fn message(&self) -> Vec<u8> {
        let mut message = vec![self.kind, 0, 0, 0, 0x12, 0x34, 0, 1];
        message.extend(&self.payload);
        if self.is_icmp {
            let pseudo = match (self.from, self.to) {
                (IpAddr::V6(from), IpAddr::V6(to)) => pseudo(from, to, message.len()),
                _ => 0,
            };
            let check = !sum(pseudo, &message);
            message[2..4].copy_from_slice(&check.to_be_bytes());
        }
        message
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.with_options(&[])
    }

    pub(crate) fn with_options(&self, options: &[u8]) -> Vec<u8> {
        let message = self.message();
        let mut bytes = Vec::new();
        match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let header = 20 + options.len();
                bytes.extend([0x08, 0x00, 0x40 | (header / 4) as u8, 0]);
                bytes.extend(((header + message.len()) as u16).to_be_bytes());
                bytes.extend([0, 1, if self.may_be_cut_up { 0 } else { 0x40 }, 0]);
                bytes.extend([self.hops, self.protocol, 0, 0]);
                bytes.extend(from.octets());
                bytes.extend(to.octets());
                bytes.extend(options);
                let check = !sum(0, &bytes[2..]);
                bytes[12..14].copy_from_slice(&check.to_be_bytes());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                bytes.extend((message.len() as u16).to_be_bytes());
                bytes.extend([self.protocol, self.hops]);
                bytes.extend(from.octets());
                bytes.extend(to.octets());
            }
            _ => unreachable!("both ends are of one family"),
        }
        bytes.extend(message);
        bytes
    }
}

pub(crate) fn sent() -> impl Strategy<Value = Sent> {
    let size = prop_oneof![0_usize..64, 1200_usize..1600];
    (any::<bool>(), 1_u8..64, 1_u8..64, 0_u8..5, 0_u8..5, size).prop_map(
        |(v4, from, to, hops, what, size)| {
            let (net, of): (Net, fn(u8) -> IpAddr) = if v4 {
                (Net::V4, v4_of)
            } else {
                (Net::V6, v6_of)
            };
            Sent::new(net, (of(from), of(to)), hops, what, vec![0xa5; size])
        },
    )
}

fn pseudo(from: Ipv6Addr, to: Ipv6Addr, len: usize) -> u32 {
    let mut all = from.octets().to_vec();
    all.extend(to.octets());
    all.extend((len as u32).to_be_bytes());
    all.extend([0, 0, 0, 58]);
    u32::from(sum(0, &all))
}

/// RFC 1071.
pub(crate) fn sum(start: u32, bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    let mut sum = words.sum::<u32>() + start;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The contents of an answer.
pub(crate) struct Said {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn parse(bytes: &[u8]) -> Said {
    let v6 = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&bytes[at..at + 16]).unwrap());
    let v4 = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap());
    if bytes[0] == 0x08 {
        Said {
            from: v4(14),
            to: v4(18),
            payload: bytes[22..].to_vec(),
        }
    } else {
        Said {
            from: v6(10),
            to: v6(26),
            payload: bytes[42..].to_vec(),
        }
    }
}

/// An answer's lengths and checksums are right.
pub(crate) fn checks(bytes: &[u8]) {
    let said = parse(bytes);
    match (said.from, said.to) {
        (IpAddr::V4(_), IpAddr::V4(_)) => {
            let total = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
            assert_eq!(total, bytes.len() - 2);
            assert_eq!(sum(0, &bytes[2..22]), 0xffff);
            assert_eq!(sum(0, &said.payload), 0xffff);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let len = usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
            assert_eq!(len, said.payload.len());
            assert_eq!(sum(pseudo(from, to, len), &said.payload), 0xffff);
        }
        _ => unreachable!("both ends are of one family"),
    }
}
