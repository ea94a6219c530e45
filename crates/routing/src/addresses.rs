//! Deterministic addresses: every number follows from a node, port or link number, and from the lab's blocks. With the
//! default blocks:
//!
//! | address | IPv4 | IPv6 |
//! |---|---|---|
//! | loopback of node n | 10.0.0.0/10, 254 to a /24 (never .0 or .255), /32 | fdc0:57e1::n+1/128 |
//! | loopback, with OSPF areas | each area in a block of its own, see [`AddressPlan::in_blocks`] | the same host part |
//! | ends of link l (lasers, then cables) | 10.128.0.0 + 2l and + 2l + 1, /31 (RFC 3021) | link-local from the MAC |
//! | ground port of node n | 10.64.0.0 + n + 1, /12 shared by all | link-local from the MAC |
//! | member m of a network | its network's part of 10.96.0.0/12, see `subnets`, + m + 1 | link-local from the MAC |
//! | ends of disjoint paths | 10.80.0.0/12, see [`PathAddresses`], /32 | fdc0:57e1:0:1::/64, the same index, /128 |
//!
//! Ports carry no global IPv6 address: link-local next hops are all that routing needs (RFC 7404).

mod names;

use crate::areas::{AreaId, Areas};
use crate::blocks::{AddressBlocks, Pair, Prefix4};
use crate::path_addresses::PathAddresses;
use constel_link::{MAX_PORT, PortId, mac_of};
use constel_topology::{Addressing, Layout, NodeId, Port};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use names::AddressRow;

/// Loopbacks use host parts 1 to 254 of every /24.
const PER_24: u32 = 254;

/// The lab is too large for the address plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// A block is too small.
    #[error("{count} {what} do not fit {block}: at most {max}")]
    Full {
        /// The numbered objects.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: u64,
        /// The block.
        block: String,
    },
    /// A block is too small for a subnet for each network.
    #[error(
        "{networks} networks need {needed} addresses, a power of two for each; {block} has {size}"
    )]
    Subnets {
        /// How many networks there are.
        networks: usize,
        /// The addresses of all their subnets.
        needed: u64,
        /// How many there are.
        size: u64,
        /// The block.
        block: String,
    },
}

impl AddressError {
    /// The block that is too small.
    #[must_use]
    pub fn block(&self) -> &str {
        match self {
            Self::Full { block, .. } | Self::Subnets { block, .. } => block,
        }
    }
}

/// Both loopback addresses of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loopback {
    /// Used as /32.
    pub v4: Ipv4Addr,
    /// Used as /128.
    pub v6: Ipv6Addr,
}

/// All addresses of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortAddresses {
    /// Ethernet address.
    pub mac: [u8; 6],
    /// IPv4 address and prefix length; `None` for a laser without a neighbour, and where the lab gives none.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// Link-local address, prefix length 64.
    pub v6_link_local: Ipv6Addr,
}

/// The addresses of every node and port of a layout.
#[derive(Debug, Clone)]
pub struct AddressPlan {
    /// The loopback of each node: its index in the IPv4 block and its IPv6 host part.
    loopbacks: Vec<(u32, u32)>,
    /// The loopbacks sorted by IPv4 index, with the node. Both parts increase together.
    by_loopback: Vec<(u32, u32, NodeId)>,
    /// Blocks of areas and of domains; empty without areas.
    area_blocks: BTreeMap<AreaId, Block>,
    domain_blocks: Vec<Block>,
    ports: Vec<PortAddresses>,
    /// Ports with an IPv4 address, sorted by it.
    by_v4: Vec<(Ipv4Addr, PortId)>,
    blocks: AddressBlocks,
    paths: PathAddresses,
}

/// Loopback addresses that share a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// First address and prefix length.
    pub v4: (Ipv4Addr, u8),
    /// First address and prefix length.
    pub v6: (Ipv6Addr, u8),
}

impl Block {
    /// `size` addresses, a power of two, from `offset` in the loopback block, a multiple of it.
    fn new(loopback: &Pair, offset: u32, size: u32) -> Block {
        let bits = size.trailing_zeros() as u8;
        Block {
            v4: (loopback.v4.at(offset), 32 - bits),
            v6: (loopback.v6.at(offset), 128 - bits),
        }
    }
}

/// Place in the IPv4 block of loopback number `n`.
fn offset(n: u32) -> u32 {
    ((n / PER_24) << 8) + 1 + n % PER_24
}

