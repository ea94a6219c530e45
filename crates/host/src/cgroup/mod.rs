//! The lab's cgroup: every process that a lab starts is in it, including all that it forks, so that the kernel itself
//! can list and kill them all.
//!
//! On hosts with controllers of cgroup v1 there are further groups in their hierarchies: for labs that share processor
//! time as one unit ([`LabCgroup::create_cpu`]), for [`limits`] of memory and processes, and so that containers are not
//! in the root group of any hierarchy ([`LabCgroup::create_others`]).

pub mod limits;
mod tree;
pub mod usage;

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::claim::LabName;
use crate::error::{Context, Error, Result};
use crate::ident::ProcessIdent;

/// Every cgroup of a lab is named `constel-<lab>`.
pub const PREFIX: &str = "constel-";

/// Extended attribute with the process that created the group ([`ProcessIdent::mark`]).
const OWNER_ATTRIBUTE: &str = "trusted.constel.owner";

/// How often groups whose processes do not die are thawed.
const THAW_EVERY: Duration = Duration::from_millis(100);

/// Returns where cgroup2 is mounted: at `/sys/fs/cgroup`, or at `.../unified` on hybrid hosts. `None` if it is not
/// mounted, or read-only.
///
/// # Errors
/// [`Error::Os`] when the mount table cannot be read.
pub fn mount_point() -> Result<Option<PathBuf>> {
    Ok(find_mount(&mount_table()?, "cgroup2", None))
}

/// Returns where cgroup v1's controller of that name is mounted; `None` if it is not mounted, or read-only.
fn v1_mount_point(controller: &str) -> Result<Option<PathBuf>> {
    Ok(find_mount(&mount_table()?, "cgroup", Some(controller)))
}

/// Returns the root of every writable hierarchy, in which labs may have groups; that of cgroup2 first.
///
/// # Errors
/// [`Error::Os`] when the mount table cannot be read.
pub fn roots() -> Result<Vec<PathBuf>> {
    Ok(roots_in(&mount_table()?))
}

fn roots_in(table: &str) -> Vec<PathBuf> {
    let v1 = table.lines().filter_map(v1_mount);
    let mut devices = Vec::new();
    let mut roots: Vec<PathBuf> = find_mount(table, "cgroup2", None).into_iter().collect();
    for (device, _, root) in v1 {
        // A hierarchy may be mounted at several places, as for container engines.
        if !devices.contains(&device) {
            devices.push(device);
            roots.push(root);
        }
    }
    roots
}

/// Parses a line of the mount table: returns the device, the file system options and the mount point of a writable
/// hierarchy of cgroup v1.
fn v1_mount(line: &str) -> Option<(&str, &str, PathBuf)> {
    let device = line.split(' ').nth(2)?;
    let (_, right) = line.split_once(" - ")?;
    Some((
        device,
        right.split(' ').nth(2)?,
        find_mount(line, "cgroup", None)?,
    ))
}

fn mount_table() -> Result<String> {
    fs::read_to_string("/proc/self/mountinfo").context(|| "read /proc/self/mountinfo".to_string())
}

fn find_mount(table: &str, fs_type: &str, controller: Option<&str>) -> Option<PathBuf> {
    for line in table.lines() {
        // "<id> <parent> <dev> <root> <mount point> <options> [tags] - <type> <source> <super>"
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let mut fields = left.split(' ');
        let (point, options) = (fields.nth(4), fields.next());
        let mut kind = right.split(' ');
        let (found, of) = (kind.next(), kind.nth(1).unwrap_or_default());
        if found == Some(fs_type)
            && controller.is_none_or(|wanted| of.split(',').any(|name| name == wanted))
            && let (Some(point), Some(options)) = (point, options)
            && options.split(',').any(|o| o == "rw")
        {
            return Some(PathBuf::from(point.replace("\\040", " ")));
        }
    }
    None
}

