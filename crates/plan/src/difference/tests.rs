use super::*;
use constel_scenario::{DiskFiles, parse, resolve};

const SCENARIO: &str = "constel: 1
name: small
start: 2026-11-21T00:00:00Z
duration: 5 min
constellations:
  sat:
    walker: {pattern: delta, inclination: 60 deg, satellites: 12, planes: 2, phasing: 0, altitude: 1400 km}
    isl: {pattern: plus-grid, link: {rate: 100 Mbit/s, queue: 256 KiB}}
    gsl: {min_elevation: 5 deg, policy: nearest, link: {rate: 100 Mbit/s, queue: 256 KiB}}
ground:
  stations:
    tokyo: {latitude: 35.7 deg, longitude: 139.7 deg}
    london: {latitude: 51.5 deg, longitude: -0.1 deg}
  hosts:
    h: {latitude: 51.5 deg, longitude: -0.1 deg}
  cables:
  - {from: london, to: h, delay: 1 ms, link: {rate: 1 Gbit/s}}
failures:
- {name: early, at: 10 s, for: 5 s, nodes: [tokyo]}
traffic:
- {name: first, at: 0 s, for: 2 min, ping: {from: tokyo, to: london}}
- {name: bulk, at: 0 s, for: 2 min, iperf3: {from: tokyo, to: london}}
- {name: more, at: 0 s, for: 2 min, iperf3: {from: h, to: london}}
routing: {mode: computed}
";

fn scenario(text: &str) -> Scenario {
    let parsed = parse("small.yaml", text).unwrap_or_else(|errors| panic!("{errors}"));
    resolve(&parsed, &DiskFiles::beside("small.yaml")).unwrap_or_else(|errors| panic!("{errors}"))
}

fn past(running: &Scenario, now_s: u64) -> Past {
    let mut past = Past::begun_with(&running.traffic, Some(300_000_000_000));
    past.now_ns = now_s * 1_000_000_000;
    past
}

/// Returns the difference from a change of the text, at this lab time.
fn changed(from: &str, to: &str, now_s: u64) -> Difference {
    assert!(SCENARIO.contains(from), "{from}");
    let running = scenario(SCENARIO);
    let changed = scenario(&SCENARIO.replace(from, to));
    Difference::between(&running, &changed, &past(&running, now_s))
}

/// Returns the rows in short: the key, and the reason if it is refused.
fn rows(of: &Difference) -> Vec<(&str, Option<&str>)> {
    let rows = of.changes.iter();
    rows.map(|row| (row.key.as_str(), row.refused.as_deref()))
        .collect()
}

#[test]
fn the_same_scenario_in_other_words_is_no_difference() {
    let same = changed("5 min", "300 s", 100);
    assert_eq!(rows(&same), []);
    assert_eq!(same.traffic, scenario(SCENARIO).traffic);
    assert_eq!((same.added, same.removed), (vec![], vec![]));
}

#[test]
fn failures_come_go_and_change() {
    let entry = "- {name: early, at: 10 s, for: 5 s, nodes: [tokyo]}\n";
    let two = "- {name: early, at: 10 s, for: 9 s, nodes: [tokyo]}\n- {name: late, at: 60 s, nodes: [london]}\n";
    let found = changed(entry, two, 12);
    let keys = [("failures.early", None), ("failures.late", None)];
    assert_eq!(rows(&found), keys);
    let kinds: Vec<_> = found.changes.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [ChangeKind::Changed, ChangeKind::Added]);
    let after = found.changes[1].after.as_deref().unwrap();
    assert!(
        after.contains("london") && after.contains("1 min"),
        "{after}"
    );
    // One that would be over is refused, and so is one that starts programs again.
    let over = changed(entry, two, 30);
    assert_eq!(
        rows(&over)[0],
        ("failures.early", Some("it is over: lab time is 30.0 s"))
    );
    let reboots = changed("for: 5 s, nodes", "for: 5 s, reboot: true, nodes", 0);
    assert!(reboots.changes[0].refused.is_some());
    let gone = changed(entry, "- {name: other, at: 100 s, nodes: [tokyo]}\n", 12);
    let kinds: Vec<_> = gone.changes.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [ChangeKind::Removed, ChangeKind::Added]);
    assert_eq!(gone.refused().count(), 0);
}

