//! One node's view of the file system.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, OFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, mount, mount_change, move_mount,
};

use super::{Enclosure, mounts, open_namespace};
use crate::error::{Context, Error, Result};
use crate::netns::NetNs;
use crate::node_file;

/// Where a node's folder of the results is seen inside.
pub const NODE_FOLDER: &str = "/run/constel-node";

/// What is hidden: a node has its own in place of the host's. The names are those of the folders behind them.
const OWN: [(&str, &str, u32); 3] = [
    ("tmp", "/tmp", 0o1777),
    ("shm", "/dev/shm", 0o1777),
    ("run", "/run", 0o755),
];

/// A file or folder of the host that a node sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// What is seen; it must exist.
    pub source: PathBuf,
    /// Where, absolute. It must exist as what `source` is (a file over a file, a folder over a folder), but in a place that is
    /// the node's own (`/tmp`, `/run`, `/dev/shm`), where it is made.
    pub target: PathBuf,
    /// Whether it cannot be written there.
    pub read_only: bool,
}

impl Shown {
    /// A path that is seen where it is.
    pub fn in_place(path: impl Into<PathBuf>, read_only: bool) -> Shown {
        let source = path.into();
        Shown {
            target: source.clone(),
            source,
            read_only,
        }
    }

    /// A file that is seen, to be read, in the place of the host's own. `None` where the host has none: nothing of the host is made
    /// to be covered.
    pub fn instead_of(target: &str, source: PathBuf) -> Option<Shown> {
        let target = PathBuf::from(target);
        target.exists().then_some(Shown {
            source,
            target,
            read_only: true,
        })
    }

    /// Whether it lies below what each node has for its own, so that nodes see it only if they are shown it.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        is_own(&self.source) && OWN.iter().all(|(_, at, _)| self.source != Path::new(at))
    }
}

/// Whether a path lies in what each node has for its own.
#[must_use]
pub fn is_own(path: &Path) -> bool {
    OWN.iter().any(|(_, at, _)| path.starts_with(at))
}

/// What programs of one node see. It lives as long as this or a program in it does.
#[derive(Debug)]
pub struct View {
    mounts: Arc<OwnedFd>,
    pids: Arc<OwnedFd>,
}

impl View {
    /// Programs in this mount namespace, born into that of processes.
    pub(super) fn new(mounts: OwnedFd, pids: Arc<OwnedFd>) -> View {
        View {
            mounts: Arc::new(mounts),
            pids,
        }
    }

    /// Opens what another process holds, by the paths that [`View::paths`] gave.
    ///
    /// # Errors
    /// [`Error::Os`] when that process is gone.
    pub fn open(mounts: &Path, pids: &Path) -> Result<View> {
        let open = |path: &Path| open_namespace(&path.to_string_lossy());
        Ok(View {
            mounts: Arc::new(open(mounts)?),
            pids: Arc::new(open(pids)?),
        })
    }

    /// Paths under which other processes can open its mount and its process namespace as long as this lives.
    #[must_use]
    pub fn paths(&self) -> (PathBuf, PathBuf) {
        let path = |fd: &OwnedFd| {
            let (pid, fd) = (std::process::id(), fd.as_raw_fd());
            PathBuf::from(format!("/proc/{pid}/fd/{fd}"))
        };
        (path(self.mounts.as_ref()), path(self.pids.as_ref()))
    }

    /// Does something with files as the node's programs see them: paths lead where they lead there, links too. It is done by a
    /// thread of its own, with all rights of this process.
    ///
    /// # Errors
    /// When the view cannot be entered, and those of `work`.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        node_file::prepare()?;
        mounts::aside(|_| {
            mounts::enter(self.mounts())?;
            work()
        })
    }

    /// The mount namespace.
    pub(crate) fn mounts(&self) -> BorrowedFd<'_> {
        self.mounts.as_ref().as_fd()
    }

    /// The same files, with processes born into another namespace.
    pub(super) fn with_pids(&self, pids: OwnedFd) -> View {
        View {
            mounts: Arc::clone(&self.mounts),
            pids: Arc::new(pids),
        }
    }

    /// The process namespace.
    pub(crate) fn pids(&self) -> BorrowedFd<'_> {
        self.pids.as_ref().as_fd()
    }
}

