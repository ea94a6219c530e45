//! Addresses of all nodes without a stack, and their routes to all destinations.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{PortId, port_of_mac};

use crate::transit::limit::Limit;
use crate::transit::shared::Shared;
use crate::transit::{AddressLocation, Flow, NeighbourRoute, Node};

/// Bits of a port number.
const PORT_BITS: u32 = 24;
const PORT_MASK: u64 = (1 << PORT_BITS) - 1;
/// Set in a word with a path; a word without it means that there is no route.
const IS_A_WAY: u64 = 1 << (2 * PORT_BITS);
/// Set in a word with the number of a set of paths that share the packets.
const ARE_SEVERAL: u64 = 1 << (2 * PORT_BITS + 1);
/// Maximum size of all routes, bytes.
const WAYS_BYTES: usize = 1 << 30;
const NOBODY: u32 = u32::MAX;

/// A node without a network stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node's source address; `None`: it does not support IPv4.
    pub v4: Option<Ipv4Addr>,
    /// The node's IPv6 source address; `None`: it does not support IPv6.
    pub v6: Option<Ipv6Addr>,
    /// Its ports.
    pub ports: Vec<MemberPort>,
}

/// A port of a node without a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPort {
    /// Its number.
    pub port: PortId,
    /// The only port that it ever leads to; `None`: there may be several.
    pub far_port: Option<PortId>,
    /// Subnet of the port, as its own address and the length of the prefix.
    pub subnet: Option<(Ipv4Addr, u8)>,
    /// The largest packet that leaves by it.
    pub mtu_bytes: u32,
}

/// The addresses of a destination, each with the full prefix length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DestinationAddresses(pub Vec<IpAddr>);

/// Contents of a table.
#[derive(Clone, Debug, Default)]
pub struct TableSpec {
    /// Number of ports in the lab, numbered from 0.
    pub ports: u32,
    /// The nodes; a node's index here is its number.
    pub members: Vec<Member>,
    /// The destinations; an index here is a destination's number.
    pub goals: Vec<DestinationAddresses>,
    /// The IPv4 addresses of all ports of the lab.
    pub v4_of_ports: Vec<(Ipv4Addr, PortId)>,
}

/// Reason why a table cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The routes of all nodes and destinations would be too large.
    #[error(
        "{members} nodes that forward and {goals} destinations need {bytes} bytes for their ways, and {WAYS_BYTES} is the most"
    )]
    TooLarge {
        /// Nodes.
        members: usize,
        /// Destinations.
        goals: usize,
        /// Bytes that they would take.
        bytes: usize,
    },
}

/// A fast hash without protection against chosen keys: all addresses are those of the lab.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }
    fn write_u64(&mut self, word: u64) {
        // The constants are the first fractional digits of pi and 2^64 divided by the golden ratio. Both halves of the
        // product are combined, because the low bits alone would not depend on the high bits of the input.
        let wide = u128::from(self.0 ^ word ^ 0x243f_6a88_85a3_08d3)
            * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
    fn write_u128(&mut self, word: u128) {
        self.write_u64(word as u64);
        self.write_u64((word >> 64) as u64);
    }
}

type ByAddress<A> = HashMap<A, u32, BuildHasherDefault<Fold>>;

#[derive(Clone, Copy, Debug)]
struct Own {
    v4: Option<Ipv4Addr>,
    v6: Option<Ipv6Addr>,
    /// Index of its first port among all members' ports.
    first: u32,
    count: u32,
}

/// The addresses and routes of all nodes without a stack. Routes may be changed while other threads read.
#[derive(Debug)]
pub struct Table {
    /// By port: its member, or [`NOBODY`].
    member_of: Vec<u32>,
    members: Vec<Own>,
    ports: Vec<MemberPort>,
    goals_v4: ByAddress<u32>,
    goals_v6: ByAddress<u128>,
    goals: usize,
    /// Sorted.
    v4_of_ports: Vec<(Ipv4Addr, PortId)>,
    /// By destination, then by member: routes that are read one after the other are adjacent.
    ways: Vec<AtomicU64>,
    shared: Shared,
}

/// The paths of a node to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationRoutes<'t> {
    /// No path, or one.
    One(Option<NeighbourRoute>),
    /// Several paths that share the packets, flow by flow.
    Several(&'t [NeighbourRoute]),
}

impl DestinationRoutes<'_> {
    /// Returns the path of a flow at this node.
    #[must_use]
    #[inline]
    pub fn of(self, flow: &Flow<'_>, node: u32) -> Option<NeighbourRoute> {
        match self {
            DestinationRoutes::One(way) => way,
            DestinationRoutes::Several([]) => None,
            DestinationRoutes::Several(ways) => {
                Some(ways[(flow.number(node) % ways.len() as u64) as usize])
            }
        }
    }
}

