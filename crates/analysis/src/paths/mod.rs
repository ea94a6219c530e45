//! Least-delay paths at several instants at once.
//!
//! From one second to the next, orbits change delays by microseconds and hardly any least-delay path changes. Eight
//! instants therefore share one pass over the links of each destination ([`tree`]), and paths that stay as they are
//! throughout are walked once. The result is exact: the same distances, first hops and paths as
//! [`constel_routing::Graph`] with [`constel_routing::GroundTransit::Never`] gives.

mod graph;
mod lanes;
mod tree;

use std::ops::Range;

use constel_topology::{Layout, NodeId, Snapshot};

pub use lanes::LANES;

use graph::Graph;
use lanes::{ALL, NEVER, NOTHING, Times, choose, equal, lower, twice};
use tree::{NodeOrder, Scratch, unknown};

/// Nobody.
const NOBODY: u32 = u32::MAX;

/// The graph of up to [`LANES`] instants, and the state of each destination that is kept for the next ones.
#[derive(Debug, Default)]
pub struct Paths {
    graph: Graph,
    orders: Vec<NodeOrder>,
    scratch: Scratch,
    /// The destination aimed at, and every node's distance from it.
    destination: u32,
    distances: Vec<Times>,
    /// First hops of nodes towards the destination, computed on request: those of this `aim`.
    hops: Vec<Hop>,
    aim: u64,
    /// By slot and node: first hops at the last instant.
    lasts: Vec<Vec<Last>>,
    slot: usize,
    /// How often instants were forgotten.
    batch: u32,
    nodes: Vec<u32>,
}

/// A node's first hop at each instant.
#[derive(Debug, Clone, Copy, Default)]
struct Hop {
    /// The [`Paths::aim`] it is of.
    aim: u64,
    to: [u32; LANES],
    /// Whether it is the same at all loaded instants.
    steady: bool,
    /// Whether it is steady, and equal to that at the last instant of those loaded before.
    kept: bool,
    /// Whether that is true for all hops from there on, too; `None`: it was not computed.
    all_kept: Option<bool>,
}

/// A node's first hop towards a destination at the last instant of some that were loaded together.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// [`Paths::batch`] of then.
    batch: u32,
    to: u32,
}

impl Last {
    /// The hop was not computed.
    const UNKNOWN: Last = Last {
        batch: 0,
        to: NOBODY,
    };
}

impl Hop {
    /// Returns the hop's next node at an instant, and the instants with that node, as bits.
    fn at(&self, lane: usize) -> (u32, u32) {
        let to = self.to[lane];
        if self.steady {
            return (to, ALL);
        }
        let same = |set, (lane, other): (usize, &u32)| set | (u32::from(*other == to) << lane);
        (to, self.to.iter().enumerate().fold(0, same))
    }
}

impl Paths {
    /// Forgets the instants loaded.
    pub fn clear(&mut self) {
        self.graph.clear();
        self.batch += 1;
    }

    /// How many instants are loaded.
    pub fn lanes(&self) -> usize {
        self.graph.lanes
    }

    /// Takes in one instant more: the edges of `snapshot` (those of them usable before its step ends, as routes do).
    ///
    /// # Panics
    /// When [`LANES`] are loaded already.
    pub fn load(&mut self, layout: &Layout, snapshot: &Snapshot) {
        self.graph.load(layout, snapshot);
    }

    /// Computes the distances to `destination` at all instants loaded. `slot` names the memory of the time before:
    /// give the same destination the same slot every time.
    pub fn aim(&mut self, slot: usize, destination: NodeId) {
        if self.orders.len() <= slot {
            self.orders.resize_with(slot + 1, NodeOrder::default);
            self.lasts.resize_with(slot + 1, Vec::new);
        }
        self.slot = slot;
        self.lasts[slot].resize(self.graph.nodes(), Last::UNKNOWN);
        unknown(&mut self.distances, self.graph.nodes());
        match self.graph.access(destination.0) {
            None => self.distances[destination.index()] = NOTHING,
            Some(access) => {
                for a in access {
                    lower(&mut self.distances[a.node as usize], &a.down, &NOTHING);
                }
            }
        }
        self.orders[slot].settle(&self.graph, &mut self.distances, &mut self.scratch);
        self.destination = destination.0;
        self.aim += 1;
        self.hops.resize(self.graph.nodes(), Hop::default());
    }

    /// Finds the least-delay paths from `from` to the destination aimed at. `each` is called for one run of
    /// instants after another, in order, with the delays at them and the nodes of the common path, both ends
    /// included; without nodes if there is no path. Among first hops of equal length the one to the lower node
    /// wins.
    ///
    /// # Panics
    /// When no destination was aimed at, or `from` is of another layout.
    pub fn trace(
        &mut self,
        from: NodeId,
        mut each: impl FnMut(Range<usize>, &[f64; LANES], &[u32]),
    ) {
        let lanes = self.graph.lanes;
        let (first, delays) = self.first_hops(from);
        let exists = (0..LANES).fold(0, |set, lane| {
            set | (u32::from(delays[lane] < f64::INFINITY) << lane)
        });
        let mut nodes = std::mem::take(&mut self.nodes);
        let mut lane = 0;
        while lane < lanes {
            nodes.clear();
            // The instants at which it is the same as at this one.
            let mut same = !exists;
            if exists >> lane & 1 == 1 {
                same = exists;
                nodes.push(from.0);
                let mut at = from.0;
                while at != self.destination {
                    let hop = match nodes.len() {
                        1 => &first,
                        _ => self.hop(at),
                    };
                    let (to, lanes) = hop.at(lane);
                    same &= lanes;
                    at = to;
                    nodes.push(at);
                }
            }
            let end = lane + (same >> lane).trailing_ones() as usize;
            each(lane..end.min(lanes), &delays, &nodes);
            lane = end;
        }
        self.nodes = nodes;
    }

