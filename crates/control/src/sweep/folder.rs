//! The folder of a sweep: `sweep.json`, `runs/COMBINATION/seed-N/ATTEMPT`, the tables.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use constel_analysis::sweep::{Cell, Design, Done, Record, Shard, Table};
use constel_api::summary::Summary;
use constel_measure::plot::Look;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::results::Run;

const RECORD: &str = "sweep.json";
/// The file by which a process holds a sweep or a run.
const LOCK: &str = ".lock";
/// The folder of the pictures.
pub(crate) const PLOTS: &str = "plots";
/// The folder of a seed's attempts begins with this.
pub(crate) const SEED: &str = "seed-";

/// The folder of a sweep. It is held by this process alone, or together with other shards.
pub(super) struct Folder {
    dir: PathBuf,
    shard: Option<Shard>,
    _held: File,
}

/// The state of a run.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Attempts that came to their end, in order.
    pub(super) finished: Vec<Summary>,
    /// Number of the last attempt of any kind; 0 without one.
    pub(super) last: u32,
}

impl State {
    /// Whether it is not to be made again.
    pub(super) fn is_done(&self, again: u16) -> bool {
        self.is_trustworthy() || self.finished.len() > usize::from(again)
    }

    /// Whether one of its attempts is trustworthy.
    pub(super) fn is_trustworthy(&self) -> bool {
        self.finished.iter().any(|s| s.verdict.trustworthy)
    }

    /// Returns the state of a run from the folder of its attempts. Unfinished attempts (a crash, Ctrl-C) stay and do not
    /// count.
    pub(crate) fn of(dir: &Path) -> Result<Self, Error> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(failed(dir, source)),
        };
        let number = |entry: io::Result<fs::DirEntry>| {
            let name = entry.ok()?.file_name();
            // Logs count: an attempt that failed early has nothing else.
            let name = name.to_str()?;
            name.strip_suffix(".log")
                .unwrap_or(name)
                .parse::<u32>()
                .ok()
        };
        let mut numbers: Vec<u32> = entries.filter_map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let finished = numbers.iter().filter_map(|number| {
            let summary = Run::open(&dir.join(number.to_string()))?.summary().ok()?;
            (!summary.interrupted).then_some(summary)
        });
        Ok(Self {
            finished: finished.collect(),
            last: numbers.last().copied().unwrap_or(0),
        })
    }

    /// The attempt that counts: the first one to be trusted, or else the last.
    pub(crate) fn counts(mut self) -> Option<Summary> {
        let trusted = self.finished.iter().position(|s| s.verdict.trustworthy);
        match trusted {
            Some(index) => Some(self.finished.swap_remove(index)),
            None => self.finished.pop(),
        }
    }
}

