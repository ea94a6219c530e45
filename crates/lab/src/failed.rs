//! The list of links failed by command, shared by the threads of a running lab.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use constel_api::summary::ChangeKind;
use constel_plan::{EdgeEnds, FailedEdges};

/// How often a waiting caller checks whether the answer is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// A failure or repair by command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// Lab time, nanoseconds; 0 before the clock starts.
    pub(crate) t_ns: u64,
    pub(crate) kind: ChangeKind,
    /// The link, as `A-B`, or the nodes.
    pub(crate) objects: Vec<String>,
}

/// The list of failed edges, which the planner avoids, and its changes, which the watcher of routes reads. Reading
/// the list copies only a pointer.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    inner: Mutex<Inner>,
    /// Notified when routes are up to date.
    routed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    edges: Arc<FailedEdges>,
    /// The lab time from which each edge is down, nanoseconds.
    since: BTreeMap<EdgeEnds, u64>,
    /// The changes since the last call of `take_changes`.
    changes: Vec<Change>,
    /// The version of the list that the routes in all kernels follow; `None` if no such routes are computed.
    routed: Option<u64>,
}

impl Failed {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the present list.
    pub(crate) fn now(&self) -> Arc<FailedEdges> {
        Arc::clone(&self.lock().edges)
    }

    /// Returns the lab time from which an edge is down by command, nanoseconds.
    pub(crate) fn since_ns(&self, edge: EdgeEnds) -> Option<u64> {
        self.lock().since.get(&edge).copied()
    }

    /// Takes edges of a link down or brings them back, all at one instant. Returns the new version of the list, or
    /// `None` if the list did not change.
    pub(crate) fn set(
        &self,
        link: &str,
        t_ns: u64,
        edges: impl IntoIterator<Item = (EdgeEnds, bool)>,
    ) -> Option<u64> {
        let version = self.set_edges(t_ns, edges);
        if version.is_some() {
            self.note(Change {
                t_ns,
                kind: ChangeKind::LinkSet,
                objects: vec![link.to_owned()],
            });
        }
        version
    }

    /// Records a change for [`Failed::take_changes`].
    pub(crate) fn note(&self, change: Change) {
        self.lock().changes.push(change);
    }

    /// As [`Failed::set`], and records no change.
    pub(crate) fn set_edges(
        &self,
        t_ns: u64,
        edges: impl IntoIterator<Item = (EdgeEnds, bool)>,
    ) -> Option<u64> {
        let mut inner = self.lock();
        let before = inner.edges.version();
        for (edge, failed) in edges {
            // A reader that still has the old list keeps it; the list is copied only in that case.
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
        (version != before).then_some(version)
    }

    /// Records that the routes of all kernels follow this version of the list.
    pub(crate) fn routes_converged(&self, version: u64) {
        self.lock().routed = Some(version);
        self.routed.notify_all();
    }

    /// Waits until routes follow a version of the list, for at most `within` and as long as the answer is `wanted`.
    /// `None` if there are no routes that all kernels get at once.
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
            // The timeout lets the caller stop when the answer is no longer wanted.
            let waited = self.routed.wait_timeout(inner, left.min(LOOK));
            inner = waited.unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    /// Returns the changes since the last call.
    pub(crate) fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.lock().changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_link::PortId;

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
        links.routes_converged(version - 1);
        assert_eq!(
            links.wait_for_routes(version, Duration::ZERO, || true),
            Some(false)
        );
        assert_eq!(links.wait_for_routes(version, long, || false), Some(false));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| links.wait_for_routes(version, long, || true));
            links.routes_converged(version);
            assert_eq!(waits.join().unwrap(), Some(true));
        });
    }
}
