//! `constel clean`: remove what dead labs left behind, and nothing else.

use anyhow::Context;
use constel_host::claim::{LabState, RuntimeDir};
use constel_host::clean::{HostReport, clean_all, clean_lab};
use serde_json::Value;

use super::labs;
use crate::args::Clean;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Says what it removed; fails when something of ours stays.
pub(crate) fn run(args: &Clean) -> Outcome {
    constel_host::probe::require_privilege().map_err(|error| Failure::Host(error.to_string()))?;
    let runtime = RuntimeDir::default();
    let report = match &args.lab {
        None => clean_all(&runtime).context("clean")?,
        Some(name) => {
            let entry = labs::find(name)?;
            if entry.state != LabState::Dead {
                let pid = entry
                    .pid()
                    .map_or_else(String::new, |pid| format!(" (process {pid})"));
                return Err(Failure::Usage(format!(
                    "lab '{name}' is alive{pid}; `constel down {name}` takes it down"
                )));
            }
            let report = HostReport {
                labs: vec![clean_lab(&runtime, &entry.lab)?],
                settings: Vec::new(),
            };
            runtime.remove_if_empty()?;
            report
        }
    };
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&text(&report)?)?;
    }
    let problems: Vec<&str> = report
        .labs
        .iter()
        .flat_map(|lab| lab.problems.iter().map(String::as_str))
        .collect();
    if problems.is_empty() {
        Ok(Exit::Done)
    } else {
        Err(anyhow::anyhow!("not everything could be removed: {}", problems.join("; ")).into())
    }
}

fn text(report: &HostReport) -> serde_json::Result<String> {
    let mut text = String::new();
    for lab in &report.labs {
        for removed in &lab.removed {
            text.push_str(&format!(
                "{}: removed {}\n",
                lab.lab,
                words(&serde_json::to_value(removed)?)
            ));
        }
    }
    for setting in &report.settings {
        text.push_str(&format!(
            "setting {}\n",
            words(&serde_json::to_value(setting)?)
        ));
    }
    if text.is_empty() {
        text.push_str("nothing to clean\n");
    }
    Ok(text)
}

/// `{"removed": "cgroup", "path": "/x"}` as `cgroup path=/x`.
fn words(value: &Value) -> String {
    let fields = value.as_object().into_iter().flatten().map(|(key, value)| {
        let cell = output::cell(value);
        if ["removed", "outcome"].contains(&key.as_str()) {
            cell
        } else {
            format!("{key}={cell}")
        }
    });
    fields.collect::<Vec<_>>().join(" ")
}
