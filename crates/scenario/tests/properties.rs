//! Round trip, determinism, and no panic on whatever bytes.

use std::collections::BTreeSet;

use constel_scenario::model::{Action, FailureTarget, Flow, Mode};
use constel_scenario::{Called, Files, parse, parse_bytes, resolve};
use proptest::prelude::*;

/// Files in memory: one of places, nothing else.
struct Memory;

impl Files for Memory {
    fn read(&self, path: &str) -> std::io::Result<Vec<u8>> {
        match path {
            "p.csv" => {
                Ok(b"name,latitude_deg,longitude_deg\nParis,48.8,2.3\nOslo,59.9,10.7\n".to_vec())
            }
            "t.csv" => Ok(b"t_s,latitude_deg,longitude_deg\n0,1,2\n30,1.5,2\n".to_vec()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        }
    }
}

/// Uses every key of the format.
const EVERYTHING: &str = r"
constel: 1
name: everything
description: all keys
seed: 18446744073709551615
start: 2026-11-21T00:00:00Z
duration: 60 s
step: 500 ms
clock: {hold: none}
constellations:
  star:
    walker: {pattern: star, inclination: 86.4 deg, satellites: 66, planes: 6, phasing: 2, altitude: 780 km, raan0: 10.5 deg}
    isl: {pattern: plus-grid, seam: true, polar_cutoff: none, max_range: 5000 km, atmosphere: 100 km, link: {rate: 1 Gbit/s, queue: 1 MiB, loss: 0.1 %}}
    gsl: {min_elevation: 8.2 deg, policy: {scheduler: {slot: 15 s}}, handover: {outage: 20 ms, kind: make-before-break}, link: {rate: 50 Mbit/s, queue: 64 KiB, loss: 10 ppm, extra_delay: 2 ms}, by_elevation: [{above: 30 deg, rate: 80 Mbit/s}, {above: 60 deg, rate: 120 Mbit/s, loss: 0.1 %}]}
  flock:
    omm: {file: p.csv, shells: [{name: one, pattern: star, altitude: 550 km, inclination: 53 deg, altitude_tolerance: 5 km, inclination_tolerance: 0.5 deg, planes: 72, serves_ground: true}]}
    isl: {pattern: none}
    gsl: {min_elevation: 25 deg, policy: {scheduler: {slot: 15 s}}, handover: {outage: 20 ms, kind: make-before-break}, link: {rate: 50 Mbit/s}}
  relays:
    preset: telesat-polar
    isl: {pattern: {nearest: 3}, max_range: 5000 km, max_slew_per_second: 0.5 deg, acquisition: 10 s, link: {rate: 1 Gbit/s}}
    serves_ground: false
  pairs:
    preset: iridium
    isl: {pattern: {list: [{from: pairs-p00-s00, to: pairs-p01-s00}]}, link: {rate: 1 Gbit/s}}
    gsl: {min_elevation: 8.2 deg, policy: {scheduler: {slot: 15 s}}, beams: 16, gso_avoidance: 18 deg, handover: {outage: 20 ms, kind: make-before-break}, link: {rate: 50 Mbit/s}}
cross_shell:
  - {from: star, to: flock-one, max_range: 2000 km, atmosphere: 90 km, acquisition: 2 s, link: {rate: 1 Gbit/s}}
failures:
  - {name: once, at: 5 s, for: 6 s, nodes: [star-p00-s01, home, flock-one-p00-s00]}
  - {name: good, at: 5 s, link: {from: star-p00-s01, to: star-p00-s02}}
  - {name: wear, mtbf: 30 d, mttr: 1 h, satellites: star}
  - {name: plane, at: 5 s, plane: {of: flock-one, number: 3}}
  - {name: dust, mtbf: 1 h, mttr: 1 min, lasers: star}
  - {name: power, mtbf: 1 h, mttr: 1 min, stations: all}
  - {name: storm, at: 20 s, for: 10 s, region: {latitude: 60 deg, longitude: -100 deg, radius: 2000 km, hits: satellites}}
  - {name: pole, at: 20 s, polar: {of: star, beyond: 75 deg}}
  - {name: seam, at: 20 s, seam: star}
ground:
  stations:
    home: {latitude: 1 deg, longitude: 2 deg, altitude: 3 m, antennas: 2, obstacles: [{from: 350 deg, to: 10 deg, elevation: 40 deg}]}
    plane: {track: [{at: 0 s, latitude: 1 deg, longitude: 2 deg, altitude: 11 km}, {at: 50 s, latitude: 1 deg, longitude: 3 deg}]}
    ship: {track_file: t.csv}
    both: {latitude: 1 deg, longitude: 2 deg, gateway: true, terminals: [{constellations: [star, flock], min_elevation: 40 deg, policy: {hysteresis: 3 deg}, handover: {outage: 1 s}}, {constellations: [pairs], policy: {scheduler: {slot: 30 s}}}]}
  from:
    - {file: p.csv, first: 1, terminals: [{constellations: [star], antennas: 2}]}
    - {file: p.csv, names: [Oslo, {city: Paris, as: lutetia}]}
routing: {mode: computed, families: [ipv6, ipv4], destinations: all}
links: {driver: relay}
traffic:
  - {name: b, at: 5 s, for: 5 s, ping: {from: home, to: paris, interval: 200 ms, family: ipv4, size: 100 B}}
  - {name: a, at: 1 s, for: 5 s, iperf3: {from: oslo, to: home, protocol: tcp, congestion: bbr, reverse: true, family: ipv6}}
  - {name: c, at: 5 s, for: 5 s, iperf3: {from: home, to: oslo, protocol: udp, rate: 2 Mbit/s, port: 5301}}
  - {name: d, at: 5 s, for: 5 s, http: {from: flock-one-p00-s00, to: star-p00-s00, size: 8 MB, port: 80}}
  - {name: e, at: 5 s, for: 5 s, run: {node: lutetia, command: [ping, -c, 3, 'true', yes]}}
";

#[test]
fn everything_resolves_as_written() {
    let parsed = parse("e.yaml", EVERYTHING).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &Memory).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(scenario.seed, u64::MAX);
    let stations: Vec<&str> = scenario.stations.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(
        stations,
        ["both", "home", "lutetia", "oslo", "paris", "plane", "ship"]
    );
    assert!(matches!(scenario.routing.mode, Mode::Computed(_)));
    // In order of start, then of the file.
    let flows: Vec<&str> = scenario.traffic.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(flows, ["a", "b", "c", "d", "e"]);
    // `c` took 5301 of oslo, so `a` gets the next.
    let Action::Iperf3(a) = &scenario.traffic[0].action else {
        panic!()
    };
    assert_eq!(a.port, 5302);
    let Action::Run(e) = &scenario.traffic[4].action else {
        panic!()
    };
    assert_eq!(e.command, ["ping", "-c", "3", "true", "yes"]);
    // A satellite of the element file is settled later.
    let deferred: Vec<&str> = scenario.deferred.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(deferred, ["flock-one-p00-s00", "flock-one-p00-s00"]);
    let nothing = |_: &str| Called::Nothing;
    scenario
        .clone()
        .settle_nodes(&["flock-one-p00-s00".to_owned()].into(), nothing)
        .unwrap();
    let errors = scenario
        .clone()
        .settle_nodes(&["flock-one-p00-s01".to_owned()].into(), nothing)
        .unwrap_err();
    let text = errors.to_string();
    let line = 1 + EVERYTHING[..EVERYTHING.find("{name: d,").unwrap()]
        .matches('\n')
        .count();
    let start = format!("e.yaml:{line}:47: error: no node is called `flock-one-p00-s00`\n");
    assert!(text.contains(&start), "{text}");
    assert!(text.contains("did you mean `flock-one-p00-s01`?"), "{text}");
}

