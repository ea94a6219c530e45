//! Routes to the addresses of networks' ports, for nodes that have no edge to them.
//!
//! Members of a network share a subnet, so the kernel treats all of them as neighbours. Packets to a member in
//! reach use the edge of that network. Every other member gets a route of its own here, with the next hop of the
//! route to its node. Software that publishes the address of its port, as DDS does, is then reachable over several
//! hops.

use std::collections::BTreeMap;

use constel_link::PortId;
use constel_routing::Routes;
use constel_routing::graph::NextHop;
use constel_topology::{NodeId, Snapshot};

use crate::blueprint::Blueprint;
use crate::step_plan::{RouteDestination, RouteRow};

/// The routes to ports as planned last.
pub(super) struct PortRoutes {
    /// The ports in networks with an IPv4 address, by node number.
    ports: Vec<Vec<PortId>>,
    /// Whether each port is one of these, by port.
    is_one: Vec<bool>,
    held: BTreeMap<(NodeId, PortId), Vec<NextHop>>,
    /// Edges between these ports, sorted.
    edges: Vec<(PortId, PortId)>,
}

/// The routes to ports of a step, and the rows that change the routes planned before.
pub(super) struct PlannedPorts {
    pub(super) rows: Vec<RouteRow>,
    /// The changes; an empty list of next hops removes a route.
    changed: Vec<((NodeId, PortId), Vec<NextHop>)>,
    edges: Vec<(PortId, PortId)>,
}

impl PortRoutes {
    /// Creates the state; `None` if no port of a network has an address.
    pub(super) fn wanted(blueprint: &Blueprint) -> Option<Self> {
        let layout = &blueprint.lab.layout;
        if !blueprint.families.ipv4 {
            return None;
        }
        let mut ports = vec![Vec::new(); layout.nodes().len()];
        let mut is_one = vec![false; layout.ports().len()];
        for network in 0..layout.spec().networks.len() {
            for port in layout.network_ports(network) {
                if blueprint.addresses.port(*port).v4.is_some() {
                    ports[layout.port(*port).node.index()].push(*port);
                    is_one[port.0 as usize] = true;
                }
            }
        }
        is_one.contains(&true).then_some(Self {
            ports,
            is_one,
            held: BTreeMap::new(),
            edges: Vec::new(),
        })
    }

    /// Returns the rows for `snapshot`, whose routes to nodes are `routes`. `changed` are the nodes and
    /// destinations whose routes differ from those before.
    pub(super) fn plan(
        &self,
        blueprint: &Blueprint,
        snapshot: &Snapshot,
        routes: &Routes,
        changed: Vec<(NodeId, NodeId)>,
    ) -> PlannedPorts {
        let layout = &blueprint.lab.layout;
        let ours = snapshot.edges.iter().map(|edge| (edge.from, edge.to));
        let edges: Vec<_> = ours
            .filter(|(from, _)| self.is_one[from.0 as usize])
            .collect();
        let mut touched = changed;
        let ends = |(from, to): &(PortId, PortId)| (layout.port(*from).node, layout.port(*to).node);
        let new = edges
            .iter()
            .filter(|edge| self.edges.binary_search(edge).is_err());
        let gone = self
            .edges
            .iter()
            .filter(|edge| edges.binary_search(edge).is_err());
        touched.extend(new.chain(gone).map(ends));
        touched.sort_unstable();
        touched.dedup();
        let (mut rows, mut changed) = (Vec::new(), Vec::new());
        for (node, destination) in touched {
            // A node without a stack uses the link plane's table, which has nodes by their own addresses only.
            if node == destination || blueprint.lab.forwards(node) {
                continue;
            }
            for port in &self.ports[destination.index()] {
                let own = self.ports[node.index()].iter();
                let beside = own.map(|own| (*own, *port));
                let in_reach = beside.into_iter().any(|e| edges.binary_search(&e).is_ok());
                let hops: Vec<NextHop> = match in_reach {
                    true => Vec::new(),
                    false => routes.hops(node, destination).collect(),
                };
                let key = (node, *port);
                let held = self.held.get(&key).map_or(&[][..], Vec::as_slice);
                if hops == held {
                    continue;
                }
                // A removed route is named completely, so that no other route can match.
                let (set, named) = (!hops.is_empty(), if hops.is_empty() { held } else { &hops });
                rows.extend(named.split_first().map(|(hop, others)| RouteRow {
                    node,
                    goal: RouteDestination::Port(*port),
                    set,
                    hop: *hop,
                    others: others.to_vec(),
                }));
                changed.push((key, hops));
            }
        }
        PlannedPorts {
            rows,
            changed,
            edges,
        }
    }

    /// Records that the rows are in the kernels.
    pub(super) fn installed(&mut self, planned: PlannedPorts) {
        for (key, hops) in planned.changed {
            match hops.is_empty() {
                true => drop(self.held.remove(&key)),
                false => drop(self.held.insert(key, hops)),
            }
        }
        self.edges = planned.edges;
    }
}
