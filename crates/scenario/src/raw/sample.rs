//! `sample`: metrics of interfaces, edges and used resources that are recorded while a lab runs.

use constel_units::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Metrics of interfaces, edges and used resources that are recorded while a lab runs, at regular intervals from lab time zero
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
    #[schemars(length(max = 10_000), inner(length(min = 1, max = 64)))]
    pub interfaces: Option<Vec<String>>,
    /// Nodes whose outgoing edges are sampled. Default: all; `[]`: none.
    #[schemars(length(max = 10_000), inner(length(min = 1, max = 64)))]
    pub edges: Option<Vec<String>>,
    /// Nodes whose used resources (processor time, memory, I/O, processes) are sampled. They are counted for containers
    /// and nodes with `limits`, which have cgroups of their own. Default: all of these; `[]`: none.
    #[schemars(length(max = 10_000), inner(length(min = 1, max = 64)))]
    pub usage: Option<Vec<String>>,
    /// The recorded metrics. Default: all.
    #[schemars(length(min = 1, max = 27))]
    pub metrics: Option<Vec<SampleMetric>>,
}

fn one_second() -> TimeSpan {
    TimeSpan::from_ns(1_000_000_000)
}

/// Makes [`SampleMetric`] from one table: its variants, and their names in files. A counter of an edge has the name of
/// [`EdgeCounters`](constel_link::EdgeCounters).
macro_rules! metrics {
    ($($(#[$doc:meta])* $metric:ident $name:literal,)*) => {
        /// A recorded metric: counters of the kernel for interfaces, counters of the link plane for edges, and counters of
        /// cgroups for the resources that nodes use.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum SampleMetric {
            $($(#[$doc])* $metric,)*
        }

        impl SampleMetric {
            /// All: those of interfaces, then of edges, then of used resources.
            pub const ALL: &'static [Self] = &[$(Self::$metric,)*];

            /// The word in files, which is the name of its column.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$metric => $name,)*
                }
            }
        }
    };
}

metrics! {
    /// Interfaces: packets received.
    RxPackets "rx_packets",
    /// Interfaces: packets sent.
    TxPackets "tx_packets",
    /// Interfaces: bytes received.
    RxBytes "rx_bytes",
    /// Interfaces: bytes sent.
    TxBytes "tx_bytes",
    /// Interfaces: packets dropped when received.
    RxDropped "rx_dropped",
    /// Interfaces: packets dropped when sent.
    TxDropped "tx_dropped",
    /// Edges: propagation delay, as the scenario has it.
    DelayNs "delay_ns",
    /// Edges: bytes that wait for service.
    QueueBytes "queue_bytes",
    /// Edges: frames inside, in the queue or in transit.
    HeldFrames "held_frames",
    /// Edges: frames that reached the edge.
    Offered "offered",
    /// Edges: bytes of those frames.
    OfferedBytes "offered_bytes",
    /// Edges: frames delivered to the far port.
    Delivered "delivered",
    /// Edges: bytes of those frames.
    DeliveredBytes "delivered_bytes",
    /// Edges: copies that the edge made.
    Duplicated "duplicated",
    /// Edges: frames delivered with a bit flipped.
    Corrupted "corrupted",
    /// Edges: frames marked "congestion experienced".
    Marked "marked",
    /// Edges: frames dropped because the queue was full.
    DroppedQueue "dropped_queue",
    /// Edges: frames dropped by the queue's discipline before it was full.
    DroppedAqm "dropped_aqm",
    /// Edges: frames dropped by the loss law.
    DroppedLoss "dropped_loss",
    /// Edges: frames that arrived while the edge was down or failed.
    DroppedOutage "dropped_outage",
    /// Edges: frames that were waiting when the edge went down.
    DroppedRemoved "dropped_removed",
    /// Edges: frames lost by the emulator, which did not keep up or had no buffer.
    DroppedByHost "dropped_by_host",
    /// Usage: processor time of the node's programs since their start.
    CpuNs "cpu_ns",
    /// Usage: memory now, also of files in memory and of the page cache.
    MemoryBytes "memory_bytes",
    /// Usage: bytes read from block devices.
    ReadBytes "read_bytes",
    /// Usage: bytes written to block devices.
    WrittenBytes "written_bytes",
    /// Usage: processes and threads now.
    Processes "processes",
}

/// The kinds of objects that have metrics; each is a folder of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampled {
    /// Interfaces of nodes.
    Interfaces,
    /// Directions of links.
    Edges,
    /// Nodes, with the resources that their programs use.
    Usage,
}

impl SampleMetric {
    /// Returns the kind of objects that have it.
    #[must_use]
    pub fn kind(self) -> Sampled {
        match self {
            own if own <= Self::TxDropped => Sampled::Interfaces,
            own if own >= Self::CpuNs => Sampled::Usage,
            _ => Sampled::Edges,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_link::EdgeCounters;

    #[test]
    fn a_metric_of_edges_is_a_counter_or_known_not_to_be_one() {
        let others = [
            SampleMetric::DelayNs,
            SampleMetric::QueueBytes,
            SampleMetric::HeldFrames,
            SampleMetric::DroppedByHost,
        ];
        for metric in SampleMetric::ALL {
            let name = metric.as_str();
            let is_counter = EdgeCounters::default().get(name).is_some();
            let is_other = metric.kind() != Sampled::Edges || others.contains(metric);
            assert_ne!(is_counter, is_other, "{name}");
            // Files have the same word as the column.
            assert_eq!(serde_json::to_value(metric).unwrap(), name);
        }
    }
}
