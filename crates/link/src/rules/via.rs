//! Paths through a constellation.

use serde::{Deserialize, Serialize};

/// A way between two places on the ground through the sky. Its delay, and when it is not there, follow from orbits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Via {
    /// What flies, by a name that scenarios have for it, or `meo` or `geo`.
    pub sky: String,
    /// Longitude of the one satellite of `geo`, degrees, east positive; `None` of others.
    pub orbital_slot_deg: Option<f64>,
    /// Where what is plugged into the first interface stands.
    pub from: Place,
    /// Where what is plugged into the second stands.
    pub to: Place,
    /// UTC at which the path begins, nanoseconds since 1970; `None`: when the rule is put in force.
    pub at_unix_ns: Option<i64>,
    /// Satellites are used while they stand so high above the horizon, degrees.
    pub min_elevation_deg: f64,
    /// For so long nothing passes when an end changes its satellite, nanoseconds.
    pub outage_ns: u64,
    /// Radio between the ends and their satellites: `gsl.radio` of a scenario, as JSON. `None`: only distance counts.
    pub radio: Option<String>,
    /// Rain at `from` and at `to`, mm/h.
    pub rain_mm_per_h: [f64; 2],
}

/// A place on the ground.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// WGS84 geodetic latitude, degrees, north positive.
    pub latitude_deg: f64,
    /// Longitude, degrees, east positive.
    pub longitude_deg: f64,
}
