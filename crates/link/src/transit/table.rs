//! What all nodes without a stack go by: their addresses, and the way of each to each destination.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{PortId, port_of_mac};

use crate::transit::limit::Limit;
use crate::transit::shared::Shared;
use crate::transit::{Flow, Node, Place, Way};

/// Ports are numbered in so many bits.
const PORT_BITS: u32 = 24;
const PORT_MASK: u64 = (1 << PORT_BITS) - 1;
/// A word without it is no way.
const IS_A_WAY: u64 = 1 << (2 * PORT_BITS);
/// A word with it names ways that share the packets.
const ARE_SEVERAL: u64 = 1 << (2 * PORT_BITS + 1);
/// How much the ways may take, bytes.
const WAYS_BYTES: usize = 1 << 30;
const NOBODY: u32 = u32::MAX;

/// A node without a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The address that it speaks as; `None`: it does not speak IPv4.
    pub v4: Option<Ipv4Addr>,
    /// The same of IPv6.
    pub v6: Option<Ipv6Addr>,
    /// Its ports.
    pub ports: Vec<MemberPort>,
}

/// A port of such a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPort {
    /// Its number.
    pub port: PortId,
    /// The only port that it ever leads to; `None`: there may be several.
    pub far_port: Option<PortId>,
    /// The subnet that it is in, as its own address and the length of the prefix.
    pub subnet: Option<(Ipv4Addr, u8)>,
    /// The largest packet that leaves by it.
    pub mtu_bytes: u32,
}

/// The addresses of a destination, each of them whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoalAddresses(pub Vec<IpAddr>);

/// What a table is made of.
#[derive(Clone, Debug, Default)]
pub struct TableSpec {
    /// Ports there are in the lab, numbered from 0.
    pub ports: u32,
    /// The nodes; their place here is their number.
    pub members: Vec<Member>,
    /// Where ways lead; their place here is their number.
    pub goals: Vec<GoalAddresses>,
    /// The IPv4 addresses of all ports of the lab.
    pub v4_of_ports: Vec<(Ipv4Addr, PortId)>,
}

/// Why there can be no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// For so many of both there is no room.
    #[error(
        "{members} nodes that forward and {goals} destinations need {bytes} bytes for their ways, and {WAYS_BYTES} is the most"
    )]
    TooLarge {
        /// Nodes.
        members: usize,
        /// Destinations.
        goals: usize,
        /// What they would take.
        bytes: usize,
    },
}

/// Addresses are not chosen by enemies: each is one of the lab's.
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
    /// Its ports among all members'.
    first: u32,
    count: u32,
}

/// The addresses and ways of all nodes without a stack. Ways may be changed while others read.
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
    /// By goal, then by member: what is asked for one after the other lies together.
    ways: Vec<AtomicU64>,
    shared: Shared,
}

/// The ways of a node to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways<'t> {
    /// None, or one.
    One(Option<Way>),
    /// They share the packets, flow by flow.
    Several(&'t [Way]),
}

impl Ways<'_> {
    /// That of a flow, at this node.
    #[must_use]
    #[inline]
    pub fn of(self, flow: &Flow<'_>, node: u32) -> Option<Way> {
        match self {
            Ways::One(way) => way,
            Ways::Several([]) => None,
            Ways::Several(ways) => Some(ways[(flow.number(node) % ways.len() as u64) as usize]),
        }
    }
}

impl Table {
    /// A table without ways.
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

    /// How many nodes there are.
    #[must_use]
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// The node that has a port; `None`: it has a stack.
    #[must_use]
    #[inline]
    pub fn member_of(&self, port: PortId) -> Option<u32> {
        let member = self.member_of.get(port.0 as usize).copied();
        member.filter(|member| *member != NOBODY)
    }

