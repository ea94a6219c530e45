//! Removes images, and unused files of the store.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::Store;
use super::lock::Lock;
use super::record::{self, Names};
use super::work::{self, remove_tree};
use crate::image::digest::Digest;
use crate::image::error::{Error, Fault};
use crate::image::reference::Reference;

/// The result of removing a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// The image that had the name.
    pub id: Digest,
    /// The removed names.
    pub names: Vec<String>,
    /// Whether the image was removed as well, because it had no other name.
    pub image: bool,
    /// The number of removed layers; no other image has them.
    pub layers: usize,
    /// Bytes of the removed layers' files.
    pub bytes: u64,
}

/// The result of pruning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Removed images; they had no name and were not in use.
    pub images: Vec<Digest>,
    /// The number of removed layers; they belonged to no image.
    pub layers: usize,
    /// Bytes of the removed layers' files.
    pub bytes: u64,
    /// The number of killed imports whose files were removed.
    pub imports: usize,
}

impl Store {
    /// Removes a name. If it was the image's last name, removes the image and its unshared layers as well. An image given by
    /// the first digits of its digest is removed with all its names.
    ///
    /// # Errors
    /// [`Fault::NoImage`]; [`Fault::InUse`] if the image would have to be removed and is [held](Store::hold).
    pub fn remove(&self, name: &str) -> Result<Removed, Error> {
        let remove = || {
            let _lock = self.lock()?;
            let mut names = self.names()?;
            let id = self.id_of(name, &names)?;
            let as_name = name.parse::<Reference>().map(|r| r.to_string());
            let as_name = as_name.ok().filter(|name| names.get(name).is_some());
            let gone = match &as_name {
                Some(name) => {
                    names.remove(name);
                    vec![name.clone()]
                }
                None => {
                    let all = names.of(id);
                    names.remove_all_of(id);
                    all
                }
            };
            let mut removed = Removed {
                id,
                names: gone,
                image: !names.has(id),
                layers: 0,
                bytes: 0,
            };
            if !removed.image {
                self.write_names(&names)?;
                return Ok(removed);
            }
            let _free = self.take_if_unused(id)?.ok_or(Fault::InUse)?;
            let layers = self.record(id)?.layers;
            self.write_names(&names)?;
            self.remove_image(id)?;
            let needed = self.needed()?;
            let mut unneeded: BTreeSet<Digest> = layers.iter().map(|layer| layer.chain).collect();
            unneeded.retain(|chain| !needed.contains(chain));
            (removed.layers, removed.bytes) = self.remove_layers(unneeded)?;
            Ok(removed)
        };
        remove().map_err(|fault: Fault| fault.of(name))
    }

    /// Removes everything unused: files of killed imports, images without a name that are not held, and layers that belong to
    /// no image.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn prune(&self) -> Result<Pruned, Error> {
        let prune = || {
            let _lock = self.lock()?;
            let mut pruned = Pruned::default();
            for folder in work::folders(self)? {
                if work::pins_of_living(&folder)?.is_none() {
                    remove_tree(&folder)?;
                    pruned.imports += 1;
                }
            }
            let names = self.names()?;
            for id in self.digests_in("images")? {
                if names.has(id) {
                    continue;
                }
                if let Some(_free) = self.take_if_unused(id)? {
                    self.remove_image(id)?;
                    pruned.images.push(id);
                }
            }
            let needed = self.needed()?;
            let mut unneeded: BTreeSet<Digest> = self.digests_in("layers")?.into_iter().collect();
            unneeded.retain(|chain| !needed.contains(chain));
            (pruned.layers, pruned.bytes) = self.remove_layers(unneeded)?;
            self.sweep_files()?;
            Ok(pruned)
        };
        prune().map_err(|fault: Fault| fault.of(self.root().display().to_string()))
    }

    pub(super) fn write_names(&self, names: &Names) -> Result<(), Fault> {
        record::write_json(&self.root.join("names.json"), names)
    }

    /// Locks an image if it is not in use. The store must be locked.
    fn take_if_unused(&self, id: Digest) -> Result<Option<Lock>, Fault> {
        Lock::try_now(&self.image_folder(id).join("use"))
    }

    /// Returns the layers of all images and running imports.
    fn needed(&self) -> Result<BTreeSet<Digest>, Fault> {
        let mut needed = self.chains_of_images(&self.digests_in("images")?)?;
        for folder in work::folders(self)? {
            needed.extend(work::pins_of_living(&folder)?.into_iter().flatten());
        }
        Ok(needed)
    }

    fn remove_image(&self, id: Digest) -> Result<(), Fault> {
        self.put_away(&self.image_folder(id))
    }

    fn remove_layers(&self, chains: BTreeSet<Digest>) -> Result<(usize, u64), Fault> {
        let mut bytes = 0;
        for chain in &chains {
            bytes += self.facts(*chain).map_or(0, |facts| facts.bytes);
            self.put_away(&self.layer_folder(*chain))?;
            drop(fs::remove_file(self.facts_file(*chain)));
        }
        Ok((chains.len(), bytes))
    }

    /// Removes a folder after renaming it into `work`, so that a half-removed folder is never visible. If the process is
    /// killed, the rest stays in `work`.
    fn put_away(&self, folder: &Path) -> Result<(), Fault> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let away = self
            .root
            .join("work")
            .join(format!("{}{name}", work::PUT_AWAY));
        remove_tree(&away)?;
        match fs::rename(folder, &away) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Fault::io(format!("remove {}", folder.display()))(error)),
            Ok(()) => remove_tree(&away),
        }
    }

    /// Removes facts files without a layer, incomplete files, and locks that are not held.
    fn sweep_files(&self) -> Result<(), Fault> {
        let sweeping = || Fault::io("sweep the store");
        let mut old = Vec::new();
        for folder in ["", "layers", "turns"] {
            for entry in fs::read_dir(self.root.join(folder)).map_err(sweeping())? {
                let path = entry.map_err(sweeping())?.path();
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                let layer = name.strip_suffix(".json").and_then(Digest::from_file_name);
                let orphan = folder == "layers"
                    && layer.is_some_and(|chain| !self.layer_folder(chain).exists());
                // A process writes a store's version without the store's lock.
                let half = name.starts_with(".new-") && !name.ends_with("-version");
                if half || orphan {
                    old.push((path, None));
                } else if folder == "turns" {
                    // Held until the file is removed: a process that waits for it then makes a new one.
                    if let Some(turn) = Lock::try_now(&path)? {
                        old.push((path, Some(turn)));
                    }
                }
            }
        }
        for (path, _turn) in old {
            fs::remove_file(&path).map_err(Fault::io(format!("remove {}", path.display())))?;
        }
        Ok(())
    }
}
