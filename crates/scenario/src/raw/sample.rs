//! `sample`: what is written down of interfaces and edges while a lab runs.

use constel_units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is written down of interfaces and edges while a lab runs, again and again from lab time zero until all traffic has ended, and once
/// more then. `constel results export` makes tables of it. Without this key nothing is; `run --profile HZ` stands in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Sample")]
pub struct RawSample {
    /// How often.
    #[serde(default = "one_second")]
    #[schemars(extend("x-minimum" = "10 ms", "x-maximum" = "1 h"))]
    pub every: TimeSpan,
    /// Nodes whose interfaces are looked at: names, with `*` for any characters and `?` for one. Default: all; `[]`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000), inner(length(min = 1, max = 64)))]
    pub interfaces: Option<Vec<String>>,
    /// Nodes whose edges are looked at, those that lead away from them. Default: all; `[]`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000), inner(length(min = 1, max = 64)))]
    pub edges: Option<Vec<String>>,
    /// What is written down. Default: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 22))]
    pub metrics: Option<Vec<SampleMetric>>,
}

fn one_second() -> TimeSpan {
    TimeSpan::from_ns(1_000_000_000)
}

/// What is written down: of interfaces what their kernel counted, of edges what the link plane did.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SampleMetric {
    /// Of interfaces: packets received.
    RxPackets,
    /// Of interfaces: packets sent.
    TxPackets,
    /// Of interfaces: bytes received.
    RxBytes,
    /// Of interfaces: bytes sent.
    TxBytes,
    /// Of interfaces: packets dropped when received.
    RxDropped,
    /// Of interfaces: packets dropped when sent.
    TxDropped,
    /// Of edges: propagation delay, as the scenario has it.
    DelayNs,
    /// Of edges: bytes that wait for service.
    QueueBytes,
    /// Of edges: frames inside, waiting or under way.
    HeldFrames,
    /// Of edges: frames that reached it.
    Offered,
    /// Of edges: bytes of those.
    OfferedBytes,
    /// Of edges: frames handed to the far port.
    Delivered,
    /// Of edges: bytes of those.
    DeliveredBytes,
    /// Of edges: copies that it made.
    Duplicated,
    /// Of edges: frames delivered with a bit flipped.
    Corrupted,
    /// Of edges: frames marked "congestion experienced".
    Marked,
    /// Of edges: dropped because the queue was full.
    DroppedQueue,
    /// Of edges: dropped by the queue's discipline before it was full.
    DroppedAqm,
    /// Of edges: taken by the loss law.
    DroppedLoss,
    /// Of edges: arrived while it was not up, or was failed.
    DroppedOutage,
    /// Of edges: were waiting when it went.
    DroppedRemoved,
    /// Of edges: lost by the emulator, which did not keep up or had no buffer.
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
