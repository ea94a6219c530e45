//! The BGP sessions: border routers have sessions over cables between systems, and over ground links of stations whose
//! satellites belong to another system. Within a system each border router has sessions with all others or with the route
//! reflectors.
//!
//! Ground links move. A station tries to connect to every satellite that it will use, again and again, and a satellite waits
//! for connections. The satellites in view answer.

use super::context::Bgp;
use super::{BgpNeighbor, Spec};
use crate::addresses::AddressPlan;
use crate::ospf::Served;
use constel_link::PortId;
use constel_topology::{Access, Layout, NodeId};
use std::collections::BTreeSet;

/// An autonomous system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// Its number.
    pub asn: u32,
    /// Hosts and stations of the system. Empty: all nodes that no other system has, satellites among them.
    pub nodes: BTreeSet<NodeId>,
    /// Route reflectors of the system.
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

    /// Whether a node belongs to the satellites' system.
    #[must_use]
    pub fn in_sky(&self, node: NodeId) -> bool {
        let own = self.system_of(node).and_then(|own| self.systems.get(own));
        own.is_none_or(|own| own.nodes.is_empty())
    }

    /// Whether any station belongs to another system than the satellites.
    #[must_use]
    pub fn has_foreign_stations(&self, layout: &Layout) -> bool {
        let chooses = |node: NodeId| layout.node(node).class.access == Access::Chooses;
        let listed = self.systems.iter().flat_map(|system| &system.nodes);
        listed.copied().any(chooses)
    }

    /// Adds the ground links between systems: the satellites that each station will use, in the spec's order of stations.
    #[must_use]
    pub fn with_uplinks(mut self, layout: &Layout, serving: &[Served]) -> Self {
        let all = serving.iter().flatten().copied();
        let foreign = |(port, _): &(PortId, NodeId)| !self.in_sky(layout.port(*port).node);
        let uplinks = all.filter(foreign).collect();
        self.uplinks = uplinks;
        self
    }

    /// Ends of links to other systems: a node's own port, and the far one.
    fn across(&self, layout: &Layout, node: NodeId) -> Vec<(PortId, PortId)> {
        let cables = layout.ports_of(node).iter().filter_map(|port| {
            let far = layout
                .cable_of_port(port.id)
                .and(layout.far_port(port.id))?;
            let foreign = !self.same_system(node, layout.port(far).node);
            foreign.then_some((port.id, far))
        });
        let uplinks = self.uplinks.iter().filter_map(|&(port, satellite)| {
            let far = layout.gsl_port(satellite);
            match node {
                n if n == satellite => Some((far, port)),
                n if n == layout.port(port).node => Some((port, far)),
                _ => None,
            }
        });
        cables.chain(uplinks).collect()
    }

    /// Returns whether a node runs BGP: it reflects routes, or has a link to another system.
    #[must_use]
    pub fn speaks(&self, layout: &Layout, node: NodeId) -> bool {
        let reflects = self.systems.iter().any(|s| s.reflectors.contains(&node));
        !self.systems.is_empty() && (reflects || !self.across(layout, node).is_empty())
    }

    /// Returns the nodes that run BGP, by number.
    #[must_use]
    pub fn speakers(&self, layout: &Layout) -> BTreeSet<NodeId> {
        let nodes = layout.nodes().iter().map(|node| node.id);
        nodes.filter(|node| self.speaks(layout, *node)).collect()
    }
}

/// Returns the BGP configuration of a node, or `None` if it does not run BGP.
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
    for (own, far) in spec.across(layout, node) {
        let at = layout.port(far).node;
        let addresses = plan.port(far);
        if let (Some((v4, _)), Some(place)) = (addresses.v4, spec.system_of(at)) {
            neighbors.push(BgpNeighbor {
                node: layout.node(at).name.clone(),
                asn: spec.systems[place].asn,
                external: true,
                passive: layout.node(node).class.access == Access::Serves,
                client: false,
                port: Some(layout.port(own).name()),
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
            passive: false,
            client: reflects && !other_reflects,
            port: None,
            ipv4: own.v4,
            ipv6: own.v6,
        });
    }
    // Satellites are not announced: they are no destination for other systems, whose tables stay small.
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
