//! Effects of links: those that the scenario gives to a kind of link, and those put on one link of the
//! running lab by hand, which lie on top of each step's edges until they are reset.

use constel_drivers::Links;
use constel_link::{Effects, EffectsChange, PortId};
use constel_topology::{NodeId, Snapshot};
use serde_json::{Value, json};

use crate::error::EngineError;
use crate::failed::Failed;
use constel_plan::Blueprint;

/// Tells the link plane the effects of the scenario's kinds of links, with lab time zero at `zero_ns`
/// of its clock.
///
/// # Errors
/// When the link plane refuses.
pub(crate) fn put_profiles(
    blueprint: &Blueprint,
    relay: &dyn Links,
    zero_ns: u64,
) -> Result<(), EngineError> {
    let numbered = (1..).zip(blueprint.lab.profiles.iter());
    let changes: Vec<EffectsChange> = numbered
        .map(|(number, effects)| EffectsChange::Profile {
            number,
            effects: Some(effects.clone().starting_later(zero_ns)),
        })
        .collect();
    if !changes.is_empty() {
        relay.apply_effects(changes)?;
    }
    Ok(())
}

/// The two ends of a link: two names, or one text `A-B`.
///
/// # Errors
/// When no node has such a name, or `A-B` can be read in more than one way.
pub(crate) fn ends(
    a: &str,
    b: Option<&str>,
    find: impl Fn(&str) -> Result<NodeId, String>,
) -> Result<(NodeId, NodeId), String> {
    if let Some(b) = b {
        return Ok((find(a)?, find(b)?));
    }
    let found: Vec<_> = a
        .match_indices('-')
        .filter_map(|(at, _)| Some((find(&a[..at]).ok()?, find(&a[at + 1..]).ok()?)))
        .collect();
    match found[..] {
        [one] => Ok(one),
        [] => Err(format!(
            "'{a}' does not name two nodes; write A-B, or A and B apart"
        )),
        _ => Err(format!(
            "'{a}' can be read in more than one way; write A and B apart"
        )),
    }
}

/// The edges between two nodes, both directions: those there are, and those that are gone for now
/// but have effects of their own.
fn edges_between(
    blueprint: &Blueprint,
    relay: &dyn Links,
    snapshot: &Snapshot,
    (a, b): (NodeId, NodeId),
) -> Result<Vec<(PortId, PortId, Effects)>, String> {
    let layout = &blueprint.lab.layout;
    let mut edges = Vec::new();
    for (from, to) in [(a, b), (b, a)] {
        for from in layout.ports_of(from) {
            for to in layout.ports_of(to) {
                let known = relay.effects(from.id, to.id).map_err(|e| e.to_string())?;
                if snapshot.edge(from.id, to.id).is_some() || !known.own.is_empty() {
                    edges.push((from.id, to.id, known.own));
                }
            }
        }
    }
    Ok(edges)
}

/// Puts effects on both directions of a link: merged with those it has, or, with `reset`, instead
/// of them. Answers with what was set.
///
/// # Errors
/// When there is no such link, or a value cannot be: nothing was changed.
pub(crate) fn set(
    blueprint: &Blueprint,
    (relay, by_hand): (&dyn Links, &Failed),
    snapshot: &Snapshot,
    ends: (NodeId, NodeId),
    effects: Value,
    reset: bool,
    zero_ns: u64,
) -> Result<Value, String> {
    let patch: Effects = serde_json::from_value(effects).map_err(|e| e.to_string())?;
    patch.check().map_err(|e| e.to_string())?;
    let patch = patch.starting_later(zero_ns);
    let edges = edges_between(blueprint, relay, snapshot, ends)?;
    if edges.is_empty() {
        let layout = &blueprint.lab.layout;
        let why = constel_topology::why(layout, snapshot, ends.0, ends.1);
        return Err(format!("there is no link now: {}", why.describe(layout)));
    }
    let (mut set, mut failed) = (Vec::new(), Vec::new());
    let changes = edges.into_iter().map(|(from, to, own)| {
        let mut effects = if reset {
            patch.clone()
        } else {
            own.merged(&patch)
        };
        // A healed link is one that nobody failed.
        effects.down = effects.down.filter(|down| *down);
        set.push(json!({"from": from, "to": to, "effects": brief(&effects)}));
        failed.push(((from, to), effects.down == Some(true)));
        let effects = (!effects.is_empty()).then_some(effects);
        EffectsChange::Edge { from, to, effects }
    });
    let changes: Vec<_> = changes.collect();
    let at_ns = relay.apply_effects(changes).map_err(|e| e.to_string())?;
    by_hand.set(failed);
    Ok(json!({"at_mono_ns": at_ns, "edges": set}))
}

/// Effects for people and programs to read: of long recordings only the length.
pub(crate) fn brief(effects: &Effects) -> Value {
    /// Longer lists than this are recordings.
    const LONGEST: usize = 32;
    fn shorten(value: &mut Value) {
        match value {
            Value::Array(list) if list.len() > LONGEST => {
                *value = json!(format!("{} values", list.len()));
            }
            Value::Array(list) => list.iter_mut().for_each(shorten),
            Value::Object(map) => map.values_mut().for_each(shorten),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(effects).unwrap_or_default();
    shorten(&mut value);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_found_whatever_hyphens_the_names_have() {
        let find = |name: &str| match name {
            "sat-1" => Ok(NodeId(1)),
            "gs" => Ok(NodeId(2)),
            "sat" => Ok(NodeId(3)),
            "1-gs" => Ok(NodeId(4)),
            _ => Err(format!("no {name}")),
        };
        assert_eq!(ends("gs-sat-1", None, find), Ok((NodeId(2), NodeId(1))));
        assert_eq!(ends("gs", Some("sat"), find), Ok((NodeId(2), NodeId(3))));
        assert!(
            ends("sat-1-gs", None, find)
                .unwrap_err()
                .contains("more than one")
        );
        assert!(
            ends("gs-nobody", None, find)
                .unwrap_err()
                .contains("two nodes")
        );
        assert_eq!(ends("gs", Some("x"), find), Err("no x".into()));
    }
}
