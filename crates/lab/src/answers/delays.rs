//! All delays of a network, changed by hand in one instant.

use constel_api::answers::DelaysSet;
use constel_api::{ApiError, ErrorCode};
use constel_drivers::Links;
use constel_link::{Effects, EffectsChange};
use constel_plan::Blueprint;
use constel_scenario::model::Medium;
use constel_topology::Snapshot;

use super::impair::refusal;
use crate::clock::mono_ns;

fn bad(error: String) -> ApiError {
    ApiError::new(ErrorCode::BadValue, error)
}

/// Puts delays on edges of the network at `place`, nanoseconds, a row for each member as sender; without any, those set before
/// are taken away. What else is set on the edges stays.
///
/// # Errors
/// When the network is none of links, the square is not that of its members, or a cell is of no edge: nothing was changed.
pub(super) fn set(
    blueprint: &Blueprint,
    links: &dyn Links,
    snapshot: &Snapshot,
    place: usize,
    delays_ns: Option<&[Vec<Option<u64>>]>,
) -> Result<DelaysSet, ApiError> {
    let layout = &blueprint.lab.layout;
    let network = &blueprint.lab.scenario.networks[place];
    let name = network.name.to_string();
    if !matches!(network.medium, Medium::Links { .. }) {
        let error = format!("'{name}' is not of links; with them each edge has a delay of its own");
        return Err(bad(error));
    }
    let ports = layout.network_ports(place);
    let members = ports.len();
    if let Some(rows) = delays_ns
        && (rows.len() != members || rows.iter().any(|row| row.len() != members))
    {
        let error = format!("'{name}' has {members} members: a square of so many rows and cells");
        return Err(bad(error));
    }
    let mut changes = Vec::new();
    for (a, &from) in ports.iter().enumerate() {
        for (b, &to) in ports.iter().enumerate().filter(|(b, _)| *b != a) {
            let delay_ns = match delays_ns {
                Some(rows) => match rows[a][b] {
                    None => continue,
                    delay_ns => delay_ns,
                },
                None => None,
            };
            let own = links.effects(from, to).map_err(|e| refusal(&e))?.own;
            if delay_ns.is_some() && snapshot.edge(from, to).is_none() && own.is_empty() {
                let ends = [from, to].map(|port| &layout.node(layout.port(port).node).name);
                let error = format!("there is no edge from '{}' to '{}' now", ends[0], ends[1]);
                return Err(bad(error));
            }
            if own.delay_ns == delay_ns {
                continue;
            }
            let effects = Effects { delay_ns, ..own };
            let effects = (!effects.is_empty()).then_some(effects);
            changes.push(EffectsChange::Edge { from, to, effects });
        }
    }
    let edges = changes.len();
    let at_mono_ns = match changes.is_empty() {
        true => mono_ns(),
        false => links.apply_effects(changes).map_err(|e| refusal(&e))?,
    };
    Ok(DelaysSet {
        at_mono_ns,
        network: name,
        edges,
    })
}
