//! Shipped scenario tests, run and judged; judged again from their folders; and a statement that is broken. Needs root.

use crate::support;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use support::{finish, scenario};

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/tests");

/// Runs `constel test`; the exit code and the document.
fn tested(args: &[&str]) -> (i32, Value) {
    let mut command = std::process::Command::new(support::CONSTEL);
    command.arg("test").args(args).arg("--json");
    let done = finish(command, Duration::from_secs(120));
    let code = done.status.code().unwrap();
    let document = serde_json::from_slice(&done.stdout);
    let stderr = String::from_utf8_lossy(&done.stderr);
    (
        code,
        document.unwrap_or_else(|e| panic!("{code}: {e}\n{stderr}")),
    )
}

fn ends(document: &Value) -> Vec<(String, String)> {
    let runs = document["runs"].as_array().unwrap().iter();
    let all = runs.flat_map(|run| run["expectations"].as_array().unwrap());
    all.map(|e| {
        (
            e["name"].as_str().unwrap().to_owned(),
            e["end"].as_str().unwrap().to_owned(),
        )
    })
    .collect()
}

#[test]
fn shipped_tests_hold_or_the_machine_is_not_to_be_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results");
    let junit = dir.path().join("report.xml");
    let (results, junit) = (results.to_str().unwrap(), junit.to_str().unwrap());
    let partition = format!("{SHIPPED}/partition.yaml");
    let aliveness = format!("{SHIPPED}/aliveness.yaml");
    let files = [partition.as_str(), aliveness.as_str()];
    let more = [
        "--jobs",
        "2",
        "--results",
        results,
        "--junit",
        junit,
        "--capture",
        "craft-0",
    ];
    let (code, document) = tested(&[&files[..], &more].concat());
    assert!(code == 0 || code == 3, "{code}: {document:#}");
    let wanted = if code == 0 {
        &["passed"][..]
    } else {
        &["passed", "unknown"]
    };
    for (name, end) in ends(&document) {
        assert!(wanted.contains(&end.as_str()), "{name} {end}: {document:#}");
    }
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(
        xml.contains("requirement:nothing-passes\" value=\"SPLIT-1\""),
        "{xml}"
    );
    // Judged again from its folder: the same, without a run.
    let first = &document["runs"][0];
    let own = if first["file"].as_str() == Some(files[0]) {
        files[0]
    } else {
        files[1]
    };
    let folder = first["results"].as_str().unwrap();
    let (_, again) = tested(&[own, "--judge", folder]);
    assert_eq!(again["runs"][0]["expectations"], first["expectations"]);
    assert_eq!(again["runs"][0]["results"], folder);
    assert!(Path::new(folder).join("summary.json").exists());
    // Of what holds no capture is kept.
    for run in document["runs"].as_array().unwrap() {
        let all = run["expectations"].as_array().unwrap();
        let held = all.iter().all(|e| e["end"] == "passed");
        let folder = Path::new(run["results"].as_str().unwrap());
        assert_eq!(folder.join("captures").exists(), !held, "{run:#}");
    }
}

#[test]
fn what_can_no_longer_hold_ends_a_run_that_fails_fast() {
    let text = "constel: 1
name: broken
start: 2026-11-21T00:00:00Z
duration: 60 s
ground: {hosts: {node: {count: 2, latitude: 0 deg, longitude: 0 deg}}}
networks: {lan: {members: [node-*], medium: switched}}
routing: {mode: computed}
failures:
  - {name: storm, at: 2 s, for: 40 s, nodes: [node-1]}
traffic:
  - {name: echo, at: 1 s, for: 50 s, ping: {from: node-0, to: node-1, interval: 100 ms}}
expect:
  - {name: over-soon, order: {first: {kind: failure, about: storm}, then: {kind: repair, about: storm}, within: 2 s}}
  - {name: arrives, delivery: {flow: echo, at_least: 99 %}}
";
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::write(dir.path(), "broken.yaml", text);
    let results = dir.path().join("results");
    let began = std::time::Instant::now();
    let args = [
        file.to_str().unwrap(),
        "--fail-fast",
        "--capture",
        "node-1",
        "--results",
        results.to_str().unwrap(),
    ];
    let (code, document) = tested(&args);
    assert_eq!(code, 1, "{document:#}");
    let ends = ends(&document);
    let end = |name: &str| ends.iter().find(|(n, _)| n == name).unwrap().1.as_str();
    assert_eq!((end("over-soon"), end("arrives")), ("failed", "unknown"));
    // What passed is kept of what failed: the answers of the second before the storm at least.
    let folder = Path::new(document["runs"][0]["results"].as_str().unwrap());
    let kept = std::fs::metadata(folder.join("captures/node-1.pcapng")).unwrap();
    assert!(kept.len() > 1_000, "{}", kept.len());
    assert!(folder.with_extension("log").exists());
    assert!(
        began.elapsed() < Duration::from_secs(40),
        "{:?}",
        began.elapsed()
    );
}
