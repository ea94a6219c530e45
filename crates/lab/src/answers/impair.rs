//! Effects of links: those that the scenario gives to a kind of link, and those that users set on one link of the
//! running lab. The latter override the edges of each step until they are reset.

use constel_api::answers::{BriefEffects, EdgeSet, LinkSet, RoutesAfter};
use constel_api::{ApiError, ErrorCode};
use constel_drivers::{DriverError, Links};
use constel_link::{Effects, EffectsChange, Impairment, JitterLaw, PortId};
use constel_plan::{AbsentMembers, Blueprint, EdgeEnds};
use constel_topology::{Edge, NodeId, Snapshot, pairs_named};

use crate::answers::by_hand::{EffectTarget, Impairing};
use crate::error::EngineError;

/// Installs the effects of the scenario's kinds of links in the link plane, with lab time zero at `zero_ns` of its
/// clock.
///
/// # Errors
/// When the link plane refuses.
pub(crate) fn put_profiles(
    blueprint: &Blueprint,
    links: &dyn Links,
    zero_ns: u64,
) -> Result<(), EngineError> {
    // Profile 0 means no effects, so that the scenario's kinds count from 1.
    let numbered = (1..).zip(blueprint.lab.profiles.iter());
    let changes: Vec<EffectsChange> = numbered
        .map(|(number, effects)| EffectsChange::Profile {
            number,
            effects: Some(effects.clone().starting_later(zero_ns)),
        })
        .collect();
    if !changes.is_empty() {
        links.apply_effects(changes)?;
    }
    Ok(())
}

/// Returns the two ends of a link, given as two names or as one text `A-B`.
///
/// # Errors
/// [`ErrorCode::NodeNotFound`]; [`ErrorCode::BadName`] when `A-B` names no two nodes, or can be read in more than one
/// way.
pub(crate) fn ends(
    a: &str,
    b: Option<&str>,
    find: impl Fn(&str) -> Result<NodeId, ApiError>,
) -> Result<(NodeId, NodeId), ApiError> {
    if let Some(b) = b {
        return Ok((find(a)?, find(b)?));
    }
    // Names of nodes may contain hyphens, so `A-B` is split at each of them.
    let found: Vec<_> = pairs_named(a, |name| find(name).ok()).collect();
    match found[..] {
        [one] => Ok(one),
        [] => Err(ApiError::new(
            ErrorCode::BadName,
            format!("'{a}' does not name two nodes; write A-B, or A and B apart"),
        )),
        _ => Err(ApiError::new(
            ErrorCode::BadName,
            format!("'{a}' can be read in more than one way; write A and B apart"),
        )),
    }
}

/// Converts a refusal of the link plane to an error with its code.
pub(crate) fn refusal(error: &DriverError) -> ApiError {
    let code = match error {
        DriverError::Unsupported(_) => ErrorCode::Unsupported,
        DriverError::Effects(_) => ErrorCode::BadValue,
        _ => ErrorCode::Failed,
    };
    ApiError::new(code, error.to_string())
}

/// Returns the edges between two nodes in both directions. An edge that is absent at the moment is included if it has
/// effects of its own.
///
/// # Errors
/// [`ErrorCode::NoLink`], with the reason why the link does not exist.
pub(crate) fn edges_between(
    blueprint: &Blueprint,
    links: &dyn Links,
    snapshot: &Snapshot,
    (a, b): (NodeId, NodeId),
) -> Result<Vec<EdgeEnds>, ApiError> {
    let layout = &blueprint.lab.layout;
    let mut edges = Vec::new();
    // Two nodes may have several links, so that all pairs of ports are tried.
    for (from, to) in [(a, b), (b, a)] {
        for from in layout.ports_of(from) {
            for to in layout.ports_of(to) {
                if snapshot.edge(from.id, to.id).is_some()
                    || !own(links, (from.id, to.id))?.is_empty()
                {
                    edges.push((from.id, to.id));
                }
            }
        }
    }
    if edges.is_empty() {
        let why = constel_topology::why(layout, snapshot, a, b);
        let error = format!("there is no link now: {}", why.describe(layout));
        return Err(ApiError::new(ErrorCode::NoLink, error));
    }
    Ok(edges)
}

/// Returns the effects that were set on an edge by command.
fn own(links: &dyn Links, (from, to): EdgeEnds) -> Result<Effects, ApiError> {
    let known = links.effects(from, to);
    known.map(|known| known.own).map_err(|e| refusal(&e))
}

/// Checks that effects are valid at their place.
///
/// # Errors
/// [`ErrorCode::BadValue`].
pub(crate) fn check(impairing: &Impairing) -> Result<(), ApiError> {
    let refused = |error: String| Err(ApiError::new(ErrorCode::BadValue, error));
    if impairing.effects.down.is_some() && matches!(impairing.on, EffectTarget::Port(_)) {
        let error = "links fail and are healed, ports are not: name both ends, as A-B";
        return refused(error.to_owned());
    }
    if impairing.for_ns.is_some() && impairing.reset {
        let error = "a reset has no end: leave out `--reset`, or the time";
        return refused(error.to_owned());
    }
    match impairing.effects.check() {
        Ok(()) => Ok(()),
        Err(error) => refused(error.to_string()),
    }
}

