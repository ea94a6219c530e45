//! Pairs with disjoint paths: their addresses, and their paths at an instant.

use constel_routing::disjoint::delay_ns;
use constel_routing::graph::PathHop;
use constel_routing::{AddressError, Graph, GroundTransit, PathAddresses, PathEnd, PathPair};
use constel_scenario::model::{Disjoint, Name};
use constel_topology::{NodeId, Snapshot};
use serde::Serialize;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::addresses::address_blocks;
use crate::lab::Lab;

/// A pair at an instant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DisjointRow {
    /// The name.
    pub name: String,
    /// The two nodes.
    pub between: [String; 2],
    /// The requested number of paths.
    pub paths: Vec<DisjointPath>,
}

/// One path of a pair, and the addresses at its ends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DisjointPath {
    /// The names of its ends, in the order of `between`.
    pub names: [String; 2],
    /// The IPv4 addresses of the ends; absent when IPv4 is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<[Ipv4Addr; 2]>,
    /// The IPv6 addresses of the ends; absent when IPv6 is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<[Ipv6Addr; 2]>,
    /// The one-way delay, nanoseconds; null when there is no such path.
    pub delay_ns: Option<u64>,
    /// The nodes of the path, ends included; empty when there is no such path.
    pub nodes: Vec<String>,
}

/// Returns the addresses of the lab's disjoint paths; pairs are in order of their names.
///
/// # Errors
/// When the addresses do not fit.
pub fn path_addresses(lab: &Lab) -> Result<PathAddresses, AddressError> {
    let asked = lab.scenario.routing.mode.disjoint().iter();
    let pairs = asked.map(|asked: &Disjoint| PathPair {
        name: asked.name.to_string(),
        ends: asked.between.each_ref().map(|name| node(lab, name)),
        paths: asked.paths,
    });
    PathAddresses::new(pairs.collect(), address_blocks(lab).paths)
}

/// Returns a node whose existence was checked.
fn node(lab: &Lab, name: &Name) -> NodeId {
    let found = lab.layout.find(name.as_str());
    found
        .unwrap_or_else(|| panic!("no node is called {name}"))
        .id
}

/// Returns all pairs with the paths of the step's routes, and their delays at `t_ns`.
pub(crate) fn rows(lab: &Lab, snapshot: &Snapshot, t_ns: u64) -> Vec<DisjointRow> {
    // The largest permitted number of pairs, 1,000, always fits.
    let addresses = path_addresses(lab).unwrap_or_default();
    if addresses.pairs().is_empty() {
        return Vec::new();
    }
    let graph = Graph::new(&lab.layout, snapshot, GroundTransit::Never);
    let name = |id: NodeId| lab.layout.node(id).name.clone();
    let row = |(number, pair): (usize, &PathPair)| {
        let [from, to] = pair.ends;
        let found = graph.disjoint(from, to, usize::from(pair.paths));
        let paths = (1..=pair.paths).map(|path| {
            let ends = [false, true].map(|second| PathEnd {
                pair: number,
                path,
                second,
            });
            let own = ends.map(|end| addresses.address(end));
            let hops = found.get(usize::from(path) - 1);
            let families = lab.scenario.routing.families;
            DisjointPath {
                names: ends.map(|end| addresses.name(&lab.layout, end)),
                ipv4: families.ipv4.then(|| own.map(|own| own.v4)),
                ipv6: families.ipv6.then(|| own.map(|own| own.v6)),
                delay_ns: hops.map(|hops| delay_ns(&at(hops, snapshot, t_ns))),
                nodes: hops.map_or_else(Vec::new, |hops| {
                    let reached = hops.iter().map(|hop| hop.to);
                    std::iter::once(from).chain(reached).map(name).collect()
                }),
            }
        });
        DisjointRow {
            name: pair.name.clone(),
            between: pair.ends.map(name),
            paths: paths.collect(),
        }
    };
    addresses.pairs().iter().enumerate().map(row).collect()
}

/// Returns a path of a step with the delays of another instant in it.
fn at(hops: &[PathHop], snapshot: &Snapshot, t_ns: u64) -> Vec<PathHop> {
    let at = |hop: &PathHop| PathHop {
        delay_ns: snapshot
            .edge(hop.port, hop.far_port)
            .map_or(hop.delay_ns, |edge| edge.impairment.delay.at(t_ns)),
        ..*hop
    };
    hops.iter().map(at).collect()
}