/// Places of `count` loopbacks from the start of a block, and the block's size: a power of two that leaves room
/// for the block's last address, which ends in 255 or might.
fn block(count: usize) -> (impl Iterator<Item = u32>, u32) {
    let count = count as u32;
    let last = count.checked_sub(1).map_or(0, offset);
    ((0..count).map(offset), (last + 2).next_power_of_two())
}

/// The link-local address the kernel derives from a MAC (RFC 4291, appendix A).
#[must_use]
pub fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.map(u16::from);
    let word = |high: u16, low: u16| (high << 8) | low;
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        word(a ^ 2, b),
        word(c, 0xff),
        word(0xfe, d),
        word(e, f),
    )
}

impl AddressPlan {
    /// Gives every node and port of the layout its addresses.
    ///
    /// # Errors
    /// When a block is too small; all such findings.
    pub fn new(layout: &Layout, blocks: &AddressBlocks) -> Result<AddressPlan, Vec<AddressError>> {
        let plain = (0..layout.nodes().len() as u32).map(|n| (offset(n), n + 1));
        Self::with_loopbacks(layout, blocks, plain.collect())
    }

    /// Assigns addresses such that every area's satellites have a block of their own, and every domain's blocks are in one
    /// block. A border router then needs one summary for its area, and a station one for a shell. Stations follow behind.
    ///
    /// # Errors
    /// As [`AddressPlan::new`].
    pub fn in_blocks(
        layout: &Layout,
        blocks: &AddressBlocks,
        areas: &Areas,
    ) -> Result<AddressPlan, Vec<AddressError>> {
        let loopback = &blocks.loopback;
        let span = loopback.v4.size().min(loopback.v6.places());
        let mut next: u64 = 0;
        let mut loopbacks = vec![(0, 0); layout.nodes().len()];
        let mut area_blocks = BTreeMap::new();
        let mut domain_blocks = Vec::new();
        let full = |count| {
            vec![AddressError::Full {
                what: "loopbacks in blocks of areas",
                count,
                max: span,
                block: loopback.v4.to_string(),
            }]
        };
        for domain in areas.blocks() {
            // Blocks of one domain: each at a multiple of its own size, from a multiple of all.
            let mut places = Vec::new();
            let mut end: u64 = 0;
            for (area, nodes) in &domain {
                let size = u64::from(block(nodes.len()).1);
                let start = end.next_multiple_of(size);
                places.push((*area, start, size, nodes));
                end = start + size;
            }
            let size = end.next_power_of_two();
            let base = next.next_multiple_of(size);
            next = base + size;
            if next > span {
                return Err(full(next as usize));
            }
            domain_blocks.push(Block::new(loopback, base as u32, size as u32));
            for (area, start, size, nodes) in places {
                let first = (base + start) as u32;
                area_blocks.insert(area, Block::new(loopback, first, size as u32));
                for (node, place) in nodes.iter().zip(block(nodes.len()).0) {
                    loopbacks[node.index()] = (first + place, first + place);
                }
            }
        }
        let first = next.next_multiple_of(256);
        let stations = layout.nodes().len() - layout.satellite_count();
        if first + u64::from(offset(stations as u32)) > span {
            return Err(full(stations));
        }
        for (station, place) in loopbacks[layout.satellite_count()..].iter_mut().zip(0..) {
            let at = first as u32 + offset(place);
            *station = (at, at);
        }
        let mut plan = Self::with_loopbacks(layout, blocks, loopbacks)?;
        plan.area_blocks = area_blocks;
        plan.domain_blocks = domain_blocks;
        Ok(plan)
    }

    /// Adds the addresses of disjoint paths.
    #[must_use]
    pub fn with_paths(mut self, paths: PathAddresses) -> AddressPlan {
        self.paths = paths;
        self
    }

    /// The addresses of disjoint paths.
    #[must_use]
    pub fn paths(&self) -> &PathAddresses {
        &self.paths
    }

    /// The block of an area's satellites; `None` when addresses are not in blocks.
    #[must_use]
    pub fn area_block(&self, area: AreaId) -> Option<Block> {
        self.area_blocks.get(&area).copied()
    }

    /// The block of a domain's satellites; `None` when addresses are not in blocks.
    #[must_use]
    pub fn domain_block(&self, domain: u16) -> Option<Block> {
        self.domain_blocks.get(usize::from(domain)).copied()
    }

