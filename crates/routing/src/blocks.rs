//! The blocks that a lab's addresses are taken from.

use constel_topology::EdgeClass;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A run of IPv4 addresses that share their first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix4 {
    /// The first address; all bits behind the length are 0.
    pub first: Ipv4Addr,
    /// How many bits are shared, 0..=32.
    pub length: u8,
}

/// A run of IPv6 addresses that share their first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix6 {
    /// The first address; all bits behind the length are 0.
    pub first: Ipv6Addr,
    /// How many bits are shared, 0..=128.
    pub length: u8,
}

impl Prefix4 {
    /// How many addresses there are.
    #[must_use]
    pub fn size(self) -> u64 {
        1 << (32 - self.length)
    }

    /// The block that an address of this length is in.
    pub(crate) fn network(self) -> Prefix4 {
        let host_bits = (self.size() - 1) as u32;
        let first = Ipv4Addr::from(u32::from(self.first) & !host_bits);
        Prefix4 { first, ..self }
    }

    /// The address at a place, which must be below the size.
    pub(crate) fn at(self, place: u32) -> Ipv4Addr {
        (u32::from(self.first) + place).into()
    }

    /// The place of an address; `None` when it is not in here.
    pub(crate) fn place(self, address: Ipv4Addr) -> Option<u32> {
        let place = u32::from(address).checked_sub(u32::from(self.first))?;
        (u64::from(place) < self.size()).then_some(place)
    }
}

impl Prefix6 {
    /// How many places there are that fit 32 bits.
    #[must_use]
    pub fn places(self) -> u64 {
        1 << (128 - self.length).min(32)
    }

    /// The address at a place, which must be one of [`places`](Prefix6::places).
    pub(crate) fn at(self, place: u32) -> Ipv6Addr {
        (u128::from(self.first) + u128::from(place)).into()
    }

    /// The place of an address; `None` when it has none in here.
    pub(crate) fn place(self, address: Ipv6Addr) -> Option<u32> {
        let place = u128::from(address).checked_sub(u128::from(self.first))?;
        let place = u32::try_from(place).ok()?;
        (u64::from(place) < self.places()).then_some(place)
    }
}

impl Display for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

impl Display for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

/// Addresses of nodes, or of ends of disjoint paths: one of each family at every place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// IPv4.
    pub v4: Prefix4,
    /// IPv6.
    pub v6: Prefix6,
}

impl Pair {
    /// The place of an address of either family.
    pub(crate) fn place(self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(v4) => self.v4.place(v4),
            IpAddr::V6(v6) => self.v6.place(v6),
        }
    }
}

/// The blocks of a lab. They do not overlap, except that kinds of links may share one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressBlocks {
    /// Block of loopbacks: at most a /22, as every /24 gives 254, and a /96.
    pub loopback: Pair,
    /// Block of the ends of disjoint paths.
    pub paths: Pair,
    /// Blocks of ports by the name of their kind of link, if it is not the kind's default block. `None`: the ports have no
    /// IPv4 address. Kinds with the same block are numbered consecutively.
    pub ports: BTreeMap<&'static str, Option<Prefix4>>,
}

impl AddressBlocks {
    /// The IPv4 block of the ports of a kind of link; `None`: they have no IPv4 address.
    #[must_use]
    pub fn of(&self, class: &EdgeClass) -> Option<Prefix4> {
        let own = || {
            let (first, length) = class.ipv4_block?;
            Some(Prefix4 { first, length })
        };
        self.ports.get(class.name).copied().unwrap_or_else(own)
    }
}

impl Default for AddressBlocks {
    fn default() -> AddressBlocks {
        let v4 = |a, b, length| Prefix4 {
            first: Ipv4Addr::new(a, b, 0, 0),
            length,
        };
        let v6 = |subnet| Prefix6 {
            first: Ipv6Addr::new(0xfdc0, 0x57e1, 0, subnet, 0, 0, 0, 0),
            length: 64,
        };
        AddressBlocks {
            loopback: Pair {
                v4: v4(10, 0, 10),
                v6: v6(0),
            },
            paths: Pair {
                v4: v4(10, 80, 12),
                v6: v6(1),
            },
            ports: BTreeMap::new(),
        }
    }
}
