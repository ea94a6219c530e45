//! What one node's kernel is told: addresses, neighbours, interfaces. Pure requests; sending is elsewhere.

use std::net::IpAddr;

use constel_host::netlink::{AddressSpec, Batch, IpPrefix, Mac, NeighbourSpec};
use constel_link::PortId;
use constel_plan::Lab;
use constel_routing::walk::Route;
use constel_routing::{AddressPlan, Areas, Loopback};
use constel_scenario::model::Families;
use constel_topology::{NodeId, Port};

use crate::answers::impair::Failed;
use crate::routing::forwarding::Forwarding;

/// `lo`'s index in every namespace.
const LOOPBACK_IFINDEX: u32 = 1;

/// A node's ports have indexes from here on. Not 2: kernels with tunnel modules put their fallback devices
/// (`sit0`, `tunl0`, ...) into every new namespace.
const FIRST_PORT_IFINDEX: u32 = 10;

/// Index of a port's interface inside its node.
pub(crate) fn node_ifindex(port: &Port) -> u32 {
    FIRST_PORT_IFINDEX + u32::from(port.index_in_node)
}

/// The port of a node that has this interface index, if it is one of ours.
pub(crate) fn port_of_ifindex(lab: &Lab, node: NodeId, ifindex: u32) -> Option<PortId> {
    let index = usize::try_from(ifindex.checked_sub(FIRST_PORT_IFINDEX)?).ok()?;
    lab.layout.ports_of(node).get(index).map(|port| port.id)
}

/// Everything about addresses in one lab.
pub(crate) struct Wiring {
    pub(crate) lab: Lab,
    pub(crate) addresses: AddressPlan,
    /// OSPF's areas; `None`: one for everything, or no OSPF.
    pub(crate) areas: Option<Areas>,
    pub(crate) families: Families,
    /// Edges failed by hand.
    pub(crate) failed: Failed,
    /// The map that packets in transit go by; `None`: by the kernels' tables.
    pub(crate) forwarding: Option<Forwarding>,
}

impl Wiring {
    /// A prefix of one address; the lengths used here fit by construction.
    fn prefix(address: IpAddr, len: u8) -> IpPrefix {
        IpPrefix { addr: address, len }
    }

    /// Addresses and permanent neighbours of a fresh node, its interfaces set up. Neighbours over lasers and cables never
    /// change, so no ARP or neighbour discovery ever runs on them.
    pub(crate) fn configure_node(&self, node: NodeId, batch: &mut Batch) {
        batch.link_up(LOOPBACK_IFINDEX);
        let paths = self.addresses.paths();
        let ends = paths.of_node(node).map(|end| paths.address(end));
        for own in std::iter::once(self.addresses.loopback(node)).chain(ends) {
            for address in self.spoken(own) {
                let prefix = IpPrefix::host(address);
                batch.add_address(&AddressSpec::new(LOOPBACK_IFINDEX, prefix));
            }
        }
        for port in self.lab.layout.ports_of(node) {
            let ifindex = node_ifindex(port);
            batch.link_up(ifindex);
            if let (true, Some((v4, len))) = (self.families.ipv4, self.addresses.port(port.id).v4) {
                batch.add_address(&AddressSpec::new(ifindex, Self::prefix(v4.into(), len)));
            }
            if let Some(far) = self.lab.layout.far_port(port.id) {
                for neighbour in self.neighbours(port, far) {
                    batch.replace_neighbour(&neighbour);
                }
            }
        }
    }

    /// The entries by which `port`'s node knows the far port, in every family spoken.
    pub(crate) fn neighbours(&self, port: &Port, far: PortId) -> Vec<NeighbourSpec> {
        let far = self.addresses.port(far);
        let v4 = far
            .v4
            .filter(|_| self.families.ipv4)
            .map(|(v4, _)| IpAddr::from(v4));
        let v6 = self.families.ipv6.then(|| IpAddr::from(far.v6_link_local));
        let entry = |addr| NeighbourSpec {
            ifindex: node_ifindex(port),
            addr,
            mac: Mac(far.mac),
        };
        v4.into_iter().chain(v6).map(entry).collect()
    }

    /// A node's loopback addresses in the families spoken.
    pub(crate) fn loopbacks(&self, node: NodeId) -> Vec<IpAddr> {
        self.spoken(self.addresses.loopback(node))
    }

    /// Those of two addresses whose family is spoken.
    pub(crate) fn spoken(&self, own: Loopback) -> Vec<IpAddr> {
        spoken(self.families, own)
    }

    /// How a node forwards packets of others to an address by the map, if it does.
    pub(crate) fn by_map(&self, node: NodeId, to: IpAddr) -> Option<Route> {
        let forwarding = self.forwarding.as_ref()?;
        forwarding.route(&self.addresses, node, to)
    }
}

/// Those of two addresses whose family is spoken.
pub(crate) fn spoken(families: Families, own: Loopback) -> Vec<IpAddr> {
    let v4 = families.ipv4.then_some(IpAddr::from(own.v4));
    let v6 = families.ipv6.then_some(IpAddr::from(own.v6));
    v4.into_iter().chain(v6).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The shipped Iridium lab, wired but not built.
    pub(crate) fn iridium() -> Wiring {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/iridium.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        let parsed = constel_scenario::parse(path, &text).unwrap_or_else(|e| panic!("{e}"));
        let files = constel_scenario::DiskFiles::beside(path);
        let scenario = constel_scenario::resolve(&parsed, &files).unwrap_or_else(|e| panic!("{e}"));
        let families = scenario.routing.families;
        let lab = Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"));
        Wiring {
            addresses: AddressPlan::new(&lab.layout).unwrap(),
            areas: None,
            families,
            lab,
            failed: Failed::default(),
            forwarding: None,
        }
    }

    #[test]
    fn a_port_is_found_by_the_index_it_was_given() {
        let wiring = iridium();
        for port in wiring.lab.layout.ports() {
            let found = port_of_ifindex(&wiring.lab, port.node, node_ifindex(port));
            assert_eq!(found, Some(port.id));
        }
        assert_eq!(
            port_of_ifindex(&wiring.lab, NodeId(0), LOOPBACK_IFINDEX),
            None
        );
    }
}
