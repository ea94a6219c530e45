//! Shortest paths derived from those of a similar graph: the previous step.
//!
//! The old tree with the new delays is an upper bound. One pass over all links finds the nodes whose bound is not the
//! minimum, or whose best path is not unique. From these nodes on, Dijkstra's algorithm continues (Ramalingam and Reps 1996,
//! for costs that only decrease). Nearly all of the time is spent in the two passes over all nodes. Their data is small
//! enough for a processor's cache because a first hop is stored as its index among the node's links.

use std::cmp::Reverse;
use std::sync::Arc;

use constel_link::PortId;
use constel_topology::NodeId;

use crate::graph::{Graph, HOP, Metric, NextHop, Scratch, UNREACHABLE};
use crate::hops::{DIRECT, Hops, NONE, Placed, Rows};
use crate::runs::Runs;

/// More than any cost: nothing leads from here.
const DEAD: u64 = UNREACHABLE - 1;

/// The order is rebuilt when more than one of this number of nodes precedes a node on its path. Rebuilding takes as long as
/// resolving some of these again and again.
const OUT_OF_ORDER: u32 = 10;

/// A link that any node's packets may use.
#[derive(Clone, Copy)]
struct Open {
    delay_ns: u32,
    peer: u32,
}

/// A link to a destination that forbids transit.
struct Direct {
    node: u32,
    cost: u64,
    hop: NextHop,
}

/// A graph, laid out for following.
pub(crate) struct Follower<'g> {
    graph: &'g Graph,
    /// The cost of a hop in addition to its delay.
    hop: u64,
    rows: Arc<Rows>,
    /// In the order of the rows.
    open: Vec<Open>,
    runs: Runs,
    /// The rows of the previous graph, and the nodes whose row differs now.
    before: Option<(Arc<Rows>, Vec<u32>)>,
}

/// Memory reused between destinations.
#[derive(Default)]
pub(crate) struct FollowScratch {
    /// Working memory of the algorithm from scratch.
    pub(crate) plain: Scratch,
    /// The nodes from one with unknown cost towards the destination.
    climb: Vec<u32>,
    /// Links into the destination, by node.
    direct: Vec<Direct>,
    /// Nodes that turned out to be nearer.
    nearer: Vec<u32>,
    /// Nodes from which one of these is as good a hop as the one that is known.
    tied: Vec<u32>,
    /// Nodes whose links were all compared.
    looked_at: Vec<u32>,
    /// By node; all false between two uses.
    marked: Vec<bool>,
}

/// Memory for the search of one destination, kept for reuse. Newly allocated memory would be cleared by the kernel page by
/// page in each step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room {
    pub(crate) cost: Vec<u64>,
    pub(crate) places: Vec<u8>,
}

/// The search state of one destination.
struct Search<'s> {
    destination: NodeId,
    cost: Vec<u64>,
    places: Vec<u8>,
    scratch: &'s mut FollowScratch,
}

/// The paths of all nodes to a destination, and the nodes whose paths differ from before.
pub(crate) struct Followed {
    pub(crate) hops: Hops,
    pub(crate) cost: Vec<u64>,
    pub(crate) changed: Vec<u32>,
}

impl<'g> Follower<'g> {
    /// Prepares a graph that follows the one of the `before` hops. Returns `None` if the graph exceeds the fixed layout.
    pub(crate) fn new(graph: &'g Graph, metric: Metric, before: &[Hops]) -> Option<Self> {
        let hop = match metric {
            Metric::Delay => 0,
            Metric::Hops => HOP,
        };
        let nodes = graph.node_count() as u32;
        let mut rows = Rows::with_room(nodes as usize, graph.ways_count());
        let mut open = Vec::with_capacity(graph.ways_count());
        for node in 0..nodes {
            let ways = graph.ways_out(node).map(|(_, arc)| arc);
            for arc in ways.filter(|arc| graph.is_transit(arc.peer)) {
                open.push(Open {
                    delay_ns: u32::try_from(arc.delay_ns).ok()?,
                    peer: arc.peer,
                });
                rows.push(arc.hop());
            }
            rows.end_row()?;
        }
        let earlier = before.iter().find_map(Hops::rows).cloned();
        let before = earlier.map(|earlier| {
            let moved = rows.differing(&earlier);
            (earlier, moved)
        });
        // One copy for as long as nothing moves.
        let rows = match &before {
            Some((earlier, moved)) if moved.is_empty() && **earlier == rows => Arc::clone(earlier),
            _ => Arc::new(rows),
        };
        let ways = |node: u32| -> Option<[(u32, u64); 4]> {
            let ways: &[Open; 4] = open[rows.range(node)].try_into().ok()?;
            Some(ways.map(|way| (way.peer, hop + u64::from(way.delay_ns))))
        };
        Some(Self {
            runs: Runs::find(nodes, ways),
            graph,
            hop,
            rows,
            open,
            before,
        })
    }

