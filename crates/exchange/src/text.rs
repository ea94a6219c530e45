//! Code that all readers share: errors with a line, numbers. Instants are read by [`constel_units::instant`].

use constel_units::shown::one_line;

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ReadError {
    /// Line number, from 1.
    pub line: usize,
    /// The error in words.
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
pub(crate) const MOST: usize = 100;

/// Collects findings.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<ReadError>);

impl Findings {
    pub(crate) fn push(&mut self, line: usize, reason: impl Into<String>) {
        if self.0.len() < MOST {
            self.0.push(ReadError {
                line,
                reason: reason.into(),
            });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
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

/// The lines of a text, by the offsets of their first bytes. Parsers that give offsets, or that count lines from the top for each
/// question, need this: for a file with an error in each line, counting would be quadratic.
pub(crate) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    /// Indexes a text.
    pub(crate) fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1));
        Self {
            starts: starts.collect(),
        }
    }

    /// Returns the line of the byte at an offset, from 1.
    pub(crate) fn at(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_behind_its_line_feed() {
        let lines = Lines::new("a\n\nbc\n");
        let all: Vec<usize> = (0..7).map(|offset| lines.at(offset)).collect();
        assert_eq!(all, [1, 1, 2, 3, 3, 3, 4]);
        assert_eq!(Lines::new("").at(0), 1);
    }

    #[test]
    fn numbers_are_finite() {
        assert_eq!(number(" -1.5e3 "), Ok(-1500.0));
        for text in ["", "nan", "inf", "1e999", "0x10", "1,5"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
