//! Processes of nodes: started inside namespaces, marked, watched, ended.

mod birth;
mod captured;
mod child;
mod confine;
mod deaf;
mod exec;
mod filter;
mod first;
mod marks;
mod seccomp;
mod spawn;
mod supervisor;
mod terminal;

pub(crate) use birth::number_of;
pub use captured::{Captured, run_captured};
pub use child::{Child, Exit, Foreign};
pub use confine::{Capability, CapabilitySet, Confinement};
pub use exec::{Entry, Group, Within, run_inside};
pub use marks::{
    LAB_VARIABLE, Marked, NODE_VARIABLE, OWNER_VARIABLE, Whose, kill_marked, marked, marked_of,
};
pub use spawn::{Spawn, Stdio};
pub use supervisor::{Exited, Supervisor};
pub use terminal::{Terminal, end_child, resize};

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The nice value of a thread that goes first.
const FIRST: i32 = -20;

/// The calling thread goes before normal ones from here on, and what it starts; without the right to that, nothing changes.
pub fn go_first() {
    let _ = rustix::process::setpriority_process(None, FIRST);
}

/// Finds a command as a shell would: a name with `/` as it is, any other along `search`
/// (the value of a `PATH`).
///
/// # Errors
/// [`Error::Invalid`] naming the command and where it was looked for.
pub fn find_command(name: &OsStr, search: &OsStr) -> Result<PathBuf> {
    let runs = |p: &Path| {
        p.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        if runs(&path) {
            return Ok(path);
        }
        return Err(Error::Invalid(format!(
            "command {} is not an executable file",
            path.display()
        )));
    }
    std::env::split_paths(search)
        .map(|dir| dir.join(name))
        .find(|p| runs(p))
        .ok_or_else(|| {
            Error::Invalid(format!(
                "command {} not found in {}",
                Path::new(name).display(),
                Path::new(search).display()
            ))
        })
}

/// A string for a system call.
fn c_string(s: impl AsRef<OsStr>) -> Result<CString> {
    let s = s.as_ref();
    CString::new(s.as_bytes())
        .map_err(|_| Error::Invalid(format!("{} holds a NUL byte", Path::new(s).display())))
}
