//! The relation between wall-clock time and lab time: programs print the former, and a user may set that clock
//! while a lab runs.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock::LabClock;

/// The drift up to which two clock offsets count as equal, nanoseconds.
const SAME_NS: i64 = 5_000_000;

/// The largest number of changes of the offset. Beyond it, only larger and larger changes count.
const MOST: usize = 4_096;

/// The accuracy with which the time of setting a clock is known, seconds.
const SLACK_S: f64 = 0.1;

/// A span of lab time in which the wall clock advances like the lab's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    /// The beginning, nanoseconds of lab time.
    from_ns: u64,
    /// The time of the wall clock at lab time zero, extrapolated, nanoseconds since the Unix epoch.
    zero_unix_ns: i64,
}

/// The wall clock relative to the lab's clock during a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct WallClock {
    spans: Vec<Span>,
    /// How often the smallest change that counts was doubled.
    doubled: u32,
}

/// A reading of the wall clock, converted to lab time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    /// The lab time, seconds.
    pub(super) lab_s: f64,
    /// The index of its span.
    span: usize,
}

impl WallClock {
    /// Reads both clocks now, unless lab time is held.
    pub(crate) fn look(&mut self, clock: &LabClock) {
        // A thread that was descheduled between the two readings repeats them.
        for _ in 0..5 {
            let Some(before_ns) = clock.now_ns() else {
                return;
            };
            let wall = SystemTime::now().duration_since(UNIX_EPOCH);
            let took_ns = clock.now_ns().unwrap_or(before_ns) - before_ns;
            let wall_ns = wall
                .ok()
                .and_then(|since| i64::try_from(since.as_nanos()).ok());
            if let (Some(wall_ns), true) = (wall_ns, took_ns < 1_000_000) {
                self.see(before_ns + took_ns / 2, wall_ns);
                return;
            }
        }
    }

    /// Records that the wall clock showed `unix_ns` at lab time `lab_ns`. Calls must be in order of lab time.
    pub(super) fn see(&mut self, lab_ns: u64, unix_ns: i64) {
        let zero_unix_ns = unix_ns.saturating_sub_unsigned(lab_ns);
        let least_ns = SAME_NS << self.doubled.min(32);
        let same = |last: &Span| (last.zero_unix_ns - zero_unix_ns).abs() < least_ns;
        if self.spans.last().is_some_and(same) {
            return;
        }
        // Every second span is dropped, so that the list still covers the whole run with half the resolution.
        if self.spans.len() == MOST {
            self.doubled += 1;
            let mut odd = false;
            self.spans.retain(|_| {
                odd = !odd;
                odd
            });
        }
        self.spans.push(Span {
            from_ns: lab_ns,
            zero_unix_ns,
        });
    }

    /// Returns the lab time at which the wall clock read `unix_s`, in a span not before that of `after`. If
    /// several times are possible, it is the nearest to `expected_s`, or the first if that is not given. `None` if the clocks
    /// were never read.
    pub(super) fn read(
        &self,
        unix_s: f64,
        after: Option<Reading>,
        expected_s: Option<f64>,
    ) -> Option<Reading> {
        let first = after.map_or(0, |after| after.span);
        let reading = |span: usize| Reading {
            lab_s: unix_s - self.spans[span].zero_unix_ns as f64 / 1e9,
            span,
        };
        let possible = |reading: &Reading| {
            let from_s = self.spans[reading.span].from_ns as f64 / 1e9;
            let next = self.spans.get(reading.span + 1);
            let until_s = next.map_or(f64::INFINITY, |next| next.from_ns as f64 / 1e9);
            // There is no reading before the first span, so that its offset is used for all earlier times.
            let begun = reading.span == 0 || reading.lab_s >= from_s - SLACK_S;
            begun && reading.lab_s <= until_s + SLACK_S
        };
        let readings = (first..self.spans.len()).map(reading).filter(possible);
        let off = |reading: &Reading| expected_s.map_or(0.0, |at| (reading.lab_s - at).abs());
        readings
            .min_by(|a, b| off(a).total_cmp(&off(b)))
            .or_else(|| (first < self.spans.len()).then(|| reading(self.spans.len() - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_NS: i64 = 1_700_000_000_000_000_000;

    /// A clock that is looked at every 10 ms for 20 s, and set by `by_ms` at 10 s.
    fn set_by(by_ms: i64) -> WallClock {
        let mut wall = WallClock::default();
        for tick in 0..2_000_u64 {
            let lab_ns = tick * 10_000_000;
            let by_ns = if tick < 1_000 { 0 } else { by_ms * 1_000_000 };
            wall.see(lab_ns, START_NS + lab_ns as i64 + by_ns);
        }
        wall
    }

    #[test]
    fn a_clock_that_is_set_has_two_stretches() {
        assert_eq!(set_by(0).spans.len(), 1);
        assert_eq!(set_by(4).spans.len(), 1);
        for by_ms in [-5_000, -300, 300, 5_000] {
            let wall = set_by(by_ms);
            assert_eq!(wall.spans.len(), 2, "{by_ms}");
            let by_s = by_ms as f64 / 1e3;
            let mut last = None;
            for tenth in 0..190 {
                let lab_s = f64::from(tenth) / 10.0 + 0.05;
                let set_s = if lab_s < 10.0 { 0.0 } else { by_s };
                let unix_s = START_NS as f64 / 1e9 + lab_s + set_s;
                let reading = wall.read(unix_s, last, Some(lab_s)).unwrap();
                assert!(
                    (reading.lab_s - lab_s).abs() < 1e-5,
                    "{by_ms}: {reading:?} {lab_s}"
                );
                last = Some(reading);
            }
        }
    }

    #[test]
    fn a_clock_that_drifts_for_ever_takes_bounded_memory() {
        let mut wall = WallClock::default();
        for second in 0..1_000_000_u64 {
            // 500 ppm, the most that NTP slews by.
            let unix_ns = START_NS + (second * 1_000_500_000) as i64;
            wall.see(second * 1_000_000_000, unix_ns);
            assert!(wall.spans.len() <= MOST);
        }
        assert!(wall.doubled > 0);
    }

    #[test]
    fn clocks_that_were_never_looked_at_say_nothing() {
        assert_eq!(WallClock::default().read(1.0, None, None), None);
        let mut wall = WallClock::default();
        wall.look(&LabClock::held());
        assert!(wall.spans.is_empty());
        let clock = LabClock::held();
        clock.start(crate::clock::mono_ns());
        wall.look(&clock);
        assert_eq!(wall.spans.len(), 1);
    }
}
