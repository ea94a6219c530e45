//! The lab's mount namespace, from which those of its nodes are copied.
//!
//! Every step is done by a thread that exists only for it: to be in another mount namespace, a thread must have its own
//! root and working directory, and Rust's other threads share theirs.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    MountAttrFlags, MountFlags, MountPropagationFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_bind, mount_change, mount_remount, open_tree,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::error::{Context, Result};
use crate::threads::result_of;

/// Host-wide parts of the lab's `/proc`, which are read-only.
const HOSTS_OWN: [&str; 5] = [
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
];

/// The exception, which belongs to each network namespace.
const NODES_OWN: &str = "/proc/sys/net";

/// Runs `work` on a thread with its own root and working directory. It gets the host's `/proc`, which stays valid in
/// every namespace.
pub(super) fn aside<T: Send>(work: impl FnOnce(BorrowedFd<'_>) -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("mounts".into())
            .spawn_scoped(scope, || {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let proc = rustix::fs::openat(CWD, "/proc", flags, Mode::empty())
                    .context(|| "open /proc".to_owned())?;
                unshare(UnshareFlags::FS)?;
                work(proc.as_fd())
            })
            .context(|| "start a thread".to_owned())?;
        result_of(thread)
    })
}

fn unshare(what: UnshareFlags) -> Result<()> {
    // SAFETY: neither flag concerns memory or descriptors. Root, working directory and mounts belong to the calling
    // thread alone from here on, and it exists only for this.
    unsafe { unshare_unsafe(what) }.context(|| format!("leave what threads share ({what:?})"))
}

/// Continues in a copy of the calling thread's mount namespace.
pub(super) fn copy() -> Result<()> {
    unshare(UnshareFlags::NEWNS)
}

/// Continues in another mount namespace.
pub(super) fn enter(mounts: BorrowedFd<'_>) -> Result<()> {
    move_into_link_name_space(mounts, Some(LinkNameSpaceType::Mount))
        .context(|| "enter a mount namespace".to_owned())
}

/// Returns the mount namespace of the calling thread, by the host's `/proc`: this thread does not exist in the lab's.
pub(super) fn current(proc: BorrowedFd<'_>) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(proc, "thread-self/ns/mnt", flags, Mode::empty())
        .context(|| "open a mount namespace".to_owned())
}

/// Returns a copy of the host's mounts without propagation in either direction, with an empty `/run` for all nodes'
/// folders. Its `/proc` is still the host's.
pub(super) fn template() -> Result<OwnedFd> {
    aside(|proc| {
        copy()?;
        mount_change(
            "/",
            MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
        )
        .context(|| "make mounts private".to_owned())?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("constel", "/run", "tmpfs", flags, Some(c"mode=755"))
            .context(|| "mount a tmpfs on /run".to_owned())?;
        current(proc)
    })
}

/// A file system in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Maximum size of its files, bytes.
    pub bytes: u64,
    /// Maximum number of files and folders; `None`: the kernel's default, half as many as the machine has pages.
    pub files: Option<u64>,
    /// Whether programs in it may be executed.
    pub programs: bool,
}

/// Mounts a tmpfs on a folder of the host, without devices and `setuid`. In a lab's runtime folder it is removed with
/// that.
///
/// # Errors
/// When the kernel refuses.
pub fn mount_memory(folder: &Path, memory: Memory) -> Result<()> {
    let what = || format!("mount a tmpfs on {}", folder.display());
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if !memory.programs {
        flags |= MountFlags::NOEXEC;
    }
    let mut options = format!("mode=755,size={}", memory.bytes);
    if let Some(files) = memory.files {
        options.push_str(&format!(",nr_inodes={files}"));
    }
    let options = std::ffi::CString::new(options);
    let options = options.map_err(std::io::Error::other).context(what)?;
    mount("constel", folder, "tmpfs", flags, Some(options.as_c_str())).context(what)
}

/// Unmounts everything below a folder of the host, the innermost first; programs that use it may continue.
///
/// # Errors
/// When the kernel refuses, or the mount table cannot be read.
pub(crate) fn unmount_below(folder: &Path) -> Result<()> {
    let listed = std::fs::read_to_string("/proc/self/mountinfo");
    let listed = listed.context(|| "read /proc/self/mountinfo".to_owned())?;
    // In the order of mounting. Spaces in names are written as \040; labs' folders have none.
    let places = listed.lines().filter_map(|line| line.split(' ').nth(4));
    let below: Vec<&Path> = places
        .map(Path::new)
        .filter(|place| place.starts_with(folder) && *place != folder)
        .collect();
    for place in below.into_iter().rev() {
        rustix::mount::unmount(place, UnmountFlags::DETACH)
            .context(|| format!("unmount {}", place.display()))?;
    }
    Ok(())
}

/// Makes the host's parts of the lab's `/proc` read-only, once its init has mounted it.
pub(super) fn protect(template: BorrowedFd<'_>) -> Result<()> {
    aside(|_| {
        enter(template)?;
        for path in HOSTS_OWN
            .into_iter()
            .filter(|path| Path::new(path).exists())
        {
            bind(path, path)?;
            read_only(path)?;
        }
        bind(NODES_OWN, NODES_OWN)?;
        let writable =
            MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount_remount(NODES_OWN, writable, "").context(|| format!("make {NODES_OWN} writable"))
    })
}

/// Returns a copy of the mounts at and below a path that is not mounted anywhere.
pub(super) fn tree(source: &Path) -> Result<OwnedFd> {
    tree_at(source).context(|| format!("show {}", source.display()))
}

/// Does the same as [`tree`], with the kernel's own error.
pub(super) fn tree_at(source: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, source, flags)
}

/// Makes `source` visible at `target` too.
pub(super) fn bind(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<()> {
    let (source, target) = (source.as_ref(), target.as_ref());
    mount_bind(source, target)
        .context(|| format!("mount {} on {}", source.display(), target.display()))
}

/// Makes the mounts at and below `target` read-only.
pub(super) fn read_only(target: impl AsRef<Path>) -> Result<()> {
    let target = target.as_ref();
    let what = || format!("make {} read-only", target.display());
    let path = std::ffi::CString::new(target.as_os_str().as_encoded_bytes());
    let path = path.map_err(std::io::Error::other).context(what)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    match set_attributes(libc::AT_FDCWD, &path, libc::AT_RECURSIVE, attributes) {
        // Before Linux 5.12 only the topmost mount can be changed.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            let flags =
                MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
            mount_remount(target, flags, "").context(what)
        }
        done => done.context(what),
    }
}

/// Returns a mount of an open file that is not visible anywhere and does not permit writing. It lives as long as the
/// descriptor or a file that was opened through it.
///
/// # Errors
/// The kernel's error: `EINVAL` for a file of another mount namespace, `EPERM` without the right to mount, `ENOSYS`
/// before Linux 5.12.
pub(crate) fn read_only_clone(file: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    // rustix's `open_tree` does not have AT_EMPTY_PATH; the path of the descriptor has the same effect.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let clone = open_tree(CWD, path, flags)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    set_attributes(clone.as_raw_fd(), c"", libc::AT_EMPTY_PATH, attributes)?;
    Ok(clone)
}

/// The kernel's `struct mount_attr`.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Sets attributes of the mount at a path.
fn set_attributes(
    folder: i32,
    path: &std::ffi::CStr,
    flags: i32,
    set: MountAttrFlags,
) -> std::io::Result<()> {
    let attributes = Attributes {
        set: set.bits().into(),
        clear: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path and the attributes outlive the call, and their size is the one that is given.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            folder,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    match done {
        0.. => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
