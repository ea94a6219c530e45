//! A file that is passed on to the stage that can read it: orbital elements, templates.

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::diagnostic::Diagnostic;
use crate::source::{Source, Span};

/// The text of a file. Errors that its reader finds become [`Diagnostic`]s like all
/// others through [`error`](Self::error).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// As the scenario names it.
    pub path: String,
    /// SHA-256, 64 hexadecimal digits.
    pub sha256: String,
    text: Source,
    pub(crate) scenario: Source,
    pub(crate) named_at: Span,
    pub(crate) named_path: String,
}

impl TextFile {
    pub(crate) fn new(
        path: &str,
        shown: &str,
        sha256: String,
        text: &str,
        scenario: Source,
        named_at: Span,
        named_path: String,
    ) -> Self {
        let text = Source::new(shown, text);
        Self {
            path: path.to_owned(),
            sha256,
            text,
            scenario,
            named_at,
            named_path,
        }
    }

    /// A file that no scenario names; errors call it `shown`.
    #[must_use]
    pub fn alone(shown: &str, text: &str) -> Self {
        let source = Source::new(shown, text);
        Self {
            path: shown.to_owned(),
            sha256: hash(text.as_bytes()),
            text: source.clone(),
            scenario: source,
            named_at: Span::new(1, 1, 1),
            named_path: String::new(),
        }
    }

    /// The file's text.
    pub fn text(&self) -> &str {
        self.text.text()
    }

    /// An error in the file itself: `line` and `column` from 1, `width` characters.
    pub fn error(
        &self,
        line: u32,
        column: u32,
        width: u32,
        code: &'static str,
        message: impl Into<String>,
    ) -> Diagnostic {
        let span = Span::new(line, column, width);
        let error = Diagnostic::new(&self.text, span, code, message);
        if self.scenario.file() == self.text.file() {
            return error;
        }
        error.with_next(format!("the file is named at {}", self.named()))
    }

    /// An error in a line of the file, from 1, as long as it is.
    pub fn error_in_line(
        &self,
        line: usize,
        code: &'static str,
        message: impl Into<String>,
    ) -> Diagnostic {
        /// A longer underline is of no use to a reader, and a line may have as many characters as the file.
        const WIDEST: usize = 1_000;
        let line = u32::try_from(line.max(1)).unwrap_or(u32::MAX);
        // By the index of lines: a file with an error in each line is read once, not once for each.
        let text = self.text.line(line).unwrap_or_default();
        let width = text.chars().take(WIDEST).count().max(1);
        self.error(line, 1, width as u32, code, message)
    }

    /// An error about the file as a whole, at the place in the scenario that names it.
    pub fn error_where_named(&self, code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.scenario, self.named_at, code, message)
            .with_path(self.named_path.clone())
    }

    fn named(&self) -> String {
        format!(
            "{}:{}:{}",
            self.scenario.file(),
            self.named_at.line,
            self.named_at.column
        )
    }
}

impl Serialize for TextFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut out = serializer.serialize_struct("TextFile", 2)?;
        out.serialize_field("path", &self.path)?;
        out.serialize_field("sha256", &self.sha256)?;
        out.end()
    }
}

/// Returns the SHA-256 of a file's bytes in hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
