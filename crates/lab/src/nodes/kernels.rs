//! The kernels of one machine's nodes: requests to them and queries.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, PoisonError, RwLock};

use constel_containers::runtime::Node;
use constel_host::netlink::{
    AddressSpec, Batch, InstalledRoute, IpPrefix, Mac, NeighbourSpec, NextHop,
    Route as KernelRoute, RouteTarget,
};
use constel_plan::{
    Adjacency, Blueprint, LOOPBACK_IFINDEX, LocalNodes, Neighbour, NodeSetup, RouteDestination,
    RouteRow, node_ifindex,
};
use constel_routing::walk::Route;
use constel_scenario::model::Mode;
use constel_topology::{Addressing, NodeId};

use crate::error::EngineError;
use crate::nodes::elsewhere::Elsewhere;
use crate::nodes::own_stack::{OwnStacks, steady};
use crate::nodes::stackless::Stackless;
use crate::routing::forwarding::Forwarding;

/// `RT_TABLE_DEFAULT`, which the kernel looks up last.
const TABLE_DEFAULT: u32 = 253;

/// The existing nodes, with the map for packets in transit, if there is one.
pub(crate) struct Kernels {
    pub(crate) blueprint: Arc<Blueprint>,
    /// The nodes by number; for nodes of other machines their placeholders.
    pub(crate) nodes: Vec<Box<dyn Node>>,
    /// The nodes that other machines have, or had when the lab came up.
    pub(crate) elsewhere: BTreeMap<NodeId, Elsewhere>,
    /// The nodes that are on this machine.
    pub(crate) here: Here,
    /// The map for packets in transit; `None` if the kernels' tables forward them.
    pub(crate) forwarding: Option<Arc<Forwarding>>,
    /// The nodes without a stack; `None` if all nodes have one.
    pub(crate) stackless: Option<Arc<Stackless>>,
    /// The changes that programs in nodes made to the nodes' stacks.
    pub(crate) own_stacks: OwnStacks,
}

/// The nodes of this machine, to which nodes of lost machines may be added.
pub(crate) struct Here(RwLock<Arc<LocalNodes>>);

impl Here {
    pub(crate) fn new(ours: LocalNodes) -> Self {
        Self(RwLock::new(Arc::new(ours)))
    }
}

