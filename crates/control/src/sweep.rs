//! Many runs of one scenario: the runs of a sweep, each in a process of its own, and their summary.

mod folder;
mod merge;
mod runner;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use constel_analysis::sweep::Cell;
use constel_lab::Progress;
use constel_scenario::Setting;
use constel_scenario::model::ClockTime;
use constel_units::files;

pub use constel_analysis::sweep::{
    Axis, Design, DesignError, Interval, Row, Runs, Seeds, Shard, Table,
};
pub use merge::{Merged, merge};

use crate::error::Error;
use crate::node::require_privilege;
use crate::scenario::Scenario;
use folder::Folder;
pub(crate) use folder::{PLOTS, SEED, State as Attempts};
use runner::{Ended, Runner};

/// How a sweep is made.
#[derive(Debug, Clone)]
pub struct SweepOptions {
    /// The folder of all runs. It is created if it does not exist. If it has runs of the same sweep, the sweep continues.
    pub out: PathBuf,
    /// Prefix of the lab names, which is followed by a number. Default: `sweep-<process>`.
    pub name: Option<String>,
    /// The shard to make; `None`: all runs. Shards may share a folder; [`merge`] makes the tables.
    pub shard: Option<Shard>,
    /// Runs at a time.
    pub jobs: NonZeroU16,
    /// Maximum number of repetitions of a run whose measurements are not trustworthy.
    pub again: u16,
    /// Whether runs that stay so are left out of the figures.
    pub trustworthy_only: bool,
    /// Whether runs are made in virtual time, each in a guest kernel of its own: they do not disturb each other, and need no root.
    /// `None`: as the scenario's `clock.time`.
    pub virtual_time: Option<bool>,
    /// The program `constel`, which makes the runs.
    pub program: PathBuf,
    /// Set by the caller to end the sweep: active runs are taken down, and finished runs stay.
    pub stop: Arc<AtomicBool>,
}

/// The result of a sweep.
#[derive(Debug, Clone)]
pub struct Swept {
    /// The figures, of a shard those of its own runs.
    pub table: Table,
    /// Whether it was stopped before all runs were done.
    pub interrupted: bool,
    /// Runs that failed: which, and why.
    pub failures: Vec<String>,
}

/// Reads the scenario and lays out the sweep.
///
/// # Errors
/// [`Error::Unreadable`], [`Error::BadSweep`]; [`Error::Scenario`] with the mistakes of any combination of values.
pub fn design(file: &Path, axes: Vec<Axis>, seeds: Seeds) -> Result<Design, Error> {
    let shown = file.display().to_string();
    let text = read(file)?;
    let bad = |error: DesignError| Error::BadSweep(error.to_string());
    let design = Design::new(&shown, &text, axes, seeds.0).map_err(bad)?;
    // Before the first run, not in the middle of the night.
    for variant in design.variants() {
        Scenario::load_with(file, &variant.settings)?;
    }
    Ok(design)
}

/// Reads a file of named choices, each a mapping of KEY to VALUE.
///
/// # Errors
/// [`Error::Unreadable`], [`Error::Scenario`] with all that is wrong.
pub fn choices(file: &Path) -> Result<Axis, Error> {
    let shown = file.display().to_string();
    let text = read(file)?;
    let choices = Setting::choices(&shown, &text).map_err(Error::Scenario)?;
    Ok(Axis::named(choices))
}

fn read(file: &Path) -> Result<String, Error> {
    files::read_text(file).map_err(|error| Error::Unreadable {
        file: file.display().to_string(),
        reason: error.to_string(),
    })
}

