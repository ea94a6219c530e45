//! Two-line element sets, read strictly: every column is checked, every bad line is reported with
//! its number, all at once. Format: Hoots and Roehrich, Spacetrack Report #3; Alpha-5 catalogue
//! numbers as published by the 18th Space Defense Squadron.
//!
//! A file is a sequence of pairs (line 1, line 2), each with an optional name line before it, also
//! mixed. Blank lines, lines that begin with `#`, white space around a line and CR are ignored; a name may
//! carry the "0 " prefix some catalogues write.

use constel_units::text::{TextError, decode_records};
use thiserror::Error;

use crate::elements::{ElementFile, ElementSet, RecordError, RecordErrors};
use crate::tle_fields::{Fields, checksum, read_line_1, read_line_2};

/// Columns of an element line.
pub(crate) const LINE_LENGTH: usize = 69;

/// The error of a line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum TleReason {
    /// Not 69 columns.
    #[error("an element line has {LINE_LENGTH} columns, this one has {length}")]
    Length {
        /// Columns found.
        length: usize,
    },
    /// A byte outside printable ASCII in an element line, or not UTF-8 or a control character in a
    /// name.
    #[error("unprintable character in column {column}")]
    Unprintable {
        /// First such column, from 1.
        column: usize,
    },
    /// The last column is not the sum of the others.
    #[error("checksum is {found:?}, but the line adds up to {expected}")]
    Checksum {
        /// The character in column 69.
        found: char,
        /// The expected value.
        expected: u8,
    },
    /// A field that cannot be read or has an impossible value.
    #[error("columns {first}-{last} ({field}): {reason}")]
    Field {
        /// First column, from 1.
        first: usize,
        /// Last column.
        last: usize,
        /// The field's name.
        field: &'static str,
        /// The error in words.
        reason: String,
    },
    /// A value that reads well and makes no sense.
    #[error("{field}: {reason}")]
    Value {
        /// The field's name.
        field: &'static str,
        /// The error in words.
        reason: String,
    },
    /// Line 2 names another object than line 1.
    #[error(
        "catalogue number {second} differs from {first} in line 1 (line {first_line} of the file)"
    )]
    CatalogueMismatch {
        /// Number in line 1.
        first: u64,
        /// Number in line 2.
        second: u64,
        /// The line number of line 1.
        first_line: usize,
    },
    /// A line 1 without its line 2.
    #[error("element line 1 is not followed by its line 2")]
    MissingLine2,
    /// A line 2 without its line 1.
    #[error("element line 2 does not follow a line 1")]
    MissingLine1,
    /// A name without elements.
    #[error("neither an element line nor a name with element lines after it")]
    StrayName,
    /// The file is empty.
    #[error("no element sets")]
    Empty,
}

/// Reads every element set of a file.
///
/// # Errors
/// [`RecordErrors`] with every bad line, if there is one.
pub fn parse(text: impl AsRef<[u8]>) -> Result<Vec<ElementSet>, RecordErrors> {
    read(text).all()
}

/// Reads the element sets of a file, and returns the errors of invalid records.
pub fn read(text: impl AsRef<[u8]>) -> ElementFile {
    let text = text.as_ref();
    read_lines(text).or_other_format(text, "tle", "two-line elements")
}

fn read_lines(bytes: &[u8]) -> ElementFile {
    match decode_records(bytes) {
        Ok(text) => {
            let mut reader = Reader::default();
            for (line_number, line) in (1..).zip(text.lines()) {
                let line = line.trim_ascii();
                let is_head = line_number == 1 && is_head_of_hypatia(line);
                if !line.is_empty() && !line.starts_with('#') && !is_head {
                    reader.take(line_number, line.as_bytes());
                }
            }
            reader.finish()
        }
        Err(error @ TextError::Binary { .. }) => ElementFile::unreadable(1, error.to_string()),
        Err(error) => {
            let before = &bytes[..error.offset().min(bytes.len())];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            let column = before
                .iter()
                .rev()
                .take_while(|byte| **byte != b'\n')
                .count()
                + 1;
            ElementFile::unreadable(line, TleReason::Unprintable { column }.to_string())
        }
    }
}

/// Whether a first line has the numbers of orbits and of satellites per orbit, as Hypatia's `tles.txt` has.
fn is_head_of_hypatia(line: &str) -> bool {
    let is_number = |word: &str| word.len() <= 6 && word.bytes().all(|b| b.is_ascii_digit());
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    words.len() == 2 && words.into_iter().all(is_number)
}

/// A line 1 waiting for its line 2. Without fields if it could not be read.
struct First {
    line: usize,
    fields: Option<Fields>,
    name: Option<String>,
}

