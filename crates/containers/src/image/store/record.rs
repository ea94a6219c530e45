//! The files that the store writes. Each write is atomic: after a crash a file is either the old or the new one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::image::digest::Digest;
use crate::image::error::Fault;

/// The record of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The source as the user named it.
    pub(super) source: String,
    pub(super) manifest: Option<Digest>,
    /// The time of the import, in seconds since 1970.
    pub(super) imported_s: u64,
    /// The layers, the lowest first.
    pub(super) layers: Vec<LayerName>,
}

/// The identity of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LayerName {
    pub(super) chain: Digest,
    pub(super) diff_id: Digest,
}

/// The facts of an unpacked layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LayerFacts {
    pub(super) hides_all: bool,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) left_out: Vec<String>,
}

/// The image of each name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Names(BTreeMap<String, Digest>);

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<Digest> {
        self.0.get(name).copied()
    }

    pub(super) fn of(&self, id: Digest) -> Vec<String> {
        let mine = self.0.iter().filter(|(_, named)| **named == id);
        mine.map(|(name, _)| name.clone()).collect()
    }

    /// Sets a name; returns the image that had it before.
    pub(super) fn set(&mut self, name: &str, id: Digest) -> Option<Digest> {
        self.0.insert(name.to_owned(), id)
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Digest> {
        self.0.remove(name)
    }

    pub(super) fn remove_all_of(&mut self, id: Digest) {
        self.0.retain(|_, named| *named != id);
    }

    pub(super) fn has(&self, id: Digest) -> bool {
        self.0.values().any(|named| *named == id)
    }

    /// Returns the most similar name, if any is similar enough; tags are ignored.
    pub(super) fn nearest(&self, wanted: &str) -> Option<String> {
        let untagged = |name: &str| match name.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => path.to_owned(),
            _ => name.to_owned(),
        };
        let likeness = |name: &str| strsim::jaro_winkler(&untagged(name), &untagged(wanted));
        let near = self.0.keys().map(|name| (likeness(name), name));
        let near = near.filter(|(likeness, _)| *likeness > 0.85);
        let nearest = near.max_by(|(a, _), (b, _)| a.total_cmp(b));
        nearest.map(|(_, name)| name.clone())
    }
}

/// Writes a file atomically.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let new = path.with_file_name(format!(".new-{}-{number}-{name}", std::process::id()));
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(Fault::io(format!("write {}", path.display())))
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Fault> {
    let json = serde_json::to_vec_pretty(value).map_err(|e| Fault::document("a record", e))?;
    write(path, &json)
}

/// Parses a JSON file; `None` if there is no such file.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Fault> {
    let what = || path.display().to_string();
    match fs::read(path) {
        Ok(bytes) => crate::image::documents::parse(&what(), &bytes).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Fault::io(format!("read {}", what()))(error)),
    }
}
