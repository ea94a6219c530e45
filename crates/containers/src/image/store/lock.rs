//! Locks of files, released when they are dropped or when their process dies.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::image::error::Fault;

/// A lock.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the exclusive lock.
    pub(super) fn wait(path: &Path) -> Result<Self, Fault> {
        Self::take(path, FlockOperation::LockExclusive).and_then(|lock| {
            lock.ok_or_else(|| Fault::Missing(format!("the lock {}", path.display())))
        })
    }

    /// Waits for a shared lock.
    pub(super) fn share(path: &Path) -> Result<Self, Fault> {
        Self::take(path, FlockOperation::LockShared).and_then(|lock| {
            lock.ok_or_else(|| Fault::Missing(format!("the lock {}", path.display())))
        })
    }

    /// Takes the exclusive lock if it is free.
    pub(super) fn try_now(path: &Path) -> Result<Option<Self>, Fault> {
        Self::take(path, FlockOperation::NonBlockingLockExclusive)
    }

    fn take(path: &Path, how: FlockOperation) -> Result<Option<Self>, Fault> {
        let doing = || format!("lock {}", path.display());
        loop {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            let opened = options
                .custom_flags(OFlags::NOFOLLOW.bits() as i32)
                .open(path);
            let file = opened.map_err(Fault::io(doing()))?;
            match flock(&file, how) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(Fault::os(doing())(error)),
            }
            // While this process waited, the file may have been removed and replaced by another one.
            let ours = rustix::fs::fstat(&file).map_err(Fault::os(doing()))?;
            match rustix::fs::stat(path) {
                Ok(now) if (now.st_dev, now.st_ino) == (ours.st_dev, ours.st_ino) => {
                    return Ok(Some(Self { _file: file }));
                }
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => return Err(Fault::os(doing())(error)),
            }
        }
    }
}
