//! The common clock of a lab's machines after lab time is set. When the reference disappears, another machine takes over,
//! and the common clock continues without a jump.

/// The common clock minus this machine's `CLOCK_MONOTONIC`, with the latest measurement.
#[derive(Debug, Default)]
pub(super) struct CommonTime {
    /// The reference, and the lead of the lab's clock over the reference's clock.
    by: Option<(String, i64)>,
    ahead_ns: i64,
    is_set: bool,
}

impl CommonTime {
    /// Takes a measurement: the clock of the reference `by` leads this machine's by `ahead_ns`. Returns the lead of the
    /// lab's clock.
    ///
    /// All machines learn of a new reference, and each has measured both the old and the new one. Each therefore adds the
    /// offset between these two, up to the errors of both measurements.
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

    /// Returns the latest lead.
    pub(super) fn ahead_ns(&self) -> i64 {
        self.ahead_ns
    }

    /// Fixes the clock once lab time is set: from now on it must not jump.
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
        // Before lab time is set, the lab's clock follows each new reference.
        assert_eq!(time.hear("b", 1_000), 1_000);
        time.set();
        assert_eq!(time.hear("b", 1_010), 1_010);
        // The new reference leads the old one by 5,000 and runs at the same rate.
        assert_eq!(time.hear("c", 6_010), 1_010);
        assert_eq!(time.hear("c", 6_030), 1_030);
        assert_eq!(time.hear("d", -7), 1_030);
        assert_eq!((time.hear("d", -4), time.ahead_ns()), (1_033, 1_033));
    }
}
