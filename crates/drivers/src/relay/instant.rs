//! Changes of all threads' tables at one instant.
//!
//! Every thread is notified of a change and of its instant. At that instant each thread takes in the frames sent
//! before, and then sends a mark to every other thread; frames sent later wait. Once a thread has all marks, it has all
//! frames that were sent before the change, and makes it. Each frame is therefore handled by the old tables or by the
//! new ones, wherever it is served. A mark states whether its thread can make the change, so that all threads make it or
//! none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use constel_link::{CheckedEffects, CheckedUpdate, Nanos, UpdateError};

use super::ways::WayChange;
use crate::update::Applied;

/// Delay of a change that is to be made now, so that every thread is notified before its instant.
pub(crate) const LEAD_NS: Nanos = 200_000;

/// Numbers of changes whose notification has begun, and whose notification of all threads is complete. When both are
/// equal and a thread has received as many, no change for an earlier instant can follow.
#[derive(Debug, Default)]
pub(crate) struct ChangeNumbers {
    pub(crate) begun: AtomicU64,
    pub(crate) told: AtomicU64,
}

impl ChangeNumbers {
    /// Returns whether a thread that has received `heard` changes has received all.
    fn is_complete(&self, heard: u64) -> bool {
        self.told.load(Ordering::SeqCst) == heard && self.begun.load(Ordering::SeqCst) == heard
    }
}

/// Result of an update, and the update itself: freeing tens of thousands of changes takes time, so the requester does
/// it.
pub(crate) type UpdateReply = SyncSender<(Result<Applied, UpdateError>, CheckedUpdate)>;

/// A change of the table, to be made at its instant.
pub(super) struct Scheduled {
    pub(super) at_ns: Nanos,
    pub(super) change: Change,
}

/// A scheduled change.
pub(crate) enum Change {
    /// Edges to this thread's ports; and the changed lists of edges of its ports.
    Edges {
        update: CheckedUpdate,
        ways: Vec<WayChange>,
        reply: UpdateReply,
    },
    Effects(CheckedEffects, SyncSender<Result<Nanos, UpdateError>>),
}

/// Progress of all threads with the next change.
#[derive(Debug)]
pub(crate) struct Instants {
    order: Arc<ChangeNumbers>,
    heard: u64,
    /// Our own mark, once it was sent.
    own: Option<bool>,
    /// Marks of the other threads, by thread.
    marks: Vec<Option<bool>>,
    others: usize,
}

impl Instants {
    pub(crate) fn new(order: Arc<ChangeNumbers>, threads: usize) -> Instants {
        Instants {
            order,
            heard: 0,
            own: None,
            marks: vec![None; threads],
            others: threads - 1,
        }
    }

    /// Counts a change that was received.
    pub(super) fn hear(&mut self) {
        self.heard += 1;
    }

    pub(super) fn mark(&mut self, source: usize, can: bool) {
        self.marks[source] = Some(can);
    }

    pub(super) fn has_mark(&self, source: usize) -> bool {
        self.marks[source].is_some()
    }

    /// Returns whether this thread has received all changes, so that none for an earlier instant can follow.
    pub(super) fn is_complete(&self) -> bool {
        self.order.is_complete(self.heard)
    }

    /// Records that our own mark was sent.
    pub(super) fn sent_mark(&mut self, can: bool) {
        self.own = Some(can);
    }

    /// Returns whether we wait for other threads: no frame is taken in until they have sent their marks.
    pub(super) fn waits(&self) -> bool {
        self.own.is_some()
    }

    /// Returns, once all marks are here, whether all threads can make the change.
    pub(super) fn verdict(&self) -> Option<bool> {
        let there = self.marks.iter().flatten();
        let own = self.own.filter(|_| there.clone().count() == self.others)?;
        Some(own && there.clone().all(|can| *can))
    }

    pub(super) fn next(&mut self) {
        self.own = None;
        self.marks.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_once_all_are_as_far_and_only_if_all_can() {
        let order = Arc::new(ChangeNumbers::default());
        let mut instants = Instants::new(order.clone(), 3);
        assert!(order.is_complete(0));
        order.begun.fetch_add(1, Ordering::SeqCst);
        assert!(
            !order.is_complete(0),
            "a change has begun and is not announced yet"
        );
        order.told.fetch_add(1, Ordering::SeqCst);
        assert!(!order.is_complete(0), "not heard of it yet");
        instants.hear();
        assert!(order.is_complete(instants.heard));
        for (last, expected) in [(true, true), (false, false)] {
            instants.mark(1, true);
            instants.own = Some(true);
            assert!(instants.has_mark(1) && !instants.has_mark(2));
            assert_eq!(instants.verdict(), None);
            instants.mark(2, last);
            assert_eq!(instants.verdict(), Some(expected));
            instants.next();
            assert!(!instants.waits() && !instants.has_mark(1));
        }
    }
}
