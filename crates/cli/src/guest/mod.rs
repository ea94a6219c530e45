//! Virtual time: a command of this program runs in a guest kernel whose clock stands still while anything computes.
//!
//! The guest is User Mode Linux, the Linux kernel as an ordinary process, in its mode `time-travel=inf-cpu`: processors are
//! infinitely fast, and idle time takes none. It needs no privilege of the host. [`Guest`] is the host's side; [`first_process`]
//! is the guest's process 1, which is this program as well. `tools/virtual/kernel` builds the kernel.
//!
//! The guest sees the host's files read-only, below files in memory that are gone with it. Only the folders of
//! [`GuestCommand::shared`] are written to on the host, with the rights of the user who started the guest.

mod inside;
mod kernel;
mod order;
mod outside;

pub(crate) use inside::first_process;
pub(crate) use kernel::find as find_kernel;
pub(crate) use order::{GuestCommand, VERB};
pub(crate) use outside::Guest;

use std::io;
use std::path::PathBuf;

/// Why a command did not run in a guest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is no kernel for it.
    #[error(
        "virtual time needs its kernel, and no file exists at {}; `make virtual` builds it, and CONSTEL_KERNEL may name another", list(.0)
    )]
    NoKernel(Vec<PathBuf>),
    /// Something of the host failed.
    #[error("{what}")]
    Host {
        /// The step.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// The guest ended before its command did.
    #[error("the guest kernel stopped without a result: {last}")]
    Stopped {
        /// The last lines of its console.
        last: String,
    },
    /// The guest could not prepare itself.
    #[error("the guest cannot start: {0}")]
    Guest(String),
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(" or ")
}

/// Names the step of an error.
fn at(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |source| Error::Host { what, source }
}
