//! The keyword notation.

use constel_units::instant;

use super::{Meta, Objects, known_version, state};
use crate::ephemeris::{EphemerisFile, State};
use crate::states::Track;
use crate::text::{ReadErrors, number, shown};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Header,
    Meta,
    Data,
    Covariance,
}

struct Reader {
    part: Section,
    version: bool,
    meta: Option<Meta>,
    track: Track,
    objects: Objects,
}

pub(super) fn read(text: &str) -> Result<EphemerisFile, ReadErrors> {
    let mut reader = Reader {
        part: Section::Header,
        version: false,
        meta: None,
        track: Track::default(),
        objects: Objects::default(),
    };
    let mut last = 1;
    for (n, line) in (1..).zip(text.lines()) {
        reader.line(n, line.trim());
        last = n;
        if reader.objects.findings.is_full() {
            break;
        }
    }
    if reader.part == Section::Meta || reader.part == Section::Covariance {
        reader.wrong(last, "the file ends within a block");
    }
    reader.close();
    reader.objects.finish()
}

impl Reader {
    fn wrong(&mut self, n: usize, reason: impl Into<String>) {
        self.objects.findings.push(n, reason);
    }

    fn line(&mut self, n: usize, line: &str) {
        // Keywords are in capitals by the standard, and in any letter case in what tools write.
        let upper = match line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            true => line.to_ascii_uppercase(),
            false => String::new(),
        };
        if line.is_empty() || upper.split_ascii_whitespace().next() == Some("COMMENT") {
            return;
        }
        match (self.part, upper.as_str()) {
            (Section::Covariance, "COVARIANCE_STOP") => self.part = Section::Data,
            (Section::Covariance, _) => {}
            (Section::Data, "COVARIANCE_START") => self.part = Section::Covariance,
            (Section::Header | Section::Data, "META_START") => {
                self.close();
                self.part = Section::Meta;
                self.meta = Some(Meta::new(n));
            }
            (Section::Meta, "META_STOP") => {
                self.part = Section::Data;
                let missing: Vec<String> = self.meta.iter().flat_map(Meta::missing).collect();
                for reason in missing {
                    self.wrong(n, reason);
                }
            }
            // Messages that were put one after another.
            (Section::Data, _) if upper.starts_with("CCSDS_OEM_VERS") => {
                self.close();
                self.part = Section::Header;
                self.pair(n, line);
            }
            (Section::Header | Section::Meta, _) => self.pair(n, line),
            (Section::Data, _) => self.state(n, line),
        }
    }

    fn pair(&mut self, n: usize, line: &str) {
        let Some((key, value)) = line.split_once('=') else {
            return self.wrong(n, format!("`{}` is no `KEYWORD = value`", shown(line)));
        };
        let (key, value) = (key.trim(), value.trim());
        match (self.part, &mut self.meta) {
            (Section::Meta, Some(meta)) => self.objects.meta(meta, n, key, value),
            _ => self.header(n, key, value),
        }
    }

    fn header(&mut self, n: usize, key: &str, value: &str) {
        match key.to_ascii_uppercase().as_str() {
            "CCSDS_OEM_VERS" => {
                self.version = true;
                if !known_version(value) {
                    self.wrong(n, format!("version {} of OEM is not known", shown(value)));
                }
            }
            "CREATION_DATE" | "ORIGINATOR" | "CLASSIFICATION" | "MESSAGE_ID" => {}
            _ => self.wrong(n, format!("unknown keyword `{}` in the header", shown(key))),
        }
        if !self.version {
            self.wrong(n, "an OEM begins with CCSDS_OEM_VERS");
            self.version = true;
        }
    }

    fn state(&mut self, n: usize, line: &str) {
        let Some(meta) = &self.meta else {
            return self.wrong(n, "data before the first META_START");
        };
        match read_state(line) {
            Ok(state) => self.track.state(n, state),
            // A misspelt META_START would give the states after it to another object.
            Err(_) if is_keyword(line) => {
                self.wrong(n, format!("`{}` is neither a state nor known", shown(line)));
            }
            Err(reason) => {
                let bad = &mut self.objects.bad;
                self.track.bad(&meta.object, n, reason, bad);
            }
        }
    }

    /// Ends the segment that was being read.
    fn close(&mut self) {
        let track = std::mem::take(&mut self.track);
        if let Some(meta) = self.meta.take() {
            self.objects.close(meta, track);
        }
    }
}

/// Whether a line looks like one that separates data: a word alone, or `KEYWORD = value`.
fn is_keyword(line: &str) -> bool {
    let begins = line.starts_with(|c: char| c.is_ascii_alphabetic());
    line.contains('=') || (begins && !line.contains(char::is_whitespace))
}

/// A line of data: an instant, and 3, 6 or 9 numbers.
fn read_state(line: &str) -> Result<State, String> {
    let mut fields = line.split_whitespace();
    let date = fields.next().unwrap_or("");
    let joined;
    // A blank between date and time, where CCSDS has a `T`.
    let reading = if date.contains(['T', 't']) {
        date
    } else {
        joined = format!("{date} {}", fields.next().unwrap_or(""));
        &joined
    };
    let at = instant(reading).map_err(|error| error.to_string())?;
    let numbers = fields.map(number).collect::<Result<Vec<f64>, String>>()?;
    state(at, &numbers).ok_or_else(|| {
        let count = numbers.len();
        format!("{count} numbers after the instant; 3, 6 or 9 are right")
    })
}