/// `EVERYTHING` with its satellite of the element file called in other words: in a flow, and in a failure.
fn called(flow: &str, failure: &str) -> constel_scenario::Scenario {
    let text = EVERYTHING
        .replace("from: flock-one-p00-s00", &format!("from: {flow}"))
        .replace("home, flock-one-p00-s00", &format!("home, {failure}"));
    let parsed = parse("e.yaml", &text).unwrap_or_else(|e| panic!("{e}"));
    resolve(&parsed, &Memory).unwrap_or_else(|e| panic!("{e}"))
}

/// A catalogue with two satellites of one name.
fn catalogue(text: &str) -> Called {
    match text {
        "ISS (ZARYA)" | "25544" => Called::One("flock-one-p00-s00".to_owned()),
        "TWIN" => Called::Several(vec![
            "flock-one-p00-s01 (TWIN, 1)".to_owned(),
            "b".to_owned(),
        ]),
        _ => Called::Nothing,
    }
}

#[test]
fn satellites_may_be_called_what_their_catalogue_calls_them() {
    let nodes = ["flock-one-p00-s00".to_owned()].into();
    for word in ["ISS (ZARYA)", "25544", "'25544'"] {
        let mut scenario = called(word, word);
        scenario.settle_nodes(&nodes, catalogue).unwrap();
        let Action::Http(http) = &scenario.traffic[3].action else {
            panic!()
        };
        assert_eq!(http.from, "flock-one-p00-s00");
        let FailureTarget::Nodes(broken) = &scenario.failures[0].what else {
            panic!()
        };
        assert_eq!(broken[2], "flock-one-p00-s00");
    }
    let refused = |flow, failure| {
        let errors = called(flow, failure).settle_nodes(&nodes, catalogue);
        errors.unwrap_err().to_string()
    };
    let several = refused("TWIN", "25544");
    assert!(
        several.contains("`TWIN` is what 2 satellites are called"),
        "{several}"
    );
    assert!(several.contains("flock-one-p00-s01 (TWIN, 1)"), "{several}");
    let two = refused("ISS (ZARYA)", "25544");
    assert!(
        two.contains("`25544` and `ISS (ZARYA)` are one node, `flock-one-p00-s00`"),
        "{two}"
    );
    let none = refused("MIR", "25544");
    assert!(none.contains("no node is called `MIR`"), "{none}");
}

