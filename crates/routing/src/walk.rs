//! Walks along the routing tables of the kernels: from node to node, over the edges that exist.

use crate::addresses::AddressPlan;
use constel_link::PortId;
use constel_topology::{Layout, NodeId, Snapshot};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;

/// One route of a node's table, as far as walking needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Destination address.
    pub prefix: IpAddr,
    /// Leading bits of it that count, up to 32 or 128.
    pub prefix_len: u8,
    /// The port it leaves by.
    pub port: PortId,
    /// The next node's address on the link; `None`: the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// Lower wins among routes of one prefix.
    pub metric: u32,
    /// How many next hops share its packets; this is one of them.
    pub choices: u8,
}

/// The routes of one node, ready for longest-prefix lookups.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// By family (4 or 6) and prefix length; then by masked prefix.
    by_len: BTreeMap<(u8, u8), BTreeMap<u128, Route>>,
}

impl Table {
    /// A table of these routes.
    #[must_use]
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Table {
        let mut table = Table::default();
        for route in routes {
            let (family, bits) = bits_of(route.prefix);
            let key = masked(family, bits, route.prefix_len);
            let row = table.by_len.entry((family, route.prefix_len)).or_default();
            let better = row
                .get(&key)
                .is_none_or(|known| route.metric < known.metric);
            if better {
                row.insert(key, route);
            }
        }
        table
    }

    /// The route a packet to `destination` takes.
    #[must_use]
    pub fn lookup(&self, destination: IpAddr) -> Option<&Route> {
        let (family, bits) = bits_of(destination);
        self.by_len
            .range((family, 0)..=(family, 128))
            .rev()
            .find_map(|((_, len), row)| row.get(&masked(family, bits, *len)))
    }
}

fn bits_of(address: IpAddr) -> (u8, u128) {
    match address {
        IpAddr::V4(v4) => (4, u128::from(u32::from(v4))),
        IpAddr::V6(v6) => (6, u128::from(v6)),
    }
}

fn masked(family: u8, bits: u128, len: u8) -> u128 {
    let width: u32 = if family == 4 { 32 } else { 128 };
    let drop = width.saturating_sub(u32::from(len));
    if drop >= 128 { 0 } else { bits >> drop << drop }
}

/// One hop taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkHop {
    /// Node left.
    pub from: NodeId,
    /// Port left by.
    pub port: PortId,
    /// Port reached.
    pub far_port: PortId,
    /// Node reached.
    pub to: NodeId,
    /// Propagation delay at the moment of the walk, ns.
    pub delay_ns: u64,
    /// How many next hops the route has; this is one of them.
    pub choices: u8,
}

/// The end of a walk, and the path to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// Hops taken, in order.
    pub hops: Vec<WalkHop>,
    /// How it ended.
    pub end: WalkEnd,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkEnd {
    /// Arrived at the requested node.
    Arrived,
    /// The walk reached this node a second time.
    Loop(NodeId),
    /// This node's table has no route.
    NoRoute(NodeId),
    /// The route names a port the node does not have.
    ForeignPort(NodeId, PortId),
    /// No node has the address of the route's gateway.
    UnknownGateway(NodeId, IpAddr),
    /// There is no edge from the first port to the second, or it is not usable yet.
    NoEdge(PortId, PortId),
}

impl Walk {
    /// True when the destination was reached.
    #[must_use]
    pub fn arrived(&self) -> bool {
        self.end == WalkEnd::Arrived
    }

    /// Sum of the delays of its hops, ns.
    #[must_use]
    pub fn delay_ns(&self) -> u64 {
        self.hops.iter().map(|h| h.delay_ns).sum()
    }
}

/// Follows `tables` (by node number; a missing one is empty) from `from` to a loopback `destination`.
///
/// A route counts only if the edge it leads over exists in `snapshot` and is usable at its start.
#[must_use]
pub fn walk(
    layout: &Layout,
    snapshot: &Snapshot,
    plan: &AddressPlan,
    tables: &[Table],
    from: NodeId,
    destination: IpAddr,
) -> Walk {
    walk_at(
        layout,
        snapshot,
        plan,
        tables,
        from,
        destination,
        snapshot.t_ns,
    )
}

/// [`walk`] at another moment of the snapshot's step, `t_ns` after the start of the lab: delays and outages are
/// those of that moment.
#[must_use]
pub fn walk_at(
    layout: &Layout,
    snapshot: &Snapshot,
    plan: &AddressPlan,
    tables: &[Table],
    from: NodeId,
    destination: IpAddr,
    t_ns: u64,
) -> Walk {
    let route = |at: NodeId| {
        let table = tables.get(at.index());
        Ok::<_, Infallible>(table.and_then(|t| t.lookup(destination)).copied())
    };
    match walk_by(layout, snapshot, plan, from, destination, t_ns, route) {
        Ok(walked) => walked,
        Err(never) => match never {},
    }
}

/// Walks like [`walk_at`], but looks routes to the destination up only along the path. `route` returns the route of a node.
///
/// Those of `route`.
pub fn walk_by<E>(
    layout: &Layout,
    snapshot: &Snapshot,
    plan: &AddressPlan,
    from: NodeId,
    destination: IpAddr,
    t_ns: u64,
    route: impl FnMut(NodeId) -> Result<Option<Route>, E>,
) -> Result<Walk, E> {
    let nowhere = |_| false;
    walk_until(
        layout,
        snapshot,
        plan,
        (from, destination),
        t_ns,
        nowhere,
        route,
    )
}

/// Walks like [`walk_by`], but also ends as arrived at a node from which packets arrive according to `arrives`. Many walks
/// to one destination then visit no node twice.
///
/// # Errors
/// Those of `route`.
pub fn walk_until<E>(
    layout: &Layout,
    snapshot: &Snapshot,
    plan: &AddressPlan,
    (from, destination): (NodeId, IpAddr),
    t_ns: u64,
    arrives: impl Fn(NodeId) -> bool,
    mut route: impl FnMut(NodeId) -> Result<Option<Route>, E>,
) -> Result<Walk, E> {
    let goal = plan.node_of(destination);
    let mut visited = std::collections::BTreeSet::new();
    let mut hops = Vec::new();
    let mut at = from;
    let end = loop {
        if Some(at) == goal || (at != from && arrives(at)) {
            break WalkEnd::Arrived;
        }
        if !visited.insert(at) {
            break WalkEnd::Loop(at);
        }
        let Some(route) = route(at)? else {
            break WalkEnd::NoRoute(at);
        };
        if layout
            .ports()
            .get(route.port.0 as usize)
            .is_none_or(|p| p.node != at)
        {
            break WalkEnd::ForeignPort(at, route.port);
        }
        let gateway = route.gateway.unwrap_or(destination);
        let Some(far_port) = plan.port_of(gateway) else {
            break WalkEnd::UnknownGateway(at, gateway);
        };
        let edge = snapshot.edge(route.port, far_port);
        let Some(edge) = edge.filter(|e| e.usable_at(t_ns)) else {
            break WalkEnd::NoEdge(route.port, far_port);
        };
        let to = layout.port(far_port).node;
        let delay_ns = edge.impairment.delay.at(t_ns);
        hops.push(WalkHop {
            from: at,
            port: route.port,
            far_port,
            to,
            delay_ns,
            choices: route.choices,
        });
        at = to;
    };
    Ok(Walk { hops, end })
}
