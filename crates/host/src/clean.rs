//! Cleaning up after dead labs. Only objects with our mark are touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bpf;
use crate::cgroup::LabCgroup;
use crate::claim::{self, HostObject, LINK_GROUP, LabName, LabState, RuntimeDir};
use crate::error::{Context, Error, Result};
use crate::globals::{Owner, Release};
use crate::netlink::{Batch, Socket};
use crate::process::{self, ProcessSelection};
use crate::rcu::Expedited;

/// Time in which processes must die of SIGKILL.
const DYING: Duration = Duration::from_secs(10);

/// Time in which BPF objects must disappear after the last process that had them. The kernel frees those of interfaces
/// with their namespaces, one namespace after the other.
const FREED: Duration = Duration::from_secs(60);

/// An object that was removed, or a setting that was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "removed")]
pub enum Removed {
    /// A process with our mark was killed.
    Process {
        /// Process number.
        pid: u32,
        /// Command.
        command: String,
        /// Node of the process.
        node: Option<String>,
    },
    /// Processes of the lab's cgroup (in addition to those listed) were killed.
    CgroupProcesses {
        /// Number of processes.
        count: usize,
    },
    /// A cgroup.
    Cgroup {
        /// The group's directory.
        path: PathBuf,
    },
    /// An interface in the host's namespace.
    HostLink {
        /// The interface's name.
        name: String,
    },
    /// A container that a container engine made.
    Container {
        /// The engine's identifier of it.
        id: String,
        /// The engine's socket.
        engine: PathBuf,
        /// Node of the container.
        node: Option<String>,
    },
    /// A file.
    File {
        /// The file's path.
        path: PathBuf,
    },
    /// A mount.
    Mount {
        /// Former mount point.
        path: PathBuf,
    },
    /// A host-wide setting was released.
    Setting(Release),
    /// The lab's directory.
    LabDir {
        /// The directory's path.
        path: PathBuf,
    },
}

/// Result of cleaning up after one lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanReport {
    /// The lab.
    pub lab: LabName,
    /// Removed objects, in order.
    pub removed: Vec<Removed>,
    /// Objects that still exist although they should not, or could not be checked. Empty: the host is as before.
    pub problems: Vec<String>,
}

/// Result of cleaning up the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReport {
    /// Per lab, by name.
    pub labs: Vec<CleanReport>,
    /// Restored host-wide settings that belonged to no lab with a directory.
    pub settings: Vec<Release>,
}

/// Remains of labs outside this machine's kernel and files, such as containers.
pub trait Beyond {
    /// Returns the labs with remains that no living process owns.
    fn orphans(&self) -> Vec<LabName>;

    /// Removes the remains of a dead lab, whose directory may be gone, and reports them.
    fn remove(&self, lab: &LabName, dir: Option<&Path>, report: &mut CleanReport);
}

/// No remains exist elsewhere.
impl Beyond for () {
    fn orphans(&self) -> Vec<LabName> {
        Vec::new()
    }

    fn remove(&self, _: &LabName, _: Option<&Path>, _: &mut CleanReport) {}
}

/// Cleans up after every dead lab, and removes marked objects of dead owners whose lab has no directory any more (after
/// a crash in the last moments of cleaning up). Objects of living processes are not touched.
///
/// # Errors
/// [`Error::Os`] when labs, groups or processes cannot be listed, or a setting cannot be restored. Failures to remove a
/// lab's objects are not errors but problems in its report.
pub fn clean_all(runtime: &RuntimeDir, beyond: &dyn Beyond) -> Result<HostReport> {
    let labs = runtime.list()?;
    let mut names: Vec<LabName> = Vec::new();
    names.extend(
        labs.iter()
            .filter(|l| l.state == LabState::Dead)
            .map(|l| l.lab.clone()),
    );
    for (lab, group) in LabCgroup::all()? {
        if is_orphan(&group)? {
            names.push(lab);
        }
    }
    for m in process::marked(None)? {
        if m.is(ProcessSelection::DeadOwners)? {
            names.extend(m.lab.parse::<LabName>());
        }
    }
    names.extend(beyond.orphans());
    names.sort();
    names.dedup();
    // A lab that died and was started again has both living and dead processes; it is alive.
    names.retain(|n| {
        !labs
            .iter()
            .any(|l| l.lab == *n && l.state != LabState::Dead)
    });
    let labs = names
        .iter()
        .map(|n| clean_lab(runtime, n, beyond))
        .collect::<Result<Vec<_>>>()?;
    let settings = runtime.globals().release_dead()?;
    runtime.remove_if_empty()?;
    Ok(HostReport { labs, settings })
}

