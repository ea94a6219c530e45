//! Decisions of a relay thread about its work and sleep. The code here touches neither the kernel nor frames, so that
//! tests run it in virtual time.

mod apart;
mod waiting;

use constel_link::Nanos;

pub(crate) use apart::Apart;
pub use waiting::Priority;
pub(crate) use waiting::{Host, Overdue, Plan, Waiting};

/// Longest sleep while own slots are scarce, so that those returned by other threads are collected.
const SCARCE_NS: Nanos = 500_000;
/// If each processor has a relay thread, a thread that receives frames sleeps for this long, even if further frames
/// come in...
const NAP_NS: Nanos = 50_000;
/// ...and does so for this long after the last one.
const NAPS_NS: Nanos = 200_000;

/// A relay thread's schedule: which thread of the host runs it, and when it sleeps.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(super) waiting: Waiting,
    /// Load measurement of a thread that can be a guest, or have one.
    pub(super) apart: Option<Apart>,
    /// The thread of the host that does the work.
    at_work: Option<usize>,
    asleep: Option<Asleep>,
    sleeps: u64,
}

/// The present sleep of the relay's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asleep {
    pub(super) start_ns: Nanos,
    pub(super) until_ns: Nanos,
}

/// State of the data path before a sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook {
    /// When to check next for a pause without frames.
    pub(super) silence_ns: Nanos,
    /// When to check next for a pause without frames of the guest, if there is one.
    pub(super) guest_silence_ns: Option<Nanos>,
    /// Whether slots that other threads hold are needed: returned slots do not wake the thread.
    pub(super) scarce: bool,
    /// When frames of nodes last arrived.
    pub(super) took_in_ns: Nanos,
}

impl Scheduler {
    pub(crate) fn new(waiting: Waiting) -> Scheduler {
        Scheduler {
            waiting,
            apart: None,
            at_work: None,
            asleep: None,
            sleeps: 0,
        }
    }

    /// Called when thread `me` of the host continues the work, after a sleep or without one. Returns whether it took
    /// the work over from another one.
    pub(crate) fn begins(&mut self, me: usize, slept: bool, host: &impl Host) -> bool {
        if self.at_work == Some(me) {
            self.waiting.come_back(host);
            return false;
        }
        // A sleep that another thread of the host began: that one was held up.
        if slept {
            self.waiting.held_up(host.now_ns());
        }
        self.at_work = Some(me);
        self.waiting.enter(host);
        true
    }

    /// Called when the thread becomes a guest again.
    pub(crate) fn goes_back(&mut self, host: &impl Host) {
        self.waiting.leave(host);
        self.at_work = None;
        if let Some(apart) = &mut self.apart {
            apart.ends(host.now_ns());
        }
    }

    /// Returns the end of a sleep that is planned until then, and whether frames that come in do not end it.
    pub(crate) fn sleep_until(
        &mut self,
        now: Nanos,
        until: Nanos,
        outlook: Outlook,
    ) -> (Nanos, bool) {
        let mut until = until.min(outlook.silence_ns);
        if let Some(apart) = &mut self.apart {
            until = until.min(apart.sleeps(now, until));
        }
        until = until.min(outlook.guest_silence_ns.unwrap_or(Nanos::MAX));
        if outlook.scarce {
            until = until.min(now + SCARCE_NS);
        }
        // Each processor has a relay thread: a node that sends on this one is not interrupted for each frame.
        let is_apart = self.apart.is_some() && outlook.guest_silence_ns.is_none();
        let nap = now + NAP_NS;
        if is_apart && now - outlook.took_in_ns < NAPS_NS && nap < until {
            (nap, true)
        } else {
            (until, false)
        }
    }

    /// Records the start of a sleep.
    pub(crate) fn falls_asleep(&mut self, now: Nanos, until_ns: Nanos) {
        self.sleeps += 1;
        self.asleep = Some(Asleep {
            start_ns: now,
            until_ns,
        });
    }

