//! Errors of files, with enough detail to correct them.

use std::fmt;

use serde::Serialize;

use crate::source::{Source, Span, saturate};

/// One error at one place in one file.
///
/// [`Display`](fmt::Display) prints it in full; its first line starts `FILE:LINE:COL: error: `.
/// The text cannot carry control characters to a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The file, as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// Stable word for the kind of error, for scripts; for example `unknown-key`.
    pub code: &'static str,
    /// The error in words.
    pub message: String,
    /// The place in the structure of the file, for example `traffic[3].ping.to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why it is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The word that was probably meant, or a valid value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// Everything that is allowed here, where that is a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// The next step for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The line with the error; `None` where there is no text to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// Number of characters of the snippet to underline.
    #[serde(skip)]
    width: u32,
}

/// Longest part of a line that is shown, characters.
const SNIPPET_WIDTH: usize = 120;

/// Longest line that is shown at all, bytes. It is cut to [`SNIPPET_WIDTH`] when printed.
const LONGEST_LINE: usize = 16 * 1024;

/// Most entries of a list of allowed values that are printed.
const ALLOWED_SHOWN: usize = 24;

impl Diagnostic {
    /// Creates an error at `span` of `source`. Add details with the `with_*` methods.
    pub fn new(
        source: &Source,
        span: Span,
        code: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            file: source.file().to_owned(),
            line: span.line,
            column: span.column,
            code,
            message: message.into(),
            path: None,
            reason: None,
            suggestion: None,
            allowed: Vec::new(),
            next: None,
            snippet: source
                .line(span.line)
                .filter(|line| !line.trim().is_empty() && line.len() <= LONGEST_LINE)
                .map(str::to_owned),
            width: span.width,
        }
    }

    /// Sets [`path`](Self::path).
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Sets [`reason`](Self::reason).
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets [`suggestion`](Self::suggestion).
    #[must_use]
    pub fn with_suggestion(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Suggests the entry of `candidates` nearest to `given`, if one is near.
    #[must_use]
    pub fn with_nearest<'a>(
        self,
        given: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        match nearest(given, candidates) {
            Some(found) => self.with_suggestion(format!("did you mean `{found}`?")),
            None => self,
        }
    }

    /// Sets [`allowed`](Self::allowed).
    #[must_use]
    pub fn with_allowed<T: Into<String>>(mut self, allowed: impl IntoIterator<Item = T>) -> Self {
        self.allowed = allowed.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`next`](Self::next).
    #[must_use]
    pub fn with_next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// The error's place.
    pub fn span(&self) -> Span {
        Span::new(self.line, self.column, self.width)
    }

    /// Returns whether another error says the same about the same place, whatever it suggests.
    pub(crate) fn is_same(&self, other: &Diagnostic) -> bool {
        let parts = |d: &Diagnostic| {
            (
                d.file.clone(),
                d.span(),
                d.message.clone(),
                d.reason.clone(),
            )
        };
        parts(self) == parts(other)
    }

    /// Removes hints that another error does not have.
    pub(crate) fn keep_shared(&mut self, other: &Diagnostic) {
        if self.suggestion != other.suggestion {
            self.suggestion = None;
        }
        if self.allowed != other.allowed {
            self.allowed.clear();
        }
    }

    /// Returns the full text as a warning instead of an error.
    #[must_use]
    pub fn as_warning(&self) -> String {
        self.to_string().replacen(": error: ", ": warning: ", 1)
    }

    fn write_snippet(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(text) = &self.snippet else {
            return Ok(());
        };
        let column = self.column.saturating_sub(1) as usize;
        // Show a window that holds the error where the line is long.
        let skip = if column >= SNIPPET_WIDTH {
            column - SNIPPET_WIDTH / 2
        } else {
            0
        };
        let shown: String = text
            .chars()
            .skip(skip)
            .take(SNIPPET_WIDTH)
            .map(printable)
            .collect();
        let shown_len = shown.chars().count();
        let left = if skip > 0 { "..." } else { "" };
        let right = if text.chars().nth(skip + SNIPPET_WIDTH).is_some() {
            "..."
        } else {
            ""
        };
        let caret_at = (column - skip).min(shown_len);
        let carets = (self.width.max(1) as usize).min(shown_len.saturating_sub(caret_at).max(1));
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {left}{}{right}", shown.trim_end())?;
        let indent = " ".repeat(left.len() + caret_at);
        writeln!(f, "{gutter} | {indent}{}", "^".repeat(carets))
    }
}

/// Control characters (which could move a terminal's cursor) and tabs become one plain character.
fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if constel_units::shown::is_unprintable(c) => '\u{fffd}',
        c => c,
    }
}

fn clean(text: &str) -> String {
    text.chars().map(printable).collect()
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            message,
            ..
        } = self;
        writeln!(
            f,
            "{}:{line}:{column}: error: {}",
            clean(file),
            clean(message)
        )?;
        self.write_snippet(f)?;
        if let Some(path) = &self.path {
            writeln!(f, "  at: {}", clean(path))?;
        }
        if let Some(reason) = &self.reason {
            writeln!(f, "  why: {}", clean(reason))?;
        }
        if let Some(suggestion) = &self.suggestion {
            writeln!(f, "  hint: {}", clean(suggestion))?;
        }
        if !self.allowed.is_empty() {
            let shown: Vec<String> = self
                .allowed
                .iter()
                .take(ALLOWED_SHOWN)
                .map(|a| clean(a))
                .collect();
            let more = self.allowed.len().saturating_sub(ALLOWED_SHOWN);
            let tail = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            writeln!(f, "  allowed: {}{tail}", shown.join(", "))?;
        }
        if let Some(next) = &self.next {
            writeln!(f, "  next: {}", clean(next))?;
        }
        Ok(())
    }
}

