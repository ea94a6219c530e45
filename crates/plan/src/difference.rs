//! The difference between the scenario of a running lab and a changed one, and the parts of it that a running lab can take over.
//!
//! The typed keys and values of the files are compared, so that `300 s` and `5 min` are no difference, and neither is a
//! default that is written out, if it is a fixed value. Everything that [`rules`] do not list is fixed when a lab starts.

mod flows;
mod nodes;
mod rules;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use constel_scenario::Scenario;
use constel_scenario::model::{Flow, Name};
use serde_json::Value;

use rules::refusal;
use words::words;

/// The past of a running lab, as far as changes depend on it.
#[derive(Debug, Clone, Default)]
pub struct Past {
    /// Lab time, nanoseconds.
    pub now_ns: u64,
    /// Lab time at which the lab ends, nanoseconds; `None` without an end.
    pub end_ns: Option<u64>,
    /// The flows that the lab has now, with their actual times and ports.
    pub flows: Vec<Flow>,
    /// The entries of the nodes that left the lab, and of their cables, by key: [`Difference::left`] of the latest change.
    pub left: BTreeMap<String, Value>,
    /// Names of all flows that it ever had: each has files in the results.
    names: BTreeSet<Name>,
    /// Nodes and ports of the servers of all these flows.
    ports: BTreeSet<(Name, u16)>,
}

impl Past {
    /// Returns the past of a lab that was started with these flows, and ends at this lab time, nanoseconds.
    #[must_use]
    pub fn begun_with(flows: &[Flow], end_ns: Option<u64>) -> Self {
        let mut past = Self {
            end_ns,
            ..Self::default()
        };
        past.now_has(flows.to_vec());
        past
    }

    /// Records that the lab has these flows from now on, and no others.
    pub fn now_has(&mut self, flows: Vec<Flow>) {
        for flow in &flows {
            self.names.insert(flow.name.clone());
            let server = flow.server().map(|(node, port)| (node.clone(), port));
            self.ports.extend(server);
        }
        self.flows = flows;
    }
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// Only the changed scenario has it.
    Added,
    /// Only the running lab's scenario has it.
    Removed,
    /// Both have it, with different values.
    Changed,
}

/// A change of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioChange {
    /// The key as in the file; entries of lists by their names.
    pub key: String,
    /// The kind.
    pub kind: ChangeKind,
    /// The value in the running lab, in words.
    pub before: Option<String>,
    /// The value in the changed scenario, in words.
    pub after: Option<String>,
    /// The reason why a running lab cannot take it over; `None` if it can.
    pub refused: Option<String>,
}

impl ScenarioChange {
    /// Returns whether the change is one of an effect of links that a driver may lack.
    #[must_use]
    pub fn is_of_effect(&self) -> bool {
        let parts: Vec<&str> = self.key.split('.').collect();
        rules::is_effect(&parts)
    }
}

/// The difference of two scenarios.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Difference {
    /// The changes, by key. Empty if both scenarios are the same.
    pub changes: Vec<ScenarioChange>,
    /// The flows that are added, with the times at which they begin and free ports.
    pub added: Vec<Flow>,
    /// The flows that end.
    pub removed: Vec<Name>,
    /// All flows of the lab after the change, in order of their start.
    pub traffic: Vec<Flow>,
    /// The stations and hosts that leave the lab.
    pub leaving: Vec<Name>,
    /// The stations and hosts that left the lab before and return.
    pub returning: Vec<Name>,
    /// The entries of all nodes that have left the lab after the change, and of their cables, by key.
    pub left: BTreeMap<String, Value>,
}

impl Difference {
    /// Compares the scenario of a running lab with a changed one.
    #[must_use]
    pub fn between(running: &Scenario, changed: &Scenario, past: &Past) -> Self {
        let mut found = Self::default();
        let (before, after) = (value(running), value(changed));
        found.nodes(&before, &after, past);
        for key in keys(&before, &after) {
            let sides = (before.get(key), after.get(key));
            match key {
                "traffic" => found.flows(running, changed, past),
                _ => found.compare(&mut vec![key.to_owned()], sides, running, past),
            }
        }
        found.inputs(running, changed);
        found.changes.sort_by(|a, b| a.key.cmp(&b.key));
        found
    }

