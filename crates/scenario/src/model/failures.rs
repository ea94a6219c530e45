//! What breaks, and when.

use constel_units::{Angle, Length, Ratio, TimeSpan};
use serde::Serialize;

use super::{Name, RegionHits};

/// Something that breaks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    /// Its name.
    pub name: Name,
    /// What breaks.
    pub what: FailureTarget,
    /// When.
    pub when: FailureTime,
}

/// What breaks. Constellations and shells as in [`CrossShell::from`](super::CrossShell::from).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureTarget {
    /// These nodes.
    Nodes(Vec<Name>),
    /// The link between these satellites.
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
