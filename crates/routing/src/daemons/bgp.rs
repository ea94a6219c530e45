//! Who speaks BGP with whom: border routers over cables between systems, and within a system each border router
//! with all others or with the route reflectors.

use super::context::Bgp;
use super::{BgpNeighbor, Spec};
use crate::addresses::AddressPlan;
use constel_topology::{Layout, NodeId, Port};
use std::collections::BTreeSet;

/// An autonomous system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// Its number.
    pub asn: u32,
    /// Its hosts; empty: all nodes that no other system has.
    pub nodes: BTreeSet<NodeId>,
    /// Its route reflectors.
    pub reflectors: BTreeSet<NodeId>,
}

impl Spec {
    /// The system a node belongs to, by its place; `None` when there is only one for all.
    #[must_use]
    pub fn system_of(&self, node: NodeId) -> Option<usize> {
        let listed = self.systems.iter().position(|s| s.nodes.contains(&node));
        listed.or_else(|| self.systems.iter().position(|s| s.nodes.is_empty()))
    }

    /// Whether two nodes route together.
    #[must_use]
    pub fn same_system(&self, a: NodeId, b: NodeId) -> bool {
        self.system_of(a) == self.system_of(b)
    }

    /// Whether a node speaks BGP: it reflects routes, or has a cable to another system.
    #[must_use]
    pub fn speaks(&self, layout: &Layout, node: NodeId) -> bool {
        let elsewhere = |port: &Port| {
            let cable = layout.cable_of_port(port.id);
            let far = cable.and(layout.far_port(port.id));
            far.is_some_and(|far| !self.same_system(node, layout.port(far).node))
        };
        let reflects = |system: &System| system.reflectors.contains(&node);
        !self.systems.is_empty()
            && (self.systems.iter().any(reflects) || layout.ports_of(node).iter().any(elsewhere))
    }

    /// The nodes that speak BGP, by number.
    #[must_use]
    pub fn speakers(&self, layout: &Layout) -> BTreeSet<NodeId> {
        let nodes = layout.nodes().iter().map(|node| node.id);
        nodes.filter(|node| self.speaks(layout, *node)).collect()
    }
}

/// What a node does in BGP; `None` when it does not speak it.
pub(super) fn of_node(
    layout: &Layout,
    plan: &AddressPlan,
    spec: &Spec,
    node: NodeId,
) -> Option<Bgp> {
    if !spec.speaks(layout, node) {
        return None;
    }
    let speakers = spec.speakers(layout);
    let system = &spec.systems[spec.system_of(node)?];
    let mut neighbors = Vec::new();
    for port in layout.ports_of(node) {
        let Some(far) = layout.cable_of_port(port.id).and(layout.far_port(port.id)) else {
            continue;
        };
        let at = layout.port(far).node;
        let addresses = plan.port(far);
        if let (false, Some((v4, _)), Some(place)) =
            (spec.same_system(node, at), addresses.v4, spec.system_of(at))
        {
            neighbors.push(BgpNeighbor {
                node: layout.node(at).name.clone(),
                asn: spec.systems[place].asn,
                external: true,
                client: false,
                port: Some(port.name()),
                ipv4: v4,
                ipv6: addresses.v6_link_local,
            });
        }
    }
    let reflects = system.reflectors.contains(&node);
    let inside = speakers
        .iter()
        .filter(|other| **other != node && spec.same_system(node, **other));
    for &other in inside {
        let other_reflects = system.reflectors.contains(&other);
        if !system.reflectors.is_empty() && !reflects && !other_reflects {
            continue;
        }
        let own = plan.loopback(other);
        neighbors.push(BgpNeighbor {
            node: layout.node(other).name.clone(),
            asn: system.asn,
            external: false,
            client: reflects && !other_reflects,
            port: None,
            ipv4: own.v4,
            ipv6: own.v6,
        });
    }
    // Satellites are nobody's goal from outside: the tables of others stay small.
    let announced: Vec<_> = layout
        .endpoints()
        .filter(|n| spec.same_system(node, n.id))
        .map(|n| plan.loopback(n.id))
        .collect();
    Some(Bgp {
        asn: system.asn,
        hello_s: spec.bgp_hello_s,
        dead_s: spec.bgp_dead_s,
        neighbors,
        announced_ipv4: announced.iter().map(|l| l.v4).collect(),
        announced_ipv6: announced.iter().map(|l| l.v6).collect(),
    })
}
