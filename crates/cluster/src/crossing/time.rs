//! The clock that all machines of a lab have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use constel_link::Nanos;

/// The relation between a machine's own clock (`CLOCK_MONOTONIC`) and the lab's clock; clones share it.
///
/// The lab's clock is the one that all machines agree on, for example `CLOCK_MONOTONIC` of the reference machine.
/// The code that measures the difference sets it here.
#[derive(Debug, Clone, Default)]
pub struct LabTime {
    /// The lab's clock minus this machine's clock, nanoseconds.
    ahead_ns: Arc<AtomicI64>,
}

impl LabTime {
    /// Takes the lab's clock minus this machine's clock, nanoseconds.
    #[must_use]
    pub fn new(ahead_ns: i64) -> Self {
        Self {
            ahead_ns: Arc::new(AtomicI64::new(ahead_ns)),
        }
    }

    /// Replaces the difference after a new measurement.
    pub fn set(&self, ahead_ns: i64) {
        self.ahead_ns.store(ahead_ns, Ordering::Relaxed);
    }

    /// Returns the lab's time at an instant of this machine's clock.
    #[must_use]
    pub fn of_own(&self, own_ns: Nanos) -> u64 {
        own_ns.saturating_add_signed(self.ahead_ns.load(Ordering::Relaxed))
    }

    /// Returns the instant of this machine's clock at a time of the lab.
    #[must_use]
    pub fn to_own(&self, lab_ns: u64) -> Nanos {
        let ahead_ns = self.ahead_ns.load(Ordering::Relaxed);
        match ahead_ns {
            0.. => lab_ns.saturating_sub(ahead_ns.unsigned_abs()),
            _ => lab_ns.saturating_add(ahead_ns.unsigned_abs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_the_same_instant() {
        for ahead_ns in [-3_000, 0, 1_764_000_000_000_000_000] {
            let time = LabTime::new(0);
            time.clone().set(ahead_ns);
            assert_eq!(
                time.of_own(10_000),
                10_000_u64.wrapping_add_signed(ahead_ns)
            );
            assert_eq!(time.to_own(time.of_own(10_000)), 10_000);
        }
        assert_eq!(LabTime::new(5_000).to_own(1), 0, "before our clock began");
    }
}
