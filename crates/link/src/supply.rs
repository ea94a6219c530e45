//! Service at a rate, constant or not, to the bit.
//!
//! Work is counted in bit/s times nanoseconds: a bit is 1e9 units of work, and in a nanosecond a rate does as many
//! units as it has bits per second. So the end of a service is exact, and a frame in service at a change of the rate is
//! served at both rates.

use std::num::NonZeroU64;

use crate::access::AccessState;
use crate::rate::{MIN_MEAN_BPS, OPPORTUNITY_BYTES, RateLaw, SLOT_NS};
use crate::types::Nanos;

/// Work in one byte.
const WORK_PER_BYTE: u128 = 8_000_000_000;
const MS: u64 = 1_000_000;
/// Value of `rem` for opportunities: no bytes are left at this instant.
const USED_UP: u64 = u64::MAX;

/// A position in the supply. At a rate: the instant `ns + rem / rate`, with `rem < rate` of the rate that holds at
/// `ns`; the fraction is carried from frame to frame of a busy period. For opportunities: `rem` bytes of those at `ns`
/// are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    ns: Nanos,
    rem: u64,
}

/// The rate that serves an edge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Supply<'a> {
    Constant(NonZeroU64),
    Law(&'a RateLaw),
    /// The share of a terminal in its cell's rate, constant within a slot of the scheduler.
    Share {
        alone_bps: NonZeroU64,
        access: &'a AccessState,
    },
}

/// Returns the work of serving `len_bytes`.
pub(crate) fn work_of(len_bytes: u32) -> u128 {
    u128::from(len_bytes) * WORK_PER_BYTE
}

