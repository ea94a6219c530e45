//! Errors of BPF objects.

use std::io;

use crate::bpf::messages;

/// Result with [`BpfError`].
pub type Result<T, E = BpfError> = std::result::Result<T, E>;

/// Why an operation on a BPF object failed.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel refused programs or maps, or an entry of a map.
    #[error("{what}: {source}{detail}")]
    Refused {
        /// The step that failed.
        what: String,
        /// The kernel's error.
        source: libbpf_rs::Error,
        /// The last messages of libbpf, which contain the verifier's log: empty, or starting with ": ".
        detail: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Os {
        /// The step that failed.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The object is not the one that the program was made with.
    #[error("{0}")]
    Mismatch(String),
}

impl BpfError {
    /// Turns an error of libbpf into one that names the step that failed and carries the messages that libbpf has
    /// printed since the last call.
    pub fn refused(what: &str) -> impl Fn(libbpf_rs::Error) -> BpfError {
        let what = what.to_owned();
        move |source| BpfError::Refused {
            what: what.clone(),
            source,
            detail: messages::take(),
        }
    }
}
