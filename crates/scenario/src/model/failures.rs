//! Failures and their times.

use constel_units::{Angle, Length, Ratio, TimeSpan};
use serde::Serialize;

use super::{Name, NodesNamed, RegionHits, SourcePosition};

/// A failure.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    #[serde(skip)]
    pub written: Option<SourcePosition>,
}

/// The target of a failure. Constellations and shells as in [`CrossShell::from`](super::CrossShell::from).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureTarget {
    /// These nodes.
    Nodes(Vec<Name>),
    /// The laser or cable between these nodes.
    Link(Name, Name),
    /// All satellites of a constellation, each by itself.
    Satellites(usize),
    /// All satellites of this plane together.
    Plane((usize, u16), u16),
    /// All links between satellites of a constellation, each by itself.
    Lasers(usize),
    /// All stations, each by itself.
    Stations,
    /// Nodes or links over, or in, a circle on the ground.
    Region {
        /// Latitude of the centre.
        latitude: Angle,
        /// Longitude of the centre.
        longitude: Angle,
        /// Radius on the ground.
        radius: Length,
        /// The kind of nodes or links that fail.
        hits: RegionHits,
    },
    /// Links of a constellation with an end beyond a latitude.
    Polar(usize, Angle),
    /// Satellites of a constellation in the Earth's shadow, except during this share of this period.
    Eclipse(usize, Ratio, TimeSpan),
    /// Links across the seam of a constellation.
    Seam(usize),
    /// Edges of this network.
    Network(Name, Disruption),
}

/// A change of a network's edges. Members are given by name or pattern; whether such members exist is known
/// when the plan is made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
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

/// The time of a failure, lab time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureTime {
    /// Once, for this long; `None`: for good.
    Once(TimeSpan, Option<TimeSpan>),
    /// For the first time, for this long, and again after each of the last.
    Regularly(TimeSpan, TimeSpan, TimeSpan),
    /// Repeatedly: mean time between failures, mean time to repair.
    Random(TimeSpan, TimeSpan),
}
