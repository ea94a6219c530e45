//! What a lab is made of for its whole run: nodes, ports, addresses. Immutable; what changes is elsewhere.

use std::net::IpAddr;

use constel_link::PortId;
use constel_routing::{AddressError, AddressPlan, AreaError, Areas, Loopback};
use constel_scenario::model::Families;
use constel_topology::{Attachment, NETWORK, NodeId, Port};

use crate::daemons::{address_plan, ospf_areas};
use crate::lab::Lab;

/// Index of `lo` in every namespace.
pub const LOOPBACK_IFINDEX: u32 = 1;

/// A node's ports have indexes from here on: well above those of the fallback devices (`sit0`, `tunl0`, ...) that kernels with
/// tunnel modules put into every new namespace.
const FIRST_PORT_IFINDEX: u32 = 64;

/// Index of a port's interface inside its node.
#[must_use]
pub fn node_ifindex(port: &Port) -> u32 {
    FIRST_PORT_IFINDEX + u32::from(port.index_in_node)
}

/// A scenario laid out, with its addresses: all that any machine must know of a lab, and that no step changes.
pub struct Blueprint {
    /// Nodes, ports, orbits and the scenario they come from.
    pub lab: Lab,
    /// Every address of the lab.
    pub addresses: AddressPlan,
    /// OSPF's areas; `None`: one for everything, or no OSPF.
    pub areas: Option<Areas>,
    /// The Internet protocols that nodes speak.
    pub families: Families,
}

/// Why a lab has no blueprint.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BlueprintError {
    /// The lab is too large for its address plan.
    #[error("{}", sentences(.0))]
    Addresses(Vec<AddressError>),
    /// OSPF's areas cannot be made.
    #[error("{}", sentences(.0))]
    Areas(Vec<AreaError>),
}

fn sentences<E: std::fmt::Display>(errors: &[E]) -> String {
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    all.join("; ")
}

/// How a node knows the far end of a link without asking: an entry of its neighbour table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the node's own interface.
    pub ifindex: u32,
    /// The far port's address.
    pub address: IpAddr,
    /// The far port's MAC address.
    pub mac: [u8; 6],
}

/// What a fresh node is told before anything is routed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSetup {
    /// Addresses of `lo`, each as a prefix of its own.
    pub loopback: Vec<IpAddr>,
    /// Its ports in order.
    pub ports: Vec<PortSetup>,
    /// Index of the interface for IPv4 multicast of programs that name none: the node's first network, else its first port.
    pub multicast: Option<u32>,
}

/// What a fresh port is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSetup {
    /// Index of the interface.
    pub ifindex: u32,
    /// Its address and prefix length; `None`: it has only a link-local one.
    pub address: Option<(IpAddr, u8)>,
    /// Entries that never change: lasers and cables have one far end for ever.
    pub neighbours: Vec<Neighbour>,
}

impl Blueprint {
    /// Addresses everything.
    ///
    /// # Errors
    /// When the areas asked for cannot be made, or the addresses do not suffice; all that is wrong with either.
    pub fn new(lab: Lab) -> Result<Self, BlueprintError> {
        let areas = ospf_areas(&lab).map_err(BlueprintError::Areas)?;
        let addresses = address_plan(&lab, areas.as_ref()).map_err(BlueprintError::Addresses)?;
        Ok(Self {
            addresses,
            areas,
            families: lab.scenario.routing.families,
            lab,
        })
    }

    /// The port of a node that has this interface index, if it is one of ours.
    #[must_use]
    pub fn port_of_ifindex(&self, node: NodeId, ifindex: u32) -> Option<PortId> {
        let index = usize::try_from(ifindex.checked_sub(FIRST_PORT_IFINDEX)?).ok()?;
        let ports = self.lab.layout.ports_of(node);
        ports.get(index).map(|port| port.id)
    }

    /// Addresses and permanent neighbours of a fresh node. With these, no ARP or neighbour discovery ever runs on
    /// lasers and cables.
    #[must_use]
    pub fn setup(&self, node: NodeId) -> NodeSetup {
        let paths = self.addresses.paths();
        let ends = paths.of_node(node).map(|end| paths.address(end));
        let own = std::iter::once(self.addresses.loopback(node)).chain(ends);
        let port = |port: &Port| {
            let v4 = self.addresses.port(port.id).v4;
            let far = self.lab.layout.far_port(port.id);
            PortSetup {
                ifindex: node_ifindex(port),
                address: v4
                    .filter(|_| self.families.ipv4)
                    .map(|(address, len)| (address.into(), len)),
                neighbours: far.map_or_else(Vec::new, |far| self.neighbours(port, far)),
            }
        };
        let ports = self.lab.layout.ports_of(node);
        let addressed = |port: &&Port| self.addresses.port(port.id).v4.is_some();
        let addressed = || ports.iter().filter(addressed);
        let mut in_networks = addressed().filter(|port| port.class == &NETWORK);
        let multicast = in_networks.next().or_else(|| addressed().next());
        NodeSetup {
            multicast: multicast.filter(|_| self.families.ipv4).map(node_ifindex),
            loopback: own.flat_map(|own| self.spoken(own)).collect(),
            ports: self.lab.layout.ports_of(node).iter().map(port).collect(),
        }
    }

    /// The entries by which `port`'s node knows the far port, in every family spoken. What is plugged into an interface of the
    /// machine has an address of its own: it is asked for that.
    #[must_use]
    pub fn neighbours(&self, port: &Port, far: PortId) -> Vec<Neighbour> {
        if self.lab.layout.port(far).attachment != Attachment::Veth {
            return Vec::new();
        }
        let far = self.addresses.port(far);
        let v4 = far.v4.filter(|_| self.families.ipv4);
        let v4 = v4.map(|(v4, _)| IpAddr::from(v4));
        let v6 = self.families.ipv6.then(|| IpAddr::from(far.v6_link_local));
        let entry = |address| Neighbour {
            ifindex: node_ifindex(port),
            address,
            mac: far.mac,
        };
        v4.into_iter().chain(v6).map(entry).collect()
    }

    /// A node's loopback addresses in the families spoken.
    #[must_use]
    pub fn loopbacks(&self, node: NodeId) -> Vec<IpAddr> {
        self.spoken(self.addresses.loopback(node))
    }

    /// Those of two addresses whose family is spoken.
    #[must_use]
    pub fn spoken(&self, own: Loopback) -> Vec<IpAddr> {
        let v4 = self.families.ipv4.then_some(IpAddr::from(own.v4));
        let v6 = self.families.ipv6.then_some(IpAddr::from(own.v6));
        v4.into_iter().chain(v6).collect()
    }
}
