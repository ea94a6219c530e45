//! Clocks of the protocol: hopRTT in two halves (section III.C), the minimum
//! over a sliding window, and the retransmission timeout (RFC 6298).

use crate::Nanos;
use crate::wire::clock_difference;
use std::collections::VecDeque;

/// Minimum of samples over a sliding window of time. Samples within 1/32 of the
/// window share a slot, so memory is bounded and the window exact to 3 %.
#[derive(Debug, Clone)]
pub struct WindowedMin {
    window_ns: Nanos,
    slots: VecDeque<(Nanos, u64)>,
}

impl WindowedMin {
    /// A window of `window_ns`.
    pub const fn new(window_ns: Nanos) -> Self {
        Self {
            window_ns,
            slots: VecDeque::new(),
        }
    }

    /// Adds a sample and returns the minimum of the window that ends `now`.
    pub fn push(&mut self, now: Nanos, value: u64) -> u64 {
        // Larger values before this one can never be the minimum again (monotonic queue).
        while self.slots.back().is_some_and(|&(_, v)| v >= value) {
            self.slots.pop_back();
        }
        // A larger value matters only once the smaller ones are gone. Within one slot's time of
        // its predecessor the difference is not kept.
        let grain = self.window_ns / 32;
        match self.slots.back() {
            Some(&(t, _)) if now.saturating_sub(t) < grain && self.slots.len() > 1 => {}
            _ => self.slots.push_back((now, value)),
        }
        // One entry stays even if it is old, so that there is always a minimum.
        while self.slots.len() > 1 && self.slots[0].0 + self.window_ns < now {
            self.slots.pop_front();
        }
        self.slots[0].1
    }

    /// Changes the window's length.
    pub const fn set_window(&mut self, window_ns: Nanos) {
        self.window_ns = window_ns;
    }

    /// The minimum as of the last sample.
    pub fn get(&self) -> Option<u64> {
        self.slots.front().map(|s| s.1)
    }
}

/// hopRTT and hopRTTmin of one hop (section III.C).
#[derive(Debug, Clone)]
pub struct HopRtt {
    ewma_ns: Option<f64>,
    gain: f64,
    min: WindowedMin,
    window_ns: Nanos,
    /// Least sample since [`Self::begin_round`].
    round_min: Option<u64>,
    /// The Interest's delay of the last sample: mostly the difference of the clocks.
    last_owd: Option<i64>,
}

/// Segments that a window of minima holds on slow links.
const WINDOW_SEGMENTS: f64 = 64.0;

/// Returns `window_ns`, or a longer window if a segment takes long, ns.
pub(crate) fn slow_window(window_ns: Nanos, segment_ns: f64) -> Nanos {
    window_ns.max((WINDOW_SEGMENTS * segment_ns) as Nanos)
}

/// A one-way delay that changes by more than this, ns, belongs to another node's clock.
const OTHER_CLOCK_NS: u64 = 500_000_000;

impl HopRtt {
    /// `gain` is the weight of a new sample in the moving average.
    pub const fn new(gain: f64, window_ns: Nanos) -> Self {
        Self {
            ewma_ns: None,
            gain,
            min: WindowedMin::new(window_ns),
            window_ns,
            round_min: None,
            last_owd: None,
        }
    }

    /// Forgets everything when `interest_owd` can only have been measured by another Responder
    /// than the last: its clock differs. Another neighbour is another hop, whose longer path must
    /// not seem to be a queue.
    pub fn notice_neighbour(&mut self, interest_owd: i64) {
        let leap = |last: i64| clock_difference(last.wrapping_sub(interest_owd) as u64);
        if self
            .last_owd
            .is_some_and(|l| leap(l).unsigned_abs() > OTHER_CLOCK_NS)
        {
            (self.ewma_ns, self.min) = (None, WindowedMin::new(self.window_ns));
            self.round_min = None;
        }
        self.last_owd = Some(interest_owd);
    }

