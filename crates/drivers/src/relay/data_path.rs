//! The data path of a relay thread: it receives frames by shared memory, passes them through the edge table, and sends
//! them by AF_XDP. The other parts of its work are in [`super::intake`], [`super::enter`] and [`super::send`].

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use constel_link::{CheckedEffects, CheckedUpdate, EdgeTable, Nanos, UpdateError};

use super::across::Across;
use super::air::Air;
use super::external::Externals;
use super::far::Far;
use super::gso_out::GsoSender;
use super::instant::{Change, Scheduled, UpdateReply};
use super::layout::SlotRef;
use super::object::Loaded;
use super::passed::Passed;
use super::pool::Pool;
use super::rings::Rings;
use super::state::State;
use super::switches::Switches;
use super::transit::Transit;
use super::wire::Wires;
use super::xsk::Xsk;
use crate::clock::mono_ns;
use crate::update::Applied;

/// With more frames than this in the rings, or older ones, they are emptied before edges that are behind get their
/// turn...
const RINGS_LONG: u32 = 512;
const RINGS_OLD_NS: Nanos = 200_000;
/// ...at most this many times [`INTAKE`](super::intake::INTAKE).
pub(super) const INTAKES_PER_TURN: u32 = 16;
/// A frame is stamped a moment before it is visible. Younger ones wait for the next turn, so that frames of two CPUs
/// are merged in the right order.
const SETTLE_NS: Nanos = 300;

/// Frames later than this do not postpone a rest of the thread.
const FAR_BEHIND_NS: Nanos = 1_000_000;

/// One thread's part of the frames: everything that a frame passes from its capture to its sending.
pub(crate) struct DataPath {
    pub(super) loaded: Arc<Loaded>,
    /// Rings to the other threads, if there are any.
    pub(super) across: Option<Box<Across>>,
    pub(super) rings: Rings,
    /// Readable when a frame was captured while the thread slept.
    pub(super) wake_fd: RawFd,
    pub(super) pool: Pool,
    pub(super) table: EdgeTable<SlotRef>,
    pub(super) xsk: Xsk,
    pub(super) externals: Externals,
    pub(super) air: Air,
    pub(super) far: Far,
    pub(super) transit: Transit,
    pub(super) wires: Arc<Wires>,
    pub(super) switches: Arc<Switches>,
    pub(super) gso_out: GsoSender,
    /// Whether frames of TCP streams that are due together are joined.
    pub(super) gro: bool,
    /// Deduction of the time of nodes' stacks, if it is enabled.
    pub(super) passed: Option<Passed>,
    pub(super) state: State,
}

impl DataPath {
    /// Takes in captured frames and sends due ones. Returns whether there may be more to do at once.
    pub(super) fn turn(&mut self, now: Nanos) -> bool {
        self.rings.look();
        // The newest frames are left for the next turn: another CPU may be about to publish an older one.
        let settled = now.saturating_sub(SETTLE_NS);
        let mut busy = false;
        // Updates take effect between the frames that arrived before and after their instant.
        while let Some(first) = self.state.scheduled.front()
            && first.at_ns <= settled
        {
            let at_ns = first.at_ns;
            if self.across.is_some() {
                if !self.change_together(at_ns) {
                    return self.meanwhile(now, at_ns);
                }
                busy = true;
                continue;
            }
            while self.intake(at_ns.saturating_sub(1)) {
                self.send_due(mono_ns());
            }
            if let Some(first) = self.state.scheduled.pop_front() {
                self.make(first, true);
            }
            busy = true;
        }
        busy |= self.intake(settled);
        busy |= self.take_handed();
        // The rings are served in order of arrival; frames in the table get fair turns. A node that fills the rings
        // must not delay frames that are due on other edges.
        let (old, mut now) = (now.saturating_sub(RINGS_OLD_NS), now);
        for _ in 0..INTAKES_PER_TURN {
            let long = self.rings.waiting() > RINGS_LONG;
            let long = long || self.rings.oldest().is_some_and(|ts| ts < old);
            if !long || !self.intake(settled) {
                break;
            }
            now = mono_ns();
            self.send_punctual(now);
        }
        busy |= self.air.advance(settled, &mut self.table, &mut self.pool);
        busy |= self.send_arrived(now);
        busy |= self.send_due(now);
        if let Some(across) = &mut self.across {
            across.knock();
        }
        busy
    }

