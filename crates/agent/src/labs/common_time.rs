//! The clock that a lab's machines have in common, from when its lab time is set: when the reference goes, another machine becomes it,
//! and what is common goes on without a jump.

/// The common clock less this machine's `CLOCK_MONOTONIC`, as it was told last.
#[derive(Debug, Default)]
pub(super) struct CommonTime {
    /// By whose clock, and how far that of the lab is ahead of it.
    by: Option<(String, i64)>,
    ahead_ns: i64,
    is_set: bool,
}

impl CommonTime {
    /// The clock of the reference `by` is so far ahead of ours; so far ahead is that of the lab.
    ///
    /// All machines are told the same when the reference goes: each has measured the old one and the new one, so what each adds from
    /// then on is how far these two were apart, but for the errors of both measurements.
    pub(super) fn hear(&mut self, by: &str, ahead_ns: i64) -> i64 {
        let shift_ns = match &self.by {
            Some((known, shift_ns)) if known == by => *shift_ns,
            Some(_) if self.is_set => self.ahead_ns.saturating_sub(ahead_ns),
            _ => 0,
        };
        self.by = Some((by.to_owned(), shift_ns));
        self.ahead_ns = ahead_ns.saturating_add(shift_ns);
        self.ahead_ns
    }

    /// What was said last.
    pub(super) fn ahead_ns(&self) -> i64 {
        self.ahead_ns
    }

    /// Lab time is set by it: from now on it does not jump.
    pub(super) fn set(&mut self) {
        self.is_set = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_lab_does_not_jump_when_its_reference_goes() {
        let mut time = CommonTime::default();
        assert_eq!(time.hear("a", 100), 100);
        // Before lab time is set, whoever is the reference is followed.
        assert_eq!(time.hear("b", 1_000), 1_000);
        time.set();
        assert_eq!(time.hear("b", 1_010), 1_010);
        // The new reference is 5,000 ahead of the old one, and goes on as fast.
        assert_eq!(time.hear("c", 6_010), 1_010);
        assert_eq!(time.hear("c", 6_030), 1_030);
        assert_eq!(time.hear("d", -7), 1_030);
        assert_eq!((time.hear("d", -4), time.ahead_ns()), (1_033, 1_033));
    }
}
