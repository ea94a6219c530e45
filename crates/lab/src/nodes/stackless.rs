//! Nodes without a stack: the link plane forwards for them, with a table that this module writes.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use constel_containers::runtime::{Node, NodeEntry, Program};
use constel_host::netlink::{
    Batch, InstalledRoute, IpPrefix, NextHop, ROUTE_PROTOCOL, RouteTarget,
};
use constel_host::process::Child;
use constel_host::{Error, Result};
use constel_link::transit::{NeighbourRoute, Table};
use constel_plan::{Blueprint, Forwarders, RouteDestination, RoutesPlan, node_ifindex};
use constel_routing::walk::Route;
use constel_topology::NodeId;

use crate::error::EngineError;
use crate::routing::tables::{MAIN, UNICAST};

/// The link plane's forwarding table, and the numbers of nodes in it.
pub(crate) struct Stackless {
    pub(crate) table: Arc<Table>,
    numbers: Forwarders,
    /// The addresses of all destinations.
    goals: Vec<IpAddr>,
    blueprint: Arc<Blueprint>,
}

impl Stackless {
    /// Creates the empty table of a lab; `None` if all its nodes have a stack.
    ///
    /// # Errors
    /// When the table would be too large.
    pub(crate) fn wanted(
        blueprint: &Arc<Blueprint>,
    ) -> std::result::Result<Option<Self>, EngineError> {
        let Some((numbers, spec)) = blueprint.forwarders() else {
            return Ok(None);
        };
        let goals = spec.goals.iter().flat_map(|goal| goal.0.iter().copied());
        let goals = goals.collect();
        let table = Table::new(spec).map_err(|error| EngineError::Unable {
            what: error.to_string(),
            remedy: "take `routing: {destinations: ground}`, or give satellites a stack".to_owned(),
        })?;
        Ok(Some(Self {
            table: Arc::new(table),
            numbers,
            goals,
            blueprint: Arc::clone(blueprint),
        }))
    }

    /// Applies changes of routes; packets follow them from now on.
    pub(crate) fn put(&self, routes: &RoutesPlan) {
        // A row without a next hop clears the entry.
        for row in &routes.ways {
            let way = row.hop.map(way_of);
            self.set(
                row.node,
                RouteDestination::Node(row.destination),
                way.as_slice(),
            );
        }
        for row in &routes.shared_ways {
            let ways: Vec<NeighbourRoute> = row.hops.iter().copied().map(way_of).collect();
            self.set(row.node, row.goal, &ways);
        }
    }

    fn set(&self, node: NodeId, goal: RouteDestination, ways: &[NeighbourRoute]) {
        // Rows of nodes with a stack, and of destinations that the table lacks, are ignored.
        if let Some((member, goal)) = self.member(node).zip(self.numbers.goal(goal)) {
            self.table.set(member, goal, ways);
        }
    }

    /// Returns a node's number in the table; `None` if it has a stack.
    pub(crate) fn member(&self, node: NodeId) -> Option<u32> {
        self.numbers.member(node)
    }

    /// Returns how a node without a stack forwards to an address.
    pub(crate) fn route(&self, node: NodeId, to: IpAddr) -> Option<Route> {
        let ways = self.table.ways_to(self.member(node)?, to);
        // Any of several next hops must lead there; the first is followed.
        let way = *ways.first()?;
        Some(Route {
            prefix: to,
            prefix_len: if to.is_ipv4() { 32 } else { 128 },
            port: way.port,
            gateway: gateway(&self.blueprint, way, to),
            metric: 0,
            choices: u8::try_from(ways.len()).unwrap_or(u8::MAX),
        })
    }
}

fn way_of(hop: constel_routing::graph::NextHop) -> NeighbourRoute {
    NeighbourRoute {
        port: hop.port,
        far_port: hop.far_port,
    }
}

fn gateway(blueprint: &Blueprint, way: NeighbourRoute, to: IpAddr) -> Option<IpAddr> {
    let far = blueprint.addresses.port(way.far_port);
    match to {
        IpAddr::V4(_) => far.v4.map(|(address, _)| address.into()),
        IpAddr::V6(_) => Some(far.v6_link_local.into()),
    }
}

/// A node without a stack. It exists as long as the link plane.
pub(crate) struct StacklessNode {
    pub(crate) all: Arc<Stackless>,
    pub(crate) node: NodeId,
}

impl StacklessNode {
    fn installed(&self, to: IpAddr) -> Option<InstalledRoute> {
        let Blueprint { lab, addresses, .. } = self.all.blueprint.as_ref();
        let ways = self.all.table.ways_to(self.all.member(self.node)?, to);
        // The result has the form of a kernel's route, so that callers need not distinguish these nodes.
        let hop = |way: &NeighbourRoute| NextHop {
            ifindex: Some(node_ifindex(lab.layout.port(way.port))),
            via: gateway(&self.all.blueprint, *way, to),
            weight: 1,
            onlink: false,
        };
        let target = match &ways[..] {
            [] => return None,
            [way] => RouteTarget::Hop(hop(way)),
            several => RouteTarget::Multipath(several.iter().map(hop).collect()),
        };
        let own = addresses.loopback(self.node);
        Some(InstalledRoute {
            dst: IpPrefix::host(to),
            target,
            prefsrc: Some(if to.is_ipv4() {
                own.v4.into()
            } else {
                own.v6.into()
            }),
            metric: 0,
            protocol: ROUTE_PROTOCOL,
            table: MAIN,
            kind: UNICAST,
        })
    }

    fn refused<T>(&self, what: &str) -> Result<T> {
        let name = &self.all.blueprint.lab.layout.node(self.node).name;
        Err(Error::Invalid(format!(
            "`{name}` only forwards (`runtime: forward`) and has no network stack: {what}\n  \
             give it one: `nodes: {{overrides: [{{nodes: [{name}], set: {{runtime: netns}}}}]}}`"
        )))
    }
}

impl Node for StacklessNode {
    fn netns_path(&self) -> PathBuf {
        PathBuf::new()
    }

    // An empty batch needs no kernel.
    fn tell(&self, batch: &mut Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        batch.clear();
        self.refused("it has no kernel of its own")
    }

    fn routes(&self) -> Result<Vec<InstalledRoute>> {
        let goals = self.all.goals.iter();
        Ok(goals.filter_map(|to| self.installed(*to)).collect())
    }

    fn lookup(&self, addresses: &[IpAddr]) -> Result<Vec<Option<InstalledRoute>>> {
        Ok(addresses.iter().map(|to| self.installed(*to)).collect())
    }

    fn door(&self, _: &str) -> Result<NodeEntry> {
        self.refused("no program runs in it")
    }

    fn start(&self, program: Program<'_>) -> Result<Child> {
        self.refused(&format!("`{}` cannot run in it", program.argv.join(" ")))
    }

    fn end_connections(&self) -> Result<()> {
        Ok(())
    }
}
