//! Kinds of nodes, links and media, one row each. The rest of the workspace reads properties from a row and
//! never lists kinds, so that a new kind is just a new row.

use std::net::Ipv4Addr;

/// A kind of node.
#[derive(Debug)]
pub struct NodeClass {
    /// The word used in files and output; unique.
    pub name: &'static str,
    /// Whether its position comes from the [`Sky`](crate::Sky); otherwise it is on the Earth.
    pub flies: bool,
    /// The traffic of other nodes that it forwards.
    pub transit: Transit,
    /// Whether users' traffic begins and ends there: routes lead to it, and it is announced to other autonomous
    /// systems.
    pub endpoint: bool,
    /// The node's part in links between the sky and the ground.
    pub access: Access,
    /// How many cables it may have, at most [`MAX_CABLES`](crate::MAX_CABLES).
    pub cables: u8,
}

impl PartialEq for NodeClass {
    /// A row is equal to itself only.
    fn eq(&self, other: &NodeClass) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for NodeClass {}

/// The traffic of other nodes that a node forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transit {
    /// All of it.
    Always,
    /// Traffic that arrives by one of its cables or shells and leaves by another. A node without a cable that
    /// is not a gateway forwards none, however many terminals it has.
    BetweenNetworks,
    /// None.
    Never,
}

/// A node's part in links between the sky and the ground.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It has no radio for them.
    None,
    /// It serves nodes on the ground.
    Serves,
    /// It chooses the satellites that serve it.
    Chooses,
}

/// Flies, with lasers to its neighbours and a radio to the ground.
pub static SATELLITE: NodeClass = NodeClass {
    name: "satellite",
    flies: true,
    transit: Transit::Always,
    endpoint: false,
    access: Access::Serves,
    cables: 0,
};

/// A spacecraft in a formation; networks link it.
pub static SPACECRAFT: NodeClass = NodeClass {
    name: "spacecraft",
    flies: true,
    transit: Transit::Always,
    endpoint: true,
    access: Access::None,
    cables: 0,
};

/// A node on the Earth, at rest or moving, with a radio to the sky.
pub static STATION: NodeClass = NodeClass {
    name: "ground",
    flies: false,
    transit: Transit::BetweenNetworks,
    endpoint: true,
    access: Access::Chooses,
    cables: crate::node::MAX_CABLES as u8,
};

/// A node on the Earth with cables only.
pub static HOST: NodeClass = NodeClass {
    name: "host",
    flies: false,
    transit: Transit::Always,
    endpoint: true,
    access: Access::None,
    cables: crate::node::MAX_CABLES as u8,
};

/// A kind of link. Every port has one, and so have the edges between ports of that kind.
#[derive(Debug)]
pub struct EdgeClass {
    /// The word used in files and output; unique.
    pub name: &'static str,
    /// The place of its ends; costs of routing daemons depend on it.
    pub span: Span,
    /// The names of such ports inside their node, in order; a node has at most this number of them.
    pub ports: &'static [&'static str],
    /// The medium that such ports are attached to.
    pub medium: Medium,
    /// The addresses of such ports.
    pub addressing: Addressing,
    /// The default IPv4 block of these addresses: its first address and prefix length.
    pub ipv4_block: Option<(Ipv4Addr, u8)>,
}

impl PartialEq for EdgeClass {
    /// A row is equal to itself only.
    fn eq(&self, other: &EdgeClass) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for EdgeClass {}

/// The place of the ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Both in space.
    Space,
    /// One in space, one on the ground.
    Access,
    /// Both on the ground.
    Ground,
}

/// Lasers and cables are numbered through.
const LINKS_BLOCK: Option<(Ipv4Addr, u8)> = Some((Ipv4Addr::new(10, 128, 0, 0), 9));

/// Between satellites.
pub static ISL: EdgeClass = EdgeClass {
    name: "isl",
    span: Span::Space,
    ports: &["isl0", "isl1", "isl2", "isl3", "isl4"],
    medium: Medium::POINT_TO_POINT,
    addressing: Addressing::LinkSubnet,
    ipv4_block: LINKS_BLOCK,
};

/// Between a satellite and the ground.
pub static GSL: EdgeClass = EdgeClass {
    name: "gsl",
    span: Span::Access,
    ports: &[
        "gsl0", "gsl1", "gsl2", "gsl3", "gsl4", "gsl5", "gsl6", "gsl7", "gsl8", "gsl9", "gsl10",
        "gsl11", "gsl12", "gsl13", "gsl14", "gsl15",
    ],
    medium: Medium::SERVED,
    addressing: Addressing::SharedSubnet,
    ipv4_block: Some((Ipv4Addr::new(10, 64, 0, 0), 12)),
};

/// Along a cable on the ground.
pub static CABLE: EdgeClass = EdgeClass {
    name: "cable",
    span: Span::Ground,
    ports: &[
        "eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "eth7", "eth8", "eth9", "eth10",
        "eth11", "eth12", "eth13", "eth14", "eth15",
    ],
    medium: Medium::POINT_TO_POINT,
    addressing: Addressing::LinkSubnet,
    ipv4_block: LINKS_BLOCK,
};

/// Between members of a network.
pub static NETWORK: EdgeClass = EdgeClass {
    name: "network",
    span: Span::Ground,
    ports: &[
        "net0", "net1", "net2", "net3", "net4", "net5", "net6", "net7", "net8", "net9", "net10",
        "net11", "net12", "net13", "net14", "net15",
    ],
    medium: Medium::SHARED,
    addressing: Addressing::SharedSubnet,
    ipv4_block: Some((Ipv4Addr::new(10, 96, 0, 0), 12)),
};

/// The medium that a port is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Medium {
    /// The word used in files and output.
    pub name: &'static str,
    /// Whether a port can have several edges at the same time. Frames then select theirs by the destination's
    /// MAC, and neighbours change with the edges. Otherwise the only far port is known from the start.
    pub several: bool,
    /// Whether Constel creates the port; otherwise it is an existing interface of the host.
    pub made: bool,
}

impl Medium {
    /// One far port, which never changes.
    pub const POINT_TO_POINT: Medium = Medium {
        name: "point-to-point",
        several: false,
        made: true,
    };
    /// One edge per terminal served.
    pub const SERVED: Medium = Medium {
        name: "served",
        several: true,
        made: true,
    };
    /// One edge per member in reach.
    pub const SHARED: Medium = Medium {
        name: "shared",
        several: true,
        made: true,
    };
}

/// The addresses of a port besides its MAC and the link-local IPv6 address derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// One of the two IPv4 addresses of its link's own subnet.
    LinkSubnet,
    /// An IPv4 address in the subnet that all ports of its kind share.
    SharedSubnet,
    /// No other.
    LinkLocal,
    /// No addresses: the node does not use IP there.
    None,
}

/// The attachment of the end of a port that is not in the node's stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attachment {
    /// A veth pair that Constel creates, one end in the node.
    Veth,
    /// This interface of the host.
    HostInterface(String),
}
