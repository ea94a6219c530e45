//! One run of a sweep: a child process.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use constel_analysis::sweep::{Cell, Design};
use rustix::process::{Pid, Signal, kill_process};

use super::SweepOptions;
use super::folder::Folder;
use crate::error::{Error, Exit};
use crate::results::Run;

/// Interval at which a run is checked: whether it has ended, and whether it must end.
const LOOK: Duration = Duration::from_millis(50);

/// Makes runs.
pub(super) struct Runner<'a> {
    design: &'a Design,
    folder: &'a Folder,
    options: &'a SweepOptions,
    started: AtomicU32,
}

/// How a run ended.
pub(super) enum Ended {
    /// It counts.
    Done { trustworthy: bool },
    /// It is not to be trusted and shall be made again.
    Again,
    /// It has no figures; why.
    Failed(String),
    /// The sweep is stopped.
    Stopped,
}

impl<'a> Runner<'a> {
    pub(super) fn new(design: &'a Design, folder: &'a Folder, options: &'a SweepOptions) -> Self {
        let started = AtomicU32::new(0);
        Self {
            design,
            folder,
            options,
            started,
        }
    }

    /// Makes one attempt.
    pub(super) fn run(&self, cell: &Cell) -> Result<Ended, Error> {
        let Some(_reserved) = self.folder.reserve(cell)? else {
            let why = "another `constel sweep` makes this run";
            return Ok(Ended::Failed(why.to_owned()));
        };
        let before = self.folder.state(cell)?;
        // Two processes may make one shard, for example after a job was moved to another machine.
        if before.is_done(self.options.again) {
            let trustworthy = before.is_trustworthy();
            return Ok(Ended::Done { trustworthy });
        }
        let number = before.last + 1;
        let results = self.folder.attempt(cell, number);
        let log = results.with_extension("log");
        let failed = |source| Error::SweepFolder {
            path: log.clone(),
            source,
        };
        let stderr = File::create(&log).map_err(failed)?;
        let mut command = self.command(cell, &results);
        command.stderr(stderr);
        let child = command.spawn().map_err(|source| Error::SweepFolder {
            path: self.options.program.clone(),
            source,
        })?;
        let code = self.wait(child).map_err(failed)?;
        if self.options.stop.load(Ordering::Acquire) {
            return Ok(Ended::Stopped);
        }
        let state = self.folder.state(cell)?;
        // A run whose software failed has valid measurements: that is a result, not noise.
        let came_to_its_end = match code {
            Some(0 | 3) => !state.finished.is_empty(),
            Some(1) => Run::open(&results)
                .and_then(|run| run.summary().ok())
                .is_some_and(|summary| summary.software.failed),
            _ => false,
        };
        if came_to_its_end {
            let trustworthy = state.is_trustworthy();
            return Ok(if state.is_done(self.options.again) {
                Ended::Done { trustworthy }
            } else {
                Ended::Again
            });
        }
        let why = format!(
            "{}; {} has its whole output",
            last_words(&log),
            log.display()
        );
        let all_will = [Exit::Usage, Exit::Scenario, Exit::Host];
        match all_will
            .into_iter()
            .find(|exit| code == Some(i32::from(exit.code())))
        {
            Some(exit) => Err(Error::RunFailed { exit, why }),
            None => Ok(Ended::Failed(why)),
        }
    }

    fn command(&self, cell: &Cell, results: &Path) -> Command {
        let own = std::process::id();
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let name = match &self.options.name {
            Some(name) => format!("{name}-{number}"),
            None => format!("sweep-{own}-{number}"),
        };
        let mut command = Command::new(&self.options.program);
        command.arg("run").arg(self.design.file());
        for setting in &cell.variant.settings {
            command.arg("--set").arg(setting.to_string());
        }
        command
            .args(["--seed", &cell.seed.to_string()])
            .args(["--name", &name])
            .arg("--results")
            .arg(results)
            // Whatever ends this process, the lab goes down.
            .args(["--ends-with", &own.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if let Some(is_virtual) = self.options.virtual_time {
            command.args(["--time", if is_virtual { "virtual" } else { "real" }]);
        }
        command
    }

    /// Waits for the end of a run, and requests it when the sweep is stopped. Returns the exit code unless a signal ended
    /// the run.
    fn wait(&self, mut child: Child) -> std::io::Result<Option<i32>> {
        let mut asked = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status.code());
            }
            if !asked && self.options.stop.load(Ordering::Acquire) {
                asked = true;
                if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    // Not waited for yet, so the number is still its own.
                    let _ = kill_process(pid, Signal::INT);
                }
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Returns the last line that a run printed.
fn last_words(log: &Path) -> String {
    let text =
        constel_units::files::read(log, constel_units::files::MAX_TEXT_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("it printed nothing").to_owned()
}
