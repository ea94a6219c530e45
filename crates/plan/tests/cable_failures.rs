//! Failures of single cables, from the file.

use constel_plan::{Document, Lab};
use constel_scenario::{DiskFiles, parse, resolve};
use constel_topology::{Down, LinkReason, why};
use constel_units::TimeSpan;

const DIAMOND: &str = "constel: 1
name: diamond
start: 2026-11-21T00:00:00Z
duration: 1 min
step: 1 s
ground:
  hosts:
    a: {latitude: 0 deg, longitude: 0 deg}
    r1: {latitude: 0 deg, longitude: 0 deg}
    r2: {latitude: 0 deg, longitude: 0 deg}
    b: {latitude: 0 deg, longitude: 0 deg}
  cables:
  - {from: a, to: r1, delay: 5 ms, link: {rate: 100 Mbit/s}}
  - {from: r1, to: b, delay: 5 ms, link: {rate: 100 Mbit/s}}
  - {from: a, to: r2, delay: 20 ms, link: {rate: 100 Mbit/s}}
  - {from: r2, to: b, delay: 20 ms, link: {rate: 100 Mbit/s}}
routing: {mode: computed, destinations: all}
failures:
- {name: flap, at: 2 s, for: 1 s, link: {from: r1, to: a}}
";

fn lab(text: &str) -> Result<Lab, String> {
    let parsed = parse("flap.yaml", text).map_err(|e| e.to_string())?;
    let scenario = resolve(&parsed, &DiskFiles::beside("flap.yaml"));
    Lab::new(scenario.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
}

#[test]
fn a_cable_fails_and_comes_back_and_says_why() {
    let lab = lab(DIAMOND).unwrap_or_else(|e| panic!("{e}"));
    let edges = |s: i64| {
        let at = TimeSpan::from_ns(s * 1_000_000_000);
        Document::at(&lab, at).unwrap().edges.len()
    };
    assert_eq!([0, 1, 2, 3, 4].map(edges), [8, 8, 6, 8, 8]);
    let layout = &lab.layout;
    let id = |name: &str| layout.find(name).unwrap().id;
    let then = lab.stepper().at_step(2);
    let down = LinkReason::Down(Down::Failed { failure: 0 });
    assert_eq!(why(layout, &then, id("a"), id("r1")), down);
    assert_eq!(then.broken.cables, [(0, 0)]);
    // Broken by a failure, not by a turning sky: it does not drain.
    let cable = layout.cable_between(id("a"), id("r1")).unwrap();
    assert!(then.broken.cuts(layout, cable.a, cable.b));
    let other = layout.cable_between(id("a"), id("r2")).unwrap();
    assert!(!then.broken.cuts(layout, other.a, other.b));
}

#[test]
fn a_failure_that_hits_nothing_is_refused_where_it_is_written() {
    let refused = lab(&DIAMOND.replace("to: a}", "to: r2}")).err().unwrap();
    assert!(refused.contains("flap.yaml:19:41"), "{refused}");
    assert!(
        refused.contains("neither a laser nor a cable joins `r1` and `r2`"),
        "{refused}"
    );
}