    /// As [`Graph::ways`] with one first hop each, found from first hops of `before`, which has as many nodes. The result is the
    /// same whatever they are, as long as no packet comes round by them.
    pub(crate) fn ways(
        &self,
        destination: NodeId,
        before: &Hops,
        room: Room,
        scratch: &mut FollowScratch,
    ) -> Followed {
        scratch.looked_at.clear();
        self.find_direct(destination, scratch);
        let Room { mut cost, places } = room;
        let places = self.places(before, places, scratch);
        let nodes = self.graph.node_count() as u32;
        let order = before.order();
        let order = order.map_or_else(|| (0..nodes).collect(), Arc::clone);
        cost.clear();
        cost.resize(nodes as usize, UNREACHABLE);
        let mut search = Search {
            destination,
            cost,
            places,
            scratch,
        };
        let out_of_order = self.costs_along(&order, &mut search);
        self.correct(&mut search);
        let Search {
            cost,
            places,
            scratch,
            ..
        } = search;
        let order = if out_of_order > nodes / OUT_OF_ORDER {
            self.ordered(&places).into()
        } else {
            order
        };
        let hops = self.placed(places, order, scratch);
        // A node that was not compared keeps its hop: the hop was confirmed, and no other one is as good.
        let mut changed = std::mem::take(&mut scratch.looked_at);
        changed.retain(|node| hops.of(*node) != before.of(*node));
        changed.sort_unstable();
        changed.dedup();
        Followed {
            hops,
            cost,
            changed,
        }
    }

    /// First hops that were found from scratch, as they are best followed.
    pub(crate) fn kept(
        &self,
        destination: NodeId,
        next: Vec<Option<NextHop>>,
        scratch: &mut FollowScratch,
    ) -> Hops {
        self.find_direct(destination, scratch);
        let places = self.places(&Hops::Listed(next), Vec::new(), scratch);
        let order = self.ordered(&places).into();
        self.placed(places, order, scratch)
    }

    fn placed(&self, places: Vec<u8>, order: Arc<[u32]>, scratch: &FollowScratch) -> Hops {
        let direct = scratch.direct.iter();
        Hops::Placed(Placed {
            rows: Arc::clone(&self.rows),
            places,
            direct: direct.map(|direct| (direct.node, direct.hop)).collect(),
            order,
        })
    }

    fn open_of(&self, node: u32) -> &[Open] {
        &self.open[self.rows.range(node)]
    }

    fn find_direct(&self, destination: NodeId, scratch: &mut FollowScratch) {
        scratch.direct.clear();
        if self.graph.is_transit(destination.0) {
            return;
        }
        let ways = self.graph.ways_in(destination.0).iter();
        scratch.direct.extend(ways.map(|arc| Direct {
            node: arc.peer,
            cost: self.hop + arc.delay_ns,
            hop: arc.hop(),
        }));
        // For several links to one node, keep the one that would be chosen.
        let key = |direct: &Direct| (direct.node, direct.cost, direct.hop.port);
        scratch.direct.sort_by_key(key);
        scratch.direct.dedup_by_key(|direct| direct.node);
    }

