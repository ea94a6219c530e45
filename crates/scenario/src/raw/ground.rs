//! `ground`: stations, hosts and cables on the Earth.

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
    /// Cables between stations and hosts, whose links never change.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub cables: Vec<RawCable>,
    /// A CSV file of satellites chosen beforehand, by a Python function or by your own scheduler. Columns:
    /// `t_s` (lab time), `station`, `satellites` (names with spaces between them, the most wanted first; empty:
    /// the station has no link). A row holds until the station's next one. Each antenna takes the first
    /// satellite of the list that can be used and that no other antenna of the station has. Before its first
    /// row, and at stations without rows, the policy chooses. Relative to the scenario file.
    #[schemars(length(min = 1))]
    pub choices: Option<String>,
}

/// A router or computer on the ground that has cables, or a port in networks, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Host")]
pub struct RawHost {
    /// The number of equal hosts at this place, named `<name>-<n>` instead of `<name>`, `n` from 0.
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
    /// The software of the host.
    pub node: Option<RawNode>,
    /// The name of an interface of the machine, a network card or a veth. The host is the device behind it, for
    /// example a computer, phone or modem that communicates through the lab. Constel creates no node for
    /// it. The host has one cable (to the station whose terminal it is), or is in one network (with the
    /// satellite whose payload it is).
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
    #[schemars(extend("x-minimum" = "-90 deg", "x-maximum" = "90 deg"))]
    pub latitude: Option<Angle>,
    /// Longitude, east positive. Required unless the station moves.
    #[schemars(extend("x-minimum" = "-180 deg", "x-maximum" = "180 deg"))]
    pub longitude: Option<Angle>,
    /// Height above the WGS84 ellipsoid. Default `0 m`.
    #[schemars(extend("x-minimum" = "-1000 m", "x-maximum" = "20000 m"))]
    pub altitude: Option<Length>,
    /// Positions of a moving station over time: it moves along the great circle from one waypoint to the next,
    /// and rests before the first and after the last.
    #[schemars(length(min = 1, max = 100_000))]
    pub track: Option<Vec<Waypoint>>,
    /// Positions of a moving station from a CSV file with the columns `t_s` (lab time), `latitude_deg`,
    /// `longitude_deg` and optionally `altitude_m` (otherwise 0 m); relative to the scenario file.
    #[schemars(length(min = 1))]
    pub track_file: Option<String>,
    /// The number of satellites that the station can use at the same time, of any constellation; default 1.
    #[schemars(range(min = 1, max = 32))]
    pub antennas: Option<u8>,
    /// The station's radios, each with its constellations, antennas, mask and rule. Without them the station
    /// has one radio for all constellations, with `antennas`.
    #[schemars(length(min = 1, max = 16))]
    pub terminals: Option<Vec<RawTerminal>>,
    /// Whether it feeds the satellites of constellations with `bent_pipe`.
    #[serde(default)]
    pub feeder: bool,
    /// A gateway has one antenna for each shell that serves the ground, so that it joins them: packets that
    /// arrive by one may leave by another. It has no `antennas`. Other stations forward no traffic of other
    /// nodes, however many satellites they use.
    #[serde(default)]
    pub gateway: bool,
    /// Obstacles that hide parts of the station's sky.
    #[serde(default)]
    #[schemars(length(max = 360))]
    pub obstacles: Vec<Obstacle>,
    /// The software of the station.
    pub node: Option<RawNode>,
}

/// The position of a moving station at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Waypoint")]
pub struct Waypoint {
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Obstacle")]
pub struct Obstacle {
    /// Azimuth at which it begins, clockwise from north.
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "360 deg"))]
    pub from: Angle,
    /// Azimuth at which it ends, clockwise from there.
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "360 deg"))]
    pub to: Angle,
    /// Elevation of its upper edge.
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "90 deg"))]
    pub elevation: Angle,
}

impl RawGround {
    /// Replaces hosts with a `count` by that number of hosts. Returns the names that two entries claim.
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

/// Stations from a CSV file with the columns `name`, `latitude_deg`, `longitude_deg` and optionally
/// `altitude_m` (otherwise 0 m). Exactly one of `first` and `names` selects the rows.
///
/// A station's name is the row's name in lower-case ASCII with `-` between words. If the file gives another
/// name in parentheses, as in `Al-Qahirah-(Cairo)`, the station has that name. The second row of the same name
/// gets `-2`, and so on.
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
    /// The first rows of the file, up to this number.
    #[schemars(range(min = 1, max = 100_000))]
    pub first: Option<u32>,
    /// These rows, each by its name.
    #[schemars(length(min = 1))]
    pub names: Option<Vec<RawCity>>,
    /// The number of satellites that each can use at the same time; default 1.
    #[schemars(range(min = 1, max = 32))]
    pub antennas: Option<u8>,
    /// Radios of each, instead of `antennas`.
    #[schemars(length(min = 1, max = 16))]
    pub terminals: Option<Vec<RawTerminal>>,
    /// Whether they feed the satellites of constellations with `bent_pipe`.
    #[serde(default)]
    pub feeder: bool,
}

/// A row of a file of places: its name, or its name and the name of the station.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
#[schemars(rename = "City")]
pub enum RawCity {
    /// The row's name, as in the file or as the station's name.
    Name(#[schemars(length(min = 1))] String),
    /// The row's name, and another name for the station.
    As {
        /// The row's name.
        #[schemars(length(min = 1))]
        city: String,
        /// The name of the station.
        #[serde(rename = "as")]
        name: Name,
    },
}
