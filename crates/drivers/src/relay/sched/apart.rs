//! Placement of the last thread when the relay has as many threads as there are processors. While one processor is
//! enough for both, the last thread is a *guest* of the first, on the same processor. When it is not enough, the last
//! thread is *apart*, on a processor of its own.
//!
//! A real-time thread that spins until the next frame is due keeps its processor from all other tasks. With one such
//! thread on each processor, the nodes' programs and the kernel's own work wait for it, and it waits for them. Frames
//! are then some 10 us later at the 99th percentile than with one thread less. So the last processor is used only when it is
//! needed.
//!
//! The work moves between two threads of the host: those that [alternate](crate::relay::shifts) if there are fewer threads
//! than processors. While both have work, they do not alternate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use constel_link::Nanos;

/// Window over which the share of time that a thread works is measured.
const WINDOW_NS: Nanos = 5_000_000;
/// If a thread works for more than this share, in thousandths, the two separate.
const PART: u32 = 850;
/// If both together work for less than this share, in thousandths, for CALM_NS, they share a processor again.
const TOGETHER: u32 = 500;
const CALM_NS: Nanos = 1_000_000_000;
/// Longest turn that is counted: a longer one includes time in which the host kept the thread from running.
const TURN_MAX_NS: Nanos = 300_000;

/// Share of the time that a thread works, one window after the other.
#[derive(Debug, Default)]
struct Busy {
    from_ns: Nanos,
    worked_ns: Nanos,
}

impl Busy {
    fn since(from_ns: Nanos) -> Busy {
        Busy {
            from_ns,
            worked_ns: 0,
        }
    }

    fn worked(&mut self, ns: Nanos) {
        self.worked_ns += ns.min(TURN_MAX_NS);
    }

    /// Returns, at the end of a window, the share in thousandths and the window's length.
    fn look(&mut self, now: Nanos) -> Option<(u32, Nanos)> {
        let length = now.saturating_sub(self.from_ns);
        if length < WINDOW_NS {
            return None;
        }
        let share = (self.worked_ns.min(length) * 1000 / length) as u32;
        *self = Busy::since(now);
        Some((share, length))
    }
}

/// One side's measurements of the load.
#[derive(Debug)]
pub(crate) struct Apart {
    /// 0: the first thread, 1: the last one.
    side: usize,
    /// Shares of both sides, in thousandths of the time.
    shares: Arc<[AtomicU32; 2]>,
    busy: Busy,
    /// Time for which the load has been low.
    calm_ns: Nanos,
    /// Whether the guest should get a processor of its own.
    wanted: bool,
    since_ns: Option<Nanos>,
    before_ns: Nanos,
}

impl Apart {
    /// Creates both sides: for the first thread, and for the last one.
    pub(crate) fn both() -> [Apart; 2] {
        let shares = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        [0, 1].map(|side| Apart {
            side,
            shares: shares.clone(),
            busy: Busy::default(),
            calm_ns: 0,
            wanted: false,
            since_ns: None,
            before_ns: 0,
        })
    }

    /// Returns whether this is the side of the last thread, which may be a guest.
    pub(crate) fn is_last(&self) -> bool {
        self.side == 1
    }

    /// Counts a turn of this length as work.
    pub(crate) fn worked(&mut self, ns: Nanos) {
        self.busy.worked(ns);
    }

    /// Updates the measurement of the first thread. Returns whether its guest should leave.
    pub(crate) fn is_too_much(&mut self, now: Nanos) -> bool {
        if let Some((share, _)) = self.busy.look(now) {
            self.tell(share);
            self.wanted = share > PART;
        }
        self.wanted
    }

    /// Updates the measurement of the last thread. Returns whether it should go back.
    pub(crate) fn is_little(&mut self, now: Nanos) -> bool {
        if let Some((share, length)) = self.busy.look(now) {
            self.tell(share);
            let other = self.shares[1 - self.side].load(Ordering::Relaxed);
            self.calm_ns = if share + other < TOGETHER {
                self.calm_ns + length
            } else {
                0
            };
        }
        self.calm_ns >= CALM_NS
    }