#[test]
fn values_of_links_and_policies_change_and_nodes_and_orbits_do_not() {
    let cable = changed(
        "delay: 1 ms, link: {rate: 1 Gbit/s}",
        "delay: 3 ms, link: {rate: 5 Mbit/s}",
        0,
    );
    let keys = [
        ("ground.cables.london-h.delay", None),
        ("ground.cables.london-h.link.rate", None),
    ];
    // The default of the queue may follow the rate.
    let mut found = rows(&cable);
    found.retain(|(key, _)| !key.ends_with("queue"));
    assert_eq!(found, keys);
    assert_eq!(cable.refused().count(), 0);
    let policy = changed("policy: nearest", "policy: longest-visible", 0);
    assert!(!policy.changes.is_empty());
    assert_eq!(policy.refused().count(), 0, "{:?}", rows(&policy));
    let node = changed(
        "    tokyo: {",
        "    i: {latitude: 1 deg, longitude: 1 deg}\n    tokyo: {",
        0,
    );
    assert_eq!(node.changes.len(), 1);
    assert_eq!(node.changes[0].key, "ground.stations.i");
    assert!(
        node.changes[0]
            .refused
            .as_ref()
            .unwrap()
            .contains("are created")
    );
    let start = changed("2026-11-21", "2026-11-22", 0);
    assert_eq!(
        rows(&start),
        [("start", Some("orbits are computed from lab time zero on"))]
    );
    assert_eq!(
        changed("mode: computed", "mode: none", 0).refused().count(),
        1
    );
}

#[test]
fn flows_begin_at_once_if_their_time_has_come() {
    let entry = "traffic:\n";
    let new = "traffic:\n- {name: now, at: 3 s, for: 20 s, ping: {from: london, to: tokyo}}\n\
        - {name: then, at: 200 s, for: 20 s, ping: {from: london, to: tokyo}}\n";
    let found = changed(entry, new, 100);
    assert_eq!(
        rows(&found),
        [("traffic.now", None), ("traffic.then", None)]
    );
    let starts: Vec<f64> = found.added.iter().map(|flow| flow.at.seconds()).collect();
    assert_eq!(starts, [100.001, 200.0]);
    assert_eq!(found.traffic.len(), 5);
    // One that would not fit into the lab's time is refused.
    let late = changed(entry, new, 290);
    let refused: Vec<_> = late.refused().map(|row| row.key.as_str()).collect();
    assert_eq!(refused, ["traffic.now", "traffic.then"]);
}

#[test]
fn a_flow_is_removed_and_the_others_keep_their_ports() {
    let entry = "- {name: bulk, at: 0 s, for: 2 min, iperf3: {from: tokyo, to: london}}\n";
    let found = changed(entry, "", 5);
    assert_eq!(
        found.removed.iter().map(Name::as_str).collect::<Vec<_>>(),
        ["bulk"]
    );
    assert_eq!(found.refused().count(), 0);
    let running = scenario(SCENARIO);
    let port = |flows: &[Flow], name: &str| {
        let own = flows.iter().find(|flow| flow.name.as_str() == name);
        own.and_then(|flow| flow.server().map(|(_, port)| port))
    };
    // In the changed file alone, `more` has the port of `bulk`.
    let alone = scenario(&SCENARIO.replace(entry, ""));
    assert_ne!(port(&alone.traffic, "more"), port(&running.traffic, "more"));
    assert_eq!(port(&found.traffic, "more"), port(&running.traffic, "more"));
    let moved = found
        .changes
        .iter()
        .find(|row| row.key == "traffic.more.port");
    assert_eq!(moved.unwrap().before, moved.unwrap().after);
    // A server of a flow that comes later gets a port that no other had, and its name must be new as well.
    let again = entry.replace("bulk", "again");
    let mut past = past(&running, 5);
    past.now_has(found.traffic);
    let third = scenario(&SCENARIO.replace(entry, &again));
    let found = Difference::between(&alone, &third, &past);
    let ports = ["again", "more"].map(|name| port(&found.traffic, name));
    assert!(ports[0] > port(&running.traffic, "more"), "{ports:?}");
    assert_eq!(ports[1], port(&running.traffic, "more"));
    let back = Difference::between(&alone, &running, &past);
    let refused: Vec<_> = back.refused().map(|row| row.key.as_str()).collect();
    assert_eq!(refused, ["traffic.bulk"]);
}

