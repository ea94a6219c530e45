//! Link-state messages about unforeseen changes: when nodes receive them, and the effects.

use crate::common;

use constel_routing::link_state::{LinkStateProtocol, Reaction};
use constel_routing::{Graph, GroundTransit, Metric, Routes, Rule};
use constel_topology::{Edge, ISL, Layout, NodeId, Snapshot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const REACTION: Reaction = Reaction {
    detect_ns: 100_000_000,
    processing_ns: 2_000_000,
    reach_hops: None,
};

const RULE: Rule = Rule {
    metric: Metric::Delay,
    paths: 1,
};

struct World {
    layout: Arc<Layout>,
    foreseen: Snapshot,
    destinations: Vec<NodeId>,
}

impl World {
    fn new() -> World {
        let mut stepper = common::iridium(common::cities());
        World {
            layout: Arc::clone(stepper.layout()),
            foreseen: stepper.advance(),
            destinations: (60..72).map(NodeId).collect(),
        }
    }

    fn node(&self, e: &Edge, end: fn(&Edge) -> constel_link::PortId) -> NodeId {
        self.layout.port(end(e)).node
    }

    /// Without the lasers, both directions, that `broken` names by the nodes at their ends.
    fn without(&self, mut broken: impl FnMut(NodeId, NodeId) -> bool) -> Snapshot {
        let mut actual = self.foreseen.clone();
        let mut down = BTreeSet::new();
        for e in actual.edges.iter().filter(|e| e.from < e.to) {
            let ends = (self.node(e, |e| e.from), self.node(e, |e| e.to));
            if e.class == &ISL && broken(ends.0, ends.1) {
                down.extend([(e.from, e.to), (e.to, e.from)]);
            }
        }
        actual.edges.retain(|e| !down.contains(&(e.from, e.to)));
        actual
    }

    /// As a controller that sees everything would route.
    fn routes(&self, snapshot: &Snapshot) -> Routes {
        let graph = Graph::new(&self.layout, snapshot, GroundTransit::Never);
        Routes::compute_by(&graph, &self.destinations, RULE)
    }

    fn believed(&self, state: &LinkStateProtocol, actual: &Snapshot) -> Routes {
        let topologies = (&self.foreseen, actual);
        let (layout, to) = (&self.layout, &self.destinations);
        state.routes(layout, topologies, to, RULE, &mut BTreeMap::new())
    }

    /// How long a message takes from a node to every other, by plain repetition until nothing gets shorter.
    fn spreading_ns(&self, actual: &Snapshot, from: NodeId) -> BTreeMap<NodeId, u64> {
        let mut after = BTreeMap::from([(from, 0)]);
        loop {
            let mut better = false;
            for e in &actual.edges {
                let (a, b) = (self.node(e, |e| e.from), self.node(e, |e| e.to));
                let Some(at) = after.get(&a).copied() else {
                    continue;
                };
                let through = at + e.impairment.delay.delay_ns + REACTION.processing_ns;
                if after.get(&b).is_none_or(|known| through < *known) {
                    after.insert(b, through);
                    better = true;
                }
            }
            if !better {
                return after;
            }
        }
    }

    fn differing(&self, a: &Routes, b: &Routes) -> BTreeSet<NodeId> {
        let nodes = self.layout.nodes().iter().map(|node| node.id);
        nodes
            .filter(|node| {
                let mut to = self.destinations.iter();
                to.any(|to| a.next_hop(*node, *to) != b.next_hop(*node, *to))
            })
            .collect()
    }
}

#[test]
fn a_foreseen_sky_needs_no_message() {
    let mut stepper = common::iridium(common::cities());
    let layout = Arc::clone(stepper.layout());
    let mut state = LinkStateProtocol::new(&layout, REACTION);
    for _ in 0..50 {
        let snapshot = stepper.advance();
        state.detect(&layout, &snapshot, &snapshot, snapshot.t_ns);
        assert_eq!(state.next_ns(), None);
    }
    assert_eq!(
        (state.lsa_count().originated, state.lsa_count().sent),
        (0, 0)
    );
}

/// A laser that fails and is mended all day: only messages that a node may still use are kept.
#[test]
fn old_messages_are_forgotten() {
    let world = World::new();
    let mut first = None;
    let actual = world.without(|a, b| *first.get_or_insert((a, b)) == (a, b));
    assert_eq!(actual.edges.len() + 2, world.foreseen.edges.len());
    let mut state = LinkStateProtocol::new(&world.layout, REACTION);
    let mut kept = Vec::new();
    for flap in 1..=3_000_u64 {
        let t_ns = flap * 20_000_000_000;
        state.detect(&world.layout, &world.foreseen, &actual, t_ns);
        assert!(state.receive(t_ns + 9_000_000_000));
        let mended_ns = t_ns + 10_000_000_000;
        state.detect(&world.layout, &world.foreseen, &world.foreseen, mended_ns);
        assert!(state.receive(mended_ns + 9_000_000_000));
        // Everything that it holds, in words.
        kept.push(format!("{state:?}").len());
    }
    let early = *kept[..300].iter().max().unwrap();
    let late = *kept.iter().max().unwrap();
    assert!(late < early + early / 10, "{early} to {late}");
    assert_eq!(state.lsa_count().originated, 12_000);
    let routes = world.routes(&world.foreseen);
    assert_eq!(world.believed(&state, &world.foreseen), routes);
}

#[test]
fn a_failed_laser_is_heard_of_hop_by_hop_and_its_repair_too() {
    let world = World::new();
    // The first laser on some way from the first station.
    let before = world.routes(&world.foreseen);
    let (from, to) = (world.destinations[7], world.destinations[9]);
    let satellite = before
        .next_hop(from, to)
        .map(|hop| world.layout.port(hop.far_port).node);
    let near = satellite.unwrap();
    let far = world
        .layout
        .port(before.next_hop(near, to).unwrap().far_port)
        .node;
    let is_it = |a, b| (a, b) == (near, far) || (b, a) == (near, far);
    let actual = world.without(is_it);
    let after = world.routes(&actual);
    assert_ne!(before, after);
    let mut state = LinkStateProtocol::new(&world.layout, REACTION);
    let failed_ns = 5_000_000_000;
    state.detect(&world.layout, &world.foreseen, &actual, failed_ns);
    // Both ends send it; each node that receives it first sends it on over all links but one.
    let links = actual.edges.len() as u64;
    let nodes = world.layout.nodes().len() as u64;
    assert_eq!(state.lsa_count().originated, 2);
    assert_eq!(state.lsa_count().sent, 2 * (links - (nodes - 1)));

    let noticed_ns = failed_ns + REACTION.detect_ns;
    assert_eq!(state.next_ns(), Some(noticed_ns));
    assert!(!state.receive(noticed_ns - 1));
    assert_eq!(world.believed(&state, &actual), before, "nobody knows yet");
    // Either end's word is enough to believe that the laser is gone.
    let (by_near, by_far) = (
        world.spreading_ns(&actual, near),
        world.spreading_ns(&actual, far),
    );
    let mut heard = BTreeSet::new();
    while let Some(t_ns) = state.next_ns() {
        assert!(state.receive(t_ns));
        heard.extend(
            world
                .layout
                .nodes()
                .iter()
                .map(|node| node.id)
                .filter(|node| by_near[node].min(by_far[node]) + noticed_ns <= t_ns),
        );
        let believed = world.believed(&state, &actual);
        let unaware = world.differing(&believed, &after);
        assert!(
            unaware.is_disjoint(&heard),
            "at {t_ns} ns: {unaware:?} have heard of it"
        );
        let aware = world.differing(&believed, &before);
        assert!(
            aware.is_subset(&heard),
            "at {t_ns} ns: {aware:?} have not heard of it"
        );
    }
    assert_eq!(world.believed(&state, &actual), after);

    let repaired_ns = 9_000_000_000;
    state.detect(&world.layout, &world.foreseen, &world.foreseen, repaired_ns);
    assert_eq!(state.lsa_count().originated, 4);
    assert!(state.receive(u64::MAX));
    assert_eq!(world.believed(&state, &world.foreseen), before);
}

#[test]
fn who_was_cut_off_is_told_when_back_in_reach() {
    let world = World::new();
    let lone = NodeId(0);
    let island = world.without(|a, b| a == lone || b == lone);
    let mut state = LinkStateProtocol::new(&world.layout, REACTION);
    state.detect(&world.layout, &world.foreseen, &island, 0);
    state.receive(u64::MAX);
    // While it cannot hear, a laser breaks that it would use, not one of its own.
    let before = world.routes(&world.foreseen);
    let far = |node, to| {
        let hop = before.next_hop(node, to);
        hop.map(|hop| world.layout.port(hop.far_port).node)
    };
    let laser = world.destinations.iter().find_map(|to| {
        let near = far(lone, *to).filter(|near| near != to)?;
        let next = far(near, *to).filter(|next| next != to)?;
        Some((near, next))
    });
    let (near, next) = laser.unwrap();
    let elsewhere = |a, b| (a, b) == (near, next) || (b, a) == (near, next);
    let both = world.without(|a, b| a == lone || b == lone || elsewhere(a, b));
    state.detect(&world.layout, &world.foreseen, &both, 1_000_000_000);
    state.receive(u64::MAX);
    let back = world.without(elsewhere);
    state.detect(&world.layout, &world.foreseen, &back, 2_000_000_000);
    let unaware = world.differing(&world.believed(&state, &back), &world.routes(&back));
    assert!(unaware.contains(&lone), "it has not heard of that yet");
    state.receive(u64::MAX);
    assert_eq!(world.believed(&state, &back), world.routes(&back));
}

#[test]
fn a_limited_message_stays_near() {
    let world = World::new();
    let (near, far) = {
        let e = world
            .foreseen
            .edges
            .iter()
            .find(|e| e.class == &ISL)
            .unwrap();
        (world.node(e, |e| e.from), world.node(e, |e| e.to))
    };
    let actual = world.without(|a, b| (a, b) == (near, far) || (b, a) == (near, far));
    let limited = Reaction {
        reach_hops: Some(1),
        ..REACTION
    };
    let mut state = LinkStateProtocol::new(&world.layout, limited);
    state.detect(&world.layout, &world.foreseen, &actual, 0);
    state.receive(u64::MAX);
    let believed = world.believed(&state, &actual);
    let neighbours: BTreeSet<NodeId> = actual
        .edges
        .iter()
        .filter(|e| [near, far].contains(&world.node(e, |e| e.from)))
        .map(|e| world.node(e, |e| e.to))
        .chain([near, far])
        .collect();
    let aware = world.differing(&believed, &world.routes(&world.foreseen));
    assert!(aware.is_subset(&neighbours), "{aware:?}");
    // Each end sends to its neighbours, and they send it to no other node.
    let told = actual
        .edges
        .iter()
        .filter(|e| [near, far].contains(&world.node(e, |e| e.from)));
    assert_eq!(state.lsa_count().sent, told.count() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// After every sequence of failures and repairs: once all messages have arrived, all nodes route as if each saw everything.
    #[test]
    fn when_all_is_heard_all_agree(
        seeds in prop::collection::vec(any::<u64>(), 1..4),
        gaps_ns in prop::collection::vec(0_u64..300_000_000, 4),
    ) {
        let world = World::new();
        let mut state = LinkStateProtocol::new(&world.layout, REACTION);
        let (mut now_ns, mut actual) = (0, world.foreseen.clone());
        for (seed, gap_ns) in seeds.iter().zip(gaps_ns) {
            let mut bits = *seed | 1;
            actual = world.without(|_, _| {
                bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                bits >> 60 == 0
            });
            state.detect(&world.layout, &world.foreseen, &actual, now_ns);
            now_ns += gap_ns;
            // Some messages may still be on their way when the next thing breaks.
            state.receive(now_ns);
        }
        state.receive(u64::MAX);
        state.detect(&world.layout, &world.foreseen, &actual, now_ns);
        state.receive(u64::MAX);
        let reached = world.spreading_ns(&actual, NodeId(0)).len();
        prop_assume!(reached == world.layout.nodes().len());
        prop_assert_eq!(world.believed(&state, &actual), world.routes(&actual));
    }
}
