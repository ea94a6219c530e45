//! Laws of routes over random delays and failures, by least delay and by fewest hops over one or several next hops.

use crate::common;

use constel_routing::{
    AddressBlocks, AddressPlan, Graph, GroundTransit, Metric, RouteChange, Routes, Rule, Scratch,
    Spare, ends_first,
};
use constel_topology::{Layout, NodeId, Snapshot, Stepper};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A tiny generator, so that one number makes a whole network.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let index = self.below(of.len().max(1) as u64) as usize;
        of.get(index).copied()
    }
}

/// Some edges gone, many or few, the others with delays of few values, so that ties are common, or of many.
fn shaken(snapshot: &Snapshot, seed: u64) -> Snapshot {
    let mut random = Lcg(seed);
    let mut shaken = snapshot.clone();
    let gone = if random.below(2) == 0 { 5 } else { 200 };
    shaken.edges.retain(|_| random.below(gone) > 0);
    let delays = if random.below(3) == 0 { 1_000 } else { 6 };
    for e in &mut shaken.edges {
        e.impairment.delay.delay_ns = 1 + random.below(delays);
    }
    shaken
}

/// Iridium's sixty-six satellites and a few cities, shaken differently by each seed.
struct World {
    layout: Arc<Layout>,
    plan: AddressPlan,
    all: Snapshot,
    destinations: Vec<NodeId>,
    rule: Rule,
}

impl World {
    fn new(rule: Rule) -> Self {
        let stepper = common::iridium(common::cities());
        Self::of(stepper, (60..72).map(NodeId).collect(), rule)
    }

    /// Planes of 22 satellites that all have four lasers, and six stations.
    fn of_planes(rule: Rule) -> Self {
        let stepper = common::shell1(common::spread(6));
        Self::of(stepper, (1582..1590).map(NodeId).collect(), rule)
    }

    fn of(mut stepper: Stepper, destinations: Vec<NodeId>, rule: Rule) -> Self {
        let layout = stepper.layout().clone();
        let plan = AddressPlan::new(&layout, &AddressBlocks::default()).unwrap();
        Self {
            all: stepper.advance(),
            layout,
            plan,
            destinations,
            rule,
        }
    }

    fn routes(&self, seed: u64) -> Routes {
        let snapshot = shaken(&self.all, seed);
        let graph = Graph::new(&self.layout, &snapshot, GroundTransit::Never);
        Routes::compute_by(&graph, &self.destinations, self.rule)
    }

    /// The routes of all kernels when these routes are installed.
    fn kernels(&self, routes: &Routes) -> Kernels<'_> {
        let mut next = BTreeMap::new();
        for node in self.layout.nodes() {
            for &to in &self.destinations {
                let hops = routes.hops(node.id, to);
                let nodes: Vec<NodeId> = hops
                    .map(|hop| self.layout.port(hop.far_port).node)
                    .collect();
                if !nodes.is_empty() {
                    next.insert((node.id, to), nodes);
                }
            }
        }
        Kernels { world: self, next }
    }
}

/// The tables of all nodes: to whom each hands packets for each destination.
#[derive(Clone)]
struct Kernels<'a> {
    world: &'a World,
    next: BTreeMap<(NodeId, NodeId), Vec<NodeId>>,
}

impl Kernels<'_> {
    fn apply(&mut self, change: &RouteChange) {
        let key = (change.node, change.destination);
        let far = change
            .vias()
            .map(|via| self.world.layout.port(via.far_port).node);
        let now: Vec<NodeId> = far.collect();
        let had = if now.is_empty() {
            self.next.remove(&key)
        } else {
            self.next.insert(key, now)
        };
        assert_eq!(had.is_some(), change.had, "{change:?}");
    }

    fn next(&self, at: NodeId, to: NodeId) -> &[NodeId] {
        self.next.get(&(at, to)).map_or(&[], Vec::as_slice)
    }

    /// Whether packets for `to` can come back to `from` by some choice of next hops.
    fn comes_round(&self, from: NodeId, to: NodeId) -> bool {
        let (mut open, mut seen) = (self.next(from, to).to_vec(), BTreeSet::new());
        while let Some(at) = open.pop() {
            if at == from {
                return true;
            }
            if seen.insert(at) {
                open.extend(self.next(at, to));
            }
        }
        false
    }
}

