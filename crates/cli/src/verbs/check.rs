//! `constel check`: is a scenario good?

use constel_plan::Document;
use constel_units::TimeSpan;
use serde_json::json;

use super::scenario;
use crate::args::Check;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Prints nothing but a line when all is well.
pub(crate) fn run(args: &Check) -> Outcome {
    let mut findings = None;
    let loaded = scenario::load(&args.file, |found| {
        findings = Some(serde_json::to_value(found));
        scenario::rendered(found)
    });
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => {
            if let (true, Some(findings)) = (args.json, findings) {
                output::json(&json!({"ok": false, "errors": findings?}))?;
            }
            return Err(failure);
        }
    };
    let lab = &loaded.lab;
    let document =
        Document::at(lab, TimeSpan::from_ns(0)).map_err(|e| Failure::Scenario(format!("{e}\n")))?;
    let satellites = lab.layout.satellite_count();
    let stations = lab.layout.nodes().len() - satellites;
    if args.json {
        output::json(&json!({
            "ok": true, "errors": [], "satellites": satellites, "stations": stations,
            "edges_at_0s": document.edges.len(), "flows": lab.scenario.traffic.len(),
            "left_out": lab.left_out.len(),
        }))?;
    } else {
        let left_out = match lab.left_out.len() {
            0 => String::new(),
            n => format!(", {n} objects of element files left out"),
        };
        output::text(&format!(
            "{}: good: {satellites} satellites, {stations} stations, {} edges at 0 s, {} flows{left_out}\n",
            loaded.file,
            document.edges.len(),
            lab.scenario.traffic.len(),
        ))?;
    }
    Ok(Exit::Done)
}