/// Checks that the jitter of these effects never exceeds an edge's delay at lab time `t_ns`. A recording of the
/// whole delay, on top of a delay of 0, does not count as jitter.
///
/// # Errors
/// [`ErrorCode::BadValue`].
pub(crate) fn check_jitter(
    effects: &Effects,
    impairment: &Impairment,
    t_ns: u64,
) -> Result<(), ApiError> {
    let Some(jitter) = &effects.jitter else {
        return Ok(());
    };
    // A recording over a delay of 0 has whole delays, as in a box that repeats a measured path.
    if effects.delay_ns == Some(0) && matches!(jitter.law, JitterLaw::Trace { .. }) {
        return Ok(());
    }
    let delay_ns = effects.over(impairment).delay.at(t_ns);
    jitter.fits(delay_ns).map_err(|why| {
        let next = "set a longer `--delay`, or less jitter";
        ApiError::new(ErrorCode::BadValue, format!("{why}; {next}"))
    })
}

/// The effects of a link's edges after a change, and whether each edge is failed then.
pub(crate) struct Set {
    pub(crate) edges: Vec<EdgeSet>,
    pub(crate) failed: Vec<(EdgeEnds, bool)>,
}

/// Plans effects for edges: merged with their present effects, or, with `reset`, in place of them. Time-dependent
/// laws begin at `zero_ns` of the link plane's clock. Edges of members that are `away` stay down until these return; their
/// own state counts from then on.
///
/// # Errors
/// When the link plane has stopped.
pub(crate) fn on_edges(
    links: &dyn Links,
    (edges, away): (&[EdgeEnds], &AbsentMembers),
    (patch, reset): (&Effects, bool),
    zero_ns: u64,
) -> Result<(Set, Vec<EffectsChange>), DriverError> {
    let patch = patch.clone().starting_later(zero_ns);
    let (mut rows, mut failed, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    for &(from, to) in edges {
        let mut effects = if reset {
            patch.clone()
        } else {
            // Settings that the command does not name stay as earlier commands left them.
            links.effects(from, to)?.own.merged(&patch)
        };
        let absent = away.failed_by_hand((from, to));
        if let Some(by_hand) = absent {
            effects.down = patch.down.or((by_hand && !reset).then_some(true));
        }
        // An edge without effects is removed from the link plane's table.
        let change = EffectsChange::of_edge((from, to), effects);
        let effects = change.effects().cloned().unwrap_or_default();
        rows.push(EdgeSet {
            from,
            to,
            effects: BriefEffects::of(&effects),
        });
        failed.push(((from, to), effects.down == Some(true)));
        changes.push(match absent {
            Some(_) => EffectsChange::of_edge((from, to), effects.merged(&Effects::failed(true))),
            None => change,
        });
    }
    let edges = rows;
    Ok((Set { edges, failed }, changes))
}

/// Parses a port as `NODE/PORT`; `None` if the text has no `/`.
///
/// # Errors
/// [`ErrorCode::NodeNotFound`]; [`ErrorCode::BadName`] when the node has no such port.
pub(crate) fn port(
    blueprint: &Blueprint,
    text: &str,
    find: impl Fn(&str) -> Result<NodeId, ApiError>,
) -> Result<Option<PortId>, ApiError> {
    let Some((node, name)) = text.rsplit_once('/') else {
        return Ok(None);
    };
    let ports = blueprint.lab.layout.ports_of(find(node)?);
    let found = ports.iter().find(|port| port.name() == name);
    found.map(|port| Some(port.id)).ok_or_else(|| {
        let all: Vec<_> = ports.iter().map(|port| port.name()).collect();
        let error = format!("{node} has no port {name}; it has {}", all.join(", "));
        ApiError::new(ErrorCode::BadName, error)
    })
}

/// Plans effects for all edges that leave a port, with later ones: merged with the port's present effects `held`,
/// or, with `reset`, in place of them. Effects on single links override these.
pub(crate) fn on_port(
    port: PortId,
    held: &Effects,
    (patch, reset): (&Effects, bool),
    zero_ns: u64,
) -> (Effects, Vec<EffectsChange>) {
    let patch = patch.clone().starting_later(zero_ns);
    // The lab keeps the settings of ports, because edges to new satellites must get them after each handover.
    let now = if reset { patch } else { held.merged(&patch) };
    let effects = (!now.is_empty()).then(|| now.clone());
    (now, vec![EffectsChange::Port { port, effects }])
}

/// Returns the answer to a change of a port: its present edges, each with the port's effects.
pub(crate) fn port_set(
    snapshot: &Snapshot,
    port: PortId,
    effects: &Effects,
    at_mono_ns: u64,
) -> LinkSet {
    let row = |edge: &Edge| EdgeSet {
        from: edge.from,
        to: edge.to,
        effects: BriefEffects::of(effects),
    };
    LinkSet {
        at_mono_ns,
        edges: snapshot.edges_from(port).iter().map(row).collect(),
        port: None,
        routes: RoutesAfter::Untouched,
    }
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
            _ => Err(ApiError::no_node(name, None)),
        };
        assert_eq!(ends("gs-sat-1", None, find), Ok((NodeId(2), NodeId(1))));
        assert_eq!(ends("gs", Some("sat"), find), Ok((NodeId(2), NodeId(3))));
        let refused = |a, b| ends(a, b, find).unwrap_err();
        let twice = refused("sat-1-gs", None);
        assert!(twice.error.contains("more than one"), "{twice}");
        let never = refused("gs-nobody", None);
        assert!(never.error.contains("two nodes"), "{never}");
        assert_eq!(never.code, ErrorCode::BadName);
        let unknown = refused("gs", Some("x"));
        assert_eq!(unknown.code, ErrorCode::NodeNotFound);
    }
}
