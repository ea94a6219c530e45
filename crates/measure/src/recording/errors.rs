//! Errors of a recording's lines.

use constel_link::trace::TraceError;

/// Largest number of reported errors.
const MOST: usize = 20;

/// Errors in the order of their lines, up to twenty.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<TraceError>);

impl Errors {
    pub(super) fn push(&mut self, line: usize, message: impl Into<String>) {
        if self.0.len() < MOST {
            self.0.extend(one(line, message));
        }
    }

    /// Returns the value if there is no error.
    pub(super) fn or<T>(self, value: T) -> Result<T, Vec<TraceError>> {
        match self.0.is_empty() {
            true => Ok(value),
            false => Err(self.0),
        }
    }
}

/// Returns a single error.
pub(super) fn one(line: usize, message: impl Into<String>) -> Vec<TraceError> {
    vec![TraceError {
        line: u32::try_from(line).unwrap_or(u32::MAX),
        message: message.into(),
    }]
}
