//! The contact plan agrees with the plan at every instant, however it is computed.

use std::collections::BTreeSet;

use constel_analysis::{ContactPlan, Interval, IntervalError};
use constel_plan::{Document, Lab};
use constel_scenario::{DiskFiles, parse, resolve};
use constel_units::TimeSpan;

fn lab_of(text: &str) -> Lab {
    let path = format!("{}/../../scenarios/x.yaml", env!("CARGO_MANIFEST_DIR"));
    let parsed = parse(&path, text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &DiskFiles::beside(&path)).unwrap_or_else(|e| panic!("{e}"));
    Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"))
}

fn shipped(name: &str) -> String {
    std::fs::read_to_string(format!(
        "{}/../../scenarios/{name}.yaml",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

fn seconds(s: f64) -> TimeSpan {
    TimeSpan::from_ns((s * 1e9) as i64)
}

fn plan(lab: &Lab, from: f64, to: f64, every: Option<f64>, threads: usize) -> ContactPlan {
    let interval = Interval::new(lab, seconds(from), seconds(to), every.map(seconds)).unwrap();
    ContactPlan::new(lab, interval, threads)
}

/// Links at an instant, from the contact plan and from `Document`, must be the same, with delays in bounds.
fn agrees(lab: &Lab, plan: &ContactPlan, t: f64) {
    let t_ns = (t * 1e9) as u64;
    let document = Document::at(lab, seconds(t)).unwrap();
    let mut theirs = BTreeSet::new();
    for e in &document.edges {
        theirs.insert((
            e.from_node.clone(),
            e.from_port,
            e.to_node.clone(),
            e.to_port,
        ));
    }
    let mut ours = BTreeSet::new();
    for (c, row) in plan.contacts.iter().zip(plan.rows(lab)) {
        if (c.from_ns..c.to_ns).contains(&t_ns) {
            ours.insert((
                row.a_node.to_owned(),
                row.a_port,
                row.b_node.to_owned(),
                row.b_port,
            ));
            ours.insert((
                row.b_node.to_owned(),
                row.b_port,
                row.a_node.to_owned(),
                row.a_port,
            ));
            let light = |m: f64| m / 0.299_792_458;
            assert!(
                (row.delay_min_ns as f64 - light(row.range_min_m)).abs() <= 1.001,
                "{row:?}"
            );
            assert!(
                (row.delay_max_ns as f64 - light(row.range_max_m)).abs() <= 1.001,
                "{row:?}"
            );
        }
    }
    assert_eq!(ours, theirs, "at {t} s");
}

#[test]
fn says_what_the_plan_says_at_every_instant() {
    let lab = lab_of(&shipped("iridium"));
    let plan = plan(&lab, 0.0, 120.0, None, 1);
    for t in [0.0, 9.0, 16.0, 17.0, 41.0, 60.5, 119.0] {
        agrees(&lab, &plan, t);
    }
    // Every contact lies in the interval, and no link has two at the same time.
    let mut by_link = std::collections::BTreeMap::<_, Vec<_>>::new();
    for c in &plan.contacts {
        assert!(c.from_ns < c.to_ns && c.to_ns <= 120_000_000_000);
        assert!(c.range_min_m <= c.range_max_m && c.delay_min_ns <= c.delay_max_ns);
        by_link
            .entry((c.a, c.b))
            .or_default()
            .push((c.from_ns, c.to_ns));
    }
    assert!(
        by_link
            .values()
            .all(|v| v.windows(2).all(|w| w[0].1 < w[1].0))
    );
    // Links across the polar cut-off come and go: the plan is not one contact a link.
    assert!(plan.contacts.iter().any(|c| c.from_ns > 0));
}

#[test]
fn outages_of_handovers_are_no_contact() {
    let text =
        shipped("iridium").replace("handover: {outage: 0 ms}", "handover: {outage: 2500 ms}");
    let lab = lab_of(&text);
    let plan = plan(&lab, 0.0, 60.0, None, 1);
    // Lagos changes its satellite at 9 s (the scenario's own comment): dark until 11.5 s.
    for t in [8.0, 9.0, 10.0, 11.0, 11.25, 11.5, 12.0, 30.0] {
        agrees(&lab, &plan, t);
    }
    let lagos: Vec<_> = plan
        .rows(&lab)
        .filter(|r| r.b_node == "lagos" || r.a_node == "lagos")
        .collect();
    assert!(lagos.iter().any(|r| r.to_s == 9.0), "{lagos:?}");
    assert!(lagos.iter().any(|r| r.from_s == 11.5), "{lagos:?}");
}

#[test]
fn threads_do_not_matter() {
    let lab = lab_of(
        &shipped("iridium").replace("handover: {outage: 0 ms}", "handover: {outage: 1500 ms}"),
    );
    let one = plan(&lab, 3.0, 400.0, None, 1);
    for threads in [2, 3, 7] {
        assert_eq!(
            one,
            plan(&lab, 3.0, 400.0, None, threads),
            "{threads} threads"
        );
    }
}

#[test]
fn coarse_sampling_sees_the_same_sky() {
    let lab = lab_of(&shipped("iridium"));
    let coarse = plan(&lab, 0.0, 600.0, Some(60.0), 2);
    for t in [0.0, 60.0, 300.0, 540.0] {
        agrees(&lab, &coarse, t);
    }
}

#[test]
fn intervals_that_are_none_are_refused() {
    let lab = lab_of(&shipped("iridium"));
    let new = |from, to, every: Option<f64>| {
        Interval::new(&lab, seconds(from), seconds(to), every.map(seconds)).unwrap_err()
    };
    assert!(matches!(
        new(-1.0, 5.0, None),
        IntervalError::BeforeStart(_)
    ));
    assert!(matches!(new(5.0, 5.0, None), IntervalError::Empty { .. }));
    assert!(matches!(
        new(0.0, 5.0, Some(0.0)),
        IntervalError::NoProgress(_)
    ));
    assert!(matches!(
        new(0.0, 5.0, Some(-1.0)),
        IntervalError::NoProgress(_)
    ));
    assert!(matches!(
        new(0.0, 5.0, Some(0.3)),
        IntervalError::OffStep {
            what: "the sampling",
            ..
        }
    ));
    assert!(matches!(new(0.5, 5.0, None), IntervalError::OffStep { .. }));
    assert!(matches!(new(0.0, 9e9, None), IntervalError::BeyondTime(_)));
}

/// Policies that remember, lasers that take time to find each other, failures: parts and jumps change nothing.
#[test]
fn a_sky_with_memory_is_the_same_in_parts_and_jumps() {
    let policies = ["{hysteresis: 5 deg}", "longest-visible", "scheduler"];
    for (policy, outage) in policies
        .into_iter()
        .flat_map(|p| [(p, "0 ms"), (p, "1500 ms")])
    {
        let text = shipped("iridium")
            .replace("policy: nearest", &format!("policy: {policy}"))
            .replace("outage: 0 ms", &format!("outage: {outage}"));
        assert_ne!(text, shipped("iridium"));
        let lab = lab_of(&text);
        let one = plan(&lab, 0.0, 300.0, None, 1);
        assert_eq!(one, plan(&lab, 0.0, 300.0, None, 4), "{policy} {outage}");
        for t in [0.0, 60.0, 120.0, 299.0] {
            agrees(&lab, &one, t);
        }
        let coarse = plan(&lab, 0.0, 300.0, Some(60.0), 2);
        for t in [0.0, 60.0, 240.0] {
            agrees(&lab, &coarse, t);
        }
    }
}
