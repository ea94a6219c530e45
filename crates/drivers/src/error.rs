//! Errors of link drivers.

use std::io;

use constel_link::{EffectsError, PortId, UpdateError};

use crate::bpf::BpfError;

/// Result with [`DriverError`].
pub type Result<T, E = DriverError> = std::result::Result<T, E>;

/// Reason why a driver could not handle a request.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// An invalid configuration.
    #[error("relay configuration: {0}")]
    Config(String),
    /// Namespaces, interfaces or queueing disciplines could not be created.
    #[error(transparent)]
    Host(#[from] constel_host::Error),
    /// A system call failed.
    #[error("{what}: {source}")]
    Os {
        /// The step that failed.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another program already takes this interface's frames, and only one can.
    #[error(
        "the interface is in use: another box, or another program with an AF_XDP socket, takes its frames"
    )]
    InUse {
        /// The interface's index.
        ifindex: u32,
    },
    /// The kernel refused BPF programs or maps.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The update was refused; no change was applied.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The effects were refused; no change was applied.
    #[error(transparent)]
    Effects(#[from] EffectsError),
    /// The driver does not support the request; no change was applied.
    #[error("{}", .0.join("; "))]
    Unsupported(Vec<String>),
    /// No driver works on this host, or the requested one does not.
    #[error("{0}")]
    Unable(String),
    /// A port number beyond those of the driver's configuration.
    #[error("{port} does not exist: the driver was made for {ports} ports")]
    NoSuchPort {
        /// The port.
        port: PortId,
        /// Number of ports.
        ports: u32,
    },
    /// More edges at a time than there is room for; no change was applied.
    #[error("no room for {wanted} more edges: the driver was made for {room}")]
    Full {
        /// Edges to be added.
        wanted: usize,
        /// Maximum number of edges.
        room: usize,
    },
    /// The driver's thread was started before.
    #[error("the driver has been started already")]
    Started,
    /// The driver's thread has ended.
    #[error("the link driver has been stopped")]
    Stopped,
}

impl DriverError {
    pub(crate) fn last_os(what: impl Into<String>) -> DriverError {
        DriverError::Os {
            what: what.into(),
            source: io::Error::last_os_error(),
        }
    }
}

/// Checks that this port is one of the first `ports`.
///
/// # Errors
/// [`DriverError::NoSuchPort`].
pub(crate) fn check_port(port: PortId, ports: u32) -> Result<()> {
    if port.0 < ports {
        Ok(())
    } else {
        Err(DriverError::NoSuchPort { port, ports })
    }
}
