//! The user's store of unpacked images.
//!
//! ```text
//! version              of this form: 1
//! lock                 held for moments, while names, images or layers come or go
//! names.json           name -> image
//! images/sha256-HEX/   config.json (as it came), record.json (its layers, where from), use (locked while it is used)
//! layers/sha256-HEX/   a layer's files, named by its chain; sha256-HEX.json: what is known of them
//! turns/sha256-HEX     locked by who unpacks that layer: others wait and then use it
//! work/PID-N/          what an import has under way: lock, pins (layers it counts on), layer (half unpacked)
//! ```
//!
//! Layers and images appear by one rename, when they are complete. A killed process leaves its files in `work`, and
//! [`prune`](Store::prune) removes them.

mod held;
mod import;
mod keep;
mod lock;
mod record;
mod save;
mod work;

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::image::config::Config;
use crate::image::digest::Digest;
use crate::image::documents::{Configuration, Platform, parse};
use crate::image::error::{Error, Fault};
use crate::image::reference::Reference;
use lock::Lock;
use record::{LayerFacts, Names, Record};

pub use held::{Held, Image, Layer};
pub use import::{ImportOptions, Imported};
pub use keep::{Pruned, Removed};
pub use save::Added;

/// The version of the store's format.
const VERSION: u64 = 1;
const FOLDERS: [&str; 4] = ["images", "layers", "turns", "work"];
const FILES: [&str; 3] = ["version", "lock", "names.json"];
/// Minimum digits of a digest that identify an image.
const LEAST_DIGITS: usize = 6;

/// Returns the default folder of a user's images: `$XDG_CACHE_HOME/constel/images`, or `~/.cache/constel/images`.
///
/// # Errors
/// If neither environment variable is set.
pub fn default_folder() -> Result<PathBuf, Error> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let cache = cache.ok_or_else(|| Fault::NoHome.of("the store"))?;
    Ok(cache.join("constel/images"))
}

/// A store of images.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// The size of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// The number of images.
    pub images: usize,
    /// The number of layers, each counted once.
    pub layers: usize,
    /// Bytes of all layers' files, each counted once.
    pub bytes: u64,
    /// The part of `bytes` in layers that belong to no image.
    pub unused_bytes: u64,
    /// Folders of imports, running and killed ones.
    pub work: usize,
}

