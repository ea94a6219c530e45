//! What a run is asked for, and what it answers.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use constel_api::summary::Summary;
use constel_host::claim::LabName;

use crate::life::together::Together;
use crate::watch::event_log::EventLog;

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
    /// Whether it is tried even where it will not fit on the machine.
    pub anyway: bool,
    /// How often a second the counters of all interfaces are written down; `None`: never.
    pub profile_hz: Option<NonZeroU32>,
    /// This machine's part, where the lab is on several.
    pub together: Option<Together>,
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
