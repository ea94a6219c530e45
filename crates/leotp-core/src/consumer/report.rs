//! Reports of a Consumer.

use crate::cc::CcState;
use thiserror::Error;

/// Why a flow cannot be delivered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlowError {
    /// An Interest has timed out more often than `max_retries`.
    #[error("no answer for byte {0} after {1} attempts")]
    Unanswered(u64, u32),
    /// Two packets name different ends of the flow, or bytes beyond its end.
    #[error("the flow's end is byte {0} in one packet and {1} in another")]
    EndMoved(u64, u64),
    /// The metadata record is not one.
    #[error("the flow's metadata record is malformed")]
    BadMeta,
    /// The delivered bytes are not the Producer's.
    #[error("the delivered bytes do not match the producer's digest")]
    Digest,
    /// The requested start lies beyond the flow's end.
    #[error("start {0} lies beyond the flow's end {1}")]
    StartBeyondEnd(u64, u64),
}

/// Counters of a Consumer since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct ConsumerStats {
    /// Interests sent, repairs included.
    pub interests: u64,
    /// Data packets received.
    pub data_packets: u64,
    /// New bytes received.
    pub new_bytes: u64,
    /// Bytes received more than once.
    pub duplicate_bytes: u64,
    /// Void Packet Headers received.
    pub vphs: u64,
    /// Interests repeated after a timeout (TR).
    pub timeouts: u64,
    /// Interests for holes detected here (SHR).
    pub repairs: u64,
    /// Datagrams that were not LEOTP or not for this flow.
    pub bad_packets: u64,
}

/// The state of a Consumer at a moment.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ConsumerState {
    /// Flow id.
    pub flow: u64,
    /// The hop upstream.
    pub upstream: CcState,
    /// Rate last requested, bit/s.
    pub requested_bps: u64,
    /// Bytes of Interests that may be outstanding.
    pub window_bytes: u64,
    /// Bytes of Interests that are outstanding.
    pub outstanding_bytes: u64,
    /// Bytes delivered in order, counted from byte 0.
    pub delivered_bytes: u64,
    /// End-to-end smoothed round-trip time including waits at nodes, ns; 0: none yet.
    pub srtt_ns: f64,
}
