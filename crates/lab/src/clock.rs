//! Lab time and the host's clock.
//!
//! Lab time zero is an instant of `CLOCK_MONOTONIC` that is not known until routes stand (unless the
//! scenario says not to wait). Until then the sky is held at lab time zero.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// `CLOCK_MONOTONIC` in nanoseconds: the clock that stamps frames.
pub(crate) fn mono_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Since boot: never negative, and 584 years fit.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Processor time of the calling thread so far.
pub(crate) fn thread_cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // Never negative, and less than a second of nanoseconds.
    Duration::new(
        used.tv_sec.unsigned_abs(),
        used.tv_nsec.unsigned_abs() as u32,
    )
}

const HELD: u64 = u64::MAX;

/// The lab's clock; shared by everything that asks what time it is in the lab.
#[derive(Debug)]
pub(crate) struct LabClock {
    zero_mono_ns: AtomicU64,
    /// Time that passes only by sleeping, for tests; `None`: the host's.
    virtual_ns: Option<AtomicU64>,
}

impl LabClock {
    /// A clock that is held at lab time zero.
    pub(crate) fn held() -> Self {
        Self {
            zero_mono_ns: AtomicU64::new(HELD),
            virtual_ns: None,
        }
    }

    /// As [`LabClock::held`], on time that passes only by [sleeping](LabClock::sleep).
    #[cfg(test)]
    pub(crate) fn held_virtual() -> Self {
        Self {
            virtual_ns: Some(AtomicU64::new(1)),
            ..Self::held()
        }
    }

    /// The machine's clock, nanoseconds: `CLOCK_MONOTONIC`.
    pub(crate) fn machine_ns(&self) -> u64 {
        let passed = self.virtual_ns.as_ref();
        passed.map_or_else(mono_ns, |ns| ns.load(Ordering::Acquire))
    }

    /// Lets time pass.
    pub(crate) fn sleep(&self, length: Duration) {
        match &self.virtual_ns {
            None => std::thread::sleep(length),
            Some(ns) => {
                let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
                ns.fetch_add(length.max(1), Ordering::AcqRel);
            }
        }
    }

    /// Lab time zero is this instant.
    pub(crate) fn start(&self, zero_mono_ns: u64) {
        self.zero_mono_ns.store(zero_mono_ns, Ordering::Release);
    }

    /// The instant of lab time zero; `None` while held.
    pub(crate) fn zero_mono_ns(&self) -> Option<u64> {
        match self.zero_mono_ns.load(Ordering::Acquire) {
            HELD => None,
            zero => Some(zero),
        }
    }

    /// Lab time now; `None` while held. Zero if the clock's start lies ahead.
    pub(crate) fn now_ns(&self) -> Option<u64> {
        self.zero_mono_ns()
            .map(|zero| self.machine_ns().saturating_sub(zero))
    }

    /// How long until lab time `t_ns`; zero once it has come, `None` while held.
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
