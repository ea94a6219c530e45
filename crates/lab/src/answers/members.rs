//! Members of networks as users see them.

use constel_api::answers::{MemberShown, NetworkShown};
use constel_link::PortId;
use constel_plan::{AbsentMembers, Blueprint};
use constel_topology::Snapshot;

/// Returns all networks with their members.
pub(crate) fn shown(
    away: &AbsentMembers,
    blueprint: &Blueprint,
    now: &Snapshot,
) -> Vec<NetworkShown> {
    let layout = &blueprint.lab.layout;
    let networks = layout.spec().networks.iter().enumerate();
    let network = |(place, network): (usize, &constel_topology::Network)| {
        let ports = layout.network_ports(place).iter();
        let member = |port: &PortId| {
            let edges = now.edges_from(*port).iter();
            let joined = away.is_in(*port);
            MemberShown {
                node: layout.node(layout.port(*port).node).name.clone(),
                port: layout.port(*port).name().to_owned(),
                joined,
                edges: edges.filter(|e| joined && away.is_in(e.to)).count(),
            }
        };
        NetworkShown {
            network: network.name.clone(),
            members: ports.map(member).collect(),
        }
    };
    networks.map(network).collect()
}
