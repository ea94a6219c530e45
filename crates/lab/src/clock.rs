//! Lab time and the host's clock.
//!
//! Lab time zero is an instant of `CLOCK_MONOTONIC`, which is not known until routes have converged (unless the
//! scenario says not to wait). Until then the sky stays at lab time zero.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Returns `CLOCK_MONOTONIC` in nanoseconds, the clock of frame timestamps.
pub(crate) fn mono_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Time since boot is never negative, and a `u64` of nanoseconds holds 584 years.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Returns the processor time of the calling thread so far.
pub(crate) fn thread_cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // The value is never negative, and has less than a second of nanoseconds.
    Duration::new(
        used.tv_sec.unsigned_abs(),
        used.tv_nsec.unsigned_abs() as u32,
    )
}

const HELD: u64 = u64::MAX;

/// The lab's clock, which all parts of the lab share.
#[derive(Debug)]
pub(crate) struct LabClock {
    zero_mono_ns: AtomicU64,
    /// A virtual time that advances only by sleeping, for tests; `None` for the host's clock.
    virtual_ns: Option<AtomicU64>,
}

impl LabClock {
    /// Creates a clock that is held at lab time zero.
    pub(crate) fn held() -> Self {
        Self {
            zero_mono_ns: AtomicU64::new(HELD),
            virtual_ns: None,
        }
    }

    /// As [`LabClock::held`], with a virtual time that advances only by [sleeping](LabClock::sleep).
    #[cfg(test)]
    pub(crate) fn held_virtual() -> Self {
        Self {
            virtual_ns: Some(AtomicU64::new(1)),
            ..Self::held()
        }
    }

    /// Returns the machine's clock, nanoseconds: `CLOCK_MONOTONIC`.
    pub(crate) fn machine_ns(&self) -> u64 {
        let passed = self.virtual_ns.as_ref();
        passed.map_or_else(mono_ns, |ns| ns.load(Ordering::Acquire))
    }

    /// Sleeps for this time.
    pub(crate) fn sleep(&self, length: Duration) {
        match &self.virtual_ns {
            None => std::thread::sleep(length),
            Some(ns) => {
                let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
                ns.fetch_add(length.max(1), Ordering::AcqRel);
            }
        }
    }

    /// Starts the clock: this instant is lab time zero.
    pub(crate) fn start(&self, zero_mono_ns: u64) {
        self.zero_mono_ns.store(zero_mono_ns, Ordering::Release);
    }

    /// Returns the instant of lab time zero; `None` while held.
    pub(crate) fn zero_mono_ns(&self) -> Option<u64> {
        match self.zero_mono_ns.load(Ordering::Acquire) {
            HELD => None,
            zero => Some(zero),
        }
    }

    /// Returns the present lab time; `None` while held, zero before the instant of lab time zero.
    pub(crate) fn now_ns(&self) -> Option<u64> {
        self.zero_mono_ns()
            .map(|zero| self.machine_ns().saturating_sub(zero))
    }

    /// Returns the time until lab time `t_ns`; zero once it has passed, `None` while held.
    pub(crate) fn until(&self, t_ns: u64) -> Option<Duration> {
        let due = self.zero_mono_ns()?.saturating_add(t_ns);
        Some(Duration::from_nanos(due.saturating_sub(self.machine_ns())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_clock_has_no_time() {
        let clock = LabClock::held();
        assert_eq!(clock.now_ns(), None);
        assert_eq!(clock.until(5), None);
        clock.start(mono_ns());
        assert!(clock.now_ns().is_some());
        assert_eq!(clock.until(0), Some(Duration::ZERO));
        assert!(clock.until(60_000_000_000).unwrap() > Duration::from_secs(59));
    }
}
