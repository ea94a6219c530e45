//! Token bucket of a Responder (section III.C, Fig. 9, "Rate Limiter").

use crate::Nanos;
use crate::wire::MIN_RATE_BPS;

/// Lets bytes through at a rate set from outside, with a bounded burst. The balance may go
/// negative by one packet: a packet leaves when the balance is not negative, so no packet is too
/// large for the bucket.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    rate_bps: f64,
    burst_ns: f64,
    burst_bytes: f64,
    balance: f64,
    at: Nanos,
}

impl TokenBucket {
    /// Creates a bucket that holds the bytes of `burst_ns` at the rate, but at least
    /// `burst_bytes`.
    pub fn new(rate_bps: u64, burst_ns: Nanos, burst_bytes: u64) -> Self {
        Self {
            rate_bps: rate_bps.max(1) as f64,
            burst_ns: burst_ns as f64,
            burst_bytes: burst_bytes as f64,
            balance: 0.0,
            at: 0,
        }
    }

    fn refill(&mut self, now: Nanos) {
        // bit/s times ns, divided by 8e9, is byte.
        let dt = now.saturating_sub(self.at) as f64;
        let depth = (self.rate_bps * self.burst_ns / 8e9).max(self.burst_bytes);
        self.balance = (self.balance + dt * self.rate_bps / 8e9).min(depth);
        // `now` may be earlier than `at`; tokens must not be earned twice.
        self.at = self.at.max(now);
    }

    /// Changes the rate to the one that an Interest requests. A Requester that requests the
    /// lowest possible rate may want less, to drain a queue on a link that is no faster: it gets
    /// three quarters.
    pub fn set_requested_rate(&mut self, now: Nanos, requested_bps: u64) {
        let lowest = requested_bps <= MIN_RATE_BPS;
        let rate = if lowest {
            MIN_RATE_BPS * 3 / 4
        } else {
            requested_bps
        };
        self.set_rate(now, rate);
    }

    /// Changes the rate from `now` on; tokens earned at the old rate stay.
    pub fn set_rate(&mut self, now: Nanos, rate_bps: u64) {
        self.refill(now);
        self.rate_bps = rate_bps.max(1) as f64;
    }

    /// The rate, bit/s.
    pub const fn rate_bps(&self) -> u64 {
        self.rate_bps as u64
    }

    /// When the next packet may leave: `now` or later.
    pub fn ready_at(&self, now: Nanos) -> Nanos {
        let dt = now.saturating_sub(self.at) as f64;
        let balance = self.balance + dt * self.rate_bps / 8e9;
        if balance >= 0.0 {
            now
        } else {
            now + (-balance * 8e9 / self.rate_bps).ceil() as Nanos
        }
    }

    /// Takes a packet's bytes, now.
    pub fn take(&mut self, now: Nanos, bytes: u64) {
        self.refill(now);
        self.balance -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_run_rate_is_exact() {
        let mut b = TokenBucket::new(20_000_000, 1_000_000, 1500);
        let (mut now, mut sent) = (0, 0u64);
        while now < 10_000_000_000 {
            now = b.ready_at(now);
            b.take(now, 1448);
            sent += 1448;
        }
        let want = 25_000_000.0;
        assert!((sent as f64 - want).abs() < 3.0 * 1500.0, "{sent}");
    }

    #[test]
    fn idle_earns_one_burst_and_rate_change_is_immediate() {
        let mut b = TokenBucket::new(8_000_000, 1_000_000, 0);
        let now = 1_000_000_000;
        assert_eq!(b.ready_at(now), now);
        b.take(now, 1000); // 1 ms at 1 MB/s is the burst
        assert_eq!(b.ready_at(now), now);
        b.take(now, 1000);
        assert_eq!(b.ready_at(now), now + 1_000_000);
        b.set_rate(now, 80_000_000);
        assert_eq!(b.ready_at(now), now + 100_000);
    }
}
