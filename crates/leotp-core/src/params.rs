//! The parameters of the protocol.

use crate::Nanos;
use crate::wire::{DATA_HEADER_MAX, INTEREST_LEN, MAX_PAYLOAD, Range, data_header_len};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Parameters of a node. [`Params::default`] is the paper's protocol, with values of our choice
/// where the paper has none (marked "ours").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Payload of one Data packet, byte; with at most 30 bytes of header and UDP over IPv6 it
    /// must fit the path's MTU (the default fits 1,500). Ours.
    pub segment_bytes: u32,
    /// Segments that one Interest requests. 1 is the paper's; more saves packets in the upstream
    /// direction and needs padding under a small `max_amplification`.
    pub interest_segments: u32,
    /// One of this number of Data packets carries a measurement (`docs/reference/leotp-wire.md`).
    /// In any case the first packet after 10 ms or for a new neighbour carries one, and all from
    /// 200 Mbit/s on. In the paper all packets do: 1. `beyond()` sets 4, because shorter headers
    /// leave more payload.
    pub timing_every: u32,
    /// A Responder answers an Interest with at most this many times its bytes
    /// (UDP payload on both sides). Ours.
    pub max_amplification: u32,

    /// Algorithm 1's N: a hole is lost when more than N packets beyond the one that revealed it
    /// have passed. Fig. 8b shows 1.
    pub hole_threshold: u32,
    /// A jump in a flow longer than this is not a hole, byte. Ours.
    pub max_hole_bytes: u64,
    /// Whether nodes repair holes (ablation: in-network retransmission).
    pub shr: bool,
    /// How often a node repeats its own unanswered repair Interest, at intervals of 1.5 hopRTT.
    /// The paper's nodes do not ("SHR does not keep track"): 0. Ours: `beyond()` sets 3.
    pub shr_repeats: u32,

    /// Whether a Midnode that sees a jump in the Interests of a flow requests the skipped bytes
    /// at once, instead of finding a hole in the Data later. The paper's nodes look for holes in
    /// Data only: false. `beyond()` sets it.
    pub interest_holes: bool,

    /// Smallest retransmission timeout, ns. RFC 6298 says 1 s, Linux 200 ms; ours is Linux's.
    pub rto_min_ns: Nanos,
    /// Largest timeout after back-off, ns. RFC 6298 (2.5): at least 60 s.
    pub rto_max_ns: Nanos,
    /// Growth of the resending interval per timeout: 1.5 (section III.B).
    pub rto_backoff: f64,
    /// Timeouts of one Interest before the flow fails; 0: never. Ours.
    pub max_retries: u32,

    /// Bytes of cache, shared by all flows of the node; 0: no cache.
    pub cache_bytes: u64,

    /// Window in which hopRTTmin is the minimum, ns: 5 s (section III.C).
    pub min_rtt_window_ns: Nanos,
    /// Weight of a new sample in hopRTT's moving average. Ours: 1/8.
    pub hop_rtt_gain: f64,
    /// hopRTT assumed before the first measurement, ns. Ours.
    pub initial_hop_rtt_ns: Nanos,
    /// First congestion window, segments (RFC 6928's 10). Ours.
    pub initial_cwnd_segments: u32,
    /// Equation 8's M in segments: queue above which the hop is congested. Ours.
    pub queue_threshold_segments: f64,
    /// M as time at the present throughput, ns; the larger of both counts. It keeps timer noise
    /// from looking like a queue at high rates. Ours.
    pub queue_threshold_ns: Nanos,
    /// Equation 8's k: 0.8.
    pub decrease: f64,
    /// Equation 8's "+1": segments added per hopRTT in congestion avoidance.
    pub increase_segments: f64,
    /// Part of cwnd added per hopRTT when that is more than `increase_segments`. 0 in the paper.
    /// `beyond()` sets 1/32 so that fast hops refill in time.
    pub increase_ratio: f64,
    /// Number of parts of a hopRTT for equation 8: cwnd grows by `increase_segments` whenever a
    /// part has arrived. The queue is computed at every packet, but cwnd falls at most once in
    /// two hopRTT. The paper's text adjusts cwnd every hopRTT: 1, and then at its end only. The
    /// authors' program has 10, see [`Params::authors_constants`].
    pub updates_per_rtt: u32,
    /// Whether bytes found lost on this hop count as carried by it in equations 6
    /// and 7: a hop that loses 1 % is not 1 % slower, and loss is no congestion
    /// signal (section III.C). The paper does not define its throughput; with
    /// `false` a hop that loses 1 % settles more than 1 % lower. Ours.
    pub lost_is_carried: bool,
    /// Whether equation 10 divides cwnd by hopRTTmin instead of hopRTT. The
    /// paper's is hopRTT: false. With it a queue lowers the rate twice, by the
    /// smaller cwnd and by the longer hopRTT, and short hops run idle after each
    /// decrease. `beyond()` sets it, together with a smaller M.
    pub rate_over_min_rtt: bool,
    /// Whether equation 7 uses the least hopRTT sample of a hopRTT instead of the moving average,
    /// once slow start is over. The paper's is the average: false. A host that stalls for some
    /// milliseconds delays some packets, a queue all of them. `beyond()` sets it.
    pub standing_queue: bool,
    /// Whether a hop whose queue has exceeded M drains it before it grows again. Each hopRTT
    /// drains half of the remaining queue, down to M / 3, with cwnd never below k BDP. From M / 2
    /// on cwnd does not grow. A wait that three hopRTT have not shortened and that is at most 4
    /// `queue_threshold_ns` is not a queue but caused by a late host, until packets wait for
    /// less; if it is worth 32 segments, for 500 hopRTT in any case. The paper sets cwnd to k BDP
    /// once and lets it grow at once: false. On short hops one more segment fills the queue
    /// faster than k drains it, so it never empties. After five hopRTT without a queue cwnd grows
    /// by two steps per hopRTT, then three, to eight.
    pub drain_queue: bool,
    /// Whether hopRTT and hopRTTmin are reset when the Responder's clock shows that it is another
    /// node. The paper's nodes do not notice: false. A longer hop after a handover then counts as
    /// a queue for up to 5 s. `beyond()` sets it.
    pub new_neighbour_new_hop: bool,
    /// BL_tar of equation 9, byte: the target length of a Midnode's sending buffer. Ours.
    pub target_buffer_bytes: u64,
    /// Whether Midnodes take part in congestion control (ablation). Otherwise a Midnode passes
    /// rates and timestamps through and does not pace.
    pub hop_by_hop: bool,
    /// Shortest time between two updates of cwnd, ns, for hops with a shorter hopRTT. Ours.
    pub min_update_ns: Nanos,
    /// Highest rate that a Requester requests, bit/s.
    pub max_rate_bps: u64,
    /// Time of the rate that the tokens of a Rate Limiter may cover, ns. Ours.
    pub burst_ns: Nanos,

    /// A Consumer's outstanding Interests are worth this many times the bytes that its path
    /// delivers in one round trip without waiting. The part above 1 waits at the Producer, ready
    /// for a higher rate. Ours.
    pub window_gain: f64,
    /// Least bytes of a Consumer's outstanding Interests. Ours.
    pub min_window_bytes: u64,
    /// Bytes that a Consumer holds for an application that does not read. Ours.
    pub recv_buffer_bytes: u64,

    /// Bytes one flow's sending buffer may hold; beyond, packets are dropped
    /// (and repaired from the cache). Ours.
    pub send_buffer_bytes: u64,
    /// Bytes the sending buffers of all flows of one Consumer's IP address may
    /// hold; its flows share them equally. A Producer, which holds requests
    /// instead of data, keeps one per 256 of these bytes. Ours.
    pub peer_buffer_bytes: u64,
    /// Time for which a second Consumer's Interest relies on one already sent for the same bytes,
    /// ns. Ours.
    pub aggregation_ns: Nanos,
    /// State of a flow is forgotten after this long without a packet, ns. Ours.
    pub flow_expiry_ns: Nanos,
    /// Flows (Consumer, Producer, flow id) that a node keeps; the one idle for longest is
    /// dropped. Ours.
    pub max_flows: u32,
    /// Flows of one Consumer's IP address. Ours.
    pub max_flows_per_peer: u32,
    /// Flows of the Consumers of one IPv6 /64, which has 2^64 addresses. The bound of their
    /// sending buffers together grows in proportion to this number beyond `max_flows_per_peer`.
    /// Ours.
    pub max_flows_per_prefix: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            segment_bytes: 1400,
            interest_segments: 1,
            timing_every: 1,
            max_amplification: 32,
            hole_threshold: 1,
            max_hole_bytes: 16 << 20,
            shr: true,
            shr_repeats: 0,
            interest_holes: false,
            rto_min_ns: 200_000_000,
            rto_max_ns: 60_000_000_000,
            rto_backoff: 1.5,
            max_retries: 0,
            cache_bytes: 64 << 20,
            min_rtt_window_ns: 5_000_000_000,
            hop_rtt_gain: 0.125,
            initial_hop_rtt_ns: 100_000_000,
            initial_cwnd_segments: 10,
            queue_threshold_segments: 6.0,
            queue_threshold_ns: 1_000_000,
            decrease: 0.8,
            increase_segments: 1.0,
            increase_ratio: 0.0,
            updates_per_rtt: 1,
            lost_is_carried: true,
            rate_over_min_rtt: false,
            standing_queue: false,
            drain_queue: false,
            new_neighbour_new_hop: false,
            target_buffer_bytes: 16 * 1400,
            hop_by_hop: true,
            min_update_ns: 500_000,
            max_rate_bps: crate::wire::MAX_RATE_BPS,
            burst_ns: 1_000_000,
            window_gain: 2.0,
            min_window_bytes: 32 * 1400,
            recv_buffer_bytes: 64 << 20,
            send_buffer_bytes: 4 << 20,
            peer_buffer_bytes: 64 << 20,
            aggregation_ns: 500_000_000,
            flow_expiry_ns: 30_000_000_000,
            max_flows: 65_536,
            max_flows_per_peer: 4_096,
            max_flows_per_prefix: 16_384,
        }
    }
}