/// Returns the directories of the groups listed in `/proc/PID/cgroup`, by the mount table.
fn groups_in(said: &str, table: &str) -> Vec<PathBuf> {
    let group = |line: &str| {
        // "<id>:<controllers>:<path>"; cgroup2's has no controllers.
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let root = match controllers {
            "" => find_mount(table, "cgroup2", None),
            // Controllers that share a hierarchy are listed together; a hierarchy without controllers is called
            // `name=NAME`.
            of => find_mount(table, "cgroup", of.split(',').next()),
        };
        Some(root?.join(path.strip_prefix('/')?))
    };
    said.lines().filter_map(group).collect()
}

/// A lab's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabCgroup {
    path: PathBuf,
}

impl LabCgroup {
    /// Creates the lab's cgroup. `None` on hosts without a usable cgroup2: then processes are found by the mark in
    /// their environment only.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it exists: it is left over from a lab that was not cleaned up.
    pub fn create(lab: &LabName) -> Result<Option<LabCgroup>> {
        mount_point()?.map_or(Ok(None), |root| Self::create_in(&root, lab))
    }

    /// Creates the lab's group for processor time. All members together weigh as much as one other group (or session,
    /// under the scheduler's autogroups) of the host, so that thousands of processes cannot starve the few that move
    /// the lab's frames. `None` if cgroup v1 does not have the `cpu` controller: with cgroup v2's,
    /// [`LabCgroup::create`]'s group has that role, see [`LabCgroup::has_weight`].
    ///
    /// # Errors
    /// [`Error::Conflict`] when it exists, as for [`LabCgroup::create`].
    pub fn create_cpu(lab: &LabName) -> Result<Option<LabCgroup>> {
        Self::create_v1("cpu", lab)
    }

    /// Creates the lab's group in the hierarchy of one of cgroup v1's controllers, which may contain other controllers
    /// too.
    fn create_v1(controller: &str, lab: &LabName) -> Result<Option<LabCgroup>> {
        v1_mount_point(controller)?.map_or(Ok(None), |root| Self::create_in(&root, lab))
    }

    /// Creates the lab's group in every hierarchy of cgroup v1 in which it has none. A program that can mount such a
    /// hierarchy then sees and creates only groups below its own, which are removed with the lab.
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel refuses a group, or the mount table cannot be read.
    pub fn create_others(lab: &LabName) -> Result<Vec<LabCgroup>> {
        let unified = mount_point()?;
        let mut made = Vec::new();
        for root in roots()? {
            let there = root.join(format!("{PREFIX}{lab}")).exists();
            if there || unified.as_ref() == Some(&root) {
                continue;
            }
            if let Some(group) = Self::create_in(&root, lab)? {
                group.take_processors(&root)?;
                made.push(group);
            }
        }
        Ok(made)
    }

