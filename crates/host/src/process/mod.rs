//! Processes of nodes: started inside namespaces, marked, watched, ended.

mod birth;
mod callers;
mod captured;
mod child;
mod confine;
mod deaf;
mod exec;
mod filter;
mod first;
mod marks;
mod members;
mod seccomp;
mod spawn;
mod supervisor;
mod terminal;

pub(crate) use birth::number_of;
pub use captured::{Captured, run_captured};
pub use child::{Child, Exit, Foreign, when_ended};
pub use confine::{Capability, CapabilitySet, Confinement};
pub use exec::{Entry, ExecContext, run_inside};
pub use marks::{
    LAB_VARIABLE, MarkedProcess, NODE_VARIABLE, OWNER_VARIABLE, ProcessSelection, kill_marked,
    marked, marked_of,
};
pub use members::signal_members;
pub use spawn::{Spawn, Stdio};
pub use supervisor::{Exited, Supervisor};
pub use terminal::{Terminal, end_child, resize};

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The nice value of a thread with high priority.
const FIRST: i32 = -20;

/// Gives the calling thread, and processes that it starts, precedence over normal ones. Without the right to do that,
/// it has no effect.
pub fn go_first() {
    let _ = rustix::process::setpriority_process(None, FIRST);
}

/// Finds a command as a shell would: a name with `/` is used directly, any other name is searched along `search` (the
/// value of a `PATH`).
///
/// # Errors
/// [`Error::Program`] with the command and where it was searched.
pub fn find_command(name: &OsStr, search: &OsStr) -> Result<PathBuf> {
    let runs = |p: &Path| {
        p.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let shown = Path::new(name).display();
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        if runs(&path) {
            return Ok(path);
        }
        return Err(Error::Program {
            said: format!("command {shown} is not an executable file"),
            missing: !path.exists(),
        });
    }
    let mut missing = true;
    for path in std::env::split_paths(search).map(|dir| dir.join(name)) {
        if runs(&path) {
            return Ok(path);
        }
        missing &= !path.is_file();
    }
    let search = Path::new(search).display();
    Err(Error::Program {
        said: match missing {
            true => format!("command {shown} not found in {search}"),
            false => format!("command {shown} not found in {search} as an executable file"),
        },
        missing,
    })
}

/// Returns a string for a system call.
fn c_string(s: impl AsRef<OsStr>) -> Result<CString> {
    let s = s.as_ref();
    CString::new(s.as_bytes())
        .map_err(|_| Error::Invalid(format!("{} holds a NUL byte", Path::new(s).display())))
}

/// Returns the calling thread's error number.
fn errno() -> i32 {
    // SAFETY: always a valid pointer to the calling thread's own variable.
    unsafe { *libc::__errno_location() }
}
