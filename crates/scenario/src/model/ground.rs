//! Stations, hosts and cables.

use std::collections::BTreeSet;

use constel_units::{Angle, Length, RainRate, TimeSpan};
use serde::Serialize;

use super::{GslRule, Link, Name, Recording};

/// A ground station.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Station {
    /// Its node name.
    pub name: Name,
    /// WGS84 geodetic latitude, -90 to 90 degrees.
    pub latitude: Angle,
    /// Longitude, -180 to 180 degrees.
    pub longitude: Angle,
    /// Height above the WGS84 ellipsoid.
    pub altitude: Length,
    /// Its radios to the sky, at least one, in the order of their ports.
    pub terminals: Vec<Terminal>,
    /// Its terminals have one antenna for each shell that serves the ground.
    pub gateway: bool,
    /// Whether it feeds bent-pipe satellites.
    pub feeder: bool,
    /// How hard it rains from when on, in order of time; before the first entry it does not.
    pub rain: Vec<(TimeSpan, RainRate)>,
    /// What was measured of its ground links; without points, nothing was.
    pub recording: Recording,
    /// What stands in the way.
    pub obstacles: Vec<Obstacle>,
    /// Where it is when, in order of time; empty for a station that stands still.
    pub track: Vec<Waypoint>,
}

impl Station {
    /// A station that stands still with a free view.
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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Terminal {
    /// Whose satellites it uses, by the constellations' places in the scenario; `None`: everybody's.
    pub constellations: Option<BTreeSet<usize>>,
    /// How many satellites it can use at the same time, at least 1; of no meaning at a gateway.
    pub antennas: u8,
    /// Lowest elevation at which it uses them; `None`: as each constellation has it.
    pub min_elevation: Option<Angle>,
    /// How its antennas choose; `None` where no satellite serves the ground.
    pub rule: Option<GslRule>,
}

/// Something on a station's horizon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Obstacle {
    /// Azimuth at which it begins.
    pub from: Angle,
    /// Azimuth at which it ends, clockwise.
    pub to: Angle,
    /// How high it is.
    pub elevation: Angle,
}

/// Where a moving station is at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Waypoint {
    /// Lab time.
    pub at: TimeSpan,
    /// WGS84 geodetic latitude.
    pub latitude: Angle,
    /// Longitude.
    pub longitude: Angle,
    /// Height above the WGS84 ellipsoid.
    pub altitude: Length,
}

/// A router or computer on the ground that only has cables.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Host {
    /// The interface of the machine whose far end it is; `None`: Constel makes it.
    pub attach: Option<String>,
    /// Its node name.
    pub name: Name,
    /// WGS84 geodetic latitude, -90 to 90 degrees.
    pub latitude: Angle,
    /// Longitude, -180 to 180 degrees.
    pub longitude: Angle,
    /// Height above the WGS84 ellipsoid.
    pub altitude: Length,
}

/// A cable between two nodes on the ground.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