/// Executes all missing runs, and summarises them. The folder also gets the table as `table.json`, `table.csv` and
/// pictures in `plots`, even if the sweep was stopped. A shard leaves these files to [`merge`].
///
/// # Errors
/// [`Error::Unprivileged`]; [`Error::BadSweep`] if the folder belongs to another sweep or is in use; [`Error::SweepFolder`];
/// [`Error::RunFailed`] for a failure that all runs will have: an invalid scenario, or a host without the capability.
pub fn sweep(
    design: &Design,
    options: &SweepOptions,
    progress: &dyn Progress,
) -> Result<Swept, Error> {
    if needs_privilege(design, options)? {
        require_privilege()?;
    }
    let folder = Folder::open(&options.out, design, options.shard)?;
    let runner = Runner::new(design, &folder, options);
    let cells: Vec<Cell> = design.cells_of(options.shard).collect();
    let total = cells.len() as u64;
    let mut waiting = VecDeque::new();
    let mut done = 0;
    for cell in &cells {
        if folder.state(cell)?.is_done(options.again) {
            done += 1;
        } else {
            waiting.push_back(cell.clone());
        }
    }
    if done > 0 {
        progress.say(&format!("{done} of {total} runs are there already"));
    }
    let shared = Shared {
        waiting: Mutex::new(waiting),
        outcome: Mutex::new(Outcome {
            done,
            failures: Vec::new(),
            fatal: None,
        }),
    };
    progress.stage("runs", done, total, "");
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.get() {
            scope.spawn(|| work(&runner, &shared, options, progress, total));
        }
    });
    let outcome = shared
        .outcome
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let runs = folder.done(&cells)?;
    let table = Table::of(design, &runs, options.trustworthy_only);
    if options.shard.is_none() {
        folder.write(&table)?;
    }
    match outcome.fatal {
        Some(error) => Err(error),
        None => Ok(Swept {
            table,
            interrupted: options.stop.load(Ordering::Acquire),
            failures: outcome.failures,
        }),
    }
}

/// Whether any lab runs on this host. Guests with virtual time need no privilege.
fn needs_privilege(design: &Design, options: &SweepOptions) -> Result<bool, Error> {
    if let Some(is_virtual) = options.virtual_time {
        return Ok(!is_virtual);
    }
    for variant in design.variants() {
        let scenario = Scenario::load_with(Path::new(design.file()), &variant.settings)?;
        if scenario.lab.scenario.clock_time != ClockTime::Virtual {
            return Ok(true);
        }
    }
    Ok(false)
}

struct Shared {
    waiting: Mutex<VecDeque<Cell>>,
    outcome: Mutex<Outcome>,
}

struct Outcome {
    done: u64,
    failures: Vec<String>,
    /// An error that makes further runs useless.
    fatal: Option<Error>,
}

/// Executes waiting runs until none is left.
fn work(
    runner: &Runner<'_>,
    shared: &Shared,
    options: &SweepOptions,
    progress: &dyn Progress,
    total: u64,
) {
    while !options.stop.load(Ordering::Acquire) {
        let lock = |outcome: &'_ Mutex<Outcome>| -> bool {
            let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
            outcome.fatal.is_some()
        };
        if lock(&shared.outcome) {
            return;
        }
        let next = shared
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let Some(cell) = next else { return };
        let told = format!("{}, seed {}", cell.variant.label, cell.seed);
        let ended = runner.run(&cell);
        let mut outcome = shared
            .outcome
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match ended {
            Ok(Ended::Done { trustworthy }) => {
                outcome.done += 1;
                let verdict = if trustworthy { "" } else { ": NOT trustworthy" };
                progress.stage("runs", outcome.done, total, &format!("{told}{verdict}"));
            }
            Ok(Ended::Again) => {
                progress.say(&format!("{told}: NOT trustworthy; again"));
                let mut waiting = shared
                    .waiting
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                waiting.push_back(cell);
            }
            Ok(Ended::Failed(why)) => {
                progress.say(&format!("{told}: {why}"));
                outcome.failures.push(format!("{told}: {why}"));
            }
            Ok(Ended::Stopped) => return,
            Err(error) => {
                outcome.fatal.get_or_insert(error);
                return;
            }
        }
    }
}
