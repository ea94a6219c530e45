//! What breaks, and when.

use std::collections::BTreeSet;

use constel_orbit::DVec3;

/// Something that breaks, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Unique name: it is said where something is missing, and random times depend on it.
    pub name: String,
    /// What breaks. Of several objects each breaks by itself when times are random.
    pub what: FailureTarget,
    /// When.
    pub when: FailureTime,
}

/// What a [`Failure`] hits. Constellations by their place in the spec.
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
        /// Its place in the spec.
        network: usize,
        /// What becomes of them.
        trouble: Trouble,
    },
}

/// What becomes of a network's edges. Members by their place in the network.
#[derive(Debug, Clone, PartialEq)]
pub enum Trouble {
    /// There are none from one group to another; whoever is in none of them is in a group with the others that are in none.
    Partition(Vec<BTreeSet<usize>>),
    /// Those to members in a sphere lose frames.
    Jamming {
        /// Its centre.
        centre: Centre,
        /// Its radius, metres.
        radius_m: f64,
        /// Chance that a frame is lost besides; with 1 there is no edge.
        loss_ratio: f64,
    },
    /// Those from some members to some are worse.
    Disturbance {
        /// From whom.
        from: BTreeSet<usize>,
        /// To whom.
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
    /// Again and again, times exponentially distributed, working at the start.
    Random {
        /// Mean time from a repair to the next failure, at least 1.
        mtbf_ns: u64,
        /// Mean time from a failure to its repair, at least 1.
        mttr_ns: u64,
    },
    /// From when [`Stepper::fail_from`](crate::Stepper::fail_from) says, until
    /// [`Stepper::heal_from`](crate::Stepper::heal_from) does; never, where nobody says.
    Told,
}