    /// Returns the indices of the previous first hops among the present links. Nodes whose link is gone are marked as
    /// compared.
    fn places(&self, before: &Hops, room: Vec<u8>, scratch: &mut FollowScratch) -> Vec<u8> {
        let known = before.placed().zip(self.before.as_ref());
        let known = known.filter(|(placed, (rows, _))| Arc::ptr_eq(&placed.rows, rows));
        let nodes = self.graph.node_count() as u32;
        let mut places = room;
        places.clear();
        match known {
            Some((placed, _)) => places.extend_from_slice(&placed.places),
            None => places.resize(nodes as usize, NONE),
        }
        let mut anew = |node: u32| {
            let Some(hop) = before.of(node) else { return };
            let place = self.rows.place(node, hop);
            places[node as usize] = place;
            if place == NONE {
                scratch.looked_at.push(node);
            }
        };
        match known {
            Some((placed, (_, moved))) => {
                moved.iter().copied().for_each(&mut anew);
                placed.direct.iter().for_each(|(node, _)| anew(*node));
            }
            None => (0..nodes).for_each(anew),
        }
        // A node next to the destination without a better known path goes there directly.
        for direct in &scratch.direct {
            let known = &mut places[direct.node as usize];
            if *known == NONE {
                *known = DIRECT;
            }
        }
        places
    }

    /// Computes the costs along the previous first hops as far as they still exist; [`UNREACHABLE`] from where they do not.
    /// Returns the number of nodes that preceded a node on their path.
    fn costs_along(&self, order: &[u32], search: &mut Search<'_>) -> u32 {
        let Search {
            destination,
            cost,
            places,
            scratch,
        } = search;
        cost[destination.index()] = 0;
        for direct in &scratch.direct {
            if places[direct.node as usize] == DIRECT {
                cost[direct.node as usize] = direct.cost;
            }
        }
        let onward = |at: u32| {
            let place = places[at as usize];
            let way = || &self.open[self.rows.start(at) + usize::from(place)];
            (place < DIRECT).then(way)
        };
        let (mut out_of_order, mut any_dead) = (0, false);
        for &node in order {
            let Some(way) = onward(node) else { continue };
            if cost[node as usize] != UNREACHABLE {
                continue;
            }
            let beyond = cost[way.peer as usize];
            if beyond < DEAD {
                cost[node as usize] = beyond + self.hop + u64::from(way.delay_ns);
                continue;
            }
            let mut at = node;
            let mut whole = loop {
                scratch.climb.push(at);
                let Some(way) = onward(at) else { break DEAD };
                at = way.peer;
                if cost[at as usize] != UNREACHABLE {
                    break cost[at as usize];
                }
            };
            any_dead |= whole == DEAD;
            out_of_order += scratch.climb.len() as u32 - 1;
            while let Some(at) = scratch.climb.pop() {
                let more = onward(at).map_or(0, |way| self.hop + u64::from(way.delay_ns));
                whole = whole.saturating_add(more).min(DEAD);
                cost[at as usize] = whole;
            }
        }
        if any_dead {
            let dead = cost.iter_mut().filter(|cost| **cost == DEAD);
            dead.for_each(|cost| *cost = UNREACHABLE);
        }
        out_of_order
    }

    /// From bounds to the truth.
    fn correct(&self, search: &mut Search<'_>) {
        search.scratch.plain.heap.clear();
        search.scratch.nearer.clear();
        search.scratch.tied.clear();
        for at in 0..search.scratch.direct.len() {
            self.look(search.scratch.direct[at].node, search);
        }
        let nodes = self.graph.node_count() as u32;
        let mut next = 0;
        for run in self.runs.all() {
            self.compare(next..run.nodes().start, search);
            for part in run.parts() {
                let stands = self.runs.stand(run, part.clone(), &search.cost)
                    || self
                        .runs
                        .stay_cut_off(run, part.clone(), &search.cost, &search.places);
                if !stands {
                    self.compare(part, search);
                }
            }
            next = run.nodes().end;
        }
        self.compare(next..nodes, search);
        if search.scratch.plain.heap.is_empty() {
            return;
        }
        self.settle(search);
        // All other nodes keep their hops: no neighbour gives a better path than before, or an equal one.
        let mut again = std::mem::take(&mut search.scratch.nearer);
        again.append(&mut search.scratch.tied);
        search.scratch.marked.resize(nodes as usize, false);
        for &node in &again {
            if !std::mem::replace(&mut search.scratch.marked[node as usize], true) {
                self.look(node, search);
            }
        }
        for &node in &again {
            search.scratch.marked[node as usize] = false;
        }
        search.scratch.nearer = again;
    }

