//! The bounds of a run: the bound its scenario states, and the host's limits while it is up.

use crate::support;

use std::path::Path;

use serde_json::Value;
use support::lab::Lab;
use support::{constel, json, scenario};

const TRAFFIC: &str = "traffic:\n  - {name: ping, at: 0 s, for: 2 s, ping: {from: west, to: east, interval: 10 ms}}\n";
const BACKLOG: &str = "/proc/sys/net/core/netdev_max_backlog";

fn backlog() -> u64 {
    let text = std::fs::read_to_string(BACKLOG).unwrap();
    text.trim().parse().unwrap()
}

/// Runs under this bound. Returns the reasons against the run that concern late frames, the lateness at the 99th
/// percentile in nanoseconds, and the exit code.
fn late(dir: &Path, name: &str, bound: &str) -> (Vec<String>, u64, i32) {
    let links = format!("links: {{driver: relay, max_lateness: {bound}}}\n{TRAFFIC}");
    let file = scenario::small(dir, &format!("{name}.yaml"), "{mode: computed}", &links);
    let check = json(&constel([
        "check".as_ref(),
        file.as_os_str(),
        "--json".as_ref(),
    ]));
    let mut lab = Lab::up(name, &file, dir, &["--for", "3s"]);
    let manifest = std::fs::read(lab.results.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let status = lab.ended();
    let summary = lab.summary();
    assert_eq!(
        check["max_lateness_ns"],
        summary["bounds"]["lateness_p99_ns"]
    );
    assert_eq!(manifest["bounds"], summary["bounds"]);
    assert_eq!(
        summary["fidelity"]["frames_released"]
            .as_u64()
            .map(|n| n > 100),
        Some(true)
    );
    let reasons = summary["verdict"]["reasons"].as_array().unwrap().iter();
    let reasons = reasons.map(|reason| reason.as_str().unwrap().to_owned());
    let late = reasons
        .filter(|r| r.starts_with("frames left late"))
        .collect();
    let p99_ns = summary["fidelity"]["lateness_p99_ns"].as_u64().unwrap();
    (late, p99_ns, status.code().unwrap())
}

/// Handing a frame to the kernel takes more than a microsecond anywhere. A busy host may make frames later than 10 ms.
#[test]
fn the_bound_that_the_scenario_states_decides() {
    let dir = tempfile::tempdir().unwrap();
    let (reasons, _, code) = late(dir.path(), "bound-1us", "1 us");
    assert_eq!(code, 3, "{reasons:?}");
    assert!(reasons[0].contains("stated bound 0.001 ms"), "{reasons:?}");
    let (reasons, p99_ns, _) = late(dir.path(), "bound-10ms", "10 ms");
    assert_eq!(
        reasons.is_empty(),
        p99_ns <= 10_000_000,
        "{p99_ns}: {reasons:?}"
    );
}

/// Frames that wait for a processor have room while a lab is up, and the manifest says what was changed. (That every
/// setting is as before when the last lab is down, is what the tests of kill -9 are about.)
#[test]
fn the_queue_of_frames_for_a_processor_is_long_enough_while_a_lab_is_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(dir.path(), "backlog.yaml", "{mode: computed}", "");
    let mut lab = Lab::up("backlog", &file, dir.path(), &[]);
    assert!(backlog() >= 16_384, "{}", backlog());
    let manifest = std::fs::read(lab.results.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["host_settings"][BACKLOG]["at_least"], 16_384);
    lab.interrupt();
    let lost = lab.summary()["fidelity"]["emulator_drops"].clone();
    let causes = lost.as_array().unwrap().iter().map(|row| &row[0]);
    assert!(causes.into_iter().any(|cause| cause == "capture"), "{lost}");
}
