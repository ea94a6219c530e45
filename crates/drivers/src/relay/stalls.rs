//! Periods in which the machine kept the relay's thread from running, as distinct from the relay's own lateness.
//!
//! A frame may be late because the relay was busy, or because its thread was ready but did not run. Reasons for the
//! latter: a virtual machine's processor was taken away, a timer was late, another task occupied the processor. To the
//! thread all of these are time that passed without it: a wake-up later than requested, or wall-clock time between two clock readings
//! that is not in its own CPU time. The kernel counts the part spent in its run queue (`/proc/thread-self/schedstat`);
//! the rest is due to the hypervisor or to timers. The processor's [speed](super::speed) is recorded here too.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::speed::{self, Speed};
use crate::clock::{mono_ns, thread_cpu_ns};
use crate::stats::{Stall, StallStats};
use constel_link::Nanos;

/// Shorter periods cannot be distinguished from normal wake-ups.
pub(crate) const STALL_NS: Nanos = 200_000;
/// Maximum age of the base from which gaps are measured, plus one sleep.
const BASE_AGE_NS: Nanos = 10_000_000;
/// Number of stalls kept; older ones are only in the sums.
const KEPT: usize = 8192;

/// Opens the kernel's scheduling statistics of the calling thread. Without them stalls are detected, but not their
/// cause.
pub(crate) fn schedstat() -> Option<Arc<File>> {
    let file = File::open("/proc/thread-self/schedstat").ok();
    file.map(Arc::new)
}

/// The thread's record of when it ran.
#[derive(Debug)]
pub(crate) struct Stalls {
    schedstat: Option<Arc<File>>,
    /// Base of the measurement of gaps: wall clock, CPU time, time in the run queue.
    base_ns: Nanos,
    base_cpu_ns: Nanos,
    base_queued_ns: Nanos,
    /// Last reading of the clock.
    last_ns: Nanos,
    /// Time of voluntary sleep since the base.
    slept_ns: Nanos,
    kept: VecDeque<Stall>,
    sums: StallStats,
    speed: Speed,
}

impl Stalls {
    pub(crate) fn new() -> Stalls {
        Stalls {
            schedstat: None,
            base_ns: 0,
            base_cpu_ns: 0,
            base_queued_ns: 0,
            last_ns: 0,
            slept_ns: 0,
            kept: VecDeque::new(),
            sums: StallStats::default(),
            speed: Speed::default(),
        }
    }

    /// Must be called first by the thread that keeps this record from here on, with [its own statistics](schedstat).
    pub(crate) fn enter(&mut self, schedstat: Option<Arc<File>>) {
        self.schedstat = schedstat;
        self.rebase(mono_ns());
    }

    fn rebase(&mut self, now: Nanos) {
        self.base_ns = now;
        self.base_cpu_ns = thread_cpu_ns();
        self.base_queued_ns = self.queued_ns();
        self.last_ns = now;
        self.slept_ns = 0;
    }

    /// Returns the time that the thread has spent in the run queue so far.
    fn queued_ns(&self) -> Nanos {
        let mut text = [0; 64];
        let read = self.schedstat.as_ref().map(|f| f.read_at(&mut text, 0));
        let Some(Ok(len)) = read else { return 0 };
        std::str::from_utf8(&text[..len])
            .ok()
            .and_then(|t| t.split_ascii_whitespace().nth(1)?.parse().ok())
            .unwrap_or(0)
    }

    /// Must be called every turn. A gap since the last call that is neither sleep nor CPU time is a stall.
    pub(crate) fn look(&mut self, now: Nanos) {
        self.speed.look(now, || speed::work(mono_ns));
        let gap = now.saturating_sub(self.last_ns);
        // Reading the CPU time is a system call, so it is read only after a gap or when the base is old.
        if gap < STALL_NS && now.saturating_sub(self.base_ns) < BASE_AGE_NS {
            self.last_ns = now;
            return;
        }
        if gap >= STALL_NS {
            let ran = thread_cpu_ns().saturating_sub(self.base_cpu_ns);
            // The part of the gap that neither sleep nor CPU time explains.
            let away = now
                .saturating_sub(self.base_ns)
                .saturating_sub(self.slept_ns)
                .saturating_sub(ran)
                .min(gap);
            if away >= STALL_NS {
                self.note(now - away, now);
            }
        }
        self.rebase(now);
    }

