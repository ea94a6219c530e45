//! Nodes without a stack: the data with which the link plane forwards for them.

use constel_link::PortId;
use std::collections::HashMap;

use constel_link::transit::{DestinationAddresses, Member, MemberPort, TableSpec};
use constel_routing::{AddressPlan, PathEnd};
use constel_scenario::model::Mode;
use constel_topology::{NodeId, Port};

use crate::blueprint::Blueprint;
use crate::disjoint::path_addresses;
use crate::lab::Lab;
use crate::planner::destinations;
use crate::step_plan::RouteDestination;

impl Lab {
    /// Returns whether a node has no stack, so that the link plane forwards for it.
    #[must_use]
    pub fn forwards(&self, node: NodeId) -> bool {
        let software = self.software.get(node.index());
        software.is_some_and(|software| software.forwards)
    }

    /// Returns the nodes without a stack, in node order.
    pub fn forwarders(&self) -> impl Iterator<Item = NodeId> {
        let nodes = (0..).map(NodeId).zip(self.software.iter());
        nodes.filter_map(|(node, software)| software.forwards.then_some(node))
    }

    /// Returns the ports of nodes with a stack, in order.
    pub fn wired_ports(&self) -> impl Iterator<Item = &Port> {
        let ports = self.layout.ports().iter();
        ports.filter(|port| !self.forwards(port.node))
    }

    /// Returns the number of nodes with a stack.
    #[must_use]
    pub fn stacks(&self) -> usize {
        self.layout.nodes().len() - self.forwarders().count()
    }
}

/// The numbers of nodes without a stack and of destinations in the link plane's table.
#[derive(Debug, Clone, Default)]
pub struct Forwarders {
    /// The number of each node among those without a stack, by node.
    member_of: Vec<Option<u32>>,
    /// The number of each node among destinations, by node.
    goal_of: Vec<Option<u32>>,
    /// The numbers of the ends of disjoint paths among destinations.
    paths: HashMap<PathEnd, u32>,
}

impl Forwarders {
    /// Returns a node's number among those without a stack.
    #[must_use]
    pub fn member(&self, node: NodeId) -> Option<u32> {
        *self.member_of.get(node.index())?
    }

    /// Returns a destination's number.
    #[must_use]
    pub fn goal(&self, goal: RouteDestination) -> Option<u32> {
        match goal {
            RouteDestination::Node(node) => *self.goal_of.get(node.index())?,
            RouteDestination::Path(end) => self.paths.get(&end).copied(),
            // The table has nodes by their own addresses only.
            RouteDestination::Port(_) => None,
        }
    }
}

impl Blueprint {
    /// Returns the nodes without a stack and the specification of the link plane's table for them; `None` if all
    /// nodes have one.
    #[must_use]
    pub fn forwarders(&self) -> Option<(Forwarders, TableSpec)> {
        let Mode::Computed(asked) = &self.lab.scenario.routing.mode else {
            return None;
        };
        let members: Vec<NodeId> = self.lab.forwarders().collect();
        if members.is_empty() {
            return None;
        }
        let layout = &self.lab.layout;
        let goals = destinations(layout, asked);
        let numbers = |of: &[NodeId]| {
            let mut numbers = vec![None; layout.nodes().len()];
            for (node, number) in of.iter().zip(0..) {
                numbers[node.index()] = Some(number);
            }
            numbers
        };
        // The largest permitted number of pairs, 1,000, always fits.
        let paths = path_addresses(&self.lab).unwrap_or_default();
        let first = goals.len() as u32;
        let forwarders = Forwarders {
            member_of: numbers(&members),
            goal_of: numbers(&goals),
            paths: paths.ends().zip(first..).collect(),
        };
        let addresses = |node: &NodeId| DestinationAddresses(self.loopbacks(*node));
        let of_paths = paths.ends().map(|end| {
            let own = paths.address(end);
            let v4 = self.families.ipv4.then_some(own.v4.into());
            let v6 = self.families.ipv6.then_some(own.v6.into());
            DestinationAddresses(v4.into_iter().chain(v6).collect())
        });
        let spec = TableSpec {
            ports: layout.ports().len() as u32,
            members: members.iter().map(|node| self.member(*node)).collect(),
            goals: goals.iter().map(addresses).chain(of_paths).collect(),
            v4_of_ports: self.v4_of_ports(),
        };
        Some((forwarders, spec))
    }

    fn member(&self, node: NodeId) -> Member {
        let own = self.addresses.loopback(node);
        let families = self.families;
        let port = |port: &Port| MemberPort {
            port: port.id,
            far_port: self.lab.layout.far_port(port.id),
            subnet: self.v4_of(&self.addresses, port.id),
            mtu_bytes: port.mtu_bytes,
        };
        Member {
            v4: families.ipv4.then_some(own.v4),
            v6: families.ipv6.then_some(own.v6),
            ports: self.lab.layout.ports_of(node).iter().map(port).collect(),
        }
    }

    fn v4_of(&self, addresses: &AddressPlan, port: PortId) -> Option<(std::net::Ipv4Addr, u8)> {
        addresses.port(port).v4.filter(|_| self.families.ipv4)
    }

    fn v4_of_ports(&self) -> Vec<(std::net::Ipv4Addr, PortId)> {
        let ports = self.lab.layout.ports().iter().map(|port| port.id);
        ports
            .filter_map(|port| Some((self.v4_of(&self.addresses, port)?.0, port)))
            .collect()
    }
}
