//! Paths between two nodes that share no node but their ends, of least total delay.
//!
//! They are found as a flow of least cost (Suurballe 1974; the methods of Bhandari and Suurballe are the cases of two
//! paths). Every node is split into an entry half and an exit half, and one unit of flow fits between them. Each further
//! path is the cheapest way to add a unit, which may send back flow of an earlier path. Potentials keep all costs of that
//! search at zero or above, so that Dijkstra's algorithm applies (Edmonds and Karp 1972).

use crate::graph::{Graph, PathHop, UNREACHABLE};
use constel_topology::NodeId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// How a half of a node was reached from another.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Over the arc of this number.
    Along(usize),
    /// Back over the arc of this number, which carries flow: it carries none any more.
    Back(usize),
    /// From one half of a node to the other.
    Within,
}

/// The flow so far.
#[derive(Default)]
struct Flow {
    /// Arcs that carry a unit, by number, with the node each leaves.
    used: BTreeMap<usize, u32>,
    /// For nodes on a path, the arc by which they are entered and the node it leaves.
    entered_by: BTreeMap<u32, (usize, u32)>,
}

/// The half of a node that is entered.
fn entry(node: u32) -> usize {
    2 * node as usize
}

/// The half of a node that is left.
fn exit(node: u32) -> usize {
    2 * node as usize + 1
}

/// One search for the cheapest way to add a unit of flow.
struct Search<'a> {
    graph: &'a Graph,
    flow: &'a Flow,
    /// For each half, the potential that makes all costs from it zero or above.
    potential_ns: &'a [i64],
    cost_ns: Vec<u64>,
    came_by: Vec<Option<(usize, Step)>>,
    open: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Search<'_> {
    /// Reaches `half` from another at `from_cost` for `cost_ns` more, if nothing cheaper is known.
    fn relax(&mut self, (from, from_cost): (usize, u64), half: usize, cost_ns: i64, step: Step) {
        let reduced = cost_ns + self.potential_ns[from] - self.potential_ns[half];
        debug_assert!(reduced >= 0, "potentials keep costs at zero or above");
        let cost = from_cost + reduced.unsigned_abs();
        if cost < self.cost_ns[half] {
            self.cost_ns[half] = cost;
            self.came_by[half] = Some((from, step));
            self.open.push(Reverse((cost, half)));
        }
    }

    /// Searches from the first node until the second is reached. Returns false if it is unreachable. Among equally cheap
    /// halves the one with the lower number comes first, so the result depends on the graph only.
    fn spread(&mut self, from: NodeId, to: NodeId) -> bool {
        self.cost_ns[exit(from.0)] = 0;
        self.open.push(Reverse((0, exit(from.0))));
        while let Some(Reverse((cost, half))) = self.open.pop() {
            if half == entry(to.0) {
                return true;
            }
            if cost > self.cost_ns[half] {
                continue;
            }
            let node = (half / 2) as u32;
            let at = (half, cost);
            let passed_by = self.flow.entered_by.get(&node).copied();
            if half == exit(node) {
                self.leave(at, node, from, to);
                if passed_by.is_some() {
                    self.relax(at, entry(node), 0, Step::Within);
                }
            } else if let Some((arc, tail)) = passed_by {
                // Another path passes through this node, so that path must be rerouted.
                if tail != from.0 {
                    let delay = self.graph.way(arc).delay_ns as i64;
                    self.relax(at, exit(tail), -delay, Step::Back(arc));
                }
            } else {
                self.relax(at, exit(node), 0, Step::Within);
            }
        }
        false
    }

    fn leave(&mut self, at: (usize, u64), node: u32, from: NodeId, to: NodeId) {
        let graph = self.graph;
        for (number, arc) in graph.ways_out(node) {
            let open = arc.peer == to.0 || (arc.peer != from.0 && graph.is_transit(arc.peer));
            if open && !self.flow.used.contains_key(&number) && graph.both_ways(node, arc) {
                let delay = arc.delay_ns as i64;
                self.relax(at, entry(arc.peer), delay, Step::Along(number));
            }
        }
    }
}

