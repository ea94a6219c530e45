//! `constel events`: what happened in a lab.

use constel_api::Request;
use serde_json::Value;

use super::labs;
use crate::args::Events;
use crate::exit::{Exit, Outcome};
use crate::output;

/// All so far, then, with `--follow`, each new one.
pub(crate) fn run(args: &Events) -> Outcome {
    let client = labs::connect(&args.lab)?;
    for event in client.stream(&Request::Events {
        follow: args.follow,
    })? {
        let event = event?;
        if args.json {
            output::json_line(&event)?;
        } else {
            output::text(&line(&event))?;
        }
    }
    Ok(Exit::Done)
}

fn line(event: &Value) -> String {
    let time = event["t_ns"]
        .as_i64()
        .map_or_else(|| "-".to_owned(), |t| format!("{:.3}", t as f64 / 1e9));
    let known = ["seq", "t_ns", "wall", "kind"];
    let rest: Vec<String> = event
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !known.contains(&key.as_str()))
        .map(|(key, value)| format!("{key}={}", output::cell(value)))
        .collect();
    format!(
        "{time:>9} s  {:<16} {}\n",
        output::cell(&event["kind"]),
        rest.join(" ")
    )
}
