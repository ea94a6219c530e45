//! Computed routing: shortest paths, written into the kernels by delta at every step.

use std::net::IpAddr;

use constel_host::netlink::{Batch, IpPrefix, NextHop, Route, RouteTarget};
use constel_link::PortId;
use constel_routing::foresight::Reaction;
use constel_routing::{
    Graph, GroundTransit, Loopback, Metric, RouteChange, Routes, Rule, ends_first,
};
use constel_scenario::model::{ComputedRouting, Destinations, Metric as Asked};
use constel_topology::{Layout, NodeId, NodeKind, Snapshot};
use constel_units::TimeSpan;

use crate::clock::mono_ns;
use crate::error::EngineError;
use crate::nodes::builder::LiveNode;
use crate::nodes::wiring::{Wiring, node_ifindex};
use crate::routing::disjoint::{Disjoint, PreparedPaths};
use crate::routing::oriented::Oriented;

/// The routes of all nodes as the kernels have them.
pub(crate) struct Computed {
    destinations: Vec<NodeId>,
    rule: Rule,
    installed: Routes,
    /// What the routes of the kernels were computed from.
    version: Version,
    /// Where nodes hear of failures by messages.
    oriented: Option<Oriented>,
    /// Where pairs have disjoint paths; then everybody knows of failures at once.
    disjoint: Option<Disjoint>,
}

/// The nodes that routes lead to.
pub(crate) fn destinations(layout: &Layout, asked: &ComputedRouting) -> Vec<NodeId> {
    let all = asked.destinations == Destinations::All;
    let wanted = layout.nodes().iter();
    let wanted = wanted.filter(|node| all || node.kind != NodeKind::Satellite);
    wanted.map(|node| node.id).collect()
}

/// What routes are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// For a step as a whole, from its time on.
    Step,
    /// For what is left of a step after something changed at this lab time, nanoseconds.
    Within(u64),
}

/// Changes of failed links by hand, where everybody knows of them at once; changes of what nodes have heard elsewhere.
type Version = u64;

impl Computed {
    /// Nothing installed yet.
    pub(crate) fn new(wiring: &Wiring, asked: &ComputedRouting) -> Self {
        Self {
            destinations: destinations(&wiring.lab.layout, asked),
            rule: Rule {
                metric: match asked.metric {
                    Asked::Delay => Metric::Delay,
                    Asked::Hops => Metric::Hops,
                },
                paths: asked.paths,
            },
            installed: Routes::default(),
            version: 0,
            oriented: asked.reaction.map(|r| {
                let ns = |span: TimeSpan| span.ns().unsigned_abs();
                let reaction = Reaction {
                    detect_ns: ns(r.detect),
                    processing_ns: ns(r.processing),
                    reach_hops: r.reach.map(u32::from),
                };
                Oriented::new(wiring, reaction)
            }),
            disjoint: Disjoint::wanted(wiring),
        }
    }

    fn version(&self, wiring: &Wiring) -> Version {
        let oriented = self.oriented.as_ref().map(Oriented::heard);
        oriented.unwrap_or_else(|| wiring.failed.version())
    }

    /// Where nodes hear of failures by messages.
    pub(crate) fn oriented(&self) -> Option<&Oriented> {
        self.oriented.as_ref()
    }

    /// Where pairs have disjoint paths.
    pub(crate) fn disjoint(&self) -> Option<&Disjoint> {
        self.disjoint.as_ref()
    }

    /// The same, to take out what it has to tell.
    pub(crate) fn disjoint_mut(&mut self) -> Option<&mut Disjoint> {
        self.disjoint.as_mut()
    }

    /// The next step is about to be prepared.
    pub(crate) fn foresee(&mut self) {
        if let Some(oriented) = &mut self.oriented {
            oriented.foresee();
        }
    }

    /// A step is in force, its routes in the kernels.
    pub(crate) fn begin(&mut self, wiring: &Wiring, snapshot: &Snapshot) {
        if let Some(oriented) = &mut self.oriented {
            oriented.begin(wiring, snapshot);
        }
    }

    /// Before the routes of lab time zero are computed.
    pub(crate) fn begin_knowing(&mut self, wiring: &Wiring, snapshot: &Snapshot) {
        if let Some(oriented) = &mut self.oriented {
            oriented.foresee();
            oriented.begin_knowing(wiring, snapshot);
        }
    }

    /// Whether routes must be computed anew at lab time `now_ns` of a step, for links failed or healed by hand, or
    /// messages that nodes have heard.
    pub(crate) fn outdated(&mut self, wiring: &Wiring, snapshot: &Snapshot, now_ns: u64) -> bool {
        if let Some(oriented) = &mut self.oriented {
            oriented.react(wiring, snapshot, now_ns);
        }
        self.version(wiring) != self.version
    }

    /// Whether what was prepared is still what is to be installed.
    pub(crate) fn holds(&self, wiring: &Wiring, prepared: &Prepared) -> bool {
        self.version(wiring) == prepared.version
    }

