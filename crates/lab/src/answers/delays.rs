//! The change of all delays of a network at one instant.

use constel_api::answers::{DelayRange, DelaySet};
use constel_api::{ApiError, ErrorCode};
use constel_drivers::{DriverError, Links};
use constel_link::{Effects, EffectsChange, PortId};
use constel_plan::Blueprint;
use constel_scenario::model::Medium;
use constel_topology::{Layout, Snapshot};

use super::impair::refusal;

/// Most delays that an event has one by one: those of 20 members. Each takes some 60 bytes of the event log.
const MOST_LISTED: usize = 400;

fn bad(error: String) -> ApiError {
    ApiError::new(ErrorCode::BadValue, error)
}

/// Checks that these delays can be set on the edges of the network at index `place`, nanoseconds, a row for each
/// member as sender.
///
/// # Errors
/// When the network does not consist of links, the matrix does not have its members' size, or a cell belongs to no
/// edge.
pub(super) fn check(
    blueprint: &Blueprint,
    links: &dyn Links,
    snapshot: &Snapshot,
    place: usize,
    delays_ns: Option<&[Vec<Option<u64>>]>,
) -> Result<(), ApiError> {
    let layout = &blueprint.lab.layout;
    let network = &blueprint.lab.scenario.networks[place];
    let name = &network.name;
    if !matches!(network.medium, Medium::Links { .. }) {
        let error = format!("'{name}' is not of links; with them each edge has a delay of its own");
        return Err(bad(error));
    }
    let Some(rows) = delays_ns else { return Ok(()) };
    let ports = layout.network_ports(place);
    let members = ports.len();
    if rows.len() != members || rows.iter().any(|row| row.len() != members) {
        let error =
            format!("'{name}' has {members} members: give {members} rows of {members} cells each");
        return Err(bad(error));
    }
    // An absent edge may still get its own effects removed, but it cannot get a delay.
    for ((from, to), delay_ns) in cells(ports, delays_ns) {
        let there = delay_ns.is_none() || snapshot.edge(from, to).is_some();
        if !there
            && links
                .effects(from, to)
                .map_err(|e| refusal(&e))?
                .own
                .is_empty()
        {
            let ends = [from, to].map(|port| &layout.node(layout.port(port).node).name);
            let error = format!("there is no edge from '{}' to '{}' now", ends[0], ends[1]);
            return Err(bad(error));
        }
    }
    Ok(())
}

/// Returns the requested delays by edge. Without `delays_ns`, every edge gets `None`, which removes its delay.
fn cells<'a>(
    ports: &'a [PortId],
    delays_ns: Option<&'a [Vec<Option<u64>>]>,
) -> impl Iterator<Item = ((PortId, PortId), Option<u64>)> + 'a {
    let edges = ports.iter().enumerate().flat_map(move |(a, from)| {
        let to = ports.iter().enumerate().filter(move |(b, _)| *b != a);
        to.map(move |(b, to)| ((*from, *to), (a, b)))
    });
    edges.filter_map(move |(edge, (a, b))| match delays_ns {
        Some(rows) => rows.get(a)?.get(b)?.map(|delay_ns| (edge, Some(delay_ns))),
        // Without a matrix the delays of all edges are reset.
        None => Some((edge, None)),
    })
}

/// Returns the changes that set delays on edges of the network at index `place`, nanoseconds, a row for each member
/// as sender. Without delays, earlier ones are removed. Other effects of the edges remain. Edges that already have
/// these delays need no change.
///
/// # Errors
/// When the link plane has stopped.
pub(super) fn changes(
    blueprint: &Blueprint,
    links: &dyn Links,
    place: usize,
    delays_ns: Option<&[Vec<Option<u64>>]>,
) -> Result<Vec<EffectsChange>, DriverError> {
    let ports = blueprint.lab.layout.network_ports(place);
    let mut changes = Vec::new();
    for ((from, to), delay_ns) in cells(ports, delays_ns) {
        let own = links.effects(from, to)?.own;
        // A matrix of a thousand members has a million cells, of which a command usually changes few.
        if own.delay_ns == delay_ns {
            continue;
        }
        let effects = Effects { delay_ns, ..own };
        let effects = (!effects.is_empty()).then_some(effects);
        changes.push(EffectsChange::Edge { from, to, effects });
    }
    Ok(changes)
}

/// Returns the delays that changes have set, for the event: each if they are few, and their range.
pub(super) fn listed(
    layout: &Layout,
    changes: &[EffectsChange],
) -> (Vec<DelaySet>, Option<DelayRange>) {
    let node = |port: PortId| layout.node(layout.port(port).node).name.clone();
    let set = changes.iter().filter_map(|change| match change {
        EffectsChange::Edge {
            from,
            to,
            effects: Some(effects),
        } => Some((*from, *to, effects.delay_ns?)),
        _ => None,
    });
    let set: Vec<(PortId, PortId, u64)> = set.collect();
    let range = DelayRange::of(set.iter().map(|(_, _, delay_ns)| *delay_ns).collect());
    let row = |(from, to, delay_ns): (PortId, PortId, u64)| DelaySet {
        from: node(from),
        to: node(to),
        delay_ns,
    };
    let delays = match set.len() {
        0..=MOST_LISTED => set.into_iter().map(row).collect(),
        _ => Vec::new(),
    };
    (delays, range)
}