impl Flow {
    /// Adds the unit that a search found.
    fn add(&mut self, graph: &Graph, came_by: &[Option<(usize, Step)>], to: NodeId) {
        let mut half = entry(to.0);
        while let Some((from, step)) = came_by[half] {
            match step {
                Step::Along(arc) => {
                    self.used.insert(arc, (from / 2) as u32);
                }
                Step::Back(arc) => {
                    self.used.remove(&arc);
                }
                Step::Within => {}
            }
            half = from;
        }
        let entered = |(&arc, &tail): (&usize, &u32)| (graph.way(arc).peer, (arc, tail));
        self.entered_by = self.used.iter().map(entered).collect();
        self.entered_by.remove(&to.0);
    }

    /// The paths it consists of.
    fn paths(&self, graph: &Graph, from: NodeId, to: NodeId) -> Vec<Vec<PathHop>> {
        let firsts = self.used.iter().filter(|(_, tail)| **tail == from.0);
        let follow = |(&first, _): (&usize, &u32)| {
            let (mut path, mut arc, mut tail) = (Vec::new(), first, from.0);
            loop {
                let way = graph.way(arc);
                path.push(PathHop {
                    from: NodeId(tail),
                    port: way.port,
                    far_port: way.far_port,
                    to: NodeId(way.peer),
                    delay_ns: way.delay_ns,
                });
                if way.peer == to.0 {
                    return path;
                }
                tail = way.peer;
                arc = graph
                    .ways_out(tail)
                    .map(|(number, _)| number)
                    .find(|number| self.used.contains_key(number))
                    .unwrap_or_else(|| unreachable!("what enters {tail} leaves it"));
            }
        };
        firsts.map(follow).collect()
    }
}

/// Sum of the delays of a path's hops, ns.
#[must_use]
pub fn delay_ns(path: &[PathHop]) -> u64 {
    path.iter().map(|hop| hop.delay_ns).sum()
}

impl Graph {
    /// Returns paths from one node to another that share no node but these two. It returns up to `most` of them, as many as
    /// exist, and of all such sets one with the least total delay. The shortest comes first. Among equal paths the one
    /// whose nodes have the lower numbers comes first. Nodes that forbid transit are on no path, and every link of the paths works
    /// in both directions.
    ///
    /// The first path is not always the shortest one of the graph, because that one may block a second path.
    ///
    /// # Panics
    /// When a node is not of this graph.
    #[must_use]
    pub fn disjoint(&self, from: NodeId, to: NodeId, most: usize) -> Vec<Vec<PathHop>> {
        if from == to {
            return Vec::new();
        }
        let halves = 2 * self.node_count();
        let mut flow = Flow::default();
        let mut potential_ns = vec![0_i64; halves];
        for _ in 0..most {
            let mut search = Search {
                graph: self,
                flow: &flow,
                potential_ns: &potential_ns,
                cost_ns: vec![UNREACHABLE; halves],
                came_by: vec![None; halves],
                open: BinaryHeap::new(),
            };
            if !search.spread(from, to) {
                break;
            }
            let Search {
                cost_ns, came_by, ..
            } = search;
            // Halves that the search did not settle cost at least as much as the goal.
            let goal = cost_ns[entry(to.0)];
            for (potential, cost) in potential_ns.iter_mut().zip(&cost_ns) {
                *potential += (*cost).min(goal) as i64;
            }
            flow.add(self, &came_by, to);
        }
        let mut paths = flow.paths(self, from, to);
        paths.sort_by_cached_key(|path| {
            let hops = path.iter().map(|hop| (hop.to, hop.port));
            (delay_ns(path), hops.collect::<Vec<_>>())
        });
        paths
    }
}

#[cfg(test)]
mod tests;