impl Supply<'_> {
    fn trace(&self) -> Option<Opportunities<'_>> {
        match self {
            Supply::Law(RateLaw::Opportunities { batches, origin_ns }) => Some(Opportunities {
                batches,
                origin_ns: *origin_ns,
            }),
            _ => None,
        }
    }

    /// Returns the position at which the service of a frame begins that finds the server idle at `now`.
    pub(crate) fn fresh(&self, now: Nanos) -> Point {
        let rem = if self.trace().is_some() { USED_UP } else { 0 };
        Point { ns: now, rem }
    }

    /// Returns the position at which `work` that begins at `from` ends.
    pub(crate) fn finish(&self, from: Point, work: u128) -> Point {
        if let Some(trace) = self.trace() {
            return trace.finish(from, work);
        }
        let mut from = from;
        // The fraction of the previous service is work that was already due at `from.ns`.
        let mut work = work + u128::from(from.rem);
        loop {
            let (rate, until) = self.segment(from.ns);
            // Rate times nanoseconds is in the unit of work, of which a byte has 8e9.
            let possible = u128::from(rate) * u128::from(until - from.ns);
            if work <= possible || until == Nanos::MAX {
                let Some(rate) = NonZeroU64::new(rate) else {
                    // Reached at `Nanos::MAX` only: every valid law has a positive mean rate.
                    return Point { ns: until, rem: 0 };
                };
                let rate = u128::from(rate.get());
                let whole = u64::try_from(work / rate).unwrap_or(u64::MAX);
                return Point {
                    ns: from.ns.saturating_add(whole),
                    rem: (work % rate) as u64,
                };
            }
            work -= possible;
            from = Point { ns: until, rem: 0 };
        }
    }

    /// Returns the work that remains at `now` of a service that ends at `end`.
    pub(crate) fn left(&self, now: Nanos, end: Point) -> u128 {
        if let Some(trace) = self.trace() {
            return trace.left(now, end);
        }
        let (mut at, mut work) = (now, u128::from(end.rem));
        while at < end.ns {
            let (rate, until) = self.segment(at);
            let until = until.min(end.ns);
            work += u128::from(rate) * u128::from(until - at);
            at = until;
        }
        work
    }

    /// Returns the first whole nanosecond at which the frame is completely served, so that it is never early.
    pub(crate) fn done_ns(&self, end: Point) -> Nanos {
        if self.trace().is_some() {
            return end.ns;
        }
        end.ns.saturating_add(u64::from(end.rem > 0))
    }

    /// Returns the rate at `t`, and the instant until which it holds.
    fn segment(&self, t: Nanos) -> (u64, Nanos) {
        let law = match self {
            Supply::Constant(rate) => return (rate.get(), Nanos::MAX),
            Supply::Law(law) => law,
            Supply::Share { alone_bps, access } => {
                let (share, until_ns) = access.share(t);
                // At least 1 kbit/s, as of every law, so that a frame is served within minutes.
                let bps = (alone_bps.get() as f64 * share) as u64;
                return (bps.max(MIN_MEAN_BPS), until_ns);
            }
        };
        match **law {
            RateLaw::Square {
                high_bps,
                low_bps,
                high_ns,
                low_ns,
                origin_ns,
            } => {
                let at = phase(t, origin_ns, high_ns + low_ns);
                let (rate, end) = if at < high_ns {
                    (high_bps, high_ns)
                } else {
                    (low_bps, high_ns + low_ns)
                };
                (rate, t.saturating_add(end - at))
            }
            RateLaw::Sine {
                mean_bps,
                amplitude_bps,
                period_ns,
                origin_ns,
                // The rate is constant within a slot, so that the end of a service can be computed with integers.
            } => slot(t, origin_ns, period_ns, |middle| {
                let turn = std::f64::consts::TAU * middle as f64 / period_ns as f64;
                (mean_bps as f64 + amplitude_bps as f64 * turn.sin()).round() as u64
            }),
            RateLaw::VCurve {
                high_bps,
                low_bps,
                half_width_ns,
                period_ns,
                origin_ns,
            } => {
                let at = phase(t, origin_ns, period_ns);
                // Between two dips the rate is constant, so the whole stretch is one segment instead of many slots.
                if (half_width_ns..period_ns - half_width_ns).contains(&at) {
                    let stays = period_ns - half_width_ns - at;
                    return (high_bps, t.saturating_add(stays));
                }
                slot(t, origin_ns, period_ns, |middle| {
                    let off = middle
                        .min(period_ns.saturating_sub(middle))
                        .min(half_width_ns);
                    let rise = u128::from(high_bps - low_bps) * u128::from(off);
                    low_bps + (rise / u128::from(half_width_ns)) as u64
                })
            }
            RateLaw::Steps {
                ref steps,
                period_ns,
                origin_ns,
            } => match period_ns {
                Some(period) => {
                    let at = phase(t, origin_ns, period);
                    // `next` is at least 1, because the first step is at 0.
                    let next = steps.partition_point(|s| s.0 <= at);
                    let end = steps.get(next).map_or(period, |s| s.0);
                    (steps[next - 1].1, t.saturating_add(end - at))
                }
                None => {
                    let at = t.saturating_sub(origin_ns);
                    let next = steps.partition_point(|s| s.0 <= at);
                    let end = steps
                        .get(next)
                        .map_or(Nanos::MAX, |s| origin_ns.saturating_add(s.0));
                    (steps[next - 1].1, end)
                }
            },
            // Opportunities are not a rate; `Opportunities` computes them.
            RateLaw::Opportunities { .. } => (0, Nanos::MAX),
        }
    }
}

/// Returns the position of `t` in its period. Periods are continued backwards before the origin.
fn phase(t: Nanos, origin_ns: Nanos, period_ns: u64) -> u64 {
    // The difference of two instants may be negative and does not fit 64 bits.
    let elapsed = i128::from(t) - i128::from(origin_ns);
    elapsed.rem_euclid(i128::from(period_ns)) as u64
}

/// Returns a curve's value at the middle of `t`'s slot, and the end of that slot.
fn slot(t: Nanos, origin_ns: Nanos, period_ns: u64, curve: impl Fn(u64) -> u64) -> (u64, Nanos) {
    let at = phase(t, origin_ns, period_ns);
    let start = at - at % SLOT_NS;
    let end = (start + SLOT_NS).min(period_ns);
    (curve(start + (end - start) / 2), t.saturating_add(end - at))
}

/// A recording of delivery opportunities, repeated.
struct Opportunities<'a> {
    batches: &'a [(u32, u32)],
    origin_ns: Nanos,
}

