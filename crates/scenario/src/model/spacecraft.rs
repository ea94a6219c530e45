//! Formations: craft that fly together.

use constel_units::{Angle, Length, Speed, TimeSpan};
use serde::Serialize;

use super::TextFile;
pub use crate::raw::FormationPreset;

/// The positions of a formation's craft.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Formation {
    /// How many craft, 2 to 100.
    pub count: u32,
    /// The source of their positions.
    pub from: FormationSource,
    /// One record or state of its file that cannot be read refuses the file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
}

/// The source of the positions of a formation's craft.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FormationSource {
    /// By name, with a size.
    Preset(Chief, FormationPreset, Length),
    /// Beside the chief at lab time zero.
    Relative(Chief, Vec<RelativeState>),
    /// Craft given by relative orbital elements.
    Elements(Chief, Vec<RelativeElements>),
    /// Two-line elements, and the longest time from their epochs to the start. The file's text is passed on unread.
    Tle(TextFile, TimeSpan),
    /// Positions: OEM or CSV. The file's text is passed on unread.
    Ephemeris(TextFile),
}

/// A circular orbit at lab time zero, and the place on it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Chief {
    /// Height above the equatorial radius of WGS84.
    pub altitude: Length,
    /// Inclination.
    pub inclination: Angle,
    /// Right ascension of the ascending node.
    pub raan: Angle,
    /// Angle from the node along the orbit.
    pub latitude_argument: Angle,
}

/// A craft beside the chief, curvilinear.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RelativeState {
    /// Higher.
    pub radial: Length,
    /// Ahead.
    pub along: Length,
    /// To the side of the angular momentum.
    pub cross: Length,
    /// Rate of `radial`.
    pub radial_speed: Speed,
    /// Rate of `along`; `None`: such that it does not drift.
    pub along_speed: Option<Speed>,
    /// Rate of `cross`.
    pub cross_speed: Speed,
}

/// Relative orbital elements times the chief's semi-major axis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RelativeElements {
    /// Difference of semi-major axes.
    pub a: Length,
    /// Along the orbit.
    pub lambda: Length,
    /// Eccentricity towards the node.
    pub ex: Length,
    /// Eccentricity a quarter on.
    pub ey: Length,
    /// Inclination.
    pub ix: Length,
    /// Node.
    pub iy: Length,
}
