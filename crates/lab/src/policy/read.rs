//! Answers of a live policy: names become nodes, impossible decisions are refused, and only changes remain. Pure.

use std::collections::{BTreeMap, BTreeSet};

use constel_api::answers::PolicyAnswer;
use constel_api::{ApiError, ErrorCode};
use constel_plan::{Decision, Lab, RouteChoice};
use constel_topology::{Access, NodeId};

use crate::answers::named;

/// The most satellites for one station: as many as a row of `ground.choices` may have.
const MOST_SATELLITES: usize = 1_000;

/// The most changes of a run, which the planner and the record keep: as rows of files 256 MiB at most.
const MOST_CHANGES: usize = 4_000_000;

/// The kinds of decisions that the scenario leaves to a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) attachments: bool,
    pub(crate) links: bool,
    pub(crate) routes: bool,
}

impl Kinds {
    /// Returns the kinds for a lab whose run has not decided anything yet.
    pub(crate) fn of(lab: &Lab) -> Self {
        let spec = lab.layout.spec();
        let mut stations = spec.stations.iter();
        let routes = lab.next_nodes.as_deref();
        Self {
            attachments: stations.all(|station| station.choices.is_empty()),
            links: spec.switched.is_empty(),
            routes: routes.is_some_and(constel_plan::NextNodes::is_empty),
        }
    }
}

fn bad(message: String) -> ApiError {
    ApiError::new(ErrorCode::BadValue, message)
}

/// Reads an answer.
///
/// # Errors
/// [`ErrorCode::NodeNotFound`], [`ErrorCode::BadName`]; [`ErrorCode::NoLink`] if two nodes can have no link;
/// [`ErrorCode::BadValue`] for decisions that the scenario does not leave to a policy, and for those that contradict each other.
pub(crate) fn read(lab: &Lab, kinds: Kinds, answer: &PolicyAnswer) -> Result<Decision, ApiError> {
    Ok(Decision {
        attachments: attachments(lab, kinds, answer)?,
        links: links(lab, kinds, answer)?,
        routes: routes(lab, kinds, answer)?,
    })
}

fn attachments(
    lab: &Lab,
    kinds: Kinds,
    answer: &PolicyAnswer,
) -> Result<Vec<(NodeId, Vec<NodeId>)>, ApiError> {
    if !answer.attachments.is_empty() && !kinds.attachments {
        let error = "satellites of stations are fixed by `ground.choices`: remove the key, or answer no `attachments`";
        return Err(bad(error.to_owned()));
    }
    let access = |node: NodeId| lab.layout.node(node).class.access;
    let mut read = Vec::with_capacity(answer.attachments.len());
    for (name, wanted) in &answer.attachments {
        let station = named(lab, name)?;
        if access(station) != Access::Chooses {
            return Err(bad(format!("`{name}` is no station")));
        }
        if wanted.len() > MOST_SATELLITES {
            let many = wanted.len();
            return Err(bad(format!(
                "{many} satellites for `{name}`; at most {MOST_SATELLITES}"
            )));
        }
        let mut satellites = Vec::with_capacity(wanted.len());
        for satellite in wanted {
            let node = named(lab, satellite)?;
            if node.index() >= lab.layout.satellite_count() {
                return Err(bad(format!("`{satellite}` is no satellite")));
            }
            satellites.push(node);
        }
        read.push((station, satellites));
    }
    Ok(read)
}

