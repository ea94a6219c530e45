//! `constel events`: what happened in a lab.

use constel_api::Event;
use constel_control::Observer;
use serde_json::Value;

use crate::args::Events;
use crate::exit::{Exit, Outcome};
use crate::output;

/// All so far, then, with `--follow`, each new one.
pub(crate) fn run(args: &Events) -> Outcome {
    let lab = Observer::attach(&args.lab)?;
    for event in lab.events(args.follow)? {
        let event = event?;
        if args.json {
            output::json_line(&event)?;
        } else {
            output::text(&line(&event)?)?;
        }
    }
    Ok(Exit::Done)
}

/// Lab time, what happened, and its fields as `key=value`.
fn line(event: &Event) -> serde_json::Result<String> {
    let time = event
        .t_ns
        .map_or_else(|| "-".to_owned(), |t| format!("{:.3}", t as f64 / 1e9));
    let what = serde_json::to_value(&event.what)?;
    let fields = what.as_object().into_iter().flatten();
    let rest: Vec<String> = fields
        .filter(|(key, _)| *key != "kind")
        .map(|(key, value): (&String, &Value)| format!("{key}={}", output::cell(value)))
        .collect();
    Ok(format!(
        "{time:>9} s  {:<16} {}\n",
        output::cell(&what["kind"]),
        rest.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_api::Happening;

    #[test]
    fn an_event_is_a_line() {
        let event = Event {
            seq: 4,
            t_ns: Some(1_500_000_000),
            wall: "2026-11-22T00:00:00.000000Z".to_owned(),
            what: Happening::Handover {
                station: "tokyo".to_owned(),
                from: None,
                to: Some("sat-1".to_owned()),
                port: None,
            },
            catalogued: Vec::new(),
        };
        assert_eq!(
            line(&event).unwrap(),
            "    1.500 s  handover         station=tokyo from=- to=sat-1\n"
        );
    }
}
