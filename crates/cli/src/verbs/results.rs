//! `constel results`: the runs of a folder, or one run's summary.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::run::summary_text;
use crate::args::Results;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// A folder with a `manifest.json` is one run; any other is a folder of runs.
pub(crate) fn run(args: &Results) -> Outcome {
    if args.dir.join("manifest.json").is_file() {
        let summary = read(&args.dir, "summary.json")?;
        if args.json {
            output::json(&summary)?;
        } else {
            output::text(&summary_text(&summary))?;
        }
        return Ok(Exit::Done);
    }
    let mut runs = Vec::new();
    for dir in folders(&args.dir)? {
        let manifest = read(&dir, "manifest.json")?;
        let summary = read(&dir, "summary.json").unwrap_or(Value::Null);
        runs.push(json!({
            "dir": dir, "lab": manifest["lab"], "scenario": manifest["scenario"], "seed": manifest["seed"],
            "finished": !summary.is_null(), "trustworthy": summary["verdict"]["trustworthy"],
            "flows": summary["flows"].as_array().map(Vec::len),
        }));
    }
    if args.json {
        output::json(&runs)?;
        return Ok(Exit::Done);
    }
    let cells = |run: &Value| {
        ["dir", "lab", "seed", "finished", "trustworthy", "flows"]
            .map(|key| output::cell(&run[key]))
            .to_vec()
    };
    let rows: Vec<Vec<String>> = runs.iter().map(cells).collect();
    output::text(&output::table(
        &["RUN", "LAB", "SEED", "FINISHED", "TRUSTWORTHY", "FLOWS"],
        &rows,
    ))?;
    Ok(Exit::Done)
}

fn folders(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(dir).map_err(|error| {
        Failure::Usage(format!(
            "{}: {error}; runs are kept in `results` by default",
            dir.display()
        ))
    })?;
    let mut folders: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("manifest.json").is_file())
        .collect();
    folders.sort();
    Ok(folders)
}

fn read(dir: &Path, name: &str) -> Result<Value, Failure> {
    let path = dir.join(name);
    let text = std::fs::read_to_string(&path).map_err(|error| {
        anyhow::anyhow!(
            "{}: {error}; the run did not finish, or this is no results folder",
            path.display()
        )
    })?;
    Ok(serde_json::from_str(&text)?)
}
