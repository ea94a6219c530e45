//! Reading a scenario file, for every verb that takes one.

use std::path::Path;

use constel_control::{Error, Scenario};

use crate::output;

/// Reads and lays out a scenario; warns on stderr of data that is old.
///
/// # Errors
/// As [`Scenario::load`].
pub(crate) fn load(file: &Path) -> Result<Scenario, Error> {
    let scenario = Scenario::load(file)?;
    output::tell(&age_warnings(&scenario));
    Ok(scenario)
}

/// What the user should know about the age of the scenario's data, a line each; often nothing.
pub(crate) fn age_warnings(scenario: &Scenario) -> String {
    let lines = scenario.age_warnings();
    lines.map(|line| format!("warning: {line}\n")).collect()
}
