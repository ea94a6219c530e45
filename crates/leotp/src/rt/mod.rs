//! The Linux runtime: batched UDP, one epoll thread, pacing by deadline.
//!
//! [`Driver`] moves datagrams between sockets and a [`Machine`]. On top of it:
//! [`Fetch`] (a flow as [`std::io::Read`]), [`Publisher`] (flows from files,
//! memory or a live writer) and [`Mid`] (a transparent Midnode).

#[cfg(feature = "futures-io")]
mod async_fetch;
mod disk;
mod driver;
mod fetch;
mod intercept;
mod mid;
mod netlink;
mod nft;
mod publish;
mod sealed;
mod sources;
mod sys;

#[cfg(feature = "futures-io")]
pub use async_fetch::AsyncFetch;
pub use disk::{DiskCache, SLOT_BYTES};
pub use driver::{Driver, IoStats, Machine, Waker};
pub use fetch::{Fetch, FetchOptions};
pub use intercept::{
    Intercept, InterceptOptions, Intercepted, accept, connect_from, end_with_reset, reset,
};
pub use mid::{Mid, MidOptions};
pub use publish::{FileSource, LiveFlow, MemorySource, Publisher, open_regular};
pub use sealed::{Opener, SealedFile};
pub(crate) use sys::tcp::udp_of_one_family;
pub use sys::{Socket, SocketOptions};

use crate::core::{FlowError, ParamError};
use std::sync::atomic::{AtomicBool, Ordering};

pub use crate::wire::DEFAULT_PORT;

/// An error at run time.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The parameters cannot work.
    #[error(transparent)]
    Params(#[from] ParamError),
    /// The request is refused: it names something that does not exist, or would be unsafe.
    #[error("{0}")]
    Options(String),
    /// A record of a sealed flow is not the one that the key's owner sealed, however often it was
    /// requested.
    #[error("record {0} of the sealed flow is forged")]
    Forged(u64),
    /// The flow is open although a key was given, or sealed although none was.
    #[error("the flow is {}", if *.0 { "sealed: a key is needed" } else { "not sealed, but a key was given" })]
    Sealing(bool),
    /// The flow failed.
    #[error(transparent)]
    Flow(#[from] FlowError),
}

impl RunError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

static STOP: AtomicBool = AtomicBool::new(false);

/// Whether SIGINT or SIGTERM has come since [`catch_signals`].
pub fn stop_requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Makes SIGINT and SIGTERM request an orderly end instead of killing.
///
/// # Errors
/// The kernel's.
pub fn catch_signals() -> Result<(), RunError> {
    sys::on_stop_signals(&STOP).map_err(RunError::io("catch signals"))
}

/// Returns unpredictable bytes from the kernel.
///
/// # Errors
/// When `/dev/urandom` cannot be read.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], RunError> {
    use std::io::Read;
    let mut b = [0; N];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut b));
    read.map_err(RunError::io("read /dev/urandom"))?;
    Ok(b)
}

/// Allows this process as many open files as it may have; each connection of a gateway takes several.
///
/// # Errors
/// The kernel's.
pub fn raise_open_files() -> Result<(), RunError> {
    sys::raise_open_files().map_err(RunError::io("raise the limit of open files"))
}

/// Largest resident set of this process so far, byte.
pub fn peak_rss_bytes() -> Option<u64> {
    let s = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = s.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<u64>()
        .ok()
        .map(|k| k * 1024)
}

/// User and system time of this process so far, s.
pub fn cpu_seconds() -> f64 {
    sys::cpu_seconds()
}
