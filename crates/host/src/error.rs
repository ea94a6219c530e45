//! The error type of this crate.

use std::io;

use crate::netlink::failures::BatchError;

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error between us and the kernel, always with the step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call or a file access failed.
    #[error("{what}: {source}")]
    Os {
        /// The step that failed, with the name of the object.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// One or more requests of a netlink batch were refused.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The kernel sent an unexpected message.
    #[error("{what}: unexpected answer from the kernel: {detail}")]
    Protocol {
        /// The step that failed.
        what: String,
        /// The unexpected part.
        detail: String,
    },
    /// A program does not exist, or cannot be executed.
    #[error("{said}")]
    Program {
        /// The program, where it was searched, and the kernel's error.
        said: String,
        /// Whether no program of the name exists; otherwise one exists but cannot be executed.
        missing: bool,
    },
    /// The caller's request is not valid.
    #[error("{0}")]
    Invalid(String),
    /// A change of the host was not made, or not undone, because of another owner.
    #[error("{0}")]
    Conflict(String),
}

impl Error {
    /// Wraps an I/O error with the step that failed.
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

    /// Returns whether the kernel was built without the feature.
    pub fn is_unsupported(&self) -> bool {
        let built_without = [libc::EOPNOTSUPP, libc::EPROTONOSUPPORT];
        self.errno()
            .is_some_and(|errno| built_without.contains(&errno))
    }

    /// Returns the kernel's error number, if there is exactly one.
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

/// Adds the step that failed to raw I/O results.
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
