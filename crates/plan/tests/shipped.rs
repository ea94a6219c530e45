//! The shipped scenarios can be planned, always to the same bytes, and say what is known of their skies.

use std::collections::{BTreeMap, BTreeSet};

use constel_plan::{Document, Lab};
use constel_scenario::{DiskFiles, parse, resolve};
use constel_units::TimeSpan;

fn lab(name: &str) -> Lab {
    let path = format!("{}/../../scenarios/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let parsed = parse(&path, &text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &DiskFiles::beside(&path)).unwrap_or_else(|e| panic!("{e}"));
    Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"))
}

fn at(lab: &Lab, seconds: f64) -> Document {
    Document::at(lab, TimeSpan::from_ns((seconds * 1e9) as i64)).unwrap()
}

fn range_m(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(x, y)| (x - y).powi(2))
        .sum::<f64>()
        .sqrt()
}

#[test]
fn same_scenario_and_seed_same_bytes() {
    for t in [0.0, 30.0, 30.5] {
        let [one, two] = [(), ()].map(|()| serde_json::to_vec(&at(&lab("iridium"), t)).unwrap());
        assert_eq!(one, two);
    }
}

#[test]
fn every_delay_is_light_time_between_the_ends() {
    for name in [
        "iridium",
        "starlink-shell1",
        "starlink-tle",
        "starlink-five-shells",
    ] {
        let document = at(&lab(name), 7.0);
        let positions: std::collections::BTreeMap<&str, [f64; 3]> = document
            .nodes
            .iter()
            .map(|n| (n.name.as_str(), n.position_itrf_m.unwrap()))
            .collect();
        assert!(document.edges.len() > document.nodes.len(), "{name}");
        for edge in &document.edges {
            let range = range_m(
                positions[edge.from_node.as_str()],
                positions[edge.to_node.as_str()],
            );
            let light_ns = range / 0.299_792_458;
            let excess = edge.delay_ns as f64 - light_ns;
            assert!(
                (-1e-3..=1.001).contains(&excess),
                "{name}: {edge:?} {excess}"
            );
        }
    }
}

#[test]
fn edges_come_in_pairs_and_sorted() {
    let document = at(&lab("iridium"), 30.0);
    let keys: Vec<_> = document
        .edges
        .iter()
        .map(|e| (&e.from_node, e.from_port, &e.to_node, e.to_port, e.delay_ns))
        .collect();
    for edge in &document.edges {
        let back = (
            &edge.to_node,
            edge.to_port,
            &edge.from_node,
            edge.from_port,
            edge.delay_ns,
        );
        assert!(keys.contains(&back), "{edge:?}");
    }
}

#[test]
fn iridium_is_what_it_is_known_to_be() {
    let lab = lab("iridium");
    let document = at(&lab, 0.0);
    assert_eq!(
        document
            .nodes
            .iter()
            .filter(|n| n.kind == "satellite")
            .count(),
        66
    );
    assert!(document.nodes.iter().filter(|n| n.kind == "ground").count() >= 12);
    // Eleven satellites a plane at 7158 km from the centre: 2 r sin(pi / 11) apart.
    let chord_m = 2.0 * 7_158_137.0 * (std::f64::consts::PI / 11.0).sin();
    let positions: std::collections::BTreeMap<&str, [f64; 3]> = document
        .nodes
        .iter()
        .map(|n| (n.name.as_str(), n.position_itrf_m.unwrap()))
        .collect();
    let intra: Vec<_> = document
        .edges
        .iter()
        .filter(|e| e.from_port == "isl0")
        .collect();
    assert_eq!(intra.len(), 66);
    for edge in intra {
        let range = range_m(
            positions[edge.from_node.as_str()],
            positions[edge.to_node.as_str()],
        );
        assert!((range - chord_m).abs() < 1.0, "{range} {chord_m}");
    }
    // No link between planes 5 and 0: they fly in opposite directions.
    let seam = |a: &str, b: &str| a.starts_with("iridium-p00") && b.starts_with("iridium-p05");
    assert!(
        !document
            .edges
            .iter()
            .any(|e| seam(&e.from_node, &e.to_node))
    );
}

/// Which nodes can be reached from `from` over the document's edges, nothing passing through stations.
fn reached<'a>(document: &'a Document, from: &'a str) -> BTreeSet<&'a str> {
    let ground: BTreeSet<&str> = document
        .nodes
        .iter()
        .filter(|n| n.kind == "ground")
        .map(|n| n.name.as_str())
        .collect();
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for edge in &document.edges {
        next.entry(&edge.from_node).or_default().push(&edge.to_node);
    }
    let mut reached = BTreeSet::from([from]);
    let mut waiting = vec![from];
    while let Some(node) = waiting.pop() {
        for peer in next.get(node).into_iter().flatten().copied() {
            if reached.insert(peer) && !ground.contains(peer) {
                waiting.push(peer);
            }
        }
    }
    reached
}

/// Every flow of every shipped scenario has a path from its start to its end.
#[test]
fn shipped_traffic_has_paths() {
    for name in [
        "iridium",
        "starlink-shell1",
        "starlink-tle",
        "starlink-five-shells",
    ] {
        let lab = lab(name);
        assert!(!lab.scenario.traffic.is_empty(), "{name}");
        for flow in &lab.scenario.traffic {
            let Some((from, to)) = flow.action.ends() else {
                continue;
            };
            for t in [flow.at, flow.end()] {
                let document = Document::at(&lab, t).unwrap();
                let found = reached(&document, from.as_str());
                assert!(found.contains(to.as_str()), "{name}: {} at {t}", flow.name);
            }
        }
    }
}

#[test]
fn the_real_starlink_set_is_sorted_and_the_rest_named() {
    let lab = lab("starlink-tle");
    assert!(
        lab.layout.satellite_count() > 2000,
        "{}",
        lab.layout.satellite_count()
    );
    assert!(!lab.left_out.is_empty());
    assert!(lab.left_out.iter().all(|out| !out.reason.is_empty()));
    // Who is in is in a shell, in a plane; who is not is in the list: together all objects of the file.
    let flying: u32 = lab.shells.iter().map(|shell| shell.satellites).sum();
    assert_eq!(flying as usize, lab.layout.satellite_count());
    assert_eq!(flying as usize + lab.left_out.len(), 3023);
    for shell in lab.shells.iter() {
        assert!(
            shell.narrowest_gap_deg > 2.0 * shell.widest_inner_gap_deg,
            "{shell:?}"
        );
        assert!(
            shell.per_plane.0 >= 1 && shell.per_plane.1 <= 58,
            "{shell:?}"
        );
    }
}
