//! What a placement gives each machine to do.

use constel_plan::Lab;
use constel_topology::Snapshot;
use serde::Serialize;

use crate::machine::Machines;
use crate::placement::Placement;

/// What one machine has to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Load {
    /// The machine.
    pub machine: String,
    /// Its weight.
    pub weight: u32,
    /// Nodes that it takes at most; null: as many as it is given.
    pub capacity: Option<u32>,
    /// Its nodes.
    pub nodes: usize,
    /// Their interfaces.
    pub ports: usize,
    /// Edges that it serves: those whose frames are sent there.
    pub edges: usize,
    /// Those of them whose frames go to another machine.
    pub crossing_edges: usize,
}

/// What all machines have to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loads {
    /// Each machine, in the order in which they were named.
    pub machines: Vec<Load>,
    /// Edges at the instant.
    pub edges: usize,
    /// Those between nodes of different machines.
    pub crossing_edges: usize,
    /// The shortest delay of a crossing edge, nanoseconds: what lies between the machines must be shorter. Null without any.
    pub shortest_crossing_ns: Option<u64>,
}

impl Loads {
    /// Those of the edges of a topology.
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
        let usable = topology
            .edges
            .iter()
            .filter(|edge| edge.usable_at(topology.t_ns));
        let mut edges = 0;
        for edge in usable {
            let [from, to] =
                [edge.from, edge.to].map(|port| placement.machine_of(layout.port(port).node));
            edges += 1;
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
