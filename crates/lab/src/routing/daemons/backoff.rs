//! The delay before a daemon that ended is restarted.

use std::time::Duration;

use constel_scenario::model::Restart;

/// The delays of one daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// Creates the initial state.
    pub(crate) fn new(rule: Restart) -> Self {
        Self {
            next: duration(rule.after),
        }
    }

    /// Returns the delay after an end; `ran` is how long the daemon had run.
    pub(crate) fn ended(&mut self, rule: Restart, ran: Duration) -> Duration {
        let most = duration(rule.at_most);
        if ran >= most {
            self.next = duration(rule.after);
        }
        let wait = self.next;
        // A first delay of zero must grow for a daemon that ends at once again and again.
        self.next = (wait * 2).max(Duration::from_millis(100)).min(most);
        wait
    }
}

/// The scenario's bounds exclude negative values.
fn duration(span: constel_units::TimeSpan) -> Duration {
    Duration::from_nanos(span.ns().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_units::TimeSpan;

    #[test]
    fn waits_double_up_to_the_longest_and_start_again_after_a_sound_run() {
        let rule = Restart {
            after: TimeSpan::from_ns(1_000_000_000),
            at_most: TimeSpan::from_ns(5_000_000_000),
        };
        let mut backoff = Backoff::new(rule);
        let mut wait = |ran_s| backoff.ended(rule, Duration::from_secs(ran_s)).as_secs();
        assert_eq!([0; 4].map(&mut wait), [1, 2, 4, 5]);
        assert_eq!([4, 5, 0].map(&mut wait), [5, 1, 2]);
        let at_once = Restart {
            after: TimeSpan::from_ns(0),
            ..rule
        };
        let mut backoff = Backoff::new(at_once);
        let mut wait = || backoff.ended(at_once, Duration::ZERO).as_millis();
        assert_eq!([wait(), wait(), wait()], [0, 100, 200]);
    }
}