impl Kernels {
    /// Returns the nodes of this machine now.
    pub(crate) fn ours(&self) -> Arc<LocalNodes> {
        let ours = self.here.0.read();
        Arc::clone(&ours.unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in nodes that belonged to another machine.
    pub(crate) fn take_in(&self, nodes: Vec<(NodeId, Box<dyn Node>)>) {
        // The lock is held until the nodes are in place: a reader of the new set also finds the nodes.
        let mut ours = self.here.0.write().unwrap_or_else(PoisonError::into_inner);
        *ours = Arc::new(ours.and(nodes.iter().map(|(node, _)| *node)));
        for (node, live) in nodes {
            if let Some(elsewhere) = self.elsewhere.get(&node) {
                elsewhere.comes_here(live);
            }
        }
    }

    /// Records that a node is now on another machine with this name.
    pub(crate) fn goes_to(&self, node: NodeId, machine: &str) {
        if let Some(elsewhere) = self.elsewhere.get(&node) {
            elsewhere.goes_to(machine);
        }
    }

    /// Returns one node's kernel.
    pub(crate) fn node(&self, node: NodeId) -> &dyn Node {
        self.nodes[node.index()].as_ref()
    }

    /// Returns whether paths can be followed over every node. For nodes on other machines only routes that
    /// Constel computes are known here, not those of daemons.
    pub(crate) fn knows_all_ways(&self) -> bool {
        let mode = &self.blueprint.lab.scenario.routing.mode;
        matches!(mode, Mode::Computed(_)) || self.count() == self.nodes.len()
    }

    /// Returns the number of nodes on this machine.
    pub(crate) fn count(&self) -> usize {
        let ours = self.ours();
        if ours.is_all() {
            return self.nodes.len();
        }
        let nodes = self.blueprint.lab.layout.nodes().iter();
        nodes.filter(|node| ours.has(node.id)).count()
    }

    /// Returns all routes of a node's tables; empty if its programs change them so fast that they cannot be read.
    ///
    /// # Errors
    /// When its kernel does not answer.
    pub(crate) fn installed(&self, node: NodeId) -> Result<Vec<InstalledRoute>, EngineError> {
        Ok(steady(self.node(node).routes())?.unwrap_or_default())
    }

    /// Returns whether a node has no stack.
    fn forwards(&self, node: NodeId) -> bool {
        let member = |all: &Arc<Stackless>| all.member(node);
        self.stackless.as_ref().and_then(member).is_some()
    }

    /// Returns how a node without a stack forwards to an address; the outer `None` means that it has a stack, the
    /// inner one that it has no route.
    pub(crate) fn without_stack(&self, node: NodeId, to: IpAddr) -> Option<Option<Route>> {
        let all = self.stackless.as_ref().filter(|_| self.forwards(node))?;
        Some(all.route(node, to))
    }

    /// Returns a node's number in the link plane's table; `None` if it has a stack.
    pub(crate) fn member(&self, node: NodeId) -> Option<u32> {
        self.stackless.as_ref()?.member(node)
    }

    /// Returns whether there are nodes that only forward.
    pub(crate) fn has_members(&self) -> bool {
        self.stackless.is_some()
    }

    /// Returns how the map forwards transit packets of a node to an address, if it does.
    pub(crate) fn by_map(&self, node: NodeId, to: IpAddr) -> Option<Route> {
        let forwarding = self.forwarding.as_ref()?;
        forwarding.route(&self.blueprint.addresses, node, to)
    }

    /// Sends the collected requests to a node. When this returns the node's kernel has applied them, except those that a
    /// program in the node made impossible; these are repeated later.
    ///
    /// # Errors
    /// When the kernel refuses a request that no program in the node made impossible.
    pub(crate) fn tell(&self, node: NodeId, batch: &mut Batch) -> Result<(), EngineError> {
        // A refusal may be caused by a program in the node, which `refused` determines.
        match self.node(node).tell(batch) {
            Err(constel_host::Error::Batch(refusal)) => self.refused(node, refusal),
            told => Ok(told?),
        }
    }

    /// Removes the neighbour entries of far ends of removed links.
    ///
    /// # Errors
    /// When a kernel refuses.
    pub(crate) fn forget(&self, gone: &[Adjacency]) -> Result<(), EngineError> {
        self.each_neighbour(gone, |batch, neighbour| {
            batch
                .delete_neighbour(&spec(neighbour))
                .tolerate(rustix::io::Errno::NOENT.raw_os_error());
        })
    }

    /// Adds the neighbour entries of far ends of new links.
    ///
    /// # Errors
    /// When a kernel refuses.
    pub(crate) fn learn(&self, come: &[Adjacency]) -> Result<(), EngineError> {
        self.each_neighbour(come, |batch, neighbour| {
            batch.replace_neighbour(&spec(neighbour));
        })
    }

    fn each_neighbour(
        &self,
        ends: &[Adjacency],
        ask: impl Fn(&mut Batch, &Neighbour),
    ) -> Result<(), EngineError> {
        let layout = &self.blueprint.lab.layout;
        let mut batch = Batch::new();
        for end in ends {
            let port = layout.port(end.port);
            if self.forwards(port.node) {
                // A node without a stack has no neighbour table.
                continue;
            }
            for neighbour in self.blueprint.neighbours(port, end.far_port) {
                ask(&mut batch, &neighbour);
            }
            self.tell(port.node, &mut batch)?;
        }
        Ok(())
    }

    /// Installs routes in this order. Consecutive rows of one node share a request. Returns the number of requests.
    ///
    /// # Errors
    /// When a kernel refuses a route, or rows do not fit its format.
    pub(crate) fn route(&self, rows: &[RouteRow]) -> Result<usize, EngineError> {
        let mut batch = Batch::new();
        let mut requests = 0;
        for run in rows.chunk_by(|a, b| a.node == b.node) {
            for row in run {
                self.put(row, &mut batch)?;
            }
            self.tell(run[0].node, &mut batch)?;
            requests += 1;
        }
        Ok(requests)
    }

    /// Returns the destination address of a route and the source address for it, in every family that the
    /// destination has.
    fn ends_of(&self, row: &RouteRow) -> Vec<(IpAddr, IpAddr)> {
        let addresses = &self.blueprint.addresses;
        let own = addresses.loopback(row.node);
        let (goal, source) = match row.goal {
            RouteDestination::Node(destination) => (addresses.loopback(destination), own),
            RouteDestination::Port(port) => {
                let v4 = addresses.port(port).v4.map(|(v4, _)| v4);
                let source = addresses.beside(&self.blueprint.lab.layout, row.node, port);
                let source = source.unwrap_or(own.v4);
                return v4
                    .map(|v4| (v4.into(), source.into()))
                    .into_iter()
                    .collect();
            }
            RouteDestination::Path(end) => {
                let paths = addresses.paths();
                // A pair's node sends to the other end of a path from its own end of it, so that answers take the
                // same path.
                let at_the_end = paths.node(end.other()) == row.node;
                let source = if at_the_end {
                    paths.address(end.other())
                } else {
                    own
                };
                (paths.address(end), source)
            }
        };
        vec![
            (goal.v4.into(), source.v4.into()),
            (goal.v6.into(), source.v6.into()),
        ]
    }

    /// Adds the requests of one row to a batch, in every family in use.
    fn put(&self, row: &RouteRow, batch: &mut Batch) -> Result<(), EngineError> {
        for route in self.kernel_routes(row) {
            if row.set {
                batch.replace_route(&route)?;
            } else {
                // A missing route is no error: the kernel drops routes together with their interface.
                batch
                    .delete_route(&route)?
                    .tolerate(rustix::io::Errno::SRCH.raw_os_error());
            }
        }
        Ok(())
    }

    /// Returns the kernel routes of one row, in every family in use.
    pub(super) fn kernel_routes(&self, row: &RouteRow) -> Vec<KernelRoute> {
        let Blueprint {
            lab,
            addresses,
            families,
            ..
        } = self.blueprint.as_ref();
        let mut routes = Vec::new();
        for (goal, source) in self.ends_of(row) {
            let v4 = goal.is_ipv4();
            let spoken = if v4 { families.ipv4 } else { families.ipv6 };
            if !spoken {
                continue;
            }
            let hop = |hop: constel_routing::graph::NextHop| {
                let ifindex = node_ifindex(lab.layout.port(hop.port));
                let far = addresses.port(hop.far_port);
                // IPv6 next hops are link-local addresses, which every port has.
                let via = match v4 {
                    true => far.v4.map(|(address, _)| IpAddr::from(address)),
                    false => Some(IpAddr::from(far.v6_link_local)),
                };
                let next = NextHop::via(ifindex, via?);
                // `onlink`: a route to this gateway's own address over another member would make the kernel refuse
                // the gateway.
                let shared = lab.layout.port(hop.far_port).addressing == Addressing::SharedSubnet;
                let onlink = v4 && shared;
                Some(NextHop { onlink, ..next })
            };
            let mut next: Vec<NextHop> = row.hops().filter_map(hop).collect();
            // Several next hops form one multipath route; without a usable next hop there is no route in this
            // family.
            let target = match next.len() {
                0 | 1 => next.pop().map(RouteTarget::Hop),
                _ => Some(RouteTarget::Multipath(next)),
            };
            let Some(target) = target else { continue };
            let mut route = KernelRoute::new(IpPrefix::host(goal), target);
            route.prefsrc = Some(source);
            routes.push(route);
        }
        routes
    }
}

pub(super) fn spec(neighbour: &Neighbour) -> NeighbourSpec {
    NeighbourSpec {
        ifindex: neighbour.ifindex,
        addr: neighbour.address,
        mac: Mac(neighbour.mac),
    }
}

/// Adds the requests that set up a new node.
///
/// # Errors
/// No error occurs for addresses of the address plan.
pub(crate) fn set_up(setup: &NodeSetup, batch: &mut Batch) -> Result<(), EngineError> {
    batch.link_up(LOOPBACK_IFINDEX);
    for address in &setup.loopback {
        let prefix = IpPrefix::host(*address);
        batch.add_address(&AddressSpec::new(LOOPBACK_IFINDEX, prefix));
    }
    for port in &setup.ports {
        batch.link_up(port.ifindex);
        if let Some((addr, len)) = port.address {
            // The address plan has only valid prefix lengths.
            let prefix = IpPrefix { addr, len };
            batch.add_address(&AddressSpec::new(port.ifindex, prefix));
        }
        for neighbour in &port.neighbours {
            batch.replace_neighbour(&spec(neighbour));
        }
    }
    if let Some(route) = multicast_route(setup) {
        batch.replace_route(&route)?;
    }
    Ok(())
}

/// Returns the route for IPv4 multicast of programs that name no interface. IPv6 has such a route without it. Its
/// table is looked up after the main table, so that a route of the node itself has priority.
pub(super) fn multicast_route(setup: &NodeSetup) -> Option<KernelRoute> {
    let groups = IpPrefix {
        addr: Ipv4Addr::new(224, 0, 0, 0).into(),
        len: 4,
    };
    let by = RouteTarget::Hop(NextHop::dev(setup.multicast?));
    Some(KernelRoute {
        table: TABLE_DEFAULT,
        ..KernelRoute::new(groups, by)
    })
}
