//! Sampling of interfaces, edges and used resources while a lab runs.

use std::num::NonZeroU32;

use constel_units::TimeSpan;

use super::{NodesNamed, Scenario, SourcePosition};
use crate::glob::Glob;
use crate::raw::{SampleMetric, Sampled};
use crate::source::{Source, Span};

/// The recorded metrics and the sampling interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampling {
    /// The sampling interval, 10 ms to 1 h.
    pub every: TimeSpan,
    /// Nodes whose interfaces are sampled; empty: none.
    pub interfaces: Vec<NodesNamed>,
    /// Nodes whose outgoing edges are sampled; empty: none.
    pub edges: Vec<NodesNamed>,
    /// Nodes whose used resources are sampled, as far as these are counted; empty: none.
    pub usage: Vec<NodesNamed>,
    /// The recorded metrics, in order, each once.
    pub metrics: Vec<SampleMetric>,
}

impl Sampling {
    /// Returns a sampling of the counters of all nodes' interfaces, and of nothing else.
    fn profile(hz: NonZeroU32, source: &Source) -> Self {
        let all = NodesNamed {
            glob: Glob::new("*"),
            at: SourcePosition {
                source: source.clone(),
                span: Span::new(1, 1, 1),
                path: String::new(),
            },
        };
        let metrics = SampleMetric::ALL.iter().copied();
        Self {
            every: TimeSpan::from_ns(1_000_000_000 / i64::from(hz.get())),
            interfaces: vec![all],
            edges: Vec::new(),
            usage: Vec::new(),
            metrics: metrics
                .filter(|m| m.kind() == Sampled::Interfaces)
                .collect(),
        }
    }

    /// The metrics of interfaces that are recorded.
    pub fn of_interfaces(&self) -> impl Iterator<Item = SampleMetric> {
        self.of(Sampled::Interfaces)
    }

    /// The metrics of edges that are recorded.
    pub fn of_edges(&self) -> impl Iterator<Item = SampleMetric> {
        self.of(Sampled::Edges)
    }

    /// The metrics of used resources that are recorded.
    pub fn of_usage(&self) -> impl Iterator<Item = SampleMetric> {
        self.of(Sampled::Usage)
    }

    fn of(&self, kind: Sampled) -> impl Iterator<Item = SampleMetric> {
        let metrics = self.metrics.iter().copied();
        metrics.filter(move |metric| metric.kind() == kind)
    }

    /// Whether the interfaces of a node are looked at.
    #[must_use]
    pub fn has_interfaces(&self, node: &str) -> bool {
        self.interfaces.iter().any(|one| one.glob.matches(node))
    }

    /// Whether the resources that a node uses are looked at.
    #[must_use]
    pub fn has_usage(&self, node: &str) -> bool {
        self.usage.iter().any(|one| one.glob.matches(node))
    }

    /// Whether the edges that lead away from a node are looked at.
    #[must_use]
    pub fn has_edges(&self, node: &str) -> bool {
        self.edges.iter().any(|one| one.glob.matches(node))
    }
}

impl Scenario {
    /// Returns the sampling of all interfaces at this number of samples a second, which replaces
    /// [`sampling`](Self::sampling).
    #[must_use]
    pub fn profile(&self, hz: NonZeroU32) -> Sampling {
        Sampling::profile(hz, &self.source)
    }
}
