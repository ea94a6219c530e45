//! What exchanges with the reference say of two clocks: the one that a lab goes by, and the one that people read.
//!
//! Machines compare `CLOCK_MONOTONIC`, which nobody sets: a lab's time does not notice when somebody sets a wall clock. That of each
//! machine is known by how far it is ahead of the other clock there; where this changes, it was set.

use constel_underlay::{Exchange, Offset, OffsetEstimate};

/// A wall clock that moved by more than this against the machine's other clock was set, nanoseconds. Reading both takes less.
const SET_NS: u64 = 1_000_000;

/// A question that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compared {
    /// By the clocks that nobody sets.
    pub(crate) exchange: Exchange,
    /// By how much the wall clock of the one who answered is ahead of that, nanoseconds.
    pub(crate) wall_ahead_ns: i64,
}

impl Compared {
    /// The four times in order; `t1` and `t4` are ours.
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

/// What is known of another machine's clocks.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Of the clocks that nobody sets.
    pub(crate) estimate: OffsetEstimate,
    /// By how much each machine's wall clock was ahead at last: ours, theirs.
    walls: Option<(i64, i64)>,
    /// How often a wall clock was found to have been set.
    sets: u64,
}

impl Comparison {
    /// An answer; our wall clock is so far ahead of our other one.
    pub(crate) fn learn(&mut self, compared: Compared, wall_ahead_ns: i64) {
        self.estimate.learn(compared.exchange);
        let now = (wall_ahead_ns, compared.wall_ahead_ns);
        if let Some(then) = self.walls {
            let is_set = |a: i64, b: i64| a.abs_diff(b) > SET_NS;
            self.sets += u64::from(is_set(then.0, now.0) || is_set(then.1, now.1));
        }
        self.walls = Some(now);
    }

    /// By how much our wall clock is ahead of theirs where the other clocks are so far apart.
    pub(crate) fn wall_offset_ns(&self, offset: Offset) -> i64 {
        let (ours, theirs) = self.walls.unwrap_or_default();
        // The offset says how far the other one is ahead.
        let ns = i128::from(ours) - i128::from(theirs) - i128::from(offset.ahead_ns);
        i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
    }

    /// How often a wall clock was found to have been set, ours or theirs.
    pub(crate) fn sets(&self) -> u64 {
        self.sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const DAY: i64 = 86_400 * 1_000_000_000;

    /// Machines that were started a day apart, and whose wall clocks are 3 s apart, until one is set by an hour.
    #[test]
    fn a_wall_clock_that_is_set_moves_no_lab() {
        let (wall, hour) = (20_000 * DAY, 3_600 * 1_000_000_000);
        let mut known = Comparison::default();
        let mut ahead = Vec::new();
        for second in 1..20_u64 {
            // They are a day older than we; ours is set after 5 s, theirs after 9 s, and back after 14 s.
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
