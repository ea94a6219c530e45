//! Blocks of addresses, checked.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::source::Span;

/// The blocks that a lab's addresses are taken from; they do not overlap, but `links` and `cables` may be the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// Of loopbacks.
    pub loopback: BlockPair,
    /// Block for the ends of disjoint paths.
    pub paths: BlockPair,
    /// Block for links between satellites; `None`: they have no IPv4 addresses.
    pub links: Option<Block<Ipv4Addr>>,
    /// Block for ground links, one subnet for all; `None`: they have no IPv4 addresses.
    pub ground: Option<Block<Ipv4Addr>>,
    /// Block for cables; `None`: they have no IPv4 addresses.
    pub cables: Option<Block<Ipv4Addr>>,
    /// Block for ports in networks, a subnet for each network; `None`: they have no IPv4 addresses.
    pub networks: Option<Block<Ipv4Addr>>,
    /// Block for management ports, /8 to /24, whether the lab has any or not.
    pub management: Block<Ipv4Addr>,
}

/// A block of each family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPair {
    /// /8 to /24.
    pub ipv4: Block<Ipv4Addr>,
    /// /16 to /112.
    pub ipv6: Block<Ipv6Addr>,
}

/// Addresses that share their first bits.
#[derive(Debug, Clone, Copy)]
pub struct Block<A> {
    /// The first address; all bits behind the length are 0.
    pub first: A,
    /// How many bits are shared.
    pub length: u8,
    /// The place in the file, for errors of later stages; `None`: the block is the default.
    pub span: Option<Span>,
}

impl<A: PartialEq> PartialEq for Block<A> {
    /// Wherever they are written.
    fn eq(&self, other: &Self) -> bool {
        (&self.first, self.length) == (&other.first, other.length)
    }
}

impl<A: Eq> Eq for Block<A> {}

impl<A: std::fmt::Display> std::fmt::Display for Block<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

impl Default for Addresses {
    fn default() -> Self {
        let v4 = |a, b, length| Block {
            first: Ipv4Addr::new(a, b, 0, 0),
            length,
            span: None,
        };
        let v6 = |subnet| Block {
            first: Ipv6Addr::new(0xfdc0, 0x57e1, 0, subnet, 0, 0, 0, 0),
            length: 64,
            span: None,
        };
        Self {
            loopback: BlockPair {
                ipv4: v4(10, 0, 10),
                ipv6: v6(0),
            },
            paths: BlockPair {
                ipv4: v4(10, 80, 12),
                ipv6: v6(1),
            },
            links: Some(v4(10, 128, 9)),
            ground: Some(v4(10, 64, 12)),
            cables: Some(v4(10, 128, 9)),
            networks: Some(v4(10, 96, 12)),
            management: v4(10, 112, 12),
        }
    }
}
