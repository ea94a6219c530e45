//! What a box is asked for, and what it came to.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::error::BoxError;
use constel_api::summary::Summary;
use constel_host::claim::LabName;
use constel_lab::EventLog;
use constel_scenario::model::{BoxEnds, BoxForm, MachineCommand, RuleFile};

/// What a box is asked for.
#[derive(Debug)]
pub struct Options {
    /// Its name among the labs of this host.
    pub name: LabName,
    /// What it is between.
    pub ends: BoxEnds,
    /// How it joins them.
    pub form: BoxForm,
    /// Commands in the machines, if it is between such; in the order of their starts.
    pub commands: Vec<MachineCommand>,
    /// The rules.
    pub rules: RuleFile,
    /// The folder of the file of rules, that paths in rules are relative to.
    pub folder: PathBuf,
    /// Folder that receives the results, which must not exist.
    pub results: PathBuf,
    /// How long it runs; until it is stopped unless given.
    pub duration: Option<Duration>,
    /// Whether all frames go through the box, the host's own too; else those stay the host's.
    pub exclusive: bool,
    /// The box takes itself down unless somebody confirms it within this; what would be refused because the host could
    /// become unreachable is then allowed.
    pub confirm_within: Option<Duration>,
    /// Ends the box when it is set.
    pub stop: Arc<AtomicBool>,
    /// What happens.
    pub events: Arc<EventLog>,
}

impl Options {
    /// The results folder could not be written.
    pub(crate) fn no_results(&self, source: std::io::Error) -> BoxError {
        BoxError::Results {
            path: self.results.clone(),
            source,
        }
    }
}

/// What a box came to.
#[derive(Debug)]
pub struct Finished {
    /// The summary, as in the results folder.
    pub summary: Summary,
    /// The results folder.
    pub results: PathBuf,
    /// Whether it took itself down because nobody confirmed it.
    pub unconfirmed: bool,
}
