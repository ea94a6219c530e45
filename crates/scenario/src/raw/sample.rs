//! `sample`: metrics of interfaces and edges that are recorded while a lab runs.

use constel_units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Metrics of interfaces and edges that are recorded while a lab runs, at regular intervals from lab time zero
/// until all traffic has ended, and once more at the end. `constel results export` makes tables of them.
/// Without this key nothing is recorded; `run --profile HZ` replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Sample")]
pub struct RawSample {
    /// The sampling interval.
    #[serde(default = "one_second")]
    #[schemars(extend("x-minimum" = "10 ms", "x-maximum" = "1 h"))]
    pub every: TimeSpan,
    /// Nodes whose interfaces are sampled: names, with `*` for any characters and `?` for one. Default: all;
    /// `[]`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000), inner(length(min = 1, max = 64)))]
    pub interfaces: Option<Vec<String>>,
    /// Nodes whose outgoing edges are sampled. Default: all; `[]`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000), inner(length(min = 1, max = 64)))]
    pub edges: Option<Vec<String>>,
    /// The recorded metrics. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 22))]
    pub metrics: Option<Vec<SampleMetric>>,
}

fn one_second() -> TimeSpan {
    TimeSpan::from_ns(1_000_000_000)
}

/// A recorded metric: counters of the kernel for interfaces, counters of the link plane for edges.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SampleMetric {
    /// Interfaces: packets received.
    RxPackets,
    /// Interfaces: packets sent.
    TxPackets,
    /// Interfaces: bytes received.
    RxBytes,
    /// Interfaces: bytes sent.
    TxBytes,
    /// Interfaces: packets dropped when received.
    RxDropped,
    /// Interfaces: packets dropped when sent.
    TxDropped,
    /// Edges: propagation delay, as the scenario has it.
    DelayNs,
    /// Edges: bytes that wait for service.
    QueueBytes,
    /// Edges: frames inside, in the queue or in transit.
    HeldFrames,
    /// Edges: frames that reached the edge.
    Offered,
    /// Edges: bytes of those frames.
    OfferedBytes,
    /// Edges: frames delivered to the far port.
    Delivered,
    /// Edges: bytes of those frames.
    DeliveredBytes,
    /// Edges: copies that the edge made.
    Duplicated,
    /// Edges: frames delivered with a bit flipped.
    Corrupted,
    /// Edges: frames marked "congestion experienced".
    Marked,
    /// Edges: frames dropped because the queue was full.
    DroppedQueue,
    /// Edges: frames dropped by the queue's discipline before it was full.
    DroppedAqm,
    /// Edges: frames dropped by the loss law.
    DroppedLoss,
    /// Edges: frames that arrived while the edge was down or failed.
    DroppedOutage,
    /// Edges: frames that were waiting when the edge went down.
    DroppedRemoved,
    /// Edges: frames lost by the emulator, which did not keep up or had no buffer.
    DroppedByHost,
}

impl SampleMetric {
    /// All, those of interfaces first.
    pub const ALL: [Self; 22] = [
        Self::RxPackets,
        Self::TxPackets,
        Self::RxBytes,
        Self::TxBytes,
        Self::RxDropped,
        Self::TxDropped,
        Self::DelayNs,
        Self::QueueBytes,
        Self::HeldFrames,
        Self::Offered,
        Self::OfferedBytes,
        Self::Delivered,
        Self::DeliveredBytes,
        Self::Duplicated,
        Self::Corrupted,
        Self::Marked,
        Self::DroppedQueue,
        Self::DroppedAqm,
        Self::DroppedLoss,
        Self::DroppedOutage,
        Self::DroppedRemoved,
        Self::DroppedByHost,
    ];

    /// Whether it is of interfaces; else it is of edges.
    #[must_use]
    pub fn of_interfaces(self) -> bool {
        self <= Self::TxDropped
    }

    /// The word in files, which is the name of its column.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RxPackets => "rx_packets",
            Self::TxPackets => "tx_packets",
            Self::RxBytes => "rx_bytes",
            Self::TxBytes => "tx_bytes",
            Self::RxDropped => "rx_dropped",
            Self::TxDropped => "tx_dropped",
            Self::DelayNs => "delay_ns",
            Self::QueueBytes => "queue_bytes",
            Self::HeldFrames => "held_frames",
            Self::Offered => "offered",
            Self::OfferedBytes => "offered_bytes",
            Self::Delivered => "delivered",
            Self::DeliveredBytes => "delivered_bytes",
            Self::Duplicated => "duplicated",
            Self::Corrupted => "corrupted",
            Self::Marked => "marked",
            Self::DroppedQueue => "dropped_queue",
            Self::DroppedAqm => "dropped_aqm",
            Self::DroppedLoss => "dropped_loss",
            Self::DroppedOutage => "dropped_outage",
            Self::DroppedRemoved => "dropped_removed",
            Self::DroppedByHost => "dropped_by_host",
        }
    }
}
