//! The cost of routing. Run with `cargo test --release -p constel-routing --test speed -- --ignored --nocapture`.

use crate::common;

use common::{shell1, spread};
use constel_routing::link_state::{LinkStateProtocol, Reaction};
use constel_routing::{AddressBlocks, AddressPlan, Graph, GroundTransit, Routes, Rule};
use constel_topology::NodeId;
use std::collections::BTreeMap;
use std::time::Instant;

fn measure(stations: u32, steps: u32) {
    let mut stepper = shell1(spread(stations));
    let layout = stepper.layout().clone();
    let plan = AddressPlan::new(&layout, &AddressBlocks::default()).unwrap();
    let first = layout.satellite_count() as u32;
    let destinations: Vec<NodeId> = (first..first + stations).map(NodeId).collect();
    let mut before = Routes::default();
    let (mut graph_ms, mut trees_ms, mut delta_ms, mut changes) = (vec![], vec![], vec![], 0);
    for step in 0..steps {
        let snapshot = stepper.advance();
        let t = Instant::now();
        let graph = Graph::new(&layout, &snapshot, GroundTransit::Never);
        graph_ms.push(t.elapsed().as_secs_f64() * 1e3);
        let t = Instant::now();
        let after = Routes::compute(&graph, &destinations);
        trees_ms.push(t.elapsed().as_secs_f64() * 1e3);
        let t = Instant::now();
        let delta = after.changes_from(&before, &plan);
        delta_ms.push(t.elapsed().as_secs_f64() * 1e3);
        if step > 0 {
            changes += delta.len();
        }
        before = after;
    }
    let at = |v: &mut Vec<f64>, q: f64| {
        v.sort_by(f64::total_cmp);
        v[((v.len() - 1) as f64 * q) as usize]
    };
    println!(
        "1,584 satellites x {stations} destinations: graph p50 {:.2} p99 {:.2} ms; trees p50 {:.2} p99 {:.2} ms; \
         changes p50 {:.2} p99 {:.2} ms; {} route changes a step",
        at(&mut graph_ms, 0.5),
        at(&mut graph_ms, 0.99),
        at(&mut trees_ms, 0.5),
        at(&mut trees_ms, 0.99),
        at(&mut delta_ms, 0.5),
        at(&mut delta_ms, 0.99),
        changes / (steps as usize - 1),
    );
}

#[test]
#[ignore = "prints figures; needs --release"]
fn routes_are_cheap() {
    measure(20, 200);
    measure(100, 100);
}

/// A satellite of Shell I fails, with 100 destinations: what it takes to follow the news of it.
#[test]
#[ignore = "prints figures; needs --release"]
fn news_of_a_failure() {
    let stations = 100;
    let mut stepper = shell1(spread(stations));
    let layout = stepper.layout().clone();
    let first = layout.satellite_count() as u32;
    let destinations: Vec<NodeId> = (first..first + stations).map(NodeId).collect();
    let foreseen = stepper.advance();
    let mut actual = foreseen.clone();
    let dead = NodeId(800);
    let node = |port| layout.port(port).node;
    actual
        .edges
        .retain(|e| node(e.from) != dead && node(e.to) != dead);
    let reaction = Reaction {
        detect_ns: 100_000_000,
        processing_ns: 2_000_000,
        reach_hops: None,
    };
    let mut state = LinkStateProtocol::new(&layout, reaction);
    let start = Instant::now();
    state.detect(&layout, &foreseen, &actual, 0);
    let noticed = start.elapsed();
    let mut known = BTreeMap::new();
    let (mut looks, mut spent, mut worst) = (0_u32, 0.0, 0.0_f64);
    let (mut from_ns, mut until_ns) = (u64::MAX, 0);
    while let Some(t_ns) = state.next_ns() {
        from_ns = from_ns.min(t_ns);
        until_ns = t_ns;
        // As a loop that looks every two milliseconds.
        state.receive(t_ns + 2_000_000);
        let start = Instant::now();
        let topologies = (&foreseen, &actual);
        let _ = state.routes(
            &layout,
            topologies,
            &destinations,
            Rule::default(),
            &mut known,
        );
        let took = start.elapsed().as_secs_f64() * 1e3;
        spent += took;
        worst = worst.max(took);
        looks += 1;
    }
    println!(
        "noticed in {:.1} ms; {} messages, sent {} times within {:.0} ms; {} views; routes at {looks} moments: {:.1} ms \
         on the average, {worst:.1} ms at most",
        noticed.as_secs_f64() * 1e3,
        state.lsa_count().originated,
        state.lsa_count().sent,
        (until_ns - from_ns) as f64 / 1e6,
        known.len(),
        spent / f64::from(looks),
    );
}
