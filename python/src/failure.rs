//! Errors of Constel as exceptions of `constel.errors`.

use constel_scenario::Diagnostics;
use constel_units::files;
use pyo3::prelude::*;

/// The exit code of the command line for what does not exist or does not go together.
const USAGE: u8 = 2;
/// For a scenario that is not valid.
const SCENARIO: u8 = 4;

/// The exception for a scenario that is not valid, with all findings.
pub(crate) fn invalid(found: &Diagnostics) -> PyErr {
    let findings = serde_json::to_string(found).unwrap_or_default();
    make(SCENARIO, found.to_string().trim_end(), &findings)
}

/// The exception for a scenario that cannot be read.
pub(crate) fn unreadable(file: &str, reason: impl std::fmt::Display) -> PyErr {
    make(
        SCENARIO,
        &format!("{file}: cannot read the scenario: {reason}"),
        "",
    )
}

/// The exception for a request for something that does not exist or does not go together.
pub(crate) fn usage(error: impl std::fmt::Display) -> PyErr {
    make(USAGE, &error.to_string(), "")
}

fn make(exit: u8, message: &str, findings: &str) -> PyErr {
    let message = files::in_words(&message);
    let made = Python::attach(|py| {
        let errors = py.import("constel.errors")?;
        let made = errors
            .getattr("_of_native")?
            .call1((exit, message.as_str(), findings))?;
        PyResult::Ok(PyErr::from_value(made))
    });
    made.unwrap_or_else(|why| why)
}
