//! Our mark on processes: a variable in their environment, which their children inherit.
//!
//! In addition to cgroups, this is a second mechanism: it also works without cgroup2, and finds processes that moved
//! themselves out of the lab's group.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};
use crate::ident::{ProcessIdent, is_gone};

/// Variable with the lab that a process belongs to.
pub const LAB_VARIABLE: &str = "CONSTEL_LAB";
/// Variable with the node that a process belongs to.
pub const NODE_VARIABLE: &str = "CONSTEL_NODE";

/// Variable with the process that owns it ([`ProcessIdent::mark`]).
pub const OWNER_VARIABLE: &str = "CONSTEL_OWNER";

/// Selection of processes to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSelection {
    /// Processes of the calling process: taking down its own lab.
    Mine,
    /// Processes without a living owner: cleaning up. A process without a (readable) owner is never touched: its mark
    /// was not made by Constel.
    DeadOwners,
}

/// A living process with our mark.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MarkedProcess {
    /// Lab name.
    pub lab: String,
    /// Node name, if it belongs to one.
    pub node: Option<String>,
    /// The process that owns it, alive or dead.
    pub owner: Option<ProcessIdent>,
    /// Process number.
    pub pid: u32,
    /// Command name as recorded by the kernel.
    pub command: String,
}

/// Returns all living processes that carry our mark, of one lab or of all, except the caller and its ancestors (a shell
/// inside a node may run `constel clean`).
///
/// # Errors
/// [`Error::Os`] when `/proc` cannot be read.
pub fn marked(lab: Option<&str>) -> Result<Vec<MarkedProcess>> {
    let spared = self_and_ancestors();
    let mut out = Vec::new();
    for entry in fs::read_dir("/proc").context(|| "list /proc".into())? {
        let entry = entry.context(|| "list /proc".into())?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<u32>().ok())
        else {
            continue;
        };
        if spared.contains(&pid) {
            continue;
        }
        if let Some(m) = mark_of(pid)?
            && lab.is_none_or(|l| l == m.lab)
        {
            out.push(m);
        }
    }
    out.sort();
    Ok(out)
}

/// Returns the mark of one process. Zombies have no environment any more, and thus no mark.
fn mark_of(pid: u32) -> Result<Option<MarkedProcess>> {
    let environ = match fs::read(format!("/proc/{pid}/environ")) {
        Ok(e) => e,
        Err(e) if is_gone(&e) => return Ok(None),
        // Not permitted (not root, or a hardened process): then it is not one of ours.
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => return Ok(None),
        Err(e) => return Err(Error::os(format!("read /proc/{pid}/environ"), e)),
    };
    let get = |name: &str| {
        environ.split(|&b| b == 0).find_map(|kv| {
            let v = kv.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(v).into_owned())
        })
    };
    let Some(lab) = get(LAB_VARIABLE) else {
        return Ok(None);
    };
    let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let owner = match get(OWNER_VARIABLE) {
        Some(mark) => ProcessIdent::from_mark(&mark)?,
        None => None,
    };
    Ok(Some(MarkedProcess {
        lab,
        node: get(NODE_VARIABLE),
        owner,
        pid,
        command: command.trim().into(),
    }))
}

fn self_and_ancestors() -> BTreeSet<u32> {
    let mut out = BTreeSet::from([std::process::id()]);
    let mut pid = std::process::id();
    while pid > 1 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1))
            .and_then(|p| p.parse().ok());
        match parent {
            Some(p) if out.insert(p) => pid = p,
            _ => break,
        }
    }
    out
}

impl MarkedProcess {
    /// Returns whether the process belongs to the selection.
    ///
    /// # Errors
    /// [`Error::Os`] when `/proc` cannot be read.
    pub fn is(&self, whose: ProcessSelection) -> Result<bool> {
        let Some(owner) = &self.owner else {
            return Ok(false);
        };
        match whose {
            ProcessSelection::Mine => Ok(*owner == ProcessIdent::current()?),
            ProcessSelection::DeadOwners => Ok(!owner.is_alive()?),
        }
    }
}

/// Returns the processes with the lab's mark that belong to the selection.
///
/// # Errors
/// [`Error::Os`] when `/proc` cannot be read.
pub fn marked_of(lab: &str, whose: ProcessSelection) -> Result<Vec<MarkedProcess>> {
    let mut out = Vec::new();
    for m in marked(Some(lab))? {
        if m.is(whose)? {
            out.push(m);
        }
    }
    Ok(out)
}

/// Kills (SIGKILL) all these processes, repeatedly until none is left, because they may start others. Returns the
/// killed ones.
///
/// # Errors
/// [`Error::Conflict`] with those that still live after `timeout`.
pub fn kill_marked(
    lab: &str,
    whose: ProcessSelection,
    timeout: Duration,
) -> Result<Vec<MarkedProcess>> {
    let end = Instant::now() + timeout;
    let mut killed: BTreeSet<MarkedProcess> = BTreeSet::new();
    loop {
        let found = marked_of(lab, whose)?;
        if found.is_empty() {
            return Ok(killed.into_iter().collect());
        }
        if Instant::now() >= end {
            let names: Vec<_> = found
                .iter()
                .map(|m| format!("{} ({})", m.command, m.pid))
                .collect();
            return Err(Error::Conflict(format!(
                "still alive: {}",
                names.join(", ")
            )));
        }
        let mut waits = Vec::new();
        for m in found {
            let pid = Pid::from_raw(m.pid as i32).expect("/proc shows no process 0");
            let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else {
                continue;
            };
            // The descriptor refers to the process that has the number now: check the mark again.
            if mark_of(m.pid)?.is_none_or(|now| now.lab != lab || now.owner != m.owner) {
                continue;
            }
            match pidfd_send_signal(&fd, Signal::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(e) => Err(e).context(|| format!("kill {} ({})", m.command, m.pid))?,
            }
            killed.insert(m);
            waits.push(fd);
        }
        for fd in waits {
            let left = end.saturating_duration_since(Instant::now());
            let t = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos() as _,
            };
            let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&t));
        }
    }
}
