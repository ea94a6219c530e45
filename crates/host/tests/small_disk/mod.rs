//! A small file system that is gone with its handle.

#![allow(
    dead_code,
    reason = "each test binary uses its own part of what they share"
)]

use std::fs::{File, remove_file};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// A tmpfs of 256 KiB.
    pub(crate) fn mount() -> SmallDisk {
        let dir = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=256k", "tmpfs"];
        let status = Command::new("mount").args(mount).arg(dir.path()).status();
        assert!(status.unwrap().success(), "mount a tmpfs");
        SmallDisk(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Leaves no room in it.
    pub(crate) fn fill(&self) {
        let mut filler = File::options()
            .append(true)
            .create(true)
            .open(self.filler())
            .unwrap();
        // The kernel counts by processor, and may refuse a block on one while there is another one left.
        let is_full = || rustix::fs::statvfs(self.path()).unwrap().f_bfree == 0;
        while filler.write_all(&[0; 4096]).is_ok() || !is_full() {}
    }

    /// Gives the room back.
    pub(crate) fn drain(&self) {
        remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}
