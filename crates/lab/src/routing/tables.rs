//! What the kernels really route: read from their tables, walked over the edges that exist.
//!
//! Whether "routes stand" is never asked of a daemon: a route that a daemon believes in and the kernel lacks
//! carries nothing.

use std::net::IpAddr;
use std::sync::Arc;

use constel_host::netlink::{InstalledRoute, RouteTarget};
use constel_routing::walk::{Route, Table, Walk, walk_by, walk_until};
use constel_topology::{NodeId, Snapshot};

use crate::error::EngineError;
use crate::nodes::kernels::Kernels;
use constel_plan::{Blueprint, Ours, Reach};

/// `RTN_UNICAST`: the only kind that forwards.
pub(crate) const UNICAST: u8 = 1;
/// The main table.
pub(crate) const MAIN: u32 = 254;

/// For so many addresses it is cheaper to ask for each than to read a table, in which every node of a lab may be.
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
    if route.kind != UNICAST || route.table != MAIN {
        return None;
    }
    let (hop, choices) = match &route.target {
        RouteTarget::Hop(hop) => (hop, 1),
        // Several next hops: any of them must do, the first is looked at.
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

/// A node's route to one address; of a node on another machine, as far as it was planned.
fn lookup(kernels: &Kernels, node: NodeId, goal: IpAddr) -> Result<Option<Route>, EngineError> {
    let found = kernels.node(node).lookup(&[goal])?.into_iter();
    let found = found.flatten().next();
    Ok(found.and_then(|route| forwarding(&kernels.blueprint, node, &route)))
}

/// Follows the kernels from `from` to a loopback address as [`Tables::walk_at`] does, asking each on the way for its
/// route to this address alone: the cost does not grow with the tables.
///
/// # Errors
/// When a kernel does not answer.
pub(crate) fn walk_asking(
    kernels: &Kernels,
    snapshot: &Snapshot,
    from: NodeId,
    goal: IpAddr,
) -> Result<Walk, EngineError> {
    let blueprint = kernels.blueprint.as_ref();
    let layout = &blueprint.lab.layout;
    let ask = |node: NodeId| -> Result<Option<Route>, EngineError> {
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

/// How a node on the way forwards what `from` sends, where that is not its kernel's matter.
fn in_transit(kernels: &Kernels, from: NodeId, node: NodeId, goal: IpAddr) -> Option<Route> {
    if node == from {
        return None;
    }
    kernels.by_map(node, goal)
}

/// Tables as they were when a walk first came through a node: each is read once, and only if needed.
pub(crate) struct Tables<'a> {
    kernels: &'a Kernels,
    /// Which nodes are here.
    ours: Arc<Ours>,
    known: Vec<Option<Table>>,
}

impl<'a> Tables<'a> {
    /// Nothing read yet.
    pub(crate) fn new(kernels: &'a Kernels) -> Self {
        Self {
            kernels,
            ours: kernels.ours(),
            known: vec![None; kernels.nodes.len()],
        }
    }

    /// Follows the kernels from `from` to a loopback address over the edges as they are at a moment of the snapshot's
    /// step.
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

    /// A node's route to an address.
    fn route(&mut self, node: NodeId, goal: IpAddr) -> Result<Option<Route>, EngineError> {
        if let Some(route) = self.kernels.without_stack(node, goal) {
            return Ok(route);
        }
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

/// Routes to a few addresses: each node on a way is asked once, for all of them together. That costs what a handful
/// of entries of its table would, however long the table.
struct Asked<'a> {
    kernels: &'a Kernels,
    goals: Vec<IpAddr>,
    known: Vec<Option<Vec<Option<Route>>>>,
}

impl<'a> Asked<'a> {
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
                let found = self.kernels.node(node).lookup(&self.goals)?.into_iter();
                let found = found.map(|route| forwarding(&self.kernels.blueprint, node, &route?));
                known.insert(found.collect())
            }
        };
        let place = self.goals.iter().position(|known| *known == goal);
        Ok(place.and_then(|place| known[place]))
    }
}

/// Kernels on the ways of many walks to these addresses: each is asked once, in the way that costs least.
pub(crate) struct Hops<'a> {
    kernels: &'a Kernels,
    asked: Asked<'a>,
    tables: Tables<'a>,
}

impl<'a> Hops<'a> {
    /// Nobody asked yet.
    pub(crate) fn new(kernels: &'a Kernels, goals: Vec<IpAddr>) -> Self {
        Self {
            kernels,
            asked: Asked::new(kernels, goals),
            tables: Tables::new(kernels),
        }
    }

    /// How `node` forwards what `from` sends to one of the addresses.
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

/// What is still missing before every station reaches every other that the topology lets it reach.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// Pairs that arrive.
    pub(crate) good: usize,
    /// Ordered pairs looked at, each family counted.
    pub(crate) pairs: usize,
    /// A way that does not, in words; `None`: all do.
    pub(crate) example: Option<String>,
}

impl Standing {
    pub(crate) fn complete(&self) -> bool {
        self.example.is_none()
    }
}

/// Walks every ordered pair of stations between which the topology (or what was chosen beforehand) has a path, in every family.
///
/// # Errors
/// When a kernel does not answer.
pub(crate) fn standing(kernels: &Kernels, snapshot: &Snapshot) -> Result<Standing, EngineError> {
    let blueprint = kernels.blueprint.as_ref();
    let layout = &blueprint.lab.layout;
    let mut reach = Reach::new(&blueprint.lab, snapshot);
    let stations: Vec<NodeId> = layout.endpoints().map(|node| node.id).collect();
    let goals = stations.iter().flat_map(|id| blueprint.loopbacks(*id));
    let mut hops = Hops::new(kernels, goals.collect());
    let mut standing = Standing::default();
    // What others send arrives from these: ways come together, and of thousands of hops each is looked at once.
    let mut arrives = vec![false; kernels.nodes.len()];
    for &to in &stations {
        let reached = reach.towards(to);
        for address in blueprint.loopbacks(to) {
            arrives.fill(false);
            for &from in stations.iter().filter(|&&from| from != to) {
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
