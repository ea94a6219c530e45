//! Finding a lab by its name.

use constel_api::{Client, ClientError, Request};
use constel_host::claim::{LabEntry, LabName, LabState, RuntimeDir};
use constel_scenario::nearest;
use serde_json::Value;

use crate::exit::Failure;

/// The lab of that name, living or dead.
///
/// # Errors
/// [`Failure::Usage`] when there is none; names the nearest.
pub(crate) fn find(name: &str) -> Result<LabEntry, Failure> {
    let runtime = RuntimeDir::default();
    let lab: LabName = name
        .parse()
        .map_err(|error| Failure::Usage(format!("{error}")))?;
    if let Some(entry) = runtime.find(&lab)? {
        return Ok(entry);
    }
    let labs = runtime.list()?;
    let hint = match nearest(name, labs.iter().map(|entry| entry.lab.as_str())) {
        Some(near) => format!("; did you mean '{near}'?"),
        None if labs.is_empty() => "; no lab is running (constel run FILE starts one)".to_owned(),
        None => "; `constel list` names them all".to_owned(),
    };
    Err(Failure::Usage(format!("no lab is called '{name}'{hint}")))
}

/// The lab of that name, if it lives.
///
/// # Errors
/// [`Failure::Usage`] when there is none, [`Failure::Failed`] when it is dead.
pub(crate) fn find_alive(name: &str) -> Result<LabEntry, Failure> {
    let entry = find(name)?;
    if entry.state == LabState::Dead {
        return Err(anyhow::anyhow!(
            "lab '{name}' is dead; `constel clean {name}` removes what it left"
        )
        .into());
    }
    Ok(entry)
}

/// Connects to a living lab.
///
/// # Errors
/// As [`find_alive`]; or when it does not answer.
pub(crate) fn connect(name: &str) -> Result<Client, Failure> {
    let entry = find_alive(name)?;
    Client::connect(&entry.dir).map_err(|error| {
        anyhow::Error::new(error)
            .context(format!("lab '{name}'"))
            .into()
    })
}

/// Asks a living lab one question.
///
/// # Errors
/// As [`connect`]; [`Failure::Usage`] when the lab refuses the question.
pub(crate) fn ask(name: &str, request: &Request) -> Result<Value, Failure> {
    match connect(name)?.ask(request) {
        Ok(value) => Ok(value),
        Err(ClientError::Refused(reason)) => Err(Failure::Usage(reason)),
        Err(error) => Err(anyhow::Error::new(error)
            .context(format!("lab '{name}'"))
            .into()),
    }
}
