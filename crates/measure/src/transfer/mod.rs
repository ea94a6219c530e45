//! Bulk transfers over different transports, all measured by one probe.
//!
//! The sender cuts its stream into [`record`]s and stamps each at the moment at which it first gives it to the
//! network. The receiver reads the clock when the application can read the record. Both ends of a lab share one
//! monotonic clock, so the difference is the one-way delay. It includes the recovery from losses, but not the wait
//! in a sender's own buffer. [`report`] defines the lines that both ends print at the end.

pub mod record;
pub mod report;
pub mod split;

pub mod over_leotp;
pub mod over_tcp;
pub mod over_vivace;
mod sys;
pub mod vivace;

use std::time::Duration;

/// The errors of a transfer.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The failed operation.
        what: String,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// LEOTP failed.
    #[error(transparent)]
    Leotp(#[from] leotp::rt::RunError),
    /// The received bytes differ from the sent bytes.
    #[error("{0} of {1} records came damaged")]
    Damaged(u64, u64),
}

impl TransferError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// The amount of data to fetch, and the time limit.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// The number of bytes; `None` for as many as the time allows.
    pub bytes: Option<u64>,
    /// The time limit, from the first request on.
    pub time: Duration,
}

impl FetchLimits {
    /// Returns whether that many bytes are enough.
    pub fn met(&self, received: u64) -> bool {
        self.bytes.is_some_and(|bytes| received >= bytes)
    }
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds: one clock for all nodes of a host.
pub fn mono_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
