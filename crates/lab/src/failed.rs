//! Links failed by hand, for the threads of a running lab: the one list of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use constel_link::PortId;
use constel_plan::FailedEdges;

/// Whoever waits looks this often whether the answer is still wanted.
const LOOK: Duration = Duration::from_millis(50);

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
    /// Told whenever routes stand.
    routed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    edges: Arc<FailedEdges>,
    /// Since when each of them is down, lab time, nanoseconds.
    since: BTreeMap<EdgeEnds, u64>,
    /// Since somebody last took them.
    changes: Vec<LinkChange>,
    /// The version of the list that all kernels' routes go by; `None` while nobody makes such routes.
    routed: Option<u64>,
}

impl Failed {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The list as it is now.
    pub(crate) fn now(&self) -> Arc<FailedEdges> {
        Arc::clone(&self.lock().edges)
    }

    /// Since when an edge is down by hand, lab time, nanoseconds.
    pub(crate) fn since_ns(&self, edge: EdgeEnds) -> Option<u64> {
        self.lock().since.get(&edge).copied()
    }

    /// Takes edges of a link down or brings them back, all in one instant. It is a change only if that is new of any:
    /// then it says which version of the list that made.
    pub(crate) fn set(
        &self,
        link: &str,
        t_ns: u64,
        edges: impl IntoIterator<Item = (EdgeEnds, bool)>,
    ) -> Option<u64> {
        let mut inner = self.lock();
        let before = inner.edges.version();
        for (edge, failed) in edges {
            if !Arc::make_mut(&mut inner.edges).set(edge, failed) {
                continue;
            }
            if failed {
                inner.since.insert(edge, t_ns);
            } else {
                inner.since.remove(&edge);
            }
        }
        let version = inner.edges.version();
        (version != before).then(|| {
            let link = link.to_owned();
            inner.changes.push(LinkChange { t_ns, link });
            version
        })
    }

    /// The routes of all kernels go by this version of the list.
    pub(crate) fn routes_stand(&self, version: u64) {
        self.lock().routed = Some(version);
        self.routed.notify_all();
    }

    /// Waits until routes go by a version of the list, at most `within`, and as long as somebody `wanted` it. `None` where
    /// nobody makes routes that all kernels have at once.
    pub(crate) fn wait_for_routes(
        &self,
        version: u64,
        within: Duration,
        wanted: impl Fn() -> bool,
    ) -> Option<bool> {
        let end = Instant::now() + within;
        let mut inner = self.lock();
        loop {
            if inner.routed? >= version {
                return Some(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || !wanted() {
                return Some(false);
            }
            let waited = self.routed.wait_timeout(inner, left.min(LOOK));
            inner = waited.unwrap_or_else(|e| e.into_inner()).0;
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
        assert_eq!(links.since_ns(ends[0]), Some(6));
        set(8, false);
        assert_eq!(told(), [8]);
        assert_eq!(links.since_ns(ends[0]), None);
    }

    #[test]
    fn routes_are_waited_for_where_somebody_makes_them() {
        let links = Failed::default();
        let version = links
            .set("a-b", 1, [((PortId(0), PortId(1)), true)])
            .unwrap();
        let long = Duration::from_secs(60);
        assert_eq!(links.wait_for_routes(version, long, || true), None);
        links.routes_stand(version - 1);
        assert_eq!(
            links.wait_for_routes(version, Duration::ZERO, || true),
            Some(false)
        );
        assert_eq!(links.wait_for_routes(version, long, || false), Some(false));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| links.wait_for_routes(version, long, || true));
            links.routes_stand(version);
            assert_eq!(waits.join().unwrap(), Some(true));
        });
    }
}
