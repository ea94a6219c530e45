//! The error type of every door in this crate.

use std::io;

use crate::netlink::failures::BatchError;

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong between us and the kernel, always saying what was being done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call or a file access failed.
    #[error("{what}: {source}")]
    Os {
        /// What was being done, with the name of the object.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// One or more requests of a netlink batch were refused.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The kernel sent something that we do not understand.
    #[error("{what}: unexpected answer from the kernel: {detail}")]
    Protocol {
        /// What was being done.
        what: String,
        /// What was unexpected.
        detail: String,
    },
    /// A program is not there, or is none that can be executed.
    #[error("{said}")]
    Program {
        /// Which program, where it was looked for, and what the kernel said.
        said: String,
        /// Whether there is none of the name; else there is one that cannot be executed.
        missing: bool,
    },
    /// The caller asked for something that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// A change of the host was not made, or not undone, because another owner is in the way.
    #[error("{0}")]
    Conflict(String),
}

impl Error {
    /// Wraps an I/O error with what was being done.
    pub fn os(what: impl Into<String>, source: io::Error) -> Self {
        Error::Os {
            what: what.into(),
            source,
        }
    }

    /// Wraps the calling thread's `errno`.
    pub fn last_os(what: impl Into<String>) -> Self {
        Self::os(what, io::Error::last_os_error())
    }

    /// The kernel's error number, where there is exactly one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Os { source, .. } => source.raw_os_error(),
            Error::Batch(b) => match &b.failures[..] {
                [one] => Some(one.errno),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Adds "what was being done" to raw I/O results.
pub(crate) trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::os(what(), e))
    }
}

impl<T> Context<T> for std::result::Result<T, rustix::io::Errno> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::os(what(), e.into()))
    }
}
