//! What every edge has carried.

use constel_link::PortId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// To [`Read::Loads`](crate::Read::Loads). The difference of two answers is what was carried in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loads {
    /// Lab time, nanoseconds; `None` while the clock is held.
    pub t_ns: Option<u64>,
    /// When the edges were looked at, `CLOCK_MONOTONIC`. They are read bit by bit between frames, so not all at this instant.
    pub at_mono_ns: u64,
    /// Edges that exist and have carried something, in the order of their ports.
    pub edges: Vec<EdgeLoad>,
}

/// What one edge has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EdgeLoad {
    /// Where it begins, by the lab-wide number of the port.
    pub from: PortId,
    /// Where it leads.
    pub to: PortId,
    /// Bytes that have arrived, over all lives of the edge.
    pub delivered_bytes: u64,
    /// Its service rate with all effects in force, bit/s; of a rate that changes in time the mean. `None`: service takes no time.
    pub rate_bps: Option<u64>,
}
