//! `constel clean`: removes everything that crashed labs left behind, and nothing else.

use std::path::PathBuf;

use constel_control::{HostReport, clean};
use serde::Serialize;
use serde_json::Value;

use crate::args::Clean;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Prints the removed objects; fails if an object of ours remains.
pub(crate) fn run(args: &Clean) -> Outcome {
    let report = clean(args.lab.as_deref())?;
    let parts = match args.lab {
        None => constel_cluster::agent::labs::clear_left()?,
        Some(_) => Vec::new(),
    };
    if args.json {
        output::json(&Cleaned {
            report: &report,
            parts: &parts,
        })?;
    } else {
        output::text(&text(&report, &parts)?)?;
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
    /// Folders of parts whose agents were killed.
    #[serde(skip_serializing_if = "<[PathBuf]>::is_empty")]
    parts: &'a [PathBuf],
}

fn text(report: &HostReport, parts: &[PathBuf]) -> serde_json::Result<String> {
    let mut text = String::new();
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