/// All errors found, in the order of their places. Never empty when it is an `Err`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Diagnostics {
    errors: Vec<Diagnostic>,
    /// How often an error was found, repetitions counted.
    #[serde(skip)]
    found: usize,
    /// Objects of files that do not fly, where that is why there is no plan.
    #[serde(skip)]
    left_out: Vec<LeftOut>,
}

/// An object of a file of elements or positions that does not fly in the lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The constellation whose file lists it.
    pub constellation: String,
    /// The object's name in the file, if it has one.
    pub object: Option<String>,
    /// Catalogue number, if it has one.
    pub catalogue_number: Option<u64>,
    /// Why it does not fly.
    pub reason: String,
    /// The reason shared by all objects left out alike, in words that follow their number.
    pub kind: &'static str,
}

/// Maximum number of errors that are kept; the output states that there are more. Hostile input stays cheap in this
/// way, and more errors would not be read.
const MOST_ERRORS: usize = 200;

/// The number of errors, repetitions counted, after which the search ends.
const MOST_FOUND: usize = 2_000;

impl Diagnostics {
    /// No error.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an error. An exact repetition (an anchor used twice) is kept once.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.found = self.found.saturating_add(1);
        if self.errors.len() < MOST_ERRORS
            && !self.errors.iter().any(|known| {
                known.span() == diagnostic.span()
                    && known.message == diagnostic.message
                    && known.file == diagnostic.file
            })
        {
            self.errors.push(diagnostic);
        }
    }

    /// Whether the number of errors makes a further search useless.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.errors.len() >= MOST_ERRORS || self.found >= MOST_FOUND
    }

    /// Adds objects of files that do not fly.
    pub fn leave_out(&mut self, left_out: impl IntoIterator<Item = LeftOut>) {
        self.left_out.extend(left_out);
    }

    /// Objects of files that do not fly, as far as they were looked at before these errors.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Returns the value, or adds the errors that there are instead.
    pub fn take<T>(&mut self, found: Result<T, Diagnostics>) -> Option<T> {
        found.map_err(|errors| self.extend(errors)).ok()
    }

    /// Adds all errors of `other`.
    pub fn extend(&mut self, other: Diagnostics) {
        self.left_out.extend(other.left_out);
        for diagnostic in other.errors {
            self.push(diagnostic);
        }
    }

    /// Whether there is no error.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Number of errors.
    pub fn len(&self) -> usize {
        self.errors.len()
    }

    /// The errors.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.errors.iter()
    }

    /// `Ok(value)` if there is no error, otherwise the errors in order of file and place.
    ///
    /// # Errors
    /// All the errors.
    pub fn or<T>(mut self, value: T) -> Result<T, Diagnostics> {
        if self.errors.is_empty() {
            return Ok(value);
        }
        self.sort();
        Err(self)
    }

    /// Sorts by file, line and column.
    pub fn sort(&mut self) {
        self.errors.sort_by(|a, b| {
            (&a.file, a.line, a.column, &a.message).cmp(&(&b.file, b.line, b.column, &b.message))
        });
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self {
            errors: vec![diagnostic],
            found: 1,
            left_out: Vec::new(),
        }
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.errors.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{diagnostic}")?;
        }
        if self.is_full() {
            writeln!(
                f,
                "\nmore errors may follow; these are the first {}",
                self.errors.len()
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Returns the candidate nearest to `given`, if it is near enough to be the intended word.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long texts are no typing slips, and comparing them costs the product of their lengths.
    const LONGEST: usize = 100;
    let given = given.to_lowercase();
    if given.chars().count() > LONGEST {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate.len() > LONGEST {
            continue;
        }
        let lower = candidate.to_lowercase();
        let distance = strsim::damerau_levenshtein(&given, &lower);
        let longest = given.chars().count().max(lower.chars().count());
        // About one slip in three characters, or a word that was not finished.
        let near = distance * 3 <= longest + 1
            || (given.chars().count() >= 3 && lower.starts_with(given.as_str()));
        if near && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Number of characters of `text` on its first line, for spans.
pub(crate) fn width_of(text: &str) -> u32 {
    saturate(text.lines().next().unwrap_or("").chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_near() {
        let keys = ["polar_cutoff", "max_range", "seam", "link"];
        assert_eq!(nearest("polar_cutof", keys), Some("polar_cutoff"));
        assert_eq!(nearest("MAX_RANGE", keys), Some("max_range"));
        assert_eq!(nearest("polar", keys), Some("polar_cutoff"));
        assert_eq!(nearest("zebra", keys), None);
        assert_eq!(nearest("", keys), None);
    }

    #[test]
    fn a_snippet_cannot_drive_the_terminal() {
        let source = Source::new("a\u{1b}[2J.yaml", "key: \u{1b}[31m\u{202e}red\n");
        let text = Diagnostic::new(&source, Span::new(1, 6, 3), "x", "bad\u{7}").to_string();
        assert!(
            !text.chars().any(|c| c != '\n' && c.is_control()),
            "{text:?}"
        );
        assert!(!text.contains('\u{202e}'));
    }

    #[test]
    fn a_long_line_is_cut_round_the_error() {
        let source = Source::new("f", &format!("{}!{}", "a".repeat(500), "b".repeat(500)));
        let text = Diagnostic::new(&source, Span::new(1, 501, 1), "x", "here").to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "f:1:501: error: here");
        assert_eq!(lines[2].find('!'), lines[3].find('^'));
    }
}
