//! How packets find their way.

use constel_units::TimeSpan;
use serde::Serialize;

use super::{
    Bfd, Destinations, Family, Forwarding, Metric, Name, Reaction, Restart, Software, Start,
    TextFile,
};

/// How packets find their way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Routing {
    /// The Internet protocols of the nodes.
    pub families: Families,
    /// The source of the routes.
    pub mode: Mode,
    /// How long links that go down outlive the routes over them, less than a step; 0 without draining.
    pub drain: TimeSpan,
}

/// The Internet protocols of the nodes; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Families {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
}

impl Families {
    /// Whether `family` is enabled.
    pub fn has(self, family: Family) -> bool {
        match family {
            Family::Ipv4 => self.ipv4,
            Family::Ipv6 => self.ipv6,
        }
    }
}

/// Settings of the routes that Constel computes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComputedRouting {
    /// The nodes that routes lead to.
    pub destinations: Destinations,
    /// The metric of a path's length.
    pub metric: Metric,
    /// Most next hops of a route, 1..=16; more than one only with [`Metric::Hops`].
    pub paths: u8,
    /// Chosen paths with their times, from a file; they replace the shortest path where the file names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<Box<TextFile>>,
    /// The forwarding engine of the nodes.
    pub forwarding: Forwarding,
    /// The reaction of nodes to failures; `None`: they react at once.
    pub reaction: Option<Reaction>,
    /// Pairs with disjoint paths, by name; empty with a reaction.
    pub disjoint: Vec<Disjoint>,
}

/// Two nodes with several disjoint paths between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disjoint {
    /// Its name.
    pub name: Name,
    /// The two nodes, each a destination.
    pub between: [Name; 2],
    /// How many paths, 2..=8.
    pub paths: u8,
}

/// The source of the routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Constel.
    Computed(ComputedRouting),
    /// Routing daemons in the nodes.
    Daemons(Box<DaemonRouting>),
    /// Nobody.
    None,
}

impl Mode {
    /// The pairs with disjoint paths; only computed routing has some.
    pub fn disjoint(&self) -> &[Disjoint] {
        match self {
            Mode::Computed(computed) => &computed.disjoint,
            Mode::Daemons(_) | Mode::None => &[],
        }
    }

    /// The daemons, where daemons make the routes.
    pub fn daemons(&self) -> Option<&DaemonRouting> {
        match self {
            Mode::Daemons(routing) => Some(routing),
            Mode::Computed(_) | Mode::None => None,
        }
    }
}

/// A routing protocol within an autonomous system, of those that some software supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Igp {
    /// OSPFv2 for IPv4, OSPFv3 for IPv6.
    Ospf,
    /// IS-IS.
    Isis,
    /// Babel.
    Babel,
}

/// Routing by daemons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DaemonRouting {
    /// Which software.
    pub software: Software,
    /// The protocol; one that this software has.
    pub protocol: Igp,
    /// The protocol's timers.
    pub timers: Timers,
    /// Timers of BGP between systems.
    pub bgp_timers: Timers,
    /// Autonomous systems; empty: one for all. Otherwise at least two, of which exactly one lists no nodes: the
    /// rest is its own.
    pub systems: Vec<System>,
    /// Bidirectional Forwarding Detection; `None`: not used.
    pub bfd: Option<Bfd>,
    /// Settings that only OSPF has; of no meaning for other protocols.
    pub ospf: OspfExtra,
    /// How daemons that end are started again; `None`: they are not.
    pub restart: Option<Restart>,
    /// How fast daemons are started.
    pub start: Start,
    /// Whether their kernels report changes to them at once.
    pub kernel_events: bool,
    /// The longest convergence time; routes that have not converged by then never will.
    pub within: TimeSpan,
    /// The user's template of the configuration; `None`: the supplied one.
    pub template: Option<TextFile>,
}

/// An autonomous system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct System {
    /// The system's name.
    pub name: Name,
    /// The system's number.
    pub asn: u32,
    /// The system's hosts; empty: all nodes that no other system has.
    pub nodes: Vec<Name>,
    /// The system's route reflectors.
    pub reflectors: Vec<Name>,
}

/// Timers of a routing protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timers {
    /// Seconds between two hello packets, at least 1.
    pub hello_s: u16,
    /// Seconds after which a silent neighbour is dead, more than `hello_s`.
    pub dead_s: u16,
}

/// OSPF's settings besides hello and dead times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OspfExtra {
    /// Seconds until an unacknowledged packet is sent again, at least 1.
    pub retransmit_s: u16,
    /// Seconds by which route calculations are gathered, at least 1.
    pub tick_s: u16,
    /// Timers of ground links.
    pub ground: Timers,
    /// Seconds until an unacknowledged packet is sent again on a ground link, at least 1.
    pub ground_retransmit_s: u16,
    /// The size of areas; `None`: one area for everything.
    pub areas: Option<AreaSize>,
}

/// How large OSPF's areas are, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AreaSize {
    /// This number of planes, at least 1.
    Planes(u16),
    /// The number of planes that have this number of satellites.
    Satellites(u32),
}
