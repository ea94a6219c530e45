//! Answers to `constel routes` and `constel path`: the routes in the kernels, and the paths that they form.

use std::net::IpAddr;

use constel_api::answers::{Hop, NextHop as NextHopRow, Optimum, Paths, Route, Routes, Walked};
use constel_host::netlink::{InstalledRoute, NextHop, ROUTE_PROTOCOL, RouteTarget};
use constel_plan::Blueprint;
use constel_routing::walk::{Walk, WalkEnd, WalkHop};
use constel_routing::{Graph, GroundTransit, PathEnd, Scratch};
use constel_topology::{NodeId, Snapshot};

use crate::answers::catalogued_in;
use crate::error::EngineError;
use crate::nodes::kernels::Kernels;
use crate::routing::tables::{MAIN, Tables};

/// Returns every route of a node's main table, as its kernel has it, sorted by destination.
///
/// # Errors
/// When the kernel does not answer.
pub(crate) fn routes(
    kernels: &Kernels,
    node: NodeId,
    t_ns: Option<u64>,
) -> Result<Routes, EngineError> {
    let blueprint = kernels.blueprint.as_ref();
    let mut routes = kernels.installed(node)?;
    // Local routes and those of other tables are not part of the answer.
    routes.retain(|route| route.table == MAIN);
    routes.sort_by_key(|route| (route.dst.addr, route.dst.len, route.metric));
    let rows = routes.iter().map(|route| route_row(blueprint, node, route));
    let rows: Vec<Route> = rows.collect();
    let node = blueprint.lab.layout.node(node).name.clone();
    let named = rows.iter().flat_map(|row| {
        let vias = row.hops.iter().filter_map(|hop| hop.via.as_deref());
        row.to.as_deref().into_iter().chain(vias)
    });
    let named = named.chain([node.as_str()]);
    Ok(Routes {
        catalogued: catalogued_in(&blueprint.lab, named),
        node,
        routes: rows,
        t_ns,
    })
}

/// Converts one route. `to` and `via` are node names if the addresses belong to nodes.
fn route_row(blueprint: &Blueprint, node: NodeId, route: &InstalledRoute) -> Route {
    let layout = &blueprint.lab.layout;
    // Only a host route names a node; a shorter prefix may cover several.
    let whole = route.dst.len == if route.dst.addr.is_ipv4() { 32 } else { 128 };
    let to = whole
        .then(|| blueprint.addresses.name_of(layout, route.dst.addr))
        .flatten();
    let hop_row = |hop: &NextHop| {
        // Interfaces and gateways outside the lab are shown without a name.
        let port = hop
            .ifindex
            .and_then(|ifindex| blueprint.port_of_ifindex(node, ifindex));
        let far = hop
            .via
            .and_then(|gateway| blueprint.addresses.port_of(gateway));
        NextHopRow {
            gateway: hop.via,
            port: port.map(|port| layout.port(port).name().to_string()),
            via: far.map(|far| layout.node(layout.port(far).node).name.clone()),
        }
    };
    let (kind, hops): (_, Vec<NextHopRow>) = match &route.target {
        RouteTarget::Hop(hop) => ("unicast", vec![hop_row(hop)]),
        RouteTarget::Multipath(hops) => ("unicast", hops.iter().map(hop_row).collect()),
        RouteTarget::Unreachable => ("unreachable", Vec::new()),
        RouteTarget::Blackhole => ("blackhole", Vec::new()),
    };
    Route {
        destination: format!("{}/{}", route.dst.addr, route.dst.len),
        to,
        kind: kind.to_owned(),
        hops,
        source: route.prefsrc,
        metric: route.metric,
        protocol: protocol_name(route.protocol),
    }
}

/// Returns the name of a route's origin, as in `/etc/iproute2/rt_protos`; `constel` for computed routes.
fn protocol_name(protocol: u8) -> String {
    let name = match protocol {
        2 => "kernel",
        3 => "boot",
        4 => "static",
        11 => "zebra",
        12 => "bird",
        42 => "babel",
        186 => "bgp",
        187 => "isis",
        188 => "ospf",
        ROUTE_PROTOCOL => "constel",
        other => return other.to_string(),
    };
    name.to_owned()
}