impl Enclosure {
    /// Makes the view of the node of that name, whose interfaces are in `netns`. It sees what the enclosure shows to
    /// all and `own`, outer places before those within them: of two at one place the later one.
    ///
    /// # Errors
    /// [`Error::Os`] naming the path that is not there or cannot be mounted, [`Error::Invalid`] for one that is not
    /// absolute.
    pub fn view(&self, netns: &NetNs, name: &str, own: &[Shown]) -> Result<View> {
        let mut all: Vec<&Shown> = self.shown.iter().chain(own).collect();
        // What is outside would hide what is within it.
        all.sort_by(|a, b| a.target.cmp(&b.target));
        if let Some(odd) = all.iter().find(|shown| !shown.target.is_absolute()) {
            let target = odd.target.display();
            return Err(Error::Invalid(format!("{target} is not an absolute path")));
        }
        let template = self.template.as_fd();
        let mounts = mounts::aside(|proc| {
            // As the host has them: what is mounted next hides some.
            let trees = all.iter().map(|shown| mounts::tree(&shown.source));
            let trees = trees.collect::<Result<Vec<_>>>()?;
            mounts::enter(template)?;
            mounts::copy()?;
            own_folders(name)?;
            netns.enter_for_good()?;
            // A fresh one shows the interfaces of the namespace its mounter is in.
            let flags =
                MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
            mount("sysfs", "/sys", "sysfs", flags, None)
                .context(|| "mount sysfs on /sys".to_owned())?;
            for (shown, tree) in all.iter().zip(&trees) {
                // Mounted on what links lead to, it is seen by both names.
                let target = followed(&shown.target).context(|| what(shown))?;
                show(shown, &target, tree.as_fd(), is_own(&target))?;
            }
            mounts::current(proc)
        })?;
        Ok(View::new(mounts, Arc::clone(&self.pids)))
    }
}

/// Puts the node's own folders in the place of the lab's.
fn own_folders(name: &str) -> Result<()> {
    for (folder, at, mode) in OWN {
        let source = Path::new("/run").join(name).join(folder);
        std::fs::create_dir_all(&source).context(|| format!("make {}", source.display()))?;
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&source, mode)
            .context(|| format!("set the mode of {}", source.display()))?;
        if Path::new(at).is_dir() {
            // `/run` is the last, and hides the other nodes' folders.
            mounts::bind(&source, at)?;
        }
    }
    Ok(())
}

/// Mounts such a copy at `target`, where it is to be seen or what that leads to; the place is made if need be where that `may` be done.
pub(super) fn show(shown: &Shown, target: &Path, tree: BorrowedFd<'_>, may: bool) -> Result<()> {
    let what = || what(shown);
    if may && !target.exists() {
        make_place(target, tree).context(what)?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, "", CWD, target, flags).context(what)?;
    let alone = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change(target, alone).context(what)?;
    if shown.read_only {
        mounts::read_only(target)?;
    }
    Ok(())
}

fn what(shown: &Shown) -> String {
    let (source, target) = (shown.source.display(), shown.target.display());
    format!("show {source} as {target}")
}

/// Links that one path may lead over, as the kernel has it.
const MOST_LINKS: usize = 40;

/// Where a path leads, also where nothing is there yet.
fn followed(path: &Path) -> std::io::Result<PathBuf> {
    let mut links = 0;
    let mut ahead: Vec<_> = path.iter().rev().map(OsStr::to_owned).collect();
    let mut at = PathBuf::from("/");
    while let Some(name) = ahead.pop() {
        match name.as_bytes() {
            b"/" => at = PathBuf::from("/"),
            b"." => {}
            b".." => drop(at.pop()),
            _ => match std::fs::read_link(at.join(&name)) {
                Ok(_) if links == MOST_LINKS => return Err(rustix::io::Errno::LOOP.into()),
                Ok(link) => {
                    links += 1;
                    ahead.extend(link.iter().rev().map(OsStr::to_owned));
                }
                // It is no link, or is not there.
                Err(_) => at.push(&name),
            },
        }
    }
    Ok(at)
}

/// Makes the folder, or the file, that something is mounted on.
fn make_place(target: &Path, tree: BorrowedFd<'_>) -> std::io::Result<()> {
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode);
    if kind.is_dir() {
        return std::fs::create_dir_all(target);
    }
    if let Some(folder) = target.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(target, flags, rustix::fs::Mode::from_raw_mode(0o644))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_a_nodes_own_places_is_hidden() {
        let hidden = |path: &str| Shown::in_place(path, false).is_hidden();
        assert!(hidden("/tmp/results"));
        assert!(hidden("/run/constel/lab/nodes"));
        assert!(hidden("/dev/shm/x"));
        assert!(!hidden("/home/me/results"));
        assert!(!hidden("/tmpfoo"));
        // Shown whole it would be no node's own any more.
        assert!(!hidden("/tmp"));
    }

    #[test]
    fn links_are_followed_also_to_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, base.join(at)).unwrap();
        std::fs::create_dir(base.join("a")).unwrap();
        link("../b/c", "a/relative");
        link("/nowhere/at/./all", "absolute");
        link("a/relative", "twice");
        link("round", "round");
        let leads = |path: &str| followed(&base.join(path)).unwrap();
        assert_eq!(leads("a/none/x"), base.join("a/none/x"));
        assert_eq!(leads("a/relative/x"), base.join("b/c/x"));
        assert_eq!(leads("twice"), base.join("b/c"));
        assert_eq!(leads("absolute/x"), Path::new("/nowhere/at/all/x"));
        assert_eq!(leads("../../../../../../../.."), Path::new("/"));
        let error = followed(&base.join("round")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
    }
}