impl Table {
    /// Creates a table without routes.
    ///
    /// # Errors
    /// When it would be too large.
    pub fn new(spec: TableSpec) -> Result<Table, TableError> {
        let (members, goals) = (spec.members.len(), spec.goals.len());
        let words = members.saturating_mul(goals);
        let bytes = words.saturating_mul(size_of::<u64>());
        if bytes > WAYS_BYTES {
            return Err(TableError::TooLarge {
                members,
                goals,
                bytes,
            });
        }
        let mut table = Table {
            member_of: vec![NOBODY; spec.ports as usize],
            members: Vec::with_capacity(members),
            ports: Vec::new(),
            goals_v4: ByAddress::default(),
            goals_v6: ByAddress::default(),
            goals,
            v4_of_ports: spec.v4_of_ports,
            ways: (0..words).map(|_| AtomicU64::new(0)).collect(),
            shared: Shared::default(),
        };
        // `beside` searches this list by bisection.
        table.v4_of_ports.sort_unstable();
        for (number, member) in (0..).zip(spec.members) {
            table.members.push(Own {
                v4: member.v4,
                v6: member.v6,
                first: table.ports.len() as u32,
                count: member.ports.len() as u32,
            });
            for port in &member.ports {
                if let Some(member) = table.member_of.get_mut(port.port.0 as usize) {
                    *member = number;
                }
            }
            table.ports.extend(member.ports);
        }
        for (number, goal) in (0..).zip(spec.goals) {
            for address in goal.0 {
                match address {
                    IpAddr::V4(v4) => table.goals_v4.insert(v4.to_bits(), number),
                    IpAddr::V6(v6) => table.goals_v6.insert(v6.to_bits(), number),
                };
            }
        }
        Ok(table)
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Returns the node that has a port; `None`: the port's node has a stack.
    #[must_use]
    #[inline]
    pub fn member_of(&self, port: PortId) -> Option<u32> {
        let member = self.member_of.get(port.0 as usize).copied();
        member.filter(|member| *member != NOBODY)
    }

    /// Returns the number of the destination that has this address.
    #[must_use]
    #[inline]
    pub fn goal(&self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(v4) => self.goals_v4.get(&v4.to_bits()).copied(),
            IpAddr::V6(v6) => self.goals_v6.get(&v6.to_bits()).copied(),
        }
    }

    /// Sets the node's paths to the destination, which share its packets flow by flow. Readers see successive changes
    /// in this order. Unknown nodes and destinations are ignored. If there is no room for another set of paths, beyond
    /// a hundred million sets, the first path is used.
    pub fn set(&self, member: u32, goal: u32, ways: &[NeighbourRoute]) {
        let one = |way: &NeighbourRoute| {
            IS_A_WAY | u64::from(way.port.0) << PORT_BITS | u64::from(way.far_port.0)
        };
        let word = match ways {
            [] => 0,
            [way] => one(way),
            [first, ..] => match self.shared.number(ways) {
                Some(number) => ARE_SEVERAL | u64::from(number),
                // All numbers of sets are in use: the first path then carries all packets.
                None => one(first),
            },
        };
        // One store: a packet sees either the old or the new route. Release makes a new set of paths visible before its
        // number.
        if let Some(place) = self.word(member, goal) {
            place.store(word, Ordering::Release);
        }
    }

