//! Forwarding without a network stack: bytes of a packet go in, a verdict comes out.
//!
//! [`decide`] says what a node does with a packet that has reached one of its ports: it goes on over another port, with a
//! hop less to live; or it is answered, as a router does (echo, time exceeded, unreachable, too big); or it is dropped,
//! for a [`Cause`]. It reads and writes what it is given and nothing else, and no packet makes it panic.
//!
//! [`Table`] is what nodes of a lab go by: their addresses, and for each of them the way to each destination. A change
//! of a way is one store, seen by the next packet.

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
pub use table::{GoalAddresses, Member, MemberPort, Seat, Table, TableError, TableSpec, Ways};

pub(crate) const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
pub(crate) const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Hops to live of what a node says itself.
pub(crate) const OWN_HOPS: u8 = 64;
/// An EtherType.
pub(crate) const TYPE: usize = 2;

/// The way to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// The node's port.
    pub port: PortId,
    /// The port at the far end.
    pub far_port: PortId,
}

impl Way {
    /// Both Ethernet addresses of a frame that takes it.
    #[must_use]
    pub fn addresses(self) -> [u8; 12] {
        let (to, from) = (mac_of(self.far_port), mac_of(self.port));
        std::array::from_fn(|n| if n < 6 { to[n] } else { from[n - 6] })
    }
}

/// Where an address is, as a node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is the node's own.
    Own,
    /// Towards it.
    Towards(Way),
    /// The node knows no way.
    Nowhere,
}

/// What a node knows and may do.
pub trait Node {
    /// Where an address is that means the same everywhere; the longest prefix counts. Of ways that share its packets, the one of
    /// this flow.
    fn place(&self, address: IpAddr, flow: Flow<'_>) -> Place;

    /// The port that has this link-local address; all ports of a lab have one.
    fn port_of_link_local(&self, address: std::net::Ipv6Addr) -> Option<PortId>;

    /// Whether a port is its own.
    fn has_port(&self, port: PortId) -> bool;

    /// The address that it speaks as, of the family of `like`; `None`: it does not speak it.
    fn speaks_as(&self, like: IpAddr) -> Option<IpAddr>;

    /// The largest packet that leaves by a port of its own, bytes.
    fn mtu_bytes(&self, port: PortId) -> u32;

    /// Whether it may send one more message about a packet that went wrong, which it then does.
    fn may_complain(&mut self) -> bool;
}

/// A packet that reached a node.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The port that it reached.
    pub port: PortId,
    /// The port that it came from.
    pub from: PortId,
    /// The Ethernet address that it is for.
    pub destination: [u8; 6],
    /// What is behind the Ethernet addresses: EtherType, packet. Of many packets in one (TCP's super-frames), what their
    /// headers are in.
    pub bytes: &'a mut [u8],
    /// How long that is in all, with what is not in `bytes`.
    pub len: usize,
    /// How long the longest packet in it is, without the EtherType.
    pub longest: usize,
}

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cause {
    /// Its Ethernet address is not the port's: somebody else's, or a group's.
    NotForUs,
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// Cut short, with lengths that cannot be or a wrong checksum.
    Malformed,
    /// From or to an address that nothing is forwarded from or to.
    Address,
    /// Its options say which way to take.
    SourceRoute,
    /// No way to its destination.
    NoRoute,
    /// It has lived for as many hops as it may.
    Expired,
    /// Larger than the next link takes.
    TooBig,
    /// For the node itself, which has no program that could take it.
    NoProgram,
}

impl Cause {
    /// All there are.
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

    /// The word for it in counters.
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

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on this way; its bytes have been changed for that.
    Forward(Way),
    /// It ends here, and an answer goes this way. With a cause, the answer says that it was dropped.
    Answer(Way, Option<Cause>),
    /// It ends here.
    Drop(Cause),
}

/// What `node` does with a packet. An answer is put into `answer`, from its EtherType on; what was in there goes.
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

/// Two bytes at a place, as a number.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..at + 2)
        .map(|two| u16::from_be_bytes([two[0], two[1]]))
}
