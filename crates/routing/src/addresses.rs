//! Deterministic addresses: every number follows from a node, port or link number.
//!
//! | what | IPv4 | IPv6 |
//! |---|---|---|
//! | loopback of node n | 10.0.0.0/10, 254 to a /24 (never .0 or .255), /32 | fdc0:57e1::n+1/128 |
//! | the same, with OSPF areas | each area in a block of its own, see [`AddressPlan::in_blocks`] | the same host part |
//! | ends of link l (lasers, then cables) | 10.128.0.0 + 2l and + 2l + 1, /31 (RFC 3021) | link-local from the MAC |
//! | ground port of node n | 10.64.0.0 + n + 1, /12 shared by all | link-local from the MAC |
//! | ends of disjoint paths | 10.80.0.0/12, see [`PathAddresses`], /32 | fdc0:57e1:0:1::/64, the same place, /128 |
//!
//! Ports carry no global IPv6 address: link-local next hops are all that routing needs (RFC 7404).

mod names;

use crate::areas::{AreaId, Areas};
use crate::path_addresses::PathAddresses;
use constel_link::{MAX_PORT, PortId, mac_of};
use constel_topology::{Layout, NodeId, NodeKind};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use names::AddressRow;

/// First address of the loopback block.
pub const LOOPBACK_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);
/// Prefix length of the loopback block.
pub const LOOPBACK_V4_LEN: u8 = 10;
/// First address of the shared ground subnet.
pub const GSL_V4: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);
/// Prefix length of the shared ground subnet.
pub const GSL_V4_LEN: u8 = 12;
/// First address of the ISL block.
pub const ISL_V4: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
/// Prefix length of the ISL block; each link takes a /31 of it.
pub const ISL_V4_LEN: u8 = 9;
/// The loopback prefix, /64.
pub const LOOPBACK_V6: Ipv6Addr = Ipv6Addr::new(0xfdc0, 0x57e1, 0, 0, 0, 0, 0, 0);
/// Prefix length of the loopback prefix.
pub const LOOPBACK_V6_LEN: u8 = 64;

/// Loopbacks use host parts 1 to 254 of every /24.
const PER_24: u32 = 254;
const MAX_LOOPBACKS: u32 = (1 << (24 - LOOPBACK_V4_LEN)) * PER_24;
/// All but the subnet's own address and its broadcast.
const MAX_GSL: u32 = (1 << (32 - GSL_V4_LEN)) - 2;
const MAX_ISL: u32 = 1 << (31 - ISL_V4_LEN);
/// Addresses of the loopback block.
const LOOPBACK_SPAN: u64 = 1 << (32 - LOOPBACK_V4_LEN);

/// The lab is too large for the address plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// A block is too small.
    #[error("{count} {what} do not fit {block}: at most {max}")]
    Full {
        /// What is numbered.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: u32,
        /// The block.
        block: &'static str,
    },
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
    /// IPv4 address and prefix length; `None` for a laser without a neighbour.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// Link-local address, prefix length 64.
    pub v6_link_local: Ipv6Addr,
}

/// The addresses of every node and port of a layout.
#[derive(Debug, Clone)]
pub struct AddressPlan {
    /// Of each node, its loopback's place in the IPv4 block and its IPv6 host part.
    loopbacks: Vec<(u32, u32)>,
    /// The same sorted by IPv4 place, with the node: both parts rise together.
    by_loopback: Vec<(u32, u32, NodeId)>,
    /// Blocks of areas and of domains; empty without areas.
    area_blocks: BTreeMap<AreaId, Block>,
    domain_blocks: Vec<Block>,
    links: u32,
    ports: Vec<PortAddresses>,
    /// The two ports of each laser link and cable.
    link_ports: Vec<(PortId, PortId)>,
    gsl_ports: Vec<PortId>,
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
    fn new(offset: u32, size: u32) -> Block {
        let bits = size.trailing_zeros() as u8;
        let (v4, v6) = addresses_at(offset, offset);
        Block {
            v4: (v4, 32 - bits),
            v6: (v6, 128 - bits),
        }
    }
}

/// Place in the IPv4 block of loopback number `n`, which must be below the plan's bound.
fn offset(n: u32) -> u32 {
    ((n / PER_24) << 8) + 1 + n % PER_24
}

