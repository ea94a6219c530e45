//! The actual routes of the kernels: read from their tables, and followed over the existing edges.
//!
//! Daemons are never the source for whether routes have converged: a route in a daemon that the kernel lacks carries no
//! packets.

use std::net::IpAddr;
use std::sync::Arc;

use constel_host::netlink::{InstalledRoute, RouteTarget};
use constel_routing::walk::{Route, Table, Walk, walk_by, walk_until};
use constel_topology::{NodeId, Snapshot};

use crate::error::EngineError;
use crate::nodes::kernels::Kernels;
use constel_plan::{Blueprint, LocalNodes, Reachability};

/// `RTN_UNICAST`, the only kind of route that forwards.
pub(crate) const UNICAST: u8 = 1;
/// The main table.
pub(crate) const MAIN: u32 = 254;

/// The number of addresses up to which single queries are cheaper than reading a table, which may contain every
/// node of a lab.
const FEW: usize = 48;

/// Reads the main table of one node.
///
/// # Errors
/// When the kernel does not answer.
fn read(kernels: &Kernels, node: NodeId) -> Result<Table, EngineError> {
    let routes = kernels.installed(node)?;
    Ok(Table::new(routes.iter().filter_map(|route| {
        forwarding(&kernels.blueprint, node, route)
    })))
}

fn forwarding(blueprint: &Blueprint, node: NodeId, route: &InstalledRoute) -> Option<Route> {
    // Only unicast routes of the main table forward packets of the lab.
    if route.kind != UNICAST || route.table != MAIN {
        return None;
    }
    let (hop, choices) = match &route.target {
        RouteTarget::Hop(hop) => (hop, 1),
        // Any of several next hops must lead there; the first is followed.
        RouteTarget::Multipath(hops) => (hops.first()?, hops.len()),
        RouteTarget::Unreachable | RouteTarget::Blackhole => return None,
    };
    Some(Route {
        prefix: route.dst.addr,
        prefix_len: route.dst.len,
        port: blueprint.port_of_ifindex(node, hop.ifindex?)?,
        gateway: hop.via,
        metric: route.metric,
        choices: u8::try_from(choices).unwrap_or(u8::MAX),
    })
}

/// Returns a node's route to one address; for a node of another machine the planned route.
fn lookup(kernels: &Kernels, node: NodeId, goal: IpAddr) -> Result<Option<Route>, EngineError> {
    let found = kernels.node(node).lookup(&[goal])?.into_iter();
    let found = found.flatten().next();
    Ok(found.and_then(|route| forwarding(&kernels.blueprint, node, &route)))
}

/// Follows the kernels from `from` to a loopback address as [`Tables::walk_at`] does, but queries each node on the
/// path only for its route to this address: the cost does not grow with the tables.
///
/// # Errors
/// When a kernel does not answer.
pub(crate) fn walk_querying(
    kernels: &Kernels,
    snapshot: &Snapshot,
    from: NodeId,
    goal: IpAddr,
) -> Result<Walk, EngineError> {
    let blueprint = kernels.blueprint.as_ref();
    let layout = &blueprint.lab.layout;
    let ask = |node: NodeId| -> Result<Option<Route>, EngineError> {
        // Nodes without a stack have their routes in the link plane's table, transit nodes in the map, and all others
        // in their kernels.
        if let Some(route) = kernels.without_stack(node, goal) {
            return Ok(route);
        }
        if let Some(route) = in_transit(kernels, from, node, goal) {
            return Ok(Some(route));
        }
        lookup(kernels, node, goal)
    };
    let addresses = &blueprint.addresses;
    walk_by(layout, snapshot, addresses, from, goal, snapshot.t_ns, ask)
}

/// Returns how a transit node forwards packets from `from`, if the map does it.
fn in_transit(kernels: &Kernels, from: NodeId, node: NodeId, goal: IpAddr) -> Option<Route> {
    // The sender uses its own kernel's table; the map is for transit packets.
    if node == from {
        return None;
    }
    kernels.by_map(node, goal)
}

/// The tables as they were when a path first reached each node: each is read once, and only if needed.
pub(crate) struct Tables<'a> {
    kernels: &'a Kernels,
    /// The nodes of this machine.
    ours: Arc<LocalNodes>,
    known: Vec<Option<Table>>,
}

impl<'a> Tables<'a> {
    /// Creates the cache, without reading anything.
    pub(crate) fn new(kernels: &'a Kernels) -> Self {
        Self {
            kernels,
            ours: kernels.ours(),
            known: vec![None; kernels.nodes.len()],
        }
    }

    /// Follows the kernels from `from` to a loopback address, over the edges at an instant of the snapshot's step.
    ///
    /// # Errors
    /// When a kernel does not answer.
    pub(crate) fn walk_at(
        &mut self,
        snapshot: &Snapshot,
        from: NodeId,
        goal: IpAddr,
        t_ns: u64,
    ) -> Result<Walk, EngineError> {
        let kernels = self.kernels;
        let Blueprint { lab, addresses, .. } = kernels.blueprint.as_ref();
        let route = |node| match in_transit(kernels, from, node, goal) {
            Some(route) => Ok(Some(route)),
            None => self.route(node, goal),
        };
        walk_by(&lab.layout, snapshot, addresses, from, goal, t_ns, route)
    }

    /// Returns a node's route to an address.
    fn route(&mut self, node: NodeId, goal: IpAddr) -> Result<Option<Route>, EngineError> {
        if let Some(route) = self.kernels.without_stack(node, goal) {
            return Ok(route);
        }
        // Another machine's kernel cannot be read: its placeholder has the planned routes.
        if !self.ours.has(node) {
            return lookup(self.kernels, node, goal);
        }
        let table = &mut self.known[node.index()];
        let table = match table {
            Some(table) => table,
            None => table.insert(read(self.kernels, node)?),
        };
        Ok(table.lookup(goal).copied())
    }
}

