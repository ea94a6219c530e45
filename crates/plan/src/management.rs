//! Management ports, with which a machine reaches members of networks outside the emulated network.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use constel_routing::{AddressError, Prefix4};
use constel_topology::{NodeId, seeded_key};

use crate::lab::Lab;

/// The port's name in its node.
pub const MANAGEMENT_PORT: &str = "mgmt0";

/// The port's interface index, above those of all other ports.
pub const MANAGEMENT_IFINDEX: u32 = 100_000;

/// The first address of a subnet is reserved, and the last is the broadcast address.
const FIRST_AND_LAST: usize = 2;
/// The machine's own address, and that of the bridge.
const NOT_OF_NODES: usize = 2;
/// The minimum size of a lab's subnet.
const LEAST_SIZE: usize = 256;

/// The management network of a lab. It is computed from the scenario and the lab's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Management {
    /// The machine's interface that leads to the nodes, at most 15 characters.
    pub interface: String,
    /// The subnet of all addresses here; no other address is reached over it.
    pub subnet: Prefix4,
    /// The machine's address.
    pub host: Ipv4Addr,
    /// The bridge's address, which both sides use as gateway.
    pub bridge: Ipv4Addr,
    /// The nodes that have a port, in node order, each with its address.
    pub nodes: Vec<(NodeId, Ipv4Addr)>,
}

impl Management {
    /// Returns a node's address; `None` if it has no such port.
    #[must_use]
    pub fn of(&self, node: NodeId) -> Option<Ipv4Addr> {
        let place = self.nodes.binary_search_by_key(&node, |(node, _)| *node);
        Some(self.nodes[place.ok()?].1)
    }
}

impl Lab {
    /// Returns the management network of the lab with this name; `None` if no network asks for one.
    #[must_use]
    pub fn management(&self, name: &str) -> Option<Management> {
        let nodes = self.managed();
        if nodes.is_empty() {
            return None;
        }
        let block = self.scenario.addresses.management;
        let size = subnet_size(nodes.len());
        // Sizes are powers of two, and the block was checked to be large enough.
        let subnets = ((1u64 << (32 - block.length)) / size as u64).max(1);
        let key = seeded_key(0, "management", name);
        let first = u32::from(block.first) + (key % subnets) as u32 * size as u32;
        let at = |place: u32| Ipv4Addr::from(first + place);
        let members = nodes.into_iter().zip(3..);
        Some(Management {
            interface: format!("cst-{:08x}", key >> 32),
            subnet: Prefix4 {
                first: at(0),
                length: 32 - size.trailing_zeros() as u8,
            },
            host: at(1),
            bridge: at(2),
            nodes: members.map(|(node, place)| (node, at(place))).collect(),
        })
    }

    /// Returns the nodes that have a management port, in node order.
    fn managed(&self) -> BTreeSet<NodeId> {
        let networks = self.scenario.networks.iter().enumerate();
        let managed = networks.filter(|(_, network)| network.management);
        let ports = managed.flat_map(|(place, _)| self.layout.network_ports(place));
        ports.map(|port| self.layout.port(*port).node).collect()
    }
}

fn subnet_size(nodes: usize) -> usize {
    let needed = nodes + FIRST_AND_LAST + NOT_OF_NODES;
    needed.max(LEAST_SIZE).next_power_of_two()
}

/// Checks that the management block has an address for every node that needs one.
///
/// # Errors
/// When it does not.
pub(crate) fn check_block(lab: &Lab) -> Result<(), AddressError> {
    let (count, block) = (lab.managed().len(), lab.scenario.addresses.management);
    let room = 1u64 << (32 - block.length);
    if count == 0 || subnet_size(count) as u64 <= room {
        return Ok(());
    }
    Err(AddressError::Full {
        what: "nodes with management",
        count,
        max: room - (FIRST_AND_LAST + NOT_OF_NODES) as u64,
        block: block.to_string(),
    })
}
