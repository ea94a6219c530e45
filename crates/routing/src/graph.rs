//! The topology as a graph of nodes, and shortest-delay trees towards destinations.

use constel_link::PortId;
use constel_topology::{Layout, NodeId, Snapshot};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Distance of a node that has no path.
pub const UNREACHABLE: u64 = u64::MAX;

/// With fewer edges than this a second thread costs more than it saves.
const WORTH_A_THREAD: usize = 50_000;

/// Whether traffic may pass through ground nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroundTransit {
    /// A ground link is only ever the first or last hop, but for gateways and stations with cables.
    Never,
    /// Ground nodes forward like satellites.
    Allowed,
}

/// One usable direction of a link, seen from the node at its near end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arc {
    /// Node at the other end.
    pub(crate) peer: u32,
    /// The leaving node's port.
    pub(crate) port: PortId,
    /// The port reached.
    pub(crate) far_port: PortId,
    /// Delay, at least 1 ns, so that every path gets shorter towards its destination.
    pub(crate) delay_ns: u64,
}

impl Arc {
    pub(crate) fn hop(&self) -> NextHop {
        NextHop {
            port: self.port,
            far_port: self.far_port,
        }
    }
}

/// Compressed rows of arcs, one row per node.
#[derive(Debug, Clone, Default)]
struct Rows {
    starts: Vec<u32>,
    arcs: Vec<Arc>,
}

impl Rows {
    /// Keeps the order of `items` inside each row; they are gone through twice.
    fn new<I: Iterator<Item = (u32, Arc)>>(nodes: usize, items: impl Fn() -> I) -> Rows {
        let mut starts = vec![0_u32; nodes + 1];
        for (node, _) in items() {
            starts[node as usize + 1] += 1;
        }
        for i in 0..nodes {
            starts[i + 1] += starts[i];
        }
        let mut cursor = starts.clone();
        let zero = Arc {
            peer: 0,
            port: PortId(0),
            far_port: PortId(0),
            delay_ns: 0,
        };
        let mut arcs = vec![zero; starts[nodes] as usize];
        for (node, arc) in items() {
            let at = &mut cursor[node as usize];
            arcs[*at as usize] = arc;
            *at += 1;
        }
        Rows { starts, arcs }
    }

    fn row(&self, node: u32) -> &[Arc] {
        &self.arcs[self.range(node)]
    }

    fn range(&self, node: u32) -> std::ops::Range<usize> {
        let (a, b) = (self.starts[node as usize], self.starts[node as usize + 1]);
        a as usize..b as usize
    }
}

/// The edges of a snapshot between nodes. An edge in a handover's outage counts when the outage ends within the
/// step: the routes of a step must serve it to its end.
#[derive(Debug, Clone)]
pub struct Graph {
    outgoing: Rows,
    incoming: Rows,
    /// Nodes nothing passes through.
    ends_only: Vec<bool>,
}

/// How a node reaches the next one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct NextHop {
    /// The node's own port.
    pub port: PortId,
    /// The port at the other end: its addresses are the gateway.
    pub far_port: PortId,
}

/// Shortest paths from every node to one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The node at which all paths end.
    pub destination: NodeId,
    /// Delay from each node to the destination, ns; [`UNREACHABLE`] without a path.
    pub distance_ns: Vec<u64>,
    /// First hop of each node; `None` for the destination and nodes without a path.
    pub next: Vec<Option<NextHop>>,
}

/// One hop of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathHop {
    /// Node it leaves.
    pub from: NodeId,
    /// Port it leaves by.
    pub port: PortId,
    /// Port it arrives at.
    pub far_port: PortId,
    /// Node it reaches.
    pub to: NodeId,
    /// Propagation delay, ns.
    pub delay_ns: u64,
}

/// The cost that a shortest path minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Metric {
    /// Its delay.
    #[default]
    Delay,
    /// How many hops it has, then its delay.
    Hops,
}