    /// Returns whether the guest should get a processor of its own.
    pub(crate) fn wants_to_part(&self) -> bool {
        self.wanted
    }

    fn tell(&self, share: u32) {
        self.shares[self.side].store(share, Ordering::Relaxed);
    }

    /// Records that there is no work before `until`. Returns the latest instant of the next measurement.
    pub(crate) fn sleeps(&mut self, now: Nanos, until: Nanos) -> Nanos {
        // A thread that sleeps does not measure at the end of the window, so its last share would stay.
        if until.saturating_sub(now) > WINDOW_NS {
            self.tell(0);
        }
        match self.since_ns {
            Some(_) => now + CALM_NS.saturating_sub(self.calm_ns).max(WINDOW_NS),
            None => Nanos::MAX,
        }
    }

    pub(crate) fn begins(&mut self, now: Nanos) {
        self.calm_ns = 0;
        self.busy = Busy::since(now);
        self.since_ns = Some(now);
    }

    pub(crate) fn ends(&mut self, now: Nanos) {
        self.before_ns = self.total_ns(now);
        self.since_ns = None;
    }

    /// Returns how long the last thread has had a processor of its own.
    pub(crate) fn total_ns(&self, now: Nanos) -> Nanos {
        let since = self.since_ns.map_or(0, |since| now.saturating_sub(since));
        self.before_ns + since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: usize = 0;
    const LAST: usize = 1;

    /// A window in which a thread works for this share of the time, in thousandths.
    fn window(apart: &mut Apart, now: &mut Nanos, share: Nanos) {
        *now += WINDOW_NS;
        for _ in 0..100 {
            apart.worked(WINDOW_NS / 100 * share / 1000);
        }
    }

    #[test]
    fn the_two_part_where_one_processor_is_not_enough() {
        let [mut first, _] = Apart::both();
        let mut now = 0;
        window(&mut first, &mut now, 840);
        assert!(!first.is_too_much(now));
        window(&mut first, &mut now, 860);
        assert!(!first.is_too_much(now - 1), "not over yet");
        assert!(first.is_too_much(now));
        assert!(first.is_too_much(now + 1), "until there is less to do");
        window(&mut first, &mut now, 300);
        assert!(!first.is_too_much(now));
        // The host kept the thread from running: that is no work.
        first.worked(WINDOW_NS);
        assert!(!first.is_too_much(now + WINDOW_NS));
    }

    #[test]
    fn they_come_together_after_a_while_with_little_to_do() {
        let [mut first, mut last] = Apart::both();
        let mut now = 0;
        last.begins(now);
        let mut windows = |of_first, of_last, most| {
            let mut sides = [now; 2];
            for n in 1..=most {
                window(&mut first, &mut sides[FIRST], of_first);
                first.is_too_much(sides[FIRST]);
                window(&mut last, &mut sides[LAST], of_last);
                now = sides[LAST];
                if last.is_little(now) {
                    return Some(n);
                }
            }
            None
        };
        let calm = CALM_NS / WINDOW_NS;
        assert_eq!(windows(300, 210, 2 * calm), None, "510 in all");
        assert_eq!(windows(300, 190, calm - 1), None, "not for long enough");
        assert_eq!(windows(0, 510, 1), None, "begins anew");
        assert_eq!(windows(300, 190, 2 * calm), Some(calm));
        last.ends(now);
        assert_eq!(last.total_ns(now + 7), now);
    }

    #[test]
    fn who_sleeps_has_nothing_to_do_and_looks_again() {
        let [mut first, mut last] = Apart::both();
        let mut now = 0;
        last.begins(now);
        window(&mut first, &mut now, 600);
        first.is_too_much(now);
        assert_eq!(first.sleeps(now, now + 1), Nanos::MAX);
        assert!(!last.is_little(now), "the other one is at work");
        first.sleeps(now, Nanos::MAX);
        let look = last.sleeps(now, Nanos::MAX);
        assert_eq!(look, now + CALM_NS);
        assert!(last.is_little(look), "all of the sleep was calm");
    }
}
