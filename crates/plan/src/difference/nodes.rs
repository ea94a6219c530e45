//! Stations and hosts that leave a running lab and return to it.
//!
//! Nodes, ports and antennas are fixed when a lab starts. A node that leaves therefore stays in the topology, as a failed one:
//! the lab runs the changed scenario with the entries of all nodes that left.

use std::collections::{BTreeMap, BTreeSet};

use constel_scenario::Scenario;
use constel_scenario::model::Name;
use serde_json::{Map, Value};

use super::{Difference, Past, name_of, rules, value};

/// The keys of `ground` with nodes by name.
const KINDS: [&str; 2] = ["stations", "hosts"];

const CABLES: &str = "cables";

impl Difference {
    /// Finds the nodes that leave and return, with their cables.
    pub(super) fn nodes(&mut self, before: &Value, after: &Value, past: &Past) {
        self.left = past.left.clone();
        for kind in KINDS {
            let (before, after) = (named(before, kind), named(after, kind));
            for (name, entry) in &before {
                // An entry of several hosts is not a node.
                if !after.contains_key(name) && entry.get("count").is_none_or(Value::is_null) {
                    self.left.insert(key(kind, name), (*entry).clone());
                    self.leaving.extend(name.parse::<Name>());
                }
            }
            for (name, entry) in &after {
                let key = key(kind, name);
                if !before.contains_key(name) && past.left.get(&key) == Some(*entry) {
                    self.left.remove(&key);
                    self.returning.extend(name.parse::<Name>());
                }
            }
        }
        let (before, after) = (named(before, CABLES), named(after, CABLES));
        for (name, cable) in &before {
            let leaves = |end: &str| {
                let own = cable.get(end).and_then(Value::as_str);
                self.leaving.iter().any(|node| Some(node.as_str()) == own)
            };
            if !after.contains_key(name) && (leaves("from") || leaves("to")) {
                self.left.insert(key(CABLES, name), (*cable).clone());
            }
        }
        for (name, cable) in &after {
            let key = key(CABLES, name);
            if !before.contains_key(name) && past.left.get(&key) == Some(*cable) {
                self.left.remove(&key);
            }
        }
    }

    /// Returns the reason why a node or cable cannot leave or return; `None` if it can.
    pub(super) fn against_node(
        &self,
        path: &[String],
        before: Option<&Value>,
        past: &Past,
    ) -> Option<String> {
        let key = path.join(".");
        let moves = self.left.contains_key(&key) != past.left.contains_key(&key);
        let reason = match before {
            _ if moves => return None,
            None if past.left.contains_key(&key) => {
                "it left the lab with other values: write those, or start the lab again"
            }
            _ => rules::NODES,
        };
        Some(reason.to_owned())
    }

    /// Returns the text of the changed scenario with the nodes and cables that left the lab; `None` if none did. `running` is the
    /// scenario of the topology, which has all of them.
    #[must_use]
    pub fn text_with_left(&self, running: &Scenario, changed: &Scenario) -> Option<String> {
        if self.left.is_empty() {
            return None;
        }
        let mut all = value(changed);
        let ground = entry(&mut all, "ground");
        for kind in KINDS {
            let prefix = key(kind, "");
            let own = self.left.iter();
            let own = own.filter_map(|(key, left)| Some((key.strip_prefix(&prefix)?, left)));
            let nodes = entry(ground, kind);
            for (name, left) in own {
                nodes[name] = left.clone();
            }
        }
        // The ports of nodes are in the order of their cables.
        let now = named_list(ground.get(CABLES));
        let was = value(running);
        let order = named_list(was.get("ground").and_then(|ground| ground.get(CABLES)));
        let known: BTreeSet<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        let mut cables: Vec<Value> = Vec::new();
        for (name, _) in &order {
            let stays = now.iter().find(|(other, _)| other == name);
            let cable = stays.map(|(_, cable)| *cable);
            cables.extend(cable.or_else(|| self.left.get(&key(CABLES, name))).cloned());
        }
        let new = now
            .iter()
            .filter(|(name, _)| !known.contains(name.as_str()));
        cables.extend(new.map(|(_, cable)| (*cable).clone()));
        ground[CABLES] = Value::Array(cables);
        without_nulls(&mut all);
        Some(all.to_string())
    }
}

/// Whether a path is a node's or a cable's whole entry.
pub(super) fn is_node(path: &[String]) -> bool {
    let [ground, kind, _] = path else {
        return false;
    };
    ground == "ground" && (KINDS.contains(&kind.as_str()) || kind == CABLES)
}

fn key(kind: &str, name: &str) -> String {
    format!("ground.{kind}.{name}")
}

/// Returns the entries of a key of `ground`, by name.
fn named<'a>(scenario: &'a Value, kind: &str) -> BTreeMap<String, &'a Value> {
    let own = scenario.get("ground").and_then(|ground| ground.get(kind));
    match own {
        Some(Value::Object(map)) => map.iter().map(|(name, own)| (name.clone(), own)).collect(),
        list => named_list(list).into_iter().collect(),
    }
}

fn named_list(list: Option<&Value>) -> Vec<(String, &Value)> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|own| Some((name_of(own)?, own))).collect()
}

/// Returns the object at a key, which is made if it is absent.
fn entry<'a>(of: &'a mut Value, key: &str) -> &'a mut Value {
    if !of[key].is_object() {
        of[key] = Value::Object(Map::new());
    }
    &mut of[key]
}

/// Removes keys without a value, which are not in a file.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, own| !own.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        _ => {}
    }
}
