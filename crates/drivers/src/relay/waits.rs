//! Sleep of the thread: until when, and what ends it early; [`super::sched`] decides whether to sleep.

use std::sync::atomic::Ordering;

use constel_link::{EdgeTable, Nanos};

use super::air::Air;
use super::bell;
use super::far::Far;
use super::layout::SlotRef;
use super::rings::Rings;
use super::sched::Plan;
use super::shifts::News;
use super::state::State;
use super::thread::{HostThread, SETTLE_NS, Thread};
use super::warm_up;
use crate::clock::mono_ns;

/// Frames later than this do not postpone a rest of the thread.
const FAR_BEHIND_NS: Nanos = 1_000_000;
/// Longest sleep while own slots are scarce, so that those returned by other threads are collected.
const SCARCE_NS: Nanos = 500_000;
/// If each processor has a relay thread, a thread that receives frames sleeps for this long, even if further frames
/// come in...
const NAP_NS: Nanos = 50_000;
/// ...and does so for this long after the last one.
const NAPS_NS: Nanos = 200_000;

/// The present sleep of the relay's thread.
#[derive(Clone, Copy)]
pub(crate) struct Asleep {
    start_ns: Nanos,
    until_ns: Nanos,
}

impl Thread {
    /// Waits if there is no work: spins if a frame is due soon, otherwise sleeps. If two threads alternate, returns the
    /// end of the sleep and the descriptors that end it early.
    pub(super) fn wait(&mut self, here: &HostThread<'_>) -> Option<(Nanos, News)> {
        let now = mono_ns();
        self.state.awake.look(now);
        let mut due = next_due(&mut self.table, &self.air, &self.far, &self.state);
        if let Some(guest) = &mut self.guest {
            guest.state.awake.look(now);
            let theirs = next_due(&mut guest.table, &guest.air, &guest.far, &guest.state);
            due = due.min(theirs);
        }
        let before = self.state.warm_up.time(due);
        let (until, rest) = match self.waiting.plan(now, due, before) {
            Plan::Spin if self.state.warm_up.worth_it(now, due) && self.pending() == 0 => {
                warm_up::queue(&mut self.xsk, &self.loaded.slots);
                self.flush();
                self.state.warm_up.done(mono_ns());
                return None;
            }
            Plan::Spin => {
                std::hint::spin_loop();
                return None;
            }
            // A thread that is here already takes over, and sleeps itself.
            _ if !here.call_off() => return None,
            Plan::Sleep { until } => {
                let until = until.min(self.state.awake.until());
                let apart = self.apart.as_mut();
                let until = until.min(apart.map_or(Nanos::MAX, |apart| apart.sleeps(now, until)));
                // Returned slots do not wake the thread, so it must check for them.
                let mut scarce = self.pool.homes.are_scarce();
                let until = self.guest.as_ref().map_or(until, |guest| {
                    scarce |= guest.pool.homes.are_scarce();
                    until.min(guest.state.awake.until())
                });
                let latest = if scarce { now + SCARCE_NS } else { Nanos::MAX };
                let until = until.min(latest);
                // A node that sends on this processor is not interrupted for each frame.
                let nap = now + NAP_NS;
                let naps = self.is_apart() && now - self.state.took_in_ns < NAPS_NS;
                if naps && nap < until {
                    (nap, true)
                } else {
                    (until, false)
                }
            }
            Plan::Rest { until } => (until, true),
        };
        if until < Nanos::MAX && self.waiting.relieved(now) {
            return Some((until, self.fall_asleep(until, rest)?));
        }
        self.sleep(until, rest);
        None
    }

    /// Sleeps until then, or until a frame or command comes in; a `rest` is not ended by frames.
    pub(super) fn sleep(&mut self, until: Nanos, rest: bool) {
        let news = self.fall_asleep(until, rest);
        if let Some((news, asleep)) = news.zip(self.state.asleep.take()) {
            bell::sleep(news, until);
            self.woke(asleep);
        }
    }

    /// Returns the descriptors that end a sleep before its time; `None` if there is a reason not to sleep.
    fn fall_asleep(&mut self, until: Nanos, rest: bool) -> Option<News> {
        let mut stays = self.stays_awake(rest);
        if let Some(guest) = &mut self.guest {
            stays |= guest.stays_awake(rest);
        }
        if stays {
            self.wake_up();
            return None;
        }
        self.state.sleeps += 1;
        self.state.asleep = Some(Asleep {
            start_ns: mono_ns(),
            until_ns: until,
        });
        let news = |thread: &Thread| {
            let wake = (!rest).then_some(thread.wake_fd);
            [wake, Some(thread.signals.bell.fd())]
        };
        let [wake, bell] = news(self);
        let [theirs, their_bell] = self.guest.as_deref().map_or([None; 2], news);
        Some([wake, bell, theirs, their_bell])
    }

    /// Announces the sleep. Returns whether there is a reason not to sleep; reasons that arise after the call end the
    /// sleep.
    fn stays_awake(&mut self, rest: bool) -> bool {
        let news = !rest && (self.rings.fall_asleep() || self.has_news());
        news || self.signals.attention.load(Ordering::SeqCst)
    }

    fn wake_up(&self) {
        self.rings.wake_up();
        if let Some(guest) = &self.guest {
            guest.rings.wake_up();
        }
    }

    /// Records the end of a sleep.
    pub(super) fn woke(&mut self, asleep: Asleep) {
        let now = mono_ns();
        self.waiting.slept(asleep.until_ns, now);
        // A wake-up before the end was caused by a frame: its arrival is the instant at which the thread should have
        // woken.
        let wanted = if now >= asleep.until_ns {
            asleep.until_ns
        } else {
            let oldest = |rings: &mut Rings| {
                rings.look();
                rings.oldest().unwrap_or(Nanos::MAX)
            };
            let own = oldest(&mut self.rings).min(asleep.until_ns);
            let guest = self.guest.as_mut();
            own.min(guest.map_or(Nanos::MAX, |guest| oldest(&mut guest.rings)))
        };
        let stalls = &mut self.state.stalls;
        stalls.woke(asleep.start_ns, wanted, now);
        self.wake_up();
    }

    /// Returns whether another thread has sent an item to this one.
    fn has_news(&mut self) -> bool {
        let across = self.across.as_mut();
        across.is_some_and(|across| across.has_news())
    }
}

/// Returns when the next frame, channel event or update is due.
fn next_due(table: &mut EdgeTable<SlotRef>, air: &Air, far: &Far, state: &State) -> Nanos {
    let frame = table.next_event().unwrap_or(Nanos::MAX);
    let frame = frame.min(far.next_due().unwrap_or(Nanos::MAX));
    // The events of channels, and updates, are processed once all frames stamped before them are visible.
    let frame = frame.min(air.next_event().map_or(Nanos::MAX, |at| at + SETTLE_NS));
    let update = state.scheduled.front();
    frame.min(update.map_or(Nanos::MAX, |s| s.at_ns + SETTLE_NS))
}

/// Returns the same for postponing a rest: if frames are far behind, only those of punctual edges count.
pub(super) fn pressing(
    table: &mut EdgeTable<SlotRef>,
    air: &Air,
    far: &Far,
    state: &State,
) -> Nanos {
    if state.last_late_ns > FAR_BEHIND_NS {
        return table.next_punctual().unwrap_or(Nanos::MAX);
    }
    next_due(table, air, far, state)
}