    /// What must change for `snapshot`, without the links failed by hand. Touches no kernel; they are told by
    /// [`Computed::install`].
    pub(crate) fn prepare(
        &mut self,
        wiring: &Wiring,
        snapshot: &Snapshot,
        moment: Moment,
    ) -> Prepared {
        let version = self.version(wiring);
        let layout = &wiring.lab.layout;
        let rest = wiring.failed.without(snapshot);
        let snapshot = rest.as_ref().unwrap_or(snapshot);
        let mut paths = None;
        let routes = match &mut self.oriented {
            Some(oriented) => oriented.routes(layout, snapshot, &self.destinations, self.rule),
            None => {
                let graph = Graph::new(layout, snapshot, GroundTransit::Never);
                let disjoint = self.disjoint.as_ref();
                paths = disjoint.map(|d| d.prepare(wiring, &graph, snapshot.t_ns, moment));
                Routes::compute_by(&graph, &self.destinations, self.rule)
            }
        };
        let changes = routes.changes_from(&self.installed, &wiring.addresses);
        Prepared {
            routes,
            version,
            changes,
            paths,
        }
    }

    /// Tells the map, where there is one, in the order that makes no loops.
    pub(crate) fn tell_map(wiring: &Wiring, prepared: &Prepared) {
        if let Some(forwarding) = &wiring.forwarding {
            let layout = &wiring.lab.layout;
            let changes = prepared.changes.iter();
            changes.for_each(|change| forwarding.put(layout, change));
        }
    }

    /// Tells the kernels, after [the map](Computed::tell_map), node by node in the order that makes no loops. Each
    /// node's socket stays open; a request is one send and one answer, and its changes are in the kernel's table when the
    /// send returns. Returns how many requests it took, and when the routes stood (`CLOCK_MONOTONIC`).
    ///
    /// # Errors
    /// When a kernel refuses a route: what is installed is then not what was computed.
    pub(crate) fn install(
        &mut self,
        wiring: &Wiring,
        nodes: &[LiveNode],
        mut prepared: Prepared,
    ) -> Result<(usize, u64), EngineError> {
        let layout = &wiring.lab.layout;
        let changes = &mut prepared.changes;
        let mut first = changes.len();
        if wiring.forwarding.is_some() {
            let ends = ends_first(changes, layout);
            // Where all who are spoken to are such, nothing waits for the others but what the map does not forward.
            if !self.destinations.iter().any(|d| layout.is_transit(*d)) {
                first = ends;
            }
        }
        let (first, rest) = changes.split_at(first);
        let mut requests = self.tell(wiring, nodes, first)?;
        let mut stood_ns = mono_ns();
        requests += self.tell(wiring, nodes, rest)?;
        self.installed = prepared.routes;
        self.version = prepared.version;
        if let (Some(disjoint), Some(paths)) = (&mut self.disjoint, prepared.paths) {
            requests += disjoint.install(wiring, nodes, paths)?;
            stood_ns = mono_ns();
        }
        Ok((requests, stood_ns))
    }

    /// Tells the kernels in this order; neighbouring changes of one node go together. Returns how many requests it took.
    fn tell(
        &self,
        wiring: &Wiring,
        nodes: &[LiveNode],
        changes: &[RouteChange],
    ) -> Result<usize, EngineError> {
        let mut batch = Batch::new();
        let mut requests = 0;
        for run in changes.chunk_by(|a, b| a.node == b.node) {
            for change in run {
                self.put(wiring, change, &mut batch)?;
            }
            send(nodes, run[0].node, &mut batch)?;
            requests += 1;
        }
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
    ) -> Result<(usize, u64), EngineError> {
        prepared.changes.sort_by_key(|change| change.node);
        if let Some(paths) = &mut prepared.paths {
            paths.node_by_node();
        }
        Self::tell_map(wiring, &prepared);
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
        let set = change.via.is_some();
        put(wiring, (goal, own), &hops, set, batch)
    }
}

/// The requests that set or remove the route to `goal` over these hops, in every family spoken; the node's own packets
/// go out as `source`.
///
/// # Errors
/// When they do not fit the kernel's format.
pub(crate) fn put(
    wiring: &Wiring,
    (goal, source): (Loopback, Loopback),
    hops: &[(PortId, PortId)],
    set: bool,
    batch: &mut Batch,
) -> Result<(), EngineError> {
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
        (dst, target(&gateway), IpAddr::from(source.v4))
    });
    let v6 = wiring.families.ipv6.then(|| {
        let gateway = |far| Some(IpAddr::from(wiring.addresses.port(far).v6_link_local));
        let dst = IpPrefix::host(goal.v6.into());
        (dst, target(&gateway), IpAddr::from(source.v6))
    });
    for (dst, target, source) in v4.into_iter().chain(v6) {
        let Some(target) = target else { continue };
        let mut route = Route::new(dst, target);
        route.prefsrc = Some(source);
        if set {
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

/// Routes of a step and the way there.
pub(crate) struct Prepared {
    routes: Routes,
    version: Version,
    changes: Vec<RouteChange>,
    paths: Option<PreparedPaths>,
}

impl Prepared {
    /// How many routes change.
    pub(crate) fn changes(&self) -> usize {
        let paths = self.paths.as_ref().map_or(0, PreparedPaths::changes);
        self.changes.len() + paths
    }
}

/// Sends what was gathered for a node; the kernel has carried it out when this returns.
///
/// # Errors
/// When the kernel refuses a part of it.
pub(crate) fn send(nodes: &[LiveNode], node: NodeId, batch: &mut Batch) -> Result<(), EngineError> {
    let mut socket = nodes[node.index()]
        .netlink
        .lock()
        .unwrap_or_else(|e| e.into_inner());
    Ok(socket.send(batch)?)
}
