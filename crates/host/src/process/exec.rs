//! Becoming a process of a node: `constel exec` and `constel shell`.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::find_command;
use super::marks::{LAB_VARIABLE, NODE_VARIABLE, OWNER_VARIABLE};
use super::mounts::{self, Mount};
use super::spawn::default_signals;
use crate::cgroup::LabCgroup;
use crate::error::{Error, Result};
use crate::ident::ProcessIdent;
use crate::netns::NetNs;

/// Where to enter, and as what.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Lab name, for the mark.
    pub lab: &'a str,
    /// Node name, for the mark.
    pub node: &'a str,
    /// The process that runs the lab ([`crate::claim::LabRecord::owner`]): when it is gone,
    /// cleaning up ends this one too.
    pub owner: &'a ProcessIdent,
    /// The node's network namespace: open it with [`NetNs::open`] on the path that the engine
    /// gives ([`NetNs::proc_path`]).
    pub netns: &'a NetNs,
    /// The lab's cgroup, so that taking the lab down ends the process too.
    pub cgroup: Option<&'a LabCgroup>,
    /// The node's own view of the file system.
    pub mounts: &'a [Mount],
    /// Variables beside the caller's own environment.
    pub env: &'a [(OsString, OsString)],
}

/// Replaces the calling process by the command, inside the node: standard streams, terminal,
/// working directory and exit code are the command's own.
///
/// # Errors
/// Returns only if that failed. The process may be inside the node then, and should exit.
pub fn enter_and_exec(entry: &Entry<'_>, argv: &[OsString]) -> Result<Infallible> {
    let name = argv
        .first()
        .ok_or_else(|| Error::Invalid("no command to execute was given".into()))?;
    let own_path = std::env::var_os("PATH");
    let search = entry
        .env
        .iter()
        .find(|(k, _)| k == "PATH")
        .map(|(_, v)| v.as_os_str())
        .or(own_path.as_deref())
        .unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let program = find_command(name, search)?;
    let mounts = mounts::prepare(entry.mounts)?;
    if let Some(group) = entry.cgroup {
        group.add_process(std::process::id())?;
    }
    entry.netns.enter_for_good()?;
    if let Some(m) = mounts {
        m.carry_out().map_err(|(errno, step)| {
            Error::os(m.describe(step), std::io::Error::from_raw_os_error(errno))
        })?;
    }
    default_signals();
    let e = Command::new(&program)
        .arg0(name)
        .args(&argv[1..])
        .envs(entry.env.iter().map(|(k, v)| (k, v)))
        .env(LAB_VARIABLE, entry.lab)
        .env(NODE_VARIABLE, entry.node)
        .env(OWNER_VARIABLE, entry.owner.mark())
        .exec();
    Err(Error::os(format!("execute {}", program.display()), e))
}
