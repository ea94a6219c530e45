//! Errors in the text of a quantity.

use thiserror::Error;

/// Every format [`crate::parse_format`] knows.
pub const FORMATS: [&str; 14] = [
    "length",
    "speed",
    "angle",
    "timespan",
    "datarate",
    "datasize",
    "ratio",
    "frequency",
    "power",
    "decibels",
    "g-over-t",
    "temperature",
    "rainrate",
    "utc",
];

/// The reason why a text is not a quantity. Messages name the quantity, the offending text and the allowed values, so that they
/// can be shown to the user unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnitError {
    /// The text does not start with a decimal number.
    #[error("{quantity} {text:?} does not start with a number; write it like {example:?}")]
    NotANumber {
        /// Name of the quantity, for example "length".
        quantity: &'static str,
        /// The text as given.
        text: String,
        /// A valid example.
        example: &'static str,
    },
    /// A number without a unit.
    #[error(
        "{quantity} {text:?} has no unit; allowed: {}; write it like {example:?}",
        allowed.join(", ")
    )]
    MissingUnit {
        /// Name of the quantity.
        quantity: &'static str,
        /// The text as given.
        text: String,
        /// Every unit allowed for this quantity.
        allowed: Vec<&'static str>,
        /// A valid example.
        example: &'static str,
    },
    /// A unit this quantity does not have.
    #[error(
        "unknown unit {unit:?} for {quantity}; allowed: {}{}",
        allowed.join(", "),
        hint.as_ref().map(|h| format!("; {h}")).unwrap_or_default()
    )]
    UnknownUnit {
        /// Name of the quantity.
        quantity: &'static str,
        /// The unit as given.
        unit: String,
        /// Every unit allowed for this quantity.
        allowed: Vec<&'static str>,
        /// The probably intended unit.
        hint: Option<String>,
    },
    /// A value outside the range of the quantity.
    #[error("{quantity} {text:?} is out of range; {range}")]
    OutOfRange {
        /// Name of the quantity.
        quantity: &'static str,
        /// The text or number as given.
        text: String,
        /// The range in words.
        range: &'static str,
    },
    /// A value with more digits than the quantity can hold.
    #[error("{quantity} {text:?} loses precision: it must be a whole number of {smallest}")]
    LosesPrecision {
        /// Name of the quantity.
        quantity: &'static str,
        /// The text as given.
        text: String,
        /// The smallest step, for example "ns".
        smallest: &'static str,
    },
    /// A text that is not an RFC 3339 instant in UTC.
    #[error("instant {text:?} is not RFC 3339 in UTC: {reason}; write it like {example:?}")]
    BadInstant {
        /// The text as given.
        text: String,
        /// The reason.
        reason: String,
        /// A valid example.
        example: &'static str,
    },
    /// A format that [`crate::parse_format`] does not have.
    #[error("unknown format {format:?}; known: {}", FORMATS.join(", "))]
    UnknownFormat {
        /// The format as given.
        format: String,
    },
}
