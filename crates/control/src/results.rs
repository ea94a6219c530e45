//! The results of runs: folders with `manifest.json`, `summary.json`, `events.ndjson` and raw output.

mod compare;
mod export;
mod marks;
mod measured;
mod pack;
mod picture;
mod ports;
mod samples;
mod series;
mod table;
mod usage;

pub use compare::compare;
pub use constel_analysis::sweep::{Compared, Comparison, Noise, Picture};
pub use export::{Exported, Format, export, tables};
pub use measured::{compare_with, read_recording};
pub use pack::{Packed, pack};
pub use picture::Quantity;
pub use table::{COLUMNS, rows as flow_rows};

use std::path::{Path, PathBuf};

use constel_api::Event;
use constel_api::manifest::{Head, Manifest};
use constel_api::summary::Summary;
use constel_measure::verdict::Software;
use constel_units::files;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::sweep::Table;

const MANIFEST: &str = "manifest.json";
const SUMMARY: &str = "summary.json";
const EVENTS: &str = "events.ndjson";

/// A run in a list of runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedRun {
    /// Its folder.
    pub dir: PathBuf,
    /// Name of its lab.
    pub lab: String,
    /// Name of its scenario.
    pub scenario: String,
    /// The scenario's seed.
    pub seed: u64,
    /// Whether it came to its end.
    pub finished: bool,
    /// Whether its figures are to be trusted; `None` unless it came to its end.
    pub trustworthy: Option<bool>,
    /// Whether software in its lab failed; `None` unless it came to its end.
    pub failed: Option<bool>,
    /// How many flows it had; `None` unless it came to its end.
    pub flows: Option<usize>,
}

/// Returns the runs of a folder, sorted by the names of their folders.
///
/// # Errors
/// [`Error::NoResults`] if the folder cannot be read; [`Error::NoDocument`] or [`Error::BadDocument`] if a manifest cannot be
/// read or is invalid.
pub fn list(dir: &Path) -> Result<Vec<ListedRun>, Error> {
    let no_results = |why| Error::NoResults {
        dir: dir.to_owned(),
        why,
    };
    let entries = std::fs::read_dir(dir).map_err(no_results)?;
    let runs = entries.filter_map(|entry| Run::open(&entry.ok()?.path()));
    let mut runs: Vec<Run> = runs.collect();
    runs.sort_by(|a, b| a.dir.cmp(&b.dir));
    runs.iter().map(Run::listed).collect()
}

/// Returns the pictures of a sweep, and the folder that they are in; `None` if the folder is not a sweep's.
///
/// # Errors
/// [`Error::NoDocument`], [`Error::BadDocument`] for its table.
pub fn pictures_of_sweep(dir: &Path) -> Result<Option<(PathBuf, Vec<Picture>)>, Error> {
    let path = dir.join("table.json");
    let text = match files::read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::NoDocument { path, source }),
    };
    let table: Table =
        serde_json::from_str(&text).map_err(|source| Error::BadDocument { path, source })?;
    Ok(Some((dir.join(crate::sweep::PLOTS), table.pictures())))
}

/// The results of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    dir: PathBuf,
}

impl Run {
    /// The run of this folder; `None` when the folder is not one run's. A manifest that is no regular file is a run's too:
    /// reading it is an error, and nothing waits for it.
    #[must_use]
    pub fn open(dir: &Path) -> Option<Self> {
        let dir = dir.to_owned();
        let manifest = std::fs::symlink_metadata(dir.join(MANIFEST));
        manifest.is_ok().then_some(Self { dir })
    }

    /// Its folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the manifest of a lab. That of a box has another form: [`head`](Self::head).
    ///
    /// # Errors
    /// [`Error::NoDocument`], [`Error::BadDocument`].
    pub fn manifest(&self) -> Result<Manifest, Error> {
        self.read(MANIFEST)
    }

    /// Checks that the manifest can be read and is JSON.
    ///
    /// # Errors
    /// As [`manifest`](Self::manifest).
    pub fn check(&self) -> Result<(), Error> {
        self.read::<IgnoredAny>(MANIFEST).map(drop)
    }

