//! The bytes of a Consumer's outstanding Interests.
//!
//! The paper paces Data hop by hop but does not define the number of outstanding Interests. Here
//! it is the bytes that the path delivers in one round trip, times a gain above one. The part
//! beyond one round trip waits as requests at the Producer, not as packets in the network, so a
//! hop whose rate rises finds requests to answer at once. The waiting time is reported in each
//! Data packet (`queued_us`) and subtracted from the round-trip time; otherwise the window would
//! grow by its own queue.

use super::params::Params;
use super::rtt::{WindowedMin, slow_window};
use crate::Nanos;

const ROUNDS: usize = 4;
/// Window of the round-trip time without waits, ns.
const BASE_NS: Nanos = 10_000_000_000;
/// The longest time that the requests waiting at the Producer may last, ns.
const SOON_NS: f64 = 2e9;

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
            base_rtt: WindowedMin::new(BASE_NS),
            rates: [0.0; ROUNDS],
            at: 0,
            round_start: None,
            round_bytes: 0,
        }
    }

    /// Adds a round-trip time of a segment without the waits at nodes, ns.
    pub(crate) fn on_rtt(&mut self, now: Nanos, rtt_ns: Nanos, p: &Params) {
        // On a slow path few segments arrive within the window, and the minimum needs more of
        // them.
        if self.rate() > 0.0 {
            let segment_ns = f64::from(p.segment_bytes) / self.rate();
            self.base_rtt.set_window(slow_window(BASE_NS, segment_ns));
        }
        self.base_rtt.push(now, rtt_ns);
    }

    /// Adds new bytes; `srtt_ns` is the length of a round before the first [`Self::on_rtt`].
    pub(crate) fn on_bytes(&mut self, now: Nanos, bytes: u64, srtt_ns: Option<f64>) {
        let start = *self.round_start.get_or_insert(now);
        self.round_bytes += bytes;
        let elapsed = now.saturating_sub(start) as f64;
        // One round is the path's round trip without waits: with waits the rounds would lengthen
        // as the window grows. 100 ms before any measurement, 1 ms at least.
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

    /// Returns the rate at which the path delivers, byte/ns; 0 before the first byte.
    pub(crate) fn rate(&self) -> f64 {
        match self.measured_rate() {
            // The first round is not over: its bytes in one round trip are a lower bound.
            0.0 => self.round_bytes as f64 / self.base_rtt.get().unwrap_or(u64::MAX) as f64,
            rate => rate,
        }
    }

    fn measured_rate(&self) -> f64 {
        // The highest of the last rounds, so that one slow round does not shrink the window.
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the bytes of Interests that may be outstanding.
    pub(crate) fn bytes(&self, p: &Params) -> u64 {
        let base = self.base_rtt.get().unwrap_or(0) as f64;
        // The requests that always wait at the Producer, ready for a higher rate: on a slow path
        // not more than it delivers soon.
        let first = u64::from(p.segment_bytes) * u64::from(p.initial_cwnd_segments);
        let soon = (SOON_NS * self.rate()) as u64;
        let waiting = soon.max(first).min(p.min_window_bytes);
        (p.window_gain * self.measured_rate() * base) as u64 + waiting
    }
}
