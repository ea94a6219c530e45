//! A scenario's nodes, ports and orbits, ready to be stepped.

use std::sync::Arc;

use constel_link::Effects;
use constel_scenario::model::{Container, NodeSoftware};
use constel_scenario::{Diagnostic, LeftOut, Scenario, Span};
use constel_topology::{Layout, NodeId, Sky, Stepper};

use crate::catalogue::{Catalogue, NotOne};
use crate::elements::{DataAge, SortedShell};
use crate::next_nodes::NextNodes;

/// A scenario laid out: what exists for the whole run, and where it is at any time.
#[derive(Clone)]
pub struct Lab {
    /// The resolved scenario.
    pub scenario: Arc<Scenario>,
    /// Nodes, ports and laser pairs.
    pub layout: Arc<Layout>,
    /// Where satellites are.
    pub sky: Arc<dyn Sky>,
    /// Effects of kinds of links; the first is profile 1 of the edges' impairments.
    pub profiles: Arc<Vec<Effects>>,
    /// Objects of element files that fly in none of the scenario's shells, with the reason.
    pub left_out: Arc<Vec<LeftOut>>,
    /// The shells of element files, as their objects show them.
    pub shells: Arc<Vec<SortedShell>>,
    /// What the element files call their satellites.
    pub catalogue: Arc<Catalogue>,
    /// How old the data of element files and ephemerides is.
    pub ages: Arc<Vec<DataAge>>,
    /// What each node is made of, by node number.
    pub software: Arc<Vec<NodeSoftware>>,
    /// Which way packets take when, where that was chosen beforehand.
    pub next_nodes: Option<Arc<NextNodes>>,
}

impl Lab {
    /// A stepper at step 0.
    pub fn stepper(&self) -> Stepper {
        Stepper::new(Arc::clone(&self.layout), Arc::clone(&self.sky))
    }

    /// The node that a text names: by its own name, or by what a catalogue calls it.
    ///
    /// # Errors
    /// When nothing is called so, or several satellites are.
    pub fn find(&self, text: &str) -> Result<NodeId, NotOne> {
        self.catalogue.find(&self.layout, text)
    }

    /// Nodes that are made of an image, with it, in their order.
    pub fn containers(&self) -> impl Iterator<Item = (NodeId, &Container)> {
        let nodes = (0..).map(NodeId).zip(self.software.iter());
        nodes.filter_map(|(node, software)| Some((node, software.container.as_ref()?)))
    }

    /// Length of a step, nanoseconds.
    pub fn step_ns(&self) -> u64 {
        self.layout.spec().step_ns
    }
}

/// An error about the scenario as a whole, shown at its first line.
pub(crate) fn whole_file(scenario: &Scenario, code: &'static str, message: String) -> Diagnostic {
    Diagnostic::new(&scenario.source, Span::new(1, 1, 1), code, message)
}