/// Returns whether no living process owns the group. A group without our mark is not ours.
fn is_orphan(group: &LabCgroup) -> Result<bool> {
    match group.owner()? {
        Some(owner) => Ok(!owner.is_alive()?),
        None => Ok(false),
    }
}

/// Returns the existing cgroups of the lab that no living process owns.
fn orphaned_groups(lab: &LabName) -> Result<Vec<LabCgroup>> {
    let mut orphans = Vec::new();
    for group in LabCgroup::open_all(lab)? {
        if is_orphan(&group)? {
            orphans.push(group);
        }
    }
    Ok(orphans)
}

/// Cleans up after one lab: kills its processes, removes recorded objects, restores host-wide settings, removes its
/// cgroup and its directory, and checks that all of this succeeded. Cleaning a clean lab does nothing. After a failure
/// it continues and lists the failure in the report.
///
/// # Errors
/// [`Error::Conflict`] when the lab is alive.
pub fn clean_lab(runtime: &RuntimeDir, lab: &LabName, beyond: &dyn Beyond) -> Result<CleanReport> {
    let entry = runtime.find(lab)?;
    if let Some(e) = &entry
        && e.state != LabState::Dead
    {
        let pid = e.pid().map_or(String::new(), |p| format!(" (process {p})"));
        return Err(Error::Conflict(format!(
            "lab {lab} is alive{pid}: take it down instead"
        )));
    }
    let mut report = CleanReport {
        lab: lab.clone(),
        removed: Vec::new(),
        problems: Vec::new(),
    };
    let r = &mut report;

    let record = entry.as_ref().and_then(|e| e.record.as_ref());
    let things = record.map_or(&[][..], |record| &record.things);
    let made_nothing = record.is_some_and(|r| r.things.is_empty() && (r.nodes, r.edges) == (0, 0));
    expedited(runtime, r, |r| {
        remove_all(runtime, things, r);
        if !made_nothing {
            wait_for_bpf(r);
        }
    });
    beyond.remove(lab, entry.as_ref().map(|e| e.dir.as_path()), r);
    // The directory is removed last, and only when its record is no longer needed.
    if r.problems.is_empty() {
        verify(runtime, lab, r);
    }
    if r.problems.is_empty() && entry.is_some() {
        match remove_dir(runtime, lab) {
            Ok(path) => r.removed.extend(path.map(|path| Removed::LabDir { path })),
            Err(e) => r.problems.push(e.to_string()),
        }
    }
    Ok(report)
}

/// Does `work` while RCU grace periods are expedited: dying processes wait for them repeatedly, and so does the kernel
/// when it frees a dead lab's interfaces and BPF objects. If they cannot be expedited, the work takes longer.
fn expedited(runtime: &RuntimeDir, r: &mut CleanReport, work: impl FnOnce(&mut CleanReport)) {
    let owner = Owner::current(format!("clean-{}", std::process::id()));
    let held = owner.and_then(|owner| Expedited::hold(&runtime.globals(), &owner));
    work(r);
    if let Ok(held) = held
        && let Err(e) = held.finish()
    {
        r.problems.push(e.to_string());
    }
}

/// Kills the remaining processes of a dead lab, removes recorded objects and waits until its groups are gone.
fn remove_all(runtime: &RuntimeDir, things: &[HostObject], r: &mut CleanReport) {
    let lab = r.lab.clone();
    kill(&lab, r);
    // In reverse order of creation.
    for thing in things.iter().rev() {
        match remove_thing(thing, &lab) {
            Ok(removed) => r.removed.extend(removed),
            Err(e) => r.problems.push(e.to_string()),
        }
    }
    match runtime.globals().release_all_dead(lab.as_str()) {
        Ok(done) => r.removed.extend(done.into_iter().map(Removed::Setting)),
        Err(e) => r.problems.push(e.to_string()),
    }
    match orphaned_groups(&lab) {
        Ok(groups) => {
            for group in groups {
                let path = group.path().to_path_buf();
                match group.remove(DYING) {
                    Ok(true) => r.removed.push(Removed::Cgroup { path }),
                    Ok(false) => {}
                    Err(e) => r.problems.push(e.to_string()),
                }
            }
        }
        Err(e) => r.problems.push(e.to_string()),
    }
}

/// Waits until the BPF objects of dead labs are gone. They do not name their lab. Those of living labs are held by their
/// processes and are no orphans.
fn wait_for_bpf(r: &mut CleanReport) {
    let orphans = bpf::orphans();
    match orphans.and_then(|objects| bpf::wait_gone(&objects, FREED)) {
        Ok(left) => r.problems.extend(left.iter().map(|o| {
            format!("bpf {:?} {} ({}) still exists", o.kind, o.name, o.id).to_lowercase()
        })),
        // The kernel has no BPF, or this process may not list objects: then the lab had none there.
        Err(e) if matches!(e.errno(), Some(libc::ENOSYS | libc::EPERM)) => {}
        Err(e) => r.problems.push(e.to_string()),
    }
}

