//! Nodes and ports: the things edges run between, and their names.

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

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// Flies; its position comes from the [`Sky`](crate::Sky).
    Satellite,
    /// Stands on the Earth, with a radio to the sky.
    Ground,
    /// Stands on the Earth and has cables only.
    Host,
}

impl NodeKind {
    /// The word used in files and output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            NodeKind::Satellite => "satellite",
            NodeKind::Ground => "ground",
            NodeKind::Host => "host",
        }
    }
}

/// One row of the node table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The row's number.
    pub id: NodeId,
    /// The name users say; unique in the lab.
    pub name: String,
    /// Satellite, ground or host.
    pub kind: NodeKind,
    /// Where a satellite belongs; `None` for nodes on the Earth.
    pub seat: Option<Seat>,
    /// Number of the node's first port; its ports are consecutive.
    pub first_port: PortId,
    /// How many ports it has.
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
pub const MAX_CABLES: usize = CABLE_NAMES.len();

const CABLE_NAMES: [&str; 16] = [
    "eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "eth7", "eth8", "eth9", "eth10",
    "eth11", "eth12", "eth13", "eth14", "eth15",
];

/// What a port is for. Its name in the node follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortRole {
    /// `isl0`: the next satellite of the same plane.
    IslFore,
    /// `isl1`: the previous satellite of the same plane.
    IslAft,
    /// `isl2`: the neighbour in the next plane (east, when ascending).
    IslEast,
    /// `isl3`: the neighbour in the previous plane (west, when ascending).
    IslWest,
    /// `isl4`: a satellite of another shell.
    IslCross,
    /// `gsl0`: the radio to the ground, or from the ground to the sky.
    Gsl,
    /// `eth0` and so on: one end of a cable on the ground.
    Cable,
}

impl PortRole {
    /// The ISL roles inside a shell, in port order.
    pub const ISLS: [PortRole; 4] = [
        PortRole::IslFore,
        PortRole::IslAft,
        PortRole::IslEast,
        PortRole::IslWest,
    ];

    /// True for laser ports.
    #[must_use]
    pub fn is_isl(self) -> bool {
        !matches!(self, PortRole::Gsl | PortRole::Cable)
    }
}

/// One row of the port table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Lab-wide number.
    pub id: PortId,
    /// The node it belongs to.
    pub node: NodeId,
    /// What it is for.
    pub role: PortRole,
    /// Place among its node's ports, from 0.
    pub index_in_node: u8,
}

impl Port {
    /// Interface name inside the node, `isl0`..`isl4`, `gsl0` or `eth0`..`eth15`.
    ///
    /// # Panics
    /// When it is a cable beyond [`MAX_CABLES`], which no layout has.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.role {
            PortRole::IslFore => "isl0",
            PortRole::IslAft => "isl1",
            PortRole::IslEast => "isl2",
            PortRole::IslWest => "isl3",
            PortRole::IslCross => "isl4",
            PortRole::Gsl => "gsl0",
            // Nodes with cables have them before all other ports.
            PortRole::Cable => CABLE_NAMES[usize::from(self.index_in_node)],
        }
    }
}
