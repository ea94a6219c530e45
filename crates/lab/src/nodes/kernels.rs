//! The kernels of one machine's nodes: what they are told and what they are asked.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, PoisonError, RwLock};

use constel_host::netlink::{
    AddressSpec, Batch, InstalledRoute, IpPrefix, Mac, NeighbourSpec, NextHop,
    Route as KernelRoute, RouteTarget,
};
use constel_plan::{
    Adjacency, Blueprint, Goal, LOOPBACK_IFINDEX, Neighbour, NodeSetup, Ours, RouteRow,
    node_ifindex,
};
use constel_routing::walk::Route;
use constel_runtime::Node;
use constel_scenario::model::Mode;
use constel_topology::{Addressing, NodeId};

use crate::error::EngineError;
use crate::nodes::elsewhere::Elsewhere;
use crate::nodes::own_stack::{OwnStacks, steady};
use crate::nodes::stackless::Stackless;
use crate::routing::forwarding::Forwarding;

/// `RT_TABLE_DEFAULT`: the kernel asks it last.
const TABLE_DEFAULT: u32 = 253;

/// Nodes that exist, with the map that packets in transit go by, where there is one.
pub(crate) struct Kernels {
    pub(crate) blueprint: Arc<Blueprint>,
    /// By node number; of those that are on other machines, what is known here.
    pub(crate) nodes: Vec<Box<dyn Node>>,
    /// Those that other machines have, or had when the lab came up.
    pub(crate) elsewhere: BTreeMap<NodeId, Elsewhere>,
    /// Which of them are here.
    pub(crate) here: Here,
    /// `None`: packets go by the kernels' tables.
    pub(crate) forwarding: Option<Arc<Forwarding>>,
    /// Those without a stack; `None`: all have one.
    pub(crate) stackless: Option<Arc<Stackless>>,
    /// What programs in nodes did to the nodes' stacks.
    pub(crate) own_stacks: OwnStacks,
}

/// Which nodes are here: more, once some come that a lost machine had.
pub(crate) struct Here(RwLock<Arc<Ours>>);

impl Here {
    pub(crate) fn new(ours: Ours) -> Self {
        Self(RwLock::new(Arc::new(ours)))
    }
}

impl Kernels {
    /// Which nodes are here now.
    pub(crate) fn ours(&self) -> Arc<Ours> {
        let ours = self.here.0.read();
        Arc::clone(&ours.unwrap_or_else(PoisonError::into_inner))
    }

    /// Nodes that were another machine's are here from now on.
    pub(crate) fn take_in(&self, nodes: Vec<(NodeId, Box<dyn Node>)>) {
        let mut ours = self.here.0.write().unwrap_or_else(PoisonError::into_inner);
        *ours = Arc::new(ours.and(nodes.iter().map(|(node, _)| *node)));
        for (node, live) in nodes {
            if let Some(elsewhere) = self.elsewhere.get(&node) {
                elsewhere.comes_here(live);
            }
        }
    }

    /// A node is on another machine of this name now.
    pub(crate) fn goes_to(&self, node: NodeId, machine: &str) {
        if let Some(elsewhere) = self.elsewhere.get(&node) {
            elsewhere.goes_to(machine);
        }
    }

    /// One node's kernel.
    pub(crate) fn node(&self, node: NodeId) -> &dyn Node {
        self.nodes[node.index()].as_ref()
    }

    /// Whether ways can be followed over every node: of nodes on other machines only what Constel plans is known here, and nobody plans
    /// what daemons do.
    pub(crate) fn knows_all_ways(&self) -> bool {
        let mode = &self.blueprint.lab.scenario.routing.mode;
        matches!(mode, Mode::Computed(_)) || self.count() == self.nodes.len()
    }

    /// How many nodes are here.
    pub(crate) fn count(&self) -> usize {
        let ours = self.ours();
        if ours.is_all() {
            return self.nodes.len();
        }
        let nodes = self.blueprint.lab.layout.nodes().iter();
        nodes.filter(|node| ours.has(node.id)).count()
    }

    /// Everything a node has in its tables; nothing while its programs change them so fast that they cannot be read.
    ///
    /// # Errors
    /// When its kernel does not answer.
    pub(crate) fn installed(&self, node: NodeId) -> Result<Vec<InstalledRoute>, EngineError> {
        Ok(steady(self.node(node).routes())?.unwrap_or_default())
    }

    /// Whether a node has no stack.
    fn forwards(&self, node: NodeId) -> bool {
        let member = |all: &Arc<Stackless>| all.member(node);
        self.stackless.as_ref().and_then(member).is_some()
    }