fn links(
    lab: &Lab,
    kinds: Kinds,
    answer: &PolicyAnswer,
) -> Result<Vec<(NodeId, NodeId, bool)>, ApiError> {
    if !answer.links.is_empty() && !kinds.links {
        let error = "links are switched by `links.choices`: remove the key, or answer no `links`";
        return Err(bad(error.to_owned()));
    }
    let mut seen = BTreeSet::new();
    let mut read = Vec::with_capacity(answer.links.len());
    for link in &answer.links {
        let (a, b) = (named(lab, &link.a)?, named(lab, &link.b)?);
        let there = a != b
            && (lab.layout.isl_between(a, b).is_some() || lab.layout.cable_between(a, b).is_some());
        let ends = format!("`{}` and `{}`", link.a, link.b);
        if !there {
            let error = format!(
                "{ends} have neither a laser nor a cable between them; stations are attached by `attachments`"
            );
            return Err(ApiError::new(ErrorCode::NoLink, error));
        }
        let (a, b) = (a.min(b), a.max(b));
        if !seen.insert((a, b)) {
            return Err(bad(format!("the link of {ends} is switched twice")));
        }
        read.push((a, b, link.up));
    }
    Ok(read)
}

fn routes(lab: &Lab, kinds: Kinds, answer: &PolicyAnswer) -> Result<Vec<RouteChoice>, ApiError> {
    let table = lab.next_nodes.as_deref();
    let table = table.filter(|_| kinds.routes || answer.routes.is_empty());
    if answer.routes.is_empty() {
        return Ok(Vec::new());
    }
    let Some(table) = table else {
        let error = "a policy sets routes only if the scenario leaves them to it: `routing: {choices: FILE}`, and no row in FILE below its header";
        return Err(bad(error.to_owned()));
    };
    let mut seen = BTreeSet::new();
    let mut read = Vec::with_capacity(answer.routes.len());
    for route in &answer.routes {
        let (node, destination) = (named(lab, &route.node)?, named(lab, &route.destination)?);
        let next = route.next.as_deref().map(|next| named(lab, next));
        let next = next.transpose()?;
        let what = format!("the route of `{}` to `{}`", route.node, route.destination);
        if !table.lead_to(destination) {
            return Err(bad(format!(
                "`{}` is no destination of `routing.destinations`",
                route.destination
            )));
        }
        if node == destination || next == Some(node) {
            return Err(bad(format!("{what} leads to its own node")));
        }
        if !seen.insert((node, destination)) {
            return Err(bad(format!("{what} is set twice")));
        }
        read.push(RouteChoice {
            node,
            destination,
            next,
        });
    }
    Ok(read)
}

/// The decisions in force. Decisions that repeat them are no changes.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    attachments: BTreeMap<NodeId, Vec<NodeId>>,
    links: BTreeMap<(NodeId, NodeId), bool>,
    routes: BTreeMap<(NodeId, NodeId), Option<NodeId>>,
    changes: usize,
}

