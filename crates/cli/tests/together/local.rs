//! Runs `experiments/machines/local`, and reads its output.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::host::LABS;
use crate::together::support::{CONSTEL, finish, skip, stderr, workspace};

/// The script's output without etcd.
pub(crate) const SKIPPED: i32 = 77;

/// Runs the script on two machines; `None` where there is no etcd.
pub(crate) fn local(flags: &[&str]) -> Option<Value> {
    local_on("2", flags)
}

pub(crate) fn local_on(machines: &str, flags: &[&str]) -> Option<Value> {
    local_of(machines, flags, None)
}

/// Runs it with images that are in a folder of the test.
pub(crate) fn local_of(machines: &str, flags: &[&str], images: Option<&Path>) -> Option<Value> {
    let mut command = Command::new(workspace().join("experiments/machines/local"));
    command
        .args([machines, &format!("--flag=--name={LABS}two")])
        .args(flags)
        .env("CONSTEL", CONSTEL)
        .envs(images.map(|place| ("XDG_CACHE_HOME", place)));
    let output = finish(command);
    if output.status.code() == Some(SKIPPED) {
        skip(&stderr(&output));
        return None;
    }
    let told = serde_json::from_slice(&output.stdout);
    // These tests never stop the store: only a host that gives it no processor time makes it silent.
    let is_silent = stderr(&output).contains("timeout: global");
    if output.status.code() == Some(1) && is_silent {
        skip("the store did not answer within the two seconds that a lab gives it");
        return None;
    }
    assert_eq!(
        output.status.code(),
        Some(0),
        "{told:#?}\n{}",
        stderr(&output)
    );
    Some(told.unwrap())
}

/// How much longer than its path's delay a round trip may take in this run, ms: a few frames' own lengths, and the lateness that
/// the run itself reports for each of at most 16 passages. A host that others use makes it larger, not wrong.
pub(crate) fn late_ms(told: &Value) -> f64 {
    3.0 + 16.0 * told["lateness_ms"]["p99"].as_f64().unwrap()
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
