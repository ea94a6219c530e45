//! The errors of a box.

use std::io;
use std::path::PathBuf;

use constel_lab::wires::WireError;

/// The reason why a box stopped. The interfaces are in their earlier state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoxError {
    /// The interfaces cannot be used in this way; all reasons, one per line.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// A lab of this name exists.
    #[error("{0}")]
    Taken(String),
    /// The kernel or another interface of the host refused an operation.
    #[error(transparent)]
    Host(#[from] constel_host::Error),
    /// A machine could not be created as requested.
    #[error("machine '{machine}': {source}")]
    Machine {
        /// The name.
        machine: String,
        /// The refused operation.
        source: constel_host::Error,
    },
    /// The link plane failed.
    #[error(transparent)]
    Driver(#[from] constel_drivers::DriverError),
    /// The results folder cannot be written.
    #[error("results folder {}: {source}", .path.display())]
    Results {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The box's socket cannot be created.
    #[error("listen on the box's socket: {0}")]
    Socket(#[source] io::Error),
}

impl From<WireError> for BoxError {
    fn from(error: WireError) -> BoxError {
        match error {
            WireError::Refused(reasons) => BoxError::Refused(reasons),
            WireError::Host(error) => BoxError::Host(error),
            // `WireError` has no other variant.
            other => BoxError::Refused(vec![other.to_string()]),
        }
    }
}
