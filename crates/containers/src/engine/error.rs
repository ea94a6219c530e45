//! Errors of an engine.

use std::io;
use std::path::PathBuf;

use constel_units::shown::one_line;

/// The result of a request to an engine.
pub type Result<T> = std::result::Result<T, Error>;

/// The engine behind a socket did not fulfil a request.
#[derive(Debug, thiserror::Error)]
#[error("the engine at {}: {what}", socket.display())]
pub struct Error {
    pub(crate) socket: PathBuf,
    pub(crate) what: What,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum What {
    #[error("it cannot be reached: {0}")]
    Unreachable(io::Error),
    #[error("it does not answer: {0}")]
    Broken(io::Error),
    #[error("{0}")]
    Odd(String),
    #[error("it refuses ({status}): {message}")]
    Refused { status: u16, message: String },
}

impl Error {
    /// Returns the engine's socket.
    #[must_use]
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// Returns the reason, without the socket.
    #[must_use]
    pub fn reason(&self) -> String {
        self.what.to_string()
    }

    /// Returns whether the named object does not exist.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self.what, What::Refused { status: 404, .. })
    }

    /// Returns whether the request conflicts with the object's state, for example a removal that is in progress.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self.what, What::Refused { status: 409, .. })
    }

    /// Returns whether the engine cannot be reached: it does not run, or it ended.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self.what, What::Unreachable(_) | What::Broken(_))
    }
}

/// Maximum length of the engine's text in messages, characters.
const SHOWN_CHARS: usize = 400;

/// Converts bytes of the engine to one line of text.
pub(crate) fn shown(bytes: &[u8]) -> String {
    one_line(bytes, SHOWN_CHARS)
}

/// Returns the message of an engine's error: `{"message": "..."}`.
pub(crate) fn message(said: &[u8]) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(said).ok();
    let text = json.as_ref().and_then(|json| json["message"].as_str());
    shown(text.map_or(said, str::as_bytes))
}
