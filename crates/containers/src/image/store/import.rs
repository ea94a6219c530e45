//! Imports an image.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags};
use serde::Serialize;

use super::lock::Lock;
use super::record::{self, LayerFacts, LayerName, Record};
use super::work::Work;
use super::{Image, Store};
use crate::image::compression::{Bound, Decompressed};
use crate::image::config::Config;
use crate::image::digest::{Digest, Digesting};
use crate::image::documents::{Configuration, Platform, parse, verify_digest};
use crate::image::error::{At, Error, Fault, Located, shown};
use crate::image::limits::Limits;
use crate::image::merged::Merged;
use crate::image::progress::{Progress, Step};
use crate::image::reference::Reference;
use crate::image::source::{Blob, Blobs, Context, Found, Source};
use crate::image::tar::{Stream, TarReader};
use crate::image::unpack;

/// The options of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOptions {
    /// The name to give the image. Default: the name from the source.
    pub name: Option<String>,
    /// Bounds on the image.
    pub limits: Limits,
    /// The platform that the image must be for.
    pub platform: Platform,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            name: None,
            limits: Limits::default(),
            platform: Platform::host(),
        }
    }
}

/// An imported image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The image's name.
    pub name: String,
    /// The image.
    pub image: Image,
    /// The number of layers that the store had already.
    pub reused_layers: usize,
    /// The image that had the name before, if that was another one.
    pub replaced: Option<Digest>,
}

/// A layer that the store must have.
struct Wanted<'a> {
    number: usize,
    of: usize,
    blob: &'a Blob,
    name: LayerName,
}

impl Store {
    /// Imports an image: reads its documents, unpacks the layers that the store does not have, and gives the image its name.
    /// Only complete and verified content is kept. Any number of processes may import at the same time.
    ///
    /// # Errors
    /// [`Error`] has the [`Fault`] and its place. Files of other owners, devices and whiteouts need root.
    pub fn import(
        &self,
        source: &Source,
        options: &ImportOptions,
        progress: &dyn Progress,
    ) -> Result<Imported, Error> {
        let imported = self.import_from(source, options, progress);
        imported.map_err(|fault| fault.of(source.to_string()))
    }

    fn import_from(
        &self,
        source: &Source,
        options: &ImportOptions,
        progress: &dyn Progress,
    ) -> Result<Imported, Located> {
        // An invalid name is reported before anything is fetched.
        let wished = options
            .name
            .as_deref()
            .map(str::parse::<Reference>)
            .transpose()?;
        let work = Work::begin(self)?;
        let context = Context {
            spool: work.path(),
            limits: &options.limits,
            platform: &options.platform,
            progress,
        };
        let found = source.find(&context)?;
        let name = match wished {
            Some(name) => name,
            None => name_of(&found)?,
        };
        let id = Digest::of(&found.config);
        let place = || format!("configuration {id}");
        let configuration: Configuration = parse("the configuration", &found.config).at(place)?;
        let diff_ids = configuration.rootfs.diff_ids.clone();
        Config::of(configuration, &options.platform).at(place)?;
        if diff_ids.len() != found.layers.len() {
            let reason = format!(
                "it has {} diff IDs for {} layers",
                diff_ids.len(),
                found.layers.len()
            );
            return Err(Fault::document("the configuration", reason)).at(place);
        }
        if diff_ids.len() > options.limits.layers {
            let fault = Fault::Limit {
                what: "its number of layers".to_owned(),
                bound: options.limits.layers.to_string(),
                limit: "layers",
            };
            return Err(fault.into());
        }
        let layers = chain(&diff_ids);
        let chains: Vec<Digest> = layers.iter().map(|layer| layer.chain).collect();
        work.pin(self, &chains)?;
        let mut below = Vec::new();
        let mut reused_layers = 0;
        for (number, (layer, blob)) in layers.iter().zip(&found.layers).enumerate() {
            let wanted = Wanted {
                number: number + 1,
                of: layers.len(),
                blob,
                name: *layer,
            };
            let place = || format!("layer {} ({})", wanted.number, wanted.name.diff_id);
            let reused = self.layer(&wanted, &*found.from, &below, &work, options, progress);
            let reused = reused.at(place)?;
            reused_layers += usize::from(reused);
            progress.step(&Step::Done {
                layer: wanted.number,
                layers: wanted.of,
                reused,
            });
            if self.facts(layer.chain)?.hides_all {
                below.clear();
            }
            below.insert(0, self.layer_folder(layer.chain));
        }
        habitable(&Merged::open(&below)?)?;
        let record = Record {
            source: source.to_string(),
            manifest: found.manifest,
            imported_s: now_s(),
            layers,
        };
        let (image, replaced) = self.keep(id, &found.config, &record, &name.to_string(), &work)?;
        Ok(Imported {
            name: name.to_string(),
            image,
            reused_layers,
            replaced,
        })
    }

