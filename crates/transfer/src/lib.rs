//! Bulk transfers over different transports, all measured by one probe.
//!
//! The sender cuts its stream into [`record`]s and stamps each at the moment it first gives it to the network;
//! the receiver takes the time at which the application can read it. Both ends of a lab share one monotonic
//! clock, so the difference is the one-way delay, with recovery from losses, but without the wait in a sender's
//! own buffer. [`report`] says what both ends print at the end.

#![deny(unsafe_code)]

pub mod record;
pub mod report;
pub mod split;

pub mod over_leotp;
pub mod over_tcp;
pub mod over_vivace;
mod sys;
pub mod vivace;

use std::time::Duration;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// LEOTP failed.
    #[error(transparent)]
    Leotp(#[from] leotp::rt::RunError),
    /// The bytes that came are not those that were sent.
    #[error("{0} of {1} records came damaged")]
    Damaged(u64, u64),
}

impl TransferError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// How much is wanted, and for how long at most.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// Bytes; `None`: as many as there is time for.
    pub bytes: Option<u64>,
    /// From the first request on.
    pub time: Duration,
}

impl Goal {
    /// Whether that many bytes are enough.
    pub fn met(&self, received: u64) -> bool {
        self.bytes.is_some_and(|bytes| received >= bytes)
    }
}

/// Nanoseconds of CLOCK_MONOTONIC: one clock for all nodes of a host.
pub fn mono_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
