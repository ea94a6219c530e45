//! `constel station`: the satellites that stations use.

use constel_api::StationChange;
use constel_api::answers::StationsSet;
use constel_control::Lab;
use serde_json::{Value, json};

use crate::args::{StationArgs, StationVerb};
use crate::exit::{Exit, Outcome};
use crate::output;

/// Makes the change.
pub(crate) fn run(args: &StationArgs) -> Outcome {
    let (lab, stations, change) = match &args.verb {
        StationVerb::Attach {
            lab,
            node,
            satellite,
            antenna,
        } => {
            let change = StationChange::Attach {
                satellite: satellite.clone(),
                antenna: *antenna,
            };
            (Lab::attach(lab)?, vec![node.clone()], change)
        }
        StationVerb::Detach { lab, node, antenna } => {
            let change = StationChange::Detach { antenna: *antenna };
            (Lab::attach(lab)?, vec![node.clone()], change)
        }
        StationVerb::Policy { lab, nodes, to } => {
            let lab = Lab::attach(lab)?;
            let mut stations = Vec::new();
            for text in nodes {
                stations.extend(lab.select(text, None)?);
            }
            let policy = to.as_deref().map(policy_of);
            (lab, stations, StationChange::Policy { policy })
        }
    };
    let answer = lab.set_station(stations, change)?;
    match args.json {
        true => output::json(&answer)?,
        false => output::text(&text(&answer))?,
    }
    Ok(Exit::Done)
}

/// Returns a policy as scenarios have it: `hysteresis=5deg` is `{"hysteresis": "5deg"}`. The lab checks it.
fn policy_of(text: &str) -> Value {
    match text.split_once('=') {
        Some(("scheduler", slot)) => json!({"scheduler": {"slot": slot}}),
        Some((word, setting)) => json!({word: setting}),
        None => json!(text),
    }
}

fn text(answer: &StationsSet) -> String {
    let mut text = String::new();
    for station in &answer.stations {
        text.push_str(&format!("{station} changed\n"));
    }
    let s = answer.from_ns as f64 / 1e9;
    text + &format!("in force from lab time {s:.1} s\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_as_in_a_scenario() {
        assert_eq!(policy_of("nearest"), json!("nearest"));
        assert_eq!(
            policy_of("hysteresis=5 deg"),
            json!({"hysteresis": "5 deg"})
        );
        assert_eq!(
            policy_of("scheduler=15s"),
            json!({"scheduler": {"slot": "15s"}})
        );
        let answer = StationsSet {
            stations: vec!["tokyo".to_owned()],
            from_ns: 6_000_000_000,
        };
        assert_eq!(
            text(&answer),
            "tokyo changed\nin force from lab time 6.0 s\n"
        );
    }
}
