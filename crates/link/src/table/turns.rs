//! Order in which frames leave the table when many are due, and dropping of frames that are too late.

use std::collections::VecDeque;

use super::frames::{Counting, Delivery, Frames};
use super::{EdgeTable, Entry};
use crate::counters::EdgeCounters;
use crate::edge::Released;
use crate::laws::Marks;
use crate::types::{DropCause, Nanos, PortId};

/// Number of frames of an edge that may be due together before the edge counts as behind: a node's burst, not a flood.
const TOGETHER: u32 = 4;
/// Most frames dropped in one call, before another edge or the caller gets its turn.
const LET_GO_AT_ONCE: u64 = 64;
/// Number of turns of edges with frames in transit for each turn of an edge with new frames, while both wait. Frames on
/// a path of several hops are completed at the cost of new frames, and a routing loop does not block new frames
/// entirely.
const UNDER_WAY_FIRST: u32 = 64;

/// How late frames may be before they are dropped, if the host does not keep up.
///
/// An edge that was later than `new_ns` for `lasting_ns`, without falling below half of `new_ns`, gets more than the
/// host can serve. From then on later frames are dropped until the edge has caught up. A host that only stalled for a
/// moment catches up before that. New frames, which no node has processed yet, are dropped first, so that the host's
/// work on a frame is not wasted on its last hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatenessLimits {
    /// Lateness allowed for frames that no node has forwarded yet.
    pub new_ns: Nanos,
    /// Lateness allowed for frames that have crossed another edge before.
    pub in_flight_ns: Nanos,
    /// Time for which an edge must have been behind.
    pub lasting_ns: Nanos,
}

/// Edges that had more than a few frames due at their turn, in the order of their next turns.
#[derive(Debug, Default)]
pub(super) struct Behind {
    under_way: VecDeque<u32>,
    new: VecDeque<u32>,
    /// Turns of frames in transit since the last turn of a new frame.
    since_new: u32,
}

impl Behind {
    fn push(&mut self, id: u32, new: bool) {
        let list = if new {
            &mut self.new
        } else {
            &mut self.under_way
        };
        list.push_back(id);
    }

    fn pop(&mut self) -> Option<u32> {
        // Edges with frames in flight go first, but under lasting load edges with new frames must not starve.
        if self.since_new >= UNDER_WAY_FIRST || self.under_way.is_empty() {
            self.since_new = 0;
            if let Some(id) = self.new.pop_front() {
                return Some(id);
            }
        }
        self.since_new += 1;
        self.under_way.pop_front()
    }

    fn len(&self) -> usize {
        self.under_way.len() + self.new.len()
    }
}

impl<F> EdgeTable<F> {
    /// Sets the lateness from which [`EdgeTable::pop_due_fairly`] drops frames; without it no frame is dropped.
    pub fn set_patience(&mut self, patience: Option<LatenessLimits>) {
        self.patience = patience;
    }

    /// Returns the next frame due by `now`, in order of due time over all edges.
    pub fn pop_due(&mut self, now: Nanos, frames: &mut impl Frames<F>) -> Option<Delivery<F>> {
        loop {
            let id = match self.wheel.pop_due(now) {
                Some((_, id)) => id,
                // Edges that are late come after all that are due now, so that one overloaded edge does not delay the
                // others.
                None => self.next_behind()?,
            };
            if let Some(delivery) = self.release(id, now, None, frames) {
                return Some(delivery);
            }
        }
    }

    /// Returns the next frame as [`EdgeTable::pop_due`] does, but fairly when more is due than the caller can send: an
    /// edge gets a few frames, and edges with more due frames wait in turn behind all that had none. An edge with
    /// little traffic is then not delayed by edges that flood. Frames of one edge stay in order.
    ///
    /// With a [`LatenessLimits`] it may return `None` after it has dropped many frames. If [`EdgeTable::next_event`] then
    /// reports a due frame, call it again.
    pub fn pop_due_fairly(
        &mut self,
        now: Nanos,
        frames: &mut impl Frames<F>,
    ) -> Option<Delivery<F>> {
        match self.pop_punctual(now, frames) {
            Some(delivery) => Some(delivery),
            None => self.pop_behind(now, frames),
        }
    }

    /// Does the same as [`EdgeTable::pop_due_fairly`] for the edges that are behind only.
    pub fn pop_behind(&mut self, now: Nanos, frames: &mut impl Frames<F>) -> Option<Delivery<F>> {
        let before = self.sum.dropped_overload;
        loop {
            let id = self.next_behind()?;
            if let Some(delivery) = self.release(id, now, Some(now), frames) {
                return Some(delivery);
            }
            // Returns to the caller, which must also serve the sockets while thousands of frames are dropped.
            if self.sum.dropped_overload - before >= LET_GO_AT_ONCE {
                return None;
            }
        }
    }

    /// Does the same as [`EdgeTable::pop_due_fairly`] for the edges that are not behind only.
    pub fn pop_punctual(&mut self, now: Nanos, frames: &mut impl Frames<F>) -> Option<Delivery<F>> {
        loop {
            let (_, id) = self.wheel.pop_due(now)?;
            if let Some(delivery) = self.release(id, now, Some(now), frames) {
                return Some(delivery);
            }
        }
    }

    /// Returns the number of edges that wait for their turn in [`EdgeTable::pop_due_fairly`] because they have more due
    /// frames than were sent. This is an upper bound: some edges may have been removed since.
    #[must_use]
    pub fn edges_behind(&self) -> usize {
        self.behind.len()
    }

