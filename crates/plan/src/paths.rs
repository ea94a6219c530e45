//! Least-delay paths of one step after another, each found from the one before.
//!
//! From one second to the next, orbits change delays by microseconds and hardly any least-delay path changes. A
//! destination's tree is therefore taken over from the step before: one walk down the tree gives the new distances
//! along it, one look at every link finds the places where another way has become shorter, and Dijkstra's algorithm
//! (1959) repairs from those on. Where links have come or gone, the walk looks at all arcs of a node instead of the
//! tree's. The result is exact: the same distances, first hops
//! and paths as [`constel_routing::Graph`] with [`constel_routing::GroundTransit::Never`] gives.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use constel_link::PortId;
use constel_topology::{Layout, NodeId, Snapshot};

/// No path; far below overflow when a delay is added.
const FAR: u64 = u64::MAX / 4;
/// When so many nodes had to be repaired, the order is made anew.
const REPAIRS_BEFORE_SORTING: usize = 24;

#[derive(Debug, Clone, Copy)]
struct Arc {
    peer: u32,
    delay_ns: u64,
}

/// Arcs by node, compressed rows.
#[derive(Debug, Default)]
struct Rows {
    starts: Vec<u32>,
    arcs: Vec<Arc>,
}

impl Rows {
    fn row(&self, node: u32) -> &[Arc] {
        &self.arcs[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }
}

/// A station's hop to or from a satellite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Access {
    satellite: u32,
    /// From the ground up; [`FAR`] if there is no such edge.
    up_ns: u64,
    /// From the satellite down.
    down_ns: u64,
    port: PortId,
}

/// No arc: a node the tree does not reach, or one of its roots.
const NO_ARC: u32 = u32::MAX;

/// A link between satellites, both ways.
#[derive(Debug, Clone, Copy)]
struct Link {
    a: u32,
    b: u32,
    /// Delay from `a` to `b`, ns; [`FAR`] if there is no such arc.
    there_ns: u64,
    back_ns: u64,
}

/// One destination's distances.
#[derive(Debug, Default)]
struct Tree {
    /// Delay of each satellite to the destination, ns.
    distance_ns: Vec<u64>,
    /// Satellites, about in order of distance.
    order: Vec<u32>,
    /// Satellites the destination hung on when the order was made.
    roots: Vec<u32>,
    /// Of each satellite, the arc towards the destination, by its place in the outgoing rows.
    arc: Vec<u32>,
    /// The [`Paths::shape`] the arcs are of.
    shape: u64,
}

/// The graph of a step and the trees to the destinations asked for, kept from step to step.
#[derive(Debug, Default)]
pub struct Paths {
    satellites: usize,
    /// Satellite to satellite, by the node left.
    outgoing: Rows,
    /// The same, by the node reached.
    incoming: Rows,
    /// By station.
    access: Vec<Vec<Access>>,
    trees: Vec<Tree>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    items: Vec<(u32, Arc)>,
    /// The links of the step, each once.
    links: Vec<Link>,
    /// Which arcs there are: counts up when some come or go.
    shape: u64,
    starts_before: Vec<u32>,
}

/// A path's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Sum of its hops' delays, nanoseconds.
    pub delay_ns: u64,
    /// How many links it takes.
    pub hops: u16,
}

impl Paths {
    /// Takes in the edges of `snapshot` (those of them usable before its step ends, as routes do).
    pub fn load(&mut self, layout: &Layout, snapshot: &Snapshot) {
        let satellites = layout.satellite_count();
        self.satellites = satellites;
        self.access
            .resize(layout.nodes().len() - satellites, Vec::new());
        self.access.iter_mut().for_each(Vec::clear);
        self.items.clear();
        let end_ns = snapshot.t_ns + layout.spec().step_ns;
        for edge in snapshot
            .edges
            .iter()
            .filter(|e| e.impairment.up_from_ns < end_ns)
        {
            let (from, to) = (layout.port(edge.from).node.0, layout.port(edge.to).node.0);
            let delay_ns = edge.impairment.delay.delay_ns.max(1);
            match (from as usize >= satellites, to as usize >= satellites) {
                (false, false) => self.items.push((from, Arc { peer: to, delay_ns })),
                (true, false) => self.reach(from, to, edge.from).up_ns = delay_ns,
                (false, true) => self.reach(to, from, edge.to).down_ns = delay_ns,
                // Nothing passes from ground to ground.
                (true, true) => {}
            }
        }
        self.fill_rows();
    }

    fn reach(&mut self, station: u32, satellite: u32, port: PortId) -> &mut Access {
        let list = &mut self.access[station as usize - self.satellites];
        let at = list
            .iter()
            .position(|a| (a.satellite, a.port) == (satellite, port));
        let at = at.unwrap_or_else(|| {
            list.push(Access {
                satellite,
                up_ns: FAR,
                down_ns: FAR,
                port,
            });
            list.len() - 1
        });
        &mut list[at]
    }

