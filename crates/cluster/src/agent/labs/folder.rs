//! The folder of a part: the input of its worker, and the results. The process that uses it holds a lock on it. A folder
//! without a lock was left by an agent that was killed.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::speech::ORDER_FILE;
use crate::agent::clocks::drawn;

const NAMES: &str = "constel-part-";

/// Creates a folder that only its owner can read.
///
/// # Errors
/// The error of the operating system.
pub(crate) fn make(lab: &str) -> io::Result<PathBuf> {
    let name = format!("{NAMES}{lab}-{:016x}", drawn()?);
    let folder = std::env::temp_dir().join(name);
    DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

/// Locks a folder that contains an order until the returned file is dropped or the process ends.
///
/// # Errors
/// If the folder contains no order.
pub fn hold(folder: &Path) -> io::Result<File> {
    let order = File::open(folder.join(ORDER_FILE))?;
    flock(&order, FlockOperation::NonBlockingLockShared)?;
    Ok(order)
}

/// Removes the unlocked folders, which hold measurements of parts whose agents were killed. Returns the removed folders.
///
/// # Errors
/// If a folder cannot be removed.
pub fn clear_left() -> io::Result<Vec<PathBuf>> {
    let own = rustix::process::geteuid().as_raw();
    let mut removed = Vec::new();
    for entry in fs::read_dir(std::env::temp_dir())? {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(NAMES);
        let Ok(about) = entry.metadata() else {
            continue;
        };
        if !is_ours || !about.is_dir() || about.uid() != own {
            continue;
        }
        let folder = entry.path();
        // A folder without an order is still being created.
        let Ok(order) = File::open(folder.join(ORDER_FILE)) else {
            continue;
        };
        if flock(&order, FlockOperation::NonBlockingLockExclusive).is_ok() {
            fs::remove_dir_all(&folder)?;
            removed.push(folder);
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_in_which_nobody_works_are_removed() {
        let [held, left, new] = ["held", "left", "new"].map(|lab| make(lab).unwrap());
        for folder in [&held, &left] {
            fs::write(folder.join(ORDER_FILE), "{}").unwrap();
        }
        let hold = hold(&held).unwrap();
        let removed = clear_left().unwrap();
        assert!(removed.contains(&left) && !left.exists(), "{removed:?}");
        assert!(held.exists() && new.exists(), "{removed:?}");
        drop(hold);
        fs::write(new.join(ORDER_FILE), "{}").unwrap();
        let removed = clear_left().unwrap();
        assert!(
            removed.contains(&held) && removed.contains(&new),
            "{removed:?}"
        );
    }
}
