//! The offset of another machine's clock, with an error bound.
//!
//! Four times are measured, as in NTP (RFC 5905, 8): a request leaves at `t1` of this clock, arrives at `t2` of the other
//! one, whose reply leaves at `t3`, and arrives here at `t4`. The round-trip time is `d = (t4 - t1) - (t3 - t2)`. If both
//! directions took the same time, the other clock is ahead by `((t2 - t1) + (t3 - t4)) / 2`. If not, the error is at most `d
//! / 2`. The shortest of many round trips has waited least in queues, so it is the best. The bound grows with the age
//! because the clocks' rates differ.
//!
//! A clock that was set by more than the bounds is detected with the next exchange. A smaller change cannot be distinguished
//! from an error.

use std::collections::VecDeque;

/// Number of remembered exchanges.
const MOST_REMEMBERED: usize = 64;

/// Maximum rate error of undisciplined clocks (computer crystals), parts per million.
const DRIFT_PPM: u64 = 100;

/// One request and its reply. Nanoseconds: `t1` and `t4` of this clock, `t2` and `t3` of the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The request left.
    pub t1_ns: u64,
    /// The request arrived.
    pub t2_ns: u64,
    /// The reply left.
    pub t3_ns: u64,
    /// The reply arrived.
    pub t4_ns: u64,
}

/// The lead of another clock over this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// The lead, nanoseconds. Negative: behind.
    pub ahead_ns: i64,
    /// Upper bound of the error, as long as no clock is set.
    pub error_ns: u64,
    /// One-way delay between the machines, taken as half of the shortest round-trip time, nanoseconds.
    pub one_way_ns: u64,
}

impl Offset {
    /// Converts a time of the other clock into a time of this clock.
    #[must_use]
    pub fn here_ns(&self, theirs_ns: u64) -> u64 {
        match self.ahead_ns {
            ahead @ 0.. => theirs_ns.saturating_sub(ahead.unsigned_abs()),
            behind => theirs_ns.saturating_add(behind.unsigned_abs()),
        }
    }
}

/// One-way delay between two machines from the remembered exchanges: half of the round-trip time, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneWayDelays {
    /// The shortest.
    pub least_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

impl Exchange {
    /// Returns the round-trip time, or `None` if the times contradict each other.
    #[must_use]
    pub fn one_way_ns(&self) -> Option<u64> {
        let here = self.t4_ns.checked_sub(self.t1_ns)?;
        // As in NTP (RFC 5905, section 8): the time here minus the time that the other machine held the request.
        here.checked_sub(self.t3_ns.checked_sub(self.t2_ns)?)
    }

    fn ahead_ns(&self) -> i64 {
        // The mean of both differences. It is exact if both directions take equally long; otherwise its error is at
        // most half the round-trip time.
        let there = i128::from(self.t2_ns) - i128::from(self.t1_ns);
        let back = i128::from(self.t3_ns) - i128::from(self.t4_ns);
        i64::try_from((there + back) / 2).unwrap_or(if there < 0 { i64::MIN } else { i64::MAX })
    }
}

/// The offset of another clock, from the latest exchanges.
#[derive(Debug, Clone, Default)]
pub struct OffsetEstimate {
    exchanges: VecDeque<Exchange>,
    contradictions: u64,
    steps: u64,
}

impl OffsetEstimate {
    /// Creates an estimate without exchanges.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a completed exchange. If it cannot be reconciled with earlier ones, a clock was set, and these are forgotten. An
    /// exchange that contradicts itself is counted and not used.
    pub fn learn(&mut self, exchange: Exchange) {
        if exchange.one_way_ns().is_none() {
            self.contradictions += 1;
            return;
        }
        // The two offsets agree if their error intervals overlap. The 1 covers the rounding of the halves.
        let agrees = |known: Offset| {
            let own_error_ns = exchange.one_way_ns().unwrap_or(0) / 2;
            known.ahead_ns.abs_diff(exchange.ahead_ns()) <= known.error_ns + own_error_ns + 1
        };
        // Neither clock is wrong in itself: one was set or a machine slept, so older exchanges describe another offset.
        if !self.at(exchange.t4_ns).is_none_or(agrees) {
            self.exchanges.clear();
            self.steps += 1;
        }
        self.exchanges.push_back(exchange);
        if self.exchanges.len() > MOST_REMEMBERED {
            self.exchanges.pop_front();
        }
    }

    /// Returns the offset at `now_ns` of this clock by the exchange with the smallest error bound, or `None` without
    /// exchanges.
    #[must_use]
    pub fn at(&self, now_ns: u64) -> Option<Offset> {
        let offset = |exchange: &Exchange| {
            let one_way_ns = exchange.one_way_ns().unwrap_or(u64::MAX);
            // Both clocks may drift by this rate, in opposite directions.
            let aged_ns = now_ns.saturating_sub(exchange.t1_ns) / 1_000_000 * 2 * DRIFT_PPM;
            Offset {
                ahead_ns: exchange.ahead_ns(),
                error_ns: (one_way_ns / 2).saturating_add(aged_ns),
                one_way_ns: one_way_ns / 2,
            }
        };
        let known = self.exchanges.iter().map(offset);
        // An old exchange that was fast may still have a smaller bound than the newest one.
        known.min_by_key(|offset| offset.error_ns)
    }