fn addresses_at(v4: u32, v6: u32) -> (Ipv4Addr, Ipv6Addr) {
    let v6 = u128::from(LOOPBACK_V6) + u128::from(v6);
    ((u32::from(LOOPBACK_V4) + v4).into(), v6.into())
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
    pub fn new(layout: &Layout) -> Result<AddressPlan, Vec<AddressError>> {
        let plain = (0..layout.nodes().len() as u32).map(|n| (offset(n), n + 1));
        Self::with_loopbacks(layout, plain.collect())
    }

    /// The same with every area's satellites in a block of their own, and every domain's blocks in one: then a
    /// border router needs one summary for its area and a station one for a shell. Stations follow behind.
    ///
    /// # Errors
    /// As [`AddressPlan::new`].
    pub fn in_blocks(layout: &Layout, areas: &Areas) -> Result<AddressPlan, Vec<AddressError>> {
        let mut next: u64 = 0;
        let mut loopbacks = vec![(0, 0); layout.nodes().len()];
        let mut area_blocks = BTreeMap::new();
        let mut domain_blocks = Vec::new();
        let full = |count| {
            vec![AddressError::Full {
                what: "loopbacks in blocks of areas",
                count,
                max: LOOPBACK_SPAN as u32,
                block: "10.0.0.0/10",
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
            let span = end.next_power_of_two();
            let base = next.next_multiple_of(span);
            next = base + span;
            if next > LOOPBACK_SPAN {
                return Err(full(next as usize));
            }
            domain_blocks.push(Block::new(base as u32, span as u32));
            for (area, start, size, nodes) in places {
                let first = (base + start) as u32;
                area_blocks.insert(area, Block::new(first, size as u32));
                for (node, place) in nodes.iter().zip(block(nodes.len()).0) {
                    loopbacks[node.index()] = (first + place, first + place);
                }
            }
        }
        let first = next.next_multiple_of(256);
        let stations = layout.nodes().len() - layout.satellite_count();
        if first + u64::from(offset(stations as u32)) > LOOPBACK_SPAN {
            return Err(full(stations));
        }
        for (station, place) in loopbacks[layout.satellite_count()..].iter_mut().zip(0..) {
            let at = first as u32 + offset(place);
            *station = (at, at);
        }
        let mut plan = Self::with_loopbacks(layout, loopbacks)?;
        plan.area_blocks = area_blocks;
        plan.domain_blocks = domain_blocks;
        Ok(plan)
    }

    /// The same with the addresses of disjoint paths.
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
        loopbacks: Vec<(u32, u32)>,
    ) -> Result<AddressPlan, Vec<AddressError>> {
        let (nodes, links, ports) = (
            layout.nodes().len(),
            layout.isl_links().len() + layout.cables().len(),
            layout.ports().len(),
        );
        let mut errors = Vec::new();
        let mut fits = |what, count: usize, max: u32, block| {
            if count > max as usize {
                errors.push(AddressError::Full {
                    what,
                    count,
                    max,
                    block,
                });
            }
        };
        fits("loopbacks", nodes, MAX_LOOPBACKS, "10.0.0.0/10");
        fits("ground ports", nodes, MAX_GSL, "10.64.0.0/12");
        fits("lasers and cables", links, MAX_ISL, "10.128.0.0/9");
        fits("ports", ports, MAX_PORT.0 + 1, "the MAC addresses of ports");
        if !errors.is_empty() {
            return Err(errors);
        }
        let gsl_ports: Vec<PortId> = layout
            .nodes()
            .iter()
            // Hosts come last, so that places stay node numbers.
            .filter(|n| n.kind != NodeKind::Host)
            .map(|n| layout.gsl_port(n.id))
            .collect();
        let numbered = loopbacks.iter().zip(0..);
        let mut by_loopback: Vec<_> = numbered.map(|(l, n)| (l.0, l.1, NodeId(n))).collect();
        by_loopback.sort_unstable();
        let mut plan = AddressPlan {
            loopbacks,
            by_loopback,
            area_blocks: BTreeMap::new(),
            domain_blocks: Vec::new(),
            links: links as u32,
            ports: layout
                .ports()
                .iter()
                .map(|p| {
                    let mac = mac_of(p.id);
                    PortAddresses {
                        mac,
                        v4: None,
                        v6_link_local: link_local(mac),
                    }
                })
                .collect(),
            link_ports: {
                let lasers = layout.isl_links().iter().map(|l| (l.a, l.b));
                lasers
                    .chain(layout.cables().iter().map(|c| (c.a, c.b)))
                    .collect()
            },
            gsl_ports,
            paths: PathAddresses::default(),
        };
        for (number, &(a, b)) in plan.link_ports.iter().enumerate() {
            let base = u32::from(ISL_V4) + 2 * number as u32;
            plan.ports[a.0 as usize].v4 = Some((base.into(), 31));
            plan.ports[b.0 as usize].v4 = Some(((base + 1).into(), 31));
        }
        for (n, port) in plan.gsl_ports.iter().enumerate() {
            let address = u32::from(GSL_V4) + n as u32 + 1;
            plan.ports[port.0 as usize].v4 = Some((address.into(), GSL_V4_LEN));
        }
        Ok(plan)
    }

    /// Loopbacks of a node.
    ///
    /// # Panics
    /// When the node is not of this plan.
    #[must_use]
    pub fn loopback(&self, node: NodeId) -> Loopback {
        let own = self.loopbacks.get(node.index());
        let &(v4, v6) = own.unwrap_or_else(|| panic!("{node} is not of this plan"));
        let (v4, v6) = addresses_at(v4, v6);
        Loopback { v4, v6 }
    }

    /// Addresses of a port.
    ///
    /// # Panics
    /// When the port is not of this plan.
    #[must_use]
    pub fn port(&self, port: PortId) -> &PortAddresses {
        &self.ports[port.0 as usize]
    }

    /// The node a loopback address, or one of a disjoint path, belongs to.
    #[must_use]
    pub fn node_of(&self, address: IpAddr) -> Option<NodeId> {
        if let Some(end) = self.paths.end_of(address) {
            return Some(self.paths.node(end));
        }
        // IPv4 places and IPv6 host parts rise together, so one order serves both.
        let found = match address {
            IpAddr::V4(v4) => {
                let place = u32::from(v4).checked_sub(u32::from(LOOPBACK_V4))?;
                self.by_loopback.binary_search_by_key(&place, |row| row.0)
            }
            IpAddr::V6(v6) => {
                let host = u128::from(v6).checked_sub(u128::from(LOOPBACK_V6))?;
                let host = u32::try_from(host).ok()?;
                self.by_loopback.binary_search_by_key(&host, |row| row.1)
            }
        };
        Some(self.by_loopback[found.ok()?].2)
    }

    /// The port an address (IPv4 of a port, or link-local IPv6) belongs to.
    #[must_use]
    pub fn port_of(&self, address: IpAddr) -> Option<PortId> {
        match address {
            IpAddr::V4(v4) => {
                let v4 = u32::from(v4);
                if let Some(offset) = v4.checked_sub(u32::from(ISL_V4))
                    && offset / 2 < self.links
                {
                    let (a, b) = self.link_ports[offset as usize / 2];
                    return Some(if offset % 2 == 0 { a } else { b });
                }
                let n = v4.checked_sub(u32::from(GSL_V4) + 1)?;
                self.gsl_ports.get(n as usize).copied()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn loopbacks_are_distinct_and_never_end_in_0_or_255() {
        let mut seen = BTreeSet::new();
        for n in (0..3000).chain([99_999, MAX_LOOPBACKS - 1]) {
            let (v4, _) = addresses_at(offset(n), n + 1);
            assert!(seen.insert(v4), "{n}");
            let last = v4.octets()[3];
            assert!(last != 0 && last != 255, "{v4}");
            let bits = u32::from(v4) >> (32 - LOOPBACK_V4_LEN);
            assert_eq!(
                bits,
                u32::from(LOOPBACK_V4) >> (32 - LOOPBACK_V4_LEN),
                "{v4}"
            );
        }
        let (v4, v6) = addresses_at(offset(0), 1);
        assert_eq!(v4, Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(v6.to_string(), "fdc0:57e1::1");
        assert_eq!(addresses_at(offset(254), 0).0, Ipv4Addr::new(10, 0, 1, 1));
    }

    #[test]
    fn link_local_is_eui_64() {
        // RFC 4291's rule: flip the universal bit, put fffe in the middle.
        let address = link_local([0x02, 0xc5, 0x00, 0x01, 0x02, 0x03]);
        assert_eq!(address.to_string(), "fe80::c5:ff:fe01:203");
    }
}
