//! A row whose nodes in between have no stack: the relay forwards for them.

use std::net::IpAddr;
use std::sync::Arc;

use constel_host::netlink::{Mac, NeighbourSpec};
use constel_link::transit::{
    DestinationAddresses, Member, MemberPort, NeighbourRoute, Table, TableSpec,
};
use constel_link::{PortId, mac_of};

use crate::common::address;
use crate::support::{ETH0, Node};

/// Table of their routes; `None` without such nodes.
pub(crate) fn table(links: usize) -> Option<Arc<Table>> {
    let inner = links.checked_sub(1).filter(|inner| *inner > 0)?;
    let port = |port: usize, far_port: usize| MemberPort {
        port: PortId(port as u32),
        far_port: Some(PortId(far_port as u32)),
        subnet: None,
        mtu_bytes: 1500,
    };
    let members = (1..=inner).map(|node| Member {
        v4: Some(address(node, 1)),
        v6: None,
        ports: vec![
            port(2 * node - 1, 2 * node - 2),
            port(2 * node, 2 * node + 1),
        ],
    });
    let goal = |address| DestinationAddresses(vec![IpAddr::from(address)]);
    let table = Table::new(TableSpec {
        ports: 2 * links as u32,
        members: members.collect(),
        goals: vec![goal(address(0, 1)), goal(address(links - 1, 2))],
        v4_of_ports: Vec::new(),
    });
    let table = table.expect("small");
    for (member, node) in (0..).zip(1..=inner as u32) {
        let way = |port, far_port| NeighbourRoute {
            port: PortId(port),
            far_port: PortId(far_port),
        };
        table.set(member, 0, &[way(2 * node - 1, 2 * node - 2)]);
        table.set(member, 1, &[way(2 * node, 2 * node + 1)]);
    }
    Some(Arc::new(table))
}

/// The two nodes at the ends need static neighbours: nodes without a stack do not answer ARP.
pub(crate) fn introduce(near: &Node, far: &Node, links: usize) {
    let last = 2 * links as u32 - 1;
    for (node, beside, port) in [
        (near, address(0, 2), 1),
        (far, address(links - 1, 1), last - 1),
    ] {
        node.netlink(|batch| {
            batch.replace_neighbour(&NeighbourSpec {
                ifindex: ETH0,
                addr: beside.into(),
                mac: Mac(mac_of(PortId(port))),
            });
        });
    }
}
