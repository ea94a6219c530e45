//! Rate limit of the ICMP errors that a node sends (RFC 4443, section 2.4 f; RFC 1812, section 4.3.2.8).

/// Errors that may be sent at once, after a pause.
const BURST: u64 = 50;
/// Interval of further errors in nanoseconds: 100 a second.
const EACH_NS: u64 = 10_000_000;

/// A token bucket that needs no timer and takes eight bytes per node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Instant at which the bucket is full again.
    full_ns: u64,
}

impl Limit {
    /// Takes a token, if there is one. Time may stand still; if it runs backwards, no token is gained.
    pub fn take(&mut self, now_ns: u64) -> bool {
        // Each token taken moves the instant at which the bucket is full by one interval. The bucket is empty when that
        // instant is BURST intervals ahead.
        let full_ns = self.full_ns.max(now_ns).saturating_add(EACH_NS);
        let allowed = full_ns - now_ns.min(full_ns) <= BURST * EACH_NS;
        if allowed {
            self.full_ns = full_ns;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_a_hundred_a_second() {
        let mut limit = Limit::default();
        let start = 1_000_000_000_000;
        let at_once = (0..1000).filter(|_| limit.take(start)).count();
        assert_eq!(at_once, BURST as usize);
        // Ten thousand requests a second for ten seconds.
        let asked = (1..=100_000).map(|n| start + n * 100_000);
        assert_eq!(asked.filter(|&now| limit.take(now)).count(), 1000);
        // A pause fills it up, and no more than that.
        let later = start + 3_600_000_000_000;
        let at_once = (0..1000).filter(|_| limit.take(later)).count();
        assert_eq!(at_once, BURST as usize);
        assert!(!limit.take(later - 5_000_000), "time runs backwards");
    }
}
