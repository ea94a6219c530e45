//! What one machine must hold next: a value that can be printed, kept, compared and sent.

use constel_link::{EdgeChange, PortId};
use constel_routing::PathEnd;
use constel_routing::graph::NextHop;
use constel_topology::{Layout, NodeId};
use serde::{Deserialize, Serialize};

/// The changes of one step. All times are lab time, nanoseconds after the start of the lab; whoever carries the
/// plan out moves them to its own clock.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepPlan {
    /// The step.
    pub step: u64,
    /// When it takes effect.
    pub t_ns: u64,
    /// Nodes that come and go.
    pub nodes: NodeChanges,
    /// Changes of the edge table in the instant `t_ns`.
    pub edges: Vec<EdgeChange>,
    /// Of very many edges those whose delay alone changes, and glides on: a moment sooner or later is the same to them, and
    /// whoever carries the plan out need not stop for all of them at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gliding: Vec<EdgeChange>,
    /// Ends of edges that went, at ports that can have several: their nodes forget each other.
    pub forget: Vec<Adjacency>,
    /// Ends of edges that came, at ports that can have several: their nodes learn of each other.
    pub learn: Vec<Adjacency>,
    /// Routes.
    pub routes: RoutesPlan,
    /// Removals of edges that wait until routes lead round them and what was on its way has passed.
    pub drain: Vec<EdgeChange>,
    /// The same of edges that went with `drain`.
    pub forget_drained: Vec<Adjacency>,
}

/// Nodes that come and go with a step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeChanges {
    /// Made before the step's edges.
    pub make: Vec<NodeId>,
    /// Ended after them.
    pub end: Vec<NodeId>,
}

/// What the node of one port knows of a far port: its addresses and MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjacency {
    /// The node's own port.
    pub port: PortId,
    /// The port at the other end.
    pub far_port: PortId,
}

/// Changes of routes, in an order that makes no loops.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RoutesPlan {
    /// So many of `rows` come first: once they are told, all that is sent takes its new way. The others are for what
    /// the map of the link plane does not forward.
    pub first: usize,
    /// Routes to nodes.
    pub rows: Vec<RouteRow>,
    /// Routes to ends of disjoint paths; told after `rows`.
    pub paths: Vec<RouteRow>,
    /// Routes of nodes without a stack, for the table that the link plane goes by; told before all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<WayRow>,
    /// The same where several next hops share the packets, and to ends of disjoint paths; told after `ways`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_ways: Vec<SharedWayRow>,
}

/// One change of the ways of a node without a stack that share packets, or lead to an end of a path. Few are: they need not be small.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedWayRow {
    /// Whose ways.
    pub node: NodeId,
    /// Where they lead.
    pub goal: Goal,
    /// The next hops; none: there is no way any more.
    pub hops: Vec<NextHop>,
}

/// One change of the way of a node without a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayRow {
    /// Whose way.
    pub node: NodeId,
    /// The node that it leads to.
    pub destination: NodeId,
    /// The next hop; `None`: there is no way any more.
    pub hop: Option<NextHop>,
}

/// One change of one node's table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteRow {
    /// Whose table.
    pub node: NodeId,
    /// Where the route leads.
    pub goal: Goal,
    /// Added or replaced; false: removed.
    pub set: bool,
    /// The next hop: the new one, or the one that goes.
    pub hop: NextHop,
    /// Further next hops that share its packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<NextHop>,
}

impl RouteRow {
    /// All its next hops.
    pub fn hops(&self) -> impl Iterator<Item = NextHop> {
        std::iter::once(self.hop).chain(self.others.iter().copied())
    }
}

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// To a node's own addresses.
    Node(NodeId),
    /// To the addresses of one end of a disjoint path.
    Path(PathEnd),
    /// To the IPv4 address of a port in a network.
    Port(PortId),
}

impl RoutesPlan {
    /// How many routes change.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len() + self.paths.len() + self.ways.len() + self.shared_ways.len()
    }

    /// Whether no route changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part of the nodes that `owns` says, in the same order.
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
    /// Whether nothing is to be done.
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

    /// What the machine must hold that has the nodes that `owns` says. An edge is served where its frames are sent.
    /// The shares of machines that have every node between them make up the whole, and none has another's.
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

/// The edges whose frames are sent by nodes of which it is so.
pub(crate) fn edges_of(
    layout: &Layout,
    all: &[EdgeChange],
    owns: impl Fn(NodeId) -> bool,
) -> Vec<EdgeChange> {
    let here = |change: &&EdgeChange| owns(layout.port(change.edge().0).node);
    all.iter().filter(here).copied().collect()
}

/// What the nodes of which it is so know of far ports.
pub(crate) fn ends_of(
    layout: &Layout,
    all: &[Adjacency],
    owns: impl Fn(NodeId) -> bool,
) -> Vec<Adjacency> {
    let here = |end: &&Adjacency| owns(layout.port(end.port).node);
    all.iter().filter(here).copied().collect()
}

/// Edge changes whose times are lab time, moved to a clock that shows `zero_ns` at lab time zero. An edge that is up at
/// once stays so.
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
