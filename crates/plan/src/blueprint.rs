//! The unchanging parts of a lab: nodes, ports, addresses. All changing state is elsewhere.

use std::net::IpAddr;

use constel_link::PortId;
use constel_routing::{AddressError, AddressPlan, AreaError, Areas, Loopback};
use constel_scenario::model::Families;
use constel_topology::{Attachment, NETWORK, NodeId, Port};

use crate::daemons::{address_plan, ospf_areas};
use crate::lab::Lab;

/// The interface index of `lo` in every namespace.
pub const LOOPBACK_IFINDEX: u32 = 1;

/// The first interface index of a node's ports. It is well above the indices of the fallback devices (`sit0`,
/// `tunl0`, ...) that kernels with tunnel modules create in every new namespace.
const FIRST_PORT_IFINDEX: u32 = 64;

/// Returns the index of a port's interface inside its node.
#[must_use]
pub fn node_ifindex(port: &Port) -> u32 {
    FIRST_PORT_IFINDEX + u32::from(port.index_in_node)
}

/// A scenario laid out, with its addresses: all constant data of a lab that a machine needs.
pub struct Blueprint {
    /// The nodes, ports and orbits, and their scenario.
    pub lab: Lab,
    /// Every address of the lab.
    pub addresses: AddressPlan,
    /// The OSPF areas; `None` for one area, or without OSPF.
    pub areas: Option<Areas>,
    /// The Internet protocols that nodes use.
    pub families: Families,
}

/// The reason why a lab has no blueprint.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BlueprintError {
    /// The lab is too large for its address plan.
    #[error("{}", sentences(.0))]
    Addresses(Vec<AddressError>),
    /// The OSPF areas cannot be formed.
    #[error("{}", sentences(.0))]
    Areas(Vec<AreaError>),
}

fn sentences<E: std::fmt::Display>(errors: &[E]) -> String {
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    all.join("; ")
}

/// An entry of a node's neighbour table: a far end that needs no address resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The index of the node's own interface.
    pub ifindex: u32,
    /// The far port's address.
    pub address: IpAddr,
    /// The far port's MAC address.
    pub mac: [u8; 6],
}

/// The settings of a new node before any routing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSetup {
    /// The addresses of `lo`, each as a host prefix.
    pub loopback: Vec<IpAddr>,
    /// The ports, in order.
    pub ports: Vec<PortSetup>,
    /// The index of the interface for IPv4 multicast of programs that choose none: the node's first network, or
    /// else its first port.
    pub multicast: Option<u32>,
}

/// The settings of a new port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSetup {
    /// The index of the interface.
    pub ifindex: u32,
    /// The address and prefix length; `None` for a port that has only a link-local address.
    pub address: Option<(IpAddr, u8)>,
    /// Neighbour entries that never change: lasers and cables have a constant far end.
    pub neighbours: Vec<Neighbour>,
}

impl Blueprint {
    /// Assigns all addresses.
    ///
    /// # Errors
    /// When the requested areas cannot be formed, or the addresses do not suffice; all problems of either kind.
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

    /// Returns the port of a node with this interface index, if it is a port of the lab.
    #[must_use]
    pub fn port_of_ifindex(&self, node: NodeId, ifindex: u32) -> Option<PortId> {
        let index = usize::try_from(ifindex.checked_sub(FIRST_PORT_IFINDEX)?).ok()?;
        let ports = self.lab.layout.ports_of(node);
        ports.get(index).map(|port| port.id)
    }

    /// Returns the addresses and permanent neighbours of a new node. With these, ARP and neighbour discovery never
    /// run on lasers and cables.
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

    /// Returns the entries with which `port`'s node knows the far port, in every address family in use. A device
    /// behind an interface of the machine has an address of its own, which the node must resolve.
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

    /// Returns a node's loopback addresses in the families in use.
    #[must_use]
    pub fn loopbacks(&self, node: NodeId) -> Vec<IpAddr> {
        self.spoken(self.addresses.loopback(node))
    }

    /// Returns those of two addresses whose family is in use.
    #[must_use]
    pub fn spoken(&self, own: Loopback) -> Vec<IpAddr> {
        let v4 = self.families.ipv4.then_some(IpAddr::from(own.v4));
        let v6 = self.families.ipv6.then_some(IpAddr::from(own.v6));
        v4.into_iter().chain(v6).collect()
    }
}
