//! Networks of a running lab: members that leave and join, delays changed at once; craft that reboot. Needs root.

use crate::support;

use serde_json::Value;
use support::lab::Lab;
use support::scenario;

const TEXT: &str = "constel: 1
name: join
start: 2026-11-21T00:00:00Z
duration: 60 s
ground: {hosts: {node: {count: 3, latitude: 0 deg, longitude: 0 deg}}}
networks:
  radio: {members: [node-*], away: [node-2], law: {matrix: three.csv}, link: {rate: 10 Mbit/s, queue: 64 KiB}}
routing: {mode: computed, metric: hops}
";

const MATRIX: &str = "delay_ms,node-0,node-1,node-2\nnode-0,0,1,1\nnode-1,1,0,1\nnode-2,1,1,0\n";

/// Whether one node's ping reaches another within a second.
fn reaches(lab: &str, from: &str, to: &str) -> bool {
    let words = [
        "exec", lab, from, "--", "ping", "-4", "-c", "1", "-W", "1", to,
    ];
    support::constel(words).status.success()
}

/// Waits until one node's ping reaches another.
fn must_reach(lab: &str, from: &str, to: &str) {
    support::until(&format!("{to} answers {from}"), || {
        reaches(lab, from, to).then_some(())
    });
}

fn answer(words: &[&str]) -> Value {
    let done = support::constel(words);
    assert!(done.status.success(), "{words:?}: {done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn members_join_and_leave_while_the_lab_runs() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("three.csv"), MATRIX).unwrap();
    let file = scenario::write(dir.path(), "join.yaml", TEXT);
    let lab = Lab::up("join", &file, dir.path(), &[]);
    let name = lab.name.as_str();
    let set = |verb, network, node| answer(&["network", verb, name, network, node, "--json"]);
    let joined = || {
        let networks = answer(&["network", "show", name, "--json"]);
        let members = networks[0]["members"].as_array().unwrap().clone();
        members
            .into_iter()
            .map(|m| m["joined"] == true)
            .collect::<Vec<_>>()
    };
    // Away by the scenario.
    assert_eq!(joined(), [true, true, false]);
    must_reach(name, "node-0", "node-1");
    assert!(!reaches(name, "node-0", "node-2"));
    // The plan, the path and the link of the lab agree: the member has no edge yet.
    let plan = answer(&["plan", file.to_str().unwrap(), "--json"]);
    let edges = plan["edges"].as_array().unwrap().iter();
    let mut ends = edges.map(|edge| [&edge["from_node"], &edge["to_node"]]);
    assert!(
        ends.all(|ends| ends.iter().all(|node| **node != "node-2")),
        "{plan:#}"
    );
    let path = support::constel(["path", name, "node-0", "node-2", "--json"]);
    assert_eq!(path.status.code(), Some(1), "nothing arrives");
    let path: Value = serde_json::from_slice(&path.stdout).unwrap();
    assert!(path["optimum"].is_null(), "{path:#}");
    let link = answer(&["link", name, "node-0", "node-2", "--json"]);
    let why = link["why"].as_str().unwrap();
    assert!(
        why.starts_with("down: `node-2` is not in its network now"),
        "{why}"
    );
    let come = set("join", "radio", "node-2");
    assert_eq!(
        (&come["changed"], &come["joined"]),
        (&true.into(), &true.into())
    );
    assert_eq!(come["routes"]["state"], "converged", "{come}");
    must_reach(name, "node-0", "node-2");
    must_reach(name, "node-2", "node-1");
    assert_eq!(set("join", "radio", "node-2")["changed"], false);
    // Links that were failed by hand before a member left stay failed when it is back.
    assert!(
        support::constel(["link", "fail", name, "node-0", "node-1"])
            .status
            .success()
    );
    set("leave", "radio", "node-1");
    assert_eq!(joined(), [true, false, true]);
    assert!(!reaches(name, "node-2", "node-1"));
    set("join", "radio", "node-1");
    must_reach(name, "node-2", "node-1");
    let link = answer(&["link", name, "node-0", "node-1", "--json"]);
    assert!(
        link["why"].as_str().unwrap().contains("failed by hand"),
        "{link}"
    );
    // A link that is failed while a member is absent stays failed, and one that is healed comes back with the member only.
    set("leave", "radio", "node-2");
    for verb in ["heal", "fail"] {
        let to = if verb == "heal" { "node-1" } else { "node-0" };
        assert!(
            support::constel(["link", verb, name, to, "node-2"])
                .status
                .success()
        );
    }
    assert!(!reaches(name, "node-1", "node-2"), "it is absent");
    set("join", "radio", "node-2");
    must_reach(name, "node-1", "node-2");
    let link = answer(&["link", name, "node-0", "node-2", "--json"]);
    let why = link["why"].as_str().unwrap();
    assert!(why.contains("failed by hand"), "{link}");
    // Mistakes say what there is.
    for (words, said) in [
        (["leave", "radar", "node-1"], "there is radio"),
        (["join", "radio", "node-7"], "nearest is"),
    ] {
        let done = support::constel(["network", words[0], name, words[1], words[2]]);
        assert!(!done.status.success());
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(text.contains(said), "{text}");
    }
    drop(lab);
}

/// The delay of the edge from one node to another, milliseconds.
fn delay_ms(lab: &str, from: &str, to: &str) -> f64 {
    let link = answer(&["link", lab, from, to, "--json"]);
    let edges = link["edges"].as_array().unwrap().iter();
    let from = format!("{from}/");
    let mut own = edges.filter(|e| e["from"].as_str().unwrap().starts_with(&from));
    let effects = own.next().unwrap()["effects"]["delay_ns"].clone();
    effects.as_f64().map_or(1.0, |ns| ns / 1e6)
}

#[test]
fn all_delays_of_a_network_change_at_once() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("three.csv"), MATRIX).unwrap();
    let file = scenario::write(dir.path(), "join.yaml", TEXT);
    let lab = Lab::up("delays", &file, dir.path(), &[]);
    let name = lab.name.as_str();
    let square = dir.path().join("later.csv");
    // One cell is empty: that edge stays.
    let text = "delay_ms,node-0,node-1,node-2\nnode-0,0,40,2\nnode-1,30,0,\nnode-2,5,6,0\n";
    std::fs::write(&square, text).unwrap();
    let path = square.to_str().unwrap();
    let set = |more: &[&str]| {
        let words = [&["network", "set", name, "radio", "--json"], more].concat();
        answer(&words)["edges"].as_u64().unwrap()
    };
    assert_eq!(set(&["--matrix", path]), 5);
    assert_eq!(delay_ms(name, "node-0", "node-1"), 40.0);
    assert_eq!(delay_ms(name, "node-1", "node-0"), 30.0);
    // A round trip has the delays of both directions.
    let words = [
        "exec", name, "node-0", "--", "ping", "-4", "-c", "3", "-q", "node-1",
    ];
    let said = String::from_utf8(support::constel(words).stdout).unwrap();
    let least = said.rsplit("= ").next().unwrap().split('/').next().unwrap();
    assert!(least.parse::<f64>().unwrap() >= 70.0, "{said}");
    // A setting that already holds is not changed again; after a reset, the scenario's are back.
    assert_eq!(set(&["--matrix", path]), 0);
    assert_eq!(set(&["--reset"]), 5);
    let events = std::fs::read_to_string(lab.results.join("events.ndjson")).unwrap();
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events: Vec<Value> = events
        .filter(|event| event["kind"] == "delays-set")
        .collect();
    let range =
        serde_json::json!({"min_ns": 2_000_000, "median_ns": 6_000_000, "max_ns": 40_000_000});
    assert_eq!(events[0]["range"], range);
    let first = serde_json::json!({"from": "node-0", "to": "node-1", "delay_ns": 40_000_000});
    assert_eq!(events[0]["delays"][0], first);
    assert_eq!(events[0]["delays"].as_array().unwrap().len(), 5);
    assert!(
        events[1]["range"].is_null() && events[2]["delays"].is_null(),
        "{events:#?}"
    );
    assert_eq!(delay_ms(name, "node-0", "node-1"), 1.0);
    // Mistakes have the file's line, and change nothing.
    std::fs::write(
        &square,
        "from,to,delay_ms\nnode-0,node-1,7\nnode-0,node-9,7\n",
    )
    .unwrap();
    let words = ["network", "set", name, "radio", "--matrix", path];
    let done = support::constel(words);
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(4), "{text}");
    assert!(
        text.contains("later.csv:3") && text.contains("node-9"),
        "{text}"
    );
    assert_eq!(delay_ms(name, "node-0", "node-1"), 1.0);
    drop(lab);
}

