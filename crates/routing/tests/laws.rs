//! Laws of routes over random delays and failures.

mod common;

use constel_routing::{AddressPlan, Graph, GroundTransit, Routes};
use constel_topology::{NodeId, Snapshot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

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
}

/// Some edges gone, the others with delays of few values, so that ties are common.
fn shaken(snapshot: &Snapshot, seed: u64) -> Snapshot {
    let mut random = Lcg(seed);
    let mut shaken = snapshot.clone();
    shaken.edges.retain(|_| random.below(5) > 0);
    for e in &mut shaken.edges {
        e.impairment.delay.delay_ns = 1 + random.below(6);
    }
    shaken
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_moment_of_an_update_has_a_loop(first in any::<u64>(), second in any::<u64>()) {
        let mut stepper = common::iridium(common::cities());
        let layout = stepper.layout().clone();
        let plan = AddressPlan::new(&layout).unwrap();
        let all = stepper.advance();
        let destinations: Vec<NodeId> = (60..72).map(NodeId).collect();
        let routes = |seed| {
            let graph = Graph::new(&layout, &shaken(&all, seed), GroundTransit::Never);
            Routes::compute(&graph, &destinations)
        };
        let (before, after) = (routes(first), routes(second));
        prop_assert_eq!(&before, &routes(first));
        let mut next: BTreeMap<(NodeId, NodeId), NodeId> = BTreeMap::new();
        for node in layout.nodes() {
            for &to in &destinations {
                if let Some(hop) = before.next_hop(node.id, to) {
                    let far = layout.port(hop.far_port).node;
                    let (d, further) = (before.distance_ns(far, to), before.distance_ns(node.id, to));
                    prop_assert!(d < further, "each hop is nearer");
                    next.insert((node.id, to), far);
                }
            }
        }
        for change in after.changes_from(&before, &plan) {
            let key = (change.node, change.destination);
            let had = match change.via {
                Some(via) => next.insert(key, layout.port(via.far_port).node),
                None => next.remove(&key),
            };
            prop_assert_eq!(had.is_some(), change.had);
            let (mut at, mut seen) = (change.node, BTreeSet::new());
            while let Some(n) = next.get(&(at, change.destination)) {
                prop_assert!(seen.insert(at), "loop at {}", at);
                at = *n;
            }
        }
        for node in layout.nodes() {
            for &to in &destinations {
                let wanted = after.next_hop(node.id, to).map(|h| layout.port(h.far_port).node);
                prop_assert_eq!(next.get(&(node.id, to)).copied(), wanted);
            }
        }
    }
}
