//! The resources that nodes with cgroups of their own use: one number for each node and instant, instants one after the
//! other.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use constel_host::cgroup::usage::Usage;
use constel_scenario::model::{SampleMetric, Sampling};
use constel_topology::NodeId;

use super::columns::Columns;
use crate::error::EngineError;
use crate::nodes::cgroups::Cgroups;
use crate::nodes::kernels::Kernels;
use crate::nodes::usage::of_node;

type Read = fn(&Usage) -> Option<u64>;

/// Returns the reader of a metric; `None` for a metric that is not of usage.
fn reader(metric: SampleMetric) -> Option<Read> {
    match metric {
        SampleMetric::CpuNs => Some(|usage| usage.cpu_ns),
        SampleMetric::MemoryBytes => Some(|usage| usage.memory_bytes),
        SampleMetric::ReadBytes => Some(|usage| usage.read_bytes),
        SampleMetric::WrittenBytes => Some(|usage| usage.written_bytes),
        SampleMetric::Processes => Some(|usage| usage.processes),
        _ => None,
    }
}

pub(super) struct Usages {
    kernels: Arc<Kernels>,
    groups: Arc<Cgroups>,
    nodes: Vec<NodeId>,
    readers: Vec<Read>,
    /// The columns: the time, then the metrics.
    columns: Columns,
}

impl Usages {
    /// Creates the folder `usage`; `None` if no node has anything that this host counts.
    ///
    /// # Errors
    /// The refusal of the file system.
    pub(super) fn begin(
        wanted: &Sampling,
        kernels: &Arc<Kernels>,
        groups: &Arc<Cgroups>,
        results: &Path,
    ) -> Result<Option<Self>, EngineError> {
        let layout = &kernels.blueprint.lab.layout;
        let all = layout.nodes().iter().map(|node| node.id);
        let all = all.filter(|node| wanted.has_usage(&layout.node(*node).name));
        let first: Vec<(NodeId, Usage)> = all
            .filter_map(|node| Some((node, of_node(groups, kernels, node)?)))
            .collect();
        // A metric that this host does not count has no column.
        let metrics = wanted.of_usage().filter_map(|metric| {
            let read = reader(metric)?;
            let counted = first.iter().any(|(_, usage)| read(usage).is_some());
            counted.then(|| (format!("{}.u64", metric.as_str()), read))
        });
        let (names, readers): (Vec<String>, Vec<Read>) = metrics.unzip();
        if readers.is_empty() {
            return Ok(None);
        }
        let mut index = String::from("place,node\n");
        for (place, (node, _)) in first.iter().enumerate() {
            // Writing to a String does not fail.
            let _ = writeln!(index, "{place},{}", layout.node(*node).name);
        }
        let names = std::iter::once("t_ns.i64").chain(names.iter().map(String::as_str));
        Ok(Some(Self {
            columns: Columns::create("usage", results, ("index.csv", &index), names)?,
            kernels: Arc::clone(kernels),
            groups: Arc::clone(groups),
            nodes: first.into_iter().map(|(node, _)| node).collect(),
            readers,
        }))
    }

    pub(super) fn look(&mut self, t_ns: u64) -> Result<(), EngineError> {
        self.columns.put(0, t_ns)?;
        for node in &self.nodes {
            // A container that has ended counts as zero, so that the rows keep their length.
            let usage = of_node(&self.groups, &self.kernels, *node).unwrap_or_default();
            for (column, read) in self.readers.iter().enumerate() {
                self.columns.put(1 + column, read(&usage).unwrap_or(0))?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), EngineError> {
        self.columns.finish()
    }
}
