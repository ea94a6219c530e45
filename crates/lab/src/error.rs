//! The errors of a lab.

use std::path::PathBuf;

/// The reason why the engine stopped. Everything created before has been removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The kernel or another interface of the host refused an operation.
    #[error(transparent)]
    Host(#[from] constel_host::Error),
    /// The link plane failed.
    #[error(transparent)]
    Driver(#[from] constel_drivers::DriverError),
    /// The scenario needs something that this host lacks.
    #[error("{what}\n  {remedy}")]
    Unable {
        /// The missing feature.
        what: String,
        /// The remedy.
        remedy: String,
    },
    /// A lab of this name exists.
    #[error("{0}")]
    Taken(String),
    /// The lab cannot be addressed, or not be divided into areas.
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
        /// The system's error.
        source: std::io::Error,
    },
    /// The results folder exists already: files in it are never overwritten.
    #[error("results folder {} exists already, and every run has its own\n  name another with --results, or remove it", .0.display())]
    ResultsThere(PathBuf),
    /// A file in the lab's runtime folder cannot be written.
    #[error("{what}: {source}")]
    Io {
        /// The failed operation.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Routes did not converge within the time allowed.
    #[error("routes did not converge within {limit_s} s: {reason}\n  see the daemons' logs in {}", .logs.display())]
    NoRoutes {
        /// The limit, seconds.
        limit_s: u64,
        /// The routes that were missing.
        reason: String,
        /// The folder of the daemons' logs.
        logs: PathBuf,
    },
    /// No live policy joined within the time allowed.
    #[error(
        "no live policy joined within {limit_s} s\n  start your program, for example `lab.policy` in Python, or run without --await-policy"
    )]
    NoPolicy {
        /// The limit, seconds.
        limit_s: u64,
    },
    /// The connection between the machines could not be opened.
    #[error(transparent)]
    Between(#[from] constel_cluster::crossing::OpenError),
    /// This machine cannot go on, or another machine of the cluster could not.
    #[error("{0}")]
    Apart(String),
    /// The user stopped the run before the lab was running.
    #[error("interrupted")]
    Interrupted,
}
