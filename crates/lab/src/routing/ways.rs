//! The outcome of packets for stations at a machine's own nodes, if other machines have the rest of the path.
//!
//! Routes of daemons are known only to their own kernels. A machine therefore follows packets as far as its own
//! nodes go: they arrive, leave for a node of another machine over an existing link, or are lost. The outcomes of
//! all machines together show which packets arrive.

use std::collections::BTreeSet;
use std::net::IpAddr;

use constel_plan::Reachability;
use constel_routing::walk::walk_until;
use constel_topology::{Edge, NodeId, Snapshot};

use crate::error::EngineError;
use crate::nodes::kernels::Kernels;
use crate::routing::tables::{ConvergenceState, Hops, describe};
use crate::watch::stood::{OutcomeCounts, PacketOutcome};

/// Follows packets to all stations that the topology lets them reach, from every station on this machine and from
/// every node here to which another machine's node has a link.
///
/// As far as this machine can determine, routes have converged when none of these packets is lost here.
///
/// # Errors
/// When a kernel does not answer.
pub(crate) fn look(
    kernels: &Kernels,
    snapshot: &Snapshot,
) -> Result<(OutcomeCounts, ConvergenceState), EngineError> {
    let blueprint = kernels.blueprint.as_ref();
    let layout = &blueprint.lab.layout;
    let here = kernels.ours();
    let ours = |node: NodeId| here.has(node);
    let stations: Vec<NodeId> = layout.endpoints().map(|node| node.id).collect();
    let goals: Vec<(NodeId, IpAddr)> = stations
        .iter()
        .flat_map(|id| blueprint.loopbacks(*id).into_iter().map(|goal| (*id, goal)))
        .collect();
    // A packet enters this machine over an edge from another machine's node.
    let entered = |edge: &Edge| {
        let [from, to] = [edge.from, edge.to].map(|port| layout.port(port).node);
        (!ours(from) && ours(to)).then_some(to)
    };
    let mut starts: BTreeSet<NodeId> = snapshot.edges.iter().filter_map(entered).collect();
    starts.extend(stations.iter().filter(|id| ours(**id)));

    let mut reach = Reachability::new(&blueprint.lab, snapshot);
    let mut hops = Hops::new(kernels, goals.iter().map(|(_, goal)| *goal).collect());
    let (mut ways, mut standing) = (OutcomeCounts::new(), ConvergenceState::default());
    for (number, &(to, goal)) in (0..).zip(&goals) {
        let reached = reach.towards(to);
        // Paths merge, so that each node is followed once per destination.
        let mut fates: Vec<Option<PacketOutcome>> = vec![None; kernels.nodes.len()];
        for &from in starts.iter().filter(|&&from| from != to) {
            if !reached[from.index()] {
                continue;
            }
            // The walk stops at a node with a known outcome, or at a node of another machine.
            if fates[from.index()].is_none() {
                let known = |node: NodeId| !ours(node) || fates[node.index()].is_some();
                let route = |node| hops.route(from, node, goal);
                let (addresses, t_ns) = (&blueprint.addresses, snapshot.t_ns);
                let walked = walk_until(
                    layout,
                    snapshot,
                    addresses,
                    (from, goal),
                    t_ns,
                    known,
                    route,
                )?;
                let last = walked.hops.last().map_or(from, |hop| hop.to);
                let fate = match walked.arrived() {
                    true if last == to => PacketOutcome::Arrives,
                    true if !ours(last) => PacketOutcome::Leaves(last),
                    true => fates[last.index()].unwrap_or(PacketOutcome::Lost),
                    false => PacketOutcome::Lost,
                };
                if fate == PacketOutcome::Lost && standing.example.is_none() {
                    standing.example = Some(describe(blueprint, from, goal, &walked));
                }
                fates[from.index()] = Some(fate);
                let on_the_way = walked.hops.iter().map(|hop| hop.from.index());
                on_the_way.for_each(|node| fates[node] = Some(fate));
            }
            let fate = fates[from.index()].unwrap_or(PacketOutcome::Lost);
            ways.insert((from, number), fate);
            // Only stations count as pairs; the other starting points belong to pairs of other machines.
            if layout.node(from).class.endpoint {
                standing.pairs += 1;
                standing.good += usize::from(fate != PacketOutcome::Lost);
            }
        }
    }
    Ok((ways, standing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::kernels::Here;
    use crate::testing::{blueprint, computed_iridium, on_two_machines};
    use crate::watch::stood::all_arrive;
    use constel_containers::runtime::NodeRuntime;
    use constel_containers::runtime::memory::MemoryRuntime;
    use constel_host::netlink::Batch;
    use constel_plan::{FailedEdges, Planner, RouteDestination, RouteRow};
    use std::sync::Arc;

    /// One of two machines, whose nodes have what was planned for lab time zero; the plan's rows and its links.
    fn machine(here: usize) -> (Kernels, Vec<RouteRow>, Arc<Snapshot>) {
        let blueprint = Arc::new(blueprint(&computed_iridium()));
        let mut together = on_two_machines(&blueprint);
        together.here = here;
        let names = blueprint.lab.layout.nodes().iter();
        let names: Vec<&str> = names.map(|node| node.name.as_str()).collect();
        let fresh = MemoryRuntime::default().create(&names).unwrap();
        let made = fresh.into_iter();
        let made = made.map(|fresh| fresh.finish(&mut || Ok(()), &mut Batch::new()).unwrap());
        let kernels = Kernels {
            nodes: made.collect(),
            elsewhere: Default::default(),
            here: Here::new(together.ours()),
            blueprint: Arc::clone(&blueprint),
            forwarding: None,
            stackless: None,
            own_stacks: Default::default(),
        };
        let (mut planner, failed) = (Planner::new(blueprint), FailedEdges::default());
        let first = planner.first(&failed);
        let rows = first.plan.routes.rows.clone();
        planner.installed(first, &failed);
        let own: Vec<RouteRow> = rows
            .into_iter()
            .filter(|r| kernels.ours().has(r.node))
            .collect();
        kernels.route(&own).unwrap();
        (kernels, own, Arc::clone(planner.current()))
    }

    #[test]
    fn machines_that_see_half_of_all_ways_see_all_of_them_together() {
        let mut seen = Vec::new();
        let mut pairs = 0;
        for here in [0, 1] {
            let (kernels, _, snapshot) = machine(here);
            let (ways, standing) = look(&kernels, &snapshot).unwrap();
            assert!(standing.complete(), "{standing:?}");
            let leave = ways
                .values()
                .filter(|fate| matches!(fate, PacketOutcome::Leaves(_)));
            assert!(leave.count() > 100);
            pairs += standing.pairs;
            seen.push(ways);
        }
        // Fourteen stations, two families.
        assert_eq!(pairs, 14 * 13 * 2);
        let stations = machine(0)
            .0
            .blueprint
            .lab
            .layout
            .endpoints()
            .map(|n| n.id)
            .collect();
        assert!(all_arrive(&seen.iter().collect::<Vec<_>>(), &stations));
        seen.pop();
        assert!(
            !all_arrive(&seen.iter().collect::<Vec<_>>(), &stations),
            "half of them is not enough"
        );
    }

    #[test]
    fn what_is_lost_here_is_named_though_no_station_is() {
        let (kernels, rows, snapshot) = machine(0);
        let layout = &kernels.blueprint.lab.layout;
        let endpoint = |node: NodeId| layout.node(node).class.endpoint;
        let lost = |row: &&RouteRow| {
            !endpoint(row.node) && matches!(row.goal, RouteDestination::Node(to) if endpoint(to))
        };
        let gone: Vec<RouteRow> = rows.iter().filter(lost).cloned().collect();
        let gone: Vec<RouteRow> = gone
            .into_iter()
            .map(|row| RouteRow { set: false, ..row })
            .collect();
        kernels.route(&gone).unwrap();
        let (ways, standing) = look(&kernels, &snapshot).unwrap();
        assert!(!standing.complete());
        let said = standing.example.unwrap();
        assert!(said.contains("NoRoute"), "{said}");
        let satellites = ways.iter().filter(|((from, _), _)| !endpoint(*from));
        assert!(satellites.clone().count() > 0);
        let mut fates = satellites.map(|(_, fate)| *fate);
        assert!(fates.all(|fate| fate == PacketOutcome::Lost));
    }
}
