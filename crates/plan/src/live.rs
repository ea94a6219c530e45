//! Decisions of a live policy: they come during the run, and have the effect of files of choices.

use constel_topology::{Chosen, NodeId, Switched};

/// The next hop of a node for a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteChoice {
    /// The node.
    pub node: NodeId,
    /// The destination of the packets.
    pub destination: NodeId,
    /// The neighbour that receives them; `None`: they are dropped.
    pub next: Option<NodeId>,
}

/// The decisions for a step. All that is not named stays as decided before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// The satellites of stations, the most wanted first; at most one entry for each station.
    pub attachments: Vec<(NodeId, Vec<NodeId>)>,
    /// Lasers and cables by their ends, and whether they are on; at most one entry for each.
    pub links: Vec<(NodeId, NodeId, bool)>,
    /// Routes; at most one entry for each node and destination.
    pub routes: Vec<RouteChoice>,
}

impl Decision {
    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.attachments.len() + self.links.len() + self.routes.len()
    }

    /// Returns whether it decides nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the decisions about satellites and links from `t_ns` on, as in a topology's spec.
    pub fn at(
        &self,
        t_ns: u64,
    ) -> (
        impl Iterator<Item = (NodeId, Chosen)> + '_,
        impl Iterator<Item = Switched> + '_,
    ) {
        let chosen = move |(station, satellites): &(NodeId, Vec<NodeId>)| {
            let satellites = satellites.clone();
            (*station, Chosen { t_ns, satellites })
        };
        let switched = move |&(a, b, up): &(NodeId, NodeId, bool)| Switched { t_ns, a, b, up };
        (
            self.attachments.iter().map(chosen),
            self.links.iter().map(switched),
        )
    }
}
