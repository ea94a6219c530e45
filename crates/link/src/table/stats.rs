//! Statistics of the table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EdgeTable;
use super::keys::key;
use crate::counters::EdgeCounters;
use crate::types::{Impairment, PortId};

/// State and counters of one edge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EdgeStats {
    /// Edge start.
    pub from: PortId,
    /// Edge end.
    pub to: PortId,
    /// Impairment, if the edge exists at the moment.
    pub impairment: Option<Impairment>,
    /// Counts over all lives of the edge.
    pub counters: EdgeCounters,
    /// Frames inside the edge.
    pub held: usize,
    /// Bytes waiting for service.
    pub queue_bytes: u64,
}

/// Sums over the whole table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Number of existing edges.
    pub edges: usize,
    /// All counters of all edges, past ones included.
    pub counters: EdgeCounters,
    /// Frames that found no edge to take.
    pub dropped_no_edge: u64,
    /// Frames inside all edges.
    pub held: usize,
}

impl<F> EdgeTable<F> {
    /// Returns the number of frames inside all edges.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of frames of this port that found no edge.
    #[must_use]
    pub fn no_edge(&self, port: PortId) -> u64 {
        self.no_edge.get(port.0 as usize).copied().unwrap_or(0)
    }

    /// Returns the statistics of an edge; `None` if it never existed.
    #[must_use]
    pub fn edge_stats(&self, from: PortId, to: PortId) -> Option<EdgeStats> {
        let k = key(from.0, to.0);
        let past = self.past.get(&k);
        let entry = self
            .index
            .get(&k)
            .and_then(|&id| self.entries[id as usize].as_ref());
        if past.is_none() && entry.is_none() {
            return None;
        }
        let mut stats = EdgeStats {
            from,
            to,
            impairment: None,
            counters: past.map_or_else(EdgeCounters::default, |p| p.counters),
            held: 0,
            queue_bytes: 0,
        };
        if let Some(entry) = entry {
            // The counters in `past` are those of earlier lives: removing an edge does not reset its counters.
            stats.counters.add(entry.edge.counters());
            // A removed edge whose last frames are in flight has no impairment any more.
            stats.impairment = entry.open.then(|| *entry.edge.impairment());
            stats.held = entry.edge.held();
            stats.queue_bytes = entry.edge.queue_bytes();
        }
        Some(stats)
    }

    /// Returns every edge that exists or has existed, sorted by (from, to).
    #[must_use]
    pub fn all_stats(&self) -> Vec<EdgeStats> {
        let mut keys: Vec<u64> = self.index.keys().chain(self.past.keys()).copied().collect();
        keys.sort_unstable();
        // An edge that was removed and added again is in both maps.
        keys.dedup();
        keys.into_iter()
            .filter_map(|k| self.edge_stats(PortId((k >> 32) as u32), PortId(k as u32)))
            .collect()
    }

    /// Appends the existing edges among the `count` places from `start` on to `out`. Returns false if there are no
    /// further places. Use it to read a large table in portions; edges that are added or removed between two calls may
    /// be missed.
    pub fn stats_of_places(&self, start: usize, count: usize, out: &mut Vec<EdgeStats>) -> bool {
        let end = start.saturating_add(count).min(self.entries.len());
        let places = self.entries.get(start..end).unwrap_or_default();
        out.extend(
            places
                .iter()
                .flatten()
                .filter(|e| e.open)
                .filter_map(|e| self.edge_stats(PortId(e.from), PortId(e.to))),
        );
        end < self.entries.len()
    }

    /// Returns the sums over all edges.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            edges: self.open,
            counters: self.sum,
            dropped_no_edge: self.sum_no_edge,
            held: self.held,
        }
    }
}