impl Opportunities<'_> {
    fn period_ns(&self) -> u64 {
        self.batches.last().map_or(MS, |b| u64::from(b.0) * MS)
    }

    /// Returns the first batch after `t`, or at `t` unless `after`: the round, and the batch's index in it.
    fn first(&self, t: Nanos, after: bool) -> (i128, usize) {
        let elapsed = i128::from(t) - i128::from(self.origin_ns);
        let period = i128::from(self.period_ns());
        let round = elapsed.div_euclid(period);
        // Batches lie within (0, period]: a batch at time 0 of a round is the last one of the previous round.
        let at = elapsed.rem_euclid(period) as u64;
        if at == 0 && !after {
            return (round - 1, self.batches.len() - 1);
        }
        let place = self.batches.partition_point(|b| {
            let ns = u64::from(b.0) * MS;
            if after { ns <= at } else { ns < at }
        });
        (round, place)
    }

    /// Iterates over the batches from one on: instant and number of bytes.
    fn from(&self, (round, place): (i128, usize)) -> impl Iterator<Item = (Nanos, u64)> {
        let (period, origin) = (i128::from(self.period_ns()), i128::from(self.origin_ns));
        let rest = self.batches[place..].iter().map(move |b| (round, b));
        let later =
            (round + 1..).flat_map(move |round| self.batches.iter().map(move |b| (round, b)));
        rest.chain(later).map(move |(round, &(ms, count))| {
            let ns = origin + round * period + i128::from(u64::from(ms) * MS);
            let bytes = u64::from(count) * u64::from(OPPORTUNITY_BYTES);
            (u64::try_from(ns.max(0)).unwrap_or(u64::MAX), bytes)
        })
    }

    fn finish(&self, from: Point, work: u128) -> Point {
        // An opportunity carries whole bytes, so a partial byte needs a whole one.
        let mut bytes = u64::try_from(work.div_ceil(WORK_PER_BYTE)).unwrap_or(u64::MAX);
        let used_up = from.rem == USED_UP;
        let mut used = if used_up { 0 } else { from.rem };
        for (ns, capacity) in self.from(self.first(from.ns, used_up)) {
            // Only the batch at the start is partly used; all later ones are complete.
            let here = if ns == from.ns { used } else { 0 };
            let left = capacity.saturating_sub(here);
            if bytes <= left || ns == Nanos::MAX {
                return Point {
                    ns,
                    rem: here + bytes,
                };
            }
            bytes -= left;
            used = 0;
        }
        Point {
            ns: Nanos::MAX,
            rem: 0,
        }
    }

    fn left(&self, now: Nanos, end: Point) -> u128 {
        if end.ns <= now {
            return 0;
        }
        let before: u64 = self
            .from(self.first(now, true))
            .take_while(|(ns, _)| *ns < end.ns)
            .map(|(_, bytes)| bytes)
            .sum();
        u128::from(before + end.rem) * WORK_PER_BYTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(batches: &[(u32, u32)], origin_ns: Nanos) -> RateLaw {
        RateLaw::Opportunities {
            batches: batches.into(),
            origin_ns,
        }
    }

    #[test]
    fn a_frame_is_served_at_both_rates() {
        let law = RateLaw::Square {
            high_bps: 8_000_000,
            low_bps: 800_000,
            high_ns: MS,
            low_ns: MS,
            origin_ns: 0,
        };
        let supply = Supply::Law(&law);
        // From 900 us on: 100 bytes at a byte per us, 20 more at a tenth of that.
        let end = supply.finish(supply.fresh(900_000), work_of(120));
        assert_eq!(supply.done_ns(end), MS + 200_000);
        assert_eq!(supply.left(MS, end), work_of(20));
        assert_eq!(supply.left(950_000, end), work_of(70));
        // The next one: 80 bytes until 2 ms, 20 more at the high rate.
        let end = supply.finish(end, work_of(100));
        assert_eq!(supply.done_ns(end), 2 * MS + 20_000);
    }

    #[test]
    fn nothing_is_served_at_rate_zero_and_recordings_hold_or_start_again() {
        let law = |period_ns| RateLaw::Steps {
            steps: [(0, 8_000_000), (MS, 0), (5 * MS, 80_000)]
                .as_slice()
                .into(),
            period_ns,
            origin_ns: 10 * MS,
        };
        let held = law(None);
        let supply = Supply::Law(&held);
        let done = |t, bytes| supply.done_ns(supply.finish(supply.fresh(t), work_of(bytes)));
        assert_eq!(
            done(0, 100),
            100_000,
            "before its origin the first rate holds"
        );
        assert_eq!(done(10 * MS + 999_000, 2), 15 * MS + 100_000);
        assert_eq!(done(100 * MS, 10), 101 * MS);
        let again = law(Some(6 * MS));
        let supply = Supply::Law(&again);
        let done = |t, bytes| supply.done_ns(supply.finish(supply.fresh(t), work_of(bytes)));
        assert_eq!(done(16 * MS, 100), 16 * MS + 100_000);
        assert_eq!(done(4 * MS, 100), 4 * MS + 100_000, "backwards too");
    }

    #[test]
    fn curves_have_their_shape() {
        let sine = RateLaw::Sine {
            mean_bps: 1_000_000,
            amplitude_bps: 500_000,
            period_ns: 1_000 * MS,
            origin_ns: 0,
        };
        let at = |law: &RateLaw, ms: u64| Supply::Law(law).segment(ms * MS);
        assert_eq!(at(&sine, 250).1, 251 * MS);
        assert!(at(&sine, 250).0.abs_diff(1_500_000) < 50);
        assert!(at(&sine, 750).0.abs_diff(500_000) < 50);
        let curve = RateLaw::VCurve {
            high_bps: 1_000_000,
            low_bps: 0,
            half_width_ns: 100 * MS,
            period_ns: 1_000 * MS,
            origin_ns: 500 * MS,
        };
        assert_eq!(at(&curve, 500), (5_000, 501 * MS), "the slot's middle");
        assert_eq!(at(&curve, 499), (5_000, 500 * MS));
        assert_eq!(at(&curve, 550), (505_000, 551 * MS));
        assert_eq!(at(&curve, 600), (1_000_000, 1_400 * MS));
        assert_eq!(at(&curve, 1_449).0, 505_000);
        // A whole period serves the mean.
        for law in [sine, curve] {
            let supply = Supply::Law(&law);
            let bits = law.mean_bps();
            let end = supply.finish(supply.fresh(0), u128::from(bits) * 1_000_000_000);
            assert!(supply.done_ns(end).abs_diff(1_000 * MS) < 10_000);
        }
    }

    #[test]
    fn opportunities_are_used_whole_by_those_who_wait() {
        let law = trace(&[(2, 1), (5, 2)], 0);
        let supply = Supply::Law(&law);
        let first = supply.finish(supply.fresh(0), work_of(1000));
        assert_eq!(supply.done_ns(first), 2 * MS);
        // 504 bytes are left at 2 ms, the rest comes at 5 ms.
        let second = supply.finish(first, work_of(1000));
        assert_eq!(
            second,
            Point {
                ns: 5 * MS,
                rem: 496
            }
        );
        let third = supply.finish(second, work_of(2512));
        assert_eq!(
            third,
            Point {
                ns: 5 * MS,
                rem: 3008
            }
        );
        // The batch is empty: the next is the first of the second round.
        assert_eq!(supply.done_ns(supply.finish(third, work_of(1))), 7 * MS);
        // A frame that arrives at 5 ms is too late for that batch.
        assert_eq!(
            supply.done_ns(supply.finish(supply.fresh(5 * MS), work_of(1))),
            7 * MS
        );
        assert_eq!(supply.left(0, second), work_of(1504 + 496));
        assert_eq!(supply.left(2 * MS, second), work_of(496));
        assert_eq!(supply.left(5 * MS, second), 0);
    }

    #[test]
    fn the_constant_rate_is_a_law_that_never_changes() {
        let law = RateLaw::Steps {
            steps: [(0, 7_000_003), (MS, 7_000_003)].as_slice().into(),
            period_ns: Some(2 * MS),
            origin_ns: 77,
        };
        let constant = Supply::Constant(NonZeroU64::new(7_000_003).unwrap());
        let (mut a, mut b) = (constant.fresh(5), Supply::Law(&law).fresh(5));
        for len in 1..2_000 {
            a = constant.finish(a, work_of(len));
            b = Supply::Law(&law).finish(b, work_of(len));
            assert_eq!(a, b);
        }
    }
}