    /// Adds one sample from its two halves: the Data packet's own delay, `now` minus its
    /// timestamp, and the Interest's as the Responder reported it. Each half is wrong by the
    /// difference of the clocks, in opposite directions. Returns the sample, or `None` when the
    /// sum is not a valid time (a clock was set, or the value is forged).
    pub fn on_data(&mut self, now: Nanos, timestamp: u64, interest_owd: i64) -> Option<u64> {
        // hopRTT = OWD of Data + OWD of Interest (section III.C), modulo the clocks' period.
        let sum = now
            .wrapping_sub(timestamp)
            .wrapping_add(interest_owd as u64);
        let sample = clock_difference(sum);
        // A round trip of more than a minute is not one of a hop.
        if !(1..=60_000_000_000).contains(&sample) {
            return None;
        }
        // The exponentially weighted moving average of section III.C. hopRTTmin is the minimum of
        // this average, not of single samples.
        let e = self
            .ewma_ns
            .map_or(sample as f64, |e| e + self.gain * (sample as f64 - e));
        self.ewma_ns = Some(e);
        self.min.push(now, e as u64);
        let sample = sample as u64;
        self.round_min = Some(self.round_min.map_or(sample, |m| m.min(sample)));
        Some(sample)
    }

    /// Returns the least sample since the last [`Self::begin_round`], ns. It contains only the
    /// wait that even the fastest packet had: a standing queue.
    pub fn round_min_ns(&self) -> Option<f64> {
        self.round_min.map(|v| v as f64)
    }

    /// Forgets the least sample.
    pub const fn begin_round(&mut self) {
        self.round_min = None;
    }

    /// Sets the time of a segment on this hop. The window of the minimum holds 64 of them;
    /// otherwise the few samples in the window may all have waited in the same queue.
    pub fn set_segment_time(&mut self, segment_ns: f64) {
        self.min.set_window(slow_window(self.window_ns, segment_ns));
    }

    /// Changes the weight of a new sample.
    pub const fn set_gain(&mut self, gain: f64) {
        self.gain = gain;
    }

    /// hopRTT, ns.
    pub const fn smoothed_ns(&self) -> Option<f64> {
        self.ewma_ns
    }

    /// hopRTTmin, ns.
    pub fn min_ns(&self) -> Option<f64> {
        self.min.get().map(|v| v as f64)
    }
}

/// Retransmission timeout after RFC 6298, sections 2 and 5; the back-off factor
/// is the paper's 1.5 instead of 2 (section III.B).
#[derive(Debug, Clone)]
pub struct Rto {
    srtt_ns: f64,
    rttvar_ns: f64,
    sampled: bool,
    samples: u32,
    granularity_ns: f64,
    first_ns: f64,
    /// No timeout is longer before [`KNOWN_FOR`] samples.
    at_first_most_ns: f64,
    min_ns: Nanos,
    max_ns: Nanos,
    backoff: f64,
}

/// The number of round trips after which our own measurements count more than one from elsewhere.
const KNOWN_FOR: u32 = 64;

impl Rto {
    /// Creates a timer. Before the first sample the timeout is 1 s (RFC 6298, 2.1), or the value
    /// set by [`Self::on_small_packets`]; G is 1 us until [`Self::set_granularity`].
    pub const fn new(min_ns: Nanos, max_ns: Nanos, backoff: f64) -> Self {
        Self {
            srtt_ns: 0.0,
            rttvar_ns: 0.0,
            sampled: false,
            samples: 0,
            granularity_ns: 1000.0,
            first_ns: 1e9,
            at_first_most_ns: f64::INFINITY,
            min_ns,
            max_ns,
            backoff,
        }
    }

    /// Sets the granularity of the clock, RFC 6298's G, ns: round-trip times may differ by this
    /// much without a reason. On a slow path that is the time of a few packets.
    pub fn set_granularity(&mut self, ns: f64) {
        self.granularity_ns = ns.max(1000.0);
    }

    /// Sets the round-trip time of small packets, ns, before any of full ones: the first full one
    /// may take `times` as long, if the slowness of the links caused all of it.
    pub fn on_small_packets(&mut self, rtt_ns: Nanos, times: f64) {
        self.first_ns = self.first_ns.max(rtt_ns as f64 * times);
    }

    /// Sets the path's round-trip time, ns, that is known from elsewhere: the first timeouts are
    /// at most three times as long. A Producer that has no bytes yet answers late, and the path
    /// would seem to be long.
    pub fn expect(&mut self, rtt_ns: Nanos) {
        self.at_first_most_ns = 3.0 * rtt_ns as f64;
    }

    /// Adds the round-trip time of an Interest that was sent once (Karn's rule is the caller's
    /// duty), RFC 6298 (2.2) and (2.3).
    pub fn on_sample(&mut self, rtt_ns: Nanos) {
        let r = rtt_ns as f64;
        self.samples = self.samples.saturating_add(1);
        if self.sampled {
            // (2.3): beta = 1/4, alpha = 1/8; RTTVAR uses SRTT before its own update.
            self.rttvar_ns = 0.75 * self.rttvar_ns + 0.25 * (self.srtt_ns - r).abs();
            self.srtt_ns = 0.875 * self.srtt_ns + 0.125 * r;
        } else {
            // (2.2): the first measurement sets SRTT = R, RTTVAR = R / 2.
            (self.srtt_ns, self.rttvar_ns, self.sampled) = (r, r / 2.0, true);
        }
    }