    /// Unpacks a layer unless the store has it; returns whether it had.
    fn layer(
        &self,
        wanted: &Wanted<'_>,
        from: &dyn Blobs,
        below: &[PathBuf],
        work: &Work,
        options: &ImportOptions,
        progress: &dyn Progress,
    ) -> Result<bool, Fault> {
        let folder = self.layer_folder(wanted.name.chain);
        if folder.exists() {
            return Ok(true);
        }
        // If another process unpacks this layer now, wait and use its result.
        let _turn = Lock::wait(&self.root.join("turns").join(wanted.name.chain.file_name()))?;
        if folder.exists() {
            return Ok(true);
        }
        let new = work.layer_folder()?;
        let blob = wanted.blob;
        let stored = Digesting::new(from.open(blob)?);
        let bound = Bound::of_layer(&options.limits);
        let mut plain = Digesting::new(Decompressed::new(stored, bound)?);
        let mut reader = TarReader::new(Stream(&mut plain), &options.limits);
        let merged = Merged::open(below)?;
        let opened = open_folder(&new)?;
        let (layer, layers) = (wanted.number, wanted.of);
        let mut tick = |entries| {
            progress.step(&Step::Unpacking {
                layer,
                layers,
                entries,
            });
        };
        let into = rustix::io::dup(&opened).map_err(Fault::os("open a folder"))?;
        let unpacked = unpack::unpack(&mut reader, into, &merged, &options.limits, &mut tick)?;
        // Digests cover everything, including bytes after the archive's end.
        drain(&mut plain)?;
        let (decompressed, diff_id, _) = plain.finish();
        let mut stored = decompressed.into_stored();
        drain(&mut stored)?;
        let (_, digest, bytes) = stored.finish();
        if let Some(expected) = blob.size.filter(|size| *size != bytes) {
            return Err(Fault::Size {
                what: "its blob".to_owned(),
                expected,
                found: bytes,
            });
        }
        if let Some(expected) = blob.digest {
            verify_digest("its blob", digest, expected)?;
        }
        verify_digest("its content", diff_id, wanted.name.diff_id)?;
        let facts = LayerFacts {
            hides_all: unpacked.hides_all,
            entries: unpacked.entries,
            bytes: unpacked.bytes,
            left_out: unpacked.left_out,
        };
        // The folder must be complete on the disk before its name appears, also after a power failure.
        rustix::fs::syncfs(&opened).map_err(Fault::os("write the layer to the disk"))?;
        // Without the lock, `prune` could remove the facts file between the two operations.
        let _lock = self.lock()?;
        record::write_json(&self.facts_file(wanted.name.chain), &facts)?;
        match fs::rename(&new, &folder) {
            Ok(()) => Ok(false),
            // Another process was first; its layer is the same.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(true),
            Err(error) => Err(Fault::io("put the layer into its place")(error)),
        }
    }

    /// Stores an image whose layers exist, and gives it a name.
    fn keep(
        &self,
        id: Digest,
        config: &[u8],
        record: &Record,
        name: &str,
        work: &Work,
    ) -> Result<(Image, Option<Digest>), Fault> {
        let _lock = self.lock()?;
        let folder = self.image_folder(id);
        if !folder.exists() {
            let new = work.path().join("image");
            fs::create_dir(&new).map_err(Fault::io("make a folder for the image"))?;
            record::write(&new.join("config.json"), config)?;
            record::write_json(&new.join("record.json"), record)?;
            record::write(&new.join("use"), b"")?;
            fs::rename(&new, &folder).map_err(Fault::io("put the image into its place"))?;
        }
        let mut names = self.names()?;
        let before = names.set(name, id).filter(|before| *before != id);
        self.write_names(&names)?;
        Ok((self.image(id, &names)?, before))
    }
}

/// Folders with files of the machine, which every container has, and the targets that a symbolic link there may have.
const PLACES: [(&[u8], Link); 6] = [
    (b"etc", Link::Folder),
    (b"run", Link::Any),
    (b"tmp", Link::Any),
    (b"dev", Link::None),
    (b"proc", Link::None),
    (b"sys", Link::None),
];

/// The allowed targets of a symbolic link. The root is never allowed, because it would be hidden.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    /// A symbolic link is not allowed.
    None,
    /// A folder of the image, which has files of its own there.
    Folder,
    /// A folder of the image, or a missing target: then a folder replaces the link.
    Any,
}

/// Checks that a container can be made of these files.
fn habitable(files: &Merged) -> Result<(), Fault> {
    for (place, may) in PLACES {
        let how = match files.entry(b"", place)?.map(|found| found.file_type()) {
            None | Some(FileType::Directory) => continue,
            Some(FileType::Symlink) if may == Link::None => "is a symbolic link",
            Some(FileType::Symlink) => match files.find_folder(vec![place.to_vec()])? {
                Some(at) if at.is_empty() => "is a symbolic link to its root",
                None if may == Link::Folder => {
                    "is a symbolic link that leads to no folder of the image"
                }
                _ => continue,
            },
            Some(_) => "is no folder",
        };
        return Err(Fault::Place {
            place: format!("/{}", shown(place)),
            how,
        });
    }
    Ok(())
}

/// Returns the name that a source gives its image.
fn name_of(found: &Found) -> Result<Reference, Fault> {
    let name = found.names.first().ok_or(Fault::NoName)?;
    name.parse()
}

/// Returns each layer's chain: the digest of the chain below and its own diff ID.
fn chain(diff_ids: &[Digest]) -> Vec<LayerName> {
    let mut below: Option<Digest> = None;
    let name = |diff_id: &Digest| {
        let chain = match below {
            None => *diff_id,
            Some(below) => Digest::of(format!("{below} {diff_id}").as_bytes()),
        };
        below = Some(chain);
        LayerName {
            chain,
            diff_id: *diff_id,
        }
    };
    diff_ids.iter().map(name).collect()
}

fn open_folder(path: &Path) -> Result<File, Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    Ok(File::from(
        opened.map_err(Fault::os("open the layer's folder"))?,
    ))
}

fn drain(from: &mut impl Read) -> Result<(), Fault> {
    let drained = io::copy(from, &mut io::sink());
    drained.map(|_| ()).map_err(Fault::io("read to its end"))
}

fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
