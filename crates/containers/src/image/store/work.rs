//! The working folder of an import; it is locked as long as its process lives.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Store;
use super::lock::Lock;
use crate::image::digest::Digest;
use crate::image::error::Fault;

/// Prefix of folders that only have to be removed.
pub(super) const PUT_AWAY: &str = "gone-";

/// A working folder; removed when dropped.
#[derive(Debug)]
pub(super) struct Work {
    path: PathBuf,
    _alive: Lock,
}

impl Work {
    /// Makes a working folder and locks it.
    pub(super) fn begin(store: &Store) -> Result<Self, Fault> {
        // `prune` holds this lock too, so a folder without its own lock never belongs to a starting import.
        let _lock = store.lock()?;
        for number in 0.. {
            let path = store
                .root
                .join("work")
                .join(format!("{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let _alive = Lock::wait(&path.join("lock"))?;
                    let made = fs::create_dir(path.join("pins"));
                    made.map_err(Fault::io("make a work folder"))?;
                    return Ok(Self { path, _alive });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Fault::io("make a work folder")(error)),
            }
        }
        unreachable!("numbers do not end")
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Marks layers as needed, whether they exist or will.
    pub(super) fn pin(&self, store: &Store, chains: &[Digest]) -> Result<(), Fault> {
        let _lock = store.lock()?;
        for chain in chains {
            let pin = self.path.join("pins").join(chain.file_name());
            fs::write(&pin, b"").map_err(Fault::io("pin a layer"))?;
        }
        Ok(())
    }

    /// Makes an empty folder for a layer.
    pub(super) fn layer_folder(&self) -> Result<PathBuf, Fault> {
        let path = self.path.join("layer");
        remove_tree(&path)?;
        fs::create_dir(&path).map_err(Fault::io("make a folder for a layer"))?;
        Ok(path)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Errors are ignored here; `prune` removes the rest and reports errors.
        drop(remove_tree(&self.path));
    }
}

/// Returns the working folders of all imports.
pub(super) fn folders(store: &Store) -> Result<Vec<PathBuf>, Fault> {
    let reading = || Fault::io("read the store's folder work");
    let entries = fs::read_dir(store.root.join("work")).map_err(reading())?;
    let paths = entries.map(|entry| entry.map(|e| e.path()).map_err(reading()));
    paths.collect()
}

/// Returns the layers that a running import needs; `None` for a dead one. A dead import's folder cannot be locked again while
/// the store is locked.
pub(super) fn pins_of_living(folder: &Path) -> Result<Option<Vec<Digest>>, Fault> {
    // A folder that was put away holds an image's files and no lock of an import.
    let put_away = folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .starts_with(PUT_AWAY);
    if put_away {
        return Ok(None);
    }
    let lock = folder.join("lock");
    if !lock.exists() {
        return Ok(None);
    }
    match Lock::try_now(&lock) {
        Ok(None) => {}
        Ok(Some(_)) => return Ok(None),
        // The import ended at this moment and removed its folder.
        Err(Fault::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
        Err(fault) => return Err(fault),
    }
    let reading = || Fault::io("read the pins of an import");
    let mut pins = Vec::new();
    match fs::read_dir(folder.join("pins")) {
        Ok(entries) => {
            for entry in entries {
                let name = entry.map_err(reading())?.file_name();
                pins.extend(name.to_str().and_then(Digest::from_file_name));
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(reading()(error)),
    }
    Ok(Some(pins))
}

/// Removes a folder with its content, without following symbolic links.
pub(super) fn remove_tree(path: &Path) -> Result<(), Fault> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Fault::io(format!("remove {}", path.display()))(error))
        }
        _ => Ok(()),
    }
}