    /// Returns the part of the manifest that labs and boxes have in common.
    ///
    /// # Errors
    /// As [`manifest`](Self::manifest).
    pub fn head(&self) -> Result<Head, Error> {
        self.read(MANIFEST)
    }

    /// Returns the summary.
    ///
    /// # Errors
    /// [`Error::NoDocument`] if the run did not finish; [`Error::BadDocument`].
    pub fn summary(&self) -> Result<Summary, Error> {
        self.read(SUMMARY)
    }

    /// Returns the events in order, read line by line.
    ///
    /// # Errors
    /// [`Error::NoDocument`] if there is no such file, or if a line cannot be read; [`Error::BadDocument`] for a line that
    /// is not an event.
    pub fn events(&self) -> Result<impl Iterator<Item = Result<Event, Error>>, Error> {
        let path = self.dir.join(EVENTS);
        let no_document = |path: &Path, source| Error::NoDocument {
            path: path.to_owned(),
            source,
        };
        let lines = files::lines(&path).map_err(|source| no_document(&path, source))?;
        Ok(lines.map(move |line| {
            let line = line.map_err(|source| no_document(&path, source))?;
            serde_json::from_str(&line).map_err(|source| Error::BadDocument {
                path: path.clone(),
                source,
            })
        }))
    }

    /// Returns its row in a list. Reads only the fields that a list needs, so that runs of all versions can be listed.
    fn listed(&self) -> Result<ListedRun, Error> {
        #[derive(Deserialize)]
        struct Foot {
            verdict: Trust,
            #[serde(default)]
            software: Software,
            flows: Vec<IgnoredAny>,
        }
        #[derive(Deserialize)]
        struct Trust {
            trustworthy: bool,
        }
        let head = self.head()?;
        let foot: Option<Foot> = self.read(SUMMARY).ok();
        Ok(ListedRun {
            dir: self.dir.clone(),
            lab: head.lab,
            scenario: head.scenario,
            seed: head.seed,
            finished: foot.is_some(),
            trustworthy: foot.as_ref().map(|foot| foot.verdict.trustworthy),
            failed: foot.as_ref().map(|foot| foot.software.failed),
            flows: foot.map(|foot| foot.flows.len()),
        })
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let path = self.dir.join(name);
        let text = match files::read_text(&path) {
            Ok(text) => text,
            Err(source) => return Err(Error::NoDocument { path, source }),
        };
        serde_json::from_str(&text).map_err(|source| Error::BadDocument { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A manifest that cannot be read is an error of its run, and of a folder with that run; nothing waits for it.
    #[test]
    fn a_manifest_that_cannot_be_read_is_an_error() {
        type Make = fn(&Path);
        let kinds: [(&str, Make); 4] = [
            ("a named pipe", |at| {
                let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, mode, 0)
                    .unwrap();
            }),
            ("a folder", |at| std::fs::create_dir(at).unwrap()),
            ("a device", |at| {
                std::os::unix::fs::symlink("/dev/zero", at).unwrap()
            }),
            ("No such file", |at| {
                std::os::unix::fs::symlink("nowhere", at).unwrap()
            }),
        ];
        for (kind, make) in kinds {
            let dir = tempfile::tempdir().unwrap();
            let own = dir.path().join("run");
            std::fs::create_dir(&own).unwrap();
            assert!(list(dir.path()).unwrap().is_empty());
            make(&own.join(MANIFEST));
            for error in [
                Run::open(&own).unwrap().check().unwrap_err(),
                Run::open(&own).unwrap().head().map(drop).unwrap_err(),
                list(dir.path()).map(drop).unwrap_err(),
            ] {
                let text = error.to_string();
                assert!(matches!(error, Error::NoDocument { .. }), "{kind}: {text}");
                assert!(
                    text.contains(MANIFEST) && text.contains(kind),
                    "{kind}: {text}"
                );
            }
        }
    }
}
