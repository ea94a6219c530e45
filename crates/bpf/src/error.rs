//! What can go wrong with BPF objects.

use std::io;

use crate::messages;

/// Result with [`BpfError`].
pub type Result<T, E = BpfError> = std::result::Result<T, E>;

/// Why a BPF object could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel refused programs or maps, or an entry of a map.
    #[error("{what}: {source}{detail}")]
    Refused {
        /// What was being done.
        what: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
        /// The last messages of libbpf, which has the verifier's words: empty, or starting with ": ".
        detail: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Os {
        /// What was being done.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The object is not the one that the program was made with.
    #[error("{0}")]
    Mismatch(String),
}

impl BpfError {
    /// Turns libbpf's error into one that says what was being done, with what libbpf has said since the last one.
    pub fn refused(what: &str) -> impl Fn(libbpf_rs::Error) -> BpfError {
        let what = what.to_owned();
        move |source| BpfError::Refused {
            what: what.clone(),
            source,
            detail: messages::take(),
        }
    }
}
