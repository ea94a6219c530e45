//! `spacecraft`: spacecraft in formation.

use constel_units::{Angle, Length, Speed, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Name, RawNode};

/// A formation: 2 to 100 spacecraft with the names `<formation>-<n>`, `n` from 0. Exactly one of `preset`,
/// `relative`, `elements`, `tle` and `ephemeris` gives their positions. Spacecraft have no lasers and no links to the
/// ground; `networks` link them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Formation")]
pub struct RawFormation {
    /// The orbit of the chief. The craft start beside it at lab time zero. Required with `preset`, `relative`
    /// and `elements`, and only there. From then on each craft moves by itself under the Earth's gravity with
    /// J2, J3 and J4, without station keeping and without drag.
    pub orbit: Option<Chief>,
    /// The number of craft. Required with `preset: string-of-pearls`, `preset: circumnavigation`, `tle` and
    /// `ephemeris` (whose files must have this number), and only there.
    #[schemars(range(min = 2, max = 100))]
    pub craft: Option<u32>,
    /// The size of the formation: the distance from craft to craft of `string-of-pearls` and `starling`
    /// (default 64 km), the radius of `circumnavigation`, the edge of `tetrahedron`. Only with `preset`.
    #[schemars(extend("x-minimum" = "10 m", "x-maximum" = "200 km"))]
    pub size: Option<Length>,
    /// The longest time from the epoch of a craft's elements to the start of the scenario, before or after it: SGP4 is
    /// accurate for a couple of weeks. Older elements are an error, as a formation has all of its craft. Only with `tle`;
    /// default: `14 d`.
    #[schemars(extend("x-minimum" = "0 s", "x-maximum" = "36500 d"))]
    pub max_age: Option<TimeSpan>,
    /// Whether one record or state of the file that cannot be read refuses the file. With `false`, bad records are counted by
    /// `constel check` as long as the others are as many as `craft`, and bad states are holes, as of
    /// `constellations.NAME.ephemeris`. Only with `tle` and `ephemeris`.
    #[serde(default)]
    pub strict: bool,
    /// The software of its craft.
    pub node: Option<RawNode>,
    /// The positions.
    #[serde(flatten)]
    pub from: RawPositions,
}