/// Hops from every node to one, counted by going outwards from it over the edges as they are: the plain reference.
fn hops_to(layout: &Layout, snapshot: &Snapshot, to: NodeId) -> BTreeMap<NodeId, u32> {
    let mut count = BTreeMap::from([(to, 0)]);
    let mut open = VecDeque::from([to]);
    while let Some(at) = open.pop_front() {
        if at != to && !layout.node(at).class.flies {
            continue;
        }
        for e in &snapshot.edges {
            let (a, b) = (layout.port(e.from).node, layout.port(e.to).node);
            if b == at && !count.contains_key(&a) {
                count.insert(a, count[&at] + 1);
                open.push_back(a);
            }
        }
    }
    count
}

fn rules() -> impl Strategy<Value = Rule> {
    let of = |metric, paths| Rule { metric, paths };
    prop::sample::select(vec![
        of(Metric::Delay, 1),
        of(Metric::Hops, 1),
        of(Metric::Hops, 2),
        of(Metric::Hops, 16),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn routes_found_from_earlier_ones_are_those_found_anew(
        rule in rules(),
        seeds in prop::collection::vec(any::<u64>(), 2..6),
        threads in 1_usize..4,
        planes in any::<bool>(),
        transit in prop::sample::select(vec![GroundTransit::Never, GroundTransit::Allowed]),
    ) {
        let world = if planes { World::of_planes(rule) } else { World::new(rule) };
        let (mut before, mut spare) = (Routes::default(), Spare::default());
        for seed in seeds {
            let snapshot = shaken(&world.all, seed);
            let graph = Graph::new(&world.layout, &snapshot, transit);
            let to = &world.destinations;
            let (found, changed) =
                Routes::compute_from(&graph, to, rule, &before, &mut spare, threads);
            prop_assert_eq!(&found, &Routes::compute_by(&graph, to, rule));
            let (mut all, mut known) = (Vec::new(), Vec::new());
            found.each_change(&before, |change| all.push(format!("{change:?}")));
            found.each_of(&changed, &before, |change| known.push(format!("{change:?}")));
            prop_assert_eq!(all, known);
            spare.keep(std::mem::replace(&mut before, found));
        }
    }

    #[test]
    fn no_moment_of_an_update_has_a_loop(
        rule in rules(),
        first in any::<u64>(),
        second in any::<u64>(),
    ) {
        let world = World::new(rule);
        let (before, after) = (world.routes(first), world.routes(second));
        prop_assert_eq!(&before, &world.routes(first));
        let mut kernels = world.kernels(&before);
        for (&(node, to), next) in &kernels.next {
            for &far in next {
                prop_assert!(before.cost(far, to) < before.cost(node, to), "each hop is nearer");
            }
        }
        for change in after.changes_from(&before, &world.plan) {
            kernels.apply(&change);
            let round = kernels.comes_round(change.node, change.destination);
            prop_assert!(!round, "loop at {}", change.node);
        }
        prop_assert_eq!(kernels.next, world.kernels(&after).next);
    }

    /// As where the map comes first: by then stations may learn before everybody else.
    #[test]
    fn no_moment_has_a_loop_when_stations_come_first(first in any::<u64>(), second in any::<u64>()) {
        let world = World::new(Rule::default());
        let (before, after) = (world.routes(first), world.routes(second));
        let mut kernels = world.kernels(&before);
        let mut changes = after.changes_from(&before, &world.plan);
        let ends = ends_first(&mut changes, &world.layout);
        for (at, change) in changes.iter().enumerate() {
            prop_assert_eq!(at < ends, !world.layout.node(change.node).class.flies);
            kernels.apply(change);
            let round = kernels.comes_round(change.node, change.destination);
            prop_assert!(!round, "loop at {}", change.node);
        }
        let nodes = |changes: &[RouteChange]| changes.chunk_by(|a, b| a.node == b.node).count();
        prop_assert!(nodes(&changes[..ends]) <= world.layout.nodes().len() - 66, "each once");
        prop_assert_eq!(kernels.next, world.kernels(&after).next);
    }

    /// Virtual time: packets move hop by hop while one kernel after another learns new routes, several updates in a
    /// row, in any order of moves and changes. A packet in flight meets a node once more with each update at most,
    /// and arrives if its node has a path at the end.
    #[test]
    fn packets_on_their_way_through_updates_arrive(
        rule in rules(),
        seeds in prop::collection::vec(any::<u64>(), 2..5),
        order in any::<u64>(),
        haste in 1_u64..200,
    ) {
        struct Packet {
            at: NodeId,
            to: NodeId,
            met: BTreeMap<NodeId, usize>,
        }
        let world = World::new(rule);
        let mut random = Lcg(order);
        let mut routes = world.routes(seeds[0]);
        let mut kernels = world.kernels(&routes);
        let mut packets: Vec<Packet> = (0..60)
            .map(|_| Packet {
                at: NodeId(random.below(world.layout.nodes().len() as u64) as u32),
                to: random.pick(&world.destinations).unwrap(),
                met: BTreeMap::new(),
            })
            .collect();
        let step = |packet: &mut Packet, kernels: &Kernels<'_>, random: &mut Lcg| {
            if packet.at != packet.to
                && let Some(next) = random.pick(kernels.next(packet.at, packet.to))
            {
                *packet.met.entry(packet.at).or_insert(0) += 1;
                packet.at = next;
            }
        };
        for &seed in &seeds[1..] {
            let after = world.routes(seed);
            for change in after.changes_from(&routes, &world.plan) {
                kernels.apply(&change);
                for _ in 0..random.below(haste) {
                    let one = random.below(packets.len() as u64) as usize;
                    step(&mut packets[one], &kernels, &mut random);
                }
            }
            routes = after;
        }
        for packet in &mut packets {
            for _ in 0..world.layout.nodes().len() {
                step(packet, &kernels, &mut random);
            }
            let no_way = kernels.next(packet.at, packet.to).is_empty();
            prop_assert!(packet.at == packet.to || no_way);
            let most = packet.met.values().max().copied().unwrap_or(0);
            prop_assert!(most <= seeds.len(), "{most} times at one node in {} updates", seeds.len() - 1);
        }
    }

    #[test]
    fn next_hops_are_all_that_have_the_fewest_hops(seed in any::<u64>()) {
        let world = World::new(Rule { metric: Metric::Hops, paths: 16 });
        let snapshot = shaken(&world.all, seed);
        let graph = Graph::new(&world.layout, &snapshot, GroundTransit::Never);
        let mut scratch = Scratch::default();
        let all = world.kernels(&Routes::compute_by(&graph, &world.destinations, world.rule));
        let two = Rule { paths: 2, ..world.rule };
        let two = world.kernels(&Routes::compute_by(&graph, &world.destinations, two));
        for &to in &world.destinations {
            let count = hops_to(&world.layout, &snapshot, to);
            // Among the fewest hops, a single way is the one of least delay.
            let single = graph.ways(to, Metric::Hops, 1, &mut scratch);
            prop_assert!(single.others.is_empty());
            for node in world.layout.nodes() {
                let mut least = BTreeSet::new();
                for e in snapshot.edges.iter().filter(|e| world.layout.port(e.from).node == node.id) {
                    let far = world.layout.port(e.to).node;
                    let passes = far == to || world.layout.node(far).class.flies;
                    let nearer = count.get(&far).is_some_and(|n| Some(&(n + 1)) == count.get(&node.id));
                    if passes && nearer && node.id != to {
                        least.insert(far);
                    }
                }
                let (have, both) = (all.next(node.id, to), two.next(node.id, to));
                prop_assert_eq!(&have.iter().copied().collect::<BTreeSet<_>>(), &least);
                prop_assert_eq!(have.len(), least.len(), "none twice");
                prop_assert_eq!(both.len(), least.len().min(2));
                prop_assert!(both.iter().all(|far| least.contains(far)));
                let one = single.next[node.id.index()];
                prop_assert_eq!(one.is_some(), !least.is_empty());
            }
        }
    }
}