/// Without satellites of a catalogue, a text that is no name is not the name of a node either, and `resolve` reports it.
#[test]
fn without_a_catalogue_nobody_is_called_so() {
    let text = r"
constel: 1
name: cables
start: 2026-11-21T00:00:00Z
duration: 60 s
ground:
  hosts:
    lutetia: {latitude: 1 deg, longitude: 2 deg}
traffic:
  - {name: e, at: 5 s, for: 5 s, run: {node: Lutetia, command: [date]}}
";
    let parsed = parse("e.yaml", text).unwrap_or_else(|e| panic!("{e}"));
    let errors = resolve(&parsed, &Memory).unwrap_err().to_string();
    assert!(errors.contains("no node is called `Lutetia`"), "{errors}");
    assert!(errors.contains("did you mean `lutetia`?"), "{errors}");
}

#[test]
fn the_raw_form_round_trips() {
    let parsed = parse("e.yaml", EVERYTHING).unwrap();
    // JSON is YAML, so what serde writes can be parsed again, without the keys that have no value.
    fn written(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Array(items) => items.iter_mut().for_each(written),
            serde_json::Value::Object(keys) => {
                keys.retain(|_, value| !value.is_null());
                keys.values_mut().for_each(written);
            }
            _ => (),
        }
    }
    let mut json = serde_json::to_value(&parsed.raw).unwrap();
    written(&mut json);
    let again = parse("again.yaml", &json.to_string()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(parsed.raw, again.raw);
}

#[test]
fn the_same_text_gives_the_same_scenario() {
    let run = |text: &str| {
        let result = parse("e.yaml", text).and_then(|parsed| resolve(&parsed, &Memory));
        result.map(|s| format!("{s:?}")).map_err(|e| e.to_string())
    };
    assert_eq!(run(EVERYTHING), run(EVERYTHING));
    let broken = EVERYTHING
        .replace("66", "67")
        .replace("home, to", "hom, to");
    assert!(run(&broken).is_err());
    assert_eq!(run(&broken), run(&broken));
}

#[test]
fn two_aliases_of_one_mistake_are_one_error() {
    let text = EVERYTHING
        .replace("link: {rate: 1 Gbit/s,", "link: &l {rate: 1 Gb/s,")
        .replace("link: {rate: 50 Mbit/s}", "link: *l");
    assert_eq!(parse("e.yaml", &text).unwrap_err().len(), 1);
}

