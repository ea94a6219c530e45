//! What breaks, and when.

use constel_units::{Angle, Length, Ratio, TimeSpan};
use serde::Serialize;

use super::{Name, NodesNamed, RegionHits, Written};

/// Something that breaks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    /// Its name.
    pub name: Name,
    /// What breaks.
    pub what: FailureTarget,
    /// When.
    pub when: FailureTime,
    /// Commands in its nodes are started anew when it is over; then it is once, of nodes, and has an end.
    pub reboot: bool,
    /// Its place in the file; `None` where no file has it.
    #[serde(skip)]
    pub written: Option<Written>,
}

/// What breaks. Constellations and shells as in [`CrossShell::from`](super::CrossShell::from).
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
    /// What is over or in a circle on the ground.
    Region {
        /// Latitude of the centre.
        latitude: Angle,
        /// Longitude of the centre.
        longitude: Angle,
        /// Radius on the ground.
        radius: Length,
        /// What is hit.
        hits: RegionHits,
    },
    /// Links of a constellation with an end beyond a latitude.
    Polar(usize, Angle),
    /// Satellites of a constellation in the Earth's shadow, but for this share of this period.
    Eclipse(usize, Ratio, TimeSpan),
    /// Links across the seam of a constellation.
    Seam(usize),
    /// Edges of this network.
    Network(Name, Trouble),
}

/// What becomes of a network's edges. Members by name or pattern; whether there are such is known when the plan is made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// There are none between these groups; whoever is in none is in one of its own.
    Partition(Vec<Vec<NodesNamed>>),
    /// Members in a sphere lose what they hear.
    Jamming {
        /// Its centre.
        centre: Centre,
        /// Its radius.
        radius: Length,
        /// How much is lost besides; all: there is no edge.
        loss: Ratio,
    },
    /// Some edges are worse.
    Disturbance {
        /// From whom.
        from: Vec<NodesNamed>,
        /// To whom.
        to: Vec<NodesNamed>,
        /// How much is lost besides; all: there is no edge.
        loss: Ratio,
        /// On top of the delay.
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

/// When something breaks, lab time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureTime {
    /// Once, for so long; `None`: for good.
    Once(TimeSpan, Option<TimeSpan>),
    /// Again and again: mean time between failures, mean time to repair.
    Random(TimeSpan, TimeSpan),
}
