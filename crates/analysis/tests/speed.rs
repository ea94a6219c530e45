//! The cost of the parts of all-pairs paths on one thread: `SCENARIO=FILE cargo test --release -p constel-analysis --test speed
//! -- --ignored --nocapture`.

use constel_analysis::{LANES, Paths, parse_pairs};
use constel_plan::Lab;
use constel_scenario::{DiskFiles, parse, resolve};
use constel_topology::Snapshot;
use std::time::{Duration, Instant};

#[test]
#[ignore = "prints figures; needs --release and SCENARIO"]
fn parts_of_all_pairs() {
    let path = std::env::var("SCENARIO").expect("SCENARIO names a scenario");
    let text = std::fs::read_to_string(&path).unwrap();
    let parsed = parse(&path, &text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &DiskFiles::beside(&path)).unwrap_or_else(|e| panic!("{e}"));
    let lab = Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"));
    let mut pairs = parse_pairs(&lab, "all").unwrap();
    pairs.sort_by_key(|(_, to)| *to);

    let steps = 600 / LANES as u32 * LANES as u32;
    let [mut links, mut loading, mut searching, mut walking] = [Duration::ZERO; 4];
    // The second node of each pair's path, by its first node and the destination's place.
    let mut firsts = vec![vec![u32::MAX; pairs.len()]; lab.layout.nodes().len()];
    let (mut stepper, mut paths) = (lab.stepper(), Paths::default());
    let mut snapshot = Snapshot::default();
    let mut sum = 0.0;
    for step in 1..=steps {
        let begun = Instant::now();
        stepper.advance_into(&mut snapshot);
        links += begun.elapsed();
        let begun = Instant::now();
        paths.load(&lab.layout, &snapshot);
        loading += begun.elapsed();
        if step % LANES as u32 > 0 {
            continue;
        }
        for (slot, to_one) in pairs.chunk_by(|a, b| a.1 == b.1).enumerate() {
            let begun = Instant::now();
            paths.aim(slot, to_one[0].1);
            searching += begun.elapsed();
            let begun = Instant::now();
            for (from, _) in to_one {
                if let Some(delays) = paths.unchanged(*from, firsts[from.index()][slot]) {
                    sum += delays[0];
                    continue;
                }
                paths.trace(*from, |run, delays, nodes| {
                    sum += delays[run.start] + nodes.len() as f64;
                    firsts[from.index()][slot] = nodes.get(1).map_or(u32::MAX, |n| *n);
                });
            }
            walking += begun.elapsed();
        }
        paths.clear();
    }
    assert!(sum > 0.0);
    let print = |what, time: Duration| {
        println!(
            "{what}: {:.4} ms a step",
            time.as_secs_f64() * 1e3 / f64::from(steps)
        );
    };
    print("orbits_and_links", links);
    print("graphs", loading);
    print("distances", searching);
    print("paths", walking);
    print("search", loading + searching + walking);
}
