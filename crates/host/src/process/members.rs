//! All processes in a network namespace, also those that Constel did not start.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::{Context, Error, Result};

/// Most passes over `/proc`. Processes that start others while they are signalled are found by a later one.
const PASSES: usize = 16;

/// Sends a signal to every process whose network namespace is that of `path`, and to those that they start at the same time.
/// Returns their number.
///
/// # Errors
/// [`Error::Os`] when `path` is no file, or `/proc` cannot be read.
pub fn signal_members(path: &Path, signal: Signal) -> Result<usize> {
    let own = fs::metadata(path).context(|| format!("look at {}", path.display()))?;
    let own = (own.dev(), own.ino());
    let mut signalled: BTreeSet<i32> = BTreeSet::new();
    for _ in 0..PASSES {
        let before = signalled.len();
        for entry in fs::read_dir("/proc").context(|| "list /proc".to_owned())? {
            let entry = entry.context(|| "list /proc".to_owned())?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.parse().ok());
            let Some((number, pid)) =
                number.and_then(|number| Some((number, Pid::from_raw(number)?)))
            else {
                continue;
            };
            if !signalled.contains(&number) && signal_member(pid, own, signal)? {
                signalled.insert(number);
            }
        }
        if signalled.len() == before {
            break;
        }
    }
    Ok(signalled.len())
}

/// Sends a signal to a process if it is in a network namespace. Returns whether it was.
fn signal_member(pid: Pid, own: (u64, u64), signal: Signal) -> Result<bool> {
    // The descriptor keeps the number from meaning another process between the look and the signal.
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH | Errno::INVAL) => return Ok(false),
        Err(error) => return Err(Error::os(format!("open process {pid:?}"), error.into())),
    };
    let place = format!("/proc/{}/ns/net", pid.as_raw_nonzero());
    // A process that has ended has no namespace any more.
    let Ok(its) = fs::metadata(place) else {
        return Ok(false);
    };
    if (its.dev(), its.ino()) != own {
        return Ok(false);
    }
    match pidfd_send_signal(&process, signal) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(Error::os(format!("signal process {pid:?}"), error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_other_namespaces_are_left_alone() {
        let own = fs::metadata("/proc/self/ns/net").unwrap();
        let me = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
        // SIGCONT has no effect on a process that runs.
        let here = (own.dev(), own.ino());
        assert!(signal_member(me, here, Signal::CONT).unwrap());
        assert!(!signal_member(me, (here.0, here.1 + 1), Signal::CONT).unwrap());
        assert!(signal_members(Path::new("/proc/self/ns/none"), Signal::CONT).is_err());
    }
}
