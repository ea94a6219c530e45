//! A limit of the computation for one question, with cancellation.

/// Work is counted in satellites placed: about a microsecond of a core each.
const LOOK_EVERY: u64 = 4_096;

/// The budget of a question. The computation reports its cost as it goes, and stops when it is refused.
pub struct Effort<'a> {
    wanted: &'a (dyn Fn() -> bool + Sync),
    limit: u64,
    spent: u64,
    /// The amount spent when `wanted` was last called.
    looked: u64,
}

/// The reason why no more may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CutReason {
    /// The caller cancelled the question.
    #[error("the caller cancelled the request")]
    Unwanted,
    /// The limit is reached.
    #[error(
        "it takes more than {limit} positions of satellites, which is the most for one question"
    )]
    Exhausted {
        /// The limit.
        limit: u64,
    },
}

impl Effort<'_> {
    /// Enough for one question of a user: some ten seconds of one core, in satellites placed.
    pub const QUESTION: u64 = 20_000_000;

    /// Returns a budget without a limit and without cancellation.
    #[must_use]
    pub fn unlimited() -> Effort<'static> {
        Effort::new(u64::MAX, &|| true)
    }

    /// Returns a budget of `limit` placed satellites, valid as long as `wanted` returns true. `wanted` is
    /// called again every few milliseconds.
    #[must_use]
    pub fn new(limit: u64, wanted: &(dyn Fn() -> bool + Sync)) -> Effort<'_> {
        Effort {
            wanted,
            limit,
            spent: 0,
            looked: 0,
        }
    }

    /// Returns the rest of the limit, in satellites placed.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.limit - self.spent
    }

    /// The limit, in satellites placed.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Books work equal to placing `work` satellites, before it is done.
    ///
    /// # Errors
    /// When the question is cancelled, or the work is more than what is left.
    pub fn spend(&mut self, work: u64) -> Result<(), CutReason> {
        if work > self.left() {
            return Err(CutReason::Exhausted { limit: self.limit });
        }
        self.spent += work;
        if self.spent - self.looked >= LOOK_EVERY {
            self.looked = self.spent;
            if !(self.wanted)() {
                return Err(CutReason::Unwanted);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn the_limit_holds_and_what_is_called_off_ends_soon() {
        let mut effort = Effort::new(10, &|| true);
        assert_eq!(effort.spend(10), Ok(()));
        assert_eq!(effort.spend(1), Err(CutReason::Exhausted { limit: 10 }));
        let asked = AtomicU64::new(0);
        let wanted = || asked.fetch_add(1, Ordering::Relaxed) < 3;
        let mut effort = Effort::new(u64::MAX, &wanted);
        let mut spent = 0;
        while effort.spend(100) == Ok(()) {
            spent += 100;
        }
        assert_eq!(effort.spend(LOOK_EVERY), Err(CutReason::Unwanted));
        assert!(spent < 4 * (LOOK_EVERY + 100), "{spent}");
    }
}