    /// The number of the destination that has this address.
    #[must_use]
    #[inline]
    pub fn goal(&self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(v4) => self.goals_v4.get(&v4.to_bits()).copied(),
            IpAddr::V6(v6) => self.goals_v6.get(&v6.to_bits()).copied(),
        }
    }

    /// From now on these are the node's ways to the destination, which share its packets flow by flow. Ways set one after the
    /// other are seen in this order. What there is no such node or destination for is passed over. Of more sets than there is
    /// room for, which a hundred million are not, the first way counts.
    pub fn set(&self, member: u32, goal: u32, ways: &[Way]) {
        let one =
            |way: &Way| IS_A_WAY | u64::from(way.port.0) << PORT_BITS | u64::from(way.far_port.0);
        let word = match ways {
            [] => 0,
            [way] => one(way),
            [first, ..] => match self.shared.number(ways) {
                Some(number) => ARE_SEVERAL | u64::from(number),
                None => one(first),
            },
        };
        if let Some(place) = self.word(member, goal) {
            place.store(word, Ordering::Release);
        }
    }

    /// The node's ways to the destination.
    #[must_use]
    #[inline]
    pub fn ways(&self, member: u32, goal: u32) -> Ways<'_> {
        let word = self.word(member, goal);
        let word = word.map_or(0, |word| word.load(Ordering::Acquire));
        if word & ARE_SEVERAL != 0 {
            return Ways::Several(self.shared.ways(word as u32));
        }
        let port = |word: u64| PortId((word & PORT_MASK) as u32);
        Ways::One((word & IS_A_WAY != 0).then(|| Way {
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

    /// Where a node sends a packet of this flow for this address.
    #[must_use]
    #[inline]
    pub fn place(&self, member: u32, address: IpAddr, flow: &Flow<'_>) -> Place {
        let Some((own, ports)) = self.own(member) else {
            return Place::Nowhere;
        };
        let is_own = match address {
            IpAddr::V4(v4) => own.v4 == Some(v4),
            IpAddr::V6(v6) => own.v6 == Some(v6),
        };
        if is_own {
            return Place::Own;
        }
        if let Some(goal) = self.goal(address) {
            let way = self.ways(member, goal).of(flow, member);
            return way.map_or(Place::Nowhere, Place::Towards);
        }
        let IpAddr::V4(v4) = address else {
            return Place::Nowhere;
        };
        self.beside(member, ports, v4)
    }

    /// All ways on which a node sends what is for this address; none for the node's own.
    #[must_use]
    pub fn ways_to(&self, member: u32, address: IpAddr) -> Vec<Way> {
        let Place::Towards(way) = self.place(member, address, &Flow::default()) else {
            return Vec::new();
        };
        match self.goal(address).map(|goal| self.ways(member, goal)) {
            Some(Ways::Several(all)) => all.to_vec(),
            _ => vec![way],
        }
    }

    /// An address of a port: the node's own, or one at the other end of a link.
    fn beside(&self, member: u32, ports: &[MemberPort], address: Ipv4Addr) -> Place {
        let known = &self.v4_of_ports;
        let Ok(at) = known.binary_search_by_key(&address, |row| row.0) else {
            return Place::Nowhere;
        };
        let far_port = known[at].1;
        if self.member_of(far_port) == Some(member) {
            return Place::Own;
        }
        let leads_there = |port: &&MemberPort| match port.far_port {
            Some(far) => far == far_port,
            None => port
                .subnet
                .is_some_and(|(own, len)| in_one_subnet(own, address, len)),
        };
        let port = ports.iter().find(leads_there);
        port.map_or(Place::Nowhere, |port| {
            Place::Towards(Way {
                port: port.port,
                far_port,
            })
        })
    }

    /// A node of the table, to decide about packets at `now_ns`; `limit` is its own.
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
    fn place(&self, address: IpAddr, flow: Flow<'_>) -> Place {
        self.table.place(self.member, address, &flow)
    }

    fn port_of_link_local(&self, address: Ipv6Addr) -> Option<PortId> {
        let s = address.octets();
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
