//! The graph to divide: nodes, groups of nodes that must stay together, and the weights of their ties.

use std::collections::BTreeMap;

/// Units: nodes that are placed together, with their ties to others. Units are numbered in the order of their first nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Graph {
    /// Nodes of each unit, sorted.
    units: Vec<Vec<u32>>,
    /// The neighbours of each unit with the weights of their ties, sorted and without the unit itself. Symmetric.
    ties: Vec<Vec<(usize, u64)>>,
    /// The machine of each pinned unit.
    pinned: Vec<Option<usize>>,
}

/// Two contradicting pins of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Torn {
    /// A node pinned to one machine.
    pub(crate) one: (u32, usize),
    /// A node that must stay with it, pinned to another machine.
    pub(crate) other: (u32, usize),
}

impl Graph {
    /// Builds the graph of `count` nodes from groups of nodes that stay together, ties (two nodes and a weight; weights
    /// between the same two nodes are added), and nodes with a given machine.
    ///
    /// # Errors
    /// If nodes that stay together are pinned to different machines.
    ///
    /// # Panics
    /// If a node is not below `count`.
    pub(crate) fn new(
        count: u32,
        together: &[Vec<u32>],
        ties: impl IntoIterator<Item = (u32, u32, u64)>,
        pins: &BTreeMap<u32, usize>,
    ) -> Result<Self, Torn> {
        let mut head: Vec<u32> = (0..count).collect();
        // A union-find structure with path halving.
        fn find(head: &mut [u32], node: u32) -> u32 {
            let mut at = node;
            while head[at as usize] != at {
                head[at as usize] = head[head[at as usize] as usize];
                at = head[at as usize];
            }
            at
        }
        for group in together {
            for pair in group.windows(2) {
                let (a, b) = (find(&mut head, pair[0]), find(&mut head, pair[1]));
                // The smaller node becomes the root, so that units are in the order of their first nodes.
                head[a.max(b) as usize] = a.min(b);
            }
        }
        let (mut units, mut unit_of) = (Vec::<Vec<u32>>::new(), vec![0; count as usize]);
        for node in 0..count {
            let lead = find(&mut head, node);
            let unit = if lead == node {
                units.push(Vec::new());
                units.len() - 1
            } else {
                unit_of[lead as usize]
            };
            unit_of[node as usize] = unit;
            units[unit].push(node);
        }
        let mut pinned: Vec<Option<(u32, usize)>> = vec![None; units.len()];
        // A unit has one machine, so pins of its nodes must agree.
        for (node, machine) in pins {
            match pinned[unit_of[*node as usize]].replace((*node, *machine)) {
                Some(one) if one.1 != *machine => {
                    let other = (*node, *machine);
                    return Err(Torn { one, other });
                }
                _ => {}
            }
        }
        let mut between = vec![BTreeMap::<usize, u64>::new(); units.len()];
        for (a, b, weight) in ties {
            let (a, b) = (unit_of[a as usize], unit_of[b as usize]);
            // Ties within a unit never cross, so they do not count.
            if a != b {
                *between[a].entry(b).or_default() += weight;
                *between[b].entry(a).or_default() += weight;
            }
        }
        Ok(Self {
            units,
            ties: between
                .into_iter()
                .map(|ties| ties.into_iter().collect())
                .collect(),
            pinned: pinned
                .into_iter()
                .map(|pin| pin.map(|(_, machine)| machine))
                .collect(),
        })
    }

    /// Returns the number of units.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.units.len()
    }

    /// Returns the nodes of a unit.
    #[must_use]
    pub(crate) fn nodes(&self, unit: usize) -> &[u32] {
        &self.units[unit]
    }

    /// Returns the number of nodes of a unit.
    #[must_use]
    pub(crate) fn size(&self, unit: usize) -> u64 {
        self.units[unit].len() as u64
    }

    /// Returns the number of nodes of all units.
    #[must_use]
    pub(crate) fn node_count(&self) -> u64 {
        (0..self.len()).map(|unit| self.size(unit)).sum()
    }

    /// Returns the neighbours of a unit with the weights of the ties.
    #[must_use]
    pub(crate) fn ties(&self, unit: usize) -> &[(usize, u64)] {
        &self.ties[unit]
    }

    /// Returns the machine of a pinned unit.
    #[must_use]
    pub(crate) fn pin(&self, unit: usize) -> Option<usize> {
        self.pinned[unit]
    }

    /// Returns the number of nodes that are pinned to a machine.
    #[must_use]
    pub(crate) fn pinned_to(&self, machine: usize) -> u64 {
        let pinned = (0..self.len()).filter(|unit| self.pinned[*unit] == Some(machine));
        pinned.map(|unit| self.size(unit)).sum()
    }

    /// Returns the total weight of the ties between units of different machines.
    #[must_use]
    pub(crate) fn cut(&self, machine_of: &[usize]) -> u64 {
        let ties = self.ties.iter().enumerate();
        let crossing = ties.flat_map(|(unit, ties)| {
            let crosses = move |(other, _): &&(usize, u64)| {
                *other > unit && machine_of[unit] != machine_of[*other]
            };
            ties.iter().filter(crosses).map(|(_, weight)| *weight)
        });
        crossing.sum()
    }
}