    /// Returns the changes that a running lab cannot take over.
    pub fn refused(&self) -> impl Iterator<Item = &ScenarioChange> {
        let changes = self.changes.iter();
        changes.filter(|change| change.refused.is_some())
    }

    /// Adds the changes at a path: one for each value that differs, and one for a whole entry that one side lacks.
    fn compare<'a>(
        &mut self,
        path: &mut Vec<String>,
        (before, after): (Option<&'a Value>, Option<&'a Value>),
        running: &Scenario,
        past: &Past,
    ) {
        // A key without a value is not in the file.
        let given = |side: Option<&'a Value>| side.filter(|value| !value.is_null());
        let (before, after) = (given(before), given(after));
        if before == after {
            return;
        }
        if let (Some(before), Some(after)) = (before, after)
            && !rules::is_whole(path)
            && let Some(entries) = entries(before).zip(entries(after))
        {
            let keys: BTreeSet<&String> = entries.0.keys().chain(entries.1.keys()).collect();
            for key in keys {
                path.push(key.clone());
                let sides = (entries.0.get(key).copied(), entries.1.get(key).copied());
                self.compare(path, sides, running, past);
                path.pop();
            }
            return;
        }
        let kind = match (before, after) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            _ => ChangeKind::Changed,
        };
        let refused = match kind {
            ChangeKind::Added | ChangeKind::Removed if nodes::is_node(path) => {
                self.against_node(path, before, past)
            }
            _ => refusal(path, (before, after), running, past),
        };
        self.changes.push(ScenarioChange {
            key: path.join("."),
            kind,
            before: before.map(words),
            after: after.map(words),
            refused,
        });
    }

    /// Adds files whose content has changed. A file that only one scenario names shows in the key that names it.
    fn inputs(&mut self, running: &Scenario, changed: &Scenario) {
        // The first is the scenario itself.
        let other = changed.inputs.iter().skip(1);
        let other: BTreeMap<&str, &str> = other
            .map(|input| (input.path.as_str(), input.sha256.as_str()))
            .collect();
        for input in running.inputs.iter().skip(1) {
            let Some(now) = other.get(input.path.as_str()) else {
                continue;
            };
            if *now != input.sha256 {
                let brief = |hash: &str| Some(format!("sha256 {}", hash.get(..12).unwrap_or(hash)));
                self.changes.push(ScenarioChange {
                    key: format!("file {}", input.path),
                    kind: ChangeKind::Changed,
                    before: brief(&input.sha256),
                    after: brief(now),
                    refused: Some(rules::FILES.to_owned()),
                });
            }
        }
    }
}

/// Returns the keys and values of a scenario's file.
fn value(scenario: &Scenario) -> Value {
    // The keys and values were read from a tree of this form, so writing one cannot fail.
    serde_json::to_value(scenario.raw.as_ref()).unwrap_or_default()
}

fn keys<'a>(before: &'a Value, after: &'a Value) -> BTreeSet<&'a str> {
    let of = |value: &'a Value| value.as_object().into_iter().flat_map(|map| map.keys());
    of(before).chain(of(after)).map(String::as_str).collect()
}

/// Returns the entries of an object, or of a list of objects with names of their own; `None` for other values.
fn entries(value: &Value) -> Option<BTreeMap<String, &Value>> {
    match value {
        Value::Object(map) => Some(map.iter().map(|(key, own)| (key.clone(), own)).collect()),
        Value::Array(list) => {
            let named = list.iter().map(|own| Some((name_of(own)?, own)));
            let named: BTreeMap<String, &Value> = named.collect::<Option<_>>()?;
            // Names that occur twice name nothing.
            (named.len() == list.len()).then_some(named)
        }
        _ => None,
    }
}

/// Returns the name of an entry of a list: its own, or the two ends of a cable.
fn name_of(entry: &Value) -> Option<String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    match text("name") {
        Some(name) => Some(name.to_owned()),
        None => Some(format!("{}-{}", text("from")?, text("to")?)),
    }
}

#[cfg(test)]
mod tests;