    /// Returns the delays of the least-delay paths from `from` to the destination aimed at, if at all instants
    /// it is the path whose first node after `from` is `first`, and which was the least at the last instant
    /// loaded before. The caller must know that such a path with this first node existed then. `None` also if
    /// the answer would be costly.
    pub fn unchanged(&mut self, from: NodeId, first: u32) -> Option<[f64; LANES]> {
        let (hop, delays) = self.first_hops(from);
        let lanes = self.graph.lanes;
        let same = hop.steady && hop.to[0] == first;
        let exists = delays[..lanes].iter().all(|d| *d < f64::INFINITY);
        (same && exists && self.kept_from(first)).then_some(*delays)
    }

    /// Whether all hops from `node` on are the same as at the last instant loaded before.
    fn kept_from(&mut self, node: u32) -> bool {
        let mut way = std::mem::take(&mut self.nodes);
        way.clear();
        let mut at = node;
        let kept = loop {
            if at == self.destination {
                break true;
            }
            let hop = self.hop(at);
            if let Some(known) = hop.all_kept {
                break known;
            }
            way.push(at);
            if !hop.kept {
                break false;
            }
            at = hop.to[0];
        };
        for node in &way {
            self.hops[*node as usize].all_kept = Some(kept);
        }
        self.nodes = way;
        kept
    }

    /// First hops of a path's first node, and the path's delays.
    fn first_hops(&mut self, from: NodeId) -> (Hop, Times) {
        if from.0 == self.destination {
            let hop = Hop {
                steady: true,
                ..Hop::default()
            };
            return (hop, NOTHING);
        }
        let Some(access) = self.graph.access(from.0) else {
            return (*self.hop(from.0), self.distances[from.index()]);
        };
        let (mut least, mut to) = (NEVER, [NOBODY; LANES]);
        for a in access {
            let onward = &self.distances[a.node as usize];
            choose(&mut least, &mut to, onward, &a.up, a.node);
        }
        (self.hop_to(to), least)
    }

    /// The first hop of a node that passes traffic on and is not the destination: the first node in order whose
    /// distance and the delay to it make the node's own. Of no meaning at instants when there is no way.
    fn hop(&mut self, node: u32) -> &Hop {
        if self.hops[node as usize].aim != self.aim {
            let hop = self.find_hop(node);
            let last = &mut self.lasts[self.slot][node as usize];
            let now = Last {
                batch: self.batch,
                to: hop.to[self.graph.lanes - 1],
            };
            let before = std::mem::replace(last, now);
            let kept = hop.steady && before.batch + 1 == self.batch && before.to == now.to;
            self.hops[node as usize] = Hop { kept, ..hop };
        }
        &self.hops[node as usize]
    }

    twice! {
        /// Computes the hop that [`Paths::hop`] stores, without the comparison with the hop before.
        fn find_hop as find_hop_once, find_hop_by_fours(&self, node: u32) -> Hop
    }

    #[inline(always)]
    fn find_hop_once(&self, node: u32) -> Hop {
        let own = &self.distances[node as usize];
        let (mut to, mut open) = ([NOBODY; LANES], ALL);
        let mut take = |peer: u32, lanes: u32| {
            let fresh = lanes & open;
            open &= !lanes;
            if fresh == ALL {
                to = [peer; LANES];
            } else if fresh != 0 {
                (0..LANES)
                    .filter(|l| fresh >> l & 1 == 1)
                    .for_each(|l| to[l] = peer);
            }
            open == 0
        };
        let access = self.graph.access(self.destination).unwrap_or_default();
        let mut ends = access.iter().filter(|a| a.node == node);
        let mut end = ends.next();
        for arc in self.graph.arcs(node) {
            while let Some(a) = end.filter(|_| self.destination < arc.peer) {
                take(self.destination, equal(&a.down, &NOTHING, own));
                end = ends.next();
            }
            let onward = &self.distances[arc.peer as usize];
            let there = &self.graph.delays[arc.there as usize];
            if take(arc.peer, equal(onward, there, own)) {
                break;
            }
        }
        while let Some(a) = end {
            take(self.destination, equal(&a.down, &NOTHING, own));
            end = ends.next();
        }
        self.hop_to(to)
    }

    fn hop_to(&self, to: [u32; LANES]) -> Hop {
        Hop {
            aim: self.aim,
            to,
            steady: to[..self.graph.lanes].iter().all(|t| *t == to[0]),
            ..Hop::default()
        }
    }
}