/// The source of the positions of a formation's craft.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawPositions {
    /// A formation by name.
    Preset(FormationPreset),
    /// Position of each craft relative to the chief at lab time zero, in Clohessy and Wiltshire's terms with
    /// curvilinear coordinates: distances along and across the orbit are arcs.
    Relative(#[schemars(length(min = 2, max = 100))] Vec<RelativeState>),
    /// The relative orbital elements of each craft at lab time zero, times the chief's semi-major axis (D'Amico 2010).
    Elements(#[schemars(length(min = 2, max = 100))] Vec<RelativeElements>),
    /// A file of two-line elements, relative to the scenario file: its objects in their order, propagated with SGP4.
    Tle(#[schemars(length(min = 1))] String),
    /// A file of positions, relative to the scenario file: a CCSDS Orbit Ephemeris Message or CSV, as of
    /// `constellations.NAME.ephemeris`; its objects in their order.
    Ephemeris(#[schemars(length(min = 1))] String),
}

/// A circular orbit at lab time zero, and the place on it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChiefOrbit")]
pub struct Chief {
    /// Height above the equatorial radius of WGS84 (6378.137 km).
    #[schemars(extend("x-minimum" = "150 km", "x-maximum" = "100000 km"))]
    pub altitude: Length,
    /// Inclination.
    #[schemars(extend("x-minimum" = "0 deg", "x-maximum" = "180 deg"))]
    pub inclination: Angle,
    /// Right ascension of the ascending node.
    #[serde(default = "zero_angle")]
    #[schemars(extend("x-minimum" = "0 deg", "x-exclusive-maximum" = "360 deg"))]
    pub raan: Angle,
    /// Angle from the ascending node along the orbit.
    #[serde(default = "zero_angle")]
    #[schemars(extend("x-minimum" = "0 deg", "x-exclusive-maximum" = "360 deg"))]
    pub latitude_argument: Angle,
}

fn zero_angle() -> Angle {
    Angle::from_deg(0.0)
}

/// A formation by name.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum FormationPreset {
    /// Craft in train, each behind the last on the same path; craft 0 is the chief.
    StringOfPearls,
    /// Craft 0 is the chief; the others circle it once per orbit, evenly distributed.
    Circumnavigation,
    /// Four craft at the corners of a regular tetrahedron at lab time zero and nearly so once an orbit; in between they are up to
    /// four times as far apart.
    Tetrahedron,
    /// Four craft in train, 64 km apart by default: Starling's in-train formation.
    Starling,
}

/// The position of a craft relative to the chief.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Relative")]
pub struct RelativeState {
    /// Height above the chief.
    #[serde(default = "no_length")]
    #[schemars(extend("x-minimum" = "-200 km", "x-maximum" = "200 km"))]
    pub radial: Length,
    /// Ahead of it.
    #[serde(default = "no_length")]
    #[schemars(extend("x-minimum" = "-2000 km", "x-maximum" = "2000 km"))]
    pub along: Length,
    /// To the side that the orbit's angular momentum points to.
    #[serde(default = "no_length")]
    #[schemars(extend("x-minimum" = "-200 km", "x-maximum" = "200 km"))]
    pub cross: Length,
    /// Rate of `radial`.
    #[serde(default = "no_speed")]
    #[schemars(extend("x-minimum" = "-200 m/s", "x-maximum" = "200 m/s"))]
    pub radial_speed: Speed,
    /// Rate of `along`. Default: the rate at which the craft does not drift along the orbit (-2 n `radial`, and
    /// as much energy as the chief has).
    #[schemars(extend("x-minimum" = "-200 m/s", "x-maximum" = "200 m/s"))]
    pub along_speed: Option<Speed>,
    /// Rate of `cross`.
    #[serde(default = "no_speed")]
    #[schemars(extend("x-minimum" = "-200 m/s", "x-maximum" = "200 m/s"))]
    pub cross_speed: Speed,
}

/// Relative orbital elements times the chief's semi-major axis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RelativeElements")]
pub struct RelativeElements {
    /// Difference of semi-major axes.
    #[serde(default = "no_length")]
    #[schemars(extend("x-minimum" = "-200 km", "x-maximum" = "200 km"))]
    pub a: Length,
    /// Mean distance along the orbit.
    #[serde(default = "no_length")]
    #[schemars(extend("x-minimum" = "-2000 km", "x-maximum" = "2000 km"))]
    pub lambda: Length,
    /// Relative eccentricity, the part towards the node.
    #[serde(default = "no_length")]
    #[schemars(extend("x-minimum" = "-200 km", "x-maximum" = "200 km"))]
    pub ex: Length,
    /// Relative eccentricity, the part a quarter of an orbit on.
    #[serde(default = "no_length")]
    #[schemars(extend("x-minimum" = "-200 km", "x-maximum" = "200 km"))]
    pub ey: Length,
    /// Relative inclination.
    #[serde(default = "no_length")]
    #[schemars(extend("x-minimum" = "-200 km", "x-maximum" = "200 km"))]
    pub ix: Length,
    /// Relative node times the sine of the inclination.
    #[serde(default = "no_length")]
    #[schemars(extend("x-minimum" = "-200 km", "x-maximum" = "200 km"))]
    pub iy: Length,
}

fn no_length() -> Length {
    Length::from_m(0.0)
}

fn no_speed() -> Speed {
    Speed::from_m_per_s(0.0)
}

impl RawFormation {
    /// Returns the number of craft, if the formation gives a valid one.
    pub(crate) fn count(&self) -> Option<u32> {
        match &self.from {
            RawPositions::Preset(FormationPreset::Tetrahedron | FormationPreset::Starling) => {
                Some(4)
            }
            RawPositions::Relative(states) => u32::try_from(states.len()).ok(),
            RawPositions::Elements(elements) => u32::try_from(elements.len()).ok(),
            RawPositions::Preset(_) | RawPositions::Tle(_) | RawPositions::Ephemeris(_) => {
                self.craft
            }
        }
    }
}

/// Returns the names of counted craft or hosts: `<name>-<n>`, with as many digits as the last needs.
pub(crate) fn numbered(name: &Name, count: u32) -> impl Iterator<Item = String> {
    let digits = count
        .saturating_sub(1)
        .checked_ilog10()
        .map_or(1, |n| n + 1) as usize;
    (0..count).map(move |n| format!("{name}-{n:0digits$}"))
}