    /// Compares the links of those nodes whose known path is not the only best one.
    fn compare(&self, nodes: std::ops::Range<u32>, search: &mut Search<'_>) {
        for node in nodes {
            let bound = search.cost[node as usize];
            let (mut less, mut equal) = (false, 0_u32);
            for way in self.open_of(node) {
                let whole = search.cost[way.peer as usize];
                let whole = whole.saturating_add(self.hop + u64::from(way.delay_ns));
                less |= whole < bound;
                equal += u32::from(whole == bound);
            }
            // A node that was cut off before, and still is, needs no comparison.
            let stands = if bound == UNREACHABLE {
                search.places[node as usize] == NONE
            } else {
                equal == 1
            };
            if less || !stands {
                self.look(node, search);
            }
        }
    }

    /// Compares all links of a node: the least cost, then the lower node, then the lower port.
    #[inline(never)]
    fn look(&self, node: u32, search: &mut Search<'_>) {
        if node == search.destination.0 {
            return;
        }
        let mut best: (u64, u32, PortId) = (UNREACHABLE, u32::MAX, PortId(u32::MAX));
        let mut place = NONE;
        let hops = self.rows.row(node);
        for ((way, hop), at) in self.open_of(node).iter().zip(hops).zip(0..) {
            let beyond = search.cost[way.peer as usize];
            let whole = beyond.saturating_add(self.hop + u64::from(way.delay_ns));
            if whole != UNREACHABLE && (whole, way.peer, hop.port) < best {
                best = (whole, way.peer, hop.port);
                place = at;
            }
        }
        let direct = &search.scratch.direct;
        if let Ok(at) = direct.binary_search_by_key(&node, |direct| direct.node) {
            let direct = &direct[at];
            if (direct.cost, search.destination.0, direct.hop.port) < best {
                best.0 = direct.cost;
                place = DIRECT;
            }
        }
        search.places[node as usize] = place;
        search.scratch.looked_at.push(node);
        if best.0 < search.cost[node as usize] {
            search.cost[node as usize] = best.0;
            search.scratch.plain.heap.push(Reverse((best.0, node)));
            search.scratch.nearer.push(node);
        }
    }

    /// Runs Dijkstra's algorithm from costs that are upper bounds, with the recently lowered nodes in the heap. Nodes that
    /// it lowers are added to the nearer ones, and those for which it finds another equal path to the tied ones.
    fn settle(&self, search: &mut Search<'_>) {
        let heap = &mut search.scratch.plain.heap;
        while let Some(Reverse((whole, node))) = heap.pop() {
            let stale = whole > search.cost[node as usize];
            if stale || !self.graph.may_pass(node, search.destination) {
                continue;
            }
            for arc in self.graph.ways_in(node) {
                let longer = whole + self.hop + arc.delay_ns;
                let known = &mut search.cost[arc.peer as usize];
                if longer < *known {
                    *known = longer;
                    heap.push(Reverse((longer, arc.peer)));
                    search.scratch.nearer.push(arc.peer);
                } else if longer == *known {
                    search.scratch.tied.push(arc.peer);
                }
            }
        }
    }

    /// Returns the nodes in an order in which each follows the nodes on its path.
    fn ordered(&self, places: &[u8]) -> Vec<u32> {
        let mut order = Vec::with_capacity(places.len());
        let mut known = vec![false; places.len()];
        let mut climb = Vec::new();
        for node in 0..places.len() as u32 {
            let mut at = node;
            while !std::mem::replace(&mut known[at as usize], true) {
                climb.push(at);
                let place = places[at as usize];
                if place >= DIRECT {
                    break;
                }
                at = self.open_of(at)[usize::from(place)].peer;
            }
            order.extend(climb.drain(..).rev());
        }
        order
    }
}
