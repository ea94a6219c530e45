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
    let done = finish(command);
    let code = done.status.code().unwrap();
    let document = serde_json::from_slice(&done.stdout);
    let stderr = String::from_utf8_lossy(&done.stderr);
    (
        code,
        document.unwrap_or_else(|e| panic!("{code}: {e}\n{stderr}")),
    )
}

/// Tests a scenario that is written into `dir`, with its results below it.
fn tested_in(dir: &Path, name: &str, text: &str, more: &[&str]) -> (i32, Value) {
    let file = scenario::write(dir, name, text);
    let results = dir.join("results");
    let own = [
        file.to_str().unwrap(),
        "--results",
        results.to_str().unwrap(),
    ];
    tested(&[&own[..], more].concat())
}

/// The end of the expectation of that name.
fn end_of(document: &Value, name: &str) -> String {
    let all = ends(document);
    let found = all.into_iter().find(|(n, _)| n == name);
    found.unwrap_or_else(|| panic!("{name}: {document:#}")).1
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
    // A run whose statements all hold has no captures.
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
    let began = std::time::Instant::now();
    let more = ["--fail-fast", "--capture", "node-1"];
    let (code, document) = tested_in(dir.path(), "broken.yaml", text, &more);
    assert_eq!(code, 1, "{document:#}");
    assert_eq!(end_of(&document, "over-soon"), "failed");
    assert_eq!(end_of(&document, "arrives"), "unknown");
    // A failure keeps its capture: the answers of the second before the storm at least.
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

/// All scenario tests that are shipped. A machine that does not keep up leaves statements about times unknown; none fails.
#[test]
fn all_shipped_tests_hold() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results");
    let mut files: Vec<String> = std::fs::read_dir(SHIPPED)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(files.len(), 11, "{files:?}");
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let more = ["--jobs", "3", "--results", results.to_str().unwrap()];
    let (code, document) = tested(&[&files[..], &more].concat());
    assert!(code == 0 || code == 3, "{code}: {document:#}");
    let ends = ends(&document);
    let known = |name: &String| ends.iter().any(|(own, end)| own == name && end == "passed");
    for (name, end) in &ends {
        assert!(
            end == "passed" || end == "unknown",
            "{name} {end}: {document:#}"
        );
    }
    // Late frames change nothing of what happens and how programs end.
    for name in ["cut-in-order", "all-go-on-to-the-end", "nothing-dies"] {
        assert!(known(&name.to_owned()), "{name}: {document:#}");
    }
}

/// Programs that fail, and flows over a cut, beside a healthy ping: what software did is judged, and is no doubt about the rest.
#[test]
fn software_that_fails_fails_the_test_and_no_more_than_that() {
    let text = "constel: 1
name: crashes
start: 2026-11-21T00:00:00Z
duration: 9 s
step: 1 s
ground: {hosts: {node: {count: 3, latitude: 0 deg, longitude: 0 deg}}}
networks: {lan: {members: [node-*], law: {matrix: lan.csv}, link: {rate: 10 Mbit/s}}}
routing: {mode: computed}
failures:
  - {name: apart, at: 0 s, partition: {network: lan, groups: [[node-0, node-1], [node-2]]}}
traffic:
  - {name: exits, at: 1 s, for: 6 s, run: {node: node-0, command: [sh, -c, 'echo a; sleep 1; exit 7']}}
  - {name: leaves, at: 1 s, for: 6 s, run: {node: node-1, command: [sh, -c, 'sleep 1; exit 0']}}
  - {name: stays, at: 1 s, for: 6 s, run: {node: node-1, command: [sleep, '100']}}
  - {name: segv, at: 1 s, for: 6 s, run: {node: node-0, command: [sh, -c, 'kill -11 $$']}}
  - {name: echo, at: 1 s, for: 5 s, ping: {from: node-0, to: node-1, interval: 50 ms}}
  - {name: cut, at: 1 s, for: 3 s, iperf3: {from: node-0, to: node-2, protocol: udp, rate: 100 kbit/s}}
expect:
  - {name: exits-well, requirement: FSW-1, succeeds: exits}
  - {name: exits-early, ended_early: {flow: exits, code: 7, from: 1500 ms, until: 6 s}}
  - {name: leaves-well, succeeds: leaves}
  - {name: leaves-early, ended_early: {flow: leaves, code: 0}}
  - {name: all-alive, alive: ['*']}
  - {name: second-alive, alive: [node-1]}
  - {name: nobody-dies-late, alive: {nodes: ['*'], from: 6500 ms}}
  - {name: still-there, still_running: [stays]}
  - {name: segfaults, ended_early: {flow: segv, signal: 11}}
  - {name: echo-arrives, delivery: {flow: echo, at_least: 90 %}}
  - {name: nothing-passes, delivery: {flow: cut, at_most: 1 %}}
  - {name: in-order, order: {first: {kind: flow-started, about: exits}, then: {kind: flow-ended, about: exits}}}
";
    let dir = tempfile::tempdir().unwrap();
    let square = "delay_ms,node-0,node-1,node-2\nnode-0,0,1,1\nnode-1,1,0,1\nnode-2,1,1,0\n";
    std::fs::write(dir.path().join("lan.csv"), square).unwrap();
    let xml = dir.path().join("report.xml");
    let more = ["--junit", xml.to_str().unwrap()];
    let (code, document) = tested_in(dir.path(), "crashes.yaml", text, &more);
    assert_eq!(code, 1, "{document:#}");
    let end = |name: &str| end_of(&document, name);
    let expected = [
        ("exits-well", "failed"),
        ("exits-early", "passed"),
        ("leaves-well", "passed"),
        ("leaves-early", "passed"),
        ("all-alive", "failed"),
        ("second-alive", "failed"),
        ("nobody-dies-late", "passed"),
        ("still-there", "passed"),
        ("segfaults", "passed"),
        ("in-order", "passed"),
    ];
    for (name, wanted) in expected {
        assert_eq!(end(name), wanted, "{name}: {document:#}");
    }
    // Frames that the emulator lost are all that may leave these two open.
    assert!(
        ["passed", "unknown"].contains(&end("echo-arrives").as_str()),
        "{document:#}"
    );
    assert!(
        ["failed", "unknown"].contains(&end("nothing-passes").as_str()),
        "{document:#}"
    );
    let xml = std::fs::read_to_string(xml).unwrap();
    assert!(!xml.contains("failures=\"0\""), "{xml}");
    // The run itself says it with the same words and its exit code.
    let folder = Path::new(document["runs"][0]["results"].as_str().unwrap());
    let summary = std::fs::read(folder.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["software"]["failed"], true, "{summary:#}");
    let verdict = summary["verdict"]["reasons"].to_string();
    assert!(!verdict.contains("exits"), "{verdict}");
    let shown = support::constel(["results".as_ref(), folder.as_os_str()]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("software: FAILED"), "{text}");
    assert!(text.contains("flow exits failed: exit code 7"), "{text}");
}