impl InForce {
    /// Returns the changes among decisions, which are in force from here on.
    ///
    /// # Errors
    /// When the run would have more changes than are kept: nothing is in force.
    pub(crate) fn changes(&mut self, mut decision: Decision) -> Result<Decision, String> {
        decision.attachments.retain(|(station, wanted)| {
            let before = self.attachments.get(station);
            before.is_none_or(|before| before != wanted)
        });
        // Links are on, and nodes have no routes, until it is decided otherwise.
        decision.links.retain(|(a, b, up)| {
            let before = self.links.get(&(*a, *b)).copied().unwrap_or(true);
            before != *up
        });
        decision.routes.retain(|route| {
            let before = self.routes.get(&(route.node, route.destination));
            before.copied().flatten() != route.next
        });
        if self.changes + decision.len() > MOST_CHANGES {
            return Err(format!("a run keeps at most {MOST_CHANGES} changes"));
        }
        self.changes += decision.len();
        self.attachments
            .extend(decision.attachments.iter().cloned());
        let links = decision.links.iter();
        self.links.extend(links.map(|(a, b, up)| ((*a, *b), *up)));
        let routes = decision.routes.iter();
        self.routes
            .extend(routes.map(|route| ((route.node, route.destination), route.next)));
        Ok(decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::iridium;
    use serde_json::json;

    const ALL: Kinds = Kinds {
        attachments: true,
        links: true,
        routes: true,
    };

    fn answer(value: serde_json::Value) -> PolicyAnswer {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn impossible_decisions_are_refused_with_the_reason() {
        let blueprint = iridium();
        let lab = &blueprint.lab;
        let refused = |kinds: Kinds, value: serde_json::Value| {
            let error = read(lab, kinds, &answer(value)).unwrap_err();
            error.to_string()
        };
        let satellite = lab.layout.node(NodeId(0)).name.as_str();
        let station = lab.layout.nodes().iter();
        let mut stations = station.filter(|node| node.class.access == Access::Chooses);
        let station = stations.next().unwrap().name.as_str();
        for (value, part) in [
            (
                json!({"step": 1, "attachments": {"atlantis": []}}),
                "no node is called 'atlantis'",
            ),
            (
                json!({"step": 1, "attachments": {satellite: []}}),
                "is no station",
            ),
            (
                json!({"step": 1, "attachments": {station: [station]}}),
                "is no satellite",
            ),
            (
                json!({"step": 1, "attachments": {station: vec![satellite; 1_001]}}),
                "at most 1000",
            ),
            (
                json!({"step": 1, "links": [{"a": station, "b": satellite, "up": false}]}),
                "neither a laser nor a cable",
            ),
            (
                json!({"step": 1, "routes": [{"node": satellite, "destination": station, "next": null}]}),
                "`routing: {choices: FILE}`",
            ),
        ] {
            let error = refused(ALL, value);
            assert!(error.contains(part), "{part} in {error}");
        }
        let link = &lab.layout.isl_links()[0];
        let [a, b] =
            [link.a, link.b].map(|port| lab.layout.node(lab.layout.port(port).node).name.as_str());
        let twice = json!({"step": 1, "links": [{"a": a, "b": b, "up": false}, {"a": b, "b": a, "up": true}]});
        assert!(refused(ALL, twice).contains("switched twice"));
        let none = Kinds {
            attachments: false,
            links: false,
            routes: false,
        };
        let fixed = json!({"step": 1, "attachments": {station: [satellite]}});
        assert!(refused(none, fixed).contains("fixed by `ground.choices`"));
        let fixed = json!({"step": 1, "links": [{"a": a, "b": b, "up": false}]});
        assert!(refused(none, fixed).contains("`links.choices`"));
    }

    #[test]
    fn only_changes_remain() {
        let blueprint = iridium();
        let lab = &blueprint.lab;
        assert_eq!(
            Kinds::of(lab),
            Kinds {
                routes: false,
                ..ALL
            }
        );
        let link = &lab.layout.isl_links()[3];
        let [a, b] =
            [link.a, link.b].map(|port| lab.layout.node(lab.layout.port(port).node).name.clone());
        let mut in_force = InForce::default();
        let mut changes = |up: bool| {
            let answer = answer(json!({"step": 1, "links": [{"a": b, "b": a, "up": up}]}));
            let decision = read(lab, ALL, &answer).unwrap();
            in_force.changes(decision).unwrap().links.len()
        };
        // On from the start, so that switching it on is no change.
        assert_eq!([true, false, false, true].map(&mut changes), [0, 1, 0, 1]);
        let station = NodeId(lab.layout.satellite_count() as u32);
        let wanted = |satellites: Vec<NodeId>| Decision {
            attachments: vec![(station, satellites)],
            ..Decision::default()
        };
        let mut len = |satellites| in_force.changes(wanted(satellites)).unwrap().len();
        // No satellite is another decision than none at all.
        assert_eq!(len(Vec::new()), 1);
        assert_eq!(len(Vec::new()), 0);
        assert_eq!(len(vec![NodeId(1)]), 1);
        in_force.changes = MOST_CHANGES;
        assert!(
            in_force
                .changes(wanted(vec![NodeId(2)]))
                .unwrap_err()
                .contains("at most")
        );
        assert_eq!(in_force.changes(wanted(vec![NodeId(1)])).unwrap().len(), 0);
    }
}
