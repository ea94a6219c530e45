//! The machine of each node.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use constel_plan::Lab;
use constel_scenario::Glob;
use constel_topology::NodeId;
use serde::Serialize;

use crate::machines::graph::Graph;
use crate::machines::machine::Machines;
use crate::machines::partition::{Bounds, fewest_crossings};
use crate::machines::round_robin::weighted_round_robin;
use crate::machines::ties;

/// The policy that distributes nodes to machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementPolicy {
    /// Adjacent nodes together, so that few links cross. Uses whole planes if possible.
    #[default]
    FewestCrossings,
    /// Alternately, as in OpenSN (its Algorithm 1).
    RoundRobin,
}

/// Nodes with a given machine: a pattern of node names, and the machine's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The pattern of node names.
    pub nodes: Glob,
    /// Name of the machine.
    pub machine: String,
}

/// The error for a text that is not a pin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} pins nothing; write NODE=MACHINE, NODE a name or a pattern with * and ?")]
pub struct PinError(String);

impl FromStr for Pin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Self, PinError> {
        match text.rsplit_once('=') {
            Some((nodes, machine)) if !nodes.is_empty() && !machine.is_empty() => Ok(Self {
                nodes: Glob::new(nodes),
                machine: machine.to_owned(),
            }),
            _ => Err(PinError(text.to_owned())),
        }
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.nodes, self.machine)
    }
}

/// The reason why a lab cannot be placed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// A pin names an unknown machine.
    #[error("pin {pin}: there is no machine {machine:?}; there are {machines}")]
    NoMachine {
        /// The pin.
        pin: String,
        /// The unknown name.
        machine: String,
        /// The known machines.
        machines: String,
    },
    /// A pin matches no node.
    #[error("pin {0}: no node is called so")]
    NoNode(String),
    /// A node has two contradicting pins.
    #[error("node {node} is pinned to {one} and to {other}")]
    Twice {
        /// Name of the node.
        node: String,
        /// One machine.
        one: String,
        /// The other machine.
        other: String,
    },
    /// Nodes of one shared medium are pinned to different machines.
    #[error(
        "{one} and {other} are pinned to different machines, and a medium that both share is on one"
    )]
    Torn {
        /// One node.
        one: String,
        /// The other node.
        other: String,
    },
    /// A node is attached to an interface, which only one machine has.
    #[error(
        "{node} hangs on the interface {interface} of a machine: pin it there (--pin {node}=MACHINE)"
    )]
    Unpinned {
        /// Name of the node.
        node: String,
        /// Name of the interface.
        interface: String,
    },
    /// The maximum numbers of nodes add up to less than the lab has.
    #[error("{nodes} nodes, and the machines take {capacity}")]
    TooMany {
        /// Number of nodes of the lab.
        nodes: u64,
        /// Maximum number of nodes of all machines together.
        capacity: u64,
    },
    /// More nodes are pinned to a machine than it accepts.
    #[error("{nodes} nodes are pinned to {machine}, which takes {capacity}")]
    PinnedTooMany {
        /// Name of the machine.
        machine: String,
        /// Number of nodes pinned to it.
        nodes: u64,
        /// Maximum number of its nodes.
        capacity: u64,
    },
    /// Nodes that stay together exceed the room of every machine.
    #[error("the nodes of one shared medium ({0} of them) fit on no machine beside the others")]
    Lump(u64),
}

/// The machine of each node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    machine_of: Vec<u16>,
}