const REBOOT: &str = "constel: 1
name: reboot
start: 2026-11-21T00:00:00Z
duration: 12 s
ground: {hosts: {node: {count: 2, latitude: 0 deg, longitude: 0 deg}}}
networks: {lan: {members: [node-*], medium: switched}}
routing: {mode: none}
failures:
  - {name: power, at: 4 s, for: 3 s, nodes: [node-1], reboot: true}
traffic:
  - {name: other, at: 0 s, for: 10 s, run: {node: node-0, command: [sh, -c, 'echo begun; exec sleep 60']}}
  - {name: own, at: 0 s, for: 10 s, run: {node: node-1, command: [sh, -c, 'echo begun; exec sleep 60']}}
  - {name: later, at: 5 s, for: 5 s, run: {node: node-1, command: [sh, -c, 'echo begun; exec sleep 60']}}
";

#[test]
fn commands_of_a_node_that_reboots_begin_anew() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(dir.path(), "reboot.yaml", REBOOT);
    let mut lab = Lab::up("reboot", &file, dir.path(), &[]);
    lab.ended();
    let said = |flow: &str| {
        let file = lab.results.join("flows").join(format!("{flow}.out"));
        std::fs::read_to_string(file).unwrap()
    };
    // Killed with its node and started again; another node's goes on; one that was to start in that time starts afterwards.
    assert_eq!(said("own"), "begun\nbegun\n");
    assert_eq!(said("other"), "begun\n");
    assert_eq!(said("later"), "begun\n");
    let events = std::fs::read_to_string(lab.results.join("events.ndjson")).unwrap();
    let started = |flow: &str| -> Vec<f64> {
        let events = events
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap());
        let own = events.filter(|e| e["kind"] == "flow-started" && e["flow"] == flow);
        own.map(|e| e["t_ns"].as_f64().unwrap() / 1e9).collect()
    };
    let own = started("own");
    assert!(own.len() == 2 && own[1] >= 7.0, "{own:?}");
    let later = started("later");
    assert!(later.len() == 1 && later[0] >= 7.0, "{later:?}");
    let summary = lab.summary();
    for flow in summary["flows"].as_array().unwrap() {
        assert_eq!(flow["status"], "ok", "{flow:#}");
    }
}
