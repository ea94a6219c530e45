//! Next hops towards a set of destinations, and the changes from one set to the next.

use crate::addresses::AddressPlan;
use crate::follow::{FollowScratch, Followed, Follower, Room};
use crate::graph::{Graph, Metric, NextHop, Scratch, ShortestPaths, UNREACHABLE};
use crate::hops::Hops;
use constel_link::PortId;
use constel_topology::{Layout, NodeId};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// Number of paths below which a second thread costs more than it saves.
const WORTH_A_THREAD: usize = 200_000;

/// The next hop of every node to each destination.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routes {
    destinations: Vec<NodeId>,
    /// Per destination, per node.
    next: Vec<Hops>,
    /// Per destination, further next hops of nodes that have some.
    others: Vec<BTreeMap<u32, Vec<NextHop>>>,
    /// Per destination, per node: by which each hop is nearer.
    cost: Vec<Vec<u64>>,
}

/// The room of routes that are of no more use, for those to come.
#[derive(Debug, Default)]
pub struct Spare {
    rooms: Vec<Room>,
}

impl Spare {
    /// Takes the room of these.
    pub fn keep(&mut self, routes: Routes) {
        self.rooms.clear();
        let hops = routes.next.into_iter().map(|hops| match hops {
            Hops::Placed(placed) => placed.places,
            Hops::Listed(_) => Vec::new(),
        });
        let rooms = routes.cost.into_iter().zip(hops);
        self.rooms
            .extend(rooms.map(|(cost, places)| Room { cost, places }));
    }
}

/// At which nodes routes are others than before: by destination, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    nodes: Vec<Vec<u32>>,
}

/// The rule for routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The cost that a shortest path minimises.
    pub metric: Metric,
    /// Most next hops of one route; above 1 only with [`Metric::Hops`].
    pub paths: u8,
}

impl Default for Rule {
    /// One path, of least delay.
    fn default() -> Self {
        Self {
            metric: Metric::Delay,
            paths: 1,
        }
    }
}

/// A next hop as a kernel wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Via {
    /// The node's own port.
    pub port: PortId,
    /// The port at the other end.
    pub far_port: PortId,
    /// IPv4 address of the far port.
    pub gateway_v4: Ipv4Addr,
    /// Link-local address of the far port.
    pub gateway_v6: Ipv6Addr,
}

/// One change: `node` now reaches `destination`'s loopbacks by `via`, or no longer at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteChange {
    /// The node whose table changes.
    pub node: NodeId,
    /// The node that owns the loopbacks (/32 and /128).
    pub destination: NodeId,
    /// The new next hop; `None` removes the route.
    pub via: Option<Via>,
    /// Further new next hops that share its packets.
    pub others: Vec<Via>,
    /// True when the node had a route to the destination before (replace or remove, not add).
    pub had: bool,
}

/// A change as the table has it, before addresses are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopChange<'r> {
    /// The node whose table changes.
    pub node: NodeId,
    /// The node that the route leads to.
    pub destination: NodeId,
    /// The new next hop; `None` removes the route.
    pub next: Option<NextHop>,
    /// Further new next hops that share its packets.
    pub others: &'r [NextHop],
    /// True when the node had a route to the destination before.
    pub had: bool,
}

impl HopChange<'_> {
    /// The change with the addresses of its next hops.
    ///
    /// # Panics
    /// When a next hop's port has no IPv4 address (the plan is of another layout).
    #[must_use]
    pub fn addressed(&self, plan: &AddressPlan) -> RouteChange {
        RouteChange {
            node: self.node,
            destination: self.destination,
            via: self.next.map(|hop| via(hop, plan)),
            others: self.others.iter().map(|hop| via(*hop, plan)).collect(),
            had: self.had,
        }
    }
}

impl RouteChange {
    /// All its new next hops; none when the route goes.
    pub fn vias(&self) -> impl Iterator<Item = &Via> {
        self.via.iter().chain(&self.others)
    }
}

impl Routes {
    /// Next hops of every node to each of the destinations, by least delay.
    #[must_use]
    pub fn compute(graph: &Graph, destinations: &[NodeId]) -> Routes {
        Self::compute_by(graph, destinations, Rule::default())
    }

    /// Next hops of every node to each of the destinations.
    #[must_use]
    pub fn compute_by(graph: &Graph, destinations: &[NodeId], rule: Rule) -> Routes {
        let mut scratch = Scratch::default();
        let destinations = in_order(destinations);
        let most = usize::from(rule.paths);
        let ways = destinations
            .iter()
            .map(|to| graph.ways(*to, rule.metric, most, &mut scratch))
            .collect::<Vec<ShortestPaths>>();
        Self::of(destinations, ways)
    }