impl Placement {
    /// Places a lab's nodes. The same lab, machines and pins give the same placement everywhere.
    ///
    /// # Errors
    /// If the pins, caps and shared media cannot all be satisfied.
    pub fn new(
        lab: &Lab,
        machines: &Machines,
        pins: &[Pin],
        order: PlacementPolicy,
    ) -> Result<Self, PlacementError> {
        let pinned = pinned(lab, machines, pins)?;
        let name = |node: u32| lab.layout.node(NodeId(node)).name.clone();
        let mut attached = ties::attached(lab);
        // The interface is on one machine, which Constel cannot guess.
        if let Some((node, interface)) = attached.find(|(node, _)| !pinned.contains_key(node)) {
            return Err(PlacementError::Unpinned {
                node: name(node),
                interface: interface.to_owned(),
            });
        }
        let (ties, _) = ties::ties(lab);
        let ties = ties.into_iter().map(|((a, b), weight)| (a, b, weight));
        let count = lab.layout.nodes().len() as u32;
        let graph = Graph::new(count, &ties::together(lab), ties, &pinned).map_err(|torn| {
            PlacementError::Torn {
                one: name(torn.one.0),
                other: name(torn.other.0),
            }
        })?;
        let of_unit = place(&graph, machines, order, || {
            orders(lab, &graph, &|node| node)
        })?;
        let mut machine_of = vec![0; count as usize];
        // Nodes of one shared medium form a unit, because the medium is simulated on one machine.
        for (unit, machine) in of_unit.into_iter().enumerate() {
            for node in graph.nodes(unit) {
                machine_of[*node as usize] = machine as u16;
            }
        }
        Ok(Self { machine_of })
    }

    /// Returns the index of a node's machine.
    ///
    /// # Panics
    /// If the lab has no such node.
    #[must_use]
    pub fn machine_of(&self, node: NodeId) -> usize {
        usize::from(self.machine_of[node.index()])
    }

    pub(crate) fn of(&self) -> &[u16] {
        &self.machine_of
    }

    pub(crate) fn put(&mut self, node: NodeId, machine: usize) {
        self.machine_of[node.index()] = machine as u16;
    }

    /// Returns the nodes of a machine, in order.
    pub fn nodes_of(&self, machine: usize) -> impl Iterator<Item = NodeId> {
        let all = (0..).map(NodeId).zip(&self.machine_of);
        all.filter(move |(_, of)| usize::from(**of) == machine)
            .map(|(node, _)| node)
    }
}