    /// Sends due frames while other threads are not ready for a change at this instant.
    fn meanwhile(&mut self, now: Nanos, at_ns: Nanos) -> bool {
        let before = at_ns.saturating_sub(1);
        // The events of the channels before the change are not affected by it.
        self.air.advance(before, &mut self.table, &mut self.pool);
        self.send_due(now);
        if let Some(across) = &mut self.across {
            across.knock();
        }
        // Another relay thread may have to run on this processor.
        std::thread::yield_now();
        true
    }

    /// Continues the next change, which is due at this instant. Returns true once it was made or refused.
    fn change_together(&mut self, at_ns: Nanos) -> bool {
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
            if !across.instants.is_complete() || !across.push_marks(can) {
                return false;
            }
            across.instants.sent_mark(can);
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

    fn make(&mut self, scheduled: Scheduled, can: bool) {
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

    /// Schedules a change, after earlier ones for the same instant.
    pub(super) fn schedule(&mut self, at_ns: Nanos, change: Change) {
        let place = self.state.scheduled.partition_point(|s| s.at_ns <= at_ns);
        let scheduled = Scheduled { at_ns, change };
        self.state.scheduled.insert(place, scheduled);
    }

    pub(super) fn apply_effects(
        &mut self,
        at_ns: Nanos,
        changes: &CheckedEffects,
        reply: &SyncSender<Result<Nanos, UpdateError>>,
    ) {
        let result = self.table.apply_effects(at_ns, changes, &mut self.pool);
        self.air.looked_over(at_ns, &self.table);
        let _ = reply.try_send(result.map(|()| at_ns));
    }

    pub(super) fn apply(&mut self, at_ns: Nanos, update: CheckedUpdate, reply: &UpdateReply) {
        let start = mono_ns();
        let result = self.table.apply(at_ns, &update, &mut self.pool);
        self.air.updated(at_ns, &update, &self.table);
        let took_ns = mono_ns() - start;
        self.state.updates += u64::from(result.is_ok());
        self.state.longest_update_ns = self.state.longest_update_ns.max(took_ns);
        let result = result.map(|changes| Applied {
            at_ns,
            took_ns,
            changes,
        });
        let _ = reply.try_send((result, update));
    }

    /// Returns whether another thread has sent an item to this one.
    pub(super) fn has_news(&mut self) -> bool {
        let across = self.across.as_mut();
        across.is_some_and(|across| across.has_news())
    }

    /// Returns when the next frame, channel event or update is due.
    pub(super) fn next_due(&mut self) -> Nanos {
        let frame = self.table.next_event().unwrap_or(Nanos::MAX);
        let frame = frame.min(self.far.next_due().unwrap_or(Nanos::MAX));
        // The events of channels, and updates, are processed once all frames stamped before them are visible.
        let event = self.air.next_event();
        let frame = frame.min(event.map_or(Nanos::MAX, |at| at + SETTLE_NS));
        let update = self.state.scheduled.front();
        frame.min(update.map_or(Nanos::MAX, |s| s.at_ns + SETTLE_NS))
    }

    /// Returns the same for postponing a rest: if frames are far behind, only those of punctual edges count.
    pub(super) fn pressing(&mut self) -> Nanos {
        if self.state.last_late_ns > FAR_BEHIND_NS {
            return self.table.next_punctual().unwrap_or(Nanos::MAX);
        }
        self.next_due()
    }
}
