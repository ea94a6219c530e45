//! What can go wrong with a link driver, whichever it is.

use std::io;

use constel_bpf::BpfError;
use constel_link::{EffectsError, PortId, UpdateError};

/// Result with [`DriverError`].
pub type Result<T, E = DriverError> = std::result::Result<T, E>;

/// Why a driver could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A configuration that cannot be.
    #[error("relay configuration: {0}")]
    Config(String),
    /// Namespaces, interfaces or queueing disciplines could not be made.
    #[error(transparent)]
    Host(#[from] constel_host::Error),
    /// A system call failed.
    #[error("{what}: {source}")]
    Os {
        /// What was being done.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Another program takes this interface's frames already, and only one can.
    #[error(
        "the interface is in use: another box, or another program with an AF_XDP socket, takes its frames"
    )]
    InUse {
        /// Its index.
        ifindex: u32,
    },
    /// The kernel refused BPF programs or maps.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The update was refused; nothing of it was applied.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The effects were refused; nothing was changed.
    #[error(transparent)]
    Effects(#[from] EffectsError),
    /// The driver does not have what was asked for; nothing was changed.
    #[error("{}", .0.join("; "))]
    Unsupported(Vec<String>),
    /// No driver works on this host, or not the one asked for.
    #[error("{0}")]
    Unable(String),
    /// A port number beyond those the driver was made for.
    #[error("{port} does not exist: the driver was made for {ports} ports")]
    NoSuchPort {
        /// The port.
        port: PortId,
        /// Ports there can be.
        ports: u32,
    },
    /// More edges at a time than there is room for; nothing was changed.
    #[error("no room for {wanted} more edges: the driver was made for {room}")]
    Full {
        /// Edges to be added.
        wanted: usize,
        /// Edges there can be.
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

/// That this port is one of the first `ports`.
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
