//! Edges failed by hand, for the threads of a running lab.

use std::sync::{Arc, Mutex, MutexGuard};

use constel_link::PortId;
use constel_plan::FailedEdges;

/// The one list of edges that are down by hand. A look takes a pointer's copy.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    edges: Mutex<Arc<FailedEdges>>,
}

impl Failed {
    fn lock(&self) -> MutexGuard<'_, Arc<FailedEdges>> {
        self.edges.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The list as it is now.
    pub(crate) fn now(&self) -> Arc<FailedEdges> {
        Arc::clone(&self.lock())
    }

    /// Takes edges down or brings them back, all in one instant; says whether that changed anything.
    pub(crate) fn set(&self, changes: impl IntoIterator<Item = ((PortId, PortId), bool)>) -> bool {
        let mut edges = self.lock();
        let before = edges.version();
        let list = Arc::make_mut(&mut edges);
        for (edge, failed) in changes {
            list.set(edge, failed);
        }
        list.version() != before
    }
}
