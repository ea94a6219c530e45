//! Forwarding by one map that all nodes share, if the scenario asks for it. Routes are written to the map before
//! they are written to the kernels' tables.

use std::collections::BTreeMap;
use std::net::IpAddr;

use constel_drivers::bpf::BpfError;
use constel_drivers::forward::{Forwarder, NodeRoute};
use constel_routing::AddressPlan;
use constel_routing::walk::Route;
use constel_scenario::model::{Forwarding as Asked, Mode};
use constel_topology::{Layout, NodeId, Port};

use crate::error::EngineError;
use constel_plan::{Blueprint, RouteDestination, RouteRow, destinations, node_ifindex};

/// The map, and the numbers of the destinations in it.
#[derive(Debug)]
pub(crate) struct Forwarding {
    forwarder: Forwarder,
    goals: BTreeMap<NodeId, u32>,
    by_address: BTreeMap<IpAddr, u32>,
}

impl Forwarding {
    /// Creates the empty map of a lab that forwards by one; `None` for any other lab.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub(crate) fn wanted(blueprint: &Blueprint) -> Result<Option<Forwarding>, EngineError> {
        let lab = &blueprint.lab;
        let layout = &lab.layout;
        let Mode::Computed(asked) = &lab.scenario.routing.mode else {
            return Ok(None);
        };
        // With `tables` the kernels forward, and there is no map.
        if asked.forwarding == Asked::Tables {
            return Ok(None);
        }
        let destinations = destinations(layout, asked);
        // The map is indexed by the numbers of node and destination.
        let goals: BTreeMap<NodeId, u32> = destinations.into_iter().zip(0..).collect();
        let named = |(node, goal): (&NodeId, &u32)| {
            let own = blueprint.loopbacks(*node);
            own.into_iter()
                .map(|address| (address, *goal))
                .collect::<Vec<_>>()
        };
        let by_address: BTreeMap<IpAddr, u32> = goals.iter().flat_map(named).collect();
        let forwarder = Forwarder::new(layout.nodes().len(), goals.len(), &by_address);
        let forwarder = forwarder.map_err(unable)?;
        Ok(Some(Forwarding {
            forwarder,
            goals,
            by_address,
        }))
    }

    /// Attaches the program to a port of a node; called inside the node's namespace.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn attach(&self, port: &Port) -> Result<(), EngineError> {
        let attached = self.forwarder.attach(node_ifindex(port));
        attached.map_err(unable)
    }

    /// Applies a change; packets follow it from now on.
    pub(crate) fn put(&self, layout: &Layout, row: &RouteRow) {
        // Ends of disjoint paths and ports are not in the map.
        let RouteDestination::Node(destination) = row.goal else {
            return;
        };
        let Some(goal) = self.goals.get(&destination) else {
            return;
        };
        let way = row.set.then(|| NodeRoute {
            ifindex: node_ifindex(layout.port(row.hop.port)),
            port: row.hop.port,
            far_port: row.hop.far_port,
        });
        self.forwarder.set(row.node.0, *goal, way);
    }

    /// Returns how a node forwards transit packets to this address, if the map has it.
    pub(crate) fn route(&self, addresses: &AddressPlan, node: NodeId, to: IpAddr) -> Option<Route> {
        let goal = *self.by_address.get(&to)?;
        let way = self.forwarder.way(node.0, goal)?;
        let far = addresses.port(way.far_port);
        let gateway = match to {
            IpAddr::V4(_) => far.v4.map(|(address, _)| IpAddr::from(address)),
            IpAddr::V6(_) => Some(far.v6_link_local.into()),
        };
        Some(Route {
            prefix: to,
            prefix_len: if to.is_ipv4() { 32 } else { 128 },
            port: way.port,
            gateway,
            metric: 0,
            choices: 1,
        })
    }
}

fn unable(error: BpfError) -> EngineError {
    EngineError::Unable {
        what: error.to_string(),
        remedy: "leave out routing.forwarding: the kernels' tables forward without any program"
            .to_owned(),
    }
}
