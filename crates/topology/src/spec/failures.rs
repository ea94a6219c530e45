//! Failures and their times.

use std::collections::BTreeSet;

use constel_orbit::DVec3;

/// Something that breaks, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Unique name: it is reported with the removed links, and random times depend on it.
    pub name: String,
    /// The target. If it has several objects, each fails independently when times are random.
    pub what: FailureTarget,
    /// When.
    pub when: FailureTime,
}

/// The target of a [`Failure`]. Constellations by their index in the spec.
#[derive(Debug, Clone, PartialEq)]
pub enum FailureTarget {
    /// These nodes lose all their links.
    Nodes(Vec<String>),
    /// One laser link or one cable.
    Link {
        /// One end.
        a: String,
        /// The other end.
        b: String,
    },
    /// All satellites of a constellation.
    Satellites {
        /// Whose.
        constellation: usize,
    },
    /// All satellites of a plane together.
    Plane {
        /// Whose.
        constellation: usize,
        /// Shell number.
        shell: u16,
        /// Plane number in the shell.
        plane: u16,
    },
    /// All laser links of a constellation.
    Lasers {
        /// Whose.
        constellation: usize,
    },
    /// All stations.
    Stations,
    /// Nodes over, or in, a circle on the ground.
    Region {
        /// Geocentric latitude of the centre, degrees.
        latitude_deg: f64,
        /// Longitude of the centre, degrees.
        longitude_deg: f64,
        /// Radius on a sphere of the Earth's mean radius, metres.
        radius_m: f64,
        /// Whether satellites above it lose all their links.
        satellites: bool,
        /// Whether stations in it lose all their links.
        stations: bool,
    },
    /// Laser links of a constellation with an end beyond a geocentric latitude, north or south.
    Polar {
        /// Whose.
        constellation: usize,
        /// Degrees, 0..=90.
        beyond_deg: f64,
    },
    /// Satellites of a constellation in the Earth's shadow (umbra): each works for `duty` of every `period_ns`,
    /// and not at all when that is 0. When in the period it works is the satellite's own, from the seed.
    Eclipse {
        /// Whose.
        constellation: usize,
        /// Share of the period, 0..=1.
        duty: f64,
        /// At least 1.
        period_ns: u64,
    },
    /// Laser links across the seam of a constellation.
    Seam {
        /// Whose.
        constellation: usize,
    },
    /// Edges of a network.
    Network {
        /// The network's index in the spec.
        network: usize,
        /// The change of its edges.
        trouble: Disruption,
    },
}

/// A change of a network's edges. Members by their index in the network.
#[derive(Debug, Clone, PartialEq)]
pub enum Disruption {
    /// No edges from one group to another; the members that are in no group form one group.
    Partition(Vec<BTreeSet<usize>>),
    /// Edges to members in a sphere lose frames.
    Jamming {
        /// The sphere's centre.
        centre: Centre,
        /// The sphere's radius, metres.
        radius_m: f64,
        /// Additional chance that a frame is lost; with 1 there is no edge.
        loss_ratio: f64,
    },
    /// Those from some members to some are worse.
    Disturbance {
        /// The sending members.
        from: BTreeSet<usize>,
        /// The receiving members.
        to: BTreeSet<usize>,
        /// Chance that a frame is lost besides; with 1 there is no edge.
        loss_ratio: f64,
        /// More delay, ns.
        extra_delay_ns: u64,
    },
}

/// The centre of a sphere.
#[derive(Debug, Clone, PartialEq)]
pub enum Centre {
    /// A node, wherever it is.
    Node(String),
    /// A place that turns with the Earth, ITRF, metres.
    Place(DVec3),
}

/// When a [`Failure`] happens, nanoseconds after the start of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureTime {
    /// Once.
    Scheduled {
        /// From here on.
        from_ns: u64,
        /// Until here; `None`: for good.
        until_ns: Option<u64>,
    },
    /// Again and again, at regular times.
    Regular {
        /// The first beginning.
        from_ns: u64,
        /// How long it lasts each time, at least 1.
        for_ns: u64,
        /// Time from one beginning to the next, more than `for_ns`.
        every_ns: u64,
    },
    /// Again and again, times exponentially distributed, working at the start.
    Random {
        /// Mean time from a repair to the next failure, at least 1.
        mtbf_ns: u64,
        /// Mean time from a failure to its repair, at least 1.
        mttr_ns: u64,
    },
    /// From the time given to [`Stepper::fail_from`](crate::Stepper::fail_from), until the time given to
    /// [`Stepper::heal_from`](crate::Stepper::heal_from); never without these calls.
    Told,
}
