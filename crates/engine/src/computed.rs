//! Computed routing: paths of least delay, written into the kernels by delta at every step.

use std::net::IpAddr;

use constel_host::netlink::{Batch, IpPrefix, NextHop, Route, RouteTarget};
use constel_routing::{Graph, GroundTransit, RouteChange, Routes};
use constel_scenario::model::Destinations;
use constel_topology::{NodeId, NodeKind, Snapshot};

use crate::error::EngineError;
use crate::nodes::LiveNode;
use crate::wiring::{Wiring, node_ifindex};

/// The routes of all nodes as the kernels have them.
pub(crate) struct Computed {
    destinations: Vec<NodeId>,
    installed: Routes,
    /// Changes of failed links that the kernels know of.
    failed_version: u64,
}

impl Computed {
    /// Nothing installed yet.
    pub(crate) fn new(wiring: &Wiring, reach: Destinations) -> Self {
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
        let routes = Routes::compute(&graph, &self.destinations);
        let changes = routes.changes_from(&self.installed, &wiring.addresses);
        Prepared {
            routes,
            failed_version,
            changes,
        }
    }

    /// Tells the kernels, node by node in the order that makes no loops.
    ///
    /// # Errors
    /// When a kernel refuses a route: what is installed is then not what was computed.
    pub(crate) fn install(
        &mut self,
        wiring: &Wiring,
        nodes: &[LiveNode],
        prepared: Prepared,
    ) -> Result<(), EngineError> {
        let mut batch = Batch::new();
        // Neighbouring changes of one node go together; others must not be reordered.
        for run in prepared.changes.chunk_by(|a, b| a.node == b.node) {
            for change in run {
                self.put(wiring, change, &mut batch)?;
            }
            send(nodes, run[0].node, &mut batch)?;
        }
        self.installed = prepared.routes;
        self.failed_version = prepared.failed_version;
        Ok(())
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
    ) -> Result<(), EngineError> {
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
        let hop = match change.via {
            Some(via) => Some((via.port, via.far_port)),
            // What goes is named whole, so that nothing else can be hit.
            None => self
                .installed
                .next_hop(change.node, change.destination)
                .map(|hop| (hop.port, hop.far_port)),
        };
        let Some((port, far_port)) = hop else {
            return Ok(());
        };
        let own = wiring.addresses.loopback(change.node);
        let goal = wiring.addresses.loopback(change.destination);
        let far = wiring.addresses.port(far_port);
        let v4 = far.v4.filter(|_| wiring.families.ipv4).map(|(gateway, _)| {
            (
                IpPrefix::host(goal.v4.into()),
                IpAddr::from(gateway),
                IpAddr::from(own.v4),
            )
        });
        let v6 = wiring.families.ipv6.then(|| {
            (
                IpPrefix::host(goal.v6.into()),
                far.v6_link_local.into(),
                IpAddr::from(own.v6),
            )
        });
        let ifindex = node_ifindex(wiring.lab.layout.port(port));
        for (dst, gateway, source) in v4.into_iter().chain(v6) {
            let mut route = Route::new(dst, RouteTarget::Hop(NextHop::via(ifindex, gateway)));
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
