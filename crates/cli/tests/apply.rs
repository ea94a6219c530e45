//! A changed scenario for a running lab: `apply`; and stations pointed by hand: `station`.

use crate::support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use support::container::events;
use support::host::Host;
use support::lab::Lab;
use support::{constel, json, scenario, stderr, stdout, until};

const FIRST: &str = "traffic:
  - {name: first, at: 1 s, for: 50 s, ping: {from: west, to: east, interval: 100 ms}}
";
const SECOND: &str = "traffic:
  - {name: second, at: 0 s, for: 5 s, ping: {from: east, to: west, interval: 100 ms}}
  - {name: bulk, at: 0 s, for: 3 s, iperf3: {from: west, to: east}}
";

fn apply(lab: &Lab, file: &Path, flags: &[&str]) -> std::process::Output {
    let file = file.to_str().unwrap();
    let args = [&["apply", file, "--name", &lab.name], flags].concat();
    constel(args)
}

/// Lines of a flow's output so far.
fn lines(lab: &Lab, flow: &str) -> usize {
    let file = lab.results.join("flows").join(format!("{flow}.out"));
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

fn flow<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let flows = summary["flows"].as_array().unwrap();
    flows.iter().find(|flow| flow["name"] == name).unwrap()
}

#[test]
fn flows_come_and_go_in_a_running_lab() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "flows.yaml", "{mode: computed}", FIRST);
    let mut lab = Lab::up("apply-flows", &file, dir.path(), &[]);
    until("the first flow runs", || {
        (lines(&lab, "first") > 5).then_some(())
    });
    let file = scenario::small(dir.path(), "flows.yaml", "{mode: computed}", SECOND);
    let dry = apply(&lab, &file, &["--dry-run"]);
    assert_eq!(dry.status.code(), Some(0), "{}", stderr(&dry));
    let text = stdout(&dry);
    let signs: Vec<&str> = text.lines().filter_map(|line| line.get(..15)).collect();
    assert_eq!(
        signs,
        ["+ traffic.bulk:", "- traffic.first", "+ traffic.secon"]
    );
    assert_eq!(lines(&lab, "second"), 0);
    let done = json(&apply(&lab, &file, &["--json"]));
    assert_eq!(done["applied"], true, "{done}");
    until("the first flow has ended", || {
        let before = lines(&lab, "first");
        std::thread::sleep(Duration::from_millis(500));
        (lines(&lab, "first") == before).then_some(())
    });
    until("the new flows have ended", || {
        let events = events(&lab, "flow-ended");
        let ended = |flow: &str| events.iter().any(|event| event["flow"] == flow);
        (ended("second") && ended("bulk")).then_some(())
    });
    lab.interrupt();
    let summary = lab.summary();
    let status = |name| flow(&summary, name)["status"].as_str().unwrap().to_owned();
    assert_eq!(status("second"), "ok", "{summary}");
    assert_eq!(status("bulk"), "ok", "{summary}");
    let first = flow(&summary, "first");
    assert_eq!(
        (&first["status"], &first["end"]["how"]),
        (&"cut-short".into(), &"removed".into())
    );
    assert!(
        !flow(&summary, "second")["paths"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert!(lab.results.join("flows/second.csv").exists());
    assert!(lab.results.join("scenario-2.yaml").exists());
    assert_eq!(
        summary["software"]["failed"], false,
        "{}",
        summary["software"]
    );
    host.assert_as_before("after the test");
}

#[test]
fn a_change_that_needs_a_restart_is_refused_before_anything_is_touched() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "refused.yaml", "{mode: computed}", "");
    let mut lab = Lab::up("apply-refused", &file, dir.path(), &[]);
    let first = lab.satellite_of("west").unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let storm = "failures:\n- {name: storm, at: 0 s, nodes: [west]}\n";
    let more = text.replace(
        "    east:",
        "    north: {latitude: 10 deg, longitude: 10 deg}\n    east:",
    );
    fs::write(&file, format!("{more}{storm}")).unwrap();
    let refused = apply(&lab, &file, &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(
        stdout(&refused).contains("not in a running lab: nodes"),
        "{}",
        stdout(&refused)
    );
    assert!(
        stderr(&refused).contains("nothing was changed"),
        "{}",
        stderr(&refused)
    );
    assert!(
        stderr(&refused).contains("constel up"),
        "{}",
        stderr(&refused)
    );
    let wrong = dir.path().join("wrong.yaml");
    fs::write(&wrong, text.replace("1400 km", "1400 parsecs")).unwrap();
    assert_eq!(apply(&lab, &wrong, &[]).status.code(), Some(4));
    assert!(lab.is_up("west", &first));
    // Without the new station it is taken over.
    fs::write(&file, format!("{text}{storm}")).unwrap();
    let done = apply(&lab, &file, &[]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    until("the station has no satellite", || {
        lab.satellite_of("west").is_none().then_some(())
    });
    fs::write(&file, &text).unwrap();
    assert_eq!(apply(&lab, &file, &[]).status.code(), Some(0));
    until("the station is back", || lab.satellite_of("west"));
    lab.interrupt();
    host.assert_as_before("after the test");
}

#[test]
fn a_station_is_attached_and_detached() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "station.yaml", "{mode: computed}", "");
    let mut lab = Lab::up("station", &file, dir.path(), &[]);
    let first = lab.satellite_of("west").unwrap();
    let station = |words: &[&str]| {
        let (verb, rest) = words.split_first().unwrap();
        let args = [&["station", verb, &lab.name], rest, &["--json"]].concat();
        json(&constel(args))
    };
    station(&["detach", "west"]);
    until("it is dark", || {
        lab.satellite_of("west").is_none().then_some(())
    });
    let attached = station(&["attach", "west", &first]);
    assert_eq!(attached["stations"][0], "west");
    until("it has its satellite", || {
        (lab.satellite_of("west").as_ref() == Some(&first)).then_some(())
    });
    station(&["policy", "w*", "--to", "hysteresis=5deg"]);
    let strange = constel(["station", "policy", &lab.name, "west", "--to", "lowest"]);
    assert_eq!(strange.status.code(), Some(2), "{}", stderr(&strange));
    assert!(stderr(&strange).contains("nearest"), "{}", stderr(&strange));
    lab.interrupt();
    host.assert_as_before("after the test");
}
