//! Nodes and ports, which edges join, and their names.

use crate::class::{Addressing, Attachment, CABLE, EdgeClass, ISL, Medium, NodeClass};
use constel_link::PortId;

/// A node's number in its lab: satellites first, in the order of the spec, then stations, then hosts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The node's place in [`Layout::nodes`](crate::Layout::nodes) and in a snapshot's positions.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// One row of the node table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The row's number.
    pub id: NodeId,
    /// The name users say; unique in the lab.
    pub name: String,
    /// The node's class.
    pub class: &'static NodeClass,
    /// The plane and slot of a satellite; `None` for nodes on the Earth.
    pub seat: Option<Seat>,
    /// Number of the node's first port; its ports are consecutive.
    pub first_port: PortId,
    /// The number of its ports.
    pub port_count: u8,
}

/// A satellite's place in its constellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// Index of the constellation in the spec.
    pub constellation: u16,
    /// Shell number inside the constellation.
    pub shell: u16,
    /// Plane number inside the shell, increasing to the east at the ascending node.
    pub plane: u16,
    /// Slot number inside the plane, increasing in the direction of flight.
    pub slot: u16,
}

/// The most cables that a node may have.
pub const MAX_CABLES: usize = CABLE.ports.len();

/// The direction of a satellite's laser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaserSlot {
    /// `isl0`: to the next satellite of the same plane.
    Fore,
    /// `isl1`: to the previous satellite of the same plane.
    Aft,
    /// `isl2`: to the neighbour in the next plane (east, when ascending).
    East,
    /// `isl3`: to the neighbour in the previous plane (west, when ascending).
    West,
    /// `isl4`: to a satellite of another shell.
    Cross,
}

impl LaserSlot {
    /// Those inside a shell, in port order.
    pub const IN_SHELL: [LaserSlot; 4] = [
        LaserSlot::Fore,
        LaserSlot::Aft,
        LaserSlot::East,
        LaserSlot::West,
    ];

    /// The name of its port.
    pub(crate) fn port_name(self) -> &'static str {
        ISL.ports[self as usize]
    }
}

/// One row of the port table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Lab-wide number.
    pub id: PortId,
    /// The node it belongs to.
    pub node: NodeId,
    /// Place among its node's ports, from 0.
    pub index_in_node: u8,
    /// Name of the interface inside the node, one of its class's.
    pub name: &'static str,
    /// The class of its link.
    pub class: &'static EdgeClass,
    /// The medium that it is attached to.
    pub medium: Medium,
    /// The addresses that it gets.
    pub addressing: Addressing,
    /// The attachment of its other end.
    pub attachment: Attachment,
    /// Largest packet it sends, bytes above Ethernet.
    pub mtu_bytes: u32,
    /// The laser's direction, if it is a laser.
    pub laser: Option<LaserSlot>,
}

impl Port {
    /// Interface name inside the node, such as `isl0`, `gsl0` or `eth0`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}
