//! Speed of the processor that a relay thread runs on, relative to the fastest speed observed.
//!
//! A processor may be slow although it is not taken away: its host limits it because of heat or power, or another task
//! uses the other half of the core. Then neither stalls nor the load average nor stolen time show it, and work that
//! takes 0.2 us a hop takes 4. So a fixed piece of work is timed now and then while the thread works.

use constel_link::Nanos;

/// Interval of measurements: slow periods of tens of milliseconds are detected.
const EVERY_NS: Nanos = 5_000_000;
/// Longest time that one measurement stands for: a thread that slept has not observed the time before.
const SEEN_MAX_NS: Nanos = 2 * EVERY_NS;
/// Steps of the work, each of which depends on the one before: some 0.4 us.
const STEPS: u32 = 256;
/// A processor counts as slow if the work takes more than this many times its shortest time.
const SLOW: Nanos = 2;
/// Number of attempts: an interrupt may delay one of them, but hardly all.
const TRIES: usize = 3;

/// Measurements so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Speed {
    last_ns: Nanos,
    /// Shortest time of the work; 0: it was never timed.
    best_ns: Nanos,
    /// How long the processor was slow, and the longest time of the work.
    slow_ns: Nanos,
    worst_ns: Nanos,
}

impl Speed {
    /// Must be called every turn. `work` does the work once and returns its duration.
    pub(crate) fn look(&mut self, now: Nanos, mut work: impl FnMut() -> Nanos) {
        let since = now.saturating_sub(self.last_ns);
        if since < EVERY_NS {
            return;
        }
        self.last_ns = now;
        let mut took = work().max(1);
        for _ in 1..TRIES {
            if self.best_ns > 0 && took <= SLOW * self.best_ns {
                break;
            }
            took = took.min(work().max(1));
        }
        if self.best_ns == 0 {
            (self.best_ns, self.worst_ns) = (took, took);
            return;
        }
        self.best_ns = self.best_ns.min(took);
        self.worst_ns = self.worst_ns.max(took);
        if took > SLOW * self.best_ns {
            self.slow_ns += since.min(SEEN_MAX_NS);
        }
    }

    /// Returns how long the processor had less than half of its highest observed speed.
    pub(crate) fn slow_ns(&self) -> Nanos {
        self.slow_ns
    }

    /// Returns the lowest speed relative to the highest; `None`: it was never measured.
    pub(crate) fn least_ratio(&self) -> Option<f64> {
        (self.best_ns > 0).then(|| self.best_ns as f64 / self.worst_ns as f64)
    }

    /// Resets the slow time, but keeps the highest speed.
    pub(crate) fn clear(&mut self) {
        (self.slow_ns, self.worst_ns) = (0, self.best_ns);
    }
}

/// Does the work and returns its duration. It uses no memory, so only the processor's speed counts.
pub(crate) fn work(clock: impl Fn() -> Nanos) -> Nanos {
    let began = clock();
    let mut x = std::hint::black_box(began);
    for _ in 0..STEPS {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
    }
    std::hint::black_box(x);
    clock().saturating_sub(began)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::thread_cpu_ns;

    /// Looks once a millisecond for a second; the work takes what `took` says of the millisecond.
    fn second(speed: &mut Speed, from_ms: u64, took: impl Fn(u64) -> Nanos) {
        for ms in 0..1000 {
            speed.look((from_ms + ms) * 1_000_000, || took(ms));
        }
    }

    #[test]
    fn slow_spells_are_summed_up_and_an_interrupt_is_none() {
        let mut speed = Speed::default();
        assert_eq!(speed.least_ratio(), None);
        second(&mut speed, 1000, |_| 400);
        assert_eq!((speed.slow_ns(), speed.least_ratio()), (0, Some(1.0)));
        // 100 ms at a twentieth of the speed, 200 ms at six tenths.
        second(&mut speed, 2000, |ms| match ms {
            300..400 => 8000,
            500..700 => 660,
            _ => 400,
        });
        assert!((95_000_000..=105_000_000).contains(&speed.slow_ns()));
        assert_eq!(speed.least_ratio(), Some(0.05));
        let before = speed.slow_ns();
        let tries = std::cell::Cell::new(0);
        second(&mut speed, 3000, |_| {
            tries.set(tries.get() + 1);
            if tries.get() % 2 == 1 { 30_000 } else { 400 }
        });
        assert_eq!(speed.slow_ns(), before);
        speed.clear();
        assert_eq!((speed.slow_ns(), speed.least_ratio()), (0, Some(1.0)));
    }

    #[test]
    fn sleep_counts_for_no_more_than_was_seen() {
        let mut speed = Speed::default();
        speed.look(1_000_000_000, || 400);
        speed.look(9_000_000_000, || 4000);
        assert_eq!(speed.slow_ns(), SEEN_MAX_NS);
    }

    #[test]
    fn the_work_takes_a_while_and_no_longer() {
        let least = (0..1000).map(|_| work(thread_cpu_ns)).min();
        assert!(
            least.is_some_and(|ns| (100..20_000).contains(&ns)),
            "{least:?}"
        );
    }
}
