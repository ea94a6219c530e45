//! A text with a name, and places in it.

use std::sync::Arc;

/// A file's name and text, cheap to share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    file: Arc<str>,
    text: Arc<str>,
    /// The offset at which each line starts, so that a line is found without reading the lines before it.
    line_starts: Arc<[usize]>,
}

/// A stretch of one line. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Line, from 1.
    pub line: u32,
    /// First column, from 1, in characters.
    pub column: u32,
    /// Number of characters to underline; at least 1 is drawn.
    pub width: u32,
}

impl Span {
    /// The first character of a text.
    pub const START: Self = Self {
        line: 1,
        column: 1,
        width: 1,
    };

    /// `width` characters from `column` of `line`.
    pub fn new(line: u32, column: u32, width: u32) -> Self {
        Self {
            line,
            column,
            width,
        }
    }
}

impl Source {
    /// Names `text`; `file` is printed in front of errors as it is.
    pub fn new(file: &str, text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = std::iter::once(0)
            .chain(ends.map(|(at, _)| at + 1))
            .collect();
        Self {
            file: file.into(),
            text: text.into(),
            line_starts,
        }
    }

    /// The name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line `number` (from 1) without its end; `None` past the end of the text.
    pub fn line(&self, number: u32) -> Option<&str> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let start = *self.line_starts.get(index)?;
        let end = self
            .line_starts
            .get(index + 1)
            .map_or(self.text.len(), |next| next - 1);
        let line = &self.text[start..end];
        Some(line.strip_suffix('\r').unwrap_or(line))
    }

    /// All of line `number` (from 1).
    pub(crate) fn line_span(&self, number: usize) -> Span {
        let number = saturate(number.max(1));
        let line = self.line(number).unwrap_or_default();
        Span::new(number, 1, saturate(line.chars().count()))
    }
}

/// The line and column of the byte at `offset`, for errors in text that is not UTF-8.
pub(crate) fn position_of(bytes: &[u8], offset: usize) -> Span {
    let before = &bytes[..offset.min(bytes.len())];
    let line_start = before
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |i| i + 1);
    let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
    let column = 1 + String::from_utf8_lossy(&before[line_start..])
        .chars()
        .count();
    Span::new(saturate(line), saturate(column), 1)
}

/// A count as `u32`; inputs are bounded far below its end.
pub(crate) fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found() {
        let source = Source::new("f", "a\r\n\nlast");
        let lines: Vec<_> = (0..5).map(|n| source.line(n)).collect();
        assert_eq!(lines, [None, Some("a"), Some(""), Some("last"), None]);
        assert_eq!(Source::new("f", "").line(1), Some(""));
    }

    #[test]
    fn bytes_have_positions() {
        assert_eq!(position_of(b"a\nb\xff", 3), Span::new(2, 2, 1));
        assert_eq!(position_of(b"", 0), Span::new(1, 1, 1));
    }
}
