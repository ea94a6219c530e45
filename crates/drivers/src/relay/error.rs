//! What can go wrong with the relay.

use std::io;

use constel_link::{EffectsError, PortId, UpdateError};

/// Result with [`RelayError`].
pub type Result<T, E = RelayError> = std::result::Result<T, E>;

/// Why the relay could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// A configuration that cannot be.
    #[error("relay configuration: {0}")]
    Config(String),
    /// Namespaces or interfaces could not be made.
    #[error(transparent)]
    Host(#[from] constel_host::Error),
    /// The kernel refused the BPF programs or maps; `detail` has the verifier's last words.
    #[error("{what}: {source}{detail}")]
    Bpf {
        /// What was being done.
        what: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
        /// Messages of libbpf, empty or starting with ": ".
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
    /// The update was refused; nothing of it was applied.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The effects were refused; nothing was changed.
    #[error(transparent)]
    Effects(#[from] EffectsError),
    /// A port number the relay has no room for.
    #[error("{port} does not exist: the relay was made for {ports} ports")]
    NoSuchPort {
        /// The port.
        port: PortId,
        /// Ports the relay was made for.
        ports: u32,
    },
    /// The relay's thread has ended.
    #[error("the relay has been stopped")]
    Stopped,
    /// The relay's thread was started before.
    #[error("the relay has been started already")]
    Started,
}

impl RelayError {
    pub(crate) fn last_os(what: impl Into<String>) -> RelayError {
        RelayError::Os {
            what: what.into(),
            source: io::Error::last_os_error(),
        }
    }
}