#[derive(Default)]
struct Reader {
    name: Option<(usize, String)>,
    first: Option<First>,
    sets: Vec<ElementSet>,
    /// Line where the record being read begins.
    record: usize,
    errors: Vec<RecordError>,
}

impl Reader {
    fn error(&mut self, line: usize, reason: TleReason) {
        self.errors.push(RecordError {
            line,
            record: self.record,
            object: None,
            reason: reason.to_string(),
        });
    }

    fn take(&mut self, number: usize, line: &[u8]) {
        match line {
            [b'1', b' ', ..] => {
                self.drop_first();
                let name = self.name.take();
                self.record = name.as_ref().map_or(number, |(line, _)| *line);
                let name = name.map(|(_, name)| name);
                let mut fields = Fields::default();
                let good = self.element_line(number, line, &mut fields, read_line_1);
                self.first = Some(First {
                    line: number,
                    fields: good.then_some(fields),
                    name,
                });
            }
            [b'2', b' ', ..] => {
                self.drop_name();
                let Some(First {
                    line: first_line,
                    fields,
                    name,
                }) = self.first.take()
                else {
                    self.record = number;
                    self.error(number, TleReason::MissingLine1);
                    return;
                };
                let readable = fields.is_some();
                let mut fields = fields.unwrap_or_default();
                let catalogue_number = fields.catalogue_number;
                if self.element_line(number, line, &mut fields, read_line_2) && readable {
                    if fields.catalogue_number == catalogue_number {
                        self.keep(number, fields, name);
                    } else {
                        self.error(
                            number,
                            TleReason::CatalogueMismatch {
                                first: catalogue_number,
                                second: fields.catalogue_number,
                                first_line,
                            },
                        );
                    }
                }
            }
            _ => {
                self.drop_first();
                self.drop_name();
                self.record = number;
                self.take_name(number, line);
            }
        }
    }

    fn take_name(&mut self, number: usize, line: &[u8]) {
        let line = line.strip_prefix(b"0 ").unwrap_or(line).trim_ascii();
        match std::str::from_utf8(line) {
            Ok(name) => match name.chars().position(char::is_control) {
                Some(at) => self.error(number, TleReason::Unprintable { column: at + 1 }),
                None => self.name = Some((number, name.to_owned())),
            },
            Err(error) => {
                let column = error.valid_up_to() + 1;
                self.error(number, TleReason::Unprintable { column });
            }
        }
    }

    /// Checks length, characters, checksum and fields of one element line.
    fn element_line(
        &mut self,
        number: usize,
        line: &[u8],
        fields: &mut Fields,
        read: fn(&[u8; LINE_LENGTH], &mut Fields) -> Vec<TleReason>,
    ) -> bool {
        let errors_before = self.errors.len();
        if let Some(at) = line.iter().position(|byte| !(b' '..=b'~').contains(byte)) {
            self.error(number, TleReason::Unprintable { column: at + 1 });
            return false;
        }
        let Ok(line) = <&[u8; LINE_LENGTH]>::try_from(line) else {
            self.error(number, TleReason::Length { length: line.len() });
            return false;
        };
        let expected = checksum(line);
        let found = line[LINE_LENGTH - 1];
        if found != b'0' + expected {
            self.error(
                number,
                TleReason::Checksum {
                    found: char::from(found),
                    expected,
                },
            );
        }
        for reason in read(line, fields) {
            self.error(number, reason);
        }
        self.errors.len() == errors_before
    }

    fn keep(&mut self, number: usize, fields: Fields, name: Option<String>) {
        match fields.into_elements(name).map(ElementSet::checked) {
            Ok(Ok(set)) => self.sets.push(set),
            Ok(Err(wrong)) => {
                for (field, reason) in wrong {
                    self.error(number, TleReason::Value { field, reason });
                }
            }
            Err(reason) => self.error(number, reason),
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.first.take() {
            self.error(first.line, TleReason::MissingLine2);
        }
    }

    fn drop_name(&mut self) {
        if let Some((line, _)) = self.name.take() {
            self.record = line;
            self.error(line, TleReason::StrayName);
        }
    }

    fn finish(mut self) -> ElementFile {
        self.drop_first();
        self.drop_name();
        if self.sets.is_empty() && self.errors.is_empty() {
            self.error(1, TleReason::Empty);
        }
        // A line found wanting only when the next one comes is reported late: back in order.
        self.errors.sort_by_key(|error| error.line);
        ElementFile {
            sets: self.sets,
            errors: self.errors,
        }
    }
}
