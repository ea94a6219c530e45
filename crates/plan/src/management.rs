//! Ports of management: by which a machine reaches members of networks beside what is emulated.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use constel_routing::{AddressError, Prefix4};
use constel_topology::{NodeId, seeded_key};

use crate::lab::Lab;

/// The port's name in its node.
pub const MANAGEMENT_PORT: &str = "mgmt0";

/// Its index there, beyond those of all ports.
pub const MANAGEMENT_IFINDEX: u32 = 100_000;

/// The first address of a subnet is nobody's, the last all members'.
const FIRST_AND_LAST: usize = 2;
/// The machine's own, and that of the bridge.
const NOT_OF_NODES: usize = 2;
/// Labs take subnets of this size at least.
const LEAST_SIZE: usize = 256;

/// What a lab has for management. It follows from the scenario and the lab's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Management {
    /// The machine's interface that leads to the nodes, at most 15 characters.
    pub interface: String,
    /// Of all addresses here; no other is reached over it.
    pub subnet: Prefix4,
    /// The machine's.
    pub host: Ipv4Addr,
    /// The bridge's, which both sides send by.
    pub bridge: Ipv4Addr,
    /// Nodes that have a port, in their order, with its address.
    pub nodes: Vec<(NodeId, Ipv4Addr)>,
}

impl Management {
    /// A node's address; `None`: it has no such port.
    #[must_use]
    pub fn of(&self, node: NodeId) -> Option<Ipv4Addr> {
        let place = self.nodes.binary_search_by_key(&node, |(node, _)| *node);
        Some(self.nodes[place.ok()?].1)
    }
}

impl Lab {
    /// What the lab of this name has for management; `None`: no network asks for it.
    #[must_use]
    pub fn management(&self, name: &str) -> Option<Management> {
        let nodes = self.managed();
        if nodes.is_empty() {
            return None;
        }
        let block = self.scenario.addresses.management;
        let size = subnet_size(nodes.len());
        // Sizes are powers of two, and the block was found large enough.
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

    /// The nodes that have a port of management, in their order.
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

/// Finds out whether the block of management has an address for every node that needs one.
///
/// # Errors
/// When it has not.
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