#[test]
fn a_flow_itself_does_not_change() {
    let found = changed("for: 2 min, ping", "for: 1 min, ping", 5);
    assert_eq!(
        rows(&found),
        [(
            "traffic.first",
            Some("a flow does not change: give the changed one another name")
        )]
    );
}

#[test]
fn long_values_are_cut_and_keys_are_those_of_the_file() {
    let long = "x".repeat(500);
    let found = changed(
        "name: small\n",
        &format!("name: small\ndescription: {long}\n"),
        0,
    );
    assert_eq!(rows(&found), [("description", None)]);
    let after = found.changes[0].after.as_deref().unwrap();
    assert!(after.ends_with(" ...") && after.len() < 90, "{after}");
    let found = changed("routing:", "links: {driver: edt}\nrouting:", 0);
    assert_eq!(found.changes[0].key, "links.driver");
    assert!(found.changes[0].refused.is_some());
}

#[test]
fn written_defaults_are_no_difference_and_effects_are_one_each() {
    let same = changed(
        "policy: nearest, link",
        "policy: nearest, gso_avoidance: 0 deg, by_elevation: [], link",
        0,
    );
    assert_eq!(rows(&same), []);
    let from = "isl: {pattern: plus-grid, link: {rate: 100 Mbit/s,";
    let found = changed(
        from,
        "isl: {pattern: plus-grid, acquisition: 2 s, link: {jitter: {uniform: 1 ms, half_life: 1 s}, loss: 1 %, rate: 100 Mbit/s,",
        0,
    );
    let keys = [
        ("constellations.sat.isl.acquisition", None),
        ("constellations.sat.isl.link.jitter", None),
        ("constellations.sat.isl.link.loss", None),
    ];
    assert_eq!(rows(&found), keys);
    let effects: Vec<bool> = found
        .changes
        .iter()
        .map(ScenarioChange::is_of_effect)
        .collect();
    assert_eq!(effects, [false, true, false]);
    let access = changed(
        "policy: nearest",
        "policy: nearest, access: starlink-2025",
        0,
    );
    assert_eq!(
        rows(&access),
        [("constellations.sat.gsl.access", Some(rules::GROUND_LINKS))]
    );
    let mtu = changed(from, &from.replace("rate", "mtu: 1400 B, rate"), 0);
    assert_eq!(mtu.refused().count(), 1);
}

#[test]
fn conditions_of_stations_change_and_their_radios_do_not() {
    let tokyo = "tokyo: {latitude: 35.7 deg, longitude: 139.7 deg";
    let one = "obstacles: [{from: 10 deg, to: 20 deg, elevation: 30 deg}]";
    let hidden = changed(tokyo, &format!("{tokyo}, {one}"), 0);
    assert_eq!(rows(&hidden), [("ground.stations.tokyo.obstacles", None)]);
    let two = changed(tokyo, &format!("{tokyo}, antennas: 2"), 0);
    assert_eq!(
        rows(&two),
        [("ground.stations.tokyo.antennas", Some(rules::NODES))]
    );
    let terminal = |more: &str| format!("{tokyo}, terminals: [{{constellations: [sat]{more}}}]");
    let own = SCENARIO.replace(tokyo, &terminal(""));
    let running = scenario(&own);
    let then = |more: &str| {
        let changed = scenario(&SCENARIO.replace(tokyo, &terminal(more)));
        Difference::between(&running, &changed, &past(&running, 0))
    };
    let policy = then(", policy: {hysteresis: 5 deg}");
    assert_eq!(rows(&policy), [("ground.stations.tokyo.terminals", None)]);
    assert_eq!(
        then(", min_elevation: 30 deg, policy: nearest")
            .refused()
            .count(),
        0
    );
    assert_eq!(then(", antennas: 2").refused().count(), 1);
}

