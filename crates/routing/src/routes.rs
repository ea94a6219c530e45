//! Next hops towards a set of destinations, and the changes from one set to the next.

use crate::addresses::AddressPlan;
use crate::graph::{Graph, NextHop, Scratch, UNREACHABLE};
use constel_link::PortId;
use constel_topology::NodeId;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What every node must know: its next hop to each destination.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routes {
    destinations: Vec<NodeId>,
    /// Per destination, per node.
    next: Vec<Vec<Option<NextHop>>>,
    distance_ns: Vec<Vec<u64>>,
}

/// A next hop as a kernel wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Via {
    /// The node's own port.
    pub port: PortId,
    /// The port at the other end.
    pub far_port: PortId,
    /// IPv4 address of the far port.
    pub gateway_v4: Ipv4Addr,
    /// Link-local address of the far port.
    pub gateway_v6: Ipv6Addr,
}

/// One change: `node` now reaches `destination`'s loopbacks by `via`, or no longer at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteChange {
    /// Whose table changes.
    pub node: NodeId,
    /// The node whose loopbacks (/32 and /128) are meant.
    pub destination: NodeId,
    /// The new next hop; `None` removes the route.
    pub via: Option<Via>,
    /// True when the node had a route to the destination before (replace or remove, not add).
    pub had: bool,
}

impl Routes {
    /// Next hops of every node to each of the destinations.
    #[must_use]
    pub fn compute(graph: &Graph, destinations: &[NodeId]) -> Routes {
        let mut scratch = Scratch::default();
        let mut routes = Routes {
            destinations: destinations.to_vec(),
            ..Routes::default()
        };
        routes.destinations.sort_unstable();
        routes.destinations.dedup();
        for &destination in &routes.destinations {
            let tree = graph.tree(destination, &mut scratch);
            routes.next.push(tree.next);
            routes.distance_ns.push(tree.distance_ns);
        }
        routes
    }

    /// The destinations, by number.
    #[must_use]
    pub fn destinations(&self) -> &[NodeId] {
        &self.destinations
    }

    /// A node's next hop to a destination.
    #[must_use]
    pub fn next_hop(&self, node: NodeId, destination: NodeId) -> Option<NextHop> {
        let at = self.destinations.binary_search(&destination).ok()?;
        *self.next[at].get(node.index())?
    }

    /// Delay from a node to a destination, ns.
    #[must_use]
    pub fn distance_ns(&self, node: NodeId, destination: NodeId) -> Option<u64> {
        let at = self.destinations.binary_search(&destination).ok()?;
        self.distance_ns[at]
            .get(node.index())
            .copied()
            .filter(|&d| d != UNREACHABLE)
    }

    /// The fewest changes that turn `before` into `self`, in an order that makes no loops.
    ///
    /// Destination by destination: nodes nearer to it (on the new paths) come first, removals last. When the
    /// changes of one destination are applied in this order, a packet meets old next hops (each step nearer
    /// by the old distances) until it reaches a node already changed, and from there only new ones, since
    /// every node nearer than a changed one has been changed or needs no change. So it never comes round,
    /// at any moment in between. This says nothing of edges that vanish meanwhile: what must not be lost on
    /// a vanishing edge needs its changes before the edge goes.
    ///
    /// # Panics
    /// When a next hop's port has no IPv4 address (the plan is of another layout).
    #[must_use]
    pub fn changes_from(&self, before: &Routes, plan: &AddressPlan) -> Vec<RouteChange> {
        let mut changes = Vec::new();
        let mut order: Vec<(u64, u32)> = Vec::new();
        let empty = Vec::new();
        for (at, &destination) in self.destinations.iter().enumerate() {
            let (new, distance) = (&self.next[at], &self.distance_ns[at]);
            let old = before.destinations.binary_search(&destination);
            let old = old.map_or(&empty, |at| &before.next[at]);
            let old_of = |n: u32| old.get(n as usize).copied().flatten();
            order.clear();
            // Nodes without a path have the largest distance, so removals come last.
            order.extend(
                (0..new.len() as u32)
                    .filter(|&n| old_of(n) != new[n as usize])
                    .map(|n| (distance[n as usize], n)),
            );
            order.sort_unstable();
            changes.extend(order.iter().map(|&(_, n)| RouteChange {
                node: NodeId(n),
                destination,
                via: new[n as usize].map(|hop| via(hop, plan)),
                had: old_of(n).is_some(),
            }));
        }
        for (at, &destination) in before.destinations.iter().enumerate() {
            if self.destinations.binary_search(&destination).is_ok() {
                continue;
            }
            let had = before.next[at]
                .iter()
                .enumerate()
                .filter(|(_, next)| next.is_some());
            changes.extend(had.map(|(n, _)| RouteChange {
                node: NodeId(n as u32),
                destination,
                via: None,
                had: true,
            }));
        }
        changes
    }
}

fn via(hop: NextHop, plan: &AddressPlan) -> Via {
    let far = plan.port(hop.far_port);
    let Some((gateway_v4, _)) = far.v4 else {
        panic!("{} ends a link and has no address", hop.far_port);
    };
    Via {
        port: hop.port,
        far_port: hop.far_port,
        gateway_v4,
        gateway_v6: far.v6_link_local,
    }
}
