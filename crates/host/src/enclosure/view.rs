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

/// Place of a node's results folder inside the node.
pub const NODE_FOLDER: &str = "/run/constel-node";

/// Hidden folders: a node has its own in place of the host's. Each entry has the name of the folder behind it, the
/// place and the mode.
const OWN: [(&str, &str, u32); 3] = [
    ("tmp", "/tmp", 0o1777),
    ("shm", "/dev/shm", 0o1777),
    ("run", "/run", 0o755),
];

/// A file or folder of the host that is visible to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// File or folder on the host; it must exist.
    pub source: PathBuf,
    /// Place in the node, absolute. It must exist with the type of `source` (a file for a file, a folder for a folder).
    /// In the node's own folders (`/tmp`, `/run`, `/dev/shm`) it is created.
    pub target: PathBuf,
    /// Whether it is read-only there.
    pub read_only: bool,
}

impl Shown {
    /// Shows a path at the same place.
    pub fn in_place(path: impl Into<PathBuf>, read_only: bool) -> Shown {
        let source = path.into();
        Shown {
            target: source.clone(),
            source,
            read_only,
        }
    }

    /// Shows a file, read-only, in place of the host's. `None` if the host has no such file: no file is created on the
    /// host to be covered.
    pub fn instead_of(target: &str, source: PathBuf) -> Option<Shown> {
        let target = PathBuf::from(target);
        target.exists().then_some(Shown {
            source,
            target,
            read_only: true,
        })
    }

    /// Returns whether it lies below the folders that each node has for itself, so that nodes see it only if it is
    /// shown.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        is_own(&self.source) && OWN.iter().all(|(_, at, _)| self.source != Path::new(at))
    }
}

/// Returns whether a path lies in the folders that each node has for itself.
#[must_use]
pub fn is_own(path: &Path) -> bool {
    OWN.iter().any(|(_, at, _)| path.starts_with(at))
}

/// One node's view of the file system. It lives as long as this value or a program in it.
#[derive(Debug)]
pub struct View {
    mounts: Arc<OwnedFd>,
    pids: Arc<OwnedFd>,
}

impl View {
    /// Creates a view of this mount namespace, whose programs start in this process namespace.
    pub(super) fn new(mounts: OwnedFd, pids: Arc<OwnedFd>) -> View {
        View {
            mounts: Arc::new(mounts),
            pids,
        }
    }

    /// Opens a view held by another process, by the paths that [`View::paths`] returned.
    ///
    /// # Errors
    /// [`Error::Os`] when that process has ended.
    pub fn open(mounts: &Path, pids: &Path) -> Result<View> {
        let open = |path: &Path| open_namespace(&path.to_string_lossy());
        Ok(View {
            mounts: Arc::new(open(mounts)?),
            pids: Arc::new(open(pids)?),
        })
    }

    /// Returns paths under which other processes can open its mount and its process namespace while this value lives.
    #[must_use]
    pub fn paths(&self) -> (PathBuf, PathBuf) {
        let path = |fd: &OwnedFd| {
            let (pid, fd) = (std::process::id(), fd.as_raw_fd());
            PathBuf::from(format!("/proc/{pid}/fd/{fd}"))
        };
        (path(self.mounts.as_ref()), path(self.pids.as_ref()))
    }

    /// Runs `work` on files as the node's programs see them: paths and links are resolved in the node. A thread of its
    /// own does it, with all rights of this process.
    ///
    /// # Errors
    /// When the view cannot be entered, and the errors of `work`.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        node_file::prepare()?;
        mounts::aside(|_| {
            mounts::enter(self.mounts())?;
            work()
        })
    }

    /// Returns the mount namespace.
    pub(crate) fn mounts(&self) -> BorrowedFd<'_> {
        self.mounts.as_ref().as_fd()
    }

    /// Returns a view of the same files, with processes started in another namespace.
    pub(super) fn with_pids(&self, pids: OwnedFd) -> View {
        View {
            mounts: Arc::clone(&self.mounts),
            pids: Arc::new(pids),
        }
    }

    /// Returns the process namespace.
    pub(crate) fn pids(&self) -> BorrowedFd<'_> {
        self.pids.as_ref().as_fd()
    }
}

impl Enclosure {
    /// Makes the view of the node of that name, whose interfaces are in `netns`. It shows the files that the enclosure
    /// shows to all nodes, and `own`, outer places before those within them. If two have the same place, the later one
    /// counts.
    ///
    /// # Errors
    /// [`Error::Os`] with the path that does not exist or cannot be mounted, [`Error::Invalid`] for one that is not
    /// absolute.
    pub fn view(&self, netns: &NetNs, name: &str, own: &[Shown]) -> Result<View> {
        let mut all: Vec<&Shown> = self.shown.iter().chain(own).collect();
        // An outer mount would hide an inner one that was mounted before it.
        all.sort_by(|a, b| a.target.cmp(&b.target));
        if let Some(odd) = all.iter().find(|shown| !shown.target.is_absolute()) {
            let target = odd.target.display();
            return Err(Error::Invalid(format!("{target} is not an absolute path")));
        }
        let template = self.template.as_fd();
        let mounts = mounts::aside(|proc| {
            // Copied in the host's namespace first: later mounts hide some of the sources.
            let trees = all.iter().map(|shown| mounts::tree(&shown.source));
            let trees = trees.collect::<Result<Vec<_>>>()?;
            mounts::enter(template)?;
            mounts::copy()?;
            own_folders(name)?;
            netns.enter_for_good()?;
            // A new sysfs mount shows the interfaces of its mounter's network namespace.
            let flags =
                MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
            mount("sysfs", "/sys", "sysfs", flags, None)
                .context(|| "mount sysfs on /sys".to_owned())?;
            for (shown, tree) in all.iter().zip(&trees) {
                // Mounted on the target of a link, it is visible under both names.
                let target = followed(&shown.target).context(|| what(shown))?;
                show(shown, &target, tree.as_fd(), is_own(&target))?;
            }
            mounts::current(proc)
        })?;
        Ok(View::new(mounts, Arc::clone(&self.pids)))
    }
}

/// Mounts the node's own folders over the lab's.
fn own_folders(name: &str) -> Result<()> {
    for (folder, at, mode) in OWN {
        let source = Path::new("/run").join(name).join(folder);
        std::fs::create_dir_all(&source).context(|| format!("make {}", source.display()))?;
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&source, mode)
            .context(|| format!("set the mode of {}", source.display()))?;
        if Path::new(at).is_dir() {
            // `/run` comes last and hides the other nodes' folders.
            mounts::bind(&source, at)?;
        }
    }
    Ok(())
}

/// Mounts such a copy at `target`, a path without links. The place is created if needed, provided that it `may` be.
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

/// Maximum number of links in a path, as in the kernel.
const MOST_LINKS: usize = 40;

/// Resolves the links of a path, even if the path does not exist yet.
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
                // It is not a link, or does not exist.
                Err(_) => at.push(&name),
            },
        }
    }
    Ok(at)
}

/// Creates the folder or file on which something is mounted.
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
