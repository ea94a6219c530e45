//! Machines whose agents are killed.

use serde_json::Value;

use crate::support::host::LABS;
use crate::together::local::{flow, local, local_on};
use crate::together::support::host::Host;
use crate::together::support::judged;

/// A machine whose agent is killed ends the lab on all, and the verdict names it.
#[test]
fn an_agent_that_is_killed_ends_the_lab_and_is_named() {
    let host = Host::take();
    let Some(told) = local(&["--kill", "agent2@3"]) else {
        return;
    };
    let seconds = told["lab_time_s"].as_f64().unwrap();
    assert!((2.0..60.0).contains(&seconds), "{seconds}");
    assert_eq!(told["trustworthy"], false);
    let reasons = told["reasons"].as_array().unwrap();
    let named = reasons.iter().any(|reason| {
        let reason = reason.as_str().unwrap();
        reason.starts_with("machine m2: its agent ended or was cut off")
    });
    assert!(named, "{reasons:#?}");
    // The measurements of its worker were still there.
    let cleaned = told["cleaned"].as_array().unwrap();
    assert!(cleaned.iter().any(|row| {
        row.as_str()
            .unwrap()
            .contains(&format!("constel-part-{LABS}two"))
    }));
    host.assert_as_before("after an agent was killed");
}

/// A machine is killed, and the others go on without its nodes: all from the same step on, and the verdict names them.
#[test]
fn a_lab_goes_on_without_a_machine_that_is_killed() {
    let host = Host::take();
    // The first one: its clock was the reference of the others.
    let flags = [
        "--kill",
        "agent1@2",
        "--for",
        "25s",
        "--flag=--set=on_machine_loss=continue",
    ];
    let Some(told) = local_on("3", &flags) else {
        return;
    };
    assert_eq!(told["lab_time_s"], 25.0, "to its end: {told:#}");
    assert_eq!(
        (&told["interrupted"], &told["trustworthy"]),
        (&false.into(), &false.into())
    );
    let parts = told["parts"].as_array().unwrap();
    let lost = &parts[0]["lost"];
    let gone_s = lost["from_ns"].as_u64().unwrap() as f64 / 1e9;
    // Not before its lease was over, and well before the end.
    assert!((5.0..25.0).contains(&gone_s), "{gone_s}");
    let nodes = lost["nodes"].as_array().unwrap();
    assert_eq!(nodes.len() as u64, parts[0]["nodes"].as_u64().unwrap());
    let reasons = told["reasons"].as_array().unwrap();
    let named = reasons.iter().any(|reason| {
        let reason = reason.as_str().unwrap();
        let words = format!(
            "machine m1: it was lost, and the lab continued without its {}",
            nodes.len()
        );
        reason.starts_with(&words) && reason.contains(nodes[0].as_str().unwrap())
    });
    assert!(named, "{reasons:#?}");
    // The others say the same of it, have planned the same, and are whole.
    let differ = |reason: &Value| reason.as_str().unwrap().contains("planned different");
    assert!(!reasons.iter().any(differ), "{reasons:#?}");
    for part in &parts[1..] {
        assert_eq!(part["failure"], Value::Null, "{part:#}");
        assert_eq!(part["lost"], Value::Null, "{part:#}");
    }
    let changes = told["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:#?}");
    assert_eq!(changes[0]["cause"], "loss of machine m1");
    assert_eq!(changes[0]["t_ns"], lost["from_ns"]);
    host.assert_as_before("after a lab went on without a machine");
}

