//! The choice of nodes for functions that only some nodes have.

use std::collections::BTreeSet;

use constel_scenario::model::Placement;
use constel_topology::{NodeId, seeded_key};

use crate::lab::Lab;

impl Lab {
    /// Returns the nodes of a placement, sorted. Satellites are ranked by a number that depends only on the seed,
    /// `purpose` and the satellite's name. A smaller share is therefore a subset of a larger one. Nodes in `except`
    /// are never chosen by share.
    pub fn placed(
        &self,
        placement: &Placement,
        purpose: &str,
        except: &BTreeSet<NodeId>,
    ) -> Vec<NodeId> {
        let seed = self.scenario.seed;
        let mut ranked: Vec<(u64, NodeId)> = self
            .layout
            .nodes()
            .iter()
            .filter(|node| node.class.flies)
            .map(|node| (seeded_key(seed, purpose, &node.name), node.id))
            .collect();
        ranked.sort_unstable();
        let count = (placement.satellites.get() * ranked.len() as f64).round() as usize;
        let chosen = ranked[..count.min(ranked.len())].iter().map(|(_, id)| *id);
        // The names were checked when the lab was laid out.
        let named = placement
            .nodes
            .iter()
            .filter_map(|name| Some(self.layout.find(name.as_str())?.id));
        let mut nodes: Vec<NodeId> = chosen
            .filter(|id| !except.contains(id))
            .chain(named)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}
