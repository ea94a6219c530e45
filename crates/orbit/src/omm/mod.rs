//! Orbit Mean-Elements Messages (CCSDS 502.0-B-3) in every notation that catalogues publish: JSON (one object or a list
//! of them), CSV with one object a line, XML (CCSDS 505.0-B) and the keyword notation (KVN). Catalogue numbers are 64-bit.
//!
//! A notation only makes `Record`s of a text: keywords with the text of their values. `fields` reads them all alike.

mod csv;
mod fields;
mod json;
mod kvn;
mod xml;

use std::collections::BTreeMap;

use constel_units::text::decode_records;

use crate::elements::{ElementFile, ElementSet, RecordError, RecordErrors};

/// The keywords of one message.
#[derive(Debug, Default)]
struct Record {
    /// Line of the file where it begins, from 1.
    line: usize,
    /// Values by keyword, keywords in capitals. Empty values count as absent.
    values: BTreeMap<String, String>,
    /// Keywords with two different values, with the earlier one.
    twice: BTreeMap<String, String>,
}

impl Record {
    fn new(line: usize) -> Self {
        Self {
            line,
            ..Self::default()
        }
    }

    /// Remembers a value.
    fn put(&mut self, keyword: &str, value: &str) {
        let value = value.trim();
        let keyword = keyword.trim().to_ascii_uppercase();
        if value.is_empty() {
            return;
        }
        let earlier = self.values.insert(keyword.clone(), value.to_owned());
        if let Some(earlier) = earlier.filter(|earlier| earlier != value) {
            self.twice.entry(keyword).or_insert(earlier);
        }
    }

    fn get(&self, keyword: &str) -> Option<&str> {
        self.values.get(keyword).map(String::as_str)
    }
}

/// The messages of a file in one of the notations.
#[derive(Debug, Default)]
struct Records {
    good: Vec<Record>,
    /// Errors of invalid messages.
    errors: Vec<RecordError>,
}

impl Records {
    fn error(&mut self, line: usize, reason: impl Into<String>) {
        self.errors.push(RecordError {
            line,
            record: line,
            object: None,
            reason: reason.into(),
        });
    }
}

/// Reads every element set of a file.
///
/// # Errors
/// [`RecordErrors`] with everything that is wrong with any message.
pub fn parse(text: impl AsRef<[u8]>) -> Result<Vec<ElementSet>, RecordErrors> {
    read(text).all()
}

/// Reads the element sets of a file in any notation, and returns the errors of invalid messages.
pub fn read(text: impl AsRef<[u8]>) -> ElementFile {
    let text = text.as_ref();
    let wanted = "Orbit Mean-Elements Messages (OMM) as JSON, CSV, XML or `KEYWORD = value`";
    read_any(text).or_other_format(text, "omm", wanted)
}

fn read_any(bytes: &[u8]) -> ElementFile {
    let text = match decode_records(bytes) {
        Ok(text) => text,
        Err(error) => {
            let before = &bytes[..error.offset().min(bytes.len())];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            return ElementFile::unreadable(line, error.to_string());
        }
    };
    match records(&text) {
        Ok(records) => sets(records),
        Err((line, reason)) => ElementFile::unreadable(line, reason),
    }
}

/// Returns the messages of a text; an error with a line if the text as a whole is not a file of messages.
fn records(text: &str) -> Result<Records, (usize, String)> {
    let Some(first) = text.lines().find(|line| !line.trim().is_empty()) else {
        return Err((1, "no element sets".to_owned()));
    };
    let first = first.trim_start();
    match first.as_bytes() {
        [b'{' | b'[', ..] => json::records(text),
        [b'<', ..] => xml::records(text),
        _ if kvn::begins(first) => Ok(kvn::records(text)),
        _ => csv::records(text),
    }
}

/// The element sets that the messages give.
fn sets(records: Records) -> ElementFile {
    let Records { good, mut errors } = records;
    let mut sets = Vec::with_capacity(good.len());
    for record in &good {
        match fields::element_set(record) {
            Ok(set) => sets.push(set),
            Err(reasons) => errors.extend(reasons.into_iter().map(|reason| RecordError {
                line: record.line,
                record: record.line,
                object: record.get("OBJECT_NAME").map(str::to_owned),
                reason,
            })),
        }
    }
    if sets.is_empty() && errors.is_empty() {
        return ElementFile::unreadable(1, "no element sets");
    }
    errors.sort_by_key(|error| error.line);
    ElementFile { sets, errors }
}
