//! Forwarding without a network stack: the input is the bytes of a packet, the result a verdict.
//!
//! [`decide`] determines what a node does with a packet that has reached one of its ports. The packet is forwarded over
//! another port, with its TTL or hop limit decremented; or answered, as a router does (echo, time exceeded,
//! unreachable, too big); or dropped, for a [`Cause`]. The function reads and writes its arguments only, and no packet
//! makes it panic.
//!
//! [`Table`] contains the nodes' addresses, and for each node the route to each destination. A change of a route is one
//! store, effective for the next packet.

mod flow;
mod icmp;
mod limit;
mod shared;
mod table;
mod v4;
mod v6;

use std::net::IpAddr;

use crate::{PortId, mac_of};

pub use flow::Flow;
pub use limit::Limit;
pub use table::{
    DestinationAddresses, DestinationRoutes, Member, MemberPort, Seat, Table, TableError, TableSpec,
};

pub(crate) const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
pub(crate) const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// TTL or hop limit of packets that a node sends itself.
pub(crate) const OWN_HOPS: u8 = 64;
/// Length of an EtherType, bytes.
pub(crate) const TYPE: usize = 2;

/// A route: the path to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeighbourRoute {
    /// The node's port.
    pub port: PortId,
    /// The port at the far end.
    pub far_port: PortId,
}

impl NeighbourRoute {
    /// Returns both Ethernet addresses of a frame on this path.
    #[must_use]
    pub fn addresses(self) -> [u8; 12] {
        let (to, from) = (mac_of(self.far_port), mac_of(self.port));
        // Ethernet has the destination before the source.
        std::array::from_fn(|n| if n < 6 { to[n] } else { from[n - 6] })
    }
}

/// Location of an address, as seen from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressLocation {
    /// The address is the node's own.
    Own,
    /// The address is reached on this path.
    Towards(NeighbourRoute),
    /// The node has no route.
    Nowhere,
}

/// Information that a node provides for decisions, and its rate limit.
pub trait Node {
    /// Returns the location of a global address; the longest prefix decides. If several paths share its packets, the
    /// result is the path of this flow.
    fn place(&self, address: IpAddr, flow: Flow<'_>) -> AddressLocation;

    /// Returns the port that has this link-local address; all ports of a lab have one.
    fn port_of_link_local(&self, address: std::net::Ipv6Addr) -> Option<PortId>;

    /// Returns whether a port is the node's own.
    fn has_port(&self, port: PortId) -> bool;

    /// Returns the source address of the node's messages, of the family of `like`; `None`: the node does not support
    /// that family.
    fn speaks_as(&self, like: IpAddr) -> Option<IpAddr>;

    /// Returns the largest packet that leaves by one of the node's ports, bytes.
    fn mtu_bytes(&self, port: PortId) -> u32;

    /// Returns whether the node may send one more ICMP error, and counts it as sent.
    fn may_complain(&mut self) -> bool;
}

/// A packet that reached a node.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The port that it reached.
    pub port: PortId,
    /// The port that it came from.
    pub from: PortId,
    /// Ethernet destination address.
    pub destination: [u8; 6],
    /// Bytes behind the Ethernet addresses: EtherType and packet. For TCP's super-frames, at least the headers.
    pub bytes: &'a mut [u8],
    /// Total length, including the part that is not in `bytes`.
    pub len: usize,
    /// Length of the longest packet in it, without the EtherType.
    pub longest: usize,
}

/// Cause of a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cause {
    /// The Ethernet address is not the port's, but another port's or a group's.
    NotForUs,
    /// The packet is neither IPv4 nor IPv6.
    NotIp,
    /// The packet is truncated, has invalid lengths or a wrong checksum.
    Malformed,
    /// The source or destination address must not be forwarded.
    Address,
    /// The options contain a source route.
    SourceRoute,
    /// There is no route to its destination.
    NoRoute,
    /// The TTL or hop limit has expired.
    Expired,
    /// It is larger than the MTU of the next link.
    TooBig,
    /// It is for the node itself, which has no program to receive it.
    NoProgram,
}

impl Cause {
    /// All causes.
    pub const ALL: [Cause; 9] = [
        Cause::NotForUs,
        Cause::NotIp,
        Cause::Malformed,
        Cause::Address,
        Cause::SourceRoute,
        Cause::NoRoute,
        Cause::Expired,
        Cause::TooBig,
        Cause::NoProgram,
    ];

    /// Returns the word used in counters.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Cause::NotForUs => "not_for_us",
            Cause::NotIp => "not_ip",
            Cause::Malformed => "malformed",
            Cause::Address => "address",
            Cause::SourceRoute => "source_route",
            Cause::NoRoute => "no_route",
            Cause::Expired => "expired",
            Cause::TooBig => "too_big",
            Cause::NoProgram => "no_program",
        }
    }
}

/// Decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet is forwarded on this path; its bytes have been changed accordingly.
    Forward(NeighbourRoute),
    /// The packet ends here, and an answer is sent on this path. With a cause, the answer is an ICMP error about the
    /// drop.
    Answer(NeighbourRoute, Option<Cause>),
    /// The packet ends here without an answer.
    Drop(Cause),
}

/// Decides what `node` does with a packet. An answer is written to `answer`, from its EtherType on, and replaces its
/// previous contents.
pub fn decide(node: &mut impl Node, packet: Packet<'_>, answer: &mut Vec<u8>) -> Verdict {
    if packet.destination != mac_of(packet.port) {
        return Verdict::Drop(Cause::NotForUs);
    }
    let kind = packet.bytes.first_chunk().copied();
    match kind {
        Some(ETHERTYPE_IPV4) => v4::decide(node, packet, answer),
        Some(ETHERTYPE_IPV6) => v6::decide(node, packet, answer),
        _ => Verdict::Drop(Cause::NotIp),
    }
}

/// Reads two bytes as a big-endian number.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..at + 2)
        .map(|two| u16::from_be_bytes([two[0], two[1]]))
}
