//! Links failed by hand, for the threads of a running lab: the one list of them.

use std::sync::{Arc, Mutex, MutexGuard};

use constel_link::PortId;
use constel_plan::FailedEdges;

/// An edge, by its two ports.
pub(crate) type EdgeEnds = (PortId, PortId);

/// A link that somebody failed or healed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkChange {
    /// Lab time, nanoseconds; 0 before the clock starts.
    pub(crate) t_ns: u64,
    /// The link, as `A-B`.
    pub(crate) link: String,
}

/// Whoever plans goes round these edges, and whoever watches routes asks what changed. A look takes a pointer's copy.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    edges: Arc<FailedEdges>,
    /// Since somebody last took them.
    changes: Vec<LinkChange>,
}

impl Failed {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The list as it is now.
    pub(crate) fn now(&self) -> Arc<FailedEdges> {
        Arc::clone(&self.lock().edges)
    }

    /// Takes edges of a link down or brings them back, all in one instant. It is a change only if that is new of any.
    pub(crate) fn set(
        &self,
        link: &str,
        t_ns: u64,
        edges: impl IntoIterator<Item = (EdgeEnds, bool)>,
    ) {
        let mut inner = self.lock();
        let before = inner.edges.version();
        let list = Arc::make_mut(&mut inner.edges);
        for (edge, failed) in edges {
            list.set(edge, failed);
        }
        if list.version() != before {
            let link = link.to_owned();
            inner.changes.push(LinkChange { t_ns, link });
        }
    }

    /// The changes since this was last called.
    pub(crate) fn take_changes(&self) -> Vec<LinkChange> {
        std::mem::take(&mut self.lock().changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_and_again_when_it_is_healed() {
        let ends = [(PortId(0), PortId(1)), (PortId(1), PortId(0))];
        let links = Failed::default();
        let set = |t_ns, failed| links.set("a-b", t_ns, ends.map(|edge| (edge, failed)));
        let told = || {
            links
                .take_changes()
                .iter()
                .map(|c| c.t_ns)
                .collect::<Vec<_>>()
        };
        set(5, false);
        assert_eq!(told(), [0; 0]);
        let before = links.now();
        set(6, true);
        set(7, true);
        assert_ne!(links.now().version(), before.version());
        assert_eq!(told(), [6]);
        set(8, false);
        assert_eq!(told(), [8]);
    }
}
