//! Exports an image in the format that container engines load.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use ::tar::{Builder, EntryType, Header};
use serde_json::{Value, json};

use super::held::Held;
use super::work::Work;
use super::{Digest, Store};
use crate::image::digest::Digesting;
use crate::image::error::{Error, Fault};
use crate::image::limits::Limits;
use crate::image::progress::Progress;
use crate::image::source::{Context, pack_layer, spool_file};
use crate::image::{Platform, reference::Reference};

/// A program that is added to an exported image.
#[derive(Debug, Clone, Copy)]
pub struct Added<'a> {
    /// The path relative to the image's root; only root may write to its folders.
    pub path: &'a str,
    /// The program.
    pub program: &'a [u8],
}

impl Store {
    /// Writes an image in the format of `docker save`, under this name and with one more program in a layer of its own, to an
    /// unnamed temporary file. Layers are packed again: same files and documents, but other bytes than in the source.
    ///
    /// # Errors
    /// If the name is invalid, or the store cannot be read or written.
    pub fn save(
        &self,
        image: &Held,
        name: &str,
        added: Added<'_>,
        progress: &dyn Progress,
    ) -> Result<File, Error> {
        self.saved(image, name, added, progress)
            .map_err(|fault| fault.of(image.image().title()))
    }

    fn saved(
        &self,
        image: &Held,
        name: &str,
        added: Added<'_>,
        progress: &dyn Progress,
    ) -> Result<File, Fault> {
        let name: Reference = name.parse()?;
        let work = Work::begin(self)?;
        let context = Context {
            spool: work.path(),
            limits: &Limits::default(),
            platform: &Platform::host(),
            progress,
        };
        let mut to = Builder::new(BufWriter::new(spool_file(&context)?));
        let mut diff_ids = Vec::new();
        // Layers that a layer above hides completely are not among `lower_dirs`.
        for folder in image.lower_dirs().iter().rev() {
            let packed = pack_layer(folder, &context)?;
            diff_ids.push(append(&mut to, packed)?);
        }
        let mut top = spool_file(&context)?;
        let written = top.write_all(&layer_of(added).map_err(Fault::io("pack a program"))?);
        written.map_err(Fault::io("spool a program"))?;
        diff_ids.push(append(&mut to, top)?);

        let path = self.image_folder(image.image().id).join("config.json");
        let bytes = fs::read(&path).map_err(Fault::io(format!("read {}", path.display())))?;
        let config = with_layers(&bytes, &diff_ids)?;
        let config_file = format!("{}.json", Digest::of(&config).hex());
        put(&mut to, &config_file, &config)?;
        let layers: Vec<String> = diff_ids.iter().map(layer_file).collect();
        let manifest =
            json!([{"Config": config_file, "RepoTags": [name.to_string()], "Layers": layers}]);
        put(&mut to, "manifest.json", manifest.to_string().as_bytes())?;
        let writing = || Fault::io("spool an image");
        let buffered = to.into_inner().map_err(writing())?;
        let mut file = buffered
            .into_inner()
            .map_err(|e| writing()(e.into_error()))?;
        file.seek(SeekFrom::Start(0)).map_err(writing())?;
        Ok(file)
    }
}

fn layer_file(diff_id: &Digest) -> String {
    format!("{}/layer.tar", diff_id.hex())
}

/// Appends a layer, named by its digest.
fn append(to: &mut Builder<impl Write>, mut layer: File) -> Result<Digest, Fault> {
    let reading = || Fault::io("read a packed layer");
    layer.seek(SeekFrom::Start(0)).map_err(reading())?;
    let mut digesting = Digesting::new(BufReader::with_capacity(1 << 16, &layer));
    io::copy(&mut digesting, &mut io::sink()).map_err(reading())?;
    let (_, diff_id, length) = digesting.finish();
    layer.seek(SeekFrom::Start(0)).map_err(reading())?;
    entry(to, &layer_file(&diff_id), length, &layer)?;
    Ok(diff_id)
}

fn put(to: &mut Builder<impl Write>, path: &str, bytes: &[u8]) -> Result<(), Fault> {
    entry(to, path, bytes.len() as u64, bytes)
}

fn entry(
    to: &mut Builder<impl Write>,
    path: &str,
    length: u64,
    from: impl Read,
) -> Result<(), Fault> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(length);
    let appended = to.append_data(&mut header, path, from);
    appended.map_err(Fault::io(format!("write {path}")))
}

/// Returns a layer with one program.
fn layer_of(added: Added<'_>) -> io::Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    let mut one = |path: &str, kind, mode, bytes: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, path, bytes)
    };
    for (at, _) in added.path.match_indices('/') {
        let folder = &added.path[..=at];
        one(folder, EntryType::Directory, 0o755, &[])?;
    }
    one(added.path, EntryType::Regular, 0o555, added.program)?;
    tar.into_inner()
}

/// Replaces the layers of a configuration; the build history is removed.
fn with_layers(config: &[u8], diff_ids: &[Digest]) -> Result<Vec<u8>, Fault> {
    let odd = |e: serde_json::Error| Fault::document("the stored configuration", e.to_string());
    let mut config: Value = serde_json::from_slice(config).map_err(odd)?;
    if let Some(fields) = config.as_object_mut() {
        fields.remove("history");
        let rootfs = json!({"type": "layers", "diff_ids": diff_ids});
        fields.insert("rootfs".to_owned(), rootfs);
    }
    serde_json::to_vec(&config).map_err(odd)
}
