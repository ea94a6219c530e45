//! Shared code of the tests: archives written byte by byte, layouts around them, and overlayfs's own view of layers.

#![allow(
    dead_code,
    reason = "each test binary uses its own part of what they share"
)]

pub(crate) mod overlay;

use std::fs;
use std::path::{Path, PathBuf};

use constel_containers::image::{
    Digest, Error, ImportOptions, Imported, Platform, Silent, Source, Store,
};
use tar::{EntryType, Header};

/// A tar archive in the making; paths are written as they are given.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tar(pub(crate) Vec<u8>);

impl Tar {
    pub(crate) fn header(kind: EntryType, path: &[u8]) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.as_old_mut().name[..path.len()].copy_from_slice(path);
        header.set_mode(if kind == EntryType::Directory {
            0o755
        } else {
            0o644
        });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_000_000_000);
        header.set_size(0);
        header
    }

    pub(crate) fn append(mut self, mut header: Header, content: &[u8]) -> Self {
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn folder(self, path: &str) -> Self {
        self.append(Self::header(EntryType::Directory, path.as_bytes()), b"")
    }

    pub(crate) fn file(self, path: &str, content: &[u8]) -> Self {
        self.file_of(EntryType::Regular, path, content)
    }

    pub(crate) fn file_of(self, kind: EntryType, path: &str, content: &[u8]) -> Self {
        let mut header = Self::header(kind, path.as_bytes());
        header.set_size(content.len() as u64);
        self.append(header, content)
    }

    pub(crate) fn link(self, kind: EntryType, path: &str, target: &str) -> Self {
        let mut header = Self::header(kind, path.as_bytes());
        header.set_link_name_literal(target).unwrap();
        self.append(header, b"")
    }

    pub(crate) fn symlink(self, path: &str, target: &str) -> Self {
        self.link(EntryType::Symlink, path, target)
    }

    pub(crate) fn hard_link(self, path: &str, target: &str) -> Self {
        self.link(EntryType::Link, path, target)
    }

    pub(crate) fn device(self, kind: EntryType, path: &str, major: u32, minor: u32) -> Self {
        let mut header = Self::header(kind, path.as_bytes());
        header.set_device_major(major).unwrap();
        header.set_device_minor(minor).unwrap();
        self.append(header, b"")
    }

    /// The next header describes the next entry.
    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        self.extended(EntryType::XHeader, records)
    }

    pub(crate) fn extended(self, kind: EntryType, records: &[(&str, &[u8])]) -> Self {
        let mut bytes = Vec::new();
        for (key, value) in records {
            let body = key.len() + value.len() + 3;
            let mut length = body + body.to_string().len();
            length = body + length.to_string().len();
            bytes.extend_from_slice(format!("{length} {key}=").as_bytes());
            bytes.extend_from_slice(value);
            bytes.push(b'\n');
        }
        self.file_of(kind, "pax", &bytes)
    }

    /// With the two blocks that end it.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A folder's files as a tar archive.
pub(crate) fn packed(folder: &Path) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(".", folder).unwrap();
    builder.into_inner().unwrap()
}

/// The configuration of an image of these layers, not compressed.
pub(crate) fn config(layers: &[Vec<u8>], run: &str) -> String {
    let diff_ids: Vec<String> = layers
        .iter()
        .map(|l| format!("\"{}\"", Digest::of(l)))
        .collect();
    format!(
        r#"{{"architecture": "{}", "os": "linux", "config": {run}, "rootfs": {{"type": "layers", "diff_ids": [{}]}}}}"#,
        Platform::host().architecture,
        diff_ids.join(", ")
    )
}

/// Documents and blobs of an image, by digest.
#[derive(Debug, Default)]
pub(crate) struct Blobs(pub(crate) Vec<(Digest, Vec<u8>)>);

impl Blobs {
    pub(crate) fn put(&mut self, media_type: &str, bytes: &[u8]) -> String {
        let digest = Digest::of(bytes);
        self.0.push((digest, bytes.to_vec()));
        let size = bytes.len();
        format!(
            r#"{{"mediaType": "application/vnd.oci.image.{media_type}", "digest": "{digest}", "size": {size}}}"#
        )
    }

    /// An image of layers as they are stored; gives its manifest's descriptor.
    pub(crate) fn image(&mut self, config: &str, stored: &[Vec<u8>], form: &str) -> String {
        let config = self.put("config.v1+json", config.as_bytes());
        let layers: Vec<String> = stored
            .iter()
            .map(|layer| self.put(&format!("layer.v1.tar{form}"), layer))
            .collect();
        let manifest = format!(
            r#"{{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {config}, "layers": [{}]}}"#,
            layers.join(", ")
        );
        self.put("manifest.v1+json", manifest.as_bytes())
    }

    pub(crate) fn write(&self, folder: &Path, index: &str) {
        fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
        for (digest, bytes) in &self.0 {
            fs::write(folder.join("blobs/sha256").join(digest.hex()), bytes).unwrap();
        }
        fs::write(
            folder.join("oci-layout"),
            r#"{"imageLayoutVersion": "1.0.0"}"#,
        )
        .unwrap();
        fs::write(folder.join("index.json"), index).unwrap();
    }
}

/// Writes an OCI image layout of these layers.
pub(crate) fn layout(folder: &Path, layers: &[Vec<u8>], run: &str) {
    let mut blobs = Blobs::default();
    let manifest = blobs.image(&config(layers, run), layers, "");
    blobs.write(
        folder,
        &format!(r#"{{"schemaVersion": 2, "manifests": [{manifest}]}}"#),
    );
}

/// A folder on a file system that needs no disk, so that many layers can be synced.
pub(crate) fn temp() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// A store, and a layout to be imported into it.
pub(crate) struct Bench {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) store: Store,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let temp = temp();
        let store = Store::open(&temp.path().join("store")).unwrap();
        Self { temp, store }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub(crate) fn import_layers(&self, name: &str, layers: &[Vec<u8>]) -> Result<Imported, Error> {
        let folder = self.path(&format!("layout-{name}"));
        drop(fs::remove_dir_all(&folder));
        layout(&folder, layers, "{}");
        self.import(&folder, Some(name))
    }

    pub(crate) fn import(&self, path: &Path, name: Option<&str>) -> Result<Imported, Error> {
        self.import_with(
            &Source::Path(path.to_owned()),
            name,
            &ImportOptions::default(),
        )
    }

    pub(crate) fn import_with(
        &self,
        source: &Source,
        name: Option<&str>,
        options: &ImportOptions,
    ) -> Result<Imported, Error> {
        let options = ImportOptions {
            name: name.map(str::to_owned),
            ..options.clone()
        };
        self.store.import(source, &options, &Silent)
    }

    /// That nothing came in, and that nothing is left of what was tried.
    pub(crate) fn assert_empty(&self) {
        assert!(self.store.list().unwrap().is_empty());
        for folder in ["images", "layers", "work"] {
            let left: Vec<_> = fs::read_dir(self.path("store").join(folder))
                .unwrap()
                .collect();
            assert!(left.is_empty(), "{folder}: {left:?}");
        }
    }
}
