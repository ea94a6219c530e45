//! The folder of a part: what its process is given, and what it leaves. Whoever works in it holds a lock on it; one that nobody
//! holds was left by an agent that was killed.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::speech::ORDER_FILE;
use crate::clocks::drawn;

const NAMES: &str = "constel-part-";

/// Makes one that only its owner reads.
///
/// # Errors
/// What the system refuses.
pub(crate) fn make(lab: &str) -> io::Result<PathBuf> {
    let name = format!("{NAMES}{lab}-{:016x}", drawn()?);
    let folder = std::env::temp_dir().join(name);
    DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

/// Works in a folder that has its order, until what is returned is dropped or the process ends.
///
/// # Errors
/// When it has none.
pub fn hold(folder: &Path) -> io::Result<File> {
    let order = File::open(folder.join(ORDER_FILE))?;
    flock(&order, FlockOperation::NonBlockingLockShared)?;
    Ok(order)
}

/// Removes those in which nobody works any more: what parts had measured whose agents were killed. Returns them.
///
/// # Errors
/// When one does not go.
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
        // One without an order is being made.
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