impl Folder {
    /// Opens the folder of a sweep, which is created if it does not exist. All shards of a sweep may have it open at a time.
    pub(super) fn open(dir: &Path, design: &Design, shard: Option<Shard>) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(|source| failed(dir, source))?;
        let folder = Self::held(dir, shard)?;
        let bad = |why: &str| bad(dir, &format!("{why}; choose another folder with --out"));
        // Another shard writes the record before its first run: if there is a run, there is a record.
        let used = is_used(dir)?;
        let record = design.record();
        if folder.dir.join(RECORD).exists() {
            let known = folder.record()?;
            if known == record {
                return Ok(folder);
            }
            if known.scenario_sha256 != record.scenario_sha256 {
                let why = format!("its runs are of another text of {}", known.scenario);
                return Err(bad(&why));
            }
            if known.axes != record.axes {
                let why = format!("its runs set other values ({})", known.settings());
                return Err(bad(&why));
            }
            // The runs of a shard follow from the seeds, and stay the same if seeds are appended.
            if shard.is_some() && !record.seeds.starts_with(&known.seeds) {
                return Err(bad(
                    "its sweep has other seeds, and all shards need the same --seeds",
                ));
            }
        } else if used {
            return Err(bad("is not empty and not a sweep's"));
        }
        folder.replace(RECORD, &pretty(dir, &record)?)?;
        Ok(folder)
    }

    /// Makes the folder of a merged sweep.
    pub(super) fn new(dir: &Path, design: &Design) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(|source| failed(dir, source))?;
        if is_used(dir)? {
            return Err(bad(dir, "is not empty; choose another folder with --out"));
        }
        let folder = Self::held(dir, None)?;
        folder.replace(RECORD, &pretty(dir, &design.record())?)?;
        Ok(folder)
    }

    /// Opens the folder of a sweep for its merge, without its shards. Returns the sweep as well.
    pub(super) fn existing(dir: &Path) -> Result<(Self, Design), Error> {
        if !dir.join(RECORD).exists() {
            return Err(bad(dir, "is no folder of a sweep: it has no sweep.json"));
        }
        let folder = Self::held(dir, None)?;
        let design = Design::recorded(folder.record()?);
        let design = design.map_err(|error| bad(dir, &format!("{RECORD}: {error}")))?;
        Ok((folder, design))
    }

    fn held(dir: &Path, shard: Option<Shard>) -> Result<Self, Error> {
        let how = match shard {
            None => FlockOperation::NonBlockingLockExclusive,
            Some(_) => FlockOperation::NonBlockingLockShared,
        };
        let held = lock(dir, how).map_err(|source| failed(dir, source))?;
        Ok(Self {
            dir: dir.to_owned(),
            shard,
            _held: held.ok_or_else(|| bad(dir, "another `constel sweep` works here"))?,
        })
    }

    fn record(&self) -> Result<Record, Error> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let path = self.dir.join(RECORD);
        let bytes = constel_units::files::read(&path, constel_units::files::MAX_TEXT_BYTES);
        let bytes = bytes.map_err(|source| failed(&path, source))?;
        let invalid = |error: serde_json::Error| bad(&self.dir, &format!("{RECORD}: {error}"));
        let Version { version } = serde_json::from_slice(&bytes).map_err(invalid)?;
        if version != Record::VERSION {
            return Err(bad(
                &self.dir,
                &format!(
                    "{RECORD} has version {version}, and this constel reads {}; use the constel that began the sweep, or \
                     choose another folder with --out",
                    Record::VERSION
                ),
            ));
        }
        serde_json::from_slice(&bytes).map_err(invalid)
    }

    /// Reserves a run for this process. `None`: another process makes it.
    pub(super) fn reserve(&self, cell: &Cell) -> Result<Option<File>, Error> {
        let dir = self.cell(cell);
        let created = fs::create_dir_all(&dir);
        created
            .and_then(|()| lock(&dir, FlockOperation::NonBlockingLockExclusive))
            .map_err(|source| failed(&dir, source))
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder of a run's attempt.
    pub(super) fn attempt(&self, cell: &Cell, number: u32) -> PathBuf {
        self.cell(cell).join(number.to_string())
    }

    /// The folder of a run.
    pub(super) fn cell(&self, cell: &Cell) -> PathBuf {
        let variant = self.dir.join("runs").join(&cell.variant.folder);
        variant.join(format!("{SEED}{}", cell.seed))
    }

    /// Returns the state of a run.
    pub(super) fn state(&self, cell: &Cell) -> Result<State, Error> {
        State::of(&self.cell(cell))
    }

    /// Returns those of the runs that exist.
    pub(super) fn done(&self, cells: &[Cell]) -> Result<Vec<Done>, Error> {
        let mut done = Vec::new();
        for cell in cells {
            let state = self.state(cell)?;
            if state.last == 0 {
                continue;
            }
            done.push(Done {
                variant: cell.variant.index,
                seed: cell.seed,
                summary: state.counts(),
            });
        }
        Ok(done)
    }

    /// The tables, in all forms.
    pub(super) fn write(&self, table: &Table) -> Result<(), Error> {
        self.replace("table.json", &pretty(&self.dir, table)?)?;
        self.replace("table.csv", &table.csv())?;
        let plots = self.dir.join(PLOTS);
        fs::create_dir_all(&plots).map_err(|source| Error::SweepFolder {
            path: plots,
            source,
        })?;
        for picture in table.pictures() {
            let name = format!("{PLOTS}/{}.svg", picture.stem);
            self.replace(&name, &picture.group.svg(&Look::default()))?;
        }
        Ok(())
    }

    /// Never half of a file, whatever ends this process. Shards may write the same file at a time.
    fn replace(&self, name: &str, text: &str) -> Result<(), Error> {
        let shard = self.shard.map_or(0, Shard::number);
        let path = self.dir.join(name);
        let part = format!(".{}.{shard}.part", name.replace('/', "-"));
        let part = self.dir.join(part);
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &path));
        written.map_err(|source| failed(&path, source))
    }
}

