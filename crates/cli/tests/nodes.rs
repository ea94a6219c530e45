//! Nodes of a running lab changed by hand: `node fail`, `stop`, `pause` and the reverse.

use crate::support;

use std::time::Duration;

use serde_json::Value;
use support::host::Host;
use support::lab::Lab;
use support::{constel, json, scenario, stderr, until};

const CLOCK: &str = "traffic:
  - {name: ticks, at: 0 s, for: 55 s, run: {node: west, command: [sh, -c, 'while :; do echo tick; sleep 0.1; done']}}
";

fn node(lab: &Lab, change: &str, node: &str) -> Value {
    json(&constel(["node", change, &lab.name, node, "--json"]))
}

fn events(lab: &Lab, kind: &str) -> Vec<Value> {
    let out = constel(["events", &lab.name, "--json"]);
    let text = String::from_utf8(out.stdout).unwrap();
    let all = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["kind"] == kind).collect()
}

/// The number of processes of a command in a node.
fn ticks(lab: &Lab) -> usize {
    let file = lab.results.join("flows/ticks.out");
    std::fs::read_to_string(file)
        .unwrap_or_default()
        .lines()
        .count()
}

#[test]
fn a_failed_satellite_is_left_and_comes_back() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "nodes.yaml", "{mode: computed}", "");
    let mut lab = Lab::up("nodes", &file, dir.path(), &[]);
    let first = lab.satellite_of("west").unwrap();
    let done = node(&lab, "fail", &first);
    assert_eq!(done["nodes"][0], first.as_str());
    assert_eq!(done["routes"]["state"], "converged", "{done}");
    let cut = json(&constel([
        "link", "show", &lab.name, "west", &first, "--json",
    ]));
    assert_eq!(cut["up"], false, "{cut}");
    let failure = events(&lab, "failure");
    assert_eq!(failure.len(), 1, "{failure:?}");
    assert_eq!(failure[0]["cause"], "by hand");
    assert_eq!(failure[0]["objects"][0], first.as_str());
    let again = node(&lab, "fail", &first);
    assert_eq!(
        (&again["nodes"][0], &again["unchanged"][0]),
        (&Value::Null, &done["nodes"][0])
    );
    // The topology follows: the satellite has no link at all.
    until("it has no links", || {
        let shown = json(&constel(["show", &lab.name, "--json"]));
        let nodes = shown["node_list"].as_array().unwrap().clone();
        let own = nodes
            .into_iter()
            .find(|node| node["name"] == first.as_str())
            .unwrap();
        assert_eq!(own["state"], "failed");
        (own["links"] == 0).then_some(())
    });
    let healed = node(&lab, "heal", &first);
    assert!(healed["links_from_ns"].as_u64().is_some(), "{healed}");
    until("a repair", || {
        (events(&lab, "repair").len() == 1).then_some(())
    });
    until("its link is back", || {
        let link = json(&constel([
            "link", "show", &lab.name, "west", &first, "--json",
        ]));
        (link["up"] == true).then_some(())
    });
    lab.interrupt();
    let summary = lab.summary();
    let changes = summary["changes"].as_array().unwrap();
    let kinds: Vec<_> = changes
        .iter()
        .map(|row| row["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["failure", "repair"], "{changes:?}");
    assert!(
        changes[0]["converged_after_ns"].as_u64().is_some(),
        "{changes:?}"
    );
    assert_eq!(
        summary["software"]["failed"], false,
        "{}",
        summary["software"]
    );
    host.assert_as_before("after the test");
}

#[test]
fn programs_stop_start_and_stand_still() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "programs.yaml", "{mode: computed}", CLOCK);
    let mut lab = Lab::up("programs", &file, dir.path(), &[]);
    let runs = || {
        let before = ticks(&lab);
        until("it ticks", || (ticks(&lab) > before + 2).then_some(()));
    };
    let stands = || {
        let before = ticks(&lab);
        std::thread::sleep(Duration::from_millis(500));
        // A line that is being written may still arrive.
        assert!(ticks(&lab) <= before + 1);
    };
    runs();
    assert!(node(&lab, "pause", "west")["processes"].as_u64().unwrap() >= 1);
    stands();
    node(&lab, "resume", "west");
    runs();
    assert!(node(&lab, "stop", "w*t")["processes"].as_u64().unwrap() >= 1);
    stands();
    let refused = constel(["node", "pause", &lab.name, "west"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("is stopped"),
        "{}",
        stderr(&refused)
    );
    node(&lab, "start", "west");
    runs();
    node(&lab, "restart", "west");
    runs();
    assert_eq!(events(&lab, "nodes-set").len(), 5);
    lab.interrupt();
    let software = &lab.summary()["software"];
    assert_eq!(software["failed"], false, "{software}");
    host.assert_as_before("after the test");
}
