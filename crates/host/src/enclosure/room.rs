//! Root file systems of containers: the image's files under the container's own changes, and no files of the host
//! except those shown.
//!
//! A room is a mount namespace whose root is an overlay: the image's layers, which many rooms share, and a folder for
//! the room's own state. It lives as long as its [`View`] or a program in it. It leaves nothing on the host's disk
//! unless its state is placed there.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount, mount_remount, move_mount,
    unmount,
};

use super::Enclosure;
use super::mounts::{self, tree};
use super::view::{Shown, View, show};
use crate::error::{Context, Error, Result};
use crate::netns::NetNs;

/// Longest text that the kernel accepts as a single mount option.
const OPTION_BYTES: usize = 255;

/// Parts of a room.
#[derive(Debug, Clone, Copy)]
pub struct Room<'a> {
    /// The node's name; its state has a folder of that name.
    pub name: &'a str,
    /// The image's layers, the highest first.
    pub layers: &'a [PathBuf],
    /// Place of the files that its programs write: an empty folder of a file system that overlayfs can write to;
    /// `None`: in memory.
    pub state: Option<&'a Path>,
    /// Maximum size of its files in memory, bytes; `None`: the lab's limit.
    pub files_bytes: Option<u64>,
    /// Files and folders of the host, each at a place that is created if needed. If two have the same place, the later
    /// one counts.
    pub shown: &'a [Shown],
    /// Folders that must exist, created if needed: working directories of programs.
    pub folders: &'a [PathBuf],
}

/// Devices of every room.
const DEVICES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

/// Links that programs expect next to the devices.
const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];

/// Folders in memory of each room: name of the folder, place, and mode.
const OWN: [(&str, &str, u32); 4] = [
    ("dev", "/dev", 0o755),
    ("shm", "/dev/shm", 0o1777),
    ("tmp", "/tmp", 0o1777),
    ("run", "/run", 0o755),
];

/// Place of a room's root before it becomes the root.
const BEFORE: &str = "/room";

impl Enclosure {
    /// Makes a room for the node of that name, whose interfaces are in `netns`.
    ///
    /// # Errors
    /// [`Error::Os`] with the object that does not exist or cannot be mounted; nothing remains then.
    pub fn room(&self, netns: &NetNs, room: &Room<'_>) -> Result<View> {
        let (template, bare) = (self.template.as_fd(), self.bare()?);
        let mounts = mounts::aside(|proc| {
            // Copied in the host's mount namespace, where the sources are visible.
            let trees = room.shown.iter().map(|shown| tree(&shown.source));
            let trees = trees.collect::<Result<Vec<_>>>()?;
            mounts::enter(template)?;
            if let Some(bytes) = room.files_bytes {
                // In a copy that ends with this thread: mounts made in it survive only in the room that uses them.
                mounts::copy()?;
                own_memory(room.name, bytes)?;
            }
            let root = root(room)?;
            let own = own_folders(room.name)?;
            mounts::enter(bare)?;
            mounts::copy()?;
            become_root(root.as_fd())?;
            furnish(netns, &own)?;
            for folder in room.folders {
                make_folder(folder)?;
            }
            for (shown, tree) in room.shown.iter().zip(&trees) {
                make_way(&shown.target)?;
                show(shown, &shown.target, tree.as_fd(), true)?;
            }
            mounts::current(proc)
        })?;
        Ok(View::new(mounts, Arc::clone(&self.pids)))
    }

    /// Returns a mount namespace that contains only a place for a root; created when first needed. Copies of it are
    /// cheap, while the host has dozens of mounts.
    fn bare(&self) -> Result<BorrowedFd<'_>> {
        if let Some(bare) = self.bare.get() {
            return Ok(bare.as_fd());
        }
        let template = self.template.as_fd();
        let made = mounts::aside(|proc| {
            mounts::enter(template)?;
            mounts::copy()?;
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            // On a tmpfs, so that it hides no files that are needed here.
            mount("constel", "/run", "tmpfs", flags, Some(c"mode=755"))
                .context(|| "mount a tmpfs".to_owned())?;
            let place = Path::new("/run").join(&BEFORE[1..]);
            std::fs::create_dir(&place).context(|| format!("make {}", place.display()))?;
            exchange_root("/run")?;
            mounts::current(proc)
        })?;
        Ok(self.bare.get_or_init(|| made).as_fd())
    }
}