/// Whether there is any file, apart from the lock and records that shards are writing.
fn is_used(dir: &Path) -> Result<bool, Error> {
    let entries = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|source| failed(dir, source))?;
    let is_own =
        |name: &str| name == LOCK || (name.starts_with(".sweep.json.") && name.ends_with(".part"));
    let mut names = entries.iter().map(fs::DirEntry::file_name);
    Ok(names.any(|name| !name.to_str().is_some_and(is_own)))
}

fn pretty(dir: &Path, document: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string_pretty(document).map_err(|error| failed(dir, error.into()))
}

/// Locks a folder by a file in it. `None`: another process holds it.
fn lock(dir: &Path, how: FlockOperation) -> io::Result<Option<File>> {
    // NFS has locks between machines for files that are open for writing, and none for folders.
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let held = options.open(dir.join(LOCK))?;
    match flock(&held, how) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        // Some file systems of clusters have no locks (Lustre without `flock`). The locks only prevent mistakes.
        Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => Ok(Some(held)),
        Err(error) => Err(error.into()),
    }
}

fn bad(dir: &Path, why: &str) -> Error {
    Error::BadSweep(format!("{}: {why}", dir.display()))
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::SweepFolder {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_measure::verdict::SoftwareFailure;

    /// Software that fails, in any way, is a result of the run; only an emulator that did not keep up is a reason for another
    /// attempt.
    #[test]
    fn failed_software_is_no_reason_for_another_attempt() {
        let failed = |flow: Option<&str>, reason: &str| SoftwareFailure {
            node: "node-0".to_owned(),
            flow: flow.map(str::to_owned),
            reason: reason.to_owned(),
        };
        for failure in [
            failed(Some("fsw"), "flow fsw failed: exit code 7"),
            failed(Some("fsw"), "flow fsw failed: signal 11 (SIGSEGV)"),
            failed(None, "the container of node-0 ended: exit code 1"),
            failed(None, "bird in node-0 ended: signal 9"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let attempt = |number: u32, trustworthy: bool| {
                let mut summary: Summary =
                    serde_json::from_str(include_str!("../expect/run.json")).unwrap();
                summary.software.fail(failure.clone());
                summary.verdict.trustworthy = trustworthy;
                let own = dir.path().join(number.to_string());
                fs::create_dir(&own).unwrap();
                fs::write(own.join("manifest.json"), "{}").unwrap();
                fs::write(
                    own.join("summary.json"),
                    serde_json::to_string(&summary).unwrap(),
                )
                .unwrap();
                State::of(dir.path()).unwrap()
            };
            // Two more attempts are allowed: one late run needs another, and the next is the result.
            assert!(!attempt(1, false).is_done(2), "{}", failure.reason);
            let state = attempt(2, true);
            assert!(state.is_done(2), "{}", failure.reason);
            let counts = state.counts().unwrap();
            assert!(counts.verdict.trustworthy && counts.software.failed);
            assert_eq!(counts.software.failures, [failure]);
        }
    }
}