/// Largest number of consecutive packets that counts as a loss.
const LOSS_SEGMENTS: u64 = 8;

/// An invalid set of parameters, with every reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("parameters: {}", .0.join("; "))]
pub struct ParamError(pub Vec<String>);

impl Params {
    /// Returns the protocol with five constants of the program that the authors have published.
    /// They differ from the paper's text: equation 10 divides by hopRTTmin, cwnd grows ten
    /// times per hopRTT, M is 3,000 byte, BL_tar 5 segments, and hopRTTmin has a window of 10 s.
    /// As in the program, bytes lost on a hop do not count as carried by it.
    ///
    /// The rest is not the program's. That confirms a hole after 10 ms, and its timeouts are 20 ms
    /// at least and grow by 1.1. It has another slow start. Its cwnd is at least 0.2 segments and
    /// shrinks by 0.1 when it is not used. A hop carries at most 300 Mbit/s.
    pub fn authors_constants() -> Self {
        Self {
            updates_per_rtt: 10,
            rate_over_min_rtt: true,
            queue_threshold_segments: 3000.0 / 1400.0,
            target_buffer_bytes: 5 * 1400,
            min_rtt_window_ns: 10_000_000_000,
            lost_is_carried: false,
            ..Self::default()
        }
    }

    /// Returns our variant of the protocol, which the tests compare with the faithful one. Lost
    /// Interests are replaced where they were lost, and unanswered repairs are repeated locally.
    /// Bytes lost on a hop count as carried by it, and fast hops refill sooner. A hop with a
    /// queue slows down once instead of twice, by less and until the queue has drained, and
    /// probes in smaller steps. A few late packets do not count as a queue.
    pub fn beyond() -> Self {
        Self {
            timing_every: 4,
            shr_repeats: 3,
            interest_holes: true,
            increase_ratio: 1.0 / 32.0,
            rate_over_min_rtt: true,
            standing_queue: true,
            drain_queue: true,
            new_neighbour_new_hop: true,
            decrease: 0.9,
            increase_segments: 0.25,
            queue_threshold_segments: 1.5,
            target_buffer_bytes: 8 * 1400,
            ..Self::default()
        }
    }

