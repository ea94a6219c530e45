//! One run, from claiming the lab's name to giving it back.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use constel_api::summary::Summary;
use constel_host::cgroup::LabCgroup;
use constel_host::claim::{LabName, RuntimeDir};
use constel_host::globals::Globals;
use constel_host::process;
use constel_plan::Lab;

use crate::error::EngineError;
use crate::life::preflight::{choose, preflight};
use crate::life::session::session;
use crate::progress::Progress;
use crate::watch::event_log::EventLog;

/// Killed processes that are not gone by then never will be.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// What a run is asked for.
pub struct Options {
    /// The lab's name.
    pub lab: LabName,
    /// The scenario file as the user named it.
    pub scenario_file: String,
    /// Its text, kept with the results.
    pub scenario_text: String,
    /// The results folder; must not exist.
    pub results: PathBuf,
    /// Lab time to run, nanoseconds, if not the scenario's.
    pub duration_ns: Option<u64>,
    /// Whether the scenario's traffic runs.
    pub traffic: bool,
    /// Set from outside to end the run.
    pub stop: Arc<AtomicBool>,
    /// Receives what happens; empty, and of this run alone. It is closed when the run is over.
    pub events: Arc<EventLog>,
}

/// A run that came to its end.
#[derive(Debug)]
pub struct Finished {
    /// What it came to; also in `summary.json`.
    pub summary: Summary,
    /// Its results folder.
    pub results: PathBuf,
}

/// Runs a lab in the foreground.
///
/// # Errors
/// Whatever kept it from running; what had been made by then has been removed.
pub fn run(lab: Lab, options: &Options, progress: &dyn Progress) -> Result<Finished, EngineError> {
    preflight(&lab, options.traffic)?;
    let driver = choose(&lab)?;
    let runtime = RuntimeDir::default();
    let mut claim = runtime
        .claim(&options.lab, &options.scenario_file)
        .map_err(|error| match error {
            constel_host::Error::Conflict(reason) => EngineError::Taken(reason),
            other => other.into(),
        })?;
    let globals = runtime.globals();
    let outcome = session(lab, &driver, options, &mut claim, progress);
    // Whatever came of it: nothing of ours stays.
    let name = options.lab.clone();
    let swept = sweep(&name, &globals);
    let released = claim.release();
    drop(runtime.remove_if_empty());
    options.events.close();
    let finished = outcome?;
    swept?;
    released?;
    Ok(finished)
}

/// Ends processes and gives host-wide settings back.
fn sweep(lab: &LabName, globals: &Globals) -> Result<(), EngineError> {
    for cgroup in LabCgroup::open_all(lab)? {
        cgroup.kill_all(KILLED_WITHIN)?;
        cgroup.remove(KILLED_WITHIN)?;
    }
    process::kill_marked(lab.as_str(), process::Whose::Mine, KILLED_WITHIN)?;
    globals.release_all(lab.as_str())?;
    Ok(())
}