    /// Returns the one-way delay between the machines, or `None` without exchanges.
    #[must_use]
    pub fn ways(&self) -> Option<OneWayDelays> {
        let ways = || self.exchanges.iter().filter_map(Exchange::one_way_ns);
        Some(OneWayDelays {
            least_ns: ways().min()? / 2,
            longest_ns: ways().max()? / 2,
        })
    }

    /// Returns the number of times that a clock was set, this one or the other.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the number of exchanges with contradicting times.
    #[must_use]
    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// Returns an exchange at true time `t`, with the other clock ahead by `ahead` and these one-way delays.
    fn exchange(t_ns: u64, ahead_ns: i64, there_ns: u64, back_ns: u64) -> Exchange {
        let other = |t: u64| t.checked_add_signed(ahead_ns).unwrap();
        let think_ns = 20_000;
        Exchange {
            t1_ns: t_ns,
            t2_ns: other(t_ns + there_ns),
            t3_ns: other(t_ns + there_ns + think_ns),
            t4_ns: t_ns + there_ns + think_ns + back_ns,
        }
    }

    #[test]
    fn equal_ways_give_the_offset_exactly() {
        let mut estimate = OffsetEstimate::new();
        assert_eq!(estimate.at(0), None);
        let known = exchange(10_000 * MS, -123_456_789, MS, MS);
        estimate.learn(known);
        let offset = estimate.at(known.t4_ns).unwrap();
        assert_eq!((offset.ahead_ns, offset.one_way_ns), (-123_456_789, MS));
        assert_eq!(offset.here_ns(1_000_000_000), 1_123_456_789);
        estimate.learn(exchange(10_500 * MS, -123_456_789, MS, 3 * MS));
        let ways = OneWayDelays {
            least_ns: MS,
            longest_ns: 2 * MS,
        };
        assert_eq!(estimate.ways(), Some(ways));
        assert!((MS..MS + MS / 2).contains(&offset.error_ns), "{offset:?}");
        // A minute later the error may be 12 ms larger.
        let later = estimate.at(known.t1_ns + 60_000 * MS).unwrap();
        assert_eq!(later.error_ns, MS + 12 * MS);
    }

    #[test]
    fn a_clock_that_is_set_is_noticed() {
        let mut estimate = OffsetEstimate::new();
        for second in 1..20 {
            estimate.learn(exchange(second * 1_000 * MS, 0, MS, MS));
        }
        assert_eq!(estimate.steps(), 0);
        let set = exchange(20_000 * MS, 50 * MS as i64, 3 * MS, MS);
        estimate.learn(set);
        assert_eq!(estimate.steps(), 1);
        let offset = estimate.at(set.t4_ns).unwrap();
        assert!(
            offset.ahead_ns.abs_diff(50 * MS as i64) <= offset.error_ns,
            "{offset:?}"
        );
    }

    #[test]
    fn contradictions_are_counted_and_not_used() {
        let mut estimate = OffsetEstimate::new();
        estimate.learn(Exchange {
            t1_ns: 10,
            t2_ns: 5,
            t3_ns: 4,
            t4_ns: 20,
        });
        estimate.learn(Exchange {
            t1_ns: 10,
            t2_ns: 5,
            t3_ns: 50,
            t4_ns: 20,
        });
        assert_eq!((estimate.at(20), estimate.contradictions()), (None, 2));
    }

    proptest! {
        /// For any queueing delays, and clocks within their bound, the stated error bound holds.
        #[test]
        fn the_error_that_is_stated_holds(
            ahead in -1_000_000_000_000_i64..1_000_000_000_000,
            drift_ppm in -200_i64..=200,
            ways in prop::collection::vec((1_u64..50_000_000, 1_u64..50_000_000, 1_u64..2_000_000_000), 1..100),
        ) {
            let mut estimate = OffsetEstimate::new();
            let mut t_ns = 2_000_000_000_000;
            let begun_ns = t_ns;
            let ahead_at = |t: u64| ahead + i64::try_from(i128::from(t - begun_ns) * i128::from(drift_ppm) / 1_000_000).unwrap();
            for (there, back, pause) in ways {
                let t2 = t_ns + there;
                let exchange = Exchange {
                    t1_ns: t_ns,
                    t2_ns: t2.checked_add_signed(ahead_at(t2)).unwrap(),
                    t3_ns: t2.checked_add_signed(ahead_at(t2)).unwrap(),
                    t4_ns: t2 + back,
                };
                estimate.learn(exchange);
                t_ns = t2 + back + pause;
                let offset = estimate.at(t_ns).unwrap();
                let off = offset.ahead_ns.abs_diff(ahead_at(t_ns));
                prop_assert!(off <= offset.error_ns + 2, "{off} beyond {offset:?}");
                prop_assert_eq!(estimate.steps(), 0);
            }
        }
    }
}
