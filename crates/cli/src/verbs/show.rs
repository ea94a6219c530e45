//! `constel show`: one running lab.

use constel_api::Request;
use serde_json::Value;

use super::labs;
use crate::args::Lab;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Nodes and the link plane's health.
pub(crate) fn run(args: &Lab) -> Outcome {
    let shown = labs::ask(&args.lab, &Request::Show)?;
    if args.json {
        output::json(&shown)?;
        return Ok(Exit::Done);
    }
    let seconds = shown["t_ns"]
        .as_u64()
        .map_or_else(|| "held".to_owned(), |t| format!("{:.1} s", t as f64 / 1e9));
    let mut text = format!(
        "{}: {} ({}), lab time {seconds}, {} edges\n",
        args.lab,
        output::cell(&shown["state"]),
        output::cell(&shown["scenario"]),
        output::cell(&shown["edges"]),
    );
    let relay = &shown["relay"];
    if let Some(p99) = relay["lateness"]["p99_ns"].as_u64() {
        let drops = relay["unintended"].as_object();
        let lost: u64 = drops
            .into_iter()
            .flatten()
            .filter_map(|(_, count)| count.as_u64())
            .sum();
        text.push_str(&format!(
            "link plane: {} frames delivered, lateness p99 {}, {lost} lost by the emulator\n",
            output::cell(&relay["delivered"]),
            output::ms(p99 as f64),
        ));
    }
    let rows: Vec<Vec<String>> = shown["node_list"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|node: &Value| {
            ["name", "kind", "ipv4", "ipv6", "links"]
                .map(|k| output::cell(&node[k]))
                .to_vec()
        })
        .collect();
    text.push_str(&output::table(
        &["NODE", "KIND", "IPV4", "IPV6", "LINKS"],
        &rows,
    ));
    output::text(&text)?;
    Ok(Exit::Done)
}
