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

/// The nodes that can be reached from `from` over the document's edges, not through stations.
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
    // A satellite that is in is in a shell, in a plane; one that is not is in the list: together all objects of the file.
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

#[test]
fn two_operators_share_a_gateway_and_a_ship() {
    let lab = lab("two-operators");
    // The satellites that a station uses, by port.
    let used = |document: &Document, station: &str| -> BTreeMap<&'static str, String> {
        let own = document.edges.iter().filter(|e| e.from_node == station);
        let own = own.filter(|e| e.kind == "gsl");
        own.map(|e| (e.from_port, e.to_node.clone())).collect()
    };
    for t in [0.0, 10.0, 50.0] {
        let document = at(&lab, t);
        let gateway = used(&document, "gateway");
        let ship = used(&document, "ship");
        assert_eq!(
            gateway.keys().copied().collect::<Vec<_>>(),
            ["gsl0", "gsl1", "gsl2"]
        );
        assert!(gateway["gsl0"].starts_with("starlink-") && ship["gsl0"].starts_with("starlink-"));
        // Two dishes, two satellites; OneWeb's only relay to one of them.
        assert_ne!(gateway["gsl1"], gateway["gsl2"]);
        assert!(ship["gsl1"].starts_with("oneweb-"));
        assert!(
            [&gateway["gsl1"], &gateway["gsl2"]].contains(&&ship["gsl1"]),
            "{t}"
        );
        for station in ["farm", "lighthouse"] {
            assert_eq!(
                used(&document, station).keys().copied().collect::<Vec<_>>(),
                ["gsl0"]
            );
        }
    }
    // Starlink is down.
    let document = at(&lab, 30.0);
    assert!(
        document
            .edges
            .iter()
            .all(|e| !e.from_node.starts_with("starlink-"))
    );
    assert_eq!(
        used(&document, "ship").keys().copied().collect::<Vec<_>>(),
        ["gsl1"]
    );
    assert_eq!(used(&document, "farm"), BTreeMap::new());
    let [one, two] = [(), ()].map(|()| serde_json::to_vec(&at(&lab, 30.5)).unwrap());
    assert_eq!(one, two);
}

#[test]
fn real_satellites_are_known_by_name_and_number() {
    let lab = lab("starlink-tle");
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/data/starlink-2022-09-14.tle"
    ));
    let text = text.unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // Name and number of every object, straight from the file.
    let listed: BTreeMap<u64, &str> = lines
        .chunks(3)
        .map(|set| (set[1][2..7].trim().parse().unwrap(), set[0].trim()))
        .collect();
    let document = at(&lab, 0.0);
    let mut numbers = BTreeSet::new();
    for node in &document.nodes {
        let Some(number) = node.catalogued.norad_id else {
            assert_eq!(node.kind, "ground");
            continue;
        };
        assert!(numbers.insert(number));
        let name = node.catalogued.catalogue_name.as_deref().unwrap();
        assert_eq!(name, listed[&number]);
        let id = lab.layout.find(&node.name).unwrap().id;
        assert_eq!(lab.find(&number.to_string()), Ok(id));
        assert_eq!(lab.find(&node.name), Ok(id));
    }
    let flying: usize = lab
        .shells
        .iter()
        .map(|shell| shell.satellites as usize)
        .sum();
    assert_eq!(numbers.len(), flying);
    // In the file's words and in others.
    let (number, name) = listed.iter().find(|(n, _)| numbers.contains(n)).unwrap();
    let id = lab.find(&number.to_string()).unwrap();
    assert_eq!(lab.find(name), Ok(id));
    assert_eq!(lab.find(&name.to_lowercase()), Ok(id));
    let error = lab.find("STARLINK-1O07").unwrap_err().to_string();
    assert!(
        error.contains("no node is called 'STARLINK-1O07'; nearest is 'STARLINK-1"),
        "{error}"
    );
    let json = serde_json::to_value(&document.nodes[0]).unwrap();
    assert!(
        json["norad_id"].is_u64() && json["catalogue_name"].is_string(),
        "{json}"
    );
    let ground = serde_json::to_value(document.nodes.last().unwrap()).unwrap();
    assert!(ground.get("norad_id").is_none() && ground.get("catalogue_name").is_none());
}
