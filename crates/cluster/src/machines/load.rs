//! The load that a placement gives to each machine.

use constel_plan::Lab;
use constel_topology::Snapshot;
use serde::Serialize;

use crate::machines::machine::Machines;
use crate::machines::placement::Placement;

/// The load of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Name of the machine.
    pub machine: String,
    /// Weight of the machine.
    pub weight: u32,
    /// Maximum number of nodes. `null`: no maximum.
    pub capacity: Option<u32>,
    /// Number of its nodes.
    pub nodes: usize,
    /// Number of their interfaces.
    pub ports: usize,
    /// Number of edges that it serves: those whose sender is there.
    pub edges: usize,
    /// Number of these edges whose receiver is on another machine.
    pub crossing_edges: usize,
}

/// The load of all machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loads {
    /// The machines, in the order in which they were named.
    pub machines: Vec<Load>,
    /// Number of edges at this instant.
    pub edges: usize,
    /// Number of edges between nodes of different machines.
    pub crossing_edges: usize,
    /// Shortest delay of a crossing edge, nanoseconds. The delay between the machines must be shorter. `null` without
    /// crossing edges.
    pub shortest_crossing_ns: Option<u64>,
}

impl Loads {
    /// Returns the load for the edges of a topology.
    #[must_use]
    pub fn at(lab: &Lab, machines: &Machines, placement: &Placement, topology: &Snapshot) -> Self {
        let layout = &lab.layout;
        let mut loads: Vec<Load> = machines
            .all()
            .iter()
            .map(|machine| Load {
                machine: machine.name.clone(),
                weight: machine.weight,
                capacity: machine.capacity,
                nodes: 0,
                ports: 0,
                edges: 0,
                crossing_edges: 0,
            })
            .collect();
        for node in layout.nodes() {
            let load = &mut loads[placement.machine_of(node.id)];
            load.nodes += 1;
            load.ports += layout.ports_of(node.id).len();
        }
        let mut shortest = None;
        // An edge whose antennas still turn carries no frames, so it is no load yet.
        let usable = topology
            .edges
            .iter()
            .filter(|edge| edge.usable_at(topology.t_ns));
        let mut edges = 0;
        for edge in usable {
            let [from, to] =
                [edge.from, edge.to].map(|port| placement.machine_of(layout.port(port).node));
            edges += 1;
            // The sender's machine does all work of an edge: rate, queue, loss and delay.
            loads[from].edges += 1;
            if from != to {
                loads[from].crossing_edges += 1;
                let delay_ns = edge.impairment.delay.at(topology.t_ns);
                shortest = Some(shortest.map_or(delay_ns, |least: u64| least.min(delay_ns)));
            }
        }
        Self {
            crossing_edges: loads.iter().map(|load| load.crossing_edges).sum(),
            edges,
            machines: loads,
            shortest_crossing_ns: shortest,
        }
    }
}
