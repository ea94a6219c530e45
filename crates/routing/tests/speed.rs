//! What routing costs. Run with `cargo test --release -p constel-routing --test speed -- --ignored --nocapture`.

mod common;

use common::{shell1, spread};
use constel_routing::{AddressPlan, Graph, GroundTransit, Routes};
use constel_topology::NodeId;
use std::time::Instant;

fn measure(stations: u32, steps: u32) {
    let mut stepper = shell1(spread(stations));
    let layout = stepper.layout().clone();
    let plan = AddressPlan::new(&layout).unwrap();
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
