//! `constel check`: checks a scenario.

use std::collections::BTreeMap;

use constel_analysis::Coverage;
use constel_analysis::capacity::Estimate;
use constel_control::{Error, Finding, MachineCheck};
use constel_measure::verdict::Bounds;
use constel_plan::Lab;
use serde::Serialize;
use serde_json::json;

use super::there::{There, looked_text};
use crate::args::Check;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Prints only one line if there is nothing to report.
pub(crate) fn run(args: &Check) -> Outcome {
    let told = |error: &Error| {
        if let (true, Error::Scenario(findings)) = (args.json, error) {
            // If stdout is closed, the exit code still has the result.
            let left_out = findings.left_out();
            drop(output::json(
                &json!({"ok": false, "errors": findings, "left_out": left_out}),
            ));
        }
    };
    let settings = args.changes.settings();
    if let Some(scenario) = super::scenario::read_box(&args.file, &settings).inspect_err(told)? {
        return super::middlebox::checked(args, &scenario);
    }
    let loaded = super::scenario::read(&args.file, &settings).inspect_err(told)?;
    let found = loaded.check()?;
    let here = args.here.then(|| loaded.here(true));
    let management = args.here.then(|| loaded.management_here()).flatten();
    let there = There::of(&args.on)?.map(|there| there.look(&loaded));
    let there = there.transpose()?;
    if args.json {
        output::json(&Found {
            found: &found,
            here: here.as_ref(),
            management: management.as_ref(),
            there: there.as_ref(),
        })?;
    } else {
        let on_cables = match found.hosts {
            0 => String::new(),
            n => format!(", {}", some(n, "host")),
        };
        output::text(&format!(
            "{}: valid: {}, {}{on_cables}, {} at 0 s, {}\n",
            loaded.file,
            some(found.satellites, "satellite"),
            some(found.stations, "station"),
            some(found.edges_at_0s, "edge"),
            some(found.flows, "flow"),
        ))?;
        output::text(&sorted_text(&loaded.lab))?;
        output::text(&super::scenario::age_warnings(&loaded))?;
        output::text(&sky_text(&found.sky))?;
        for warning in &found.warnings {
            output::text(&format!("warning: {warning}\n"))?;
        }
        let bounds = Bounds::with_lateness(found.max_lateness_ns);
        if bounds != Bounds::default() {
            output::text(&format!(
                "lateness of frames, 99th percentile: {}\n",
                bounds.lateness_in_words()
            ))?;
        }
        if let Some(here) = &here {
            output::text(&here_text(here))?;
        }
        if let Some(management) = management.filter(|management| !management.ok) {
            let Finding { detail, remedy, .. } = management;
            let remedy = if remedy.is_empty() {
                remedy
            } else {
                format!("\n  {remedy}")
            };
            output::text(&format!("warning: {detail}{remedy}\n"))?;
        }
        if let Some(there) = &there {
            output::text(&looked_text(there))?;
        }
    }
    if let Some(there) = there.filter(|there| !there.refusals.is_empty()) {
        return Err(constel_control::Error::NotOnSeveral(there.refusals.join("\n  ")).into());
    }
    match here {
        Some(here) if here.hopeless().next().is_some() => Err(Failure::Host(format!(
            "this machine is too small:\n  {}",
            here.short.join("\n  ")
        ))),
        _ => Ok(Exit::Done),
    }
}

/// The JSON output.
#[derive(Serialize)]
struct Found<'a> {
    #[serde(flatten)]
    found: &'a constel_control::Check,
    #[serde(skip_serializing_if = "Option::is_none")]
    here: Option<&'a Estimate>,
    /// The test of `management`, with `--here`.
    #[serde(skip_serializing_if = "Option::is_none")]
    management: Option<&'a Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    there: Option<&'a MachineCheck>,
}

/// Formats the lab's resources on this machine, a line for each.
fn here_text(here: &Estimate) -> String {
    let mut text = "here, estimated:\n".to_owned();
    for figure in &here.figures {
        text += &format!("  {:<26} {}\n", figure.name(), figure.in_words());
    }
    for flow in &here.needs.flows.unknown {
        text += &format!("  not in it: what flow {flow} sends\n");
    }
    for short in here
        .short
        .iter()
        .filter(|_| here.hopeless().next().is_none())
    {
        text += &format!("warning: {short}\n");
    }
    text
}

/// Returns `1 flow`, `2 flows`.
pub(super) fn some(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Formats the satellites found in element files: shells, and reasons why objects are in none.
fn sorted_text(lab: &Lab) -> String {
    let mut text = String::new();
    for shell in lab.shells.iter() {
        let (least, most) = shell.per_plane;
        text += &format!(
            "shell {} of {}: {} satellites in {} planes ({least} to {most} each), nodes {:.2} deg apart or more\n",
            shell.shell,
            shell.constellation,
            shell.satellites,
            shell.planes,
            shell.narrowest_gap_deg,
        );
    }
    let mut kinds: BTreeMap<_, usize> = BTreeMap::new();
    for out in lab.left_out.iter() {
        *kinds.entry((&out.constellation, out.kind)).or_default() += 1;
    }
    for ((constellation, kind), count) in kinds {
        text += &format!("left out of {constellation}: {count} {kind}\n");
    }
    if !lab.left_out.is_empty() {
        text += "  `constel check FILE --json` names them, each with its reason\n";
    }
    text
}

/// Formats the parts of the scenario that the network cannot provide; one line if it provides all.
fn sky_text(sky: &Coverage) -> String {
    let looked = format!(
        "sampled every {} s from {} s to {} s",
        sky.every_s, sky.from_s, sky.to_s
    );
    let length_s = sky.to_s - sky.from_s;
    let mut lines = Vec::new();
    for station in sky.stations.iter().filter(|s| s.dark_s > 0.0) {
        lines.push(format!(
            "  {} has no link for {:.1} % of the time, up to {:.1} s at once, first at {} s",
            station.station,
            station.dark_s / length_s * 100.0,
            station.longest_dark_s,
            station.first_dark_s.unwrap_or(0.0),
        ));
    }
    for flow in &sky.flows {
        match (flow.path_ratio, flow.first_without_s) {
            (Some(ratio), Some(first_s)) => lines.push(format!(
                "  {}: {} and {} have a path for {:.1} % of its time, first outage at {first_s} s",
                flow.flow,
                flow.from,
                flow.to,
                ratio * 100.0
            )),
            (None, _) => lines.push(format!(
                "  {}: runs at none of the sampled times",
                flow.flow
            )),
            _ => {}
        }
    }
    if lines.is_empty() {
        let all = match (sky.stations.is_empty(), sky.flows.is_empty()) {
            (true, true) => return String::new(),
            (true, false) => "every flow has a path",
            (false, true) => "every station has a link",
            (false, false) => "every station has a link and every flow a path",
        };
        return format!("sky: {all}, all the time ({looked})\n");
    }
    // A scenario may have a thousand stations; the full list is in `constel plan --coverage`.
    const MOST: usize = 20;
    let more = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    if more > 0 {
        lines.push(format!(
            "  and {more} more: `constel plan FILE --coverage` shows all"
        ));
    }
    format!(
        "sky: the network cannot provide everything that the scenario needs ({looked})\n{}\n",
        lines.join("\n")
    )
}
