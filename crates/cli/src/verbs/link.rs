//! `constel link`: one link's live state.

use constel_api::Request;
use serde_json::Value;

use super::labs;
use crate::args::Link;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Both directions, and why the link is up or down.
pub(crate) fn run(args: &Link) -> Outcome {
    let request = Request::Link {
        a: args.a.clone(),
        b: args.b.clone(),
    };
    let link = labs::ask(&args.lab, &request)?;
    if args.json {
        output::json(&link)?;
        return Ok(Exit::Done);
    }
    let mut text = format!("{} - {}: {}\n", args.a, args.b, output::cell(&link["why"]));
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let rows: Vec<Vec<String>> = link["edges"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|edge| {
            let counters = &edge["counters"]["counters"];
            vec![
                output::cell(&edge["from"]),
                output::cell(&edge["to"]),
                output::ms(number(&edge["delay_ns"])),
                format!("{:+.3} us/s", number(&edge["slope_ns_per_s"]) / 1e3),
                edge["rate_bps"]
                    .as_f64()
                    .map_or_else(|| "-".to_owned(), output::rate),
                output::cell(&counters["offered"]),
                output::cell(&counters["delivered"]),
                output::cell(&edge["counters"]["queue_bytes"]),
            ]
        })
        .collect();
    let head = [
        "FROM",
        "TO",
        "DELAY",
        "SLOPE",
        "RATE",
        "OFFERED",
        "DELIVERED",
        "QUEUED B",
    ];
    if !rows.is_empty() {
        text.push_str(&output::table(&head, &rows));
    }
    output::text(&text)?;
    Ok(Exit::Done)
}
