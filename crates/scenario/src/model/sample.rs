//! What is written down of interfaces and edges while a lab runs.

use std::num::NonZeroU32;

use constel_units::TimeSpan;
use serde::Serialize;

use super::{NodesNamed, Scenario, Written};
use crate::glob::Glob;
use crate::raw::SampleMetric;
use crate::source::{Source, Span};

/// What is written down, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sampling {
    /// From one time to the next, 10 ms to 1 h.
    pub every: TimeSpan,
    /// Nodes whose interfaces are looked at; empty: none.
    pub interfaces: Vec<NodesNamed>,
    /// Nodes whose outgoing edges are looked at; empty: none.
    pub edges: Vec<NodesNamed>,
    /// What is written down, in order, each once.
    pub metrics: Vec<SampleMetric>,
}

impl Sampling {
    /// What interfaces of all nodes count, and nothing else.
    fn profile(hz: NonZeroU32, source: &Source) -> Self {
        let all = NodesNamed {
            glob: Glob::new("*"),
            at: Written {
                source: source.clone(),
                span: Span::new(1, 1, 1),
                path: String::new(),
            },
        };
        let metrics = SampleMetric::ALL.into_iter();
        Self {
            every: TimeSpan::from_ns(1_000_000_000 / i64::from(hz.get())),
            interfaces: vec![all],
            edges: Vec::new(),
            metrics: metrics.filter(|m| m.of_interfaces()).collect(),
        }
    }

    /// What is written down of interfaces.
    pub fn of_interfaces(&self) -> impl Iterator<Item = SampleMetric> {
        self.metrics.iter().copied().filter(|m| m.of_interfaces())
    }

    /// What is written down of edges.
    pub fn of_edges(&self) -> impl Iterator<Item = SampleMetric> {
        self.metrics.iter().copied().filter(|m| !m.of_interfaces())
    }

    /// Whether the interfaces of a node are looked at.
    #[must_use]
    pub fn has_interfaces(&self, node: &str) -> bool {
        self.interfaces.iter().any(|one| one.glob.matches(node))
    }

    /// Whether the edges that lead away from a node are looked at.
    #[must_use]
    pub fn has_edges(&self, node: &str) -> bool {
        self.edges.iter().any(|one| one.glob.matches(node))
    }
}

impl Scenario {
    /// What is written down when all interfaces are to be looked at so many times a second, in place of
    /// [`sampling`](Self::sampling).
    #[must_use]
    pub fn profile(&self, hz: NonZeroU32) -> Sampling {
        Sampling::profile(hz, &self.source)
    }
}
