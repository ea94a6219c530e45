//! Answers of any machine, and the page's statements about two hosts.

use std::process::Command;

use serde_json::Value;

use crate::together::local::{SKIPPED, local};
use crate::together::support::host::Host;
use crate::together::support::{CONSTEL, finish, skip, stderr, workspace};

/// A user with access to the store can query any node, and end the lab, from anywhere.
#[test]
fn any_machine_answers_for_any_node_and_down_ends_it_on_all() {
    let host = Host::take();
    // All of it also holds where frames are not sealed.
    let Some(told) = local(&["--ask", "1", "--down", "1", "--flag=--insecure"]) else {
        return;
    };
    let asked = told["asked"].as_array().unwrap();
    assert_eq!(asked.len(), 26 + 7, "each of two machines: {told:#}");
    let crossing: Vec<&str> = told["crossing"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_str().unwrap())
        .collect();
    for row in asked {
        let out = row["stdout"].as_str().unwrap();
        let said = row["stderr"].as_str().unwrap();
        let is_nowhere = row["args"][1]
            .as_str()
            .is_some_and(|to| to.contains("/nowhere/"));
        let is_on_terminal = row["args"][1] == "on a terminal";
        let wanted = match row["verb"].as_str().unwrap() {
            "shell" if is_on_terminal => 5,
            "shell" => 2,
            "cp" if is_nowhere => 1,
            "exec" if row["args"][0] == "nobody" => 2,
            _ => 0,
        };
        assert_eq!(row["exit"], wanted, "{row:#}");
        match row["verb"].as_str().unwrap() {
            "exec" if wanted == 0 => assert!(out.contains("2 received"), "{row:#}"),
            "exec" => assert!(said.contains("nobody")),
            "cp" if is_nowhere => assert!(said.contains("No such file"), "{row:#}"),
            "cp" => assert_eq!(out, "copied 1 entries, 2097152 bytes\n"),
            "capture" => {
                let captured: Value = serde_json::from_str(out).unwrap();
                assert_eq!(captured["frames"], 5, "{row:#}");
                assert_eq!(captured["interfaces"][0], "sydney/gsl0");
            }
            "events" => of_both(out),
            "shell" if is_on_terminal => assert!(out.contains("answer-42"), "{row:#}"),
            "shell" => assert!(said.contains("needs a terminal"), "{row:#}"),
            "path" => {
                let path: Value = serde_json::from_str(out).unwrap();
                assert_eq!(path["from"], "tokyo", "{path:#}");
            }
            "link fail" | "link heal" => {
                let set: Value = serde_json::from_str(out).unwrap();
                assert_eq!(set["edges"].as_array().unwrap().len(), 2, "{set:#}");
                assert_eq!(set["routes"]["state"], "converged", "{set:#}");
            }
            "link" if crossing.contains(&row["args"][0].as_str().unwrap()) => {
                let link: Value = serde_json::from_str(out).unwrap();
                let why = link["why"].as_str().unwrap();
                assert!(why.starts_with("down: failed by hand at"), "{link:#}");
            }
            _ => assert!(serde_json::from_str::<Value>(out).unwrap().is_object()),
        }
    }
    // From the machine that has the station or from another: what leaves it is late from then on, until that is taken away.
    let rtts = asked
        .iter()
        .filter_map(|row| rtt_ms(row["stdout"].as_str().unwrap()));
    let rtts: Vec<f64> = rtts.collect();
    let (late, in_time): (Vec<f64>, Vec<f64>) = rtts.iter().partition(|rtt| **rtt > 350.0);
    assert_eq!((late.len(), in_time.len()), (1, 4), "{rtts:?}");
    assert_eq!(told["copied"], serde_json::json!([true, true]));
    // Followed from the first question on, until the lab was down.
    let followed = &told["followed"];
    let lines = followed["stdout"].as_str().unwrap();
    assert_eq!(followed["exit"], 0, "{lines}{}", followed["stderr"]);
    of_both(lines);
    let last = lines.lines().last().map(serde_json::from_str::<Value>);
    assert_eq!(last.unwrap().unwrap()["kind"], "finished", "{lines}");
    // Both machines did all that was set by hand, each at the same lab time.
    let events = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let set: Vec<Value> = events.filter(|event| event["kind"] == "link-set").collect();
    let links: Vec<&Value> = set.iter().map(|event| &event["link"]).collect();
    let link = crossing.join("-");
    assert_eq!(links, [&*link, &*link, "tokyo/gsl0", "tokyo/gsl0"]);
    for event in set {
        assert_eq!(
            event["machines"],
            serde_json::json!(["m1", "m2"]),
            "{event:#}"
        );
    }
    for part in told["listed"].as_array().unwrap() {
        assert_eq!(part["phase"], "running", "{part:#}");
    }
    assert!(told["down_s"].as_f64().unwrap() < 20.0, "{told:#}");
    assert!(told["lab_time_s"].as_f64().unwrap() < 60.0, "{told:#}");
    assert_eq!(told["interrupted"], true);
    for part in told["parts"].as_array().unwrap() {
        assert_eq!(part["failure"], Value::Null, "{part:#}");
    }
    host.assert_as_before("after down");
}

/// The mean of what a `ping` saw.
fn rtt_ms(said: &str) -> Option<f64> {
    let (_, figures) = said.split_once("rtt min/avg/max/mdev = ")?;
    figures.split('/').nth(1)?.parse().ok()
}

/// Events of both machines, by lab time; that of the clock was noted by both, and is there once.
fn of_both(lines: &str) {
    let events = lines.lines().map(serde_json::from_str::<Value>);
    let events: Vec<Value> = events.collect::<Result<_, _>>().unwrap();
    let times: Vec<i64> = events.iter().filter_map(|e| e["t_ns"].as_i64()).collect();
    assert!(times.is_sorted() && !times.is_empty(), "{lines}");
    let of = |kind: &str| {
        events
            .iter()
            .filter(|e| e["kind"] == kind)
            .collect::<Vec<_>>()
    };
    let clock = of("clock-started");
    assert_eq!(clock.len(), 1, "{lines}");
    assert_eq!(clock[0]["machines"], serde_json::json!(["m1", "m2"]));
    assert_eq!(of("starting").len(), 2, "{lines}");
}

/// The page's statements about two hosts hold, line by line.
#[test]
fn two_hosts_in_ten_minutes_are_two_hosts() {
    let host = Host::take();
    let mut command = Command::new(workspace().join("experiments/machines/two-hosts"));
    command.args(["--for", "5s"]).env("CONSTEL", CONSTEL);
    let output = finish(command);
    if output.status.code() == Some(SKIPPED) {
        skip(&stderr(&output));
        return;
    }
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", stderr(&output));
    host.assert_as_before("after two hosts");
}
