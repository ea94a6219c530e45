//! Labs over two machines, each a namespace of this host with an agent of its own, and etcd beside them
//! (`experiments/machines/local`).

mod support;

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use support::host::Host;
use support::{finish, stderr, workspace};

/// Of the whole: machines, lab and all that follows.
const WITHIN: Duration = Duration::from_secs(60);
/// What the script says without etcd.
const SKIPPED: i32 = 77;

/// Runs the script; `None` where there is no etcd.
fn local(flags: &[&str]) -> Option<Value> {
    let mut command = Command::new(workspace().join("experiments/machines/local"));
    command
        .args(["2", "--flag=--name=cli-test-two"])
        .args(flags)
        .env("CONSTEL", support::CONSTEL);
    let output = finish(command, WITHIN);
    if output.status.code() == Some(SKIPPED) {
        eprintln!("{}", stderr(&output));
        return None;
    }
    let told = serde_json::from_slice(&output.stdout);
    let told: Value = told.unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
    assert_eq!(
        output.status.code(),
        Some(0),
        "{told:#}\n{}",
        stderr(&output)
    );
    Some(told)
}

fn ms(row: &Value, of: &str, which: &str) -> f64 {
    row[of][which]
        .as_f64()
        .unwrap_or_else(|| panic!("{of} {which}: {row:#}"))
}

/// Pings go from machine to machine in the time that the geometry says, and over a handover.
#[test]
fn pings_cross_as_the_sky_says_and_nothing_is_left() {
    let host = Host::take();
    let Some(told) = local(&["--for", "12s"]) else {
        return;
    };
    assert_eq!(told["nodes"], 80, "{told:#}");
    let parts = told["parts"].as_array().unwrap();
    let nodes: Vec<u64> = parts
        .iter()
        .map(|part| part["nodes"].as_u64().unwrap())
        .collect();
    assert_eq!(nodes.iter().sum::<u64>(), 80);
    assert!(nodes.iter().all(|nodes| *nodes >= 35), "{nodes:?}");
    assert_eq!(told["lab_time_s"], 12.0);
    let handovers = told["handovers"].as_array().unwrap();
    assert!(handovers.contains(&"lagos 9 s".into()), "{handovers:?}");
    let flows = told["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 4);
    for flow in flows {
        // Cut short: the scenario's flows last longer than twelve seconds.
        assert_eq!(flow["status"], "cut-short", "{flow:#}");
        assert!(ms(flow, "bound_rtt_ms", "min") > 10.0);
        let (bound, rtt) = (ms(flow, "bound_rtt_ms", "min"), ms(flow, "rtt_ms", "min"));
        // Nothing is faster than the shortest way.
        assert!(rtt >= bound - 0.05, "{flow:#}");
        // Queues are empty: what is more than the way's delay is frames' own length at each hop, and the host's lateness.
        let (path, p50) = (ms(flow, "path_rtt_ms", "max"), ms(flow, "rtt_ms", "p50"));
        assert!(p50 < path + 3.0, "{flow:#}");
        let loss = flow["loss_ratio"].as_f64().unwrap();
        assert!(loss < 0.02, "{flow:#}");
    }
    let over = flows
        .iter()
        .find(|flow| flow["flow"] == "lagos-lima")
        .unwrap();
    assert_eq!(over["handovers"], 1);
    host.assert_as_before("after a lab on two machines");
}

/// A machine whose agent is killed ends the lab on all, and the verdict names it.
#[test]
fn an_agent_that_is_killed_ends_the_lab_and_is_named() {
    let host = Host::take();
    let Some(told) = local(&["--kill", "agent2@3"]) else {
        return;
    };
    let seconds = told["lab_time_s"].as_f64().unwrap();
    assert!((2.0..20.0).contains(&seconds), "{seconds}");
    assert_eq!(told["trustworthy"], false);
    let reasons = told["reasons"].as_array().unwrap();
    let named = reasons.iter().any(|reason| {
        let reason = reason.as_str().unwrap();
        reason.starts_with("machine m2: its agent ended or was cut off")
    });
    assert!(named, "{reasons:#?}");
    // What its part had measured was still there.
    let cleaned = told["cleaned"].as_array().unwrap();
    assert!(
        cleaned
            .iter()
            .any(|row| row.as_str().unwrap().contains("constel-part-cli-test-two"))
    );
    host.assert_as_before("after an agent was killed");
}

/// Whoever may reach the store asks about any node, and ends the lab, from anywhere.
#[test]
fn any_machine_answers_for_any_node_and_down_ends_it_on_all() {
    let host = Host::take();
    let Some(told) = local(&["--ask", "1", "--down", "8"]) else {
        return;
    };
    let asked = told["asked"].as_array().unwrap();
    assert_eq!(asked.len(), 12, "each of two machines: {told:#}");
    for row in asked {
        let wanted = if row["args"][0] == "nobody" { 2 } else { 0 };
        assert_eq!(row["exit"], wanted, "{row:#}");
        let out = row["stdout"].as_str().unwrap();
        match row["verb"].as_str().unwrap() {
            "exec" if wanted == 0 => assert!(out.contains("2 received"), "{row:#}"),
            "exec" => assert!(row["stderr"].as_str().unwrap().contains("nobody")),
            "path" => {
                let path: Value = serde_json::from_str(out).unwrap();
                assert_eq!(path["from"], "tokyo", "{path:#}");
            }
            _ => assert!(serde_json::from_str::<Value>(out).unwrap().is_object()),
        }
    }
    for part in told["listed"].as_array().unwrap() {
        assert_eq!(part["phase"], "running", "{part:#}");
    }
    assert!(told["down_s"].as_f64().unwrap() < 20.0, "{told:#}");
    assert!(told["lab_time_s"].as_f64().unwrap() < 30.0, "{told:#}");
    assert_eq!(told["interrupted"], true);
    for part in told["parts"].as_array().unwrap() {
        assert_eq!(part["failure"], Value::Null, "{part:#}");
    }
    host.assert_as_before("after down");
}
