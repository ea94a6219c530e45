//! The new machines of a lost machine's nodes. All other machines divide them by the lab's policy, and keep their own nodes.

use std::collections::{BTreeMap, BTreeSet};

use constel_plan::Lab;
use constel_topology::NodeId;

use crate::machines::graph::Graph;
use crate::machines::machine::{Machine, Machines};
use crate::machines::placement::{Pin, PlacementPolicy, orders, place};
use crate::machines::ties;

/// The division of a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    /// The machines.
    pub machines: Machines,
    /// Nodes with a given machine.
    pub pins: Vec<Pin>,
    /// The policy for the other nodes.
    pub order: PlacementPolicy,
}

/// The division after losses: the remaining machines, and the nodes that are on them or move to them.
struct Rest<'a> {
    lab: &'a Lab,
    order: PlacementPolicy,
    /// The remaining machines, and their indices among all.
    machines: Machines,
    places: Vec<usize>,
    /// Nodes that are on a remaining machine, with its index among these.
    there: BTreeMap<u32, usize>,
}

/// Returns the new machine of each node of `lost`, according to `machine_of`. Missing nodes are lost: those pinned to the
/// machine, those that share a medium with a pinned one, and those for which no other machine has room.
///
/// `gone` are all lost machines. The same arguments give the same result everywhere.
pub(crate) fn takers(
    lab: &Lab,
    division: &Division,
    machine_of: &[u16],
    (lost, gone): (usize, &BTreeSet<usize>),
) -> BTreeMap<NodeId, usize> {
    let is_left = |place: &usize| !gone.contains(place);
    let places: Vec<usize> = (0..division.machines.all().len()).filter(is_left).collect();
    let all = division.machines.all();
    let left: Vec<Machine> = places.iter().map(|place| all[*place].clone()).collect();
    let Ok(machines) = Machines::new(left) else {
        return BTreeMap::new();
    };
    let own = |node: &u32| usize::from(machine_of[*node as usize]) == lost;
    let pinned = |node: u32| {
        let name = &lab.layout.node(NodeId(node)).name;
        division.pins.iter().any(|pin| pin.nodes.matches(name))
    };
    let mut moving: BTreeSet<u32> = (0..machine_of.len() as u32).filter(own).collect();
    // The user wants this node on the lost machine and on no other.
    moving.retain(|node| !pinned(*node));
    // A shared medium cannot be split, so a pinned member keeps the whole group from moving.
    for group in ties::together(lab) {
        if group.iter().any(|node| own(node) && pinned(*node)) {
            moving.retain(|node| !group.contains(node));
        }
    }
    let there = (0..).zip(machine_of).filter_map(|(node, of)| {
        let here = places.iter().position(|place| *place == usize::from(*of))?;
        Some((node, here))
    });
    let rest = Rest {
        lab,
        order: division.order,
        machines,
        there: there.collect(),
        places,
    };
    rest.take(moving)
}

impl Rest<'_> {
    /// Returns the new machine of each of these nodes. If there is not enough room, satellites are left out first, from the
    /// last one on, so that nodes on the ground stay as long as possible.
    fn take(&self, mut moving: BTreeSet<u32>) -> BTreeMap<NodeId, usize> {
        loop {
            if moving.is_empty() {
                return BTreeMap::new();
            }
            let nodes: Vec<u32> = moving.iter().chain(self.there.keys()).copied().collect();
            // Sorted, because all machines compute this independently and must find the same result.
            let nodes: Vec<u32> = BTreeSet::from_iter(nodes).into_iter().collect();
            let Some(graph) = self.graph(&nodes) else {
                return BTreeMap::new();
            };
            let free = |unit: &usize| graph.pin(*unit).is_none();
            let mut units: Vec<usize> = (0..graph.len()).filter(free).collect();
            let is_satellite = |unit: &usize| {
                let node = nodes[graph.nodes(*unit)[0] as usize];
                self.lab.layout.node(NodeId(node)).seat.is_some()
            };
            // Nodes on the ground sort first, and units are removed from the end.
            units.sort_by_key(|unit| (is_satellite(unit), *unit));
            let mut out = Vec::new();
            let room = self.room(&graph);
            let mut wanted: u64 = units.iter().map(|unit| graph.size(*unit)).sum();
            while wanted > room
                && let Some(unit) = units.pop()
            {
                wanted -= graph.size(unit);
                out.push(unit);
            }
            if out.is_empty() {
                let ids = |node: u32| nodes[node as usize];
                let starts = || orders(self.lab, &graph, &ids);
                // Nodes that stay are pinned in this graph, so only the lost machine's nodes are placed.
                if let Ok(of_unit) = place(&graph, &self.machines, self.order, starts) {
                    return self.taken(&graph, &nodes, &of_unit);
                }
                // The units do not fit into the free room. Leave out the largest one and try again.
                out.extend(units.iter().rev().max_by_key(|unit| graph.size(**unit)));
            }
            for node in out.iter().flat_map(|unit| graph.nodes(*unit)) {
                moving.remove(&nodes[*node as usize]);
            }
        }
    }

    fn taken(&self, graph: &Graph, nodes: &[u32], of_unit: &[usize]) -> BTreeMap<NodeId, usize> {
        let free = (0..graph.len()).filter(|unit| graph.pin(*unit).is_none());
        let to = free.flat_map(|unit| {
            let machine = self.places[of_unit[unit]];
            let own = graph.nodes(unit).iter();
            own.map(move |node| (NodeId(nodes[*node as usize]), machine))
        });
        to.collect()
    }

    /// Returns the number of nodes that the remaining machines accept in addition to their own.
    fn room(&self, graph: &Graph) -> u64 {
        let machines = self.machines.all().iter().enumerate();
        let room = machines.map(|(place, machine)| match machine.capacity {
            Some(capacity) => u64::from(capacity).saturating_sub(graph.pinned_to(place)),
            None => u64::MAX,
        });
        room.fold(0, u64::saturating_add)
    }

    /// Returns the graph of these nodes, numbered by their indices. Returns `None` if nodes of one group are on different
    /// machines.
    fn graph(&self, nodes: &[u32]) -> Option<Graph> {
        let place = |node: u32| nodes.binary_search(&node).ok().map(|place| place as u32);
        let together = ties::together(self.lab).into_iter();
        let together = together.map(|group| group.into_iter().filter_map(place).collect());
        let together: Vec<Vec<u32>> = together.collect();
        let (ties, _) = ties::ties(self.lab);
        let ties = ties
            .into_iter()
            .filter_map(|((a, b), weight)| Some((place(a)?, place(b)?, weight)));
        let there = self.there.iter();
        let pins = there.filter_map(|(node, machine)| Some((place(*node)?, *machine)));
        Graph::new(nodes.len() as u32, &together, ties, &pins.collect()).ok()
    }
}
