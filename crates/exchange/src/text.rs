//! What all readers share: errors with a line, numbers, instants.

use constel_units::Utc;
use constel_units::shown::one_line;

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ReadError {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// Everything wrong in a file, in order of lines; never empty. After 100 findings the reader stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadErrors(pub Vec<ReadError>);

impl std::fmt::Display for ReadErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if n > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ReadErrors {}

/// Findings reported at most.
const MOST: usize = 100;

/// Collects findings.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<ReadError>);

impl Findings {
    pub(crate) fn push(&mut self, line: usize, reason: impl Into<String>) {
        if self.0.len() < MOST {
            self.0.push(ReadError {
                line,
                reason: reason.into(),
            });
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    /// `value` when there are no findings.
    pub(crate) fn or<T>(mut self, value: T) -> Result<T, ReadErrors> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort_by_key(|e| e.line);
        Err(ReadErrors(self.0))
    }
}

/// A finite number.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("`{}` is not a number", shown(text))),
    }
}

/// Text of a file for a message: one line, of at most 60 characters.
pub(crate) fn shown(text: &str) -> String {
    one_line(text.as_bytes(), 60)
}

/// An instant in UTC as CCSDS writes it: `2026-11-21T00:00:00.5` or `2026-325T00:00:00.5`, with or without `Z`.
pub(crate) fn instant(text: &str) -> Result<Utc, String> {
    let wrong = || {
        format!(
            "`{}` is not an instant such as 2026-11-21T00:00:00.000",
            shown(text)
        )
    };
    let trimmed = text.trim();
    let bare = trimmed.strip_suffix('Z').unwrap_or(trimmed);
    let (date, time) = bare.split_once('T').ok_or_else(wrong)?;
    let mut parts = date.split('-');
    let date = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(_), Some(_), None) => date.to_owned(),
        (Some(year), Some(day), None, None) if year.len() == 4 && day.len() == 3 => {
            from_day_of_year(
                year.parse().map_err(|_| wrong())?,
                day.parse().map_err(|_| wrong())?,
            )
            .ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    format!("{date}T{time}Z").parse().map_err(|_| wrong())
}

fn from_day_of_year(year: u32, day: u32) -> Option<String> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let lengths = [
        31,
        if leap { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut left = day;
    for (month, length) in lengths.into_iter().enumerate() {
        if (1..=length).contains(&left) {
            return Some(format!("{year:04}-{:02}-{left:02}", month + 1));
        }
        left = left.checked_sub(length)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_in_both_forms() {
        for (text, same) in [
            ("2026-11-21T00:00:00", "2026-11-21T00:00:00Z"),
            ("2026-325T01:02:03.5", "2026-11-21T01:02:03.5Z"),
            ("2024-366T00:00:00Z", "2024-12-31T00:00:00Z"),
            ("2024-060T00:00:00Z", "2024-02-29T00:00:00Z"),
        ] {
            assert_eq!(instant(text), Ok(same.parse().unwrap()), "{text}");
        }
        for text in [
            "",
            "T",
            "2026-11-21",
            "2026-366T00:00:00",
            "2026-000T00:00:00",
            "2026-1-1-1T00:00:00",
            "é-éééT0",
        ] {
            assert!(instant(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_finite() {
        assert_eq!(number(" -1.5e3 "), Ok(-1500.0));
        for text in ["", "nan", "inf", "1e999", "0x10", "1,5"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