    fn with_loopbacks(
        layout: &Layout,
        blocks: &AddressBlocks,
        loopbacks: Vec<(u32, u32)>,
    ) -> Result<AddressPlan, Vec<AddressError>> {
        let nodes = layout.nodes().len();
        let mut errors = Vec::new();
        let mut fits = |what, count: usize, max: u64, block: &dyn ToString| {
            if count as u64 > max {
                errors.push(AddressError::Full {
                    what,
                    count,
                    max,
                    block: block.to_string(),
                });
            }
        };
        let loopback = &blocks.loopback;
        let whole_24s = loopback.v4.size() / 256 * u64::from(PER_24);
        fits("loopbacks", nodes, whole_24s, &loopback.v4);
        fits("loopbacks", nodes, loopback.v6.places() - 1, &loopback.v6);
        fits(
            "ports",
            layout.ports().len(),
            u64::from(MAX_PORT.0) + 1,
            &"the MAC addresses of ports",
        );
        let v4 = port_addresses(layout, blocks, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let numbered = loopbacks.iter().zip(0..);
        let mut by_loopback: Vec<_> = numbered.map(|(l, n)| (l.0, l.1, NodeId(n))).collect();
        by_loopback.sort_unstable();
        let by_port = layout.ports().iter().zip(&v4);
        let mut by_v4: Vec<(Ipv4Addr, PortId)> = by_port
            .filter_map(|(port, own)| Some(((*own)?.0, port.id)))
            .collect();
        by_v4.sort_unstable();
        let port = |(port, v4): (&Port, Option<(Ipv4Addr, u8)>)| {
            let mac = mac_of(port.id);
            PortAddresses {
                mac,
                v4,
                v6_link_local: link_local(mac),
            }
        };
        Ok(AddressPlan {
            loopbacks,
            by_loopback,
            area_blocks: BTreeMap::new(),
            domain_blocks: Vec::new(),
            ports: layout.ports().iter().zip(v4).map(port).collect(),
            by_v4,
            blocks: blocks.clone(),
            paths: PathAddresses::default(),
        })
    }

    /// The blocks that addresses are from.
    #[must_use]
    pub fn blocks(&self) -> &AddressBlocks {
        &self.blocks
    }

    /// Loopbacks of a node.
    ///
    /// # Panics
    /// When the node is not of this plan.
    #[must_use]
    pub fn loopback(&self, node: NodeId) -> Loopback {
        let own = self.loopbacks.get(node.index());
        let &(v4, v6) = own.unwrap_or_else(|| panic!("{node} is not of this plan"));
        Loopback {
            v4: self.blocks.loopback.v4.at(v4),
            v6: self.blocks.loopback.v6.at(v6),
        }
    }

    /// Addresses of a port.
    ///
    /// # Panics
    /// When the port is not of this plan.
    #[must_use]
    pub fn port(&self, port: PortId) -> &PortAddresses {
        &self.ports[port.0 as usize]
    }

    /// Returns a node's own address in the subnet of a port's address; `None` when it has none there.
    #[must_use]
    pub fn beside(&self, layout: &Layout, node: NodeId, port: PortId) -> Option<Ipv4Addr> {
        let subnet = |port| {
            let (first, length) = self.port(port).v4?;
            Some((Prefix4 { first, length }).network())
        };
        let wanted = subnet(port)?;
        let mut own = layout.ports_of(node).iter();
        let beside = own.find(|own| subnet(own.id) == Some(wanted))?;
        self.port(beside.id).v4.map(|(address, _)| address)
    }

    /// The node a loopback address, or one of a disjoint path, belongs to.
    #[must_use]
    pub fn node_of(&self, address: IpAddr) -> Option<NodeId> {
        if let Some(end) = self.paths.end_of(address) {
            return Some(self.paths.node(end));
        }
        // IPv4 places and IPv6 host parts rise together, so one order serves both.
        let place = self.blocks.loopback.place(address)?;
        let found = match address {
            IpAddr::V4(_) => self.by_loopback.binary_search_by_key(&place, |row| row.0),
            IpAddr::V6(_) => self.by_loopback.binary_search_by_key(&place, |row| row.1),
        };
        Some(self.by_loopback[found.ok()?].2)
    }

    /// The port an address (IPv4 of a port, or link-local IPv6) belongs to.
    #[must_use]
    pub fn port_of(&self, address: IpAddr) -> Option<PortId> {
        match address {
            IpAddr::V4(v4) => {
                let at = self.by_v4.binary_search_by_key(&v4, |row| row.0).ok()?;
                Some(self.by_v4[at].1)
            }
            IpAddr::V6(v6) => {
                let s = v6.octets();
                let mac = [s[8] ^ 2, s[9], s[10], s[13], s[14], s[15]];
                let port = constel_link::port_of_mac(mac)?;
                let known = self.ports.get(port.0 as usize)?;
                (known.v6_link_local == v6).then_some(port)
            }
        }
    }
}

/// The IPv4 address and prefix length of every port, by number. Ports that share a block are numbered through: links
/// by their number, lasers before cables; others by their port.
fn port_addresses(
    layout: &Layout,
    blocks: &AddressBlocks,
    errors: &mut Vec<AddressError>,
) -> Vec<Option<(Ipv4Addr, u8)>> {
    // How many of a block's addresses are used.
    let mut used: Vec<(Prefix4, Use, u64)> = Vec::new();
    let mut take = |block: Prefix4, of: Use| {
        let known = used.iter().position(|(b, u, _)| (*b, *u) == (block, of));
        let at = known.unwrap_or_else(|| {
            used.push((block, of, 0));
            used.len() - 1
        });
        used[at].2 += 1;
        (used[at].2 - 1) as u32
    };
    let mut v4 = vec![None; layout.ports().len()];
    let lasers = layout.isl_links().iter().map(|l| (l.a, l.b));
    let links = lasers.chain(layout.cables().iter().map(|c| (c.a, c.b)));
    for (a, b) in links {
        let Some(block) = blocks.of(layout.port(a).class) else {
            continue;
        };
        let number = u64::from(take(block, Use::Links));
        if 2 * number + 1 < block.size() {
            let first = 2 * number as u32;
            v4[a.0 as usize] = Some((block.at(first), 31));
            v4[b.0 as usize] = Some((block.at(first + 1), 31));
        }
    }
    let mut in_network = vec![false; layout.ports().len()];
    for (block, networks) in networks_by_block(layout, blocks) {
        let members: Vec<u64> = networks.iter().map(|ports| ports.len() as u64).collect();
        let parts = match subnets(block, &members) {
            Ok(parts) => parts,
            Err(needed) => {
                errors.push(AddressError::Subnets {
                    networks: networks.len(),
                    needed,
                    size: block.size(),
                    block: block.to_string(),
                });
                continue;
            }
        };
        for (ports, part) in networks.iter().zip(parts) {
            for (port, place) in ports.iter().zip(1..) {
                in_network[port.0 as usize] = true;
                v4[port.0 as usize] = Some((part.at(place), part.length));
            }
        }
    }
    let shared =
        |p: &&Port| p.addressing == Addressing::SharedSubnet && !in_network[p.id.0 as usize];
    for port in layout.ports().iter().filter(shared) {
        let Some(block) = blocks.of(port.class) else {
            continue;
        };
        let number = u64::from(take(block, Use::Members));
        // All but the subnet's own address and its broadcast.
        if number + 2 < block.size() {
            v4[port.id.0 as usize] = Some((block.at(number as u32 + 1), block.length));
        }
    }
    for (block, of, count) in used {
        let (what, max) = match of {
            Use::Links => ("lasers and cables", block.size() / 2),
            Use::Members => ("ground ports", block.size().saturating_sub(2)),
        };
        if count > max {
            errors.push(AddressError::Full {
                what,
                count: count as usize,
                max,
                block: block.to_string(),
            });
        }
    }
    v4
}

/// The members' ports of each network, in the scenario's order, by the block that their addresses are from.
fn networks_by_block(layout: &Layout, blocks: &AddressBlocks) -> Vec<(Prefix4, Vec<Vec<PortId>>)> {
    let mut all: Vec<(Prefix4, Vec<Vec<PortId>>)> = Vec::new();
    for network in 0..layout.spec().networks.len() {
        let mut ports = layout.network_ports(network).to_vec();
        ports.sort_unstable();
        let first = ports.first().map(|port| layout.port(*port));
        let shared = first.filter(|port| port.addressing == Addressing::SharedSubnet);
        let Some(block) = shared.and_then(|port| blocks.of(port.class)) else {
            continue;
        };
        match all.iter_mut().find(|(known, _)| *known == block) {
            Some((_, networks)) => networks.push(ports),
            None => all.push((block, vec![ports])),
        }
    }
    all
}

/// Divides a block among networks, given the number of members of each. A node in two networks reaches the members of each
/// over that network alone. A single network has the whole block. Several networks have parts of the same size, as large as
/// fits. A network with more members than that has the smallest part that holds them. Larger parts come first, so that each
/// begins at a multiple of its size.
///
/// The number of addresses needed, if it exceeds the block.
fn subnets(block: Prefix4, members: &[u64]) -> Result<Vec<Prefix4>, u64> {
    // The first address of a subnet is unused, and the last one is for broadcasts.
    let needs = members.iter().map(|count| (count + 2).next_power_of_two());
    let needs: Vec<u64> = needs.collect();
    let sizes = |least: u64| needs.iter().map(move |need| least.max(*need));
    let mut least = block.size();
    while least > 1 && sizes(least).sum::<u64>() > block.size() {
        least /= 2;
    }
    let needed = sizes(least).sum();
    if needed > block.size() {
        return Err(needed);
    }
    let mut order: Vec<(u64, usize)> = sizes(least).zip(0..).collect();
    order.sort_by_key(|(size, place)| (std::cmp::Reverse(*size), *place));
    let mut parts = vec![block; members.len()];
    let mut next = 0;
    for (size, place) in order {
        let length = 32 - size.trailing_zeros() as u8;
        let first = block.at(next as u32);
        parts[place] = Prefix4 { first, length };
        next += size;
    }
    Ok(parts)
}

/// The purpose of a block's addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Subnets of two.
    Links,
    /// One subnet.
    Members,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn loopbacks_are_distinct_and_never_end_in_0_or_255() {
        let mut seen = BTreeSet::new();
        let block = AddressBlocks::default().loopback;
        let most = (block.v4.size() / 256) as u32 * PER_24;
        for n in (0..3000).chain([99_999, most - 1]) {
            let v4 = block.v4.at(offset(n));
            assert!(seen.insert(v4), "{n}");
            let last = v4.octets()[3];
            assert!(last != 0 && last != 255, "{v4}");
            assert_eq!(block.v4.place(v4), Some(offset(n)));
        }
        assert_eq!(block.v4.at(offset(0)), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(block.v6.at(1).to_string(), "fdc0:57e1::1");
        assert_eq!(block.v4.at(offset(254)), Ipv4Addr::new(10, 0, 1, 1));
    }

    #[test]
    fn each_network_has_a_subnet_of_its_own() {
        let first = Ipv4Addr::new(10, 96, 0, 0);
        let block = |length| Prefix4 { first, length };
        let cut = |length, members: &[u64]| -> Vec<String> {
            let parts = subnets(block(length), members).unwrap();
            parts.iter().map(ToString::to_string).collect()
        };
        assert_eq!(cut(12, &[400]), ["10.96.0.0/12"]);
        assert_eq!(cut(12, &[2, 2]), ["10.96.0.0/13", "10.104.0.0/13"]);
        let three = ["10.96.0.0/14", "10.100.0.0/14", "10.104.0.0/14"];
        assert_eq!(cut(12, &[2, 9, 60]), three);
        // One that is large takes what it needs, and lies first.
        let large = ["10.96.0.128/26", "10.96.0.0/25", "10.96.0.192/26"];
        assert_eq!(cut(24, &[2, 126, 62]), large);
        assert_eq!(subnets(block(24), &[127, 62]), Err(256 + 64));
        // Parts never overlap, whatever there is, and hold their members.
        for members in [vec![1; 300], (1..40).collect(), vec![5, 1000, 3, 3, 70]] {
            let mut parts = subnets(block(12), &members).unwrap();
            for (part, members) in parts.iter().zip(&members) {
                assert!(part.size() >= members + 2);
                assert_eq!(u64::from(u32::from(part.first)) % part.size(), 0);
            }
            parts.sort_by_key(|part| part.first);
            for two in parts.windows(2) {
                let end = u64::from(u32::from(two[0].first)) + two[0].size();
                assert!(end <= u64::from(u32::from(two[1].first)));
            }
        }
    }

    #[test]
    fn link_local_is_eui_64() {
        // RFC 4291's rule: flip the universal bit, put fffe in the middle.
        let address = link_local([0x02, 0xc5, 0x00, 0x01, 0x02, 0x03]);
        assert_eq!(address.to_string(), "fe80::c5:ff:fe01:203");
    }
}