    /// Returns the node's paths to the destination.
    #[must_use]
    #[inline]
    pub fn ways(&self, member: u32, goal: u32) -> DestinationRoutes<'_> {
        let word = self.word(member, goal);
        let word = word.map_or(0, |word| word.load(Ordering::Acquire));
        // Acquire pairs with the release in `set`: the set of paths is visible before its number.
        if word & ARE_SEVERAL != 0 {
            return DestinationRoutes::Several(self.shared.ways(word as u32));
        }
        let port = |word: u64| PortId((word & PORT_MASK) as u32);
        DestinationRoutes::One((word & IS_A_WAY != 0).then(|| NeighbourRoute {
            port: port(word >> PORT_BITS),
            far_port: port(word),
        }))
    }

    fn word(&self, member: u32, goal: u32) -> Option<&AtomicU64> {
        let (member, goal) = (member as usize, goal as usize);
        let there = member < self.members.len() && goal < self.goals;
        there.then(|| &self.ways[goal * self.members.len() + member])
    }

    fn own(&self, member: u32) -> Option<(&Own, &[MemberPort])> {
        let own = self.members.get(member as usize)?;
        let first = own.first as usize;
        Some((own, &self.ports[first..first + own.count as usize]))
    }

    /// Returns where a node sends a packet of this flow for this address.
    #[must_use]
    #[inline]
    pub fn place(&self, member: u32, address: IpAddr, flow: &Flow<'_>) -> AddressLocation {
        let Some((own, ports)) = self.own(member) else {
            return AddressLocation::Nowhere;
        };
        let is_own = match address {
            IpAddr::V4(v4) => own.v4 == Some(v4),
            IpAddr::V6(v6) => own.v6 == Some(v6),
        };
        // The own address is tested first: a node never forwards a packet to itself.
        if is_own {
            return AddressLocation::Own;
        }
        // A destination that the table knows is not searched among the neighbours, even if it has no route at the
        // moment.
        if let Some(goal) = self.goal(address) {
            let way = self.ways(member, goal).of(flow, member);
            return way.map_or(AddressLocation::Nowhere, AddressLocation::Towards);
        }
        let IpAddr::V4(v4) = address else {
            return AddressLocation::Nowhere;
        };
        self.beside(member, ports, v4)
    }

    /// Returns all paths that a node uses for this address; empty for the node's own address.
    #[must_use]
    pub fn ways_to(&self, member: u32, address: IpAddr) -> Vec<NeighbourRoute> {
        let AddressLocation::Towards(way) = self.place(member, address, &Flow::default()) else {
            return Vec::new();
        };
        match self.goal(address).map(|goal| self.ways(member, goal)) {
            Some(DestinationRoutes::Several(all)) => all.to_vec(),
            _ => vec![way],
        }
    }

    /// Locates an address of a port: the node's own, or one at the other end of a link.
    fn beside(&self, member: u32, ports: &[MemberPort], address: Ipv4Addr) -> AddressLocation {
        let known = &self.v4_of_ports;
        let Ok(at) = known.binary_search_by_key(&address, |row| row.0) else {
            return AddressLocation::Nowhere;
        };
        let far_port = known[at].1;
        // Addresses of ports belong to the node as well as the address of its loopback.
        if self.member_of(far_port) == Some(member) {
            return AddressLocation::Own;
        }
        // On a shared link the far port varies; the prefix then decides whether the address is on the link.
        let leads_there = |port: &&MemberPort| match port.far_port {
            Some(far) => far == far_port,
            None => port
                .subnet
                .is_some_and(|(own, len)| in_one_subnet(own, address, len)),
        };
        let port = ports.iter().find(leads_there);
        port.map_or(AddressLocation::Nowhere, |port| {
            AddressLocation::Towards(NeighbourRoute {
                port: port.port,
                far_port,
            })
        })
    }

    /// Returns a node of the table that decides about packets at `now_ns`; `limit` is the node's own.
    #[must_use]
    #[inline]
    pub fn seat<'t>(&'t self, member: u32, limit: &'t mut Limit, now_ns: u64) -> Seat<'t> {
        Seat {
            table: self,
            member,
            limit,
            now_ns,
        }
    }
}

fn in_one_subnet(a: Ipv4Addr, b: Ipv4Addr, len: u8) -> bool {
    let host_bits = 32_u32.saturating_sub(u32::from(len));
    // A shift by 32 has no result: with prefix length 0 all addresses are in one subnet.
    (a.to_bits() ^ b.to_bits())
        .checked_shr(host_bits)
        .unwrap_or(0)
        == 0
}

/// A node of a table.
#[derive(Debug)]
pub struct Seat<'t> {
    table: &'t Table,
    member: u32,
    limit: &'t mut Limit,
    now_ns: u64,
}

impl Node for Seat<'_> {
    fn place(&self, address: IpAddr, flow: Flow<'_>) -> AddressLocation {
        self.table.place(self.member, address, &flow)
    }

    fn port_of_link_local(&self, address: Ipv6Addr) -> Option<PortId> {
        let s = address.octets();
        // Link-local addresses of ports are modified EUI-64: ff:fe in the middle of the MAC address, and the
        // universal/local bit inverted (RFC 4291, appendix A).
        let local = s[..8] == [0xfe, 0x80, 0, 0, 0, 0, 0, 0] && s[11..13] == [0xff, 0xfe];
        local
            .then(|| port_of_mac([s[8] ^ 2, s[9], s[10], s[13], s[14], s[15]]))
            .flatten()
    }

    fn has_port(&self, port: PortId) -> bool {
        self.table.member_of(port) == Some(self.member)
    }

    fn speaks_as(&self, like: IpAddr) -> Option<IpAddr> {
        let (own, _) = self.table.own(self.member)?;
        match like {
            IpAddr::V4(_) => own.v4.map(IpAddr::V4),
            IpAddr::V6(_) => own.v6.map(IpAddr::V6),
        }
    }

    fn mtu_bytes(&self, port: PortId) -> u32 {
        let ports = self
            .table
            .own(self.member)
            .map_or(&[][..], |(_, ports)| ports);
        let own = ports.iter().find(|own| own.port == port);
        own.map_or(u32::MAX, |own| own.mtu_bytes)
    }

    fn may_complain(&mut self) -> bool {
        self.limit.take(self.now_ns)
    }
}
