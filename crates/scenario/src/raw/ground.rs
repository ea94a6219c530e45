//! `ground`: what stands on the Earth.

use std::collections::BTreeMap;

use constel_units::{Angle, Length, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spacecraft::numbered;
use super::{Name, RawLink, RawNode, RawTerminal};

/// Ground stations: written out, or taken from a file of places, or both; and hosts behind them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Ground")]
pub struct RawGround {
    /// Stations by name.
    #[serde(default)]
    pub stations: BTreeMap<Name, RawStation>,
    /// Stations from files of places.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub from: Vec<RawPlaces>,
    /// Routers and computers on the ground that have no radio to the sky, by name.
    #[serde(default)]
    pub hosts: BTreeMap<Name, RawHost>,
    /// Cables between stations and hosts. They never move.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub cables: Vec<RawCable>,
    /// A CSV file of who uses which satellites when, chosen beforehand: by a function in Python, by a scheduler of your own.
    /// Columns: `t_s` (lab time), `station`, `satellites` (names with spaces between them, the most wanted first; none: the
    /// station is dark). A row holds until the station's next one. Of the satellites listed each antenna takes the first that
    /// can be used and that no other of the station has. Before its first row, and at stations without rows, the policy
    /// chooses. Relative to the scenario file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub choices: Option<String>,
}

/// A router or computer on the ground that has cables, or a port in networks, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Host")]
pub struct RawHost {
    /// So many of the same kind at the same place, called `<name>-<n>` instead of `<name>`, `n` from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10_000))]
    pub count: Option<u32>,
    /// WGS84 geodetic latitude, north positive.
    #[schemars(extend("x-minimum" = "-90 deg", "x-maximum" = "90 deg"))]
    pub latitude: Angle,
    /// Longitude, east positive.
    #[schemars(extend("x-minimum" = "-180 deg", "x-maximum" = "180 deg"))]
    pub longitude: Angle,
    /// Height above the WGS84 ellipsoid.
    #[serde(default = "ground_level")]
    #[schemars(extend("x-minimum" = "-1000 m", "x-maximum" = "20000 m"))]
    pub altitude: Length,
    /// What it is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<RawNode>,
    /// It is what is plugged into this interface of the machine, a network card or a veth, and Constel makes nothing of it:
    /// a computer, phone or modem that speaks through the lab. It has one cable (to the station whose terminal it is), or
    /// is in one network (with the satellite whose payload it is).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 15))]
    pub attach: Option<String>,
}

/// A cable between two nodes on the ground.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Cable")]
pub struct RawCable {
    /// A station or host; at most 16 cables each.
    pub from: Name,
    /// Another.
    pub to: Name,
    /// One-way delay.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "10 s"))]
    pub delay: TimeSpan,
    /// Rate, queue and loss in each direction.
    pub link: RawLink,
}

/// A ground station.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Station")]
pub struct RawStation {
    /// WGS84 geodetic latitude, north positive. Required unless the station moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "-90 deg", "x-maximum" = "90 deg"))]
    pub latitude: Option<Angle>,
    /// Longitude, east positive. Required unless the station moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "-180 deg", "x-maximum" = "180 deg"))]
    pub longitude: Option<Angle>,
    /// Height above the WGS84 ellipsoid. Default `0 m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "-1000 m", "x-maximum" = "20000 m"))]
    pub altitude: Option<Length>,
    /// Where a moving station is when: along the great circle from one waypoint to the next, at rest
    /// before the first and after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100_000))]
    pub track: Option<Vec<RawWaypoint>>,
    /// The same from a CSV file with the columns `t_s` (lab time), `latitude_deg`, `longitude_deg`
    /// and, if it has one, `altitude_m` (otherwise 0 m); relative to the scenario file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub track_file: Option<String>,
    /// How many satellites it can use at the same time, of whichever constellation; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub antennas: Option<u8>,
    /// Its radios, each with its constellations, antennas, mask and rule. Without them it has one for all constellations,
    /// with `antennas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub terminals: Option<Vec<RawTerminal>>,
    /// Whether it feeds the satellites of constellations with `bent_pipe`.
    #[serde(default)]
    pub feeder: bool,
    /// A gateway has one antenna for each shell that serves the ground, so that it joins them: what comes by one
    /// may leave by another. It has no `antennas`. At other stations traffic of others does not pass, however many
    /// satellites they use.
    #[serde(default)]
    pub gateway: bool,
    /// What stands in the way.
    #[serde(default)]
    #[schemars(length(max = 360))]
    pub obstacles: Vec<RawObstacle>,
    /// What it is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<RawNode>,
}

/// Where a moving station is at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Waypoint")]
pub struct RawWaypoint {
    /// Lab time, later than that of the waypoint before.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "366 d"))]
    pub at: TimeSpan,
    /// WGS84 geodetic latitude, north positive.
    #[schemars(extend("x-minimum" = "-90 deg", "x-maximum" = "90 deg"))]
    pub latitude: Angle,
    /// Longitude, east positive.
    #[schemars(extend("x-minimum" = "-180 deg", "x-maximum" = "180 deg"))]
    pub longitude: Angle,
    /// Height above the WGS84 ellipsoid.
    #[serde(default = "ground_level")]
    #[schemars(extend("x-minimum" = "-1000 m", "x-maximum" = "20000 m"))]
    pub altitude: Length,
}

/// Something on a station's horizon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Obstacle")]
pub struct RawObstacle {
    /// Azimuth at which it begins, clockwise from north.
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "360 deg"))]
    pub from: Angle,
    /// Azimuth at which it ends, clockwise from there.
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "360 deg"))]
    pub to: Angle,
    /// How high it reaches.
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "90 deg"))]
    pub elevation: Angle,
}

