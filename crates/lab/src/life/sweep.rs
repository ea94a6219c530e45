//! The last clean-up of a run, whatever its outcome.

use std::time::Duration;

use constel_host::cgroup::LabCgroup;
use constel_host::claim::LabName;
use constel_host::globals::Globals;
use constel_host::process::{self, ProcessSelection};

use crate::error::EngineError;

/// The time after which a killed process that still exists will not end at all.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// Ends every process of the lab that its cgroups or its mark identify.
///
/// # Errors
/// The first failure, after every step was tried.
pub(crate) fn end_processes(lab: &LabName) -> Result<(), EngineError> {
    // A lab may have cgroups in several hierarchies.
    let groups = LabCgroup::open_all(lab)?;
    let mut outcome = Ok(());
    for group in &groups {
        outcome = outcome.and(group.kill_all(KILLED_WITHIN).map(|_| ()));
    }
    let killed = process::kill_marked(lab.as_str(), ProcessSelection::Mine, KILLED_WITHIN);
    Ok(outcome.and(killed.map(|_| ()))?)
}

/// Ends processes, removes their cgroups and restores host-wide settings.
///
/// # Errors
/// The first failure, after every step was tried.
pub(crate) fn sweep(lab: &LabName, globals: &Globals) -> Result<(), EngineError> {
    let ended = end_processes(lab);
    // Only empty cgroups can be removed.
    let removed = LabCgroup::open_all(lab).and_then(|groups| {
        let mut outcome = Ok(());
        for group in groups {
            outcome = outcome.and(group.remove(KILLED_WITHIN).map(|_| ()));
        }
        outcome
    });
    let restored = globals.release_all(lab.as_str());
    ended?;
    removed?;
    restored?;
    Ok(())
}
