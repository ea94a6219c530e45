//! Why a link is down: every reason there is.

use crate::node::NodeId;

/// Why a link is down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Down {
    /// Both are the same node.
    SameNode,
    /// Two ground nodes have no radio to each other.
    BothOnGround,
    /// The constellation has no lasers.
    NoLasers,
    /// The pattern does not make them neighbours.
    NotNeighbours,
    /// The planes fly in opposite directions and the seam is not linked.
    Seam,
    /// The satellite's orbit gives no position now.
    NoPosition {
        /// The satellite.
        node: NodeId,
    },
    /// One end is too far from the equator for inter-plane links.
    PolarCutoff {
        /// The end that is.
        node: NodeId,
        /// The satellite's geocentric latitude, degrees.
        latitude_deg: f64,
        /// The limit, degrees.
        cutoff_deg: f64,
    },
    /// Too far apart.
    BeyondRange {
        /// How far, metres.
        range_m: f64,
        /// The limit, metres.
        max_range_m: f64,
    },
    /// The straight line passes too low.
    LineOfSight {
        /// The line's lowest height, metres; negative through the Earth.
        altitude_m: f64,
        /// The limit, metres.
        clearance_m: f64,
    },
    /// The satellite has no links to the ground, by design.
    NotForGround {
        /// The satellite.
        node: NodeId,
    },
    /// The station has no terminal for the satellite's constellation.
    NoTerminal {
        /// The satellite.
        node: NodeId,
    },
    /// An obstacle hides that direction.
    Obstructed {
        /// Azimuth of the satellite, degrees from north.
        azimuth_deg: f64,
        /// The satellite's elevation, degrees.
        elevation_deg: f64,
        /// Height of the obstacle there, degrees.
        obstacle_deg: f64,
    },
    /// The station sees the satellite too near the geostationary arc.
    GsoArc {
        /// How near, degrees.
        angle_deg: f64,
        /// The limit, degrees.
        limit_deg: f64,
    },
    /// The radio link leaves no room for any modulation.
    NoMargin {
        /// Down to the ground; else from the ground up.
        to_ground: bool,
        /// Carrier to noise, dB.
        c_n_db: f64,
        /// Lost to rain, dB.
        rain_db: f64,
        /// Lost to gases, dB.
        gas_db: f64,
    },
    /// No feeder uses the satellite, and it relays traffic of feeders only.
    NoFeeder,
    /// All beams of the satellite are in use.
    BeamsTaken {
        /// How many it has.
        beams: u32,
    },
    /// The laser terminal would have to turn too fast.
    SlewLimit {
        /// How fast, degrees per second.
        rate_deg_per_s: f64,
        /// The limit.
        limit_deg_per_s: f64,
    },
    /// Switched off by a decision.
    SwitchedOff,
    /// Broken.
    Failed {
        /// Place of the failure in the spec.
        failure: u16,
    },
    /// The satellite is too low above the station's horizon.
    BelowMask {
        /// The satellite's elevation, degrees.
        elevation_deg: f64,
        /// The limit, degrees.
        mask_deg: f64,
    },
    /// The station uses another satellite.
    PolicyChose {
        /// The satellite that it uses.
        satellite: NodeId,
    },
    /// The policy left the station dark though this satellite is above the mask.
    PolicyChoseNone,
}
