//! Formations: craft that fly together.

use constel_units::{Length, TimeSpan};

use super::{Chief, RelativeElements, RelativeState, TextFile};
pub use crate::raw::FormationPreset;

/// The positions of a formation's craft.
#[derive(Debug, Clone, PartialEq)]
pub struct Formation {
    /// How many craft, 2 to 100.
    pub count: u32,
    /// The source of their positions.
    pub from: FormationSource,
    /// One record or state of its file that cannot be read refuses the file.
    pub strict: bool,
}

/// The source of the positions of a formation's craft.
#[derive(Debug, Clone, PartialEq)]
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