/// The cost of a hop with [`Metric::Hops`]: more than any path's delay in ns (4.9 hours), and 2^20 of them fit.
pub(crate) const HOP: u64 = 1 << 44;

/// The shortest paths from every node to one destination, with equally short first hops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortestPaths {
    /// Rises with every hop away from the destination; [`UNREACHABLE`] without a path.
    pub cost: Vec<u64>,
    /// First hop of each node; `None` for the destination and nodes without a path.
    pub next: Vec<Option<NextHop>>,
    /// Further first hops of nodes that have some: each with as few hops as the first.
    pub others: BTreeMap<u32, Vec<NextHop>>,
}

/// Memory reused between trees.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    pub(crate) heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Graph {
    /// The edges of `snapshot` that are usable before its step ends.
    #[must_use]
    pub fn new(layout: &Layout, snapshot: &Snapshot, transit: GroundTransit) -> Graph {
        let end_ns = snapshot.t_ns + layout.spec().step_ns;
        let usable = snapshot
            .edges
            .iter()
            .filter(|e| e.impairment.up_from_ns < end_ns);
        let ends = usable.map(|e| {
            let node = |p: PortId| layout.port(p).node.0;
            let arc = |peer| Arc {
                peer,
                port: e.from,
                far_port: e.to,
                delay_ns: e.impairment.delay.delay_ns.max(1),
            };
            (node(e.from), node(e.to), arc)
        });
        let nodes = layout.nodes().len();
        let out = || Rows::new(nodes, || ends.clone().map(|(a, b, arc)| (a, arc(b))));
        let into = || Rows::new(nodes, || ends.clone().map(|(a, b, arc)| (b, arc(a))));
        let (outgoing, incoming) = if snapshot.edges.len() < WORTH_A_THREAD {
            (out(), into())
        } else {
            std::thread::scope(|scope| {
                let incoming = scope.spawn(into);
                let outgoing = out();
                let incoming = incoming.join();
                let incoming = incoming.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (outgoing, incoming)
            })
        };
        let ends_only = layout
            .nodes()
            .iter()
            .map(|n| transit == GroundTransit::Never && !layout.is_transit(n.id))
            .collect();
        Graph {
            outgoing,
            incoming,
            ends_only,
        }
    }

    /// Returns a graph of `nodes` nodes and these links between two of them, each with a delay per direction; 0 means no
    /// link in that direction. Link `l` joins ports `2l` and `2l + 1`. The nodes in `ends_only` forbid transit.
    #[cfg(test)]
    pub(crate) fn of(nodes: usize, links: &[(u32, u32, u64, u64)], ends_only: &[u32]) -> Graph {
        let (mut out, mut into) = (Vec::new(), Vec::new());
        for (&(a, b, there, back), l) in links.iter().zip(0..) {
            let (near, far) = (PortId(2 * l), PortId(2 * l + 1));
            let directions = [(a, b, near, far, there), (b, a, far, near, back)];
            for (a, b, port, far_port, delay_ns) in directions {
                if delay_ns == 0 {
                    continue;
                }
                let arc = |peer| Arc {
                    peer,
                    port,
                    far_port,
                    delay_ns,
                };
                out.push((a, arc(b)));
                into.push((b, arc(a)));
            }
        }
        Graph {
            outgoing: Rows::new(nodes, || out.iter().copied()),
            incoming: Rows::new(nodes, || into.iter().copied()),
            ends_only: (0..nodes as u32).map(|n| ends_only.contains(&n)).collect(),
        }
    }

    /// Returns a node's outgoing links, each with its number among all.
    pub(crate) fn ways_out(&self, node: u32) -> impl Iterator<Item = (usize, &Arc)> {
        self.outgoing
            .range(node)
            .map(|number| (number, &self.outgoing.arcs[number]))
    }

    /// Returns the number of outgoing links of all nodes.
    pub(crate) fn ways_count(&self) -> usize {
        self.outgoing.arcs.len()
    }

    /// Returns a node's incoming links. Their peers are the nodes at the other end.
    pub(crate) fn ways_in(&self, node: u32) -> &[Arc] {
        self.incoming.row(node)
    }

    /// Returns the link of that number.
    pub(crate) fn way(&self, number: usize) -> &Arc {
        &self.outgoing.arcs[number]
    }

    /// Whether the link that leads out of `node` by `arc` leads back as well.
    pub(crate) fn both_ways(&self, node: u32, arc: &Arc) -> bool {
        let back = |other: &Arc| (other.port, other.far_port) == (arc.far_port, arc.port);
        self.incoming.row(node).iter().any(back)
    }

    /// Whether traffic that neither begins nor ends at a node may pass it.
    pub(crate) fn is_transit(&self, node: u32) -> bool {
        !self.ends_only[node as usize]
    }

    /// How many nodes there are.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.ends_only.len()
    }

    /// Shortest-delay paths from every node to `destination` (Dijkstra 1959, from the destination backwards).
    ///
    /// Among equally short first hops the one to the lower node number is taken, then the lower port.
    ///
    /// # Panics
    /// When the destination is not of this graph.
    #[must_use]
    pub fn tree(&self, destination: NodeId, scratch: &mut Scratch) -> Tree {
        let distance_ns = self.costs(destination, 0, scratch);
        let next = (0..self.node_count() as u32)
            .map(|n| self.first_hop(n, destination, &distance_ns, 0))
            .collect();
        Tree {
            destination,
            distance_ns,
            next,
        }
    }

    /// Returns the shortest paths by `metric`. With [`Metric::Hops`] and `most` above 1, returns up to `most` first hops
    /// with the same number of hops to the destination. If there are more, those with less delay are used, in the order of
    /// the node's ports, so that they stay the same while delays change continuously.
    ///
    /// # Panics
    /// If the destination is not of this graph.
    #[must_use]
    pub fn ways(
        &self,
        destination: NodeId,
        metric: Metric,
        most: usize,
        scratch: &mut Scratch,
    ) -> ShortestPaths {
        let hop = match metric {
            Metric::Delay => 0,
            Metric::Hops => HOP,
        };
        let cost = self.costs(destination, hop, scratch);
        let nodes = 0..self.node_count() as u32;
        let first = |n| self.first_hop(n, destination, &cost, hop);
        let mut next: Vec<Option<NextHop>> = nodes.clone().map(first).collect();
        let mut others = BTreeMap::new();
        if metric == Metric::Hops && most > 1 {
            for node in nodes.filter(|n| cost[*n as usize] != UNREACHABLE) {
                let mut equal: Vec<&Arc> = self
                    .onward(node, destination, &cost)
                    .filter(|a| cost[a.peer as usize] / HOP + 1 == cost[node as usize] / HOP)
                    .collect();
                equal.sort_by_key(|a| (cost[a.peer as usize] + a.delay_ns, a.peer, a.port));
                equal.truncate(most);
                let mut hops: Vec<NextHop> = equal.into_iter().map(Arc::hop).collect();
                hops.sort_unstable();
                if hops.len() > 1 {
                    next[node as usize] = Some(hops.remove(0));
                    others.insert(node, hops);
                }
            }
        }
        ShortestPaths { cost, next, others }
    }

    /// Returns the best link of a node that is not the destination, by its number, and the resulting cost. Among equal
    /// links it is the one to the lower node, then the one with the lower port.
    #[inline]
    pub(crate) fn best_arc(
        &self,
        node: u32,
        destination: NodeId,
        cost: &[u64],
        hop: u64,
    ) -> Option<(u64, usize)> {
        let mut best: Option<(u64, usize, &Arc)> = None;
        for (number, arc) in self.ways_out(node) {
            let beyond = cost[arc.peer as usize];
            if beyond == UNREACHABLE || !self.may_pass(arc.peer, destination) {
                continue;
            }
            let whole = beyond + hop + arc.delay_ns;
            let better = match best {
                None => true,
                Some((least, _, known)) => {
                    whole < least
                        || (whole == least && (arc.peer, arc.port) < (known.peer, known.port))
                }
            };
            if better {
                best = Some((whole, number, arc));
            }
        }
        best.map(|(whole, number, _)| (whole, number))
    }

    /// Returns the cost to reach the destination from each node: the delay, and `hop` for each hop.
    fn costs(&self, destination: NodeId, hop: u64, scratch: &mut Scratch) -> Vec<u64> {
        let mut distance_ns = vec![UNREACHABLE; self.node_count()];
        distance_ns[destination.index()] = 0;
        let heap = &mut scratch.heap;
        heap.clear();
        heap.push(Reverse((0, destination.0)));
        while let Some(Reverse((distance, node))) = heap.pop() {
            let stale = distance > distance_ns[node as usize];
            if stale || !self.may_pass(node, destination) {
                continue;
            }
            for arc in self.incoming.row(node) {
                let longer = distance + hop + arc.delay_ns;
                let known = &mut distance_ns[arc.peer as usize];
                if longer < *known {
                    *known = longer;
                    heap.push(Reverse((longer, arc.peer)));
                }
            }
        }
        distance_ns
    }

    pub(crate) fn may_pass(&self, node: u32, destination: NodeId) -> bool {
        node == destination.0 || !self.ends_only[node as usize]
    }

    /// The best first hop, chosen from the finished distances so that it does not depend on the heap's order.
    fn first_hop(
        &self,
        node: u32,
        destination: NodeId,
        distance_ns: &[u64],
        hop: u64,
    ) -> Option<NextHop> {
        if node == destination.0 || distance_ns[node as usize] == UNREACHABLE {
            return None;
        }
        let best = self.best_arc(node, destination, distance_ns, hop);
        best.map(|(_, number)| self.way(number).hop())
    }

    /// Returns the links of a node over which the destination can be reached.
    fn onward<'a>(
        &'a self,
        node: u32,
        destination: NodeId,
        distance_ns: &'a [u64],
    ) -> impl Iterator<Item = &'a Arc> {
        self.outgoing
            .row(node)
            .iter()
            .filter(move |a| self.may_pass(a.peer, destination))
            .filter(|a| distance_ns[a.peer as usize] != UNREACHABLE)
    }

    /// The path a tree gives from a node, hop by hop; empty at the destination, `None` without a path.
    ///
    /// # Panics
    /// When the tree is of another graph.
    #[must_use]
    pub fn path(&self, tree: &Tree, from: NodeId) -> Option<Vec<PathHop>> {
        let mut hops = Vec::new();
        let mut at = from;
        while at != tree.destination {
            let next = tree.next[at.index()]?;
            let row = self.outgoing.row(at.0);
            let arc = row
                .iter()
                .find(|a| (a.port, a.far_port) == (next.port, next.far_port))?;
            let to = NodeId(arc.peer);
            hops.push(PathHop {
                from: at,
                port: arc.port,
                far_port: arc.far_port,
                to,
                delay_ns: arc.delay_ns,
            });
            at = to;
        }
        Some(hops)
    }

    /// Delays between all pairs of the nodes given, ns: row = from, column = to.
    #[must_use]
    pub fn all_pairs_ns(&self, nodes: &[NodeId]) -> Vec<Vec<u64>> {
        let mut scratch = Scratch::default();
        let mut delays = vec![vec![0; nodes.len()]; nodes.len()];
        for (column, &to) in nodes.iter().enumerate() {
            let tree = self.tree(to, &mut scratch);
            for (row, from) in nodes.iter().enumerate() {
                delays[row][column] = tree.distance_ns[from.index()];
            }
        }
        delays
    }
}
