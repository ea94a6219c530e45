//! `constel box show`: a box's rules with their counters.

use constel_api::answers::{BoxShown, DirectionCounters, ViaShown};
use constel_control::Observer;

use crate::args::Lab;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Prints the box once.
pub(super) fn run(args: &Lab) -> Outcome {
    let shown = Observer::attach(&args.lab)?.rules()?;
    if args.json {
        output::json(&shown)?;
    } else {
        output::text(&text(&shown))?;
    }
    Ok(Exit::Done)
}

const HEAD: [&str; 12] = [
    "RULE",
    "DIRECTION",
    "FRAMES",
    "BYTES",
    "DROPS",
    "DUPS",
    "INSIDE",
    "AVERAGE",
    "PRESENT",
    "LAST",
    "DELAY P50/P99",
    "LATE P99",
];

/// Formats a table with a line for each rule and direction.
pub(super) fn text(shown: &BoxShown) -> String {
    let lab = &shown.lab;
    let names: Vec<&str> = shown
        .interfaces
        .iter()
        .map(|wire| wire.name.as_str())
        .collect();
    let mut text = format!(
        "{}: {} ({}), {}, {} rules\n",
        lab.lab,
        lab.state.as_str(),
        names.join(" <-> "),
        shown.mode,
        shown.rules.len()
    );
    for wire in &shown.interfaces {
        text.push_str(&format!(
            "{}: {}, MTU {}, {} frames out, {} refused\n",
            wire.name, wire.mac, wire.mtu, wire.sent, wire.refused
        ));
    }
    if let Some(left) = shown.confirm_within_s {
        let name = &lab.lab;
        text.push_str(&format!(
            "stops in {left:.0} s unless `constel box confirm {name}` runs\n"
        ));
    }
    if let Some(lateness) = shown.relay.as_ref().and_then(|relay| relay.lateness) {
        text.push_str(&format!(
            "lateness p99 {}\n",
            output::ms(lateness.p99_ns as f64)
        ));
    }
    let rules = shown.rules.iter().flat_map(|rule| {
        let ways = rule.directions.iter();
        ways.map(|(way, did)| cells(&rule.name, way, did))
    });
    let unmatched = shown.unmatched.iter();
    let unmatched = unmatched.map(|(way, did)| cells("(no rule)", way, did));
    let rows: Vec<Vec<String>> = rules.chain(unmatched).collect();
    text.push_str(&output::table(&HEAD, &rows));
    let ways = shown.rules.iter().flat_map(|rule| {
        let ways = rule.directions.iter();
        ways.filter_map(|(way, did)| Some(via_cells(&rule.name, way, did.via.as_ref()?)))
    });
    let ways: Vec<Vec<String>> = ways.collect();
    if !ways.is_empty() {
        text.push_str(&output::table(
            &["RULE", "DIRECTION", "DELAY", "VIA"],
            &ways,
        ));
    }
    text
}

fn via_cells(name: &str, way: &str, via: &ViaShown) -> Vec<String> {
    let delay = via.delay_ns.map(|ns| output::ms(ns as f64));
    let radio = via.radio_bps.map_or_else(String::new, |bps| {
        format!(" at {}", output::rate(bps as f64))
    });
    vec![
        name.to_owned(),
        way.to_owned(),
        delay.unwrap_or_else(|| "no path".to_owned()),
        via.satellites.join(" ") + &radio,
    ]
}

fn cells(name: &str, way: &str, did: &DirectionCounters) -> Vec<String> {
    vec![
        name.to_owned(),
        way.to_owned(),
        did.frames.to_string(),
        did.bytes.to_string(),
        did.drops.to_string(),
        did.duplicates.to_string(),
        did.queue_frames.to_string(),
        output::rate(did.average_bps),
        output::rate(did.present_bps),
        did.last_frame_s
            .map_or_else(|| "never".to_owned(), |s| format!("{s:.1} s ago")),
        did.inside.map_or_else(String::new, |of| {
            let [middle, most] = [of.p50_ns, of.p99_ns].map(|ns| output::ms(ns as f64));
            format!("{middle}/{most}")
        }),
        did.lateness
            .map_or_else(String::new, |of| output::ms(of.p99_ns as f64)),
    ]
}