/// The destination of a path: a node, or a name of an end of disjoint paths.
pub(crate) struct PathDestination {
    pub(crate) node: NodeId,
    /// The requested name.
    pub(crate) name: String,
    /// The requested ends of disjoint paths, all at the node; empty for the node's own addresses.
    pub(crate) paths: Vec<PathEnd>,
}

/// The lab times of a path request, nanoseconds.
pub(crate) struct Times {
    /// The time of the edges along the path.
    pub(crate) edges_ns: u64,
    /// The time of the kernels' tables: now.
    pub(crate) tables_ns: u64,
}

/// Follows the kernels' present tables from one node to another, over the edges of `snapshot` at lab time
/// `edges_ns` of its step. Returns the path for every address family and for each of several destinations at that
/// node, and the path of least delay over these edges.
///
/// # Errors
/// When a kernel does not answer.
pub(crate) fn path(
    kernels: &Kernels,
    snapshot: &Snapshot,
    (from, goal): (NodeId, &PathDestination),
    times: Times,
) -> Result<Paths, EngineError> {
    let t_ns = times.edges_ns;
    let blueprint = kernels.blueprint.as_ref();
    let mut tables = Tables::new(kernels);
    let mut families = Vec::new();
    // Each end of a disjoint path has its own address, so that each is followed separately.
    let addresses: Vec<(Option<u8>, IpAddr)> = match &goal.paths[..] {
        [] => {
            let own = blueprint.loopbacks(goal.node);
            own.into_iter().map(|address| (None, address)).collect()
        }
        ends => {
            let own = |&end: &PathEnd| {
                let own = blueprint.spoken(blueprint.addresses.paths().address(end));
                own.into_iter()
                    .map(move |address| (Some(end.path), address))
            };
            ends.iter().flat_map(own).collect()
        }
    };
    for (path, address) in addresses {
        let walked = tables.walk_at(snapshot, from, address, t_ns)?;
        families.push(walk_row(kernels, address, &walked, path));
    }
    let to = goal.node;
    // The optimum does not depend on the routing: it is the shortest path in the topology.
    let graph = Graph::new(&blueprint.lab.layout, snapshot, GroundTransit::Never);
    let tree = graph.tree(to, &mut Scratch::default());
    let optimum = graph.path(&tree, from).map(|hops| {
        let hops: Vec<WalkHop> = hops
            .iter()
            .map(|hop| WalkHop {
                from: hop.from,
                port: hop.port,
                far_port: hop.far_port,
                to: hop.to,
                // The tree holds for the start of the step; the requested delay is that at `t_ns`.
                delay_ns: snapshot
                    .edge(hop.port, hop.far_port)
                    .map_or(hop.delay_ns, |edge| edge.impairment.delay.at(t_ns)),
                choices: 1,
            })
            .collect();
        Optimum {
            delay_ns: hops.iter().map(|hop| hop.delay_ns).sum(),
            hops: hop_rows(blueprint, &hops),
        }
    });
    // Catalogue names are added for every node that appears in the answer.
    let walked = families.iter().map(|walked| &walked.hops);
    let best = optimum.as_ref().map(|optimum| &optimum.hops);
    let hops = walked.chain(best).flatten();
    let named = hops.flat_map(|hop| [hop.from.as_str(), hop.to.as_str()]);
    Ok(Paths {
        catalogued: catalogued_in(&blueprint.lab, named),
        from: blueprint.lab.layout.node(from).name.clone(),
        to: goal.name.clone(),
        t_ns,
        kernel: families,
        optimum,
        tables_t_ns: times.tables_ns,
    })
}

fn walk_row(kernels: &Kernels, address: IpAddr, walked: &Walk, path: Option<u8>) -> Walked {
    let blueprint = kernels.blueprint.as_ref();
    let end = match walked.end {
        // The walk reads only the kernels of this machine, so that it ends where another machine's node would
        // forward.
        WalkEnd::NoRoute(at) if !kernels.ours().has(at) && !kernels.knows_all_ways() => format!(
            "continues at {}, on another machine: request the path there",
            blueprint.lab.layout.node(at).name
        ),
        end => end_words(blueprint, end),
    };
    let family = if address.is_ipv4() { "ipv4" } else { "ipv6" };
    Walked {
        family: family.to_owned(),
        address,
        arrived: walked.arrived(),
        end,
        delay_ns: walked.arrived().then(|| walked.delay_ns()),
        hops: hop_rows(blueprint, &walked.hops),
        path,
    }
}

