//! The changes of one step for one machine, as a value that can be printed, stored, compared and sent.

use constel_link::{EdgeChange, PortId};
use constel_routing::PathEnd;
use constel_routing::graph::NextHop;
use constel_topology::{Layout, NodeId};
use serde::{Deserialize, Serialize};

/// The changes of one step. All times are lab time, nanoseconds after the start of the lab. The applier converts
/// them to its own clock.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepPlan {
    /// The number of the step.
    pub step: u64,
    /// The time at which it takes effect.
    pub t_ns: u64,
    /// Nodes that are created and removed.
    pub nodes: NodeChanges,
    /// Changes of the edge table at the instant `t_ns`.
    pub edges: Vec<EdgeChange>,
    /// If there are very many edges: those for which only the delay changes, continuously. Small differences in
    /// time do not matter to them, so that the applier need not stop for all of them at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gliding: Vec<EdgeChange>,
    /// Ends of removed edges, at ports that can have several: their nodes remove each other's neighbour entries.
    pub forget: Vec<Adjacency>,
    /// Ends of new edges, at ports that can have several: their nodes get each other's neighbour entries.
    pub learn: Vec<Adjacency>,
    /// Changes of routes.
    pub routes: RoutesPlan,
    /// Removals of edges that wait until routes avoid them and packets in flight have passed.
    pub drain: Vec<EdgeChange>,
    /// Ends of the edges that `drain` removes; their neighbour entries are removed with them.
    pub forget_drained: Vec<Adjacency>,
}

/// Nodes that are created and removed by a step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeChanges {
    /// The nodes to create before the step's edges.
    pub make: Vec<NodeId>,
    /// The nodes to remove after them.
    pub end: Vec<NodeId>,
}

/// A neighbour entry of one port's node for a far port: its addresses and MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjacency {
    /// The node's own port.
    pub port: PortId,
    /// The port at the other end.
    pub far_port: PortId,
}

/// Changes of routes, in an order that creates no loops.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RoutesPlan {
    /// The number of `rows` that come first: once they are installed, all packets take the new paths. The other
    /// rows are for packets that the link plane's map does not forward.
    pub first: usize,
    /// Routes to nodes.
    pub rows: Vec<RouteRow>,
    /// Routes to ends of disjoint paths; installed after `rows`.
    pub paths: Vec<RouteRow>,
    /// Routes of nodes without a stack, for the link plane's table; installed before all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<StacklessRouteRow>,
    /// Routes of nodes without a stack that have several next hops or lead to ends of disjoint paths; installed
    /// after `ways`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_ways: Vec<SharedRouteRow>,
}

/// One change of a route of a node without a stack that has several next hops, or leads to an end of a path. There
/// are few, so that their size does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedRouteRow {
    /// The node that has the route.
    pub node: NodeId,
    /// The destination.
    pub goal: RouteDestination,
    /// The next hops; empty to remove the route.
    pub hops: Vec<NextHop>,
}

/// One change of a route of a node without a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StacklessRouteRow {
    /// The node that has the route.
    pub node: NodeId,
    /// The destination.
    pub destination: NodeId,
    /// The next hop; `None` to remove the route.
    pub hop: Option<NextHop>,
}

/// One change of one node's routing table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteRow {
    /// The node.
    pub node: NodeId,
    /// The destination.
    pub goal: RouteDestination,
    /// Whether the route is added or replaced; false to remove it.
    pub set: bool,
    /// The next hop: the new one, or that of the removed route.
    pub hop: NextHop,
    /// Further next hops that share the packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<NextHop>,
}

impl RouteRow {
    /// Returns all next hops.
    pub fn hops(&self) -> impl Iterator<Item = NextHop> {
        std::iter::once(self.hop).chain(self.others.iter().copied())
    }
}

/// The destination of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteDestination {
    /// A node's own addresses.
    Node(NodeId),
    /// The addresses of one end of a disjoint path.
    Path(PathEnd),
    /// The IPv4 address of a port in a network.
    Port(PortId),
}

