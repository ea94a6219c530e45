//! One object's mean elements, wherever they were read from.

use std::fmt;

use constel_units::Utc;
use constel_units::text::decode_records;
use thiserror::Error;

use crate::file_kind::FileKind;

/// Ephemeris types whose elements are SGP4's (and SDP4's, its deep-space part). Type 1 is SGP, and type 4 is SGP4-XP, which
/// writes other quantities in the fields of B* and of the second derivative.
const SGP4_TYPES: [u8; 3] = [0, 2, 3];

/// Mean elements of one object at one epoch, for SGP4. Made by [`crate::tle::read`] and
/// [`crate::omm::read`], which check every field's range.
#[derive(Debug, Clone, PartialEq)]
pub struct ElementSet {
    elements: sgp4::Elements,
    epoch: Utc,
    catalogue_number: Option<u64>,
}

/// Something wrong in a record of an element file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {}{reason}", .object.as_ref().map_or_else(String::new, |name| format!("{name}: ")))]
pub struct RecordError {
    /// Line of the file, from 1.
    pub line: usize,
    /// Line where the record begins: errors with the same one are of one record.
    pub record: usize,
    /// The object's name, if the format gives it with each record and it is readable.
    pub object: Option<String>,
    /// The error in words.
    pub reason: String,
}

/// All errors of a file, in order of lines; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct RecordErrors(pub Vec<RecordError>);

impl fmt::Display for RecordErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

/// The valid records of a file, and the errors of the others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ElementFile {
    /// Every record that could be read, in order.
    pub sets: Vec<ElementSet>,
    /// Errors of the other records, in order of lines.
    pub errors: Vec<RecordError>,
}

impl ElementFile {
    /// A file without any record that could be read, for one reason.
    pub(crate) fn unreadable(line: usize, reason: impl Into<String>) -> Self {
        let error = RecordError {
            line,
            record: line,
            object: None,
            reason: reason.into(),
        };
        Self {
            sets: Vec::new(),
            errors: vec![error],
        }
    }

    /// Returns the file, or, if no record of it could be read and it is of another format, one error that has this format and
    /// the key that reads it.
    pub(crate) fn or_other_format(self, bytes: &[u8], key: &str, wanted: &str) -> Self {
        if !self.sets.is_empty() {
            return self;
        }
        let kind = decode_records(bytes)
            .ok()
            .and_then(|text| FileKind::of(&text));
        match kind.and_then(|kind| kind.refused_by(key, wanted)) {
            Some(reason) => Self::unreadable(1, reason),
            None => self,
        }
    }

    /// The sets, if every record was good.
    ///
    /// # Errors
    /// [`RecordErrors`] with everything that is wrong.
    pub fn all(self) -> Result<Vec<ElementSet>, RecordErrors> {
        if self.errors.is_empty() {
            Ok(self.sets)
        } else {
            Err(RecordErrors(self.errors))
        }
    }
}

impl ElementSet {
    /// Checks the assumptions of SGP4; every violation is reported as (field, reason).
    pub(crate) fn checked(elements: sgp4::Elements) -> Result<Self, Vec<(&'static str, String)>> {
        let mut wrong = Vec::new();
        let mut within = |field, value: f64, low: f64, high: f64, text: &str| {
            if !(low..=high).contains(&value) {
                wrong.push((field, format!("{value} must lie {text}")));
            }
        };
        within(
            "inclination",
            elements.inclination,
            0.0,
            180.0,
            "between 0 and 180 degrees",
        );
        for (field, value) in [
            ("right ascension", elements.right_ascension),
            ("argument of perigee", elements.argument_of_perigee),
            ("mean anomaly", elements.mean_anomaly),
        ] {
            within(field, value, 0.0, 360.0, "between 0 and 360 degrees");
        }
        // The upper bound is the largest f64 below one: 0 <= e < 1.
        within(
            "eccentricity",
            elements.eccentricity,
            0.0,
            1.0_f64.next_down(),
            "at or above 0 and below 1",
        );
        // 20 revolutions a day is an orbit 480 km under the ground; SGP4 accepts it and fails
        // later, with a message about something else.
        within(
            "mean motion",
            elements.mean_motion,
            f64::MIN_POSITIVE,
            20.0,
            "above 0 and at most 20 revolutions a day",
        );
        for (field, value) in [
            ("drag term", elements.drag_term),
            ("first derivative of mean motion", elements.mean_motion_dot),
            (
                "second derivative of mean motion",
                elements.mean_motion_ddot,
            ),
        ] {
            within(field, value, f64::MIN, f64::MAX, "in the finite numbers");
        }
        if !SGP4_TYPES.contains(&elements.ephemeris_type) {
            let theory = match elements.ephemeris_type {
                4 => " (SGP4-XP)",
                _ => "",
            };
            let reason = format!(
                "{}{theory} is another theory's, expected 0 (SGP4)",
                elements.ephemeris_type
            );
            wrong.push(("ephemeris type", reason));
        }
        let epoch = elements.datetime.and_utc().timestamp_nanos_opt();
        match epoch {
            Some(ns) if wrong.is_empty() => Ok(Self {
                catalogue_number: Some(elements.norad_id),
                elements,
                epoch: Utc::from_unix_ns(ns),
            }),
            Some(_) => Err(wrong),
            None => {
                wrong.push(("epoch", format!("{} is out of range", elements.datetime)));
                Err(wrong)
            }
        }
    }

    /// The object's name, without padding, if the file gives one.
    pub fn name(&self) -> Option<&str> {
        self.elements.object_name.as_deref()
    }

    /// The catalogue number; `None` if the file gives none, which CCSDS 502.0-B allows.
    pub fn catalogue_number(&self) -> Option<u64> {
        self.catalogue_number
    }

    /// Returns the elements without their catalogue number.
    pub(crate) fn unnumbered(self) -> Self {
        Self {
            catalogue_number: None,
            ..self
        }
    }

    /// Whether `other` may be another set of the same object. Sets made by users often share a number (99999),
    /// so the number alone is not sufficient: objects of different names are different, and so are different
    /// orbits at one epoch.
    pub(crate) fn is_of_same_object(&self, other: &Self) -> bool {
        let folded = |set: &Self| set.name().map(|name| name.trim().to_lowercase());
        let names_differ = matches!((folded(self), folded(other)), (Some(a), Some(b)) if a != b);
        let number = self.catalogue_number;
        number.is_some()
            && number == other.catalogue_number
            && !names_differ
            && (self.epoch != other.epoch || self.same_orbit(other))
    }

    fn same_orbit(&self, other: &Self) -> bool {
        let orbit = |set: &Self| {
            let e = &set.elements;
            [
                e.inclination,
                e.right_ascension,
                e.eccentricity,
                e.argument_of_perigee,
                e.mean_anomaly,
                e.mean_motion,
                e.drag_term,
            ]
        };
        orbit(self) == orbit(other)
    }

    /// When the elements hold.
    pub fn epoch(&self) -> Utc {
        self.epoch
    }

    /// The elements in the `sgp4` crate's form: degrees and revolutions a day.
    pub fn elements(&self) -> &sgp4::Elements {
        &self.elements
    }
}
