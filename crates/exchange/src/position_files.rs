//! Files of positions in any format: finds out the format and reads the file.

use constel_orbit::FileKind;

use crate::ephemeris::EphemerisFile;
use crate::text::{ReadError, ReadErrors};
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
        let begins = |word: &str| {
            let begin = begin.get(..word.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(word))
        };
        if begin.starts_with('<') || begins("CCSDS_OEM_VERS") || begins("COMMENT") {
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

/// The formats, for messages.
const WANTED: &str = "positions: OEM (`CCSDS_OEM_VERS` or XML with `<oem>`), SP3 (`#a` to `#d`), STK's `.e` (`stk.v.`) or CSV \
                      (`t_utc,sat_id,...`)";

/// Reads a file of positions in any format. `name` becomes the object's name in a format without names. Bad states are
/// holes, unless the file has no other state.
///
/// # Errors
/// Everything found wrong, with its line, if the file's form is wrong or it has no position that can be used.
pub fn read(text: &str, name: &str) -> Result<EphemerisFile, ReadErrors> {
    let read = match Format::of(text) {
        Format::Oem => oem::read(text),
        Format::Sp3 => sp3::read(text),
        Format::Stk => stk::read(text, name),
        Format::Csv => csv::read(text),
    };
    read.map_err(|errors| {
        let kind = FileKind::of(text);
        match kind.and_then(|kind| kind.refused_by("ephemeris", WANTED)) {
            Some(reason) => ReadErrors(vec![ReadError { line: 1, reason }]),
            None if kind.is_none() && !text.trim().is_empty() => unknown(errors),
            None => errors,
        }
    })
}

/// Adds the formats to the errors of a text that begins like none of them.
fn unknown(mut errors: ReadErrors) -> ReadErrors {
    if let Some(first) = errors.0.first_mut() {
        first.reason += &format!("; `ephemeris` reads {WANTED}");
    }
    errors
}