    /// Combines the paths of each destination. Destinations are in the order of their numbers.
    pub(crate) fn of(
        destinations: Vec<NodeId>,
        all: impl IntoIterator<Item = ShortestPaths>,
    ) -> Routes {
        let mut routes = Routes {
            destinations,
            ..Routes::default()
        };
        for ways in all {
            routes.next.push(Hops::Listed(ways.next));
            routes.others.push(ways.others);
            routes.cost.push(ways.cost);
        }
        routes
    }

    /// Computes the routes from the previous ones and the differences. The result equals that of [`Routes::compute_by`], and
    /// takes a fraction of the time if little has changed. Many destinations are divided among `threads`. They use the
    /// memory of `spare`, as far as it has some.
    #[must_use]
    pub fn compute_from(
        graph: &Graph,
        destinations: &[NodeId],
        rule: Rule,
        before: &Routes,
        spare: &mut Spare,
        threads: usize,
    ) -> (Routes, Changed) {
        let destinations = in_order(destinations);
        let most = usize::from(rule.paths);
        let nodes = graph.node_count();
        let follower = (most == 1)
            .then(|| Follower::new(graph, rule.metric, &before.next))
            .flatten();
        let one = |to: NodeId, room: Room, scratch: &mut FollowScratch| {
            let at = before.destinations.binary_search(&to).ok();
            let old = at.map(|at| &before.next[at]);
            let old = old.filter(|old| old.len() == nodes);
            if let Some((follower, old)) = follower.as_ref().zip(old) {
                return (follower.ways(to, old, room, scratch), BTreeMap::new());
            }
            let ways = graph.ways(to, rule.metric, most, &mut scratch.plain);
            let hops = match &follower {
                Some(follower) => follower.kept(to, ways.next, scratch),
                None => Hops::Listed(ways.next),
            };
            let found = Followed {
                changed: before.differing(at, &hops, &ways.others),
                hops,
                cost: ways.cost,
            };
            (found, ways.others)
        };
        let mut found: Vec<_> = destinations.iter().map(|_| None).collect();
        // One by one, for a processor that has other work as well must not be waited for.
        let mut rooms = spare.rooms.drain(..);
        let rooms = std::iter::from_fn(move || Some(rooms.next().unwrap_or_default()));
        let work = Mutex::new(destinations.iter().zip(&mut found).zip(rooms));
        let take = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
        let share = || {
            let mut scratch = FollowScratch::default();
            while let Some(((to, place), room)) = take() {
                *place = Some(one(*to, room, &mut scratch));
            }
        };
        let enough = destinations.len() * nodes >= WORTH_A_THREAD;
        let threads = if enough { threads.max(1) } else { 1 };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(destinations.len()) {
                scope.spawn(share);
            }
            share();
        });
        let mut routes = Routes {
            destinations,
            ..Routes::default()
        };
        let mut changed = Changed { nodes: Vec::new() };
        for (found, others) in found.into_iter().flatten() {
            routes.next.push(found.hops);
            routes.others.push(others);
            routes.cost.push(found.cost);
            changed.nodes.push(found.changed);
        }
        (routes, changed)
    }

    /// Returns the nodes at which these paths differ from those to the destination with index `at`, by number.
    fn differing(
        &self,
        at: Option<usize>,
        next: &Hops,
        others: &BTreeMap<u32, Vec<NextHop>>,
    ) -> Vec<u32> {
        let old = |n: u32| self.next[at?].of(n);
        let old_others = |n: u32| self.others[at?].get(&n);
        let differs = |n: &u32| old(*n) != next.of(*n) || old_others(*n) != others.get(n);
        (0..next.len() as u32).filter(differs).collect()
    }

    /// Each node's routes from the part that it is listed in; all parts are for the same destinations.
    pub(crate) fn mixed<'a>(parts: impl IntoIterator<Item = (&'a Routes, &'a [NodeId])>) -> Routes {
        let mut parts = parts.into_iter();
        let Some((first, _)) = parts.next() else {
            return Routes::default();
        };
        let mut mixed = first.clone();
        for (routes, nodes) in parts {
            for at in 0..mixed.destinations.len() {
                for node in nodes {
                    let n = node.index();
                    mixed.next[at].listed()[n] = routes.next[at].of(node.0);
                    mixed.cost[at][n] = routes.cost[at][n];
                    match routes.others[at].get(&node.0) {
                        Some(others) => mixed.others[at].insert(node.0, others.clone()),
                        None => mixed.others[at].remove(&node.0),
                    };
                }
            }
        }
        mixed
    }

    /// The destinations, by number.
    #[must_use]
    pub fn destinations(&self) -> &[NodeId] {
        &self.destinations
    }

    /// A node's next hop to a destination.
    #[must_use]
    pub fn next_hop(&self, node: NodeId, destination: NodeId) -> Option<NextHop> {
        let at = self.destinations.binary_search(&destination).ok()?;
        self.next[at].of(node.0)
    }

    /// All of a node's next hops to a destination.
    pub fn hops(&self, node: NodeId, destination: NodeId) -> impl Iterator<Item = NextHop> {
        let at = self.destinations.binary_search(&destination).ok();
        let others = at.and_then(|at| self.others[at].get(&node.0));
        let others = others.into_iter().flatten().copied();
        self.next_hop(node, destination).into_iter().chain(others)
    }

    /// How far a node is from a destination: each next hop is nearer. By [`Metric::Delay`] it is the delay, ns.
    #[must_use]
    pub fn cost(&self, node: NodeId, destination: NodeId) -> Option<u64> {
        let at = self.destinations.binary_search(&destination).ok()?;
        self.cost[at]
            .get(node.index())
            .copied()
            .filter(|&d| d != UNREACHABLE)
    }

    /// Returns the smallest set of changes that turn `before` into `self`, in an order that makes no loops.
    ///
    /// The changes are sorted by destination: nodes nearer to it (on the new paths) come first, removals last. After any
    /// prefix of one destination's changes in this order, and for any choice among several next hops, no packet can loop:
    ///
    /// - A changed node has its new next hops, each nearer by the new cost. A node nearer than that has been changed before
    ///   or needs no change, so it has its new next hops too. From a changed node on, every hop is a new one, and the new
    ///   cost decreases with each.
    /// - Before a packet meets the first changed node, every hop is an old one, and the old cost decreases with each.
    ///
    /// A packet in transit during one update therefore meets a node at most twice, and takes at most an old path and then a
    /// new one. This does not cover edges that vanish at the same time: if no packet may be lost on a vanishing edge, apply
    /// the changes before the edge vanishes.
    ///
    /// # Panics
    /// If a next hop's port has no IPv4 address (the plan is of another layout).
    #[must_use]
    pub fn changes_from(&self, before: &Routes, plan: &AddressPlan) -> Vec<RouteChange> {
        let mut changes = Vec::new();
        self.each_change(before, |change| changes.push(change.addressed(plan)));
        changes
    }

    /// Calls `tell` with each of these changes, in that order.
    pub fn each_change(&self, before: &Routes, tell: impl FnMut(HopChange<'_>)) {
        let places = self.destinations.iter().enumerate();
        let nodes = places.map(|(at, destination)| {
            let old = before.destinations.binary_search(destination).ok();
            before.differing(old, &self.next[at], &self.others[at])
        });
        let changed = Changed {
            nodes: nodes.collect(),
        };
        self.each_of(&changed, before, tell);
    }

    /// Calls `tell` with each change if the changed nodes are known.
    pub fn each_of(&self, changed: &Changed, before: &Routes, mut tell: impl FnMut(HopChange<'_>)) {
        let mut order: Vec<(u64, u32)> = Vec::new();
        for (at, (&destination, nodes)) in self.destinations.iter().zip(&changed.nodes).enumerate()
        {
            let (new, others, distance) = (&self.next[at], &self.others[at], &self.cost[at]);
            let old = before.destinations.binary_search(&destination).ok();
            let had = |n: u32| old.and_then(|at| before.next[at].of(n));
            order.clear();
            // Nodes without a path have the largest distance, so removals come last.
            order.extend(nodes.iter().map(|&n| (distance[n as usize], n)));
            order.sort_unstable();
            for &(_, n) in &order {
                tell(HopChange {
                    node: NodeId(n),
                    destination,
                    next: new.of(n),
                    others: others.get(&n).map_or(&[], Vec::as_slice),
                    had: had(n).is_some(),
                });
            }
        }
        for (at, &destination) in before.destinations.iter().enumerate() {
            if self.destinations.binary_search(&destination).is_ok() {
                continue;
            }
            let had = &before.next[at];
            for n in (0..had.len() as u32).filter(|n| had.of(*n).is_some()) {
                tell(HopChange {
                    node: NodeId(n),
                    destination,
                    next: None,
                    others: &[],
                    had: true,
                });
            }
        }
    }
}

/// Each once, by number.
fn in_order(destinations: &[NodeId]) -> Vec<NodeId> {
    let mut destinations = destinations.to_vec();
    destinations.sort_unstable();
    destinations.dedup();
    destinations
}

/// Moves the changes at nodes that forbid transit to the front, each node's together, and keeps the order of the rest.
/// Returns the number of the moved changes. No moment of this order has a loop either, because such nodes do not forward for
/// others.
pub fn ends_first(changes: &mut [RouteChange], layout: &Layout) -> usize {
    changes.sort_by_key(|change| match layout.is_transit(change.node) {
        false => (false, change.node),
        true => (true, NodeId(0)),
    });
    changes.partition_point(|change| !layout.is_transit(change.node))
}

fn via(hop: NextHop, plan: &AddressPlan) -> Via {
    let far = plan.port(hop.far_port);
    let Some((gateway_v4, _)) = far.v4 else {
        panic!("{} ends a link and has no address", hop.far_port);
    };
    Via {
        port: hop.port,
        far_port: hop.far_port,
        gateway_v4,
        gateway_v6: far.v6_link_local,
    }
}
