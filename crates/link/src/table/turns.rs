//! Whose turn it is to come out of the table, and what comes out no more.

use std::collections::VecDeque;

use super::frames::{Counting, Delivery, Frames};
use super::{EdgeTable, Entry};
use crate::counters::EdgeCounters;
use crate::edge::Released;
use crate::laws::Marks;
use crate::types::{DropCause, Nanos, PortId};

/// Frames of an edge that may be due together before it counts as behind: what a node sends at once, and no flood.
const TOGETHER: u32 = 4;
/// Frames let go at a time, before it is another edge's turn or the caller's.
const LET_GO_AT_ONCE: u64 = 64;
/// Turns of edges with frames under way for one of those with new frames, while both wait: a path of more hops is
/// served to its end at the cost of its own new frames, and a loop of frames does not shut new ones out.
const UNDER_WAY_FIRST: u32 = 64;

/// How long frames may wait beyond their time where the host does not keep up, before they are let go.
///
/// An edge that was later than `new_ns` and did not come below half of that for `lasting_ns` is given more than the host
/// can serve: from then on what is later is let go, until the edge has caught up. A host that only stood still for a
/// moment catches up before that. New frames, which no node has worked on yet, are let go first, so that what the host
/// did for a frame is not thrown away on its last hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// With frames that no node has passed on yet.
    pub new_ns: Nanos,
    /// With frames that have come over another edge before.
    pub under_way_ns: Nanos,
    /// How long an edge must have been behind.
    pub lasting_ns: Nanos,
}

/// The edges that had more than a few frames due when it was their turn, in the order of their next turns.
#[derive(Debug, Default)]
pub(super) struct Behind {
    under_way: VecDeque<u32>,
    new: VecDeque<u32>,
    /// Turns of frames under way since the last of a new one.
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
    /// Let frames go that are too late by [`EdgeTable::pop_due_fairly`]; without this none are.
    pub fn set_patience(&mut self, patience: Option<Patience>) {
        self.patience = patience;
    }

    /// The next frame due by `now`, in order of due time over all edges.
    pub fn pop_due(&mut self, now: Nanos, frames: &mut impl Frames<F>) -> Option<Delivery<F>> {
        loop {
            let id = match self.wheel.pop_due(now) {
                Some((_, id)) => id,
                None => self.next_behind()?,
            };
            if let Some(delivery) = self.release(id, now, None, frames) {
                return Some(delivery);
            }
        }
    }

    /// As [`EdgeTable::pop_due`], but fair when more is due than the caller can send: an edge gets
    /// a few frames, and those with more due wait in turn behind all that had none. An edge with
    /// little to send is then not delayed by others that flood. Frames of one edge stay in order.
    ///
    /// With a [`Patience`] it may find nothing because it has let many frames go: where
    /// [`EdgeTable::next_event`] says that more is due, ask again.
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

    /// As [`EdgeTable::pop_due_fairly`], of those edges only that are behind.
    pub fn pop_behind(&mut self, now: Nanos, frames: &mut impl Frames<F>) -> Option<Delivery<F>> {
        let before = self.sum.dropped_overload;
        loop {
            let id = self.next_behind()?;
            if let Some(delivery) = self.release(id, now, Some(now), frames) {
                return Some(delivery);
            }
            if self.sum.dropped_overload - before >= LET_GO_AT_ONCE {
                return None;
            }
        }
    }

    /// As [`EdgeTable::pop_due_fairly`], of those edges only that are not behind.
    pub fn pop_punctual(&mut self, now: Nanos, frames: &mut impl Frames<F>) -> Option<Delivery<F>> {
        loop {
            let (_, id) = self.wheel.pop_due(now)?;
            if let Some(delivery) = self.release(id, now, Some(now), frames) {
                return Some(delivery);
            }
        }
    }

    /// How many edges wait for their turn by [`EdgeTable::pop_due_fairly`]: they have more due than was sent. An
    /// upper bound: some may be gone meanwhile.
    #[must_use]
    pub fn edges_behind(&self) -> usize {
        self.behind.len()
    }

    /// When to call [`EdgeTable::pop_due`] next (it may then find nothing, if the frame is lost).
    pub fn next_event(&mut self) -> Option<Nanos> {
        if self.behind.len() == 0 {
            self.wheel.next_deadline()
        } else {
            Some(0)
        }
    }

    /// As [`EdgeTable::next_event`], of those edges only that are not behind.
    pub fn next_punctual(&mut self) -> Option<Nanos> {
        self.wheel.next_deadline()
    }

    /// The first of the edges that wait for their turn.
    fn next_behind(&mut self) -> Option<u32> {
        while let Some(id) = self.behind.pop() {
            // Its place may be another edge's meanwhile.
            if let Some(entry) = self.entries[id as usize].as_mut()
                && entry.behind
            {
                entry.behind = false;
                return Some(id);
            }
        }
        None
    }

    /// One frame of an edge that is neither in the wheel nor behind; it goes behind when its next
    /// is due by `turn`, if given, else into the wheel.
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
        self.held = self.held + held - before;
        let (from, to) = (PortId(entry.from), PortId(entry.to));
        if let Some(at) = entry.edge.next_event() {
            let due = turn.is_some_and(|turn| at <= turn);
            entry.together = if due {
                entry.together.saturating_add(1)
            } else {
                0
            };
            if due && entry.together >= TOGETHER {
                let next = entry.edge.next_out();
                let new = next.is_some_and(|next| frames.is_new(&next.frame));
                entry.behind = true;
                self.behind.push(id, new);
            } else {
                if !due {
                    entry.late_since_ns = None;
                }
                self.wheel.set(id, at);
            }
        } else {
            entry.together = 0;
            entry.late_since_ns = None;
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

/// Throw away what waited for too long, if the edge has been behind for long; at most [`LET_GO_AT_ONCE`] frames. False
/// when there is more of it.
fn let_go<F>(
    entry: &mut Entry<F>,
    now: Nanos,
    patience: Patience,
    frames: &mut impl Frames<F>,
    sum: &mut EdgeCounters,
) -> bool {
    let mut counting = Counting { frames, sum };
    entry
        .edge
        .advance(now, &mut |f, cause| counting.discard(f, cause));
    for _ in 0..LET_GO_AT_ONCE {
        let Some(next) = entry.edge.next_out() else {
            return true;
        };
        let late_ns = now.saturating_sub(next.due_ns);
        if late_ns <= patience.new_ns {
            entry.late_since_ns = entry
                .late_since_ns
                .filter(|_| late_ns > patience.new_ns / 2);
            return true;
        }
        let since_ns = *entry.late_since_ns.get_or_insert(now);
        let bound_ns = if counting.frames.is_new(&next.frame) {
            patience.new_ns
        } else {
            patience.under_way_ns
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
