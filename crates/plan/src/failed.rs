//! The list of edges that were failed by command; all code uses this one list.

use std::collections::BTreeSet;

use constel_link::PortId;
use constel_topology::Snapshot;

/// The edges that are down by command, and how often the list changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedEdges {
    edges: BTreeSet<(PortId, PortId)>,
    version: u64,
}

impl FailedEdges {
    /// Returns the number of changes so far.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// Returns whether an edge is down by command.
    #[must_use]
    pub fn contains(&self, edge: (PortId, PortId)) -> bool {
        self.edges.contains(&edge)
    }

    /// Takes an edge down or brings it back. Returns whether that changed anything.
    pub fn set(&mut self, edge: (PortId, PortId), failed: bool) -> bool {
        let changed = if failed {
            self.edges.insert(edge)
        } else {
            self.edges.remove(&edge)
        };
        self.version += u64::from(changed);
        changed
    }

    /// Returns the topology without these edges; `None` if it is the same.
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
