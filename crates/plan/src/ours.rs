//! The nodes of a machine, and their share of a plan.

use std::borrow::Cow;

use constel_link::EdgeChange;
use constel_scenario::model::Container;
use constel_topology::{Layout, NodeId};

use crate::lab::Lab;
use crate::step_plan::{Adjacency, RoutesPlan, edges_of, ends_of};

/// The nodes of a lab that run on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalNodes {
    /// Whether the machine has each node, by node; `None` for all nodes.
    has: Option<Vec<bool>>,
}

impl LocalNodes {
    /// Returns the set of all nodes.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns the set of the nodes whose value is true.
    #[must_use]
    pub fn these(has: Vec<bool>) -> Self {
        Self { has: Some(has) }
    }

    /// Returns the set with further nodes.
    #[must_use]
    pub fn and(&self, more: impl IntoIterator<Item = NodeId>) -> Self {
        let mut has = self.has.clone();
        if let Some(has) = &mut has {
            for node in more {
                if let Some(has) = has.get_mut(node.index()) {
                    *has = true;
                }
            }
        }
        Self { has }
    }

    /// Returns whether the machine has every node.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.has.is_none()
    }

    /// Returns whether the machine has this node.
    #[must_use]
    pub fn has(&self, node: NodeId) -> bool {
        let has = self.has.as_ref();
        has.is_none_or(|has| has.get(node.index()) == Some(&true))
    }

    /// Returns the machine's nodes that run an image, each with it, in node order.
    pub fn containers<'a>(&'a self, lab: &'a Lab) -> impl Iterator<Item = (NodeId, &'a Container)> {
        lab.containers().filter(|(node, _)| self.has(*node))
    }

    /// Returns the edges whose frames are sent by this machine's nodes, in the same order.
    #[must_use]
    pub fn edges<'a>(&self, layout: &Layout, all: &'a [EdgeChange]) -> Cow<'a, [EdgeChange]> {
        match self.has {
            None => Cow::Borrowed(all),
            Some(_) => Cow::Owned(edges_of(layout, all, |node| self.has(node))),
        }
    }

    /// Returns the neighbour entries of this machine's nodes.
    #[must_use]
    pub fn ends<'a>(&self, layout: &Layout, all: &'a [Adjacency]) -> Cow<'a, [Adjacency]> {
        match self.has {
            None => Cow::Borrowed(all),
            Some(_) => Cow::Owned(ends_of(layout, all, |node| self.has(node))),
        }
    }

    /// Returns the routes of this machine's nodes, in the same order.
    #[must_use]
    pub fn routes<'a>(&self, all: &'a RoutesPlan) -> Cow<'a, RoutesPlan> {
        match self.has {
            None => Cow::Borrowed(all),
            Some(_) => Cow::Owned(all.share(&|node| self.has(node))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::iridium;
    use crate::{FailedEdges, Planner};
    use std::sync::Arc;

    /// The parts of all machines are what [`StepPlan::share`](crate::StepPlan::share) says.
    #[test]
    fn what_is_ours_of_a_plan_is_our_share_of_it() {
        let blueprint = Arc::new(iridium());
        let layout = Arc::clone(&blueprint.lab.layout);
        let plan = Planner::new(blueprint).first(&FailedEdges::default()).plan;
        let even = |node: NodeId| node.index().is_multiple_of(2);
        let nodes = layout.nodes().iter();
        let ours = LocalNodes::these(nodes.map(|node| even(node.id)).collect());
        let share = plan.share(&layout, even);
        assert!(!share.is_empty() && share.edges.len() < plan.edges.len());
        assert_eq!(ours.edges(&layout, &plan.edges), share.edges);
        assert_eq!(ours.ends(&layout, &plan.learn), share.learn);
        assert_eq!(*ours.routes(&plan.routes), share.routes);
        let all = LocalNodes::all();
        assert!(all.is_all() && all.has(NodeId(7)) && !ours.is_all() && !ours.has(NodeId(7)));
        assert_eq!(all.edges(&layout, &plan.edges), plan.edges);
        assert!(!ours.has(NodeId(u32::MAX)), "nobody is none of ours");
        let more = ours.and([NodeId(7), NodeId(u32::MAX)]);
        assert!(more.has(NodeId(7)) && more.has(NodeId(6)) && !more.has(NodeId(9)));
        assert_eq!(all.and([NodeId(7)]), all);
    }
}