    /// Records a sleep: the thread slept from `start` on, should have woken at `due` at the latest (a timer, or a
    /// frame's arrival), and woke at `now`.
    pub(crate) fn woke(&mut self, start: Nanos, due: Nanos, now: Nanos) {
        self.slept_ns += now.saturating_sub(start);
        self.last_ns = now;
        let due = due.max(start);
        if now.saturating_sub(due) >= STALL_NS {
            self.note(due, now);
            self.rebase(now);
        }
    }

    fn note(&mut self, from_ns: Nanos, to_ns: Nanos) {
        let length = to_ns - from_ns;
        let queued = self.queued_ns().saturating_sub(self.base_queued_ns);
        let stall = Stall {
            from_ns,
            to_ns,
            in_run_queue_ns: queued.min(length),
        };
        self.sums.count += 1;
        self.sums.total_ns += length;
        self.sums.longest_ns = self.sums.longest_ns.max(length);
        self.sums.in_run_queue_ns += stall.in_run_queue_ns;
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(stall);
    }

    /// Returns the part of the time between these two instants in which the thread was ready but did not run. It is
    /// meant for the recent past: it searches the last few stalls.
    pub(crate) fn within(&self, from: Nanos, to: Nanos) -> Nanos {
        self.kept
            .iter()
            .rev()
            .take_while(|s| s.to_ns > from)
            .map(|s| s.to_ns.min(to).saturating_sub(s.from_ns.max(from)))
            .sum()
    }

    pub(crate) fn sums(&self) -> StallStats {
        StallStats {
            slow_ns: self.speed.slow_ns(),
            least_speed_ratio: self.speed.least_ratio(),
            ..self.sums
        }
    }

    pub(crate) fn kept(&self) -> Vec<Stall> {
        self.kept.iter().copied().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.sums = StallStats::default();
        self.speed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn work_is_no_stall_and_absence_is_one() {
        let mut stalls = Stalls::new();
        stalls.enter(schedstat());
        // Busy for 20 ms: only the time that other tasks took of it is counted as theirs.
        let start = Instant::now();
        let cpu = thread_cpu_ns();
        while start.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let ran = thread_cpu_ns() - cpu;
        stalls.look(mono_ns());
        let whole = start.elapsed().as_nanos() as Nanos;
        assert!(stalls.sums().total_ns <= whole - ran + STALL_NS);
        // Away for 20 ms without a note.
        stalls.clear();
        let from = mono_ns();
        std::thread::sleep(Duration::from_millis(20));
        let to = mono_ns();
        stalls.look(to);
        let sums = stalls.sums();
        assert_eq!(sums.count, 1);
        assert!((19_000_000..to - from + 1_000_000).contains(&sums.total_ns));
        let within = stalls.within(from, to);
        assert!(within >= 19_000_000 && within <= to - from, "{within}");
        assert_eq!(stalls.within(to + 1, to + 2), 0);
    }

    #[test]
    fn sleep_is_no_stall_but_waking_late_is() {
        let mut stalls = Stalls::new();
        stalls.enter(schedstat());
        let now = mono_ns();
        stalls.woke(now, now + 900_000, now + 1_000_000);
        assert_eq!(stalls.sums().count, 0);
        stalls.woke(now, now + 500_000, now + 5_000_000);
        let kept = stalls.kept();
        assert_eq!(kept.len(), 1);
        assert_eq!(
            (kept[0].from_ns, kept[0].to_ns),
            (now + 500_000, now + 5_000_000)
        );
        assert_eq!(stalls.within(now, now + 1_000_000), 500_000);
        assert_eq!(stalls.sums().longest_ns, 4_500_000);
    }

    #[test]
    fn the_run_queue_is_told_apart() {
        // Two busy threads bound to one CPU at normal priority: each waits for the other.
        let bind = || {
            // SAFETY: an all-zero set is valid; the calls are about the calling thread.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(0, &mut set);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
            }
        };
        let end = Instant::now() + Duration::from_millis(300);
        let other = std::thread::spawn(move || {
            bind();
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        });
        let mine = std::thread::spawn(move || {
            bind();
            let mut stalls = Stalls::new();
            stalls.enter(schedstat());
            while Instant::now() < end {
                stalls.look(mono_ns());
            }
            stalls.sums()
        });
        let sums = mine.join().unwrap();
        other.join().unwrap();
        assert!(
            sums.count > 0 && sums.in_run_queue_ns > sums.total_ns / 2,
            "{sums:?}"
        );
    }
}