impl RoutesPlan {
    /// Returns the number of changed routes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len() + self.paths.len() + self.ways.len() + self.shared_ways.len()
    }

    /// Returns whether no route changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the part for the nodes that `owns` selects, in the same order.
    #[must_use]
    pub(crate) fn share(&self, owns: &impl Fn(NodeId) -> bool) -> RoutesPlan {
        let of = |rows: &[RouteRow]| -> Vec<RouteRow> {
            rows.iter().filter(|row| owns(row.node)).cloned().collect()
        };
        let first = of(&self.rows[..self.first]);
        RoutesPlan {
            first: first.len(),
            rows: first
                .into_iter()
                .chain(of(&self.rows[self.first..]))
                .collect(),
            paths: of(&self.paths),
            ways: self
                .ways
                .iter()
                .filter(|row| owns(row.node))
                .copied()
                .collect(),
            shared_ways: self
                .shared_ways
                .iter()
                .filter(|row| owns(row.node))
                .cloned()
                .collect(),
        }
    }
}

impl StepPlan {
    /// Returns whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
            && self.gliding.is_empty()
            && self.drain.is_empty()
            && self.routes.is_empty()
            && self.learn.is_empty()
            && self.forget.is_empty()
            && self.forget_drained.is_empty()
            && self.nodes == NodeChanges::default()
    }

    /// Returns the part for the machine that has the nodes which `owns` selects. An edge belongs to the machine
    /// where its frames are sent. If every node is on one of the machines, their shares are disjoint and make up
    /// the whole plan.
    #[must_use]
    pub fn share(&self, layout: &Layout, owns: impl Fn(NodeId) -> bool) -> StepPlan {
        let nodes = |all: &[NodeId]| all.iter().copied().filter(|node| owns(*node)).collect();
        let edges = |all: &[EdgeChange]| edges_of(layout, all, &owns);
        let ends = |all: &[Adjacency]| ends_of(layout, all, &owns);
        StepPlan {
            step: self.step,
            t_ns: self.t_ns,
            nodes: NodeChanges {
                make: nodes(&self.nodes.make),
                end: nodes(&self.nodes.end),
            },
            edges: edges(&self.edges),
            gliding: edges(&self.gliding),
            forget: ends(&self.forget),
            learn: ends(&self.learn),
            routes: self.routes.share(&owns),
            drain: edges(&self.drain),
            forget_drained: ends(&self.forget_drained),
        }
    }
}

/// Returns the edges whose frames are sent by nodes that `owns` selects.
pub(crate) fn edges_of(
    layout: &Layout,
    all: &[EdgeChange],
    owns: impl Fn(NodeId) -> bool,
) -> Vec<EdgeChange> {
    let here = |change: &&EdgeChange| owns(layout.port(change.edge().0).node);
    all.iter().filter(here).copied().collect()
}

/// Returns the neighbour entries of the nodes that `owns` selects.
pub(crate) fn ends_of(
    layout: &Layout,
    all: &[Adjacency],
    owns: impl Fn(NodeId) -> bool,
) -> Vec<Adjacency> {
    let here = |end: &&Adjacency| owns(layout.port(end.port).node);
    all.iter().filter(here).copied().collect()
}

/// Converts edge changes from lab time to a clock that shows `zero_ns` at lab time zero. An edge that is up at once
/// stays so.
#[must_use]
pub fn at_clock(changes: &[EdgeChange], zero_ns: u64) -> Vec<EdgeChange> {
    let moved = |change: &EdgeChange| {
        let mut change = *change;
        if let EdgeChange::Set { impairment, .. } = &mut change {
            impairment.delay.t0_ns += zero_ns;
            if impairment.up_from_ns > 0 {
                impairment.up_from_ns += zero_ns;
            }
        }
        change
    };
    changes.iter().map(moved).collect()
}