/// Creates the overlay of a room, not mounted anywhere. Must be called where the layers and the lab's memory are
/// visible.
fn root(room: &Room<'_>) -> Result<OwnedFd> {
    let base = base(room.name);
    let state = room.state.unwrap_or(&base);
    let (upper, work) = (state.join("files"), state.join("work"));
    for folder in [&upper, &work] {
        std::fs::create_dir_all(folder).context(|| format!("make {}", folder.display()))?;
    }
    let none = base.join("none");
    let mut layers: Vec<&Path> = room.layers.iter().map(PathBuf::as_path).collect();
    match layers.first() {
        // The root folder has the attributes of the highest layer's.
        Some(highest) => like(&upper, highest)?,
        None => {
            std::fs::create_dir_all(&none).context(|| format!("make {}", none.display()))?;
            layers.push(&none);
        }
    }
    let what = || {
        format!(
            "stack {} layers of an image for {}",
            layers.len(),
            room.name
        )
    };
    let overlay = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).context(what)?;
    let mut options: Vec<(&str, &Path)> =
        layers.iter().map(|layer| ("lowerdir+", *layer)).collect();
    options.extend([("upperdir", upper.as_path()), ("workdir", work.as_path())]);
    for (option, path) in options {
        if path.as_os_str().len() > OPTION_BYTES {
            let path = path.display();
            let reason = "its path is longer than the kernel takes (255 bytes)";
            return Err(Error::Invalid(format!(
                "{path} cannot be mounted: {reason}"
            )));
        }
        match fsconfig_set_string(&overlay, option, path) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL) if option == "lowerdir+" => {
                return in_one_option(&base, &layers, &upper, &work)
                    .map_err(|error| Error::os(what(), error.into()));
            }
            Err(error) => return Err(error).context(what),
        }
    }
    fsconfig_create(&overlay).context(what)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&overlay, FsMountFlags::FSMOUNT_CLOEXEC, attributes).context(what)
}

/// Does the same on kernels before Linux 6.8, which take all layers as one text of at most a page.
fn in_one_option(
    base: &Path,
    layers: &[&Path],
    upper: &Path,
    work: &Path,
) -> rustix::io::Result<OwnedFd> {
    let escaped = |path: &Path| {
        let text = path.as_os_str().as_encoded_bytes().iter();
        text.flat_map(|byte| match byte {
            b'\\' | b':' | b',' => vec![b'\\', *byte],
            _ => vec![*byte],
        })
        .collect::<Vec<u8>>()
    };
    let layers: Vec<Vec<u8>> = layers.iter().map(|layer| escaped(layer)).collect();
    let mut options = b"lowerdir=".to_vec();
    options.extend(layers.join(&b':'));
    options.extend([b",upperdir=".to_vec(), escaped(upper)].concat());
    options.extend([b",workdir=".to_vec(), escaped(work)].concat());
    let options = CString::new(options).map_err(|_| rustix::io::Errno::INVAL)?;
    let at = base.join("root");
    match std::fs::create_dir(&at) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO));
        }
        _ => {}
    }
    mount(
        "constel",
        &at,
        "overlay",
        MountFlags::NODEV,
        Some(options.as_c_str()),
    )?;
    let tree = mounts::tree_at(&at);
    // The overlay stays mounted in the tree.
    unmount(&at, UnmountFlags::DETACH)?;
    tree
}

/// Returns the folder of a room's own files in the lab's memory; no node has such a name.
fn base(name: &str) -> PathBuf {
    Path::new("/run").join(format!("{name}.room"))
}

/// Gives a room its own memory for files: a room that fills it does not affect others.
fn own_memory(name: &str, bytes: u64) -> Result<()> {
    let base = base(name);
    let what = || format!("mount a tmpfs of {bytes} bytes for {name}");
    std::fs::create_dir_all(&base).context(what)?;
    let options = CString::new(format!("mode=755,size={bytes}"));
    let options = options
        .map_err(|_| rustix::io::Errno::INVAL)
        .context(what)?;
    let flags = MountFlags::NOSUID;
    mount("constel", &base, "tmpfs", flags, Some(options.as_c_str())).context(what)
}

/// Gives a folder the owner, group and mode of another one.
fn like(folder: &Path, other: &Path) -> Result<()> {
    let what = || format!("make {} as {}", folder.display(), other.display());
    let as_it = std::fs::metadata(other).context(what)?;
    chown(folder, Some(as_it.uid()), Some(as_it.gid())).context(what)?;
    std::fs::set_permissions(folder, as_it.permissions()).context(what)
}

/// Returns the room's own folders as mount trees, in the order in which they are mounted.
fn own_folders(name: &str) -> Result<Vec<OwnedFd>> {
    let base = base(name);
    let own = |(folder, _, mode): &(&str, &str, u32)| {
        let path = base.join(folder);
        let what = || format!("make {}", path.display());
        std::fs::create_dir_all(&path).context(what)?;
        let mode = std::fs::Permissions::from_mode(*mode);
        std::fs::set_permissions(&path, mode).context(what)?;
        if *folder == "dev" {
            make_devices(&path).context(what)?;
        }
        tree(&path)
    };
    OWN.iter().map(own).collect()
}