    /// Bytes that one Interest may request.
    pub const fn interest_bytes(&self) -> u64 {
        self.segment_bytes as u64 * self.interest_segments as u64
    }

    /// Returns the bytes of the datagrams that carry `r`, with the header that most of them have.
    pub(crate) fn wire_bytes(&self, r: Range) -> u64 {
        // Headers count: the throughput of equation 6 is in bytes on the wire.
        let packets = r.len().div_ceil(u64::from(self.segment_bytes.max(1)));
        let header = data_header_len(r.start, self.timing_every == 1);
        r.len() + packets * header as u64
    }

    /// Whether a hole has the length that lost packets leave. A longer one means that the path
    /// was cut: the neighbour may not have the bytes either, and a repeated request after a
    /// hopRTT fetches them twice from further away.
    pub(crate) fn is_loss(&self, hole: Range) -> bool {
        hole.len() <= LOSS_SEGMENTS * u64::from(self.segment_bytes)
    }

    /// Returns the padding of an Interest for `bytes`, so that a Responder with the same
    /// `max_amplification` answers all of it.
    pub fn padding_for(&self, bytes: u64) -> u16 {
        // The Responder bounds its answer, headers included, by the Interest's own length (not in
        // the paper: it keeps forged source addresses from amplifying traffic).
        let packets = bytes.div_ceil(u64::from(self.segment_bytes.max(1)));
        let answer = bytes + packets * DATA_HEADER_MAX as u64;
        let need = answer.div_ceil(u64::from(self.max_amplification.max(1)));
        need.saturating_sub(INTEREST_LEN as u64).min(1400) as u16
    }