impl RawGround {
    /// Puts hosts with a `count` in the place of what stands for them. Gives the names that two entries claim.
    pub(crate) fn count_hosts(&mut self) -> Vec<Name> {
        let mut twice = Vec::new();
        let written = std::mem::take(&mut self.hosts);
        for (name, host) in written {
            let count = host.count;
            let own = RawHost {
                count: None,
                ..host
            };
            let names: Vec<Name> = match count {
                Some(count) => numbered(&name, count).map(Name::settled).collect(),
                None => vec![name],
            };
            for name in names {
                if self.hosts.insert(name.clone(), own.clone()).is_some() {
                    twice.push(name);
                }
            }
        }
        twice
    }
}

fn ground_level() -> Length {
    Length::from_m(0.0)
}

/// Stations from a CSV file with the columns `name`, `latitude_deg`, `longitude_deg` and, if it
/// has one, `altitude_m` (otherwise 0 m). Exactly one of `first` and `names` says which rows.
///
/// A station's name is the row's name in lower-case ASCII with `-` between words; where the file
/// gives another name in parentheses, as in `Al-Qahirah-(Cairo)`, that one. The second row of the
/// same name gets `-2`, and so on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "Places",
    extend("oneOf" = [{"required": ["first"]}, {"required": ["names"]}])
)]
pub struct RawPlaces {
    /// The file, relative to the scenario file.
    #[schemars(length(min = 1))]
    pub file: String,
    /// The first so many rows of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub first: Option<u32>,
    /// These rows, each by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub names: Option<Vec<RawCity>>,
    /// How many satellites each can use at the same time; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub antennas: Option<u8>,
    /// Radios of each, instead of `antennas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub terminals: Option<Vec<RawTerminal>>,
    /// Whether they feed the satellites of constellations with `bent_pipe`.
    #[serde(default)]
    pub feeder: bool,
}

/// A row of a file of places: its name, or its name and what to call the station.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
#[schemars(rename = "City")]
pub enum RawCity {
    /// The row's name, written as in the file or as the station would be called.
    Name(#[schemars(length(min = 1))] String),
    /// The row's name, and another name for the station.
    As {
        /// The row's name.
        #[schemars(length(min = 1))]
        city: String,
        /// What to call the station.
        #[serde(rename = "as")]
        name: Name,
    },
}
