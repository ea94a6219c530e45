//! Events of a run as marks of its pictures: handovers, failures, and changes by hand.

use std::io::ErrorKind;

use constel_api::answers::BriefEffects;
use constel_api::{Event, EventData};
use constel_measure::plot::{Mark, MarkKind};
use serde_json::Value;

use super::Run;
use crate::error::Error;

/// The label of the axis of lab time.
pub(super) const LAB_TIME: &str = "lab time (s)";

/// The cause of a failure that a user made while the lab ran. It has an event of its own.
const BY_HAND: &str = "by hand";

impl Run {
    /// Returns a title of a picture of the run: the text and the name of the lab.
    pub(super) fn titled(&self, text: &str) -> String {
        match self.head() {
            Ok(manifest) => format!("{text} in lab {}", manifest.lab),
            Err(_) => text.to_owned(),
        }
    }

    /// Returns the failures and the changes by hand of a run, and the handovers of these stations. A run without a log of events
    /// has none.
    pub(super) fn marks(&self, stations: &[String]) -> Result<Vec<Mark>, Error> {
        let events = match self.events() {
            Err(Error::NoDocument { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Ok(Vec::new());
            }
            events => events?,
        };
        let mut marks = Vec::new();
        for event in events {
            marks.extend(mark(&event?, stations));
        }
        Ok(marks)
    }
}

fn mark(event: &Event, stations: &[String]) -> Option<Mark> {
    let (kind, name) = match &event.what {
        EventData::Handover {
            station, from, to, ..
        } if stations.contains(station) => {
            let text = match (from, to) {
                (Some(from), Some(to)) => format!("handover of {station} from {from} to {to}"),
                (Some(from), None) => format!("{station} loses {from} and has no satellite"),
                (None, Some(to)) => format!("{station} has a satellite again: {to}"),
                (None, None) => return None,
            };
            (MarkKind::Handover, text)
        }
        EventData::Failure { cause, .. } if cause != BY_HAND => {
            (MarkKind::Failure, format!("failure {cause} begins"))
        }
        EventData::Repair { cause, .. } if cause != BY_HAND => {
            (MarkKind::Failure, format!("failure {cause} ends"))
        }
        what => (MarkKind::ByHand, format!("by hand: {}", by_hand(what)?)),
    };
    Some(Mark {
        t_s: event.t_ns? as f64 / 1e9,
        name,
        kind,
    })
}

/// Returns the words of a change that a user or a program made while the lab ran; `None` for any other event.
fn by_hand(what: &EventData) -> Option<String> {
    Some(match what {
        EventData::LinkSet {
            link,
            reset,
            effects,
            ..
        } => match settings(effects) {
            set if set.is_empty() && *reset => format!("effects of link {link} removed"),
            set => format!("link {link} set to {set}"),
        },
        EventData::NodesSet { change, nodes } => match nodes.as_slice() {
            [node] => format!("{} {node}", change.as_str()),
            nodes => format!("{} {} nodes", change.as_str(), nodes.len()),
        },
        EventData::MemberJoined { network, node } => format!("{node} joins {network}"),
        EventData::MemberLeft { network, node } => format!("{node} leaves {network}"),
        EventData::DelaysSet {
            network,
            reset: true,
            ..
        } => format!("delays of {network} restored"),
        EventData::DelaysSet { network, edges, .. } => {
            format!("delays of {edges} edges of {network} set")
        }
        EventData::RulesChanged { change, rule, .. } => match rule {
            Some(rule) => format!("{change} rule {rule}"),
            None => format!("{change} all rules"),
        },
        _ => return None,
    })
}

/// Returns the effects as `key value`, with commas between them.
fn settings(effects: &BriefEffects) -> String {
    let Ok(Value::Object(effects)) = serde_json::to_value(effects) else {
        return String::new();
    };
    let words = effects.iter().filter(|(_, value)| !value.is_null());
    let words: Vec<String> = words
        .map(|(key, value)| match value {
            Value::Bool(true) => key.clone(),
            Value::String(text) => format!("{key} {text}"),
            value => format!("{key} {value}"),
        })
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_change_the_network_are_marks() {
        let lines = [
            r#"{"seq":1,"t_ns":null,"wall":"","kind":"failure","cause":"early","objects":[]}"#,
            r#"{"seq":2,"t_ns":9000000000,"wall":"","kind":"handover","station":"lagos","from":"a","to":"b"}"#,
            r#"{"seq":3,"t_ns":9000000000,"wall":"","kind":"handover","station":"oslo","from":"a","to":"b"}"#,
            r#"{"seq":4,"t_ns":10000000000,"wall":"","kind":"failure","cause":"laser","objects":["a-b"]}"#,
            r#"{"seq":5,"t_ns":11000000000,"wall":"","kind":"failure","cause":"by hand","objects":["a"]}"#,
            r#"{"seq":6,"t_ns":11000000000,"wall":"","kind":"nodes-set","change":"fail","nodes":["a"]}"#,
            r#"{"seq":7,"t_ns":12000000000,"wall":"","kind":"link-set","link":"a-b","reset":true,"effects":{}}"#,
            r#"{"seq":8,"t_ns":12500000000,"wall":"","kind":"link-set","link":"a-b","reset":false,"effects":{"loss":0.01}}"#,
            r#"{"seq":9,"t_ns":13000000000,"wall":"","kind":"flow-started","flow":"x"}"#,
        ];
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("manifest.json"), "{}").unwrap();
        let run = Run::open(dir.path()).unwrap();
        assert!(run.marks(&[]).unwrap().is_empty(), "a run without events");
        std::fs::write(dir.path().join("events.ndjson"), lines.join("\n") + "\n").unwrap();
        let marks = run.marks(&["lagos".to_owned()]).unwrap();
        let marks: Vec<_> = marks
            .iter()
            .map(|m| (m.t_s, m.kind, m.name.as_str()))
            .collect();
        assert_eq!(
            marks,
            [
                (9.0, MarkKind::Handover, "handover of lagos from a to b"),
                (10.0, MarkKind::Failure, "failure laser begins"),
                (11.0, MarkKind::ByHand, "by hand: fail a"),
                (
                    12.0,
                    MarkKind::ByHand,
                    "by hand: effects of link a-b removed"
                ),
                (12.5, MarkKind::ByHand, "by hand: link a-b set to loss 0.01"),
            ]
        );
    }
}