fn make_devices(folder: &Path) -> std::io::Result<()> {
    for (name, major, minor) in DEVICES {
        let (path, mode) = (folder.join(name), Mode::from_raw_mode(0o666));
        mknodat(
            CWD,
            &path,
            FileType::CharacterDevice,
            mode,
            makedev(major, minor),
        )?;
        // Restores the bits that the umask of the calling process removed.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
    }
    for (to, name) in LINKS {
        std::os::unix::fs::symlink(to, folder.join(name))?;
    }
    for (name, mode) in [("pts", 0o755), ("shm", 0o1777), ("mqueue", 0o1777)] {
        let path = folder.join(name);
        std::fs::create_dir(&path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Makes the overlay the root of the calling thread's mount namespace, and removes all other mounts from it.
fn become_root(root: BorrowedFd<'_>) -> Result<()> {
    move_mount(
        root,
        "",
        CWD,
        BEFORE,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .context(|| "mount the root".to_owned())?;
    exchange_root(BEFORE)
}

fn exchange_root(to: &str) -> Result<()> {
    let what = || format!("make {to} the root");
    rustix::process::chdir(to).context(what)?;
    // Both roots are stacked at the same place: the old one is on top and is unmounted.
    rustix::process::pivot_root(".", ".").context(what)?;
    unmount(".", UnmountFlags::DETACH).context(what)?;
    rustix::process::chdir("/").context(what)
}

/// Mounts the folders of every room where programs expect them.
fn furnish(netns: &NetNs, own: &[OwnedFd]) -> Result<()> {
    for ((_, at, _), tree) in OWN.iter().zip(own) {
        let at = Path::new(at);
        make_folder(at)?;
        let what = || format!("mount on {}", at.display());
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(tree, "", CWD, at, flags).context(what)?;
        let flags = match at.starts_with("/dev") {
            // Device files must be usable.
            true => MountFlags::NOSUID | MountFlags::NOEXEC,
            false => MountFlags::NOSUID | MountFlags::NODEV,
        };
        mount_remount(at, MountFlags::BIND | flags, "").context(what)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=0620,gid=5";
    mount("devpts", "/dev/pts", "devpts", flags, Some(options))
        .context(|| "mount devpts on /dev/pts".to_owned())?;
    make_folder(Path::new("/proc"))?;
    make_folder(Path::new("/sys"))?;
    netns.enter_for_good()?;
    // A new sysfs mount shows the interfaces of its mounter's network namespace.
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("sysfs", "/sys", "sysfs", flags, None).context(|| "mount sysfs on /sys".to_owned())
}

fn make_folder(path: &Path) -> Result<()> {
    // A link of the image may dangle: replace it.
    make_way(path)?;
    std::fs::create_dir_all(path).context(|| format!("make {}", path.display()))
}

/// Removes a link of the image that dangles: nothing could be mounted on it.
fn make_way(path: &Path) -> Result<()> {
    let dangles = path.is_symlink() && !path.exists();
    if dangles {
        std::fs::remove_file(path).context(|| format!("remove the link {}", path.display()))?;
    }
    Ok(())
}

fn ended() -> Error {
    Error::Conflict("the node's program has ended, and its container with it".to_owned())
}

/// A container as seen by processes that enter it: its file system, and its first process, with which it ends.
#[derive(Debug)]
pub struct Inside {
    view: View,
    first: OwnedFd,
}

impl Inside {
    /// Returns the container whose first process this is, in its room.
    ///
    /// # Errors
    /// [`Error::Os`] when it has ended and was reaped.
    pub fn of(room: &View, first: &crate::process::Child) -> Result<Inside> {
        let pids = super::open_namespace(&format!("/proc/{}/ns/pid", first.pid()))?;
        let what = || "enter a container".to_owned();
        Ok(Inside {
            view: room.with_pids(pids),
            first: first.pidfd().try_clone_to_owned().context(what)?,
        })
    }

    /// Opens a container held by another process, by the paths that [`View::paths`] returned, and the number of the
    /// first process.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the container has ended.
    pub fn open(mounts: &Path, pids: &Path, first: u32) -> Result<Inside> {
        let view = View::open(mounts, pids)?;
        let number = i32::try_from(first)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let number = number.ok_or_else(ended)?;
        let flags = rustix::process::PidfdFlags::empty();
        let first_process = rustix::process::pidfd_open(number, flags).map_err(|_| ended())?;
        // The number may belong to another process by now. The namespace is held open, so its inode number cannot be
        // reused.
        let identity = |file: std::io::Result<std::fs::Metadata>| file.map(|file| file.ino());
        let own = rustix::fs::fstat(view.pids()).context(|| "look at a namespace".to_owned())?;
        let its = identity(std::fs::metadata(format!("/proc/{first}/ns/pid")));
        if its.ok() != Some(own.st_ino) {
            return Err(ended());
        }
        Ok(Inside {
            view,
            first: first_process,
        })
    }

    /// Returns the number of its first process, as seen by this process.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it has ended.
    pub fn first_pid(&self) -> Result<u32> {
        // A reaped process has the number -1.
        let number = crate::process::number_of(&self.first).ok();
        number.filter(|number| *number > 0).ok_or_else(ended)
    }

    /// Returns its view of the file system.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns a descriptor of its first process.
    pub(crate) fn first(&self) -> BorrowedFd<'_> {
        self.first.as_fd()
    }
}