#[test]
fn a_constellation_beneath_networks_does_not_change() {
    let text = "constel: 1
name: beneath
start: 2026-11-21T00:00:00Z
duration: 5 min
constellations:
  sat:
    nodes: false
    walker: {pattern: delta, inclination: 60 deg, satellites: 12, planes: 2, phasing: 0, altitude: 1400 km}
    isl: {pattern: plus-grid, link: {rate: 100 Mbit/s}}
    gsl: {min_elevation: 5 deg, policy: nearest, link: {rate: 100 Mbit/s}}
ground:
  hosts:
    tokyo: {latitude: 35.7 deg, longitude: 139.7 deg}
    london: {latitude: 51.5 deg, longitude: -0.1 deg}
networks:
  n: {members: [tokyo, london], law: {over: sat}, link: {rate: 1 Mbit/s}}
routing: {mode: none}
";
    let running = scenario(text);
    let changed = scenario(&text.replace("policy: nearest", "policy: longest-visible"));
    let found = Difference::between(&running, &changed, &past(&running, 0));
    assert_eq!(
        rows(&found),
        [("constellations.sat.gsl.policy", Some(rules::ORBITS))]
    );
}

#[test]
fn a_flow_of_a_pattern_is_told_as_one_that_is_written_out() {
    let more = "- {name: all, at: 2 min, for: 1 min, ping: {from: 'l*', to: tokyo}}\nrouting:";
    let found = changed("routing:", more, 10);
    let [row] = found.changes.as_slice() else {
        panic!("{:?}", rows(&found))
    };
    assert_eq!(row.key, "traffic.all-london-tokyo");
    let after = row.after.as_deref().unwrap_or_default();
    assert!(after.contains("ping from london, to tokyo"), "{after}");
}

#[test]
fn hosts_and_stations_leave_with_their_cables_and_return_unchanged() {
    let text = SCENARIO
        .split_inclusive('\n')
        .filter(|line| !line.contains("name: more"));
    let text: String = text.collect();
    let host = "    h: {latitude: 51.5 deg, longitude: -0.1 deg}\n";
    let cable = "  - {from: london, to: h, delay: 1 ms, link: {rate: 1 Gbit/s}}\n";
    let gone = text
        .replace(&format!("  hosts:\n{host}"), "")
        .replace(&format!("  cables:\n{cable}"), "");
    let (running, without) = (scenario(&text), scenario(&gone));
    let mut past = past(&running, 5);
    let found = Difference::between(&running, &without, &past);
    let keys = [("ground.cables.london-h", None), ("ground.hosts.h", None)];
    assert_eq!(rows(&found), keys);
    let names = |list: &[Name]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
    assert_eq!(names(&found.leaving), ["h"]);
    // The topology still has all.
    let all = found.text_with_left(&running, &without).unwrap();
    let all = scenario(&all);
    assert_eq!(rows(&Difference::between(&running, &all, &past)), []);

    past.left.clone_from(&found.left);
    let back = Difference::between(&without, &running, &past);
    assert_eq!(rows(&back), keys);
    assert_eq!(names(&back.returning), ["h"]);
    assert_eq!(back.text_with_left(&all, &running), None);
    let moved = scenario(&text.replace(
        "{latitude: 51.5 deg, longitude: -0.1 deg}\n  cables",
        "{latitude: 50 deg, longitude: -0.1 deg}\n  cables",
    ));
    let other = Difference::between(&without, &moved, &past);
    let refused: Vec<_> = other.refused().map(|row| row.key.as_str()).collect();
    assert_eq!(refused, ["ground.hosts.h"]);
    // A node that never was in the lab cannot come.
    let (more_hosts, more_cables) = (
        format!("{host}    i: {{latitude: 1 deg, longitude: 1 deg}}\n"),
        format!("{cable}{}", cable.replace("to: h", "to: i")),
    );
    let more = scenario(&text.replace(host, &more_hosts).replace(cable, &more_cables));
    let other = Difference::between(&running, &more, &past);
    let mut refused = other.refused().map(|row| row.key.as_str());
    assert!(refused.any(|key| key == "ground.hosts.i"));
}