    /// Gives the group all processors and memory nodes: a group of the controller `cpuset` accepts no process before
    /// these are set.
    fn take_processors(&self, root: &Path) -> Result<()> {
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (from, to) = (root.join(file), self.path.join(file));
            if !to.exists() {
                continue;
            }
            let all = fs::read_to_string(&from).context(|| format!("read {}", from.display()))?;
            crate::sysctl::write_file(&to, all.trim())
                .context(|| format!("write {}", to.display()))?;
        }
        Ok(())
    }

    fn create_in(root: &Path, lab: &LabName) -> Result<Option<LabCgroup>> {
        let path = root.join(format!("{PREFIX}{lab}"));
        match fs::create_dir(&path) {
            Ok(()) => mark(path).map(Some),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(Error::Conflict(format!(
                "cgroup {} exists already: left over from a lab that was killed (constel clean)",
                path.display()
            ))),
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::EROFS | libc::EACCES | libc::EPERM)
                ) =>
            {
                Ok(None)
            }
            Err(e) => Err(Error::os(format!("make cgroup {}", path.display()), e)),
        }
    }

    /// Returns the lab's cgroup, if it exists.
    ///
    /// # Errors
    /// [`Error::Os`] when the mount table cannot be read.
    pub fn open(lab: &LabName) -> Result<Option<LabCgroup>> {
        let path = mount_point()?.map(|root| root.join(format!("{PREFIX}{lab}")));
        Ok(path.filter(|p| p.is_dir()).map(|path| LabCgroup { path }))
    }

    /// Returns the lab's cgroups in all hierarchies, that of cgroup2 first.
    ///
    /// # Errors
    /// [`Error::Os`] when the mount table cannot be read.
    pub fn open_all(lab: &LabName) -> Result<Vec<LabCgroup>> {
        let roots = roots()?.into_iter();
        let paths = roots.map(|root| root.join(format!("{PREFIX}{lab}")));
        Ok(paths
            .filter(|path| path.is_dir())
            .map(|path| LabCgroup { path })
            .collect())
    }

    /// Returns all labs' cgroups on this host, by lab name.
    ///
    /// # Errors
    /// [`Error::Os`] when the mount table or a hierarchy cannot be read.
    pub fn all() -> Result<Vec<(LabName, LabCgroup)>> {
        let mut out = Vec::new();
        for root in roots()? {
            let what = || format!("list {}", root.display());
            for entry in fs::read_dir(&root).context(what)? {
                let path = entry.context(what)?.path();
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                if let Some(lab) = name
                    .strip_prefix(PREFIX)
                    .and_then(|l| l.parse::<LabName>().ok())
                {
                    out.push((lab, LabCgroup { path }));
                }
            }
        }
        out.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(out)
    }

    /// Returns whether its members share processor time as one unit: the `cpu` controller is enabled in it.
    #[must_use]
    pub fn has_weight(&self) -> bool {
        let has = |file| self.path.join(file).exists();
        has("cpu.weight") || has("cpu.shares")
    }

    /// Returns the process that created it, alive or dead; `None` if it does not carry our mark.
    ///
    /// # Errors
    /// [`Error::Os`] when the mark, or this boot's identity, cannot be read.
    pub fn owner(&self) -> Result<Option<ProcessIdent>> {
        let mut buf = [0u8; 64];
        match rustix::fs::getxattr(&self.path, OWNER_ATTRIBUTE, &mut buf) {
            Ok(n) => ProcessIdent::from_mark(&String::from_utf8_lossy(&buf[..n])),
            Err(rustix::io::Errno::NODATA | rustix::io::Errno::NOENT) => Ok(None),
            Err(e) => Err(Error::os(
                format!("read the mark of {}", self.path.display()),
                e.into(),
            )),
        }
    }

    /// Returns the time since its creation in which any process in it or below waited for a processor, nanoseconds in
    /// steps of 1 us (`cpu.pressure`). `None` if the kernel does not count it.
    #[must_use]
    pub fn processor_wait_ns(&self) -> Option<u64> {
        processor_wait_ns(&self.path.join("cpu.pressure"))
    }

    /// Returns its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the group at a path that was passed by the process that created it.
    pub fn at(path: PathBuf) -> LabCgroup {
        LabCgroup { path }
    }

    /// Returns the groups that a process is in, in the hierarchies in which labs have groups. They may have been
    /// created by other software.
    ///
    /// # Errors
    /// [`Error::Os`] when there is no such process, or the mount table cannot be read.
    pub fn of_process(pid: u32) -> Result<Vec<LabCgroup>> {
        let path = format!("/proc/{pid}/cgroup");
        let said = fs::read_to_string(&path).context(|| format!("read {path}"))?;
        let groups = groups_in(&said, &mount_table()?);
        Ok(groups.into_iter().map(LabCgroup::at).collect())
    }

    /// Creates a subgroup, for one node's limits. Killing and removing the lab's group includes it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that is not a valid folder name, [`Error::Os`] when the kernel refuses.
    pub fn subgroup(&self, name: &str) -> Result<LabCgroup> {
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            return Err(Error::Invalid(format!(
                "a cgroup cannot be called '{name}'"
            )));
        }
        let path = self.path.join(name);
        fs::create_dir(&path).context(|| format!("make cgroup {}", path.display()))?;
        Ok(LabCgroup { path })
    }

    /// Returns the file to which a process with one thread writes "0" to move itself into the group.
    pub(crate) fn procs(&self) -> PathBuf {
        // In cgroup v1 a thread can be moved too. Linux does that without stopping all forks and exits of the host for
        // a grace period (tens of milliseconds).
        let tasks = self.path.join("tasks");
        if tasks.exists() {
            tasks
        } else {
            self.path.join("cgroup.procs")
        }
    }

    /// Returns the processes in the group and its subgroups. A removed group has none.
    ///
    /// # Errors
    /// [`Error::Os`] when an existing group does not list its members.
    pub fn pids(&self) -> Result<Vec<u32>> {
        let mut out = Vec::new();
        tree::visit(&self.path, |group| {
            let listed = match group.read("cgroup.procs") {
                // A threaded group lists its threads only. Each names its process where a signal is sent.
                Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    group.read("cgroup.threads")
                }
                listed => listed,
            };
            match listed {
                Ok(text) => out.extend(text.lines().filter_map(|l| l.parse::<u32>().ok())),
                Err(e) if is_absent(&e) => {}
                Err(e) => {
                    let what = format!("list the processes below {}", self.path.display());
                    return Err(Error::os(what, e));
                }
            }
            Ok(())
        })?;
        // "0" stands for a process outside our process namespace.
        out.retain(|p| *p != 0);
        out.sort_unstable();
        out.dedup();
        Ok(out)
    }

    /// Thaws all processes of the group and its subgroups: a frozen process of cgroup v1 does not die.
    ///
    /// # Errors
    /// [`Error::Os`] when an existing group cannot be listed or thawed.
    pub fn thaw(&self) -> Result<()> {
        tree::visit(&self.path, |group| {
            for (file, text) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
                match group.write(file, text) {
                    Ok(()) => {}
                    // The hierarchy has no such file, or the group was removed.
                    Err(e) if is_absent(&e) => {}
                    Err(e) => {
                        let what = format!("thaw the groups below {}", self.path.display());
                        return Err(Error::os(what, e));
                    }
                }
            }
            Ok(())
        })
    }

    /// Kills (SIGKILL) all processes of the group and waits until it is empty. Returns how many processes there were at
    /// first.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the caller itself is in the group, or when some still live after
    /// `timeout`.
    pub fn kill_all(&self, timeout: Duration) -> Result<usize> {
        let pids = self.pids()?;
        if pids.contains(&std::process::id()) {
            return Err(Error::Conflict(format!(
                "this process is in {} itself and cannot empty it",
                self.path.display()
            )));
        }
        let end = Instant::now() + timeout;
        let by_kernel = crate::sysctl::write_file(&self.path.join("cgroup.kill"), "1").is_ok();
        let mut thawed: Option<Instant> = None;
        loop {
            let left = self.pids()?;
            if left.is_empty() && !self.is_populated()? {
                return Ok(pids.len());
            }
            if Instant::now() >= end {
                return Err(Error::Conflict(format!(
                    "processes {left:?} in {} do not die",
                    self.path.display()
                )));
            }
            if !by_kernel {
                // Kernels before 5.14 have no `cgroup.kill`. Repeat it, because processes may fork between listing and
                // killing.
                for pid in left {
                    let _ = kill_process(Pid::from_raw(pid as i32).expect("not 0"), Signal::KILL);
                }
            }
            // After they were killed: nothing that goes on freezes them again.
            if thawed.is_none_or(|last| last.elapsed() > THAW_EVERY) {
                self.thaw()?;
                thawed = Some(Instant::now());
            }
            self.wait_event(Duration::from_millis(50).min(end - Instant::now()))?;
        }
    }

    /// Removes the group and its subgroups, which must be empty; `false` if it did not exist.
    ///
    /// # Errors
    /// [`Error::Os`] when a group still has members after `timeout`.
    pub fn remove(&self, timeout: Duration) -> Result<bool> {
        if !self.path.exists() {
            return Ok(false);
        }
        let end = Instant::now() + timeout;
        tree::visit(&self.path, |group| {
            loop {
                match group.remove() {
                    Ok(()) => return Ok(()),
                    Err(e) if is_absent(&e) => return Ok(()),
                    // The last process has been killed but not reaped yet.
                    Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                        self.wait_event(Duration::from_millis(10))?;
                    }
                    Err(e) => {
                        let what = format!("remove cgroup {}", self.path.display());
                        return Err(Error::os(what, e));
                    }
                }
            }
        })?;
        Ok(true)
    }

    fn is_populated(&self) -> Result<bool> {
        match fs::read_to_string(self.path.join("cgroup.events")) {
            Ok(t) => Ok(t.lines().any(|l| l == "populated 1")),
            Err(e) if is_absent(&e) => Ok(false),
            Err(e) => Err(Error::os(
                format!("read {}/cgroup.events", self.path.display()),
                e,
            )),
        }
    }

    /// Waits for a change of `cgroup.events`, at most `timeout`.
    fn wait_event(&self, timeout: Duration) -> Result<()> {
        let Ok(f) = File::open(self.path.join("cgroup.events")) else {
            // Removed, or of cgroup v1, which has no events.
            std::thread::sleep(Duration::from_millis(1).min(timeout));
            return Ok(());
        };
        // Reading the file arms the notification.
        let mut text = String::new();
        let _ = io::Read::read_to_string(&mut &f, &mut text);
        if !text.lines().any(|l| l == "populated 1") {
            // The processes only have to be reaped, for which there is no event.
            std::thread::sleep(Duration::from_millis(1).min(timeout));
            return Ok(());
        }
        let t = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos() as _,
        };
        match poll(
            &mut [PollFd::from_borrowed_fd(f.as_fd(), PollFlags::PRI)],
            Some(&t),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(Error::os("wait for a cgroup", e.into())),
        }
    }
}