fn hop_rows(blueprint: &Blueprint, hops: &[WalkHop]) -> Vec<Hop> {
    let layout = &blueprint.lab.layout;
    let row = |hop: &WalkHop| Hop {
        from: layout.node(hop.from).name.clone(),
        from_port: layout.port(hop.port).name().to_string(),
        to: layout.node(hop.to).name.clone(),
        to_port: layout.port(hop.far_port).name().to_string(),
        delay_ns: hop.delay_ns,
        next_hops: hop.choices,
    };
    hops.iter().map(row).collect()
}

/// Describes the end of a walk.
pub(crate) fn end_words(blueprint: &Blueprint, end: WalkEnd) -> String {
    let layout = &blueprint.lab.layout;
    let node = |id: NodeId| layout.node(id).name.as_str();
    let port = |id| {
        let port = layout.port(id);
        format!("{}/{}", node(port.node), port.name())
    };
    match end {
        WalkEnd::Arrived => "arrived".to_owned(),
        WalkEnd::Loop(at) => format!("reaches {} a second time", node(at)),
        WalkEnd::NoRoute(at) => format!("{} has no route", node(at)),
        WalkEnd::ForeignPort(at, _) => {
            format!("the route of {} leads over no port of it", node(at))
        }
        WalkEnd::UnknownGateway(at, gateway) => {
            format!(
                "the gateway of {}, {gateway}, is not the address of any node",
                node(at)
            )
        }
        WalkEnd::NoEdge(from, to) => format!(
            "the route leads from {} to {}, but there is no edge now",
            port(from),
            port(to)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::iridium;
    use constel_host::netlink::IpPrefix;
    use constel_plan::node_ifindex;

    fn installed_route(dst: IpPrefix, target: RouteTarget) -> InstalledRoute {
        InstalledRoute {
            dst,
            target,
            prefsrc: None,
            metric: 0,
            protocol: 4,
            table: MAIN,
            kind: 1,
        }
    }

    #[test]
    fn a_route_names_its_goal_port_and_neighbour() {
        let blueprint = iridium();
        let link = &blueprint.lab.layout.isl_links()[0];
        let near = blueprint.lab.layout.port(link.a);
        let far = blueprint.lab.layout.port(link.b);
        let goal = blueprint.addresses.loopback(far.node).v4;
        let gateway = blueprint.addresses.port(far.id).v4.unwrap().0;
        let hop = NextHop::via(node_ifindex(near), gateway.into());
        let route = installed_route(IpPrefix::host(goal.into()), RouteTarget::Hop(hop));
        let row = route_row(&blueprint, near.node, &route);
        let far_name = blueprint.lab.layout.node(far.node).name.as_str();
        assert_eq!(row.to.as_deref(), Some(far_name));
        assert_eq!(row.hops[0].via.as_deref(), Some(far_name));
        let port = near.name().to_string();
        assert_eq!(row.hops[0].port, Some(port));
        assert_eq!(row.protocol, "static");
        // A shorter prefix with the same address is no node's.
        let wide = IpPrefix::new(std::net::Ipv4Addr::new(10, 0, 0, 0).into(), 8).unwrap();
        let route = installed_route(wide, RouteTarget::Blackhole);
        let row = route_row(&blueprint, near.node, &route);
        assert_eq!((row.to, row.kind.as_str()), (None, "blackhole"));
    }

    #[test]
    fn every_end_says_where_it_happened() {
        let blueprint = iridium();
        let link = &blueprint.lab.layout.isl_links()[0];
        let node = blueprint.lab.layout.port(link.a).node;
        let name = &blueprint.lab.layout.node(node).name;
        let gateway = "10.255.255.1".parse().unwrap();
        for end in [
            WalkEnd::Loop(node),
            WalkEnd::NoRoute(node),
            WalkEnd::ForeignPort(node, link.b),
            WalkEnd::UnknownGateway(node, gateway),
            WalkEnd::NoEdge(link.a, link.b),
        ] {
            let words = end_words(&blueprint, end);
            assert!(words.contains(name.as_str()), "{words}");
        }
    }
}
