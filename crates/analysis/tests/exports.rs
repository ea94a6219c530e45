//! Exports say what the plan says.

use constel_analysis::{Interval, exports, parse_pairs};
use constel_exchange::{csv, hypatia, oem};
use constel_plan::{Document, Lab};
use constel_scenario::{DiskFiles, parse, resolve};
use constel_units::TimeSpan;
use serde_json::Value;

fn lab(name: &str) -> Lab {
    let path = format!("{}/../../scenarios/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let parsed = parse(&path, &text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &DiskFiles::beside(&path)).unwrap_or_else(|e| panic!("{e}"));
    Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"))
}

fn seconds(s: i64) -> TimeSpan {
    TimeSpan::from_ns(s * 1_000_000_000)
}

fn interval(lab: &Lab, to: i64, every: i64) -> Interval {
    Interval::new(lab, seconds(0), seconds(to), Some(seconds(every))).unwrap()
}

/// The polynomial of degree 5 through the six samples around `t`, as Cesium interpolates.
fn lagrange5(samples: &[[f64; 4]], t: f64) -> [f64; 3] {
    let after = samples.partition_point(|s| s[0] <= t);
    let first = after.saturating_sub(3).min(samples.len() - 6);
    let near = &samples[first..first + 6];
    let mut at = [0.0; 3];
    for (i, a) in near.iter().enumerate() {
        let others = near.iter().enumerate().filter(|(j, _)| *j != i);
        let weight: f64 = others.map(|(_, b)| (t - b[0]) / (a[0] - b[0])).product();
        (0..3).for_each(|k| at[k] += weight * a[k + 1]);
    }
    at
}

#[test]
fn a_graph_has_the_nodes_and_links_of_the_plan() {
    let lab = lab("iridium");
    let graph = exports::graph(&lab, seconds(24)).unwrap();
    let plan = Document::at(&lab, seconds(24)).unwrap();
    assert_eq!(graph.nodes.len(), lab.layout.nodes().len());
    // The plan has both directions of each link.
    assert_eq!(2 * graph.links.len(), plan.edges.len());
    for edge in &plan.edges {
        let is_it = |link: &&constel_exchange::graph::GraphLink| {
            let (a, b) = (&graph.nodes[link.a].name, &graph.nodes[link.b].name);
            (a, b) == (&edge.from_node, &edge.to_node) || (b, a) == (&edge.from_node, &edge.to_node)
        };
        assert_eq!(graph.links.iter().filter(is_it).count(), 1, "{edge:?}");
    }
    let mut places: Vec<_> = graph.nodes.iter().map(|node| node.place).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(
        places.len(),
        graph.nodes.len(),
        "no two nodes are in one place"
    );
    assert!(exports::graph(&lab, seconds(-1)).is_err());
}

#[test]
fn czml_is_what_cesium_reads_and_where_the_satellites_are() {
    let lab = lab("iridium");
    let mut bytes = Vec::new();
    exports::czml(&lab, interval(&lab, 3600, 60), 1, &mut bytes).unwrap();
    let packets: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(packets[0]["id"], "document");
    assert_eq!(packets[0]["version"], "1.0");
    let ids: std::collections::BTreeSet<&str> =
        packets.iter().map(|p| p["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), packets.len(), "identifiers are unique");
    let mut worst = 0.0_f64;
    let plan = |t| Document::at(&lab, seconds(t)).unwrap();
    let plans: Vec<(i64, Document)> = [0, 17, 30, 95, 1800, 3570, 3599]
        .into_iter()
        .map(|t| (t, plan(t)))
        .collect();
    for (index, node) in lab.layout.nodes().iter().enumerate() {
        let packet = packets
            .iter()
            .find(|p| p["id"] == node.name.as_str())
            .unwrap();
        let position = &packet["position"];
        assert_eq!(position["referenceFrame"], "FIXED");
        let numbers: Vec<f64> = serde_json::from_value(position["cartesian"].clone()).unwrap();
        for (t, plan) in &plans {
            let truth = plan.nodes[index].position_itrf_m.unwrap();
            let shown = if node.seat.is_some() {
                assert_eq!(position["epoch"], "2026-11-21T05:14:00Z");
                assert_eq!(
                    (
                        &position["interpolationAlgorithm"],
                        &position["interpolationDegree"]
                    ),
                    (&"LAGRANGE".into(), &5.into())
                );
                let samples: Vec<[f64; 4]> = numbers
                    .chunks(4)
                    .map(|c| [c[0], c[1], c[2], c[3]])
                    .collect();
                assert_eq!(samples.len(), 61);
                lagrange5(&samples, *t as f64)
            } else {
                [numbers[0], numbers[1], numbers[2]]
            };
            let error = shown
                .iter()
                .zip(truth)
                .map(|(a, b)| (a - b).powi(2))
                .sum::<f64>()
                .sqrt();
            worst = worst.max(error);
        }
    }
    println!("CZML every 60 s, interpolated: at most {worst:.3} m off");
    assert!(worst < 1.0, "{worst}");
    // Lines refer to packets that exist, and are lit when the link is up.
    let instant = |t: i64| (lab.scenario.start + seconds(t)).to_string();
    for packet in packets.iter().filter(|p| p["polyline"].is_object()) {
        for end in packet["polyline"]["positions"]["references"]
            .as_array()
            .unwrap()
        {
            assert!(ids.contains(end.as_str().unwrap().strip_suffix("#position").unwrap()));
        }
    }
    let plan = &plans.iter().find(|p| p.0 == 1800).unwrap().1;
    let lit = packets
        .iter()
        .filter(|p| p["polyline"].is_object())
        .filter(|p| {
            let shows = p["polyline"]["show"].as_array().unwrap();
            shows
                .iter()
                .rev()
                .find(|s| {
                    let (from, to) = s["interval"].as_str().unwrap().split_once('/').unwrap();
                    (from..to).contains(&instant(1800).as_str())
                })
                .unwrap()["boolean"]
                == true
        });
    assert_eq!(lit.count() * 2, plan.edges.len());
}

#[test]
fn the_map_shows_everything_within_its_frame() {
    let lab = lab("iridium");
    let pairs = parse_pairs(&lab, "london-tokyo").unwrap();
    let svg = exports::svg(&lab, seconds(30), &pairs).unwrap();
    assert_eq!(svg.matches("<circle").count(), 66);
    assert_eq!(svg.matches("l4 7h-8z").count(), 14);
    assert!(
        svg.contains("class=\"path\"") && svg.contains("class=\"isl\"") && svg.contains(">tokyo<")
    );
    // Land has a scale of its own: tenths of a degree.
    let (before, land) = svg.split_once("<path class=\"land\"").unwrap();
    let (land, after) = land.split_once("/>").unwrap();
    let numbers = |text: &str| -> Vec<f64> {
        let words = text.split(['"', ' ', 'M', 'L']);
        words.filter_map(|w| w.parse().ok()).collect()
    };
    for number in numbers(before).into_iter().chain(numbers(after)) {
        assert!((-200.0..=1500.0).contains(&number), "{number}");
    }
    for number in numbers(land) {
        assert!((-3600.0..=3600.0).contains(&number), "{number}");
    }
    assert_eq!(svg, exports::svg(&lab, seconds(30), &pairs).unwrap());
}

#[test]
fn ephemerides_come_back_where_the_satellites_are() {
    let lab = lab("iridium");
    let exports::Ephemerides { objects, left_out } =
        exports::ephemerides(&lab, interval(&lab, 3600, 60)).unwrap();
    assert_eq!((objects.len(), left_out.len()), (66, 0));
    let created = lab.scenario.start;
    for read in [
        oem::parse(&oem::write(&objects, created, "test")).unwrap(),
        csv::parse(&csv::write(&objects)).unwrap(),
    ] {
        assert_eq!(read.len(), 66);
        for t in [0, 601, 1830, 3600] {
            let plan = Document::at(&lab, seconds(t)).unwrap();
            for object in &read {
                let node = plan.nodes.iter().find(|n| n.name == object.object).unwrap();
                let here = object
                    .position_itrf_m(created + seconds(t))
                    .unwrap()
                    .to_array();
                let error = here
                    .iter()
                    .zip(node.position_itrf_m.unwrap())
                    .map(|(a, b)| (a - b).powi(2))
                    .sum::<f64>()
                    .sqrt();
                assert!(error < 0.05, "{} at {t}: {error}", object.object);
            }
        }
    }
}

#[test]
fn hypatia_and_starperf_say_what_flies() {
    let lab = lab("starlink-shell1");
    let files = exports::hypatia(&lab).unwrap();
    let text = |name: &str| files.iter().find(|f| f.0 == name).unwrap().1.as_str();
    let read = hypatia::Files {
        tles_path: "tles.txt",
        tles: text("tles.txt"),
        isls: Some(text("isls.txt")),
        stations: Some(text("ground_stations.basic.txt")),
        gsl_interfaces: Some(text("gsl_interfaces_info.txt")),
        description: Some(text("description.txt")),
    };
    let draft = hypatia::parse(&read, "back").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        (
            draft.shells[0].planes,
            draft.shells[0].per_plane,
            draft.shells[0].phasing
        ),
        (72, 22, 65)
    );
    assert!((draft.shells[0].altitude_m - 550e3).abs() < 2.0);
    assert!(
        (draft.min_elevation_deg - 25.0).abs() < 0.01,
        "{}",
        draft.min_elevation_deg
    );
    assert_eq!(draft.stations.len(), 20);
    assert_eq!(text("isls.txt").lines().count(), 2 * 1584);
    let xml = &exports::starperf(&lab).unwrap()[0].1;
    let shells = constel_exchange::starperf::parse_constellation(xml, "x")
        .unwrap()
        .shells;
    assert_eq!(
        (shells[0].planes, shells[0].per_plane, shells[0].phasing),
        (72, 22, 65)
    );
    assert!(xml.contains("<orbit_cycle>5739<"), "{xml}");
    let real = self::lab("starlink-tle");
    assert!(matches!(
        exports::hypatia(&real),
        Err(exports::ExportError::NotWalker { .. })
    ));
}

/// What `plan --export hypatia` writes for two shells is imported as the same satellites, links and elevation.
#[test]
fn two_shells_come_back_from_hypatias_files() {
    struct File(String);
    impl constel_scenario::Files for File {
        fn read(&self, _: &str) -> std::io::Result<Vec<u8>> {
            Ok(self.0.clone().into_bytes())
        }
    }
    let shell = |altitude: u32, inclination: u32, planes: u32| {
        format!(
            "{{walker: {{pattern: delta, altitude: {altitude} km, inclination: {inclination} deg, planes: {planes}, \
             satellites: {}, phasing: 1}}, isl: {{pattern: plus-grid, link: {{rate: 10 Mbit/s}}}}, \
             gsl: {{min_elevation: 25 deg, link: {{rate: 10 Mbit/s}}}}}}",
            planes * 6
        )
    };
    for (low, high) in [((550, 53), (1150, 70)), ((1150, 70), (550, 53))] {
        let text = format!(
            "constel: 1\nname: two\nstart: 2026-11-21T00:00:00Z\nduration: 60 s\nconstellations:\n  a: {}\n  b: {}\n\
             ground: {{stations: {{gs: {{latitude: 10 deg, longitude: 20 deg}}}}}}\n",
            shell(low.0, low.1, 5),
            shell(high.0, high.1, 4)
        );
        let none = File(String::new());
        let scenario = constel_scenario::read_scenario("two.yaml", text.as_bytes(), &none);
        let lab = scenario
            .and_then(Lab::new)
            .unwrap_or_else(|e| panic!("{e}"));
        let files = exports::hypatia(&lab).unwrap();
        let file = |name: &str| files.iter().find(|f| f.0 == name).unwrap().1.as_str();
        let read = hypatia::Files {
            tles_path: "tles.txt",
            tles: file("tles.txt"),
            isls: Some(file("isls.txt")),
            stations: Some(file("ground_stations.basic.txt")),
            gsl_interfaces: Some(file("gsl_interfaces_info.txt")),
            description: Some(file("description.txt")),
        };
        let draft = hypatia::parse(&read, "back").unwrap_or_else(|e| panic!("{e}"));
        assert!(
            (draft.min_elevation_deg - 25.0).abs() < 0.01,
            "{}",
            draft.min_elevation_deg
        );
        let tles = File(file("tles.txt").to_owned());
        let scenario = constel_scenario::read_scenario("back.yaml", draft.yaml().as_bytes(), &tles);
        let back = scenario
            .and_then(Lab::new)
            .unwrap_or_else(|e| panic!("{e}\n{}", draft.yaml()));
        assert_eq!(
            back.left_out.len(),
            0,
            "no record is bad, the head among them"
        );
        let links = |lab: &Lab| -> std::collections::BTreeSet<[u32; 2]> {
            let node = |port| lab.layout.port(port).node.0;
            let ends = lab
                .layout
                .isl_links()
                .iter()
                .map(|l| [node(l.a), node(l.b)]);
            ends.map(|[a, b]| [a.min(b), a.max(b)]).collect()
        };
        assert_eq!((links(&back).len(), links(&back)), (2 * 54, links(&lab)));
        let places = |lab: &Lab| {
            let mut out = Vec::new();
            assert_eq!(lab.sky.positions_itrf_m(0, &mut out), []);
            out
        };
        let (here, there) = (places(&lab), places(&back));
        assert_eq!((here.len(), there.len()), (54, 54));
        for (here, there) in here.iter().zip(&there) {
            // Short-period terms, which a Walker pattern does not have, move a satellite by some kilometres.
            assert!(here.distance(*there) < 25e3, "{here} {there}");
        }
    }
}

/// An object that is given until 20 s and from 40 s on, and at all times.
fn lab_with_a_hole() -> Lab {
    struct File;
    impl constel_scenario::Files for File {
        fn read(&self, _: &str) -> std::io::Result<Vec<u8>> {
            let mut text = "t_utc,sat_id,x_m,y_m,z_m,frame\n".to_owned();
            for s in (0..=20).chain(40..=60).step_by(1) {
                text += &format!(
                    "2026-11-21T00:{:02}:{:02}Z,A,7000000,{},0,itrf\n",
                    s / 60,
                    s % 60,
                    s * 10
                );
                if s == 20 {
                    text += "2026-11-21T00:00:20.5Z,A,,,,itrf\n";
                }
            }
            for s in 0..=60 {
                text += &format!(
                    "2026-11-21T00:{:02}:{:02}Z,B,7000000,{},9000,itrf\n",
                    s / 60,
                    s % 60,
                    s * 10
                );
            }
            Ok(text.into_bytes())
        }
    }
    let text = "constel: 1\nname: hole\nstart: 2026-11-21T00:00:00Z\nduration: 60 s\nconstellations:\n  c:\n    \
                ephemeris: {file: a.csv}\n    isl: {pattern: none}\n    gsl: {min_elevation: 5 deg, link: {rate: 1 Mbit/s}}\n\
                ground:\n  stations:\n    gs: {latitude: 0 deg, longitude: 0 deg}\n";
    let scenario = constel_scenario::read_scenario("hole.yaml", text.as_bytes(), &File);
    let lab = scenario.and_then(Lab::new);
    lab.unwrap_or_else(|e| panic!("{e}"))
}

/// Sampled often enough to see the hole, and so seldom that no sample falls into it.
#[test]
fn no_export_bridges_a_hole() {
    let lab = lab_with_a_hole();
    let at = |s: i64| lab.scenario.start + seconds(s);
    for (every, until, from) in [(5, 20, 40), (30, 0, 60)] {
        let exports::Ephemerides { objects, left_out } =
            exports::ephemerides(&lab, interval(&lab, 60, every)).unwrap();
        if every == 30 {
            // Two samples with a hole between them, and one alone: A has nothing that can be interpolated.
            assert_eq!(objects.len(), 1);
            assert_eq!(objects[0].segments.len(), 1);
            assert_eq!((left_out.len(), &left_out[0].at), (1, &vec![at(0), at(60)]));
        } else {
            assert_eq!(left_out, []);
            let spans: Vec<_> = objects[0].segments.iter().map(|s| s.usable()).collect();
            assert_eq!(spans, [(at(0), at(until)), (at(from), at(60))]);
            assert_eq!(objects[1].segments.len(), 1);
            for again in [
                oem::parse(&oem::write(&objects, at(0), "ME")).unwrap(),
                csv::parse(&csv::write(&objects)).unwrap(),
            ] {
                assert!(again[0].position_itrf_m(at(30)).is_err());
                assert!(again[1].position_itrf_m(at(30)).is_ok());
            }
        }
        let mut bytes = Vec::new();
        exports::czml(&lab, interval(&lab, 60, every), 1, &mut bytes).unwrap();
        let packets: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
        let of = |name: &str| packets.iter().find(|p| p["id"] == name).unwrap();
        let span = |from: i64, to: i64| format!("{}/{}", at(from), at(to));
        let (a, b) = (of("c-p00-s00"), of("c-p00-s01"));
        assert_eq!(b["availability"], span(0, 60));
        let parts = a["availability"].as_array().unwrap();
        let positions = a["position"].as_array().unwrap();
        assert_eq!(parts.len(), positions.len());
        assert_eq!(parts[0], span(0, until));
        assert_eq!(*parts.last().unwrap(), span(from, 60));
        for (part, position) in parts.iter().zip(positions) {
            assert_eq!(*part, position["interval"]);
        }
    }
}

/// Every sample that has a position is in a segment or is reported, however often samples are taken.
#[test]
fn samples_that_an_export_leaves_out_are_reported() {
    let lab = lab_with_a_hole();
    for every in [1, 2, 3, 5, 10, 15, 20, 30, 60] {
        let interval = interval(&lab, 60, every);
        let exported = exports::ephemerides(&lab, interval).unwrap();
        for (number, name) in ["c-p00-s00", "c-p00-s01"].into_iter().enumerate() {
            let mut samples: Vec<_> = (0..=interval.samples())
                .map(|n| lab.scenario.start + TimeSpan::from_ns(interval.at(n) as i64))
                .filter(|at| {
                    let s = (at.unix_ns() - lab.scenario.start.unix_ns()) / 1_000_000_000;
                    number == 1 || !(21..40).contains(&s)
                })
                .collect();
            let own = exported.objects.iter().filter(|own| own.object == name);
            let segments = own.flat_map(|own| &own.segments);
            let mut found: Vec<_> = segments.flat_map(|s| s.states()).map(|s| s.at).collect();
            let lost = exported.left_out.iter().filter(|lost| lost.object == name);
            let lost: Vec<_> = lost.flat_map(|lost| lost.at.clone()).collect();
            assert!(
                lost.is_empty() || (number == 0 && every >= 15),
                "{every}: {lost:?}"
            );
            found.extend(lost);
            found.sort();
            samples.sort();
            assert_eq!(found, samples, "every {every} s, {name}");
        }
    }
    let exported = exports::ephemerides(&lab, interval(&lab, 60, 30)).unwrap();
    let line = "`c-p00-s00`: the samples at 2026-11-21T00:00:00Z, 2026-11-21T00:01:00Z are left out, as none is next to \
                another with a position: sample more often";
    assert_eq!(exported.left_out[0].to_string(), line);
    // Within the hole there is nothing at all.
    let hole = Interval::new(&lab, seconds(22), seconds(38), Some(seconds(1))).unwrap();
    let exported = exports::ephemerides(&lab, hole).unwrap();
    assert_eq!(exported.objects.len(), 1);
    let line = "`c-p00-s00` has no position at any sample, so it is left out";
    assert_eq!(exported.left_out[0].to_string(), line);
}
