//! Orbit Mean-Elements Messages (CCSDS 502.0-B) as catalogues publish them: JSON, one object or a list of them, or
//! CSV with one object a line. Catalogue numbers are 64-bit.

use std::fmt;

use thiserror::Error;

use crate::elements::ElementSet;
use crate::omm_csv;

/// What is wrong with an OMM file or one of its objects.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OmmError {
    /// Not JSON.
    #[error("line {line}, column {column}: not JSON: {reason}")]
    Json {
        /// Line of the file, from 1.
        line: usize,
        /// Column of the line, from 1 (0: before the first).
        column: usize,
        /// What the JSON reader says.
        reason: String,
    },
    /// CSV that is none.
    #[error("line {line}: {reason}")]
    Csv {
        /// Line of the file, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// JSON, but neither an object nor a list.
    #[error("expected one OMM object or a list of them")]
    Shape,
    /// An empty list.
    #[error("no element sets")]
    Empty,
    /// An object that is not an OMM.
    #[error("object {index}{}: {reason}", name_part(.name.as_deref()))]
    Object {
        /// Position in the list, from 1.
        index: usize,
        /// Its OBJECT_NAME, if readable.
        name: Option<String>,
        /// What is wrong.
        reason: String,
    },
}

fn name_part(name: Option<&str>) -> String {
    name.map(|name| format!(" ({name})")).unwrap_or_default()
}

/// Everything that is wrong with a file, in order; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct OmmErrors(pub Vec<OmmError>);

impl fmt::Display for OmmErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::elements::one_a_line(f, &self.0)
    }
}

/// Reads every element set of a file, JSON or CSV: what begins with a bracket is JSON.
///
/// # Errors
/// [`OmmErrors`] with every bad object, if there is one.
pub fn parse(text: impl AsRef<[u8]>) -> Result<Vec<ElementSet>, OmmErrors> {
    let bytes = text.as_ref();
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
    match std::str::from_utf8(bytes) {
        Ok(text) if first.is_some_and(|b| b.is_ascii_alphabetic() || *b == 0xef) => {
            sets(omm_csv::objects(text)?)
        }
        _ => sets(json(bytes)?),
    }
}

/// The objects of a JSON file.
fn json(text: &[u8]) -> Result<Vec<serde_json::Value>, OmmErrors> {
    let value: serde_json::Value = serde_json::from_slice(text).map_err(|error| {
        let reason = error.to_string();
        // serde_json repeats the place at the end of its text; ours comes first.
        let place = format!(" at line {} column {}", error.line(), error.column());
        OmmErrors(vec![OmmError::Json {
            line: error.line(),
            column: error.column(),
            reason: reason.strip_suffix(&place).unwrap_or(&reason).to_owned(),
        }])
    })?;
    let objects = match value {
        serde_json::Value::Array(objects) => objects,
        object @ serde_json::Value::Object(_) => vec![object],
        _ => return Err(OmmErrors(vec![OmmError::Shape])),
    };
    Ok(objects)
}

/// The element sets of objects.
fn sets(objects: Vec<serde_json::Value>) -> Result<Vec<ElementSet>, OmmErrors> {
    if objects.is_empty() {
        return Err(OmmErrors(vec![OmmError::Empty]));
    }
    let mut sets = Vec::with_capacity(objects.len());
    let mut errors = Vec::new();
    for (at, object) in objects.into_iter().enumerate() {
        let name = object
            .get("OBJECT_NAME")
            .and_then(|name| name.as_str())
            .map(str::to_owned);
        match read(object) {
            Ok(set) => sets.push(set),
            Err(reasons) => errors.extend(reasons.into_iter().map(|reason| OmmError::Object {
                index: at + 1,
                name: name.clone(),
                reason,
            })),
        }
    }
    if errors.is_empty() {
        Ok(sets)
    } else {
        Err(OmmErrors(errors))
    }
}

/// One object.
fn read(object: serde_json::Value) -> Result<ElementSet, Vec<String>> {
    let mut reasons = Vec::new();
    // What the message says about itself must be what SGP4 takes; absent means the default.
    for (key, wanted) in [
        ("CENTER_NAME", "EARTH"),
        ("REF_FRAME", "TEME"),
        ("TIME_SYSTEM", "UTC"),
        ("MEAN_ELEMENT_THEORY", "SGP4"),
    ] {
        match object.get(key) {
            None => {}
            Some(serde_json::Value::String(given)) if given == wanted => {}
            // Space-Track writes SGP/SGP4 for the same theory.
            Some(serde_json::Value::String(given))
                if key == "MEAN_ELEMENT_THEORY" && given == "SGP/SGP4" => {}
            Some(other) => reasons.push(format!("{key} is {other}, expected \"{wanted}\"")),
        }
    }
    // Type 4 is SGP4-XP, a different theory under the same field names.
    match object
        .get("EPHEMERIS_TYPE")
        .map(|kind| kind.as_u64().or_else(|| kind.as_str()?.parse().ok()))
    {
        None | Some(Some(0 | 2)) => {}
        Some(_) => reasons.push(format!(
            "EPHEMERIS_TYPE is {}, expected 0 (SGP4)",
            object["EPHEMERIS_TYPE"]
        )),
    }
    match serde_json::from_value::<sgp4::Elements>(object.clone()) {
        Ok(elements) => match ElementSet::checked(elements) {
            Ok(set) if reasons.is_empty() => return Ok(set),
            Ok(_) => {}
            Err(wrong) => {
                reasons.extend(
                    wrong
                        .into_iter()
                        .map(|(field, reason)| format!("{field}: {reason}")),
                );
            }
        },
        Err(error) if epoch_is_to_blame(object) => reasons.push(format!("EPOCH: {error}")),
        Err(error) => reasons.push(error.to_string()),
    }
    Err(reasons)
}

/// Whether another EPOCH would make a bad object good: errors in instants do not name their field.
fn epoch_is_to_blame(mut object: serde_json::Value) -> bool {
    match object.get_mut("EPOCH") {
        Some(epoch) => *epoch = "2000-01-01T00:00:00.000000".into(),
        None => return false,
    }
    serde_json::from_value::<sgp4::Elements>(object).is_ok()
}
