//! Computed routing: shortest paths, written into the kernels by delta at every step.

use std::net::IpAddr;

use constel_host::netlink::{Batch, IpPrefix, NextHop, Route, RouteTarget};
use constel_link::PortId;
use constel_routing::{Graph, GroundTransit, Metric, RouteChange, Routes, Rule};
use constel_scenario::model::{ComputedRouting, Destinations, Metric as Asked};
use constel_topology::{NodeId, NodeKind, Snapshot};

use crate::error::EngineError;
use crate::nodes::LiveNode;
use crate::wiring::{Wiring, node_ifindex};

/// The routes of all nodes as the kernels have them.
pub(crate) struct Computed {
    destinations: Vec<NodeId>,
    rule: Rule,
    installed: Routes,
    /// Changes of failed links that the kernels know of.
    failed_version: u64,
}

impl Computed {
    /// Nothing installed yet.
    pub(crate) fn new(wiring: &Wiring, asked: ComputedRouting) -> Self {
        let reach = asked.destinations;
        let destinations = wiring
            .lab
            .layout
            .nodes()
            .iter()
            .filter(|node| reach == Destinations::All || node.kind != NodeKind::Satellite)
            .map(|node| node.id)
            .collect();
        Self {
            destinations,
            rule: Rule {
                metric: match asked.metric {
                    Asked::Delay => Metric::Delay,
                    Asked::Hops => Metric::Hops,
                },
                paths: asked.paths,
            },
            installed: Routes::default(),
            failed_version: 0,
        }
    }

    /// Whether links were failed or healed by hand since the routes of the kernels were computed.
    pub(crate) fn outdated(&self, wiring: &Wiring) -> bool {
        wiring.failed.version() != self.failed_version
    }

    /// What must change for `snapshot`, without the links failed by hand. Pure; the kernels are told by
    /// [`Computed::install`].
    pub(crate) fn prepare(&self, wiring: &Wiring, snapshot: &Snapshot) -> Prepared {
        let failed_version = wiring.failed.version();
        let rest = wiring.failed.without(snapshot);
        let snapshot = rest.as_ref().unwrap_or(snapshot);
        let graph = Graph::new(&wiring.lab.layout, snapshot, GroundTransit::Never);
        let routes = Routes::compute_by(&graph, &self.destinations, self.rule);
        let changes = routes.changes_from(&self.installed, &wiring.addresses);
        Prepared {
            routes,
            failed_version,
            changes,
        }
    }

    /// Tells the kernels, node by node in the order that makes no loops. Each node's socket stays open; a request is
    /// one send and one answer, and its changes are in the kernel's table when the send returns. Returns how many
    /// requests it took.
    ///
    /// # Errors
    /// When a kernel refuses a route: what is installed is then not what was computed.
    pub(crate) fn install(
        &mut self,
        wiring: &Wiring,
        nodes: &[LiveNode],
        prepared: Prepared,
    ) -> Result<usize, EngineError> {
        let mut batch = Batch::new();
        let mut requests = 0;
        // Neighbouring changes of one node go together; others must not be reordered.
        for run in prepared.changes.chunk_by(|a, b| a.node == b.node) {
            for change in run {
                self.put(wiring, change, &mut batch)?;
            }
            send(nodes, run[0].node, &mut batch)?;
            requests += 1;
        }
        self.installed = prepared.routes;
        self.failed_version = prepared.failed_version;
        Ok(requests)
    }

    /// Tells empty kernels: nothing is forwarded yet, so order does not matter and each node gets all its
    /// routes in one go.
    ///
    /// # Errors
    /// As [`Computed::install`].
    pub(crate) fn install_first(
        &mut self,
        wiring: &Wiring,
        nodes: &[LiveNode],
        mut prepared: Prepared,
    ) -> Result<usize, EngineError> {
        prepared.changes.sort_by_key(|change| change.node);
        self.install(wiring, nodes, prepared)
    }

    /// The requests of one change, in every family spoken.
    fn put(
        &self,
        wiring: &Wiring,
        change: &RouteChange,
        batch: &mut Batch,
    ) -> Result<(), EngineError> {
        let hops: Vec<(PortId, PortId)> = if change.via.is_some() {
            change.vias().map(|via| (via.port, via.far_port)).collect()
        } else {
            // What goes is named whole, so that nothing else can be hit.
            let gone = self.installed.hops(change.node, change.destination);
            gone.map(|hop| (hop.port, hop.far_port)).collect()
        };
        let own = wiring.addresses.loopback(change.node);
        let goal = wiring.addresses.loopback(change.destination);
        let target = |gateway_of: &dyn Fn(PortId) -> Option<IpAddr>| {
            let mut next: Vec<NextHop> = hops
                .iter()
                .filter_map(|(port, far)| {
                    let ifindex = node_ifindex(wiring.lab.layout.port(*port));
                    Some(NextHop::via(ifindex, gateway_of(*far)?))
                })
                .collect();
            match next.len() {
                0 | 1 => next.pop().map(RouteTarget::Hop),
                _ => Some(RouteTarget::Multipath(next)),
            }
        };
        let v4 = wiring.families.ipv4.then(|| {
            let gateway = |far| wiring.addresses.port(far).v4.map(|(a, _)| IpAddr::from(a));
            let dst = IpPrefix::host(goal.v4.into());
            (dst, target(&gateway), IpAddr::from(own.v4))
        });
        let v6 = wiring.families.ipv6.then(|| {
            let gateway = |far| Some(IpAddr::from(wiring.addresses.port(far).v6_link_local));
            let dst = IpPrefix::host(goal.v6.into());
            (dst, target(&gateway), IpAddr::from(own.v6))
        });
        for (dst, target, source) in v4.into_iter().chain(v6) {
            let Some(target) = target else { continue };
            let mut route = Route::new(dst, target);
            route.prefsrc = Some(source);
            if change.via.is_some() {
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
}

/// Routes of a step and the way there.
pub(crate) struct Prepared {
    routes: Routes,
    /// Changes of failed links that it knows of.
    pub(crate) failed_version: u64,
    pub(crate) changes: Vec<RouteChange>,
}

fn send(nodes: &[LiveNode], node: NodeId, batch: &mut Batch) -> Result<(), EngineError> {
    let mut socket = nodes[node.index()]
        .netlink
        .lock()
        .unwrap_or_else(|e| e.into_inner());
    Ok(socket.send(batch)?)
}
