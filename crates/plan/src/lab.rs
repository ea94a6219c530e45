//! A scenario's nodes, ports and orbits, ready to be stepped.

use std::sync::Arc;

use constel_link::Effects;
use constel_scenario::model::{Container, NodeSoftware};
use constel_scenario::{Diagnostic, LeftOut, Scenario, Span};
use constel_topology::{Layout, NodeId, Sky, Stepper};

use crate::catalogue::{Catalogue, NodeNameError};
use crate::elements::{DataAge, SortedShell};
use crate::next_nodes::NextNodes;

/// A scenario laid out: everything that exists for the whole run, and its position at any time.
#[derive(Clone)]
pub struct Lab {
    /// The resolved scenario.
    pub scenario: Arc<Scenario>,
    /// Nodes, ports and laser pairs.
    pub layout: Arc<Layout>,
    /// The positions of satellites.
    pub sky: Arc<dyn Sky>,
    /// The effects of kinds of links; the first is profile 1 of the edges' impairments.
    pub profiles: Arc<Vec<Effects>>,
    /// The objects of element files that belong to none of the scenario's shells, with the reason.
    pub left_out: Arc<Vec<LeftOut>>,
    /// The shells of element files, with the values that their objects show.
    pub shells: Arc<Vec<SortedShell>>,
    /// The catalogue entries of the satellites of element files.
    pub catalogue: Arc<Catalogue>,
    /// The age of the data of element files and ephemerides.
    pub ages: Arc<Vec<DataAge>>,
    /// The software of each node, by node number.
    pub software: Arc<Vec<NodeSoftware>>,
    /// The routes over time, if a file fixes them in advance.
    pub next_nodes: Option<Arc<NextNodes>>,
}

impl Lab {
    /// Creates a stepper at step 0.
    pub fn stepper(&self) -> Stepper {
        Stepper::new(Arc::clone(&self.layout), Arc::clone(&self.sky))
    }

    /// Returns the node that a text names: by its own name, or by its catalogue name or number.
    ///
    /// # Errors
    /// When no node has this name, or several satellites have it.
    pub fn find(&self, text: &str) -> Result<NodeId, NodeNameError> {
        self.catalogue.find(&self.layout, text)
    }

    /// Returns the nodes that run an image, each with it, in node order.
    pub fn containers(&self) -> impl Iterator<Item = (NodeId, &Container)> {
        let nodes = (0..).map(NodeId).zip(self.software.iter());
        nodes.filter_map(|(node, software)| Some((node, software.container.as_ref()?)))
    }

    /// Returns whether an engine runs a node's container.
    pub fn is_by_engine(&self, node: NodeId) -> bool {
        let container = self.software.get(node.index());
        let container = container.and_then(|software| software.container.as_ref());
        container.is_some_and(|container| container.by_engine)
    }

    /// Returns whether the resources that a node uses are counted: containers and nodes with limits have cgroups of their own.
    pub fn is_accounted(&self, node: NodeId) -> bool {
        let software = self.software.get(node.index());
        let own = software.is_some_and(|own| own.container.is_some() || !own.limits.is_none());
        own || {
            let name = self.layout.node(node).name.as_str();
            self.scenario
                .limits
                .nodes
                .iter()
                .any(|(of, _)| of.as_str() == name)
        }
    }

    /// Returns whether frames leave a node with complete checksums.
    pub fn has_full_checksums(&self, node: NodeId) -> bool {
        let software = self.software.get(node.index());
        software.is_some_and(|software| software.full_checksums)
    }

    /// Returns whether files fix satellites of stations, links or routes over time.
    #[must_use]
    pub fn has_choices(&self) -> bool {
        let spec = self.layout.spec();
        let mut stations = spec.stations.iter();
        stations.any(|station| !station.choices.is_empty())
            || !spec.switched.is_empty()
            || self.next_nodes.is_some()
    }

    /// Returns the length of a step, nanoseconds.
    pub fn step_ns(&self) -> u64 {
        self.layout.spec().step_ns
    }
}

/// Returns an error about the scenario as a whole, shown at its first line.
pub(crate) fn whole_file(scenario: &Scenario, code: &'static str, message: String) -> Diagnostic {
    Diagnostic::new(&scenario.source, Span::new(1, 1, 1), code, message)
}
