//! Requester-driven congestion control of one hop: equations 6 to 10.

use super::drain::{Drain, Round};
use super::params::Params;
use super::rtt::HopRtt;
use crate::Nanos;
use crate::wire::MIN_RATE_BPS;

/// Phase of the window (section III.C).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Phase {
    /// cwnd doubles every hopRTT.
    SlowStart,
    /// cwnd grows by one segment every hopRTT.
    Avoidance,
}

/// The state of a [`HopCc`] at a moment, for reports.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct CcState {
    /// Whether the window still doubles, or grows by steps.
    pub phase: Phase,
    /// Congestion window, byte.
    pub cwnd_bytes: f64,
    /// hopRTT, ns; 0 before the first measurement.
    pub hop_rtt_ns: f64,
    /// hopRTTmin, ns; 0 before the first measurement.
    pub hop_rtt_min_ns: f64,
    /// Throughput of the last finished hopRTT, bit/s.
    pub throughput_bps: f64,
    /// QueueLen at the last update, byte (equation 7).
    pub queue_bytes: f64,
}

/// The rate controller of a Requester.
///
/// ```text
///                    QueueLen > M: cwnd = k BDP
///   SlowStart -------------------------------------> Avoidance --+
///   cwnd *= 2 per hopRTT                      cwnd += 1 per hopRTT | QueueLen > M:
///                                                        ^--------+ cwnd = k BDP
/// ```
#[derive(Debug, Clone)]
pub struct HopCc {
    rtt: HopRtt,
    phase: Phase,
    cwnd: f64,
    segment: f64,
    throughput_bps: f64,
    last_data: Nanos,
    round_start: Option<Nanos>,
    round_bytes: u64,
    round_packets: u32,
    /// Packets of the round with a measurement.
    round_samples: u32,
    /// Bytes, ns and packets of the last rounds, newest first.
    rounds: [(u64, u64, u32); 4],
    queue_bytes: f64,
    /// Bytes since the last change of cwnd, and the time of its last decrease
    /// (`updates_per_rtt`).
    since_change: f64,
    fell_at: Option<Nanos>,
    /// Used with `drain_queue`.
    drain: Drain,
}

/// The length of a round without a measurement, in hopRTTs.
const UNMEASURED_ROUNDS: f64 = 4.0;

/// A link is slow if a segment takes longer than this, ns: below 112 kbit/s.
const SLOW_SEGMENT_NS: f64 = 1e8;

impl HopCc {
    /// A controller at the start of a flow.
    pub fn new(p: &Params) -> Self {
        let segment = f64::from(p.segment_bytes);
        Self {
            rtt: HopRtt::new(p.hop_rtt_gain, p.min_rtt_window_ns),
            phase: Phase::SlowStart,
            cwnd: segment * f64::from(p.initial_cwnd_segments),
            segment,
            throughput_bps: 0.0,
            last_data: 0,
            round_start: None,
            round_bytes: 0,
            round_packets: 0,
            round_samples: 0,
            rounds: [(0, 0, 0); 4],
            queue_bytes: 0.0,
            since_change: 0.0,
            fell_at: None,
            drain: Drain::default(),
        }
    }

    /// Returns the state, for reports.
    pub fn state(&self) -> CcState {
        CcState {
            phase: self.phase,
            cwnd_bytes: self.cwnd,
            hop_rtt_ns: self.rtt.smoothed_ns().unwrap_or(0.0),
            hop_rtt_min_ns: self.rtt.min_ns().unwrap_or(0.0),
            throughput_bps: self.throughput_bps,
            queue_bytes: self.queue_bytes,
        }
    }

    /// Whether the window still doubles or grows by steps.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Congestion window, byte.
    pub const fn cwnd_bytes(&self) -> f64 {
        self.cwnd
    }

    /// hopRTT, ns, if measured.
    pub const fn hop_rtt_ns(&self) -> Option<f64> {
        self.rtt.smoothed_ns()
    }

    /// Returns hopRTT, ns; before the first measurement, the assumed value.
    pub fn assumed_hop_rtt_ns(&self, p: &Params) -> f64 {
        self.hop_rtt_ns().unwrap_or(p.initial_hop_rtt_ns as f64)
    }

    /// hopRTTmin, ns, if measured.
    pub fn hop_rtt_min_ns(&self) -> Option<f64> {
        self.rtt.min_ns()
    }

    /// Throughput of the last finished hopRTT, bit/s.
    pub const fn throughput_bps(&self) -> f64 {
        self.throughput_bps
    }

    /// QueueLen at the last update, byte (equation 7).
    pub const fn queue_len_bytes(&self) -> f64 {
        self.queue_bytes
    }

