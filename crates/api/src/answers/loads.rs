//! What every edge has carried.

use std::collections::BTreeMap;

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

/// What one edge carries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EdgeRate {
    /// Where it begins, by the lab-wide number of the port.
    pub from: PortId,
    /// Where it leads.
    pub to: PortId,
    /// What arrived, bit/s; more than nothing.
    pub carried_bps: f64,
    /// The part of its service rate that this is, at most 1; `None` where service takes no time.
    pub load: Option<f64>,
}

impl Loads {
    /// Looks that are nearer to each other than this say nothing, nanoseconds.
    const LEAST_NS: u64 = 100_000_000;

    /// What edges carried since an earlier look, in the order of their ports; those that carried nothing are left out. `None` where the
    /// looks are too near to each other.
    ///
    /// An edge that the earlier look has not seen had carried nothing, or did not exist, and its counters are of an earlier life: it
    /// has a rate from the next look on.
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
                // What was waiting for service when the first look came may leave faster than the mean.
                load: rate_bps.map(|bps| (carried_bps / bps as f64).min(1.0)),
            })
        });
        Some(rates.collect())
    }
}
