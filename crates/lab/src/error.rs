//! Why a lab could not be run.

use std::path::PathBuf;

/// What stopped the engine. Whatever had been made by then has been taken down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The kernel or another door to the host refused.
    #[error(transparent)]
    Host(#[from] constel_host::Error),
    /// The link plane failed.
    #[error(transparent)]
    Driver(#[from] constel_drivers::DriverError),
    /// The scenario needs something that this host lacks.
    #[error("{what}\n  {remedy}")]
    Unable {
        /// What is missing.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// A lab of this name exists.
    #[error("{0}")]
    Taken(String),
    /// The lab cannot be addressed, or not be cut into areas.
    #[error(transparent)]
    Blueprint(#[from] constel_plan::BlueprintError),
    /// A daemon's configuration cannot be written.
    #[error("{0}")]
    Configuration(String),
    /// The results folder cannot be written.
    #[error("results folder {}: {source}", .path.display())]
    Results {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The results folder is there: nothing in one is ever overwritten.
    #[error("results folder {} exists already, and every run has its own\n  name another with --results, or remove it", .0.display())]
    ResultsThere(PathBuf),
    /// A file in the lab's runtime folder cannot be written.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Routes did not stand within the time allowed.
    #[error("routes did not stand within {limit_s} s: {reason}\n  look at the daemons' logs in {}", .logs.display())]
    NoRoutes {
        /// The limit, seconds.
        limit_s: u64,
        /// What was still missing.
        reason: String,
        /// Where the daemons write.
        logs: PathBuf,
    },
    /// Nothing can cross between the machines.
    #[error(transparent)]
    Between(#[from] constel_crossing::OpenError),
    /// One of several machines cannot go on, or another one could not.
    #[error("{0}")]
    Apart(String),
    /// The user asked to stop before the lab was running.
    #[error("interrupted")]
    Interrupted,
}
