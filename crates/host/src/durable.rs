//! Files that contain either the old or the new version, never a part of one, and locks on directories.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Context, Error, Result};

/// Writes JSON to a temporary file beside `path`, syncs it, renames it over `path` and syncs the directory: after a
/// crash at any moment, `path` contains the old or the new version.
///
/// # Errors
/// [`Error::Os`] when the file cannot be written, [`Error::Invalid`] for a path without a directory.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let what = || format!("write {}", path.display());
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|e| Error::os(what(), e.into()))?;
    bytes.push(b'\n');
    let dir = path
        .parent()
        .ok_or_else(|| Error::Invalid(format!("{path:?} has no directory")))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let tmp = dir.join(format!(".{name}.{}.tmp", std::process::id()));
    let write = || {
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        // Independent of the umask: a user who could write here could change other users' settings.
        let mut f = options.mode(0o644).open(&tmp)?;
        f.write_all(&bytes)?;
        f.sync_all()?;
        fs::rename(&tmp, path)?;
        File::open(dir)?.sync_all()
    };
    write().context(what)
}

/// Creates a directory with this mode, independent of the umask.
pub(crate) fn make_dir(dir: &Path, mode: u32) -> std::io::Result<()> {
    // The mode is never wider than requested, not even for a moment.
    fs::DirBuilder::new().mode(mode).create(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(mode))
}

/// Reads JSON; `None` if there is no such file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Ok(t) => t,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::os(format!("read {}", path.display()), e)),
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|e| Error::os(format!("read {}", path.display()), e.into()))
}

/// Removes a file; `false` if there was none.
pub(crate) fn remove(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::os(format!("remove {}", path.display()), e)),
    }
}

/// An exclusive `flock`, released when dropped or when the process dies.
#[derive(Debug)]
pub(crate) struct Lock {
    fd: OwnedFd,
}

impl Lock {
    /// Waits for the lock on the file `fd`, which is that of `path`.
    fn wait(fd: OwnedFd, path: &Path) -> Result<Lock> {
        loop {
            match rustix::fs::flock(&fd, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                r => {
                    r.context(|| format!("lock {}", path.display()))?;
                    return Ok(Lock { fd });
                }
            }
        }
    }

    /// Waits for the lock on `name` in a directory that other processes may be removing at this moment (while they hold
    /// the lock). Creates the directory as often as needed.
    pub(crate) fn wait_in(dir: &Path, name: &str) -> Result<Lock> {
        let path = dir.join(name);
        loop {
            match make_dir(dir, 0o755) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                // Created, and removed before it got its mode.
                Err(e) if e.kind() == ErrorKind::NotFound && has_parent(dir) => continue,
                made => made.context(|| format!("make {}", dir.display()))?,
            }
            match open(&path, OFlags::CREATE).and_then(|fd| Self::wait(fd, &path)) {
                Ok(lock) if lock.is_on(&path)? => return Ok(lock),
                Ok(_) => {}
                // Removed between creating the directory and opening the lock.
                Err(e) if e.errno() == Some(libc::ENOENT) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Waits for the lock on `path` if that file exists, and creates nothing. `None` if it does not exist, or its
    /// holder removed it while we waited.
    pub(crate) fn wait_existing(path: &Path) -> Result<Option<Lock>> {
        loop {
            let lock = match open(path, OFlags::empty()) {
                Ok(fd) => Self::wait(fd, path)?,
                Err(e) if matches!(e.errno(), Some(libc::ENOENT | libc::ENOTDIR)) => {
                    return Ok(None);
                }
                Err(e) => return Err(e),
            };
            if lock.is_on(path)? {
                return Ok(Some(lock));
            }
        }
    }

    /// Takes the lock on `path`; `None` if another process has it.
    pub(crate) fn try_now(path: &Path) -> Result<Option<Lock>> {
        let fd = open(path, OFlags::CREATE)?;
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { fd })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(Error::os(format!("lock {}", path.display()), e.into())),
        }
    }

    /// Returns whether the lock is on the file that `path` names now (not on a removed predecessor).
    fn is_on(&self, path: &Path) -> Result<bool> {
        let ours = rustix::fs::fstat(&self.fd).context(|| "stat a lock".into())?;
        match rustix::fs::stat(path) {
            Ok(s) => Ok((s.st_dev, s.st_ino) == (ours.st_dev, ours.st_ino)),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(e) => Err(Error::os(format!("stat {}", path.display()), e.into())),
        }
    }
}

fn has_parent(dir: &Path) -> bool {
    dir.parent().is_some_and(Path::is_dir)
}

fn open(path: &Path, create: OFlags) -> Result<OwnedFd> {
    rustix::fs::open(
        path,
        OFlags::RDWR | OFlags::CLOEXEC | create,
        Mode::from_raw_mode(0o600),
    )
    .context(|| format!("open {}", path.display()))
}
