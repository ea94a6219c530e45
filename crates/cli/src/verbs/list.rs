//! `constel list`: the labs of this host.

use constel_host::claim::{LabEntry, RuntimeDir};
use serde_json::{Value, json};

use crate::args::Json;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Living and dead ones.
pub(crate) fn run(args: &Json) -> Outcome {
    let labs = RuntimeDir::default().list()?;
    let rows: Vec<Value> = labs.iter().map(row).collect::<Result<_, _>>()?;
    if args.json {
        output::json(&rows)?;
        return Ok(Exit::Done);
    }
    let cells = |row: &Value| {
        ["lab", "state", "scenario", "pid", "nodes", "edges"]
            .map(|key| output::cell(&row[key]))
            .to_vec()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    output::text(&output::table(
        &["LAB", "STATE", "SCENARIO", "PID", "NODES", "EDGES"],
        &rows,
    ))?;
    Ok(Exit::Done)
}

fn row(entry: &LabEntry) -> serde_json::Result<Value> {
    let record = entry.record.as_ref();
    Ok(json!({
        "lab": entry.lab,
        "state": serde_json::to_value(entry.state)?,
        "scenario": record.map(|r| &r.scenario),
        "pid": entry.pid(),
        "nodes": record.map_or(0, |r| r.nodes),
        "edges": record.map_or(0, |r| r.edges),
    }))
}
