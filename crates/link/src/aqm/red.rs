//! Random Early Detection (Floyd and Jacobson, "Random Early Detection gateways for congestion avoidance", 1993), with
//! the gentle ramp (Floyd, 2000). The average is in bytes. The probability does not depend on a frame's length.

use super::Verdict;
use crate::discipline::RedParams;
use crate::rng::Rng;
use crate::types::Nanos;

#[derive(Clone, Debug)]
pub(super) struct Red {
    average_bytes: f64,
    /// Frames since the last one that was dropped or marked; `None` below the lower threshold.
    since: Option<u64>,
    /// Instant at which the server found the queue empty, if no frame has arrived since.
    idle_from_ns: Option<Nanos>,
}

impl Red {
    pub(super) fn new() -> Red {
        Red {
            average_bytes: 0.0,
            since: None,
            idle_from_ns: None,
        }
    }

    /// The queue is empty and the server idle from `now` on.
    pub(super) fn idle_from(&mut self, now: Nanos) {
        self.idle_from_ns = Some(now);
    }

    pub(super) fn arrival(
        &mut self,
        params: &RedParams,
        now: Nanos,
        waiting_bytes: u64,
        rate_bps: u64,
        rng: &mut Rng,
    ) -> Verdict {
        match self.idle_from_ns.take() {
            Some(since) => {
                // The average decays as if m typical frames had arrived at an empty queue: avg *= (1 - w)^m.
                let frame_ns = f64::from(params.frame_bytes) * 8e9 / rate_bps as f64;
                let missed = now.saturating_sub(since) as f64 / frame_ns;
                self.average_bytes *= (1.0 - params.weight).powf(missed);
            }
            None => {
                // The usual moving average: avg += w * (queue - avg).
                let off = waiting_bytes as f64 - self.average_bytes;
                self.average_bytes += params.weight * off;
            }
        }
        let (min, max) = (params.min_bytes as f64, params.max_bytes as f64);
        let average = self.average_bytes;
        let ratio = if average < min {
            self.since = None;
            return Verdict::Take;
        } else if average < max {
            params.max_ratio * (average - min) / (max - min)
        // Gentle RED: between max and 2 * max the probability rises linearly from `max_ratio` to 1.
        } else if params.gentle && average < 2.0 * max {
            params.max_ratio + (1.0 - params.max_ratio) * (average - max) / max
        } else {
            self.since = Some(0);
            return Verdict::Drop;
        };
        // p / (1 - count * p) spreads drops evenly: the longer ago the last drop, the likelier the next.
        let since = self.since.map_or(0, |n| n + 1);
        let spread = 1.0 - since as f64 * ratio;
        let hit = spread <= ratio || rng.chance(ratio / spread);
        self.since = Some(if hit { 0 } else { since });
        match hit {
            true if params.ecn => Verdict::Mark,
            true => Verdict::Drop,
            false => Verdict::Take,
        }
    }
}
