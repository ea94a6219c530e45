//! Routes to the addresses of networks' ports, for nodes that have no edge to them.
//!
//! Members of a network share a subnet, so the kernel takes all of them for neighbours. Those in reach are, and packets
//! to their addresses use the edge of that network. All others get a route of their own here, which leads where the
//! route to their node leads: software that publishes the address of its port (DDS does) is reachable over several hops.

use std::collections::BTreeMap;

use constel_link::PortId;
use constel_routing::Routes;
use constel_routing::graph::NextHop;
use constel_topology::{NodeId, Snapshot};

use crate::blueprint::Blueprint;
use crate::step_plan::{Goal, RouteRow};

/// Routes to ports as they were planned last.
pub(super) struct PortRoutes {
    /// The ports in networks of each node, by its number: those that have an IPv4 address.
    ports: Vec<Vec<PortId>>,
    /// By port: whether it is one of these.
    is_one: Vec<bool>,
    held: BTreeMap<(NodeId, PortId), Vec<NextHop>>,
    /// Edges between these ports, sorted.
    edges: Vec<(PortId, PortId)>,
}

/// Routes to ports of a step, and the rows that lead there from those planned before.
pub(super) struct PlannedPorts {
    pub(super) rows: Vec<RouteRow>,
    /// What changes; without next hops a route goes.
    changed: Vec<((NodeId, PortId), Vec<NextHop>)>,
    edges: Vec<(PortId, PortId)>,
}

impl PortRoutes {
    /// Nothing planned yet; `None` where no port of a network has an address.
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

    /// The rows for `snapshot`, whose routes to nodes are `routes`. `changed` are the nodes and destinations whose routes
    /// are others than before.
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
            // What has no stack goes by the link plane's table, which knows nodes by their own addresses alone.
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
                // What goes is named whole, so that nothing else can be hit.
                let (set, named) = (!hops.is_empty(), if hops.is_empty() { held } else { &hops });
                rows.extend(named.split_first().map(|(hop, others)| RouteRow {
                    node,
                    goal: Goal::Port(*port),
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

    /// The rows are in the kernels.
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
