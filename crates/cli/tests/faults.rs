//! Machines that fail: some rounds of `experiments/machines/faults`, which looks from outside at what must be so throughout.

use crate::support;

use std::process::Command;

use serde_json::Value;
use support::host::Host;
use support::{CONSTEL, finish, long, skip, stderr, workspace};

/// The script's output if a program is missing.
const SKIPPED: i32 = 77;

/// After every failure, no machine sends without the right to, no node is alive twice, labs end with a verdict, and no remains are left.
#[test]
fn whatever_fails_nothing_is_sent_without_right_and_nothing_is_left() {
    let host = Host::take();
    let mut command = Command::new(workspace().join("experiments/machines/faults"));
    command
        .args(["--for", if long() { "1h" } else { "20s" }, "--seed", "3"])
        .env("CONSTEL", CONSTEL);
    let output = finish(command);
    if output.status.code() == Some(SKIPPED) {
        skip(&stderr(&output));
        return;
    }
    let told = serde_json::from_slice(&output.stdout);
    let told: Value = told.unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
    assert_eq!(told["violations"], serde_json::json!([]), "{told:#}");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(told["heard"]["datagrams"].as_u64() > Some(0), "{told:#}");
    host.assert_as_before("after machines failed");
}
