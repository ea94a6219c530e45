//! Changes of all threads' tables at one instant.
//!
//! Every thread is notified of a change and of its instant. At that instant each thread takes in the frames sent
//! before, and then sends a mark to every other thread; frames sent later wait. Once a thread has all marks, it has all
//! frames that were sent before the change, and makes it. Each frame is therefore handled by the old tables or by the
//! new ones, wherever it is served. A mark states whether its thread can make the change, so that all threads make it or
//! none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use constel_link::{CheckedEffects, CheckedUpdate, Nanos, UpdateError};

use super::command::UpdateReply;
use super::state::Scheduled;
use super::thread::Thread;
use super::ways::WayChange;
use crate::clock::mono_ns;
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

/// A scheduled change.
pub(crate) enum Change {
    /// Edges to this thread's ports; and the changed lists of edges of its ports.
    Edges {
        update: CheckedUpdate,
        ways: Vec<WayChange>,
        reply: UpdateReply,
    },
    Effects(
        CheckedEffects,
        std::sync::mpsc::SyncSender<Result<Nanos, UpdateError>>,
    ),
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

    /// Returns whether we wait for other threads: no frame is taken in until they have sent their marks.
    pub(super) fn waits(&self) -> bool {
        self.own.is_some()
    }

    /// Returns, once all marks are here, whether all threads can make the change.
    fn verdict(&self) -> Option<bool> {
        let there = self.marks.iter().flatten();
        let own = self.own.filter(|_| there.clone().count() == self.others)?;
        Some(own && there.clone().all(|can| *can))
    }

    fn next(&mut self) {
        self.own = None;
        self.marks.fill(None);
    }
}

impl Thread {
    /// Continues the next change, which is due at this instant. Returns true once it was made or refused.
    pub(super) fn change_together(&mut self, at_ns: Nanos) -> bool {
        let Some(across) = &self.across else {
            return false;
        };
        // First phase: take in every frame sent before the instant, then send our mark behind the last of them.
        if !across.instants.waits() {
            while self.intake(at_ns.saturating_sub(1)) {
                self.send_due(mono_ns());
            }
            // Effects were checked before they were sent; only an update of edges can be refused here.
            let can = match self.state.scheduled.front().map(|first| &first.change) {
                Some(Change::Edges { update, .. }) => self.table.can_apply(update).is_ok(),
                _ => true,
            };
            let Some(across) = &mut self.across else {
                return false;
            };
            let Instants { order, heard, .. } = &across.instants;
            if !order.is_complete(*heard) || !across.push_marks(can) {
                return false;
            }
            across.instants.own = Some(can);
            across.knock();
        }
        self.take_handed();
        let Some(across) = &mut self.across else {
            return false;
        };
        let Some(can) = across.instants.verdict() else {
            return false;
        };
        across.instants.next();
        if let Some(first) = self.state.scheduled.pop_front() {
            self.make(first, can);
        }
        true
    }

    pub(super) fn make(&mut self, scheduled: Scheduled, can: bool) {
        let Scheduled { at_ns, change } = scheduled;
        match change {
            Change::Edges {
                update,
                ways,
                reply,
            } if can => {
                if let Some(across) = &mut self.across {
                    across.ways.apply(&ways);
                }
                self.apply(at_ns, update, &reply);
            }
            Change::Edges { update, reply, .. } => {
                // The error may be in another thread's part.
                let wrong = self.table.can_apply(&update).err();
                let wrong = wrong.unwrap_or(UpdateError { errors: Vec::new() });
                let _: Result<(), _> = reply
                    .try_send((Err::<Applied, _>(wrong), update))
                    .map_err(|_| ());
            }
            Change::Effects(effects, reply) => self.apply_effects(at_ns, &effects, &reply),
        }
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
