//! Files of positions in any format: finds out the format and reads the file.

use crate::ephemeris::EphemerisFile;
use crate::text::ReadErrors;
use crate::{csv, oem, sp3, stk};

/// The formats of positions that can be read; errors have their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// CCSDS Orbit Ephemeris Message, keywords or XML.
    Oem,
    /// SP3 of the IGS.
    Sp3,
    /// STK's `.e`.
    Stk,
    /// Constel's own CSV.
    Csv,
}

impl Format {
    /// The word that errors of its reader have.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Oem => "oem",
            Self::Sp3 => "sp3",
            Self::Stk => "stk",
            Self::Csv => "csv",
        }
    }

    /// Returns the format that a text begins with; a text that begins like none of the others is CSV.
    pub fn of(text: &str) -> Self {
        let text = constel_units::text::plain(text);
        let begin = text.trim_start();
        if begin.starts_with('<')
            || begin.starts_with("CCSDS_OEM_VERS")
            || begin.starts_with("COMMENT")
        {
            Self::Oem
        } else if sp3::is_one(begin) {
            Self::Sp3
        } else if stk::is_one(begin) {
            Self::Stk
        } else {
            Self::Csv
        }
    }
}

/// Reads a file of positions in any format. `name` becomes the object's name in a format without names. Bad states are
/// holes, unless the file has no other state.
///
/// # Errors
/// Everything found wrong, with its line, if the file's form is wrong or it has no position that can be used.
pub fn read(text: &str, name: &str) -> Result<EphemerisFile, ReadErrors> {
    match Format::of(text) {
        Format::Oem => oem::read(text),
        Format::Sp3 => sp3::read(text),
        Format::Stk => stk::read(text, name),
        Format::Csv => csv::read(text),
    }
}