    /// Returns the sleep that has ended, once.
    pub(crate) fn ended_sleep(&mut self) -> Option<Asleep> {
        self.asleep.take()
    }

    /// Returns the number of sleeps so far.
    pub(crate) fn sleeps(&self) -> u64 {
        self.sleeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A host whose clock the test sets; the thread uses all of the time. It allows everything.
    struct Virtual(Cell<Nanos>);

    impl Host for Virtual {
        fn now_ns(&self) -> Nanos {
            self.0.get()
        }

        fn cpu_ns(&self) -> Nanos {
            self.0.get()
        }

        fn set_real_time(&self, _: bool) -> bool {
            true
        }
    }

    const QUIET: Outlook = Outlook {
        silence_ns: Nanos::MAX,
        guest_silence_ns: None,
        scarce: false,
        took_in_ns: 0,
    };
    const NOW: Nanos = 10_000_000_000;

    fn scheduler(apart: Option<Apart>) -> Scheduler {
        let mut scheduler = Scheduler::new(Waiting::new(Priority::RealTime, 80_000, 0, true));
        scheduler.apart = apart;
        scheduler
    }

    #[test]
    fn a_sleep_ends_early_for_slots_and_for_silence() {
        let mut alone = scheduler(None);
        let mut until = |outlook| alone.sleep_until(NOW, NOW + 1_000_000_000, outlook);
        assert_eq!(until(QUIET), (NOW + 1_000_000_000, false));
        let scarce = Outlook {
            scarce: true,
            ..QUIET
        };
        assert_eq!(until(scarce), (NOW + SCARCE_NS, false));
        let silent = Outlook {
            silence_ns: NOW + 9,
            ..QUIET
        };
        assert_eq!(until(silent), (NOW + 9, false));
        let guest = Outlook {
            guest_silence_ns: Some(NOW + 8),
            ..silent
        };
        assert_eq!(until(guest), (NOW + 8, false));
    }

    #[test]
    fn only_a_thread_that_is_apart_and_receives_frames_naps() {
        let [first, _] = Apart::both();
        let mut first = scheduler(Some(first));
        let receiving = Outlook {
            took_in_ns: NOW - NAPS_NS + 1,
            ..QUIET
        };
        let nap = (NOW + NAP_NS, true);
        assert_eq!(first.sleep_until(NOW, Nanos::MAX, receiving), nap);
        let soon = NOW + NAP_NS - 1;
        assert_eq!(first.sleep_until(NOW, soon, receiving), (soon, false));
        let before = Outlook {
            took_in_ns: NOW - NAPS_NS,
            ..QUIET
        };
        assert!(!first.sleep_until(NOW, NOW + 1_000_000, before).1);
        let with_guest = Outlook {
            guest_silence_ns: Some(Nanos::MAX),
            ..receiving
        };
        assert!(!first.sleep_until(NOW, NOW + 1_000_000, with_guest).1);
        let alone = scheduler(None).sleep_until(NOW, NOW + 1_000_000, receiving);
        assert_eq!(alone, (NOW + 1_000_000, false));
    }

    #[test]
    fn a_thread_that_takes_over_during_a_sleep_shows_that_the_other_was_held_up() {
        let host = Virtual(Cell::new(NOW));
        let mut scheduler = scheduler(None);
        assert!(scheduler.begins(0, false, &host));
        assert!(!scheduler.waiting.relieved(NOW));
        scheduler.falls_asleep(NOW, NOW + 5);
        let asleep = scheduler.ended_sleep();
        assert_eq!(
            asleep.map(|a| (a.start_ns, a.until_ns)),
            Some((NOW, NOW + 5))
        );
        assert_eq!((scheduler.ended_sleep(), scheduler.sleeps()), (None, 1));
        scheduler.waiting.leave(&host);
        assert!(!scheduler.begins(0, true, &host), "the same thread");
        assert!(!scheduler.waiting.relieved(NOW));
        scheduler.waiting.leave(&host);
        assert!(scheduler.begins(1, true, &host));
        assert!(scheduler.waiting.relieved(NOW));
    }
}
