//! Nodes without a stack: the link plane forwards for them, by a table that is written here.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use constel_host::netlink::{
    Batch, InstalledRoute, IpPrefix, NextHop, ROUTE_PROTOCOL, RouteTarget,
};
use constel_host::process::Child;
use constel_host::{Error, Result};
use constel_plan::{Blueprint, Forwarders, WayRow, node_ifindex};
use constel_routing::walk::Route;
use constel_runtime::{Door, Node, Program};
use constel_topology::NodeId;
use constel_transit::{Place, Table, Way};

use crate::error::EngineError;
use crate::routing::tables::{MAIN, UNICAST};

/// The table that the link plane forwards by, and which node is which in it.
pub(crate) struct Stackless {
    pub(crate) table: Arc<Table>,
    numbers: Forwarders,
    blueprint: Arc<Blueprint>,
}

impl Stackless {
    /// That of a lab, empty; `None`: all its nodes have a stack.
    ///
    /// # Errors
    /// When it would be too large.
    pub(crate) fn wanted(
        blueprint: &Arc<Blueprint>,
    ) -> std::result::Result<Option<Self>, EngineError> {
        let Some((numbers, spec)) = blueprint.forwarders() else {
            return Ok(None);
        };
        let table = Table::new(spec).map_err(|error| EngineError::Unable {
            what: error.to_string(),
            remedy: "take `routing: {destinations: ground}`, or give satellites a stack".to_owned(),
        })?;
        Ok(Some(Self {
            table: Arc::new(table),
            numbers,
            blueprint: Arc::clone(blueprint),
        }))
    }

    /// From now on packets go by these changes.
    pub(crate) fn put(&self, ways: &[WayRow]) {
        for row in ways {
            let numbers = self
                .member(row.node)
                .zip(self.numbers.goal(row.destination));
            let way = row.hop.map(|hop| Way {
                port: hop.port,
                far_port: hop.far_port,
            });
            if let Some((member, goal)) = numbers {
                self.table.set(member, goal, way);
            }
        }
    }

    /// A node's number in the table; `None`: it has a stack.
    pub(crate) fn member(&self, node: NodeId) -> Option<u32> {
        self.numbers.member(node)
    }

    /// How a node without a stack forwards to an address.
    pub(crate) fn route(&self, node: NodeId, to: IpAddr) -> Option<Route> {
        let Place::Towards(way) = self.table.place(self.member(node)?, to) else {
            return None;
        };
        Some(Route {
            prefix: to,
            prefix_len: if to.is_ipv4() { 32 } else { 128 },
            port: way.port,
            gateway: gateway(&self.blueprint, way, to),
            metric: 0,
            choices: 1,
        })
    }
}

fn gateway(blueprint: &Blueprint, way: Way, to: IpAddr) -> Option<IpAddr> {
    let far = blueprint.addresses.port(way.far_port);
    match to {
        IpAddr::V4(_) => far.v4.map(|(address, _)| address.into()),
        IpAddr::V6(_) => Some(far.v6_link_local.into()),
    }
}

/// One of them. It goes with the link plane.
pub(crate) struct StacklessNode {
    pub(crate) all: Arc<Stackless>,
    pub(crate) node: NodeId,
}

impl StacklessNode {
    fn installed(&self, to: IpAddr) -> Option<InstalledRoute> {
        let Blueprint { lab, addresses, .. } = self.all.blueprint.as_ref();
        let route = self.all.route(self.node, to)?;
        let hop = NextHop {
            ifindex: Some(node_ifindex(lab.layout.port(route.port))),
            via: route.gateway,
            weight: 1,
            onlink: false,
        };
        let own = addresses.loopback(self.node);
        Some(InstalledRoute {
            dst: IpPrefix::host(to),
            target: RouteTarget::Hop(hop),
            prefsrc: Some(if to.is_ipv4() {
                own.v4.into()
            } else {
                own.v6.into()
            }),
            metric: route.metric,
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

    fn tell(&self, batch: &mut Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        batch.clear();
        self.refused("it has no kernel to tell anything")
    }

    fn routes(&self) -> Result<Vec<InstalledRoute>> {
        let blueprint = &self.all.blueprint;
        let layout = &blueprint.lab.layout;
        let goals = layout.nodes().iter().map(|node| node.id);
        let goals = goals.filter(|node| self.all.numbers.goal(*node).is_some());
        let addresses = goals.flat_map(|node| blueprint.loopbacks(node));
        Ok(addresses.filter_map(|to| self.installed(to)).collect())
    }

    fn lookup(&self, addresses: &[IpAddr]) -> Result<Vec<Option<InstalledRoute>>> {
        Ok(addresses.iter().map(|to| self.installed(*to)).collect())
    }

    fn door(&self, _: &str) -> Result<Door> {
        self.refused("no program runs in it")
    }

    fn start(&self, program: Program<'_>) -> Result<Child> {
        self.refused(&format!("`{}` cannot run in it", program.argv.join(" ")))
    }

    fn end_connections(&self) -> Result<()> {
        Ok(())
    }
}