fn survives(bytes: &[u8]) {
    match parse_bytes("f.yaml", bytes).and_then(|parsed| resolve(&parsed, &Memory)) {
        Ok(_) => (),
        Err(errors) => {
            assert!(!errors.is_empty());
            let text = errors.to_string();
            assert!(
                text.starts_with("f.yaml:") || text.starts_with("p.csv:"),
                "{text}"
            );
            assert!(!text.contains("internal"), "{text}");
        }
    }
}

/// Pieces that mean something to a YAML reader or to this format.
const PIECES: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    ": ",
    ", ",
    "\n",
    "  ",
    "- ",
    "&a ",
    "*a",
    "!!x ",
    "\"",
    "'",
    "|\n",
    "# ",
    "?",
    "0",
    "-1",
    "99999999999999999999999",
    "1e999 s",
    "none",
    "~",
    "\u{feff}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        survives(&bytes);
    }

    #[test]
    fn any_small_change_is_answered(
        changes in proptest::collection::vec((0..EVERYTHING.len(), 0..30usize, 0..PIECES.len()), 1..6)
    ) {
        let mut bytes = EVERYTHING.as_bytes().to_vec();
        for (at, cut, piece) in changes {
            let at = at.min(bytes.len());
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, PIECES[piece].bytes());
        }
        survives(&bytes);
    }

}

proptest! {
    // Some of these numbers make a large constellation, which takes a tenth of a second.
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_number_is_answered(index in 0..200usize, number in any::<i64>(), float in any::<f64>()) {
        // Replace one number of the file by an extreme one.
        let starts: Vec<usize> = EVERYTHING
            .match_indices(|c: char| c.is_ascii_digit())
            .map(|(at, _)| at)
            .filter(|&at| !EVERYTHING.as_bytes()[at - 1].is_ascii_digit())
            .collect();
        let at = starts[index % starts.len()];
        let end = at + EVERYTHING[at..].find(|c: char| !c.is_ascii_digit()).unwrap();
        for text in [number.to_string(), format!("{float}"), format!("{float:e}")] {
            survives(format!("{}{text}{}", &EVERYTHING[..at], &EVERYTHING[end..]).as_bytes());
        }
    }
}

/// Texts that are cheap to write and could be dear to check: each is answered within seconds
/// (in a debug build on a busy machine; they take milliseconds otherwise).
#[test]
fn hostile_texts_are_answered_quickly() {
    let many_keys: String = (0..180_000).map(|i| format!("k{i}: 1\n")).collect();
    let one_long_line = format!(
        "traffic: [{}]",
        (0..180_000).map(|_| "x, ").collect::<String>()
    );
    let one_mistake_aliased = format!("a: &a {{x: 1}}\ntraffic: [{}]", "*a, ".repeat(80_000));
    let many_flows: String = (0..9_999)
        .map(|i| format!("  - {{name: f{i}, at: 1 s, for: 1 s, ping: {{from: x{i}, to: y}}}}\n"))
        .collect();
    let many_flows =
        EVERYTHING.split("traffic:").next().unwrap().to_owned() + "traffic:\n" + &many_flows;
    let quotes = "\"".repeat(1_000_000);
    let comments = "#\n".repeat(1_000_000);
    let questions = "? ".repeat(100_000);
    let dashes = "- ".repeat(100_000);
    let anchors = "&a ".repeat(100_000);
    let brackets = "[".repeat(100_000);
    let texts = [
        many_keys,
        one_long_line,
        one_mistake_aliased,
        many_flows,
        quotes,
        comments,
        questions,
        dashes,
        anchors,
        brackets,
    ];
    for text in texts {
        let start_s = crate::processor_s();
        survives(text.as_bytes());
        let took_s = crate::processor_s() - start_s;
        let head: String = text.chars().take(20).collect();
        assert!(took_s < 10.0, "{head:?} took {took_s} s");
    }
}