    /// Returns when to call [`EdgeTable::pop_due`] next. That call may return `None` if the frame is lost.
    pub fn next_event(&mut self) -> Option<Nanos> {
        if self.behind.len() == 0 {
            self.wheel.next_deadline()
        } else {
            // Instant 0 is past: the caller must not sleep while edges are behind.
            Some(0)
        }
    }

    /// Does the same as [`EdgeTable::next_event`] for the edges that are not behind only.
    pub fn next_punctual(&mut self) -> Option<Nanos> {
        self.wheel.next_deadline()
    }

    /// Takes the first of the edges that wait for their turn.
    fn next_behind(&mut self) -> Option<u32> {
        while let Some(id) = self.behind.pop() {
            // The entry may have been freed and reused for another edge since.
            if let Some(entry) = self.entries[id as usize].as_mut()
                && entry.behind
            {
                entry.behind = false;
                return Some(id);
            }
        }
        None
    }

    /// Releases one frame of an edge that is neither in the wheel nor behind. The edge then counts as behind if its
    /// next frame is due by `turn`, otherwise it goes back into the wheel.
    fn release(
        &mut self,
        id: u32,
        now: Nanos,
        turn: Option<Nanos>,
        frames: &mut impl Frames<F>,
    ) -> Option<Delivery<F>> {
        let entry = self.entries[id as usize].as_mut()?;
        let before = entry.edge.held();
        let mut in_time = true;
        if let Some(patience) = self.patience.filter(|_| turn.is_some()) {
            // Late frames are dropped before they are delivered: on an overloaded host delivery costs the time that is
            // missing.
            in_time = let_go(entry, now, patience, frames, &mut self.sum);
        }
        let mut released = None;
        if in_time {
            let mut counting = Counting {
                frames: &mut *frames,
                sum: &mut self.sum,
            };
            released = entry
                .edge
                .pop_due(now, &mut |f, cause| counting.discard(f, cause));
        }
        if let Some(r) = &mut released
            && r.marks != Marks::default()
        {
            if r.marks.congestion {
                frames.mark_ce(&mut r.frame);
                self.sum.marked += 1;
            }
            if let Some(draw) = r.marks.corrupt {
                frames.flip_bit(&mut r.frame, draw);
                self.sum.corrupted += 1;
            }
            if r.marks.duplicate {
                // The copy carries no marks: it is neither marked nor duplicated a second time.
                let copy = frames.duplicate(&r.frame).map(|frame| Released {
                    marks: Marks::default(),
                    frame,
                    ..*r
                });
                self.sum.duplicated += 1;
                self.sum.dropped_no_buffer += u64::from(copy.is_none());
                entry.edge.again(copy);
            }
        }
        let held = entry.edge.held();
        // A delivery takes a frame out and a duplicate puts one in, so only the difference is known here.
        self.held = self.held + held - before;
        let (from, to) = (PortId(entry.from), PortId(entry.to));
        if let Some(at) = entry.edge.next_event() {
            let due = turn.is_some_and(|turn| at <= turn);
            entry.together = if due {
                entry.together.saturating_add(1)
            } else {
                0
            };
            // A few frames due together are normal after a burst. Only a longer run moves the edge behind the others.
            if due && entry.together >= TOGETHER {
                let next = entry.edge.next_out();
                let new = next.is_some_and(|next| frames.is_new(&next.frame));
                entry.behind = true;
                self.behind.push(id, new);
            } else {
                // The next frame is not due: the edge has caught up.
                if !due {
                    entry.late_since_ns = None;
                }
                self.wheel.set(id, at);
            }
        } else {
            entry.together = 0;
            entry.late_since_ns = None;
            // A removed edge lives on until its last frame in flight has arrived.
            if !entry.open && held == 0 {
                self.forget(id);
            }
        }
        let Released {
            due_ns,
            len_bytes,
            frame,
            ..
        } = released?;
        self.sum.delivered += 1;
        self.sum.delivered_bytes += u64::from(len_bytes);
        Some(Delivery {
            from,
            to,
            due_ns,
            len_bytes,
            frame,
        })
    }
}

/// Drops frames that waited for too long, if the edge has been behind for long enough; at most [`LET_GO_AT_ONCE`]
/// frames. Returns false if there are more.
fn let_go<F>(
    entry: &mut Entry<F>,
    now: Nanos,
    patience: LatenessLimits,
    frames: &mut impl Frames<F>,
    sum: &mut EdgeCounters,
) -> bool {
    let mut counting = Counting { frames, sum };
    // Finish the services due by now first: frames whose service is over determine how late the edge is.
    entry
        .edge
        .advance(now, &mut |f, cause| counting.discard(f, cause));
    for _ in 0..LET_GO_AT_ONCE {
        let Some(next) = entry.edge.next_out() else {
            return true;
        };
        let late_ns = now.saturating_sub(next.due_ns);
        if late_ns <= patience.new_ns {
            // Hysteresis: the edge counts as behind until its lateness falls to half of the bound.
            entry.late_since_ns = entry
                .late_since_ns
                .filter(|_| late_ns > patience.new_ns / 2);
            return true;
        }
        let since_ns = *entry.late_since_ns.get_or_insert(now);
        let bound_ns = if counting.frames.is_new(&next.frame) {
            patience.new_ns
        } else {
            patience.in_flight_ns
        };
        if now.saturating_sub(since_ns) < patience.lasting_ns || late_ns <= bound_ns {
            return true;
        }
        if let Some(frame) = entry.edge.give_up() {
            counting.discard(frame, DropCause::Overload);
        }
    }
    false
}
