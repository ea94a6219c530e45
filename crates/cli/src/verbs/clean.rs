//! `constel clean`: removes everything that crashed labs left behind, and nothing else.

use std::path::PathBuf;

use constel_control::{Error, HostReport, Stopped, clean, clear_stopped};
use serde::Serialize;
use serde_json::Value;

use crate::args::Clean;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Prints the removed objects; fails if an object of ours remains.
pub(crate) fn run(args: &Clean) -> Outcome {
    let lab = args.lab.as_deref();
    let report = match clean(lab) {
        // After a reboot nothing of it is left but its record.
        Err(Error::NoLab { .. }) if was_staying(lab) => HostReport::default(),
        report => report?,
    };
    let stopped = clear_stopped(lab)?;
    let parts = match args.lab {
        None => constel_cluster::agent::labs::clear_left()?,
        Some(_) => Vec::new(),
    };
    if args.json {
        output::json(&Cleaned {
            report: &report,
            stopped: &stopped,
            parts: &parts,
        })?;
    } else {
        output::text(&text(&report, &stopped, &parts)?)?;
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

/// The JSON output.
#[derive(Serialize)]
struct Cleaned<'a> {
    #[serde(flatten)]
    report: &'a HostReport,
    /// Labs of `constel up` that stopped without being taken down.
    #[serde(skip_serializing_if = "<[Stopped]>::is_empty")]
    stopped: &'a [Stopped],
    /// Folders of parts whose agents were killed.
    #[serde(skip_serializing_if = "<[PathBuf]>::is_empty")]
    parts: &'a [PathBuf],
}

/// Whether a lab of `constel up` had this name when it stopped.
fn was_staying(lab: Option<&str>) -> bool {
    lab.is_some_and(|lab| constel_control::staying(lab).is_ok())
}

fn text(report: &HostReport, stopped: &[Stopped], parts: &[PathBuf]) -> serde_json::Result<String> {
    let mut text = String::new();
    for own in stopped {
        let why = match own.rebooted {
            true => "the machine was started again",
            false => "its process was killed",
        };
        text.push_str(&format!(
            "{}: was running since {:.0}, until {why}\n  results so far: {}\n  to start it again: cd {} && {}\n",
            own.lab,
            own.started,
            own.results.display(),
            own.folder.display(),
            own.command,
        ));
    }
    for lab in &report.labs {
        for removed in &lab.removed {
            text.push_str(&format!("{}: removed {}\n", lab.lab, words(removed)?));
        }
    }
    for setting in &report.settings {
        text.push_str(&format!("setting {}\n", words(setting)?));
    }
    for part in parts {
        text.push_str(&format!("removed folder path={}\n", part.display()));
    }
    if text.is_empty() {
        text.push_str("nothing to clean\n");
    }
    Ok(text)
}

/// `{"removed": "cgroup", "path": "/x"}` as `cgroup path=/x`.
fn words(removed: &impl Serialize) -> serde_json::Result<String> {
    let value = serde_json::to_value(removed)?;
    let fields = value.as_object().into_iter().flatten();
    let words = fields.map(|(key, value): (&String, &Value)| {
        let cell = output::cell(value);
        if ["removed", "outcome"].contains(&key.as_str()) {
            cell
        } else {
            format!("{key}={cell}")
        }
    });
    Ok(words.collect::<Vec<_>>().join(" "))
}