/// Routes to a few addresses: each node on a path is queried once, for all of them together. The cost is that of a
/// few entries, however long the table is.
struct QueriedRoutes<'a> {
    kernels: &'a Kernels,
    goals: Vec<IpAddr>,
    known: Vec<Option<Vec<Option<Route>>>>,
}

impl<'a> QueriedRoutes<'a> {
    fn new(kernels: &'a Kernels, goals: Vec<IpAddr>) -> Self {
        Self {
            kernels,
            goals,
            known: vec![None; kernels.nodes.len()],
        }
    }

    fn route(&mut self, node: NodeId, goal: IpAddr) -> Result<Option<Route>, EngineError> {
        let known = &mut self.known[node.index()];
        let known = match known {
            Some(known) => known,
            None => {
                // One request returns the routes to all destinations.
                let found = self.kernels.node(node).lookup(&self.goals)?.into_iter();
                let found = found.map(|route| forwarding(&self.kernels.blueprint, node, &route?));
                known.insert(found.collect())
            }
        };
        let place = self.goals.iter().position(|known| *known == goal);
        Ok(place.and_then(|place| known[place]))
    }
}

/// The kernels on the paths of many walks to these addresses: each is queried once, in the cheaper way.
pub(crate) struct Hops<'a> {
    kernels: &'a Kernels,
    asked: QueriedRoutes<'a>,
    tables: Tables<'a>,
}

impl<'a> Hops<'a> {
    /// Creates the cache, without any query.
    pub(crate) fn new(kernels: &'a Kernels, goals: Vec<IpAddr>) -> Self {
        Self {
            kernels,
            asked: QueriedRoutes::new(kernels, goals),
            tables: Tables::new(kernels),
        }
    }

    /// Returns how `node` forwards packets from `from` to one of the addresses.
    ///
    /// # Errors
    /// When its kernel does not answer.
    pub(crate) fn route(
        &mut self,
        from: NodeId,
        node: NodeId,
        goal: IpAddr,
    ) -> Result<Option<Route>, EngineError> {
        if let Some(route) = in_transit(self.kernels, from, node, goal) {
            return Ok(Some(route));
        }
        if let Some(route) = self.kernels.without_stack(node, goal) {
            return Ok(route);
        }
        match self.asked.goals.len() <= FEW {
            true => self.asked.route(node, goal),
            false => self.tables.route(node, goal),
        }
    }
}

/// The state of convergence: whether every station reaches every other that the topology lets it reach.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConvergenceState {
    /// The number of pairs that arrive.
    pub(crate) good: usize,
    /// The number of ordered pairs that were followed, each family counted.
    pub(crate) pairs: usize,
    /// The description of a path that does not arrive; `None` if all do.
    pub(crate) example: Option<String>,
}

impl ConvergenceState {
    pub(crate) fn complete(&self) -> bool {
        self.example.is_none()
    }
}

/// Follows every ordered pair of stations between which the topology (or the fixed routes of a file) has a path, in
/// every family.
///
/// # Errors
/// When a kernel does not answer.
pub(crate) fn standing(
    kernels: &Kernels,
    snapshot: &Snapshot,
) -> Result<ConvergenceState, EngineError> {
    let blueprint = kernels.blueprint.as_ref();
    let layout = &blueprint.lab.layout;
    let mut reach = Reachability::new(&blueprint.lab, snapshot);
    let stations: Vec<NodeId> = layout.endpoints().map(|node| node.id).collect();
    let goals = stations.iter().flat_map(|id| blueprint.loopbacks(*id));
    let mut hops = Hops::new(kernels, goals.collect());
    let mut standing = ConvergenceState::default();
    // The nodes from which packets of others arrive: paths merge, so that each of thousands of hops is followed
    // once.
    let mut arrives = vec![false; kernels.nodes.len()];
    for &to in &stations {
        let reached = reach.towards(to);
        for address in blueprint.loopbacks(to) {
            arrives.fill(false);
            for &from in stations.iter().filter(|&&from| from != to) {
                // Pairs that the topology separates do not count against the routes.
                if !reached[from.index()] {
                    continue;
                }
                standing.pairs += 1;
                let route = |node| hops.route(from, node, address);
                let (addresses, t_ns) = (&blueprint.addresses, snapshot.t_ns);
                let (ends, known) = ((from, address), |node: NodeId| arrives[node.index()]);
                let walked = walk_until(layout, snapshot, addresses, ends, t_ns, known, route)?;
                if walked.arrived() {
                    standing.good += 1;
                    // The first node is left out: it sends by its own table, but forwards for others by the map.
                    for hop in walked.hops.iter().skip(1) {
                        arrives[hop.from.index()] = true;
                    }
                } else if standing.example.is_none() {
                    standing.example = Some(describe(blueprint, from, address, &walked));
                }
            }
        }
    }
    Ok(standing)
}

pub(crate) fn describe(blueprint: &Blueprint, from: NodeId, to: IpAddr, walked: &Walk) -> String {
    let name = |id: NodeId| &blueprint.lab.layout.node(id).name;
    let goal = blueprint
        .addresses
        .node_of(to)
        .map_or_else(|| to.to_string(), |id| name(id).clone());
    let at = walked.hops.last().map_or(from, |hop| hop.to);
    format!(
        "{} to {goal} ({to}) stops at {}: {:?}",
        name(from),
        name(at),
        walked.end
    )
}
