//! Stations, hosts and cables.

use std::collections::BTreeSet;

use constel_topology::{GslSpec, Rain, Recording};
use constel_units::{Angle, Length, TimeSpan};

use super::{Link, Name, Obstacle, Waypoint};

/// A ground station.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// The station's node name.
    pub name: Name,
    /// WGS84 geodetic latitude, -90 to 90 degrees.
    pub latitude: Angle,
    /// Longitude, -180 to 180 degrees.
    pub longitude: Angle,
    /// Height above the WGS84 ellipsoid.
    pub altitude: Length,
    /// The station's radios to the sky, at least one, in the order of their ports.
    pub terminals: Vec<Terminal>,
    /// The station's terminals have one antenna for each shell that serves the ground.
    pub gateway: bool,
    /// Whether it feeds bent-pipe satellites.
    pub feeder: bool,
    /// How hard it rains from when on, in order of time; before the first entry it does not.
    pub rain: Vec<Rain>,
    /// Measurements of the station's ground links; without points, nothing was measured.
    pub recording: Recording,
    /// Obstacles that hide parts of the station's sky.
    pub obstacles: Vec<Obstacle>,
    /// Positions over time, in order of time; empty for a station that does not move.
    pub track: Vec<Waypoint>,
}

impl Station {
    /// Returns a station at rest with a free view.
    pub(crate) fn at(
        name: Name,
        (latitude, longitude, altitude): (Angle, Angle, Length),
        terminals: Vec<Terminal>,
    ) -> Self {
        let (obstacles, track) = (Vec::new(), Vec::new());
        Self {
            name,
            latitude,
            longitude,
            altitude,
            terminals,
            gateway: false,
            feeder: false,
            rain: Vec::new(),
            recording: Recording::default(),
            obstacles,
            track,
        }
    }
}

/// A radio of a station, with an interface of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Terminal {
    /// Constellations whose satellites the terminal uses, by their indices in the scenario; `None`: all.
    pub constellations: Option<BTreeSet<usize>>,
    /// The number of satellites that the terminal can use at the same time, at least 1; of no meaning at a
    /// gateway.
    pub antennas: u8,
    /// The lowest elevation at which the terminal uses satellites; `None`: each constellation's own.
    pub min_elevation: Option<Angle>,
    /// How its antennas choose; `None` where no satellite serves the ground.
    pub rule: Option<GslSpec>,
}

/// A router or computer on the ground that only has cables.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// The interface of the machine at which the host is; `None`: Constel creates it.
    pub attach: Option<String>,
    /// The node name.
    pub name: Name,
    /// WGS84 geodetic latitude, -90 to 90 degrees.
    pub latitude: Angle,
    /// Longitude, -180 to 180 degrees.
    pub longitude: Angle,
    /// Height above the WGS84 ellipsoid.
    pub altitude: Length,
}

/// A cable between two nodes on the ground.
#[derive(Debug, Clone, PartialEq)]
pub struct Cable {
    /// A station or host.
    pub from: Name,
    /// Another.
    pub to: Name,
    /// One-way delay.
    pub delay: TimeSpan,
    /// Rate, queue and loss in each direction.
    pub link: Link,
}
