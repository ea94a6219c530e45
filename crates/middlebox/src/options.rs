//! The options of a box, and its outcome.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::error::BoxError;
use constel_api::summary::Summary;
use constel_host::claim::LabName;
use constel_lab::EventLog;
use constel_scenario::model::{BoxEnds, BoxForm, MachineCommand, RuleFile};

/// The options of a box.
#[derive(Debug)]
pub struct Options {
    /// The name among the labs of this host.
    pub name: LabName,
    /// The interfaces or machines between which the box runs.
    pub ends: BoxEnds,
    /// The forwarding between them.
    pub form: BoxForm,
    /// Commands in the machines, if the lab creates them; in the order of their starts.
    pub commands: Vec<MachineCommand>,
    /// The rules.
    pub rules: RuleFile,
    /// The folder of the rule file, to which paths in rules are relative.
    pub folder: PathBuf,
    /// The folder for the results, which must not exist.
    pub results: PathBuf,
    /// The duration; `None` until the box is stopped.
    pub duration: Option<Duration>,
    /// Whether all frames go through the box, with the host's own. Otherwise frames for the host stay with it.
    pub exclusive: bool,
    /// The time within which a user must confirm the box; otherwise it ends itself. With it, the box may use
    /// interfaces that would be refused because the host could become unreachable.
    pub confirm_within: Option<Duration>,
    /// Ends the box when it is set.
    pub stop: Arc<AtomicBool>,
    /// The log of events.
    pub events: Arc<EventLog>,
}

impl Options {
    /// Returns the error for a results folder that could not be written.
    pub(crate) fn no_results(&self, source: std::io::Error) -> BoxError {
        BoxError::Results {
            path: self.results.clone(),
            source,
        }
    }
}

/// The outcome of a box.
#[derive(Debug)]
pub struct Finished {
    /// The summary, as in the results folder.
    pub summary: Summary,
    /// The results folder.
    pub results: PathBuf,
    /// Whether the box ended itself because it was not confirmed.
    pub unconfirmed: bool,
}
