//! Paths through a constellation.

use serde::{Deserialize, Serialize};

/// A path between two places on the ground through a constellation. Its delay and its outages follow from orbits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Via {
    /// The constellation: a name that scenarios have for it, or `meo` or `geo`.
    pub sky: String,
    /// Longitude of the single satellite of `geo`, degrees, east positive; `None` for other constellations.
    pub orbital_slot_deg: Option<f64>,
    /// Place of the equipment connected to the first interface.
    pub from: GroundPoint,
    /// Place of the equipment connected to the second.
    pub to: GroundPoint,
    /// UTC at which the path begins, nanoseconds since 1970; `None`: when the rule is put into force.
    pub at_unix_ns: Option<i64>,
    /// Minimum elevation of usable satellites above the horizon, degrees.
    pub min_elevation_deg: f64,
    /// Outage when an end changes its satellite, nanoseconds.
    pub outage_ns: u64,
    /// Radio between the ends and their satellites: `gsl.radio` of a scenario, as JSON. `None`: only distance matters.
    pub radio: Option<String>,
    /// Rain at `from` and at `to`, mm/h.
    pub rain_mm_per_h: [f64; 2],
}

/// A place on the ground.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroundPoint {
    /// WGS84 geodetic latitude, degrees, north positive.
    pub latitude_deg: f64,
    /// Longitude, degrees, east positive.
    pub longitude_deg: f64,
}
