//! Why a box could not be run.

use std::io;
use std::path::PathBuf;

use constel_lab::wires::WireError;

/// What stopped a box. The interfaces are as they were before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoxError {
    /// The interfaces cannot be used so; every reason, one a line.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// A lab of this name exists.
    #[error("{0}")]
    Taken(String),
    /// The kernel or another door to the host refused.
    #[error(transparent)]
    Host(#[from] constel_host::Error),
    /// A machine could not be made as it was asked for.
    #[error("machine '{machine}': {source}")]
    Machine {
        /// Its name.
        machine: String,
        /// What was refused.
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
        /// What the system said.
        source: io::Error,
    },
    /// The box's socket cannot be made.
    #[error("listen on the box's socket: {0}")]
    Socket(#[source] io::Error),
}

impl From<WireError> for BoxError {
    fn from(error: WireError) -> BoxError {
        match error {
            WireError::Refused(reasons) => BoxError::Refused(reasons),
            WireError::Host(error) => BoxError::Host(error),
            // It has no other.
            other => BoxError::Refused(vec![other.to_string()]),
        }
    }
}
