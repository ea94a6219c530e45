//! A Midnode's present state of its flows, for reports.

use super::Midnode;
use crate::Path;
use crate::cc::{CcState, Phase};

/// State of one flow towards one Consumer.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct FlowState {
    /// Flow id.
    pub flow: u64,
    /// BL of equation 9, byte.
    pub buffer_bytes: u64,
    /// Packets in the sending buffer, headers included.
    pub buffer_packets: usize,
    /// The hop upstream, of which this node is the Requester.
    pub upstream: CcState,
    /// Rate last requested upstream, bit/s.
    pub requested_bps: u64,
    /// Rate at which this node may send downstream, bit/s.
    pub paced_bps: u64,
    /// Holes that have not been requested.
    pub holes: usize,
}

impl Midnode {
    /// The state of every flow.
    pub fn flow_states(&self) -> impl Iterator<Item = FlowState> + '_ {
        self.legs.iter().map(|l| FlowState {
            flow: l.flow,
            buffer_bytes: l.queue.bytes(),
            buffer_packets: l.queue.len(),
            upstream: l.cc.state(),
            requested_bps: l.last_up_rate,
            paced_bps: l.bucket.rate_bps(),
            holes: l.holes.open_holes(),
        })
    }

    /// Describes a flow in one line, for people; `path` is that of its Data.
    pub fn describe(&self, flow: u64, path: Path) -> String {
        let Some(s) = self
            .legs
            .find(flow, path)
            .and_then(|_| self.flow_states().find(|s| s.flow == flow))
        else {
            return String::from("no state");
        };
        let phase = match s.upstream.phase {
            Phase::SlowStart => "slow start",
            Phase::Avoidance => "avoidance",
        };
        format!(
            "buffer {} B in {} packets, {phase} cwnd {:.0} B hopRTT {:.1} ms min {:.1} ms throughput {:.2} Mbit/s, asks {:.2}, sends at {:.2} Mbit/s, {} holes",
            s.buffer_bytes,
            s.buffer_packets,
            s.upstream.cwnd_bytes,
            s.upstream.hop_rtt_ns / 1e6,
            s.upstream.hop_rtt_min_ns / 1e6,
            s.upstream.throughput_bps / 1e6,
            s.requested_bps as f64 / 1e6,
            s.paced_bps as f64 / 1e6,
            s.holes
        )
    }
}
