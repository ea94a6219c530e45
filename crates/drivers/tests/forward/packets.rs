//! IP packets by hand, and what is read from those that arrive.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::forward::support::frame;

pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
/// "Use for experimentation" (RFC 3692).
const PROTOCOL: u8 = 253;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const ETHERNET: usize = 14;

pub(crate) const DONT_FRAGMENT: u16 = 0x4000;
pub(crate) const MORE_FRAGMENTS: u16 = 0x2000;

/// A message of ICMP: type and code, of IPv4 and IPv6.
pub(crate) type Message = [(u8, u8); 2];
pub(crate) const TIME_EXCEEDED: Message = [(11, 0), (3, 0)];
pub(crate) const TOO_BIG: Message = [(3, 4), (2, 0)];
pub(crate) const UNREACHABLE: Message = [(3, 0), (1, 0)];

pub(crate) fn icmp(v6: bool, message: Message) -> (u8, u8) {
    message[usize::from(v6)]
}

/// A packet to be sent. No two have the same payload.
#[derive(Clone)]
pub(crate) struct Packet {
    v6: bool,
    source: IpAddr,
    destination: IpAddr,
    ttl: u8,
    flags: u16,
    identification: u16,
    payload: Vec<u8>,
    options: bool,
    damaged: bool,
    claims: u16,
    tagged: bool,
}

impl Packet {
    pub(crate) fn new(v6: bool, from: (Ipv4Addr, Ipv6Addr), to: (Ipv4Addr, Ipv6Addr)) -> Packet {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let of = |(a, b): (Ipv4Addr, Ipv6Addr)| if v6 { b.into() } else { a.into() };
        let mut payload = NUMBER
            .fetch_add(1, Ordering::Relaxed)
            .to_be_bytes()
            .to_vec();
        payload.resize(40, 0xa5);
        Packet {
            v6,
            source: of(from),
            destination: of(to),
            ttl: 64,
            flags: 0,
            identification: 7,
            payload,
            options: false,
            damaged: false,
            claims: 0,
            tagged: false,
        }
    }

    pub(crate) fn is_v6(&self) -> bool {
        self.v6
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub(crate) fn ttl(self, ttl: u8) -> Packet {
        Packet { ttl, ..self }
    }

    pub(crate) fn flags(self, flags: u16) -> Packet {
        Packet { flags, ..self }
    }

    pub(crate) fn identification(self, identification: u16) -> Packet {
        Packet {
            identification,
            ..self
        }
    }

    pub(crate) fn from(self, source: IpAddr) -> Packet {
        Packet { source, ..self }
    }

    /// To the IPv4 destination of the same number, as IPv6 writes it.
    pub(crate) fn into_mapped(self) -> Packet {
        let destination = crate::forward::FAR.0.to_ipv6_mapped().into();
        Packet {
            destination,
            ..self
        }
    }

    /// A packet of this length, from the IP header on.
    pub(crate) fn filled(mut self, bytes: usize) -> Packet {
        let header = if self.v6 { 40 } else { 20 };
        self.payload.resize(bytes - header, 0xa5);
        self
    }

    /// With a header whose checksum is wrong.
    pub(crate) fn damaged(self) -> Packet {
        Packet {
            damaged: true,
            ..self
        }
    }

    /// Claims to be this number of bytes longer than it is.
    pub(crate) fn claims(self, claims: u16) -> Packet {
        Packet { claims, ..self }
    }

    /// With options that ask for nothing.
    pub(crate) fn options(self) -> Packet {
        Packet {
            options: true,
            ..self
        }
    }

    /// With a hop-by-hop header of padding in front of everything.
    pub(crate) fn hop_by_hop(self) -> Packet {
        self.options()
    }

    pub(crate) fn tagged(self) -> Packet {
        Packet {
            tagged: true,
            ..self
        }
    }

    /// The frame by which it goes out.
    pub(crate) fn framed(&self, to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
        let packet = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => self.ipv4(source, destination),
            (IpAddr::V6(source), IpAddr::V6(destination)) => self.ipv6(source, destination),
            mixed => panic!("{mixed:?}"),
        };
        let ether_type = if self.v6 { IPV6 } else { IPV4 };
        if self.tagged {
            let tag = [5_u16.to_be_bytes(), ether_type.to_be_bytes()].concat();
            frame(to, from, VLAN, &[tag, packet].concat())
        } else {
            frame(to, from, ether_type, &packet)
        }
    }

