//! Runs `experiments/machines/local`, and reads what it tells.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::together::support::{CONSTEL, finish, stderr, workspace};

/// Of the whole: machines, lab and all that follows, on a host that has much else to do.
pub(crate) const WITHIN: Duration = Duration::from_secs(240);
/// How often a run is made that may not be trusted because the host has much else to do.
const TRIES: usize = 3;
/// What the script says without etcd.
pub(crate) const SKIPPED: i32 = 77;

/// Runs the script on two machines; `None` where there is no etcd.
pub(crate) fn local(flags: &[&str]) -> Option<Value> {
    local_on("2", flags)
}

pub(crate) fn local_on(machines: &str, flags: &[&str]) -> Option<Value> {
    local_of(machines, flags, None)
}

/// The same with images that are in a folder of the test.
pub(crate) fn local_of(machines: &str, flags: &[&str], images: Option<&Path>) -> Option<Value> {
    for _ in 0..TRIES {
        let mut command = Command::new(workspace().join("experiments/machines/local"));
        command
            .args([machines, "--flag=--name=cli-test-two"])
            .args(flags)
            .env("CONSTEL", CONSTEL)
            .envs(images.map(|place| ("XDG_CACHE_HOME", place)));
        let output = finish(command, WITHIN);
        let told = serde_json::from_slice(&output.stdout);
        match output.status.code() {
            Some(0) => return Some(told.unwrap()),
            Some(SKIPPED) => {
                eprintln!("{}", stderr(&output));
                return None;
            }
            Some(3) => eprintln!("not trusted, again: {}", stderr(&output)),
            _ => panic!("{told:#?}\n{}", stderr(&output)),
        }
    }
    panic!("this host does not keep up: {TRIES} runs and none to be trusted");
}

pub(crate) fn ms(row: &Value, of: &str, which: &str) -> f64 {
    row[of][which]
        .as_f64()
        .unwrap_or_else(|| panic!("{of} {which}: {row:#}"))
}

/// Iridium with OSPF, and flows whose ends are on two machines.
pub(crate) fn ospf(more: &[&str]) -> Option<Value> {
    let pins = [
        "tokyo=m1",
        "lagos=m1",
        "sydney=m1",
        "delhi=m1",
        "london=m2",
        "lima=m2",
        "nairobi=m2",
        "new-york=m2",
    ];
    let pins: Vec<String> = pins
        .iter()
        .map(|pin| format!("--flag=--pin={pin}"))
        .collect();
    let scenario = workspace().join("experiments/machines/ospf.yaml");
    let mut flags = vec!["--scenario", scenario.to_str().unwrap()];
    flags.extend(pins.iter().map(String::as_str));
    flags.extend(more);
    local(&flags)
}

pub(crate) fn flow<'a>(told: &'a Value, name: &str) -> &'a Value {
    let flows = told["flows"].as_array().unwrap();
    let found = flows.iter().find(|flow| flow["flow"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {told:#}"))
}
