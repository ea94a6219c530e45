//! What goes wrong with an engine.

use std::io;
use std::path::PathBuf;

use constel_units::shown::one_line;

/// What asking an engine comes to.
pub type Result<T> = std::result::Result<T, Error>;

/// The engine behind a socket does not do what was asked for.
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
    /// The engine's socket.
    #[must_use]
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// What went wrong, without the socket.
    #[must_use]
    pub fn reason(&self) -> String {
        self.what.to_string()
    }

    /// Whether what was named is not there.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self.what, What::Refused { status: 404, .. })
    }

    /// Whether it is at it already, as when a container that is being removed is to be removed.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self.what, What::Refused { status: 409, .. })
    }

    /// Whether the engine cannot be talked to at all: it does not run, or ended meanwhile.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self.what, What::Unreachable(_) | What::Broken(_))
    }
}

/// Longest text of an engine that is shown, characters.
const SHOWN_CHARS: usize = 400;

/// Bytes of the engine as text of one line.
pub(crate) fn shown(bytes: &[u8]) -> String {
    one_line(bytes, SHOWN_CHARS)
}

/// What an error of the engine says: `{"message": "..."}`.
pub(crate) fn message(said: &[u8]) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(said).ok();
    let text = json.as_ref().and_then(|json| json["message"].as_str());
    shown(text.map_or(said, str::as_bytes))
}