/// A scenario of hosts in a ring, with these entries of `traffic`.
fn ring(hosts: &[String], traffic: &str) -> String {
    let at = "{latitude: 0 deg, longitude: 0 deg}";
    let nodes: String = hosts
        .iter()
        .map(|name| format!("    {name}: {at}\n"))
        .collect();
    let cables: String = (0..hosts.len())
        .map(|i| {
            let (from, to) = (&hosts[i], &hosts[(i + 1) % hosts.len()]);
            format!("    - {{from: {from}, to: {to}, delay: 1 ms, link: {{rate: 1 Gbit/s}}}}\n")
        })
        .collect();
    format!(
        "constel: 1\nname: ring\nstart: 2026-11-21T00:00:00Z\nduration: 60 s\nground:\n  hosts:\n{nodes}  \
         cables:\n{cables}routing: {{mode: computed}}\ntraffic:\n{traffic}"
    )
}

fn flows_of(text: &str) -> Vec<Flow> {
    let parsed = parse("ring.yaml", text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &Memory).unwrap_or_else(|e| panic!("{e}"));
    scenario.traffic
}

#[test]
fn patterns_become_flows_with_names_and_ports_of_their_own() {
    let hosts = ["a-0", "a-1", "a-2", "hub"].map(str::to_owned);
    let flows = flows_of(&ring(
        &hosts,
        "  - {name: mesh, at: 0 s, for: 1 s, ping: {from: a-*, to: each}}
  - {name: up, at: 0 s, for: 1 s, tcp: {from: '*', to: hub}}
  - {name: down, at: 0 s, for: 1 s, http: {from: hub, to: a-?, size: 1 MB}}
  - {name: web, at: 0 s, for: 1 s, http: {from: a-*, to: hub, size: 1 MB, port: 80}}
  - {name: run, at: 0 s, for: 1 s, run: {node: a-*, command: [date]}}
",
    ));
    let seen: Vec<String> = flows
        .iter()
        .map(|flow| match flow.server() {
            Some((node, port)) => format!("{} {node}:{port}", flow.name),
            None => flow.name.to_string(),
        })
        .collect();
    assert_eq!(
        seen,
        [
            "mesh-a-0-a-1 a-1:7001",
            "mesh-a-0-a-2 a-2:7001",
            "mesh-a-1-a-0 a-0:7001",
            "mesh-a-1-a-2 a-2:7002",
            "mesh-a-2-a-0 a-0:7002",
            "mesh-a-2-a-1 a-1:7002",
            "up-a-0-hub a-0:5501",
            "up-a-1-hub a-1:5501",
            "up-a-2-hub a-2:5501",
            "down-hub-a-0 hub:8001",
            "down-hub-a-1 hub:8002",
            "down-hub-a-2 hub:8003",
            "web-a-0-hub a-0:80",
            "web-a-1-hub a-1:80",
            "web-a-2-hub a-2:80",
            "run-a-0",
            "run-a-1",
            "run-a-2",
        ]
    );
}

proptest! {
    #[test]
    fn patterns_mean_all_ordered_pairs_in_any_order_of_the_file(
        near in 2..6_usize, far in 1..6_usize, turn in 0..10_usize, each in any::<bool>(),
    ) {
        let mut hosts: Vec<String> = (0..near).map(|n| format!("a-{n}")).collect();
        hosts.extend((0..far).map(|n| format!("b-{n}")));
        let entry = match each {
            true => "from: '*', to: each",
            false => "from: a-*, to: b-*",
        };
        let traffic = format!("  - {{name: f, at: 0 s, for: 1 s, iperf3: {{{entry}}}}}\n");
        let flows = flows_of(&ring(&hosts, &traffic));
        let all = near + far;
        prop_assert_eq!(flows.len(), if each { all * (all - 1) } else { near * far });
        let names: BTreeSet<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
        prop_assert_eq!(names.len(), flows.len());
        let servers: BTreeSet<_> = flows.iter().filter_map(Flow::server).collect();
        prop_assert_eq!(servers.len(), flows.len());
        for flow in &flows {
            let (from, to) = flow.action.ends().unwrap();
            prop_assert_ne!(from, to);
            prop_assert_eq!(flow.name.to_string(), format!("f-{from}-{to}"));
        }
        let mut turned = hosts;
        turned.rotate_left(turn % all);
        prop_assert_eq!(flows, flows_of(&ring(&turned, &traffic)));
    }
}
