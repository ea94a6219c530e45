//! `failures`: failures and their times.

use constel_units::{Angle, Length, Ratio, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Name, NodeName, RawDisturbance, RawJamming, RawPartition};

/// A failure: once, with `at` and optionally `for`; regularly, with `every` as well; or repeatedly at random times, with `mtbf` and `mttr`.
/// Exactly one of the other keys gives its target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Failure")]
pub struct RawFailure {
    /// The failure's name, unique among failures: `constel link` prints it for every link that the failure
    /// removes, and random times depend on it.
    pub name: Name,
    /// The time of the failure, lab time.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "366 d"))]
    pub at: Option<TimeSpan>,
    /// Duration of the failure. With `at` only; without it, for good.
    #[serde(rename = "for")]
    #[schemars(extend("x-exclusive-minimum" = "0 s", "x-maximum" = "366 d"))]
    pub length: Option<TimeSpan>,
    /// The failure happens again each time this has passed since its beginning. It is longer than `for`. Only with `at` and `for`.
    #[schemars(extend("x-exclusive-minimum" = "0 s", "x-maximum" = "366 d"))]
    pub every: Option<TimeSpan>,
    /// Mean time from a repair to the next failure, exponentially distributed. Every object fails
    /// independently, at times that depend on the scenario's seed, this failure's name and the object's name.
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "3660 d"))]
    pub mtbf: Option<TimeSpan>,
    /// Mean time from a failure to its repair, exponentially distributed.
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "3660 d"))]
    pub mttr: Option<TimeSpan>,
    /// The nodes reboot: commands of `traffic` that run in them are killed when the failure begins. When it
    /// ends the commands are started again, until their own time is over, and their output continues in the
    /// same file. Routing daemons and the programs of containers continue. Only with `nodes`, `at` and `for`, without `every`.
    #[serde(default)]
    pub reboot: bool,
    /// The target.
    #[serde(flatten)]
    pub what: RawTarget,
}

/// The target of a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawTarget {
    /// These satellites or stations lose all their links.
    Nodes(#[schemars(length(min = 1, max = 100_000))] Vec<NodeName>),
    /// One link between satellites, or one cable.
    Link(RawFailedLink),
    /// All satellites of this constellation.
    Satellites(Name),
    /// All satellites of a plane together.
    Plane(RawFailedPlane),
    /// All links between satellites of this constellation.
    Lasers(Name),
    /// All stations.
    Stations(AllStations),
    /// Nodes or links over, or in, a circle on the ground (a solar storm, a rain cell).
    Region(RawRegion),
    /// Links between satellites near the poles.
    Polar(RawPolar),
    /// All links across the seam of this constellation.
    Seam(Name),
    /// Satellites that run on batteries: those in the Earth's shadow.
    Eclipse(RawEclipse),
    /// A partition of a network into groups without edges between them.
    Partition(RawPartition),
    /// Members of a network within a sphere receive badly or nothing.
    Jamming(RawJamming),
    /// Edges of a network lose more, or have a longer delay.
    Disturbance(RawDisturbance),
}

/// Satellites in the Earth's shadow (umbra) lose all their links, all the time or most of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Eclipse")]
pub struct RawEclipse {
    /// Whose.
    pub of: Name,
    /// Share of `period` in which a satellite works in the shadow; it rests otherwise to save energy.
    #[serde(default = "no_share")]
    pub duty: Ratio,
    /// Period of work and rest. Satellites take turns, by the scenario's seed.
    #[serde(default = "a_minute")]
    #[schemars(extend("x-minimum" = "1 s", "x-maximum" = "1 d"))]
    pub period: TimeSpan,
}

fn no_share() -> Ratio {
    Ratio::from_ratio(0.0).expect("zero is a ratio")
}

fn a_minute() -> TimeSpan {
    TimeSpan::from_ns(60_000_000_000)
}

/// Two satellites with lasers to each other, or two nodes that a cable joins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FailedLink")]
pub struct RawFailedLink {
    /// One end.
    pub from: NodeName,
    /// The other end.
    pub to: NodeName,
}

/// A plane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FailedPlane")]
pub struct RawFailedPlane {
    /// A constellation, or `<constellation>-<shell>` of an element file.
    pub of: Name,
    /// The plane's number, from 0.
    #[schemars(range(min = 0, max = 9_999))]
    pub number: u16,
}

/// All stations.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AllStations {
    /// Every one of them.
    All,
}

/// A circle on the ground.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Region")]
pub struct RawRegion {
    /// Latitude of the centre.
    #[schemars(extend("x-minimum" = "-90 deg", "x-maximum" = "90 deg"))]
    pub latitude: Angle,
    /// Longitude of the centre.
    #[schemars(extend("x-minimum" = "-180 deg", "x-maximum" = "180 deg"))]
    pub longitude: Angle,
    /// Radius on the ground.
    #[schemars(extend("x-exclusive-minimum" = "0 km", "x-maximum" = "20100 km"))]
    pub radius: Length,
    /// The kind of nodes or links that fail there.
    #[serde(default)]
    pub hits: RegionHits,
}

/// The kind of nodes or links that fail in a region.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RegionHits {
    /// Satellites above it.
    Satellites,
    /// Stations in it.
    Stations,
    /// Both.
    #[default]
    Both,
}

/// Links between satellites near the poles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Polar")]
pub struct RawPolar {
    /// Whose links.
    pub of: Name,
    /// Links with an end farther from the equator than this.
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "90 deg"))]
    pub beyond: Angle,
}