    /// Handles a Data packet or VPH of `wire_bytes` that has come over this hop, with the
    /// Responder's clock and the Interest's OWD if it carries a measurement.
    pub fn on_data(
        &mut self,
        now: Nanos,
        wire_bytes: u64,
        measured: Option<(u64, i64)>,
        p: &Params,
    ) {
        if let Some((timestamp, owd)) = measured {
            if p.new_neighbour_new_hop {
                self.rtt.notice_neighbour(owd);
            }
            // The sum of the two OWDs is the per-packet hopRTT (section III.C); the clocks'
            // difference cancels.
            self.rtt.on_data(now, timestamp, owd);
            self.round_samples += 1;
        }
        let paused = self.paused(now, p);
        self.last_data = now;
        let Some(start) = self.round_start.filter(|_| !paused) else {
            // The first packet starts the clock; its bytes belong to no round.
            self.begin_round(now);
            return;
        };
        self.round_bytes += wire_bytes;
        self.round_packets += 1;
        let Some(hop_rtt) = self.rtt.smoothed_ns() else {
            return;
        };
        // The authors' program evaluates equation 8 at every packet, with the throughput of the
        // last finished round; the paper's text says every hopRTT.
        if p.updates_per_rtt > 1 && self.throughput_bps > 0.0 {
            self.update_within_rtt(now, wire_bytes, hop_rtt, p);
        }
        let elapsed = now.saturating_sub(start);
        // cwnd is adjusted every hopRTT (section III.C); `min_update_ns` bounds the rate on very
        // short hops.
        let mut least = hop_rtt.max(p.min_update_ns as f64);
        if self.round_samples == 0 {
            // There is no measurement to act on yet, but a flow without further measurements must
            // not stop the updates for good.
            least *= UNMEASURED_ROUNDS;
        }
        if (elapsed as f64) < least {
            return;
        }
        // Close the round: equations 6 and 7 need the throughput and the hopRTT of the same time.
        self.rounds.rotate_right(1);
        self.rounds[0] = (self.round_bytes, elapsed, self.round_packets);
        // With few measurements in flight, the average covers about as many samples as arrive in
        // one hopRTT. With the smaller weight for many samples the hop would still see a queue
        // long after it has drained, and starve.
        let n = f64::from(self.round_samples);
        self.rtt.set_gain(
            p.hop_rtt_gain
                .max(2.0 / (n + 1.0))
                .min(p.hop_rtt_gain.max(0.5)),
        );
        self.begin_round(now);
        // Throughput of the last hopRTT, or of as many rounds as hold 8 packets: three packets
        // more or less must not look like half the bandwidth.
        let (mut bytes, mut ns, mut packets) = (0, 0, 0);
        for r in self.rounds {
            if packets >= 8 || r.1 == 0 {
                break;
            }
            bytes += r.0;
            ns += r.1;
            packets += r.2;
        }
        self.update(bytes as f64 / ns as f64, hop_rtt, p);
        self.rtt.begin_round();
    }

    fn begin_round(&mut self, now: Nanos) {
        (self.round_start, self.round_bytes) = (Some(now), 0);
        (self.round_packets, self.round_samples) = (0, 0);
    }

    /// Returns whether the gap since the last packet shows that the path led elsewhere, or was cut. The bytes
    /// before and after the gap, divided by its length, are then no throughput of this hop.
    fn paused(&self, now: Nanos, p: &Params) -> bool {
        now.saturating_sub(self.last_data) > self.pause_ns(p)
    }

    /// The longest silence, ns, of a slow hop. A longer one means that the path led elsewhere, or
    /// nowhere.
    pub(crate) fn pause_ns(&self, p: &Params) -> Nanos {
        let hop_rtts = UNMEASURED_ROUNDS * self.assumed_hop_rtt_ns(p);
        p.rto_min_ns.max(hop_rtts as Nanos)
    }

    /// Bytes of this hop's own Data found lost: the hop has carried them
    /// (`lost_is_carried` only).
    pub fn on_lost(&mut self, wire_bytes: u64, p: &Params) {
        if p.lost_is_carried && self.round_start.is_some() {
            self.round_bytes += wire_bytes;
        }
    }

    fn threshold(&self, thr: f64, p: &Params) -> f64 {
        // Equation 8's M: a number of segments, or on fast hops the bytes that arrive in
        // `queue_threshold_ns`, so that timer noise does not look like a queue.
        (p.queue_threshold_segments * self.segment).max(thr * p.queue_threshold_ns as f64)
    }

    /// Equation 8 at every packet (`updates_per_rtt` > 1), with the throughput
    /// of the last finished hopRTT.
    fn update_within_rtt(&mut self, now: Nanos, wire_bytes: u64, hop_rtt: f64, p: &Params) {
        // bit/s to byte/ns.
        let thr = self.throughput_bps / 8e9;
        let min = self.rtt.min_ns().unwrap_or(hop_rtt);
        // Equation 7, with the smoothed hopRTT.
        self.queue_bytes = thr * (hop_rtt - min).max(0.0);
        self.since_change += wire_bytes as f64;
        if self.queue_bytes > self.threshold(thr, p) {
            // The effect of a decrease is visible only after a hopRTT: the next one waits for
            // two.
            let again = |t| now.saturating_sub(t) as f64 >= 2.0 * hop_rtt;
            if self.fell_at.is_none_or(again) {
                // Equation 8, third case: k BDP with BDP = throughput * hopRTTmin (equation 6).
                self.cwnd = (p.decrease * thr * min).max(self.least_cwnd(thr));
                self.phase = Phase::Avoidance;
                (self.fell_at, self.since_change) = (Some(now), 0.0);
            }
        } else if self.phase == Phase::Avoidance
            && self.since_change > self.cwnd / f64::from(p.updates_per_rtt)
            && self.cwnd <= 2.0 * thr * hop_rtt + 2.0 * self.segment
        {
            // As in `update`: a window that is not in use says nothing about a larger one.
            self.cwnd += p.increase_segments * self.segment;
            self.since_change = 0.0;
        }
    }

