//! Reads a scenario file, for every verb that takes one.

use std::io::Read;
use std::path::Path;

use constel_control::{Error, Scenario};
use constel_scenario::model::BoxScenario;
use constel_scenario::{MAX_BYTES, Setting};

use crate::args::Changes;
use crate::output;

/// Reads and lays out a scenario with its changes; warns on stderr about old data.
///
/// # Errors
/// As [`Scenario::load_with`].
pub(crate) fn load(file: &Path, changes: &Changes) -> Result<Scenario, Error> {
    let scenario = read(file, &changes.settings())?;
    output::tell(&age_warnings(&scenario));
    Ok(scenario)
}

/// Reads and lays out a scenario file; `-` is standard input.
///
/// # Errors
/// As [`Scenario::load_with`].
pub(crate) fn read(file: &Path, settings: &[Setting]) -> Result<Scenario, Error> {
    if file != Path::new(STANDARD_INPUT) {
        return Scenario::load_with(file, settings);
    }
    let mut text = String::new();
    // One byte above the maximum is enough to reject the input.
    let mut input = std::io::stdin().lock().take(MAX_BYTES as u64 + 1);
    if let Err(error) = input.read_to_string(&mut text) {
        return Err(Error::Unreadable {
            file: STANDARD_INPUT.to_owned(),
            reason: error.to_string(),
        });
    }
    Scenario::from_text_with("<stdin>", &text, settings, Path::new(""))
}

/// Reads the file as a box scenario, if it is one. Standard input never is.
///
/// # Errors
/// As [`constel_control::load_box`].
pub(crate) fn read_box(file: &Path, settings: &[Setting]) -> Result<Option<BoxScenario>, Error> {
    if file == Path::new(STANDARD_INPUT) {
        return Ok(None);
    }
    constel_control::load_box(file, settings)
}

/// The file name of standard input.
const STANDARD_INPUT: &str = "-";

/// Returns warnings about the age of the scenario's data, a line each; often none.
pub(crate) fn age_warnings(scenario: &Scenario) -> String {
    let lines = scenario.age_warnings();
    lines.map(|line| format!("warning: {line}\n")).collect()
}
