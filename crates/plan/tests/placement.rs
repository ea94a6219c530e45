//! The satellites that take part, when only a share of them does.

use std::collections::BTreeSet;

use constel_plan::Lab;
use constel_scenario::model::Placement;
use constel_scenario::{DiskFiles, parse, resolve};
use constel_units::Ratio;

fn lab(seed: u64) -> Lab {
    let text = format!(
        "constel: 1\nname: share\nseed: {seed}\nstart: 2026-11-21T00:00:00Z\nduration: 1 s\n\
         constellations:\n  a:\n    preset: iridium\n    isl: {{pattern: none}}\n\
         \x20   gsl: {{min_elevation: 8.2 deg, policy: nearest, link: {{rate: 1 Mbit/s}}}}\n\
         ground: {{stations: {{home: {{latitude: 0 deg, longitude: 0 deg}}}}}}\n"
    );
    let parsed = parse("share.yaml", &text).unwrap();
    Lab::new(resolve(&parsed, &DiskFiles::in_folder(".")).unwrap()).unwrap()
}

fn share(lab: &Lab, ratio: f64, names: &[&str]) -> Vec<String> {
    let placement = Placement {
        satellites: Ratio::from_ratio(ratio).unwrap(),
        nodes: names.iter().map(|name| name.parse().unwrap()).collect(),
    };
    let placed = lab.placed(&placement, "leotp", &BTreeSet::new());
    let name = |id| lab.layout.node(id).name.clone();
    placed.into_iter().map(name).collect()
}

#[test]
fn shares_are_exact_nested_and_follow_the_seed() {
    let first = lab(1);
    let mut smaller = BTreeSet::new();
    for (ratio, count) in [(0.0, 0), (0.25, 17), (0.5, 33), (1.0, 66)] {
        let chosen: BTreeSet<String> = share(&first, ratio, &[]).into_iter().collect();
        assert_eq!(chosen.len(), count, "{ratio}");
        assert!(smaller.is_subset(&chosen));
        assert!(!chosen.contains("home"));
        smaller = chosen;
    }
    assert_eq!(share(&first, 0.25, &[]), share(&lab(1), 0.25, &[]));
    assert_ne!(share(&first, 0.25, &[]), share(&lab(2), 0.25, &[]));
}

#[test]
fn names_are_added_and_ends_of_flows_left_out() {
    let lab = lab(1);
    assert_eq!(share(&lab, 0.0, &["home"]), ["home"]);
    let all = Placement {
        satellites: Ratio::from_ratio(1.0).unwrap(),
        nodes: Vec::new(),
    };
    let end = lab.layout.find("a-p00-s00").unwrap().id;
    let placed = lab.placed(&all, "leotp", &BTreeSet::from([end]));
    assert_eq!(placed.len(), 65);
    assert!(!placed.contains(&end));
}
