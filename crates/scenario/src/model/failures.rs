//! Failures and their times.

use constel_units::{Angle, Length, Ratio, TimeSpan};

use super::{FailureTime, Name, NodesNamed, SourcePosition};

/// A failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The failure's name.
    pub name: Name,
    /// The nodes, links or edges that fail.
    pub what: FailureTarget,
    /// The time of the failure.
    pub when: FailureTime,
    /// Commands in the failed nodes are started again when the failure is over; the failure is then of nodes,
    /// occurs once, and has an end.
    pub reboot: bool,
    /// The failure's place in the file; `None` for a failure that is not from a file.
    pub written: Option<SourcePosition>,
}

/// The target of a failure.
#[derive(Debug, Clone, PartialEq)]
pub enum FailureTarget {
    /// These nodes.
    Nodes(Vec<Name>),
    /// The laser or cable between these nodes.
    Link(Name, Name),
    /// Satellites, their links, or all stations. Constellations and shells as in
    /// [`CrossShell::from`](super::CrossShell::from).
    Sky(constel_topology::FailureTarget),
    /// Edges of this network.
    Network(Name, Disruption),
}

/// A change of a network's edges. Members are given by name or pattern; whether such members exist is known
/// when the plan is made.
#[derive(Debug, Clone, PartialEq)]
pub enum Disruption {
    /// No edges between these groups; a member that is in no group is in a group of its own.
    Partition(Vec<Vec<NodesNamed>>),
    /// Members in a sphere lose frames that they receive.
    Jamming {
        /// The sphere's centre.
        centre: Centre,
        /// The sphere's radius.
        radius: Length,
        /// Additional loss; all: the edge is removed.
        loss: Ratio,
    },
    /// Some edges are worse.
    Disturbance {
        /// Sending members.
        from: Vec<NodesNamed>,
        /// Receiving members.
        to: Vec<NodesNamed>,
        /// Additional loss; all: the edge is removed.
        loss: Ratio,
        /// Additional delay.
        extra_delay: TimeSpan,
    },
}

/// The centre of a sphere.
#[derive(Debug, Clone, PartialEq)]
pub enum Centre {
    /// A node, wherever it is.
    Node(Name),
    /// A place that turns with the Earth.
    Place {
        /// Latitude.
        latitude: Angle,
        /// Longitude.
        longitude: Angle,
        /// Height above the WGS84 ellipsoid.
        altitude: Length,
    },
}