    /// Checks all parameters and reports all errors.
    ///
    /// # Errors
    /// Every invalid parameter, with the reason.
    pub fn validate(&self) -> Result<(), ParamError> {
        let mut wrong = Vec::new();
        let groups = [
            &self.packets_work()[..],
            &self.timeouts_work(),
            &self.congestion_control_works(),
            &self.bounds_work(),
        ];
        for (works, rule) in groups.into_iter().flatten() {
            if !works {
                wrong.push((*rule).to_owned());
            }
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(ParamError(wrong))
        }
    }

    fn packets_work(&self) -> [(bool, &'static str); 5] {
        // Padding is limited to 1,400 bytes, so a long Interest under a small factor may not pay
        // for its answer.
        let pad = u64::from(self.padding_for(self.interest_bytes())) + INTEREST_LEN as u64;
        let answer =
            self.interest_bytes() + u64::from(self.interest_segments) * DATA_HEADER_MAX as u64;
        [
            (
                (64..=MAX_PAYLOAD as u32).contains(&self.segment_bytes),
                "segment_bytes must be 64 to 65477",
            ),
            (
                (1..=32).contains(&self.interest_segments),
                "interest_segments must be 1 to 32",
            ),
            (
                (1..=64).contains(&self.timing_every),
                "timing_every must be 1 to 64",
            ),
            (
                self.max_amplification >= 2,
                "max_amplification must be at least 2",
            ),
            (
                pad * u64::from(self.max_amplification) >= answer,
                "an interest of interest_segments cannot be padded enough for max_amplification",
            ),
        ]
    }

    fn timeouts_work(&self) -> [(bool, &'static str); 2] {
        [
            (
                self.rto_backoff > 1.0 && self.rto_backoff <= 4.0,
                "rto_backoff must be above 1 and at most 4",
            ),
            (
                self.rto_min_ns > 0 && self.rto_min_ns <= self.rto_max_ns,
                "rto_min_ns must be above 0 and at most rto_max_ns",
            ),
        ]
    }

    fn congestion_control_works(&self) -> [(bool, &'static str); 10] {
        [
            (
                self.hop_rtt_gain > 0.0 && self.hop_rtt_gain <= 1.0,
                "hop_rtt_gain must be above 0 and at most 1",
            ),
            (
                self.initial_hop_rtt_ns > 0,
                "initial_hop_rtt_ns must be above 0",
            ),
            (
                self.initial_cwnd_segments >= 1,
                "initial_cwnd_segments must be at least 1",
            ),
            (
                self.decrease > 0.0 && self.decrease < 1.0,
                "decrease (k) must be between 0 and 1",
            ),
            (
                self.queue_threshold_segments >= 0.0,
                "queue_threshold_segments (M) must not be negative",
            ),
            (
                self.increase_segments > 0.0,
                "increase_segments must be above 0",
            ),
            (
                (0.0..=1.0).contains(&self.increase_ratio),
                "increase_ratio must be 0 to 1",
            ),
            (
                (1..=100).contains(&self.updates_per_rtt),
                "updates_per_rtt must be 1 to 100",
            ),
            (
                self.min_rtt_window_ns > 0,
                "min_rtt_window_ns must be above 0",
            ),
            (
                (crate::wire::MIN_RATE_BPS..=crate::wire::MAX_RATE_BPS)
                    .contains(&self.max_rate_bps),
                "max_rate_bps must be 10 kbit/s to 100 Gbit/s",
            ),
        ]
    }

    fn bounds_work(&self) -> [(bool, &'static str); 5] {
        [
            (self.window_gain >= 1.0, "window_gain must be at least 1"),
            (
                self.min_window_bytes >= self.interest_bytes(),
                "min_window_bytes must hold one interest",
            ),
            (
                self.recv_buffer_bytes >= self.min_window_bytes,
                "recv_buffer_bytes must hold min_window_bytes",
            ),
            (
                self.send_buffer_bytes >= u64::from(self.segment_bytes)
                    && self.peer_buffer_bytes >= self.send_buffer_bytes,
                "send_buffer_bytes must hold one segment, peer_buffer_bytes one send_buffer_bytes",
            ),
            (
                self.flow_expiry_ns > 0
                    && self.max_flows > 0
                    && self.max_flows_per_peer > 0
                    && self.max_flows_per_prefix > 0,
                "flow limits must be above 0",
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_hold_and_every_fault_is_named() {
        Params::default().validate().unwrap();
        Params::beyond().validate().unwrap();
        Params::authors_constants().validate().unwrap();
        let bad = Params {
            decrease: 1.5,
            segment_bytes: 1,
            rto_backoff: 1.0,
            ..Params::default()
        };
        assert!(bad.validate().unwrap_err().0.len() >= 3);
    }

    #[test]
    fn padding_buys_the_whole_answer() {
        for (seg, amp) in [(1, 32), (8, 32), (1, 3), (16, 64)] {
            let p = Params {
                interest_segments: seg,
                max_amplification: amp,
                ..Params::default()
            };
            p.validate().unwrap();
            let interest = INTEREST_LEN as u64 + u64::from(p.padding_for(p.interest_bytes()));
            assert!(
                interest * u64::from(amp)
                    >= p.interest_bytes() + u64::from(seg) * DATA_HEADER_MAX as u64
            );
        }
    }
}