/// Returns the machine of each pinned node.
fn pinned(
    lab: &Lab,
    machines: &Machines,
    pins: &[Pin],
) -> Result<BTreeMap<u32, usize>, PlacementError> {
    let mut pinned = BTreeMap::new();
    for pin in pins {
        let machine = machines
            .find(&pin.machine)
            .ok_or_else(|| PlacementError::NoMachine {
                pin: pin.to_string(),
                machine: pin.machine.clone(),
                machines: machines
                    .all()
                    .iter()
                    .map(|m| m.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            })?;
        let mut is_of_any = false;
        for node in lab
            .layout
            .nodes()
            .iter()
            .filter(|node| pin.nodes.matches(&node.name))
        {
            is_of_any = true;
            match pinned.insert(node.id.0, machine) {
                // Overlapping patterns are allowed as long as they agree.
                Some(before) if before != machine => {
                    let name = |machine: usize| machines.all()[machine].name.clone();
                    return Err(PlacementError::Twice {
                        node: node.name.clone(),
                        one: name(before),
                        other: name(machine),
                    });
                }
                _ => {}
            }
        }
        // A pin without a node is probably a typing error.
        if !is_of_any {
            return Err(PlacementError::NoNode(pin.to_string()));
        }
    }
    Ok(pinned)
}

/// Returns the machine of each unit.
pub(crate) fn place(
    graph: &Graph,
    machines: &Machines,
    order: PlacementPolicy,
    orders: impl FnOnce() -> Vec<Vec<usize>>,
) -> Result<Vec<usize>, PlacementError> {
    let caps: Vec<Option<u32>> = machines.all().iter().map(|m| m.capacity).collect();
    let weights: Vec<u32> = machines.all().iter().map(|m| m.weight).collect();
    let nodes = graph.node_count();
    // Checked first, because the error for a single machine is more helpful than the one for the total.
    for (place, machine) in machines.all().iter().enumerate() {
        let pinned = graph.pinned_to(place);
        if let Some(capacity) = machine
            .capacity
            .map(u64::from)
            .filter(|capacity| pinned > *capacity)
        {
            return Err(PlacementError::PinnedTooMany {
                machine: machine.name.clone(),
                nodes: pinned,
                capacity,
            });
        }
    }
    let bounds = Bounds::new(nodes, &weights, &caps).ok_or_else(|| PlacementError::TooMany {
        nodes,
        capacity: caps
            .iter()
            .map(|cap| cap.map_or(u64::MAX, u64::from))
            .fold(0, u64::saturating_add),
    })?;
    // The size of the largest group is reported, because that group is the one hardest to place.
    let lump = || {
        PlacementError::Lump(
            (0..graph.len())
                .map(|unit| graph.size(unit))
                .max()
                .unwrap_or(0),
        )
    };
    match order {
        PlacementPolicy::FewestCrossings => {
            fewest_crossings(graph, &bounds, &orders()).ok_or_else(lump)
        }
        PlacementPolicy::RoundRobin => by_turns(graph, &weights, &caps).ok_or_else(lump),
    }
}

/// Runs Algorithm 1 for units that are not pinned. A unit for a full machine goes to the next machine with room.
fn by_turns(graph: &Graph, weights: &[u32], caps: &[Option<u32>]) -> Option<Vec<usize>> {
    let pins = (0..graph.len()).map(|unit| graph.pin(unit).unwrap_or(0));
    let mut machine_of: Vec<usize> = pins.collect();
    let mut held: Vec<u64> = (0..weights.len())
        .map(|machine| graph.pinned_to(machine))
        .collect();
    let free = (0..graph.len()).filter(|unit| graph.pin(*unit).is_none());
    let dealt = weighted_round_robin(weights, free, |_| Vec::<()>::new());
    let mut turns: Vec<(usize, usize)> = Vec::new();
    for (machine, units) in dealt.instances.into_iter().enumerate() {
        turns.extend(units.into_iter().map(|unit| (unit, machine)));
    }
    turns.sort_unstable();
    for (unit, machine) in turns {
        let size = graph.size(unit);
        let has_room = |m: &usize| caps[*m].is_none_or(|cap| held[*m] + size <= u64::from(cap));
        let machine = (0..weights.len())
            .map(|step| (machine + step) % weights.len())
            .find(has_room)?;
        machine_of[unit] = machine;
        held[machine] += size;
    }
    Some(machine_of)
}

/// Returns sequences in which adjacent units belong together: plane by plane, and slot by slot. In each, nodes on the ground
/// follow the satellites with which they have the strongest ties. `id` converts a node of the graph into a node of the lab.
pub(crate) fn orders(lab: &Lab, graph: &Graph, id: &dyn Fn(u32) -> u32) -> Vec<Vec<usize>> {
    let seat = |unit: usize| {
        let node = lab.layout.node(NodeId(id(graph.nodes(unit)[0])));
        node.seat
            .map(|seat| (seat.constellation, seat.shell, seat.plane, seat.slot))
    };
    let by = |key: &dyn Fn((u16, u16, u16, u16)) -> [u16; 4]| {
        let of = |unit: usize| seat(unit).map(key);
        let place = |unit: usize| {
            let nearest = || {
                let seated = graph
                    .ties(unit)
                    .iter()
                    .filter_map(|(other, weight)| Some((*weight, of(*other)?)));
                seated.max().map(|(_, place)| place)
            };
            of(unit).or_else(nearest).unwrap_or([u16::MAX; 4])
        };
        let mut order: Vec<usize> = (0..graph.len()).collect();
        order.sort_by_cached_key(|unit| (place(*unit), of(*unit).is_none(), *unit));
        order
    };
    let planes = by(&|(constellation, shell, plane, slot)| [constellation, shell, plane, slot]);
    let slots = by(&|(constellation, shell, plane, slot)| [constellation, shell, slot, plane]);
    // For satellites with ties across shells: the shells are adjacent in every plane.
    let across = by(&|(constellation, shell, plane, slot)| [plane, constellation, shell, slot]);
    vec![planes, slots, across]
}
