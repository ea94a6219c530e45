//! The machine of each node of a lab while machines are lost and others take over their nodes. All machines of the lab
//! compute it from the same sequence of events.

use std::collections::{BTreeMap, BTreeSet};

use constel_plan::Lab;
use constel_topology::NodeId;

use crate::machines::placement::Placement;
use crate::machines::without::{Division, takers};

/// The machine of each node, updated as machines are lost.
pub struct Homes {
    lab: Lab,
    division: Division,
    placement: Placement,
    lost: BTreeSet<usize>,
    /// For each lost machine, the nodes that others take over, with their new machines.
    moves: BTreeMap<usize, BTreeMap<NodeId, usize>>,
}

/// The nodes of a lost machine, and the machines that take them over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moved {
    /// All nodes that it had, or was about to get.
    pub nodes: Vec<NodeId>,
    /// The nodes that other machines take over, with their new machines. The rest is lost.
    pub to: BTreeMap<NodeId, usize>,
}

impl Moved {
    /// Returns the machines that take over any node.
    #[must_use]
    pub fn takers(&self) -> BTreeSet<usize> {
        self.to.values().copied().collect()
    }
}

impl Homes {
    /// Starts with the lab's original division.
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

    /// Returns the index of the machine that has this node, or will get it. For a node that was lost with its machine,
    /// returns that machine.
    ///
    /// # Panics
    /// If the lab has no such node.
    #[must_use]
    pub fn machine_of(&self, node: NodeId) -> usize {
        self.placement.machine_of(node)
    }

    /// Removes a machine. Returns its nodes and the machines that take them over, if nodes `move`. Returns `None` if it was
    /// lost before.
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
        // A later loss must find these nodes on their new machines, even if those have not created them yet.
        for (node, taker) in &to {
            self.placement.put(*node, *taker);
        }
        self.moves.insert(machine, to.clone());
        Some(Moved { nodes, to })
    }

    /// Records that the machines in `ready` have created their shares of a lost machine's nodes. Returns these nodes with
    /// their machines. A share of a machine that is not ready stays lost, unless that machine was lost in the meantime and
    /// another one takes the share over.
    pub fn back(&mut self, machine: usize, ready: &BTreeSet<usize>) -> BTreeMap<NodeId, usize> {
        let mut there = self.moves.remove(&machine).unwrap_or_default();
        there.retain(|node, taker| {
            // The taker was lost in the meantime. If the node has moved on, it returns with that later loss.
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