    /// How a node without a stack forwards to an address; `None`: it has a stack, or no way.
    pub(crate) fn without_stack(&self, node: NodeId, to: IpAddr) -> Option<Option<Route>> {
        let all = self.stackless.as_ref().filter(|_| self.forwards(node))?;
        Some(all.route(node, to))
    }

    /// A node's number in the link plane's table; `None`: it has a stack.
    pub(crate) fn member(&self, node: NodeId) -> Option<u32> {
        self.stackless.as_ref()?.member(node)
    }

    /// Whether there are nodes that only forward.
    pub(crate) fn has_members(&self) -> bool {
        self.stackless.is_some()
    }

    /// How a node forwards packets of others to an address by the map, if it does.
    pub(crate) fn by_map(&self, node: NodeId, to: IpAddr) -> Option<Route> {
        let forwarding = self.forwarding.as_ref()?;
        forwarding.route(&self.blueprint.addresses, node, to)
    }

    /// Sends what was gathered for a node; its kernel has carried it out when this returns, but for what a program in the node
    /// made impossible: that is asked again when it is possible.
    ///
    /// # Errors
    /// When the kernel refuses a part of it that no program in the node made impossible.
    pub(crate) fn tell(&self, node: NodeId, batch: &mut Batch) -> Result<(), EngineError> {
        match self.node(node).tell(batch) {
            Err(constel_host::Error::Batch(refusal)) => self.refused(node, refusal),
            told => Ok(told?),
        }
    }

    /// Nodes forget the far ends of links that went.
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

    /// Nodes learn of the far ends of links that came.
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
                // It knows whom its links lead to without being told.
                continue;
            }
            for neighbour in self.blueprint.neighbours(port, end.far_port) {
                ask(&mut batch, &neighbour);
            }
            self.tell(port.node, &mut batch)?;
        }
        Ok(())
    }

    /// Tells routes in this order; neighbouring rows of one node go together. Returns how many requests it took.
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

    /// Where a route leads, and as whom the node sends that way, in every family that the goal has.
    fn ends_of(&self, row: &RouteRow) -> Vec<(IpAddr, IpAddr)> {
        let addresses = &self.blueprint.addresses;
        let own = addresses.loopback(row.node);
        let (goal, source) = match row.goal {
            Goal::Node(destination) => (addresses.loopback(destination), own),
            Goal::Port(port) => {
                let v4 = addresses.port(port).v4.map(|(v4, _)| v4);
                let source = addresses.beside(&self.blueprint.lab.layout, row.node, port);
                let source = source.unwrap_or(own.v4);
                return v4
                    .map(|v4| (v4.into(), source.into()))
                    .into_iter()
                    .collect();
            }
            Goal::Path(end) => {
                let paths = addresses.paths();
                // What a pair's node sends to the other end of a path comes from its own end of it: answers then
                // take the same path.
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

    /// The requests of one row, in every family spoken.
    fn put(&self, row: &RouteRow, batch: &mut Batch) -> Result<(), EngineError> {
        for route in self.kernel_routes(row) {
            if row.set {
                batch.replace_route(&route)?;
            } else {
                // Gone already is as good: the kernel drops routes together with what they lead over.
                batch
                    .delete_route(&route)?
                    .tolerate(rustix::io::Errno::SRCH.raw_os_error());
            }
        }
        Ok(())
    }

    /// The routes of one row as the kernel has them, in every family spoken.
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
                let via = match v4 {
                    true => far.v4.map(|(address, _)| IpAddr::from(address)),
                    false => Some(IpAddr::from(far.v6_link_local)),
                };
                let next = NextHop::via(ifindex, via?);
                // A route to this gateway's own address over another member would make the kernel refuse the gateway.
                let shared = lab.layout.port(hop.far_port).addressing == Addressing::SharedSubnet;
                let onlink = v4 && shared;
                Some(NextHop { onlink, ..next })
            };
            let mut next: Vec<NextHop> = row.hops().filter_map(hop).collect();
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

/// The requests that set a fresh node up.
///
/// # Errors
/// None that the address plan leaves room for.
pub(crate) fn set_up(setup: &NodeSetup, batch: &mut Batch) -> Result<(), EngineError> {
    batch.link_up(LOOPBACK_IFINDEX);
    for address in &setup.loopback {
        let prefix = IpPrefix::host(*address);
        batch.add_address(&AddressSpec::new(LOOPBACK_IFINDEX, prefix));
    }
    for port in &setup.ports {
        batch.link_up(port.ifindex);
        if let Some((addr, len)) = port.address {
            // The lengths of the address plan fit by construction.
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

/// The route for IPv4 multicast of programs that name no interface. IPv6 has such a route by itself. It is asked after the
/// main table, so that a route of the node's own goes before.
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
