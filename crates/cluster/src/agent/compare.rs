//! The difference between the clocks of two machines, from exchanges with the reference: `CLOCK_MONOTONIC`, which a lab
//! uses, and the wall clock, which people read.
//!
//! Machines compare `CLOCK_MONOTONIC`, which is never set, so setting a wall clock does not affect the time of a lab. Each
//! machine's wall clock is described by its lead over `CLOCK_MONOTONIC` there. A change of that lead means that the wall
//! clock was set.

use crate::underlay::{Exchange, Offset, OffsetEstimate};

/// A change of the wall clock against the machine's monotonic clock above this value counts as a set clock, nanoseconds.
/// Reading both clocks takes less time.
const SET_NS: u64 = 1_000_000;

/// A request with its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compared {
    /// The four readings of `CLOCK_MONOTONIC`.
    pub(crate) exchange: Exchange,
    /// The replying machine's wall clock minus its `CLOCK_MONOTONIC`, nanoseconds.
    pub(crate) wall_ahead_ns: i64,
}

impl Compared {
    /// Combines the four times in order. This machine measured `t1` and `t4`.
    pub(crate) fn new([t1_ns, t2_ns, t3_ns, t4_ns]: [u64; 4], wall_ahead_ns: i64) -> Self {
        Self {
            exchange: Exchange {
                t1_ns,
                t2_ns,
                t3_ns,
                t4_ns,
            },
            wall_ahead_ns,
        }
    }
}

/// The state of the comparison with another machine's clocks.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Estimates the offset between the two monotonic clocks.
    pub(crate) estimate: OffsetEstimate,
    /// The latest lead of each machine's wall clock over its monotonic clock: this machine's, the other one's.
    walls: Option<(i64, i64)>,
    /// The number of times that a wall clock was set.
    sets: u64,
}

impl Comparison {
    /// Adds a reply. `wall_ahead_ns` is the lead of this machine's wall clock over its monotonic clock.
    pub(crate) fn learn(&mut self, compared: Compared, wall_ahead_ns: i64) {
        self.estimate.learn(compared.exchange);
        let now = (wall_ahead_ns, compared.wall_ahead_ns);
        if let Some(then) = self.walls {
            let is_set = |a: i64, b: i64| a.abs_diff(b) > SET_NS;
            self.sets += u64::from(is_set(then.0, now.0) || is_set(then.1, now.1));
        }
        self.walls = Some(now);
    }

    /// Returns the lead of this machine's wall clock over the other one's, in nanoseconds, for a given offset of the
    /// monotonic clocks.
    pub(crate) fn wall_offset_ns(&self, offset: Offset) -> i64 {
        let (ours, theirs) = self.walls.unwrap_or_default();
        // `ahead_ns` is the other clock minus this one, hence the minus sign.
        let ns = i128::from(ours) - i128::from(theirs) - i128::from(offset.ahead_ns);
        i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
    }

    /// Returns the number of times that a wall clock was set, on either machine.
    pub(crate) fn sets(&self) -> u64 {
        self.sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const DAY: i64 = 86_400 * 1_000_000_000;

    /// Two machines were started a day apart, and their wall clocks differ by 3 s until one of them is set by an hour.
    #[test]
    fn a_wall_clock_that_is_set_moves_no_lab() {
        let (wall, hour) = (20_000 * DAY, 3_600 * 1_000_000_000);
        let mut known = Comparison::default();
        let mut ahead = Vec::new();
        for second in 1..20_u64 {
            // The other machine is a day older than this one. This clock is set after 5 s, the other one after 9 s and back
            // after 14 s.
            let t1 = 100 * S + second * S;
            let t2 = t1.strict_add_signed(DAY) + 1_000_000;
            let ours = wall + i64::from(second >= 5) * hour;
            let theirs =
                wall - DAY - 3 * 1_000_000_000 - i64::from((9..14).contains(&second)) * hour;
            known.learn(Compared::new([t1, t2, t2, t1 + 2_000_000], theirs), ours);
            let offset = known.estimate.at(t1 + 2_000_000).unwrap();
            ahead.push(offset.ahead_ns);
            let sets = u64::from(second >= 5) + u64::from(second >= 9) + u64::from(second >= 14);
            assert_eq!(known.sets(), sets, "after {second} s");
            let apart = 3 * 1_000_000_000 + i64::try_from(sets.min(2)).unwrap() * hour;
            let apart = apart - i64::from(second >= 14) * hour;
            assert_eq!(known.wall_offset_ns(offset), apart, "after {second} s");
        }
        assert_eq!(ahead, [DAY; 19]);
        assert_eq!(known.estimate.steps(), 0);
    }

    #[test]
    fn readings_that_differ_a_little_are_no_set_clock() {
        let mut known = Comparison::default();
        for (at, wall) in [(1, 0), (2, 900_000), (3, 0), (4, -900_000)] {
            known.learn(Compared::new([at * S; 4], 0), wall);
        }
        assert_eq!(known.sets(), 0);
    }
}