    /// Evaluates equations 6 to 8 once per hopRTT. `thr` in byte/ns.
    fn update(&mut self, thr: f64, hop_rtt: f64, p: &Params) {
        let min = self.rtt.min_ns().unwrap_or(hop_rtt);
        self.throughput_bps = thr * 8e9;
        self.rtt.set_segment_time(self.segment / thr);
        let least = self.least_cwnd(thr);
        let bdp = thr * min; // equation 6
        let under_load = match self.rtt.round_min_ns() {
            // Slow start must see the queue that it builds without delay.
            Some(least) if p.standing_queue && self.phase == Phase::Avoidance => least,
            _ => hop_rtt,
        };
        let draining = p.drain_queue && self.phase == Phase::Avoidance;
        // Equation 7 divided by the throughput: the time that Data waits in this hop's queue.
        let mut waited_ns = (under_load - min).max(0.0);
        if draining {
            waited_ns = self.drain.waited_ns(waited_ns);
        }
        self.queue_bytes = thr * waited_ns; // equation 7
        let m = self.threshold(thr, p);
        // `update_within_rtt` does the rest at every packet.
        if p.updates_per_rtt > 1 && self.phase == Phase::Avoidance {
            return;
        }
        // Equation 8. Growth needs a window that is in use: if the rate is limited elsewhere
        // (backpressure, a slower hop), the arriving bytes say nothing about a larger window
        // (compare RFC 7661). In slow start the arriving bytes lag the window by one doubling.
        let arriving = thr * hop_rtt;
        let round = Round {
            throughput: thr,
            min_ns: min,
            waited_ns,
            m,
        };
        if draining && let Some(cwnd) = self.drain.cwnd(round, p) {
            self.cwnd = cwnd;
        } else if self.queue_bytes > m {
            // Third case: the queue exceeds M.
            self.cwnd = p.decrease * bdp;
            self.phase = Phase::Avoidance;
        } else if self.phase == Phase::SlowStart {
            // First case: multiplicative increase in slow start.
            if self.cwnd <= 2.5 * arriving + 2.0 * self.segment {
                self.cwnd *= 2.0;
            }
        } else if draining && self.queue_bytes > m / 2.0 {
            // Between M / 2 and M: the link carries what arrives while there is a queue, so cwnd
            // stays at the BDP.
            self.cwnd = self.cwnd.min(bdp);
        } else if self.cwnd <= 1.25 * arriving + 4.0 * self.segment {
            // Second case, additive increase: one segment by default, more on fast hops.
            let step = (p.increase_segments * self.segment).max(p.increase_ratio * self.cwnd);
            let faster = if draining { self.drain.faster() } else { 1.0 };
            self.cwnd += step * faster;
        }
        self.cwnd = self.cwnd.max(least);
    }

    /// Returns the smallest window, byte, at this throughput, byte/ns. On a slow link two
    /// segments are a queue already.
    fn least_cwnd(&self, thr: f64) -> f64 {
        let slow = self.segment > thr * SLOW_SEGMENT_NS;
        self.segment * if slow { 0.5 } else { 2.0 }
    }

    /// Returns the rate to request from this hop's Responder, bit/s: equations 9 and 10.
    /// `downstream` is the sending buffer's length in byte (BL) and the rate of the next hop in
    /// bit/s; a Consumer has none.
    pub fn rate_bps(&self, downstream: Option<(u64, u64)>, p: &Params) -> u64 {
        let hop_rtt = self.assumed_hop_rtt_ns(p);
        let over = match self.rtt.min_ns() {
            Some(min) if p.rate_over_min_rtt => min,
            _ => hop_rtt,
        };
        // Equation 10, first term. byte/ns times 8e9 is bit/s.
        let own = self.cwnd * 8e9 / over;
        let rate = match downstream {
            // Equation 9, with the sign that makes it backpressure: a buffer longer than its
            // target lowers the upstream rate. The printed formula has lost its minus signs.
            Some((bl, next)) => {
                let bp = next as f64 + (p.target_buffer_bytes as f64 - bl as f64) * 8e9 / hop_rtt;
                own.min(bp)
            }
            None => own,
        };
        // One segment per hopRTT keeps the measurement going.
        let floor = self.segment * 8e9 / hop_rtt;
        (rate.max(floor) as u64).clamp(MIN_RATE_BPS, p.max_rate_bps)
    }
}

#[cfg(test)]
mod tests;
