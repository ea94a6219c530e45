//! How many bytes of Interests a Consumer keeps out.
//!
//! The paper paces Data hop by hop but does not say how many Interests are on
//! their way. Here: what the path delivers in one round trip, times a gain
//! above one. What exceeds one round trip waits as requests at the Producer, not
//! as packets in the network, so a hop whose rate rises finds requests to answer
//! at once. The time spent waiting is reported in each Data packet (`queued_us`)
//! and taken out of the round trip, or the window would feed on itself.

use super::params::Params;
use super::rtt::WindowedMin;
use crate::Nanos;

const ROUNDS: usize = 4;

#[derive(Debug)]
pub(crate) struct Window {
    base_rtt: WindowedMin,
    rates: [f64; ROUNDS],
    at: usize,
    round_start: Option<Nanos>,
    round_bytes: u64,
}

impl Window {
    pub(crate) const fn new() -> Self {
        Self {
            base_rtt: WindowedMin::new(10_000_000_000),
            rates: [0.0; ROUNDS],
            at: 0,
            round_start: None,
            round_bytes: 0,
        }
    }

    /// A round trip without the waits at nodes, ns.
    pub(crate) fn on_rtt(&mut self, now: Nanos, rtt_ns: Nanos) {
        self.base_rtt.push(now, rtt_ns);
    }

    /// New bytes have come; `srtt_ns` is the length of a round.
    pub(crate) fn on_bytes(&mut self, now: Nanos, bytes: u64, srtt_ns: Option<f64>) {
        let start = *self.round_start.get_or_insert(now);
        self.round_bytes += bytes;
        let elapsed = now.saturating_sub(start) as f64;
        let round = self
            .base_rtt
            .get()
            .map_or(srtt_ns.unwrap_or(1e8), |b| b as f64)
            .max(1e6);
        if elapsed < round {
            return;
        }
        self.rates[self.at % ROUNDS] = self.round_bytes as f64 / elapsed;
        self.at += 1;
        (self.round_start, self.round_bytes) = (Some(now), 0);
    }

    /// Bytes of Interests to keep out.
    pub(crate) fn bytes(&self, p: &Params) -> u64 {
        let rate = self.rates.iter().copied().fold(0.0, f64::max);
        let base = self.base_rtt.get().unwrap_or(0) as f64;
        (p.window_gain * rate * base) as u64 + p.min_window_bytes
    }
}