    fn ipv4(&self, source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
        let words = if self.options { 6 } else { 5 };
        let mut header = vec![0x40 | words, 0];
        let length = u16::from(words) * 4 + self.payload.len() as u16 + self.claims;
        header.extend(length.to_be_bytes());
        header.extend(self.identification.to_be_bytes());
        header.extend(self.flags.to_be_bytes());
        header.extend([self.ttl, PROTOCOL, 0, 0]);
        header.extend(source.octets());
        header.extend(destination.octets());
        if self.options {
            // No operation, three times, and the end of the list.
            header.extend([1, 1, 1, 0]);
        }
        let sum = !folded(&header) ^ u16::from(self.damaged);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        [header, self.payload.clone()].concat()
    }

    fn ipv6(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let options: &[u8] = if self.options {
            &[PROTOCOL, 0, 1, 4, 0, 0, 0, 0]
        } else {
            &[]
        };
        let length = (options.len() + self.payload.len()) as u16 + self.claims;
        let mut header = vec![0x60, 0, 0, 0];
        header.extend(length.to_be_bytes());
        header.extend([if self.options { 0 } else { PROTOCOL }, self.ttl]);
        header.extend(source.octets());
        header.extend(destination.octets());
        [&header, options, &self.payload].concat()
    }
}

fn folded(bytes: &[u8]) -> u16 {
    let words = bytes.as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Whether the checksum of this packet's header holds.
pub(crate) fn ipv4_checked(packet: &[u8]) -> bool {
    folded(&packet[..usize::from(packet[0] & 15) * 4]) == 0xffff
}

/// A frame that came in, of one of the two families.
pub(crate) struct Got(pub(crate) Vec<u8>);

impl Got {
    pub(crate) fn destination(&self) -> [u8; 6] {
        self.0[..6].try_into().expect("six bytes")
    }

    pub(crate) fn source(&self) -> [u8; 6] {
        self.0[6..12].try_into().expect("six bytes")
    }

    pub(crate) fn packet(&self) -> &[u8] {
        &self.0[ETHERNET..]
    }

    fn is_v6(&self) -> bool {
        self.packet()[0] >> 4 == 6
    }

    pub(crate) fn ttl(&self) -> u8 {
        self.packet()[if self.is_v6() { 7 } else { 8 }]
    }

    /// The protocol after the IP header.
    fn next(&self) -> u8 {
        self.packet()[if self.is_v6() { 6 } else { 9 }]
    }

    fn header(&self) -> usize {
        match self.is_v6() {
            true => 40,
            false => usize::from(self.packet()[0] & 15) * 4,
        }
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.packet()[self.header()..]
    }

    /// Whether it is this packet, at its end, and not an answer that quotes it.
    pub(crate) fn is(&self, sent: &Packet) -> bool {
        self.packet().ends_with(sent.payload()) && ![ICMP, ICMPV6].contains(&self.next())
    }

    /// Sender, type and code of an ICMP error.
    pub(crate) fn error(&self) -> Option<(IpAddr, (u8, u8))> {
        let packet = self.packet();
        let message = self.payload();
        let kind = (*message.first()?, *message.get(1)?);
        if self.is_v6() {
            let from: [u8; 16] = packet[8..24].try_into().expect("sixteen bytes");
            (self.next() == ICMPV6 && kind.0 < 128).then_some((Ipv6Addr::from(from).into(), kind))
        } else {
            let from: [u8; 4] = packet[12..16].try_into().expect("four bytes");
            (self.next() == ICMP && matches!(kind.0, 3 | 11))
                .then_some((Ipv4Addr::from(from).into(), kind))
        }
    }
}
