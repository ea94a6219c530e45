//! Boxes from other files than rules: rows of NIST Net, machines of a scenario, and a sky in between.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use constel_host::claim::LabState;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::middlebox::support::host::{Host, LABS};
use crate::middlebox::support::lab::state_of;
use crate::middlebox::support::{CONSTEL, constel, json, stderr, until, wait};

#[test]
fn rows_of_nist_net_become_rules() {
    let dir = tempfile::tempdir().unwrap();
    let rows = dir.path().join("rows");
    fs::write(
        &rows,
        "cnistnet -a 10.0.0.1 10.0.1.1 --delay 300 --drop 0.01/0.5\n",
    )
    .unwrap();
    let output = constel(["box", "import", rows.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("the correlation of --drop is left out"));
    let rules = dir.path().join("rules.yaml");
    fs::write(&rules, &output.stdout).unwrap();
    let checked = json(&constel([
        "box",
        "check",
        rules.to_str().unwrap(),
        "--json",
    ]));
    assert_eq!(checked, serde_json::json!({"rules": 2, "warnings": []}));
    fs::write(&rows, "10.0.0.1 --delay 3\n").unwrap();
    let output = constel(["box", "import", rows.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4));
    // A row that is no valid rule is named by its line in this file, once.
    let far = "# comment\n10.0.0.1 10.0.0.2 --delay 1\n0.0.0.0 10.0.0.2 --delay 1 50\n10.0.0.3 10.0.0.2 --delay 1e9\n";
    fs::write(&rows, far).unwrap();
    let output = constel(["box", "import", rows.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4));
    let told = stderr(&output);
    let at = |line: u32| format!("{}:{line}:1: error: ", rows.display());
    assert!(
        told.contains(&format!("{}jitter takes up to 50 ms", at(3))),
        "{told}"
    );
    assert!(told.contains(&format!("{}`delay` is ", at(4))), "{told}");
    assert_eq!(told.matches("error: ").count(), 2, "{told}");
}

const MACHINES: &str = "constel: 1
name: NAME
duration: 8 s
box:
  machines:
  - {name: near, addresses: [10.31.0.1/24, 2001:db8::1/64], settings: {net.ipv4.tcp_no_metrics_save: 1}}
  - {name: far, addresses: [10.31.0.2/24, 2001:db8::2/64]}
  rules:
  - {name: asked, match: {protocol: [icmp, icmpv6]}, forward: {delay: 30 ms}, reverse: {delay: 40 ms}}
traffic:
- {name: fails, at: 0 s, for: 5 s, run: {node: far, command: [cat, /no/such/file]}}
- {name: waits, at: 0 s, for: 2 s, run: {node: far, command: [sleep, '30']}}
- {name: four, at: 1 s, for: 6 s, run: {node: near, command: [ping, -n, -c, '4', -i, '0.3', far]}}
- {name: six, at: 1 s, for: 6 s, run: {node: near, command: [ping, -n, -c, '3', -i, '0.3', 'far']}}
";

#[test]
fn a_scenario_makes_the_machines_of_its_box_and_takes_them_away() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let name = format!("{LABS}machines");
    let file = dir.path().join("box.yaml");
    fs::write(&file, MACHINES.replace("NAME", &name)).unwrap();
    let file = file.to_str().unwrap();
    let checked = json(&constel(["check", file, "--json"]));
    assert_eq!(checked["flows"], 4, "{checked}");
    let results = dir.path().join("results");
    let start = |results: &Path| {
        Command::new(CONSTEL)
            .args(["run", file, "--results"])
            .arg(results)
            .stdin(Stdio::null())
            .stdout(fs::File::create(dir.path().join("stdout")).unwrap())
            .stderr(fs::File::create(dir.path().join("stderr")).unwrap())
            .spawn()
            .unwrap()
    };
    let said = |what: &str| fs::read_to_string(dir.path().join(what)).unwrap();
    let up = |child: &mut Child| {
        until("the box is up", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("it ended: {status}\n{}", said("stderr"));
            }
            (state_of(&name) == Some(LabState::Running)).then_some(())
        });
    };
    let mut child = start(&results);
    up(&mut child);
    let entered = constel([
        "exec", &name, "near", "--", "ip", "-o", "address", "show", "eth0",
    ]);
    let text = String::from_utf8_lossy(&entered.stdout).into_owned();
    assert!(text.contains("10.31.0.1/24"), "{text}{}", stderr(&entered));
    assert_eq!(
        constel(["exec", &name, "nobody", "--", "true"])
            .status
            .code(),
        Some(2)
    );
    let status = wait(&mut child).expect("it ends");
    assert_eq!(status.code(), Some(1), "`fails` failed: {}", said("stderr"));
    let summary: Value =
        serde_json::from_slice(&fs::read(results.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["size"]["nodes"], 2);
    let flow = |name: &str| {
        let flows = summary["flows"].as_array().unwrap();
        flows
            .iter()
            .find(|flow| flow["name"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(flow("four")["status"], "ok", "{}", flow("four"));
    assert_eq!(flow("waits")["status"], "ok", "its time was over");
    assert_eq!(flow("fails")["status"], "failed");
    assert!(
        flow("fails")["reason"]
            .as_str()
            .unwrap()
            .contains("No such file"),
        "{}",
        flow("fails")
    );
    let pinged = fs::read_to_string(results.join("flows/four.out")).unwrap();
    let times = pinged.lines().filter_map(|line| {
        let (_, time) = line.split_once("time=")?;
        time.split(' ').next()?.parse::<f64>().ok()
    });
    let times: Vec<f64> = times.collect();
    assert_eq!(times.len(), 4, "{pinged}");
    assert!(times.iter().all(|ms| *ms >= 70.0), "{times:?}");
    assert!(results.join("scenario.yaml").exists());
    host.assert_as_before("after a box of machines");

    let mut child = start(&dir.path().join("killed"));
    up(&mut child);
    rustix::process::kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    wait(&mut child);
    let cleaned = constel(["clean", &name]);
    assert!(cleaned.status.success(), "{}", stderr(&cleaned));
    host.assert_as_before("after a box of machines that was killed");
}

const SKY: &str = "constel: 1
name: NAME
duration: 20 s
box:
  machines:
  - {name: london, addresses: [10.32.0.1/24]}
  - {name: new-york, addresses: [10.32.0.2/24]}
  rules:
  - name: geo
    match: {protocol: icmp, dscp: ef}
    both: {via: {constellation: geo, orbital_slot: -27.5 deg, from: {latitude: 51.5 deg, longitude: -0.1 deg}, to: {latitude: 40.7 deg, longitude: -74 deg}}}
  - name: starlink
    match: {protocol: icmp}
    both: {via: {constellation: starlink-shell1, from: {latitude: 51.5 deg, longitude: -0.1 deg}, to: {latitude: 40.7 deg, longitude: -74 deg}, at: 2026-11-21T00:00:08Z}}
traffic:
- {name: geo, at: 1 s, for: 15 s, run: {node: london, command: [ping, -n, -Q, '184', -c, '10', -i, '0.5', new-york]}}
- {name: starlink, at: 1 s, for: 19 s, run: {node: london, command: [ping, -n, -c, '80', -i, '0.2', new-york]}}
";

/// The round trips that ping saw, milliseconds.
fn round_trips(results: &Path, flow: &str) -> Vec<f64> {
    let text = fs::read_to_string(results.join(format!("flows/{flow}.out"))).unwrap();
    let times = text.lines().filter_map(|line| {
        let (_, time) = line.split_once("time=")?;
        time.split(' ').next()?.parse::<f64>().ok()
    });
    times.collect()
}

#[test]
fn paths_of_rules_lead_through_the_sky_and_their_ends_hand_over() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let name = format!("{LABS}sky");
    let file = dir.path().join("box.yaml");
    fs::write(&file, SKY.replace("NAME", &name)).unwrap();
    let results = dir.path().join("results");
    let output = constel([
        "run",
        file.to_str().unwrap(),
        "--results",
        results.to_str().unwrap(),
    ]);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 3)), "{}", stderr(&output));
    // Up and down twice; a host with other things to do adds, and nothing is early.
    let geo = round_trips(&results, "geo");
    assert_eq!(geo.len(), 10, "{geo:?}");
    assert!(geo.iter().all(|ms| (477.0..700.0).contains(ms)), "{geo:?}");
    let leo = round_trips(&results, "starlink");
    assert!(leo.len() > 70, "{leo:?}");
    assert!(
        leo.iter().all(|ms| *ms > 2.0 * 18.5),
        "faster than light: {leo:?}"
    );
    let events = fs::read_to_string(results.join("events.ndjson")).unwrap();
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let handovers: Vec<Value> = events.filter(|event| event["kind"] == "handover").collect();
    assert!(!handovers.is_empty(), "the scheduler's slot begins at 12 s");
    for handover in &handovers {
        let end = handover["station"].as_str().unwrap();
        assert!(
            ["starlink/from", "starlink/to"].contains(&end),
            "{handover}"
        );
        let t_s = handover["t_ns"].as_u64().unwrap() as f64 / 1e9;
        // The sky begins with the rules, a moment before frames are let in.
        let in_time = [4.0, 19.0].iter().any(|slot| (t_s - slot).abs() < 0.5);
        assert!(in_time, "{handover}");
    }
    host.assert_as_before("after a box under the sky");
}