/// Two of three machines are killed, one after the other: their nodes begin again on those that are left, and then on the last one.
/// The nodes answer again, verbs find them, the lab runs to its end, and all of it is reported.
#[test]
fn nodes_of_machines_that_are_killed_begin_anew_on_the_others() {
    let host = Host::take();
    let flags = [
        "--kill",
        "agent1@2,agent2@25",
        "--again",
        "--for",
        "60s",
        "--flag=--set=on_machine_loss=move",
        // A server on the first machine that is killed, and clients that are elsewhere when their time comes.
        "--flag=--set=traffic=[{name: there, at: 1 s, for: 23 s, ping: {from: tokyo, to: nairobi, interval: 200 ms, family: ipv4}}, \
         {name: late, at: 45 s, for: 10 s, ping: {from: nairobi, to: tokyo, interval: 200 ms, family: ipv4}}, \
         {name: later, at: 46 s, for: 10 s, ping: {from: lima, to: nairobi, interval: 200 ms, family: ipv6}}]",
    ];
    let Some(told) = local_on("3", &flags) else {
        return;
    };
    assert_eq!(told["lab_time_s"], 60.0, "to its end: {told:#}");
    assert_eq!(
        (&told["interrupted"], &told["trustworthy"]),
        (&false.into(), &false.into())
    );
    let parts = told["parts"].as_array().unwrap();
    let first = all_moved(&parts[0]["lost"], &["m2", "m3"]);
    let second = all_moved(&parts[1]["lost"], &["m3"]);
    let nodes = |part: &Value| part["nodes"].as_u64().unwrap() as usize;
    assert_eq!(first.nodes, nodes(&parts[0]));
    assert!(second.nodes > nodes(&parts[1]), "with what it had taken");
    assert_eq!(parts[2]["failure"], Value::Null, "{told:#}");
    let reasons = told["reasons"].as_array().unwrap();
    for (machine, to) in [("m1", "m2"), ("m2", "m3")] {
        let named = reasons.iter().any(|reason| {
            let reason = reason.as_str().unwrap();
            reason.starts_with(&format!("machine {machine}: it was lost"))
                && reason.contains(&format!("restarted on machine {to}"))
        });
        assert!(named, "{reasons:#?}");
    }
    let changes = told["changes"].as_array().unwrap();
    let seen = changes.iter().map(|row| (&row["kind"], &row["cause"]));
    let causes = ["loss of machine m1", "loss of machine m2"].map(Value::from);
    let kinds = ["failure", "repair"].map(Value::from);
    let both = |cause| kinds.iter().map(move |kind| (kind, cause));
    let wanted: Vec<_> = causes.iter().flat_map(both).collect();
    assert_eq!(seen.collect::<Vec<_>>(), wanted);
    // A station of each answers another one's, and asks it.
    for (again, away_s) in told["again"]
        .as_array()
        .unwrap()
        .iter()
        .zip([first.away_s, second.away_s])
    {
        answers_again(again, away_s);
    }
    // Servers there serve again, and later programs have begun.
    let there = flow(&told, "there")["loss_ratio"].as_f64().unwrap();
    assert!((0.05..1.0).contains(&there), "{told:#}");
    for name in ["late", "later"] {
        let late = flow(&told, name);
        assert_eq!(late["status"], "ok", "{late:#}");
        let most_lost = if judged(late) { 0.05 } else { 1.0 };
        assert!(late["loss_ratio"].as_f64().unwrap() < most_lost, "{late:#}");
    }
    host.assert_as_before("after nodes were moved");
}

/// The fate of a lost machine's nodes.
struct AllMoved {
    nodes: usize,
    /// The time without links.
    away_s: f64,
}

/// All nodes of a lost machine are on these, from the same step on.
fn all_moved(lost: &Value, to: &[&str]) -> AllMoved {
    let nodes = lost["nodes"].as_array().unwrap();
    let moved = lost["moved"].as_array().unwrap();
    let takers: Vec<&Value> = moved.iter().map(|row| &row["to"]).collect();
    assert_eq!(takers, to, "{lost:#}");
    let mut back: Vec<&Value> = Vec::new();
    for row in moved {
        assert_eq!(row["from_ns"], moved[0]["from_ns"]);
        back.extend(row["nodes"].as_array().unwrap());
    }
    assert_eq!(back.len(), nodes.len(), "{lost:#}");
    assert!(nodes.iter().all(|node| back.contains(&node)));
    let from = [&lost["from_ns"], &moved[0]["from_ns"]].map(|ns| ns.as_u64().unwrap());
    let away_s = (from[1] - from[0]) as f64 / 1e9;
    assert!(away_s >= 1.0, "{away_s}");
    AllMoved {
        nodes: nodes.len(),
        away_s,
    }
}

/// Checks the answers of a lost machine's station, and of the lab after it.
fn answers_again(again: &Value, away_s: f64) {
    for key in ["reached_s", "answers_s"] {
        let after_s = again[key].as_f64();
        let after_s = after_s.unwrap_or_else(|| panic!("{again:#}"));
        assert!(after_s >= 4.0, "{key}: {after_s}");
    }
    let nodes = again["nodes"].as_object().unwrap().values();
    let nodes: u64 = nodes.map(|nodes| nodes.as_u64().unwrap()).sum();
    assert_eq!(nodes, 80, "all are on those that are left: {again:#}");
    let asked = again["asked"].as_array().unwrap();
    for row in asked {
        // A lost machine has not reported its own events.
        let wanted = i32::from(row["verb"] == "events");
        assert_eq!(row["exit"], wanted, "{row:#}");
    }
    let path: Value = serde_json::from_str(asked[0]["stdout"].as_str().unwrap()).unwrap();
    assert_eq!(path["kernel"][0]["arrived"], true, "{path:#}");
    let lines = asked[2]["stdout"].as_str().unwrap().lines();
    let events = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let from = |event: &Value| event["kind"] == "nodes-moved" && event["from"] == again["machine"];
    let events: Vec<Value> = events.filter(from).collect();
    assert!(!events.is_empty(), "{again:#}");
    for event in events {
        assert_eq!(event["away_s"], away_s, "{event:#}");
    }
}