/// Puts our mark on a new group, or removes the group again: without a mark it would never be cleaned up.
fn mark(path: PathBuf) -> Result<LabCgroup> {
    let owner = ProcessIdent::current()?.mark();
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(e) = rustix::fs::setxattr(&path, OWNER_ATTRIBUTE, owner.as_bytes(), flags) {
        let _ = fs::remove_dir(&path);
        return Err(Error::os(
            format!("mark cgroup {}", path.display()),
            e.into(),
        ));
    }
    Ok(LabCgroup { path })
}

/// Returns the time since boot in which any process of this host waited for a processor, nanoseconds in steps of 1 us.
/// `None` if the kernel does not count it.
#[must_use]
pub fn host_processor_wait_ns() -> Option<u64> {
    processor_wait_ns(Path::new("/proc/pressure/cpu"))
}

/// Parses the "some" line of a file with pressure stall information.
fn processor_wait_ns(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total_us: u64 = some.rsplit_once("total=")?.1.parse().ok()?;
    Some(total_us * 1000)
}

/// Whether the group vanished: ENOENT, or ENODEV when its files were open or being opened.
fn is_absent(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As on a hybrid host, with a group of v1 that may only be read.
    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/pids ro,relatime - cgroup cgroup rw,pids
35 31 0:32 / /sys/fs/cgroup/uni\\040fied rw,relatime - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn groups_of_a_process_are_where_their_hierarchies_are_mounted() {
        let table = "25 20 0:22 / /sys/fs/cgroup/memory rw,relatime shared:1 - cgroup cgroup rw,memory\n\
            26 20 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
            27 20 0:24 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
            28 20 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let said = "9:memory:/docker/ab\n8:cpu,cpuacct:/docker/ab\n7:freezer:/docker/ab\n6:pids:/docker/ab\n0::/\n";
        let groups = groups_in(said, table);
        let expected = [
            "memory/docker/ab",
            "cpu/docker/ab",
            "freezer/docker/ab",
            "unified/",
        ];
        let expected = expected.map(|path| Path::new("/sys/fs/cgroup").join(path));
        assert_eq!(groups, expected);
    }

    #[test]
    fn hierarchies_are_found_in_the_mount_table() {
        let found = |kind, controller| find_mount(HYBRID, kind, controller);
        let at = |path: &str| Some(PathBuf::from(path));
        assert_eq!(found("cgroup2", None), at("/sys/fs/cgroup/uni fied"));
        assert_eq!(
            found("cgroup", Some("cpu")),
            at("/sys/fs/cgroup/cpu,cpuacct")
        );
        assert_eq!(found("cgroup", Some("pids")), None);
        assert_eq!(found("cgroup", Some("memory")), None);
        let again = "36 31 0:30 / /mnt/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
        let roots = roots_in(&format!("{HYBRID}{again}"));
        let expected = ["uni fied", "cpuset", "cpu,cpuacct"];
        assert_eq!(
            roots,
            expected.map(|root| Path::new("/sys/fs/cgroup").join(root))
        );
    }
}