fn kill(lab: &LabName, r: &mut CleanReport) {
    let as_removed = |m: process::MarkedProcess| Removed::Process {
        pid: m.pid,
        command: m.command,
        node: m.node,
    };
    // By cgroup first: the kernel kills all members at once, so that no process can escape by forking. The processes
    // must be listed before, for the report.
    let before = process::marked_of(lab.as_str(), ProcessSelection::DeadOwners).unwrap_or_default();
    match orphaned_groups(lab).and_then(|groups| {
        // If the first group contains all processes, the second one is empty.
        let (mut count, mut pids) = (0, Vec::new());
        for group in groups {
            pids.extend(group.pids()?);
            count += group.kill_all(DYING)?;
        }
        Ok((count, pids))
    }) {
        Ok((count, pids)) => {
            let named = before.into_iter().filter(|m| pids.contains(&m.pid));
            let named: Vec<_> = named.map(as_removed).collect();
            let unnamed = count.saturating_sub(named.len());
            r.removed.extend(named);
            r.removed
                .extend((unnamed > 0).then_some(Removed::CgroupProcesses { count: unnamed }));
        }
        Err(e) => r.problems.push(e.to_string()),
    }
    match process::kill_marked(lab.as_str(), ProcessSelection::DeadOwners, DYING) {
        Ok(killed) => r.removed.extend(killed.into_iter().map(as_removed)),
        Err(e) => r.problems.push(e.to_string()),
    }
}

fn remove_thing(thing: &HostObject, lab: &LabName) -> Result<Option<Removed>> {
    match thing {
        HostObject::HostLink { name } => {
            let mut socket = Socket::open()?;
            let Some(link) = socket.link_named(name)? else {
                return Ok(None);
            };
            let alias = link.alias.as_deref().unwrap_or_default();
            let ours = alias
                .split_whitespace()
                .take(2)
                .eq(claim::link_alias(lab).split_whitespace())
                || (link.group == LINK_GROUP && link.alias.is_none());
            if !ours {
                return Err(Error::Conflict(format!(
                    "interface {name} does not carry our mark: left alone"
                )));
            }
            let mut batch = Batch::new();
            batch.delete_link(link.ifindex).tolerate(libc::ENODEV);
            socket.send(&mut batch)?;
            Ok(Some(Removed::HostLink { name: name.clone() }))
        }
        HostObject::File { path } => match fs::symlink_metadata(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            _ => {
                fs::remove_file(path).context(|| format!("remove {}", path.display()))?;
                Ok(Some(Removed::File { path: path.clone() }))
            }
        },
        HostObject::Mount { path } => {
            match rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH) {
                Ok(()) => Ok(Some(Removed::Mount { path: path.clone() })),
                // Not mounted, or the path does not exist.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(None),
                Err(e) => Err(Error::os(format!("unmount {}", path.display()), e.into())),
            }
        }
    }
}

/// Checks that all objects are really gone.
fn verify(runtime: &RuntimeDir, lab: &LabName, r: &mut CleanReport) {
    match process::marked_of(lab.as_str(), ProcessSelection::DeadOwners) {
        Ok(left) => r.problems.extend(
            left.iter()
                .map(|m| format!("process {} ({}) is still alive", m.pid, m.command)),
        ),
        Err(e) => r.problems.push(e.to_string()),
    }
    match orphaned_groups(lab) {
        Ok(left) => r.problems.extend(
            left.iter()
                .map(|g| format!("cgroup {} still exists", g.path().display())),
        ),
        Err(e) => r.problems.push(e.to_string()),
    }
    match runtime.globals().owners() {
        Ok(o) if o.iter().any(|n| n == lab.as_str()) => {
            r.problems
                .push("a host-wide setting is still recorded as changed".into());
        }
        Ok(_) => {}
        Err(e) => r.problems.push(e.to_string()),
    }
}

/// Removes the lab's directory, unless the name was claimed again since.
fn remove_dir(runtime: &RuntimeDir, lab: &LabName) -> Result<Option<PathBuf>> {
    let _host = runtime.lock()?;
    match runtime.inspect(lab)? {
        Some(e) if e.state == LabState::Dead => {
            claim::remove_tree(&e.dir)?;
            Ok(Some(e.dir))
        }
        _ => Ok(None),
    }
}
