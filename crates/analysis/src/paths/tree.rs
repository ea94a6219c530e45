//! Least delays of all nodes to one destination, at several instants at once.
//!
//! Nodes are visited in order of their distance at the previous instants. Each takes the least distance that
//! its links to visited nodes give, at all instants at once, and then checks whether it shortens the path of
//! one of these in turn. If none does, every distance is the minimum over all links, and one pass over the
//! links was enough. The order stays right for minutes: it changes only when the distances of two neighbours
//! cross by more than the delay between them. When it was wrong, as after a handover of the destination, the
//! pass is repeated until nothing changes (Bellman 1958, Ford 1956), and after a few passes with the order that
//! Dijkstra's algorithm (1959) gives for the last instant.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::Graph;
use super::lanes::{NEVER, NOTHING, Times, any_positive, excess, lower, twice};

/// Passes in an old order before a new order is made from scratch.
const PASSES: usize = 3;
/// Into how many parts of equal width distances are sorted. Order within a part does not matter much: two
/// neighbours are rarely as near to one another.
const PARTS: usize = 4096;

/// A link, as the later of its ends in the order sees it.
#[derive(Debug, Clone, Copy, Default)]
struct Back {
    /// The end that was visited before.
    earlier: u32,
    /// Places of the delays to it, and from it.
    to: u32,
    from: u32,
}

/// The order of the nodes of a destination, kept from instant to instant.
#[derive(Debug, Default)]
pub(super) struct NodeOrder {
    /// Nodes, each with one past the last of its links in `links`.
    nodes: Vec<(u32, u32)>,
    links: Vec<Back>,
    /// The graph's shape it was made for.
    shape: u64,
}

/// Memory for making an order.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Nodes with their distances in front, in one number each.
    heap: BinaryHeap<Reverse<u64>>,
    distances: Vec<u64>,
    starts: Vec<u32>,
    order: Vec<u32>,
    rank: Vec<u32>,
}

impl NodeOrder {
    /// Reduces `distances` to the least distance of every node; at the start they are those of the
    /// destination's own links, and infinite elsewhere.
    pub(super) fn settle(&mut self, graph: &Graph, distances: &mut [Times], scratch: &mut Scratch) {
        let known = self.shape == graph.shape;
        if known && !self.pass(graph, distances) {
            return;
        }
        let mut passes = 1;
        while !known || self.pass(graph, distances) {
            passes += 1;
            if !known || passes == PASSES {
                scratch.search(graph, distances);
                self.make(graph, scratch);
                while self.pass(graph, distances) {}
                return;
            }
        }
        // The next instants are nearest to the last one.
        let last = graph.lanes - 1;
        scratch.distances.clear();
        scratch
            .distances
            .extend(distances.iter().map(|d| nanoseconds(d[last])));
        self.make(graph, scratch);
    }

    twice! {
        /// One pass in order; returns true when the order was wrong somewhere, so that another pass is needed.
        fn pass as pass_once, pass_by_fours(&self, graph: &Graph, distances: &mut [Times]) -> bool
    }

    #[inline(always)]
    fn pass_once(&self, graph: &Graph, distances: &mut [Times]) -> bool {
        let delays = graph.delays.as_slice();
        let mut wrong = false;
        let mut first = 0;
        for &(node, end) in &self.nodes {
            let links = &self.links[first..end as usize];
            first = end as usize;
            let mut least = distances[node as usize];
            for link in links {
                let there = &delays[link.to as usize];
                lower(&mut least, &distances[link.earlier as usize], there);
            }
            distances[node as usize] = least;
            let mut over = NOTHING;
            for link in links {
                let back = &delays[link.from as usize];
                excess(&mut over, &distances[link.earlier as usize], &least, back);
            }
            if any_positive(&over) {
                wrong = true;
                for link in links {
                    let back = &delays[link.from as usize];
                    lower(&mut distances[link.earlier as usize], &least, back);
                }
            }
        }
        wrong
    }

    /// Nodes in order of `scratch.distances`, and their links.
    fn make(&mut self, graph: &Graph, scratch: &mut Scratch) {
        scratch.sort();
        let Scratch { order, rank, .. } = scratch;
        let mut count = 0;
        self.nodes.clear();
        self.links.resize(graph.links() + 1, Back::default());
        for (own, &node) in (0..).zip(&*order) {
            for arc in graph.arcs(node) {
                // Written whether it counts or not: the condition is not predictable, so a branch would be
                // slow.
                self.links[count] = Back {
                    earlier: arc.peer,
                    to: arc.there,
                    from: arc.back,
                };
                count += usize::from(rank[arc.peer as usize] < own);
            }
            self.nodes.push((node, count as u32));
        }
        self.links.truncate(count);
        self.shape = graph.shape;
    }
}

impl Scratch {
    /// Computes distances at the last instant by Dijkstra's algorithm, from `offers`, the distances of the
    /// destination's own links.
    fn search(&mut self, graph: &Graph, offers: &[Times]) {
        assert!(offers.len() as u64 <= NODE, "too many nodes");
        let last = graph.lanes - 1;
        let Scratch {
            heap, distances, ..
        } = self;
        distances.clear();
        distances.extend(offers.iter().map(|d| nanoseconds(d[last])));
        heap.clear();
        let found = (0..).zip(&*distances).filter(|(_, ns)| **ns < u64::MAX);
        heap.extend(found.map(|(node, ns)| Reverse(packed(*ns, node))));
        while let Some(Reverse(next)) = heap.pop() {
            let node = (next & NODE) as u32;
            let ns = distances[node as usize];
            if next > packed(ns, node) {
                continue;
            }
            for arc in graph.arcs(node) {
                let longer = ns.saturating_add(nanoseconds(graph.delays[arc.back as usize][last]));
                let known = &mut distances[arc.peer as usize];
                if longer < *known {
                    *known = longer;
                    heap.push(Reverse(packed(longer, arc.peer)));
                }
            }
        }
    }

    /// Nodes in order of their distance, roughly, and each one's place in it.
    fn sort(&mut self) {
        let Scratch {
            distances,
            starts,
            order,
            rank,
            ..
        } = self;
        let reached = distances.iter().filter(|ns| **ns < u64::MAX);
        // The least power of two that is wide enough: a shift instead of a division.
        let most = reached.max().map_or(0, |most| most / PARTS as u64);
        let width = u64::BITS - most.leading_zeros();
        // Nodes that are not reached come last.
        let part = |ns: u64| ((ns >> width) as usize).min(PARTS);
        starts.clear();
        starts.resize(PARTS + 2, 0);
        distances.iter().for_each(|ns| starts[part(*ns) + 1] += 1);
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        order.resize(distances.len(), 0);
        rank.resize(distances.len(), 0);
        for (node, ns) in (0..).zip(&*distances) {
            let place = &mut starts[part(*ns)];
            order[*place as usize] = node;
            rank[node as usize] = *place;
            *place += 1;
        }
    }
}

/// The lower bits of a [`packed`] value.
const NODE: u64 = (1 << 24) - 1;

/// A node and its distance in one number. Distances only serve to sort: beyond 18 minutes all are equal.
fn packed(ns: u64, node: u32) -> u64 {
    ns.min(u64::MAX >> 24) << 24 | u64::from(node)
}

/// Whole nanoseconds; the greatest number for never.
fn nanoseconds(time: f64) -> u64 {
    // Conversions saturate.
    time as u64
}

/// Sets distances to unknown.
pub(super) fn unknown(distances: &mut Vec<Times>, nodes: usize) {
    distances.clear();
    distances.resize(nodes, NEVER);
}
