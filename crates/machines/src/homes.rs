//! Where each node of a lab is while machines are lost and others take their nodes: what all machines of the lab make of what they were
//! told in one order.

use std::collections::{BTreeMap, BTreeSet};

use constel_plan::Lab;
use constel_topology::NodeId;

use crate::placement::Placement;
use crate::without::{Division, takers};

/// The machine of each node, as machines are lost.
pub struct Homes {
    lab: Lab,
    division: Division,
    placement: Placement,
    lost: BTreeSet<usize>,
    /// By lost machine: the nodes that others take, and who.
    moves: BTreeMap<usize, BTreeMap<NodeId, usize>>,
}

/// What a lost machine had, and who takes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moved {
    /// All nodes that it had, or was to have.
    pub nodes: Vec<NodeId>,
    /// Those that others take, and who. The rest goes nowhere.
    pub to: BTreeMap<NodeId, usize>,
}

impl Moved {
    /// Who takes something.
    #[must_use]
    pub fn takers(&self) -> BTreeSet<usize> {
        self.to.values().copied().collect()
    }
}

impl Homes {
    /// As the lab was divided.
    #[must_use]
    pub fn new(lab: &Lab, division: Division, placement: Placement) -> Self {
        Self {
            lab: lab.clone(),
            division,
            placement,
            lost: BTreeSet::new(),
            moves: BTreeMap::new(),
        }
    }

    /// The place of the machine that has this node, or is to have it; of a node that went with its machine, that.
    ///
    /// # Panics
    /// When the lab has no such node.
    #[must_use]
    pub fn machine_of(&self, node: NodeId) -> usize {
        self.placement.machine_of(node)
    }

    /// A machine is lost. What it had others take, if nodes `move`; `None`: it was lost before.
    pub fn lose(&mut self, machine: usize, moves: bool) -> Option<Moved> {
        if !self.lost.insert(machine) {
            return None;
        }
        let nodes: Vec<NodeId> = self.placement.nodes_of(machine).collect();
        if !moves {
            let to = BTreeMap::new();
            return Some(Moved { nodes, to });
        }
        let (of, lost) = (self.placement.of(), (machine, &self.lost));
        let to = takers(&self.lab, &self.division, of, lost);
        for (node, taker) in &to {
            self.placement.put(*node, *taker);
        }
        self.moves.insert(machine, to.clone());
        Some(Moved { nodes, to })
    }

    /// What others took of a lost machine is there, as far as they are among `ready`: these nodes, and where each is. What was another's to
    /// take stays lost, unless that one was lost meanwhile, and somebody else takes it.
    pub fn back(&mut self, machine: usize, ready: &BTreeSet<usize>) -> BTreeMap<NodeId, usize> {
        let mut there = self.moves.remove(&machine).unwrap_or_default();
        there.retain(|node, taker| {
            if self.placement.machine_of(*node) != *taker || self.lost.contains(taker) {
                return false;
            }
            if !ready.contains(taker) {
                self.placement.put(*node, machine);
                return false;
            }
            true
        });
        there
    }
}
