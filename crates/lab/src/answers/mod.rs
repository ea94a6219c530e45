mod apply;
pub(crate) mod by_hand;
pub(crate) mod capture;
mod changing;
mod delays;
mod ending;
pub(crate) mod impair;
pub(crate) mod inspect;
mod loads;
pub(crate) mod members;
pub(crate) mod node_states;
mod nodes;
pub(crate) mod orders;
mod stations;
pub(crate) mod steering;
pub(crate) mod view;
mod written;

use constel_api::answers::Catalogued;
use constel_api::{ApiError, ErrorCode};
use constel_plan::{Lab, NodeNameError};
use constel_topology::NodeId;

/// Returns the node of that name or catalogue name; otherwise the error has the nearest name.
pub(crate) fn named(lab: &Lab, name: &str) -> Result<NodeId, ApiError> {
    lab.find(name).map_err(|error| match &error {
        NodeNameError::None { nearest, .. } => ApiError::no_node(name, nearest.as_deref()),
        NodeNameError::Several { .. } => ApiError::new(ErrorCode::BadName, error.to_string()),
    })
}

/// Returns the catalogue entries of satellites, with their nodes' names.
pub(crate) fn catalogued<'a>(
    lab: &Lab,
    those: impl IntoIterator<Item = (NodeId, &'a constel_plan::Catalogued)>,
) -> Vec<Catalogued> {
    let row = |(node, entry): (NodeId, &constel_plan::Catalogued)| Catalogued {
        node: lab.layout.node(node).name.clone(),
        catalogue_name: entry.catalogue_name.clone(),
        norad_id: entry.norad_id,
    };
    those.into_iter().map(row).collect()
}

/// Returns the catalogue entries of the nodes that are named in `texts`.
pub(crate) fn catalogued_in<'a>(
    lab: &Lab,
    texts: impl IntoIterator<Item = &'a str>,
) -> Vec<Catalogued> {
    catalogued(lab, lab.catalogue.named_in(&lab.layout, texts))
}