impl Store {
    /// Opens the store in a folder; makes the folder if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be made, holds something else, or is a store of another version.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let store = Self {
            root: root.to_owned(),
        };
        store
            .prepare()
            .map_err(|fault| fault.of(root.display().to_string()))?;
        Ok(store)
    }

    /// Opens the user's store, in the [default folder](default_folder).
    ///
    /// # Errors
    /// Those of [`default_folder`] and [`open`](Self::open).
    pub fn open_default() -> Result<Self, Error> {
        Self::open(&default_folder()?)
    }

    /// Returns the store's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the store's folders with mode 0700: other users must not reach setuid files or devices of images.
    fn prepare(&self) -> Result<(), Fault> {
        let making = |path: &Path| Fault::io(format!("make the folder {}", path.display()));
        if let Some(parent) = self.root.parent() {
            fs::create_dir_all(parent).map_err(making(parent))?;
        }
        let make = |path: &Path| {
            let mut made = DirBuilder::new();
            match made.mode(0o700).create(path) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    Err(making(path)(error))
                }
                _ => Ok(()),
            }
        };
        make(&self.root)?;
        let version = self.root.join("version");
        match fs::read_to_string(&version) {
            Ok(text) => {
                let found = text.trim().parse().unwrap_or(0);
                if found != VERSION {
                    let ours = VERSION;
                    return Err(Fault::StoreVersion { found, ours });
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let reading = || Fault::io("read the folder");
                for entry in fs::read_dir(&self.root).map_err(reading())? {
                    let name = entry.map_err(reading())?.file_name();
                    let name = name.to_string_lossy();
                    let ours = FOLDERS.contains(&&*name) || FILES.contains(&&*name);
                    // Another process may be making the same store at this moment.
                    if !ours && !name.starts_with(".new-") {
                        return Err(Fault::Format(format!(
                            "the folder has {name}, and is no store"
                        )));
                    }
                }
                record::write(&version, format!("{VERSION}\n").as_bytes())?;
            }
            Err(error) => return Err(Fault::io("read its version")(error)),
        }
        FOLDERS
            .iter()
            .try_for_each(|folder| make(&self.root.join(folder)))
    }

    fn lock(&self) -> Result<Lock, Fault> {
        Lock::wait(&self.root.join("lock"))
    }

    fn of_store(&self) -> impl FnOnce(Fault) -> Error {
        |fault| fault.of(self.root.display().to_string())
    }

    fn image_folder(&self, id: Digest) -> PathBuf {
        self.root.join("images").join(id.file_name())
    }

    fn layer_folder(&self, chain: Digest) -> PathBuf {
        self.root.join("layers").join(chain.file_name())
    }

    fn facts_file(&self, chain: Digest) -> PathBuf {
        let name = format!("{}.json", chain.file_name());
        self.root.join("layers").join(name)
    }

    fn facts(&self, chain: Digest) -> Result<LayerFacts, Fault> {
        record::read_json(&self.facts_file(chain))?
            .ok_or_else(|| Fault::Missing(format!("the layer {chain} of the store")))
    }

    fn names(&self) -> Result<Names, Fault> {
        Ok(record::read_json(&self.root.join("names.json"))?.unwrap_or_default())
    }

    /// Returns the digests that the entries of a folder are named by.
    fn digests_in(&self, folder: &str) -> Result<Vec<Digest>, Fault> {
        let reading = || Fault::io(format!("read the store's folder {folder}"));
        let mut digests = Vec::new();
        for entry in fs::read_dir(self.root.join(folder)).map_err(reading())? {
            let name = entry.map_err(reading())?.file_name();
            digests.extend(name.to_str().and_then(Digest::from_file_name));
        }
        digests.sort();
        Ok(digests)
    }

    /// Returns all images, by name; those without a name last.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn list(&self) -> Result<Vec<Image>, Error> {
        let list = || {
            let _lock = self.lock()?;
            let names = self.names()?;
            let ids = self.digests_in("images")?;
            ids.iter()
                .map(|id| self.image(*id, &names))
                .collect::<Result<Vec<_>, Fault>>()
        };
        let mut images = list().map_err(self.of_store())?;
        images.sort_by(|a, b| {
            (a.names.is_empty(), &a.names, a.id).cmp(&(b.names.is_empty(), &b.names, b.id))
        });
        Ok(images)
    }

    /// Finds an image by its name, or by the first digits of its digest.
    ///
    /// # Errors
    /// [`Fault::NoImage`] with the nearest name, [`Fault::BadName`].
    pub fn find(&self, name: &str) -> Result<Image, Error> {
        let find = || {
            let _lock = self.lock()?;
            let names = self.names()?;
            self.image(self.id_of(name, &names)?, &names)
        };
        find().map_err(|fault| fault.of(name))
    }

    /// Returns an image's settings for its programs.
    ///
    /// # Errors
    /// If the image was removed, or the store is damaged.
    pub fn config(&self, image: &Image) -> Result<Config, Error> {
        self.read_config(image.id)
            .map_err(|fault| fault.of(image.title()))
    }

    /// Marks an image as used: it cannot be removed until the result is dropped or this process ends.
    ///
    /// # Errors
    /// Those of [`find`](Self::find) and [`config`](Self::config).
    pub fn hold(&self, name: &str) -> Result<Held, Error> {
        let hold = || {
            let _lock = self.lock()?;
            let names = self.names()?;
            let image = self.image(self.id_of(name, &names)?, &names)?;
            let used = Lock::share(&self.image_folder(image.id).join("use"))?;
            let config = self.read_config(image.id)?;
            let mut lower_dirs = Vec::new();
            for layer in image.layers.iter().rev() {
                lower_dirs.push(self.layer_folder(layer.chain));
                if self.facts(layer.chain)?.hides_all {
                    break;
                }
            }
            Ok(Held {
                image,
                config,
                lower_dirs,
                used,
            })
        };
        hold().map_err(|fault: Fault| fault.of(name))
    }

    /// Returns the size of the store.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn usage(&self) -> Result<Usage, Error> {
        let usage = || {
            let _lock = self.lock()?;
            let images = self.digests_in("images")?;
            let used = self.chains_of_images(&images)?;
            let mut usage = Usage {
                images: images.len(),
                layers: 0,
                bytes: 0,
                unused_bytes: 0,
                work: work::folders(self)?.len(),
            };
            for chain in self.digests_in("layers")? {
                let bytes = self.facts(chain)?.bytes;
                usage.layers += 1;
                usage.bytes += bytes;
                if !used.contains(&chain) {
                    usage.unused_bytes += bytes;
                }
            }
            Ok(usage)
        };
        usage().map_err(self.of_store())
    }

    fn read_config(&self, id: Digest) -> Result<Config, Fault> {
        let path = self.image_folder(id).join("config.json");
        let bytes = fs::read(&path).map_err(Fault::io(format!("read {}", path.display())))?;
        crate::image::documents::verify_digest("the stored configuration", Digest::of(&bytes), id)?;
        let configuration: Configuration = parse("the configuration", &bytes)?;
        // The image was for this machine when it was imported, but another machine may share the store.
        Config::of(configuration, &Platform::host())
    }

    fn record(&self, id: Digest) -> Result<Record, Fault> {
        record::read_json(&self.image_folder(id).join("record.json"))?
            .ok_or_else(|| Fault::Missing(format!("the record of image {id}")))
    }

    fn image(&self, id: Digest, names: &Names) -> Result<Image, Fault> {
        let record = self.record(id)?;
        let mut layers = Vec::new();
        for layer in &record.layers {
            let facts = self.facts(layer.chain)?;
            layers.push(Layer {
                chain: layer.chain,
                diff_id: layer.diff_id,
                entries: facts.entries,
                bytes: facts.bytes,
                left_out: facts.left_out,
            });
        }
        Ok(Image {
            id,
            names: names.of(id),
            source: record.source,
            manifest: record.manifest,
            imported_s: record.imported_s,
            bytes: layers.iter().map(|layer| layer.bytes).sum(),
            layers,
        })
    }

    fn id_of(&self, name: &str, names: &Names) -> Result<Digest, Fault> {
        let reference = name.parse::<Reference>();
        if let Some(id) = reference
            .as_ref()
            .ok()
            .and_then(|r| names.get(&r.to_string()))
        {
            return Ok(id);
        }
        let digits = name.strip_prefix("sha256:").unwrap_or(name);
        let images = self.digests_in("images")?;
        if digits.len() >= LEAST_DIGITS {
            let mut fits = images.iter().filter(|id| id.hex().starts_with(digits));
            if let (Some(id), None) = (fits.next(), fits.next()) {
                return Ok(*id);
            }
        }
        // If the text is neither a name nor a digest, the parser's error is the message.
        let reference = match name.starts_with("sha256:") {
            true => None,
            false => Some(reference?.to_string()),
        };
        let wanted = reference.as_deref().unwrap_or(name);
        Err(Fault::NoImage {
            nearest: names.nearest(wanted),
        })
    }

    /// Returns the layers of images.
    fn chains_of_images(
        &self,
        images: &[Digest],
    ) -> Result<std::collections::BTreeSet<Digest>, Fault> {
        let mut chains = std::collections::BTreeSet::new();
        for id in images {
            chains.extend(self.record(*id)?.layers.iter().map(|layer| layer.chain));
        }
        Ok(chains)
    }
}
