//! The traffic of every edge.

use std::collections::BTreeMap;

use constel_link::PortId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reply to [`Read::Loads`](crate::Read::Loads). The difference of two replies is the traffic in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loads {
    /// Lab time, nanoseconds; `None` while the clock is held.
    pub t_ns: Option<u64>,
    /// Time of the sample, `CLOCK_MONOTONIC`. The counters are read between frames, so not all of them at this instant.
    pub at_mono_ns: u64,
    /// Edges that exist and have carried something, in the order of their ports.
    pub edges: Vec<EdgeLoad>,
}

/// The traffic of one edge since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EdgeLoad {
    /// Source of the edge: the lab-wide number of the port.
    pub from: PortId,
    /// Destination of the edge.
    pub to: PortId,
    /// Bytes that have arrived, over all lives of the edge.
    pub delivered_bytes: u64,
    /// Service rate with all effects in force, bit/s. For a rate that changes over time, the mean. `null`: service takes no
    /// time.
    pub rate_bps: Option<u64>,
}

/// The throughput of one edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EdgeRate {
    /// Source of the edge: the lab-wide number of the port.
    pub from: PortId,
    /// Destination of the edge.
    pub to: PortId,
    /// Throughput of frames that arrived, bit/s. Greater than zero.
    pub carried_bps: f64,
    /// The part of its service rate that this is, at most 1; `None` where service takes no time.
    pub load: Option<f64>,
}

impl Loads {
    /// Minimum time between two samples, nanoseconds. The difference of closer samples has no meaning.
    const LEAST_NS: u64 = 100_000_000;

    /// Returns the throughput of edges since an earlier sample, in the order of their ports. Edges without traffic are left
    /// out. Returns `None` if the samples are too close.
    ///
    /// An edge that is missing in the earlier sample either carried nothing or did not exist. Its counters may belong to an
    /// earlier existence, so it has a rate from the next sample on.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Vec<EdgeRate>> {
        let took_ns = self.at_mono_ns.checked_sub(before.at_mono_ns)?;
        if took_ns < Self::LEAST_NS {
            return None;
        }
        let edges = before.edges.iter();
        let known: BTreeMap<_, u64> = edges
            .map(|edge| ((edge.from, edge.to), edge.delivered_bytes))
            .collect();
        let rates = self.edges.iter().filter_map(|edge| {
            let then = *known.get(&(edge.from, edge.to))?;
            let bytes = edge.delivered_bytes.checked_sub(then)?;
            let carried_bps = 8e9 * bytes as f64 / took_ns as f64;
            let rate_bps = edge.rate_bps.filter(|bps| *bps > 0);
            (bytes > 0).then(|| EdgeRate {
                from: edge.from,
                to: edge.to,
                carried_bps,
                // Frames that waited for service at the first sample may leave faster than the mean.
                load: rate_bps.map(|bps| (carried_bps / bps as f64).min(1.0)),
            })
        });
        Some(rates.collect())
    }
}