    /// SRTT, ns.
    pub fn srtt_ns(&self) -> Option<f64> {
        self.sampled.then_some(self.srtt_ns)
    }

    /// Timeout for an Interest that has already timed out `retries` times, ns.
    pub fn timeout_ns(&self, retries: u32) -> Nanos {
        // (2.2), (2.3): RTO = SRTT + max(G, 4 RTTVAR).
        let base = if self.sampled {
            self.srtt_ns + (4.0 * self.rttvar_ns).max(self.granularity_ns)
        } else {
            self.first_ns
        };
        // A round-trip time from elsewhere bounds the timeout until there are enough own samples.
        let most = match self.samples {
            ..KNOWN_FOR => self.at_first_most_ns,
            _ => f64::INFINITY,
        };
        let floor = base.min(most).max(self.min_ns as f64);
        // The resending interval grows by 1.5 each time (section III.B, TR). The exponent is
        // bounded so that the float stays finite.
        let grown = floor * self.backoff.powi(retries.min(64) as i32);
        grown.min(self.max_ns as f64) as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_offset_cancels() {
        for offset in [0u64, 5_000_000_000, u64::MAX - 3] {
            // Requester's clock t, Responder's t + offset; 4 ms up, 6 ms down.
            let mut h = HopRtt::new(0.125, 5_000_000_000);
            let owd = 4_000_000i64.wrapping_add(offset as i64);
            let sent = 104_000_000u64.wrapping_add(offset);
            assert_eq!(h.on_data(110_000_000, sent, owd), Some(10_000_000));
            assert_eq!(h.min_ns(), Some(10_000_000.0));
        }
    }

    #[test]
    fn another_clock_is_another_hop() {
        let mut h = HopRtt::new(0.125, 5_000_000_000);
        let sample = |h: &mut HopRtt, offset: u64, rtt: u64| {
            h.notice_neighbour((rtt / 2 + offset) as i64);
            h.on_data(
                1_000_000_000 + rtt / 2,
                1_000_000_000 + offset,
                (rtt / 2 + offset) as i64,
            );
            h.min_ns()
        };
        assert_eq!(sample(&mut h, 77, 20_000_000), Some(20_000_000.0));
        assert_eq!(sample(&mut h, 77, 25_000_000), Some(20_000_000.0));
        assert_eq!(
            sample(&mut h, 9_000_000_000, 25_000_000),
            Some(25_000_000.0)
        );
    }

    #[test]
    fn window_forgets_after_five_seconds() {
        let s = 1_000_000_000;
        let mut w = WindowedMin::new(5 * s);
        assert_eq!(w.push(0, 10), 10);
        for ms in 1..5000 {
            assert_eq!(w.push(ms * 1_000_000, 20), 10);
        }
        let v = w.push(5 * s + 1, 20);
        assert_eq!(v, 20);
        assert_eq!(w.push(5 * s + 2, 7), 7);
        assert!(w.slots.len() < 40);
    }

    #[test]
    fn rfc_6298_numbers() {
        let mut r = Rto::new(0, 60_000_000_000, 1.5);
        assert_eq!(r.timeout_ns(0), 1_000_000_000);
        r.on_sample(100_000_000);
        assert_eq!(r.timeout_ns(0), 300_000_000);
        r.on_sample(100_000_000);
        assert_eq!(r.timeout_ns(0), 250_000_000);
        assert_eq!(r.timeout_ns(2), 562_500_000);
        assert_eq!(r.timeout_ns(64), 60_000_000_000);
    }

    #[test]
    fn a_path_that_is_known_has_short_timeouts_until_it_has_said_more() {
        let mut r = Rto::new(200_000_000, 60_000_000_000, 1.5);
        r.expect(100_000_000);
        assert_eq!(r.timeout_ns(0), 300_000_000);
        assert_eq!(r.timeout_ns(1), 450_000_000);
        // The server has thought for two seconds.
        r.on_sample(2_000_000_000);
        assert_eq!(r.timeout_ns(0), 300_000_000);
        (1..KNOWN_FOR).for_each(|_| r.on_sample(900_000_000));
        assert!(r.timeout_ns(0) > 900_000_000, "the path is so long");
    }
}
