//! The options of a run, and its result.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use constel_api::summary::Summary;
use constel_host::claim::LabName;
use constel_scenario::Scenario;
use constel_scenario::model::Flow;

use crate::life::together::ClusterPart;
use crate::watch::event_log::EventLog;

/// The end of a lab that has none, in lab time: 146 years, so that sums with other times stay in range.
pub(crate) const NEVER_NS: u64 = u64::MAX / 4;

/// The options of a run.
pub struct Options {
    /// The lab's name.
    pub lab: LabName,
    /// The scenario file as the user named it.
    pub scenario_file: String,
    /// The text of the file, which is kept with the results.
    pub scenario_text: String,
    /// The results folder; must not exist.
    pub results: PathBuf,
    /// Lab time to run, nanoseconds. `None`: until the lab is taken down.
    pub duration_ns: Option<u64>,
    /// Whether the scenario's traffic runs.
    pub traffic: bool,
    /// Whether the lab runs even if it does not fit on the machine.
    pub anyway: bool,
    /// How often per second the counters of all interfaces are recorded; `None` for never.
    pub profile_hz: Option<NonZeroU32>,
    /// Whether lab time begins only when a live policy has joined. The plan then has a fingerprint.
    pub await_policy: bool,
    /// This machine's part of a lab on several machines.
    pub together: Option<ClusterPart>,
    /// Set from outside to end the run.
    pub stop: Arc<AtomicBool>,
    /// The event log, empty and for this run only. It is closed when the run is over.
    pub events: Arc<EventLog>,
}

impl Options {
    /// Returns the flows of a scenario that run with these options.
    pub(crate) fn flows<'a>(&self, scenario: &'a Scenario) -> &'a [Flow] {
        match self.traffic {
            true => &scenario.traffic,
            false => &[],
        }
    }
}

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The summary, also in `summary.json`.
    pub summary: Summary,
    /// The results folder.
    pub results: PathBuf,
}
