//! What is to be divided: nodes, who must stay together, and how much passes between them.

use std::collections::BTreeMap;

/// Nodes that are placed as one, with what ties them to others. Units are numbered in the order of their first nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Graph {
    /// Nodes of each unit, sorted.
    units: Vec<Vec<u32>>,
    /// For each unit, its neighbours with what the ties weigh; sorted, without itself, the same from both ends.
    ties: Vec<Vec<(usize, u64)>>,
    /// Machine of each unit that has been decided on.
    pinned: Vec<Option<usize>>,
}

/// Two pins of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Torn {
    /// A node pinned to one machine,
    pub(crate) one: (u32, usize),
    /// and one that has to stay with it, pinned to another.
    pub(crate) other: (u32, usize),
}

impl Graph {
    /// `count` nodes, groups of nodes that stay together, ties (two nodes and a weight; those between the same two add up),
    /// and nodes whose machine is decided.
    ///
    /// # Errors
    /// When nodes that stay together are pinned to different machines.
    ///
    /// # Panics
    /// When a node is not below `count`.
    pub(crate) fn new(
        count: u32,
        together: &[Vec<u32>],
        ties: impl IntoIterator<Item = (u32, u32, u64)>,
        pins: &BTreeMap<u32, usize>,
    ) -> Result<Self, Torn> {
        let mut head: Vec<u32> = (0..count).collect();
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
                // The smaller one leads, so that units are in the order of their first nodes.
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

    /// How many units there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.units.len()
    }

    /// Nodes of a unit.
    #[must_use]
    pub(crate) fn nodes(&self, unit: usize) -> &[u32] {
        &self.units[unit]
    }

    /// How many nodes a unit has.
    #[must_use]
    pub(crate) fn size(&self, unit: usize) -> u64 {
        self.units[unit].len() as u64
    }

    /// Nodes of all units.
    #[must_use]
    pub(crate) fn node_count(&self) -> u64 {
        (0..self.len()).map(|unit| self.size(unit)).sum()
    }

    /// Who a unit is tied to, and how much.
    #[must_use]
    pub(crate) fn ties(&self, unit: usize) -> &[(usize, u64)] {
        &self.ties[unit]
    }

    /// The machine that was decided for a unit.
    #[must_use]
    pub(crate) fn pin(&self, unit: usize) -> Option<usize> {
        self.pinned[unit]
    }

    /// Nodes that were decided to be a machine's.
    #[must_use]
    pub(crate) fn pinned_to(&self, machine: usize) -> u64 {
        let pinned = (0..self.len()).filter(|unit| self.pinned[*unit] == Some(machine));
        pinned.map(|unit| self.size(unit)).sum()
    }

    /// What the ties between units of different machines weigh.
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
