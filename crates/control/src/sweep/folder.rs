//! The folder of a sweep: `sweep.json`, `runs/COMBINATION/seed-N/ATTEMPT`, the tables.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use constel_analysis::sweep::{Cell, Design, Done, Record, Table};
use constel_api::summary::Summary;
use constel_measure::plot::Look;
use rustix::fs::{FlockOperation, flock};

use crate::error::Error;
use crate::results::Run;

const RECORD: &str = "sweep.json";
/// The folder of the pictures.
pub(crate) const PLOTS: &str = "plots";
/// The folder of a seed's attempts begins with this.
pub(crate) const SEED: &str = "seed-";

/// A sweep's folder, held by this process alone.
pub(super) struct Folder {
    dir: PathBuf,
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
        let trusted = self.finished.iter().any(|s| s.verdict.trustworthy);
        trusted || self.finished.len() > usize::from(again)
    }

    /// Returns the state of a run from the folder of its attempts. Unfinished attempts (a crash, Ctrl-C) stay and do not
    /// count.
    pub(crate) fn of(dir: &Path) -> Result<Self, Error> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => {
                let path = dir.to_owned();
                return Err(Error::SweepFolder { path, source });
            }
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
    pub(super) fn open(dir: &Path, design: &Design) -> Result<Self, Error> {
        let failed = |source| Error::SweepFolder {
            path: dir.to_owned(),
            source,
        };
        let bad = |why: String| Error::BadSweep(format!("{}: {why}", dir.display()));
        let new = !dir.join(RECORD).exists();
        fs::create_dir_all(dir).map_err(failed)?;
        if new && fs::read_dir(dir).map_err(failed)?.next().is_some() {
            return Err(bad(
                "is not empty and not a sweep's; choose another folder with --out".to_owned(),
            ));
        }
        let held = File::open(dir).map_err(failed)?;
        if flock(&held, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(bad("another `constel sweep` works here".to_owned()));
        }
        let record = design.record();
        if !new {
            let known =
                constel_units::files::read(&dir.join(RECORD), constel_units::files::MAX_TEXT_BYTES)
                    .map_err(failed)?;
            let known: Record =
                serde_json::from_slice(&known).map_err(|e| bad(format!("{RECORD}: {e}")))?;
            if known.scenario_sha256 != record.scenario_sha256 {
                return Err(bad(format!(
                    "its runs are of another text of {}; choose another folder with --out",
                    known.scenario
                )));
            }
            if known.axes != record.axes {
                return Err(bad(format!(
                    "its runs set other values ({}); choose another folder with --out",
                    known.axes.concat().join(" ")
                )));
            }
        }
        let folder = Self {
            dir: dir.to_owned(),
            _held: held,
        };
        let text = serde_json::to_string_pretty(&record).map_err(|e| bad(e.to_string()))?;
        folder.replace(RECORD, &text)?;
        Ok(folder)
    }

    /// The folder of a run's attempt.
    pub(super) fn attempt(&self, cell: &Cell, number: u32) -> PathBuf {
        self.cell(cell).join(number.to_string())
    }

    fn cell(&self, cell: &Cell) -> PathBuf {
        let variant = self.dir.join("runs").join(&cell.variant.folder);
        variant.join(format!("{SEED}{}", cell.seed))
    }

    /// Returns the state of a run.
    pub(super) fn state(&self, cell: &Cell) -> Result<State, Error> {
        State::of(&self.cell(cell))
    }

    /// All runs that there are.
    pub(super) fn done(&self, design: &Design) -> Result<Vec<Done>, Error> {
        let mut done = Vec::new();
        for cell in design.cells() {
            let state = self.state(&cell)?;
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
        let json = serde_json::to_string_pretty(table).map_err(|error| Error::SweepFolder {
            path: self.dir.clone(),
            source: error.into(),
        })?;
        self.replace("table.json", &json)?;
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

    /// Never half of a file, whatever ends this process.
    fn replace(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.dir.join(name);
        let part = self.dir.join(format!(".{}.part", name.replace('/', "-")));
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &path));
        written.map_err(|source| Error::SweepFolder { path, source })
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