    /// Edges come sorted by the port left, so by node: outgoing rows are there as they are.
    fn fill_rows(&mut self) {
        let count = |starts: &mut Vec<u32>, nodes: &mut dyn Iterator<Item = u32>| {
            starts.clear();
            starts.resize(self.satellites + 1, 0);
            nodes.for_each(|n| starts[n as usize + 1] += 1);
            for i in 1..starts.len() {
                starts[i] += starts[i - 1];
            }
        };
        debug_assert!(self.items.is_sorted_by_key(|(from, _)| *from));
        count(
            &mut self.outgoing.starts,
            &mut self.items.iter().map(|(from, _)| *from),
        );
        count(
            &mut self.incoming.starts,
            &mut self.items.iter().map(|(_, arc)| arc.peer),
        );
        let same = self.outgoing.arcs.len() == self.items.len()
            && self
                .outgoing
                .arcs
                .iter()
                .zip(&self.items)
                .all(|(a, b)| a.peer == b.1.peer)
            && self.outgoing.starts == self.starts_before;
        self.shape += u64::from(!same);
        self.starts_before.clone_from(&self.outgoing.starts);
        self.outgoing.arcs.clear();
        self.outgoing
            .arcs
            .extend(self.items.iter().map(|(_, arc)| *arc));
        self.links.clear();
        for &(from, arc) in &self.items {
            let back = self.outgoing.row(arc.peer).iter();
            let back = back.filter(|b| b.peer == from).min_by_key(|b| b.delay_ns);
            // A link is met from both ends; one without an arc back from one only.
            if from < arc.peer || back.is_none() {
                self.links.push(Link {
                    a: from,
                    b: arc.peer,
                    there_ns: arc.delay_ns,
                    back_ns: back.map_or(FAR, |b| b.delay_ns),
                });
            }
        }
        self.incoming.arcs.clear();
        self.incoming.arcs.resize(
            self.items.len(),
            Arc {
                peer: 0,
                delay_ns: 0,
            },
        );
        let mut cursor = self.incoming.starts.clone();
        for &(from, arc) in &self.items {
            let at = &mut cursor[arc.peer as usize];
            self.incoming.arcs[*at as usize] = Arc {
                peer: from,
                delay_ns: arc.delay_ns,
            };
            *at += 1;
        }
    }

    /// Computes the tree to `destination`. `slot` names the memory of the step before: give the same destination
    /// the same slot every time.
    pub fn aim(&mut self, slot: usize, destination: NodeId) {
        if self.trees.len() <= slot {
            self.trees.resize_with(slot + 1, Tree::default);
        }
        let mut tree = std::mem::take(&mut self.trees[slot]);
        let mut roots = Vec::new();
        if destination.index() < self.satellites {
            roots.push((destination.0, 0));
        } else {
            let access = &self.access[destination.index() - self.satellites];
            roots.extend(access.iter().map(|a| (a.satellite, a.down_ns)));
        }
        let known =
            tree.order.len() == self.satellites && roots.iter().map(|r| &r.0).eq(&tree.roots);
        tree.distance_ns.clear();
        tree.distance_ns.resize(self.satellites, FAR);
        for &(satellite, delay_ns) in &roots {
            let at = &mut tree.distance_ns[satellite as usize];
            *at = delay_ns.min(*at);
        }
        if known && tree.shape == self.shape {
            self.follow(&mut tree);
        } else if known {
            self.walk(&mut tree);
        } else {
            tree.roots.clear();
            tree.roots.extend(roots.iter().map(|r| r.0));
            tree.arc.clear();
            tree.arc.resize(self.satellites, NO_ARC);
            self.heap.clear();
            self.heap.extend(
                roots
                    .iter()
                    .map(|&(n, _)| Reverse((tree.distance_ns[n as usize], n))),
            );
            self.settle(&mut tree);
            tree.order.clear();
            tree.order.extend(0..self.satellites as u32);
            sort(&mut tree);
        }
        tree.shape = self.shape;
        self.trees[slot] = tree;
    }

    /// Distances down the old tree, then repair.
    fn follow(&mut self, tree: &mut Tree) {
        let Tree {
            distance_ns,
            arc,
            order,
            ..
        } = &mut *tree;
        for &node in &*order {
            let towards = arc[node as usize];
            if towards != NO_ARC {
                let towards = self.outgoing.arcs[towards as usize];
                let along = distance_ns[towards.peer as usize] + towards.delay_ns;
                let known = &mut distance_ns[node as usize];
                *known = along.min(*known);
            }
        }
        self.repair(tree);
    }

    /// Distances in the old order, over whichever arcs there are now, then repair.
    fn walk(&mut self, tree: &mut Tree) {
        tree.arc.fill(NO_ARC);
        for &node in &tree.order {
            let first = self.outgoing.starts[node as usize];
            let mut least = tree.distance_ns[node as usize];
            for (at, towards) in (first..).zip(self.outgoing.row(node)) {
                let along = tree.distance_ns[towards.peer as usize] + towards.delay_ns;
                if along < least {
                    least = along;
                    tree.arc[node as usize] = at;
                }
            }
            tree.distance_ns[node as usize] = least.min(FAR);
        }
        self.repair(tree);
    }

