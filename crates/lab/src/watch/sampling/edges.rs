//! The state and the counters of edges. A row is written when anything except the delay differs from the edge's row
//! before, and when the edge disappears. Idle links thus cost nothing, and an edge's last row has all its final
//! counters.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use constel_drivers::Links;
use constel_link::{EdgeStats, PortId};
use constel_scenario::model::{SampleMetric, Sampling};
use constel_topology::Layout;

use super::columns::Columns;
use crate::clock::mono_ns;
use crate::error::EngineError;

/// Returns the value of a metric; 0 for a metric that edges do not have.
fn value(metric: SampleMetric, stats: &EdgeStats, now_ns: u64) -> u64 {
    let counted = &stats.counters;
    match metric {
        SampleMetric::DelayNs => stats.impairment.map_or(0, |i| i.delay.at(now_ns)),
        SampleMetric::QueueBytes => stats.queue_bytes,
        SampleMetric::HeldFrames => stats.held as u64,
        SampleMetric::DroppedByHost => counted.dropped_overload + counted.dropped_no_buffer,
        counter => counted.get(counter.as_str()).unwrap_or(0),
    }
}

/// Returns whether two samples of an edge are equal except for its delay.
fn same(a: &EdgeStats, b: &EdgeStats) -> bool {
    (a.counters, a.held, a.queue_bytes, a.impairment.is_some())
        == (b.counters, b.held, b.queue_bytes, b.impairment.is_some())
}

pub(super) struct Edges {
    links: Arc<dyn Links>,
    /// Whether edges that leave each port are sampled, by port.
    wanted: Vec<bool>,
    metrics: Vec<SampleMetric>,
    /// The latest written sample of each edge.
    known: BTreeMap<(PortId, PortId), EdgeStats>,
    /// The columns: the time, both ends, then the metrics.
    columns: Columns,
}

impl Edges {
    pub(super) fn begin(
        wanted: &Sampling,
        layout: &Layout,
        links: Arc<dyn Links>,
        results: &Path,
    ) -> Result<Self, EngineError> {
        let mut index = String::from("place,node,port\n");
        let mut leaves = Vec::new();
        for (place, port) in layout.ports().iter().enumerate() {
            let node = &layout.node(port.node).name;
            // Writing to a String does not fail.
            let _ = writeln!(index, "{place},{node},{}", port.name());
            leaves.push(wanted.has_edges(node));
        }
        let own = ["t_ns.i64", "from.u64", "to.u64"].map(str::to_owned);
        let metrics = wanted.of_edges().map(|m| format!("{}.u64", m.as_str()));
        let names: Vec<String> = own.into_iter().chain(metrics).collect();
        let names = names.iter().map(String::as_str);
        Ok(Self {
            links,
            wanted: leaves,
            metrics: wanted.of_edges().collect(),
            known: BTreeMap::new(),
            columns: Columns::create("edges", results, ("index.csv", &index), names)?,
        })
    }

    pub(super) fn look(&mut self, t_ns: u64) -> Result<(), EngineError> {
        let mut seen = self.links.all_edges()?;
        let now_ns = mono_ns();
        seen.retain(|edge| self.wanted.get(edge.from.0 as usize) == Some(&true));
        // The search relies on the order of the edges, which are sorted by their ends.
        let there = |(from, to): &(PortId, PortId)| {
            seen.binary_search_by_key(&(*from, *to), |edge| (edge.from, edge.to))
                .is_ok()
        };
        // A disappeared edge is read once more, because its final counters are not in the list of present edges.
        let gone: Vec<_> = self
            .known
            .keys()
            .filter(|edge| !there(edge))
            .copied()
            .collect();
        for (from, to) in gone {
            seen.extend(self.links.edge_stats(from, to)?);
        }
        for edge in seen {
            let before = self.known.get(&(edge.from, edge.to));
            if before.is_some_and(|before| same(before, &edge)) {
                continue;
            }
            for (column, number) in [t_ns, u64::from(edge.from.0), u64::from(edge.to.0)]
                .into_iter()
                .enumerate()
            {
                self.columns.put(column, number)?;
            }
            for (column, metric) in self.metrics.iter().enumerate() {
                self.columns
                    .put(3 + column, value(*metric, &edge, now_ns))?;
            }
            self.known.insert((edge.from, edge.to), edge);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), EngineError> {
        self.columns.finish()
    }
}
