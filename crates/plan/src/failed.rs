//! Edges failed by hand: the one list of them that everybody asks.

use std::collections::BTreeSet;

use constel_link::PortId;
use constel_topology::Snapshot;

/// Edges that are down because somebody said so, and how often that changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedEdges {
    edges: BTreeSet<(PortId, PortId)>,
    version: u64,
}

impl FailedEdges {
    /// Changes so far.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// Whether an edge is down by hand.
    #[must_use]
    pub fn contains(&self, edge: (PortId, PortId)) -> bool {
        self.edges.contains(&edge)
    }

    /// Takes an edge down or brings it back; says whether that changed anything.
    pub fn set(&mut self, edge: (PortId, PortId), failed: bool) -> bool {
        let changed = if failed {
            self.edges.insert(edge)
        } else {
            self.edges.remove(&edge)
        };
        self.version += u64::from(changed);
        changed
    }

    /// The topology without these edges; `None` where that is the same.
    #[must_use]
    pub fn without(&self, snapshot: &Snapshot) -> Option<Snapshot> {
        if self.edges.is_empty() {
            return None;
        }
        let mut rest = snapshot.clone();
        rest.edges.retain(|e| !self.edges.contains(&(e.from, e.to)));
        Some(rest)
    }
}