    /// Finds links over which a node is nearer than it is said to be, and repairs from there.
    fn repair(&mut self, tree: &mut Tree) {
        self.heap.clear();
        for place in 0..self.links.len() {
            let link = self.links[place];
            let (a, b) = (
                tree.distance_ns[link.a as usize],
                tree.distance_ns[link.b as usize],
            );
            if a > b + link.there_ns {
                self.shorten(tree, link.a, link.b, b + link.there_ns);
            } else if b > a + link.back_ns {
                self.shorten(tree, link.b, link.a, a + link.back_ns);
            }
        }
        if self.settle(tree) > REPAIRS_BEFORE_SORTING {
            sort(tree);
        }
    }

    /// Takes the way over `to` for `node`.
    fn shorten(&mut self, tree: &mut Tree, node: u32, to: u32, distance_ns: u64) {
        tree.distance_ns[node as usize] = distance_ns;
        tree.arc[node as usize] = self.arc_between(node, to);
        self.heap.push(Reverse((distance_ns, node)));
    }

    /// The shortest arc from one node to another, by its place.
    fn arc_between(&self, node: u32, to: u32) -> u32 {
        let row = (self.outgoing.starts[node as usize]..).zip(self.outgoing.row(node));
        let between = row.filter(|(_, arc)| arc.peer == to);
        between
            .min_by_key(|(_, arc)| arc.delay_ns)
            .map_or(NO_ARC, |(at, _)| at)
    }

    /// Dijkstra from what is in the heap; says how many nodes it settled.
    fn settle(&mut self, tree: &mut Tree) -> usize {
        let mut settled = 0;
        while let Some(Reverse((at_ns, node))) = self.heap.pop() {
            if at_ns > tree.distance_ns[node as usize] {
                continue;
            }
            settled += 1;
            for place in
                self.incoming.starts[node as usize]..self.incoming.starts[node as usize + 1]
            {
                let arc = self.incoming.arcs[place as usize];
                let longer = at_ns + arc.delay_ns;
                if longer < tree.distance_ns[arc.peer as usize] {
                    self.shorten(tree, arc.peer, node, longer);
                }
            }
        }
        settled
    }

    /// The least-delay path from `from` to the destination last aimed at with `slot`; its nodes go into `nodes`
    /// (cleared first), both ends included. Of equally short first hops the one to the lower node wins, then the
    /// one that leaves by the lower port.
    ///
    /// # Panics
    /// When nothing was aimed at with `slot`, or `from` is of another layout.
    pub fn path(
        &self,
        slot: usize,
        from: NodeId,
        destination: NodeId,
        nodes: &mut Vec<u32>,
    ) -> Option<Found> {
        nodes.clear();
        nodes.push(from.0);
        let tree = &self.trees[slot];
        if from == destination {
            return Some(Found {
                delay_ns: 0,
                hops: 0,
            });
        }
        let (mut at, delay_ns) = match from.index().checked_sub(self.satellites) {
            None => (from.0, tree.distance_ns[from.index()]),
            Some(station) => {
                let length = |a: &Access| {
                    a.up_ns
                        .saturating_add(tree.distance_ns[a.satellite as usize])
                };
                let best = self.access[station]
                    .iter()
                    .min_by_key(|a| (length(a), a.satellite, a.port))?;
                nodes.push(best.satellite);
                (best.satellite, length(best))
            }
        };
        if delay_ns >= FAR {
            return None;
        }
        let down = |satellite: u32| {
            let station = destination.index().checked_sub(self.satellites)?;
            self.access[station]
                .iter()
                .filter(|a| a.satellite == satellite)
                .map(|a| a.down_ns)
                .min()
        };
        while at != destination.0 {
            let next = self
                .outgoing
                .row(at)
                .iter()
                .min_by_key(|a| (tree.distance_ns[a.peer as usize] + a.delay_ns, a.peer));
            let onward = next.map_or(FAR, |a| tree.distance_ns[a.peer as usize] + a.delay_ns);
            // The ground's node number is higher than any satellite's: on a tie the satellite wins.
            at = match (next, down(at)) {
                (_, Some(down_ns)) if down_ns < onward => destination.0,
                (Some(arc), _) => arc.peer,
                (None, _) => return None,
            };
            nodes.push(at);
        }
        Some(Found {
            delay_ns,
            hops: u16::try_from(nodes.len() - 1).unwrap_or(u16::MAX),
        })
    }
}

fn sort(tree: &mut Tree) {
    let distance = &tree.distance_ns;
    tree.order
        .sort_unstable_by_key(|&n| (distance[n as usize], n));
}
