//! Labs over two machines, each a namespace of this host with an agent of its own, and etcd beside them
//! (`experiments/machines/local`).

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use support::container;
use support::host::Host;
use support::{finish, stderr, workspace};

/// Of the whole: machines, lab and all that follows, on a host that has much else to do.
const WITHIN: Duration = Duration::from_secs(240);
/// How often a run is made that may not be trusted because the host has much else to do.
const TRIES: usize = 3;
/// What the script says without etcd.
const SKIPPED: i32 = 77;

/// Runs the script on two machines; `None` where there is no etcd.
fn local(flags: &[&str]) -> Option<Value> {
    local_on("2", flags)
}

fn local_on(machines: &str, flags: &[&str]) -> Option<Value> {
    local_of(machines, flags, None)
}

/// The same with images that are in a folder of the test.
fn local_of(machines: &str, flags: &[&str], images: Option<&Path>) -> Option<Value> {
    for _ in 0..TRIES {
        let mut command = Command::new(workspace().join("experiments/machines/local"));
        command
            .args([machines, "--flag=--name=cli-test-two"])
            .args(flags)
            .env("CONSTEL", support::CONSTEL)
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

fn ms(row: &Value, of: &str, which: &str) -> f64 {
    row[of][which]
        .as_f64()
        .unwrap_or_else(|| panic!("{of} {which}: {row:#}"))
}

/// Pings go from machine to machine in the time that the geometry says, and over a handover.
#[test]
fn pings_cross_as_the_sky_says_and_nothing_is_left() {
    let host = Host::take();
    let place = tempfile::tempdir().unwrap();
    let results = place.path().join("results");
    let sample = "--flag=--set=sample={edges: [tokyo, sydney], interfaces: [tokyo, sydney]}";
    let flags = ["--for", "12s", sample, "--results"];
    let Some(told) = local(&[&flags[..], &[results.to_str().unwrap()]].concat()) else {
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
    // What is known of the clocks may change by so much from a question to its answer.
    let clocks = told["clocks"].as_array().unwrap().iter();
    let clocks_ms = clocks.map(|row| row["clock_error_ns"].as_f64().unwrap_or(0.0) / 1e6);
    let clocks_ms = 2.0 * clocks_ms.fold(0.0, f64::max);
    for flow in flows {
        // Cut short: the scenario's flows last longer than twelve seconds.
        assert_eq!(flow["status"], "cut-short", "{flow:#}");
        assert!(ms(flow, "bound_rtt_ms", "min") > 10.0);
        let (bound, rtt) = (ms(flow, "bound_rtt_ms", "min"), ms(flow, "rtt_ms", "min"));
        // Nothing is faster than the shortest way.
        assert!(rtt >= bound - 0.05 - clocks_ms, "{clocks_ms} {flow:#}");
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
    each_was_sampled_where_it_is(&results);
    host.assert_as_before("after a lab on two machines");
}

/// Raw Ethernet is found to reach, carries frames, sealed, and leaves neither programs nor sockets; nor does a part that is killed.
#[test]
fn raw_ethernet_carries_a_lab_and_leaves_nothing() {
    let host = Host::take();
    let both = ["--for", "6s", "--flag=--between=auto", "--flag=--encrypt"];
    let Some(told) = local(&both) else {
        return;
    };
    let between = &told["between"];
    assert_eq!(between["carriage"], "ethernet", "{between:#}");
    assert_eq!(
        (&between["frame_bytes"], &between["mtu_wanted_bytes"]),
        (&1_514.into(), &1_574.into())
    );
    for flow in told["flows"].as_array().unwrap() {
        assert!(flow["loss_ratio"].as_f64().unwrap() < 0.02, "{flow:#}");
        let (path, p50) = (ms(flow, "path_rtt_ms", "max"), ms(flow, "rtt_ms", "p50"));
        assert!(p50 < path + 3.0, "{flow:#}");
    }
    assert_eq!(told["raw_sockets"], serde_json::json!([1, 1]), "{told:#}");
    host.assert_as_before("after a lab over raw Ethernet");

    let Some(told) = local(&["--kill", "part2@2", "--flag=--between=ethernet"]) else {
        return;
    };
    assert_eq!(told["trustworthy"], false, "{told:#}");
    assert_eq!(told["raw_sockets"], serde_json::json!([1, 1]), "{told:#}");
    host.assert_as_before("after a part over raw Ethernet was killed");
}

/// Iridium with OSPF, and flows whose ends are on two machines.
fn ospf(more: &[&str]) -> Option<Value> {
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

fn flow<'a>(told: &'a Value, name: &str) -> &'a Value {
    let flows = told["flows"].as_array().unwrap();
    let found = flows.iter().find(|flow| flow["flow"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {told:#}"))
}

/// Daemons of two machines make one network: lab time waits for it, and ways are found anew after a handover and a failure.
#[test]
fn routes_of_daemons_stand_on_two_machines_and_stand_again() {
    let host = Host::take();
    let Some(told) = ospf(&[]) else { return };
    assert_eq!(told["lab_time_s"], 30.0, "{told:#}");
    for part in told["parts"].as_array().unwrap() {
        assert_eq!(part["failure"], Value::Null, "{part:#}");
    }
    // Of eight stations to each other, by both machines together.
    assert_eq!(told["convergence"]["pairs"], 8 * 7, "{told:#}");
    assert!(told["convergence"]["first_s"].as_f64().unwrap() > 0.0);
    let daemons = told["daemons"].as_array().unwrap();
    for when in ["routes-stand", "end"] {
        let rows = daemons.iter().filter(|row| row["when"] == when);
        let rows: Vec<&Value> = rows.collect();
        let count = rows.iter().map(|row| row["count"].as_u64().unwrap());
        assert_eq!(count.sum::<u64>(), 74, "{daemons:#?}");
        let machines: Vec<&Value> = rows.iter().map(|row| &row["machine"]).collect();
        assert_eq!(machines, ["m1", "m2"]);
    }
    let stood = &told["stood_ms"]["lagos 9 s"];
    let stood = stood.as_f64().unwrap_or_else(|| panic!("{told:#}"));
    assert!((1.0..18_000.0).contains(&stood), "{stood}");
    let changes = told["changes"].as_array().unwrap();
    let failed = changes.iter().find(|change| change["kind"] == "failure");
    let failed = failed.unwrap_or_else(|| panic!("{told:#}"));
    assert_eq!(
        (&failed["cause"], &failed["t_ns"]),
        (&"dark".into(), &16_000_000_000_u64.into())
    );
    let stood = failed["routes_stood_after_ns"].as_u64();
    // Ways led over the satellite: its neighbours notice when it has been silent for some time.
    let stood_s = stood.unwrap_or_else(|| panic!("{told:#}")) as f64 / 1e9;
    assert!((0.2..13.0).contains(&stood_s), "{stood_s}");
    for name in ["lagos-lima", "sydney-new-york"] {
        let ping = flow(&told, name);
        assert!(ping["loss_ratio"].as_f64().unwrap() < 0.6, "{ping:#}");
        let (bound, rtt) = (ms(ping, "bound_rtt_ms", "min"), ms(ping, "rtt_ms", "min"));
        // Each way is by two clocks, of which what is known changes from question to question.
        assert!(bound > 10.0 && rtt >= bound - 1.0, "{ping:#}");
        // Nobody saw the way that it took.
        assert_eq!(
            (&ping["paths"], &ping["trustworthy"]),
            (&0.into(), &Value::Null)
        );
    }
    host.assert_as_before("after a lab with daemons on two machines");
}

/// Whatever has a server at one end and a client at the other has them on two machines, and one result.
#[test]
fn flows_of_all_kinds_go_from_machine_to_machine() {
    let host = Host::take();
    let computed = "--flag=--set=routing={mode: computed, families: [ipv4]}";
    let midnodes = "--flag=--set=transport={leotp: {satellites: 100 %}}";
    let Some(told) = ospf(&["--for", "26s", computed, midnodes]) else {
        return;
    };
    let helpers = told["transport"].as_array().unwrap();
    let midnodes = helpers
        .iter()
        .map(|row| row["nodes"].as_array().unwrap().len());
    let midnodes: Vec<usize> = midnodes.collect();
    assert!(
        midnodes.len() == 2 && midnodes.iter().sum::<usize>() == 66,
        "each satellite's on its machine: {midnodes:?}"
    );
    for (name, kind) in [
        ("tcp-tokyo-london", "iperf3-tcp"),
        ("udp-delhi-nairobi", "iperf3-udp"),
        ("download-sydney-lima", "http"),
        ("leotp-tokyo-new-york", "leotp"),
        ("reno-delhi-london", "tcp"),
    ] {
        let flow = flow(&told, name);
        let said = (flow["kind"].as_str(), flow["status"].as_str());
        assert_eq!(said, (Some(kind), Some("ok")), "{flow:#}");
        assert!(flow["throughput_bps"].as_f64().unwrap() > 1e4, "{flow:#}");
        // Clocks of two machines make no time of one way.
        assert_eq!(flow["has_owd"], false, "{flow:#}");
        if ["leotp", "tcp"].contains(&kind) {
            let bytes = |key: &str| flow[key].as_u64().unwrap_or_else(|| panic!("{flow:#}"));
            assert!(bytes("sent_bytes") >= bytes("received_bytes"), "{flow:#}");
            assert!(bytes("received_bytes") > 10_000, "{flow:#}");
        }
    }
    host.assert_as_before("after flows between two machines");
}

/// Stations are containers, and are told who they are; satellites only forward. Each is where it is placed, and packets go over both.
#[test]
fn containers_and_nodes_without_a_stack_are_on_two_machines() {
    let host = Host::take();
    let place = tempfile::tempdir().unwrap();
    container::import(place.path());
    let results = place.path().join("results");
    let flags = [
        "--for",
        "10s",
        "--flag=--set=nodes={satellites: {runtime: forward}, \
         stations: {image: box, command: [sh, -c, 'cat /run/constel/node.json; exec sleep 1000']}}",
        "--flag=--set=information=[{classes: [ground]}]",
        "--results",
        results.to_str().unwrap(),
    ];
    let Some(told) = local_of("2", &flags, Some(place.path())) else {
        return;
    };
    assert_eq!(told["flows"].as_array().unwrap().len(), 4);
    for flow in told["flows"].as_array().unwrap() {
        assert!(flow["loss_ratio"].as_f64().unwrap() < 0.02, "{flow:#}");
        let (path, p50) = (ms(flow, "path_rtt_ms", "max"), ms(flow, "rtt_ms", "p50"));
        assert!(p50 < path + 3.0, "{flow:#}");
    }
    let document =
        |path: &Path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let summary = document(&results.join("summary.json"));
    assert_eq!(summary["size"]["containers"], 14);
    let images = &document(&results.join("manifest.json"))["images"];
    assert_eq!(
        (&images[0]["name"], &images[0]["nodes"]),
        (&"box".into(), &14.into())
    );
    let counts = ["m1", "m2"].map(|machine| {
        let own = results.join("machines").join(machine);
        let nodes = std::fs::read_dir(own.join("nodes")).unwrap().flatten();
        let said = nodes.map(|node| {
            let said = document(&node.path().join("program.log"));
            assert_eq!(said["name"], node.file_name().to_str().unwrap());
            assert_eq!(said["lab"], told["lab"], "{said:#}");
        });
        // What crossed was forwarded by both.
        let forwarded = &document(&own.join("summary.json"))["relay"]["forwarded"];
        assert!(forwarded.as_u64().unwrap() > 100, "{forwarded}");
        said.count()
    });
    assert!(
        counts.iter().sum::<usize>() == 14 && !counts.contains(&0),
        "{counts:?}"
    );
    host.assert_as_before("after containers on two machines");
}

/// A radio channel lives on one machine, links in range go from one to the other; members leave and join, and delays change, on both at
/// one lab time.
#[test]
fn networks_are_on_two_machines_and_change_on_both() {
    let host = Host::take();
    let place = tempfile::tempdir().unwrap();
    let (results, square) = (
        place.path().join("results"),
        place.path().join("delays.csv"),
    );
    std::fs::write(&square, "from,to,delay_ms\na-0,b-1,150\nb-1,a-0,150\n").unwrap();
    let scenario = workspace().join("experiments/machines/networks.yaml");
    let set = format!("10 network set LAB mesh --matrix {}", square.display());
    let flags = [
        "--scenario",
        scenario.to_str().unwrap(),
        "--do",
        "3 network leave LAB mesh b-1 --json",
        "--do",
        "6 network join LAB mesh b-1 --json",
        "--do",
        &set,
        "--do",
        "14 network show LAB --json",
        "--results",
        results.to_str().unwrap(),
    ];
    let Some(told) = local(&flags) else { return };
    let did = told["did"].as_array().unwrap();
    for row in did {
        assert_eq!(row["exit"], 0, "{row:#}");
    }
    assert_eq!(did[2]["stdout"], "2 delays of mesh changed\n");
    let shared = flow(&told, "shared");
    assert!(shared["loss_ratio"].as_f64().unwrap() < 0.1, "{shared:#}");
    // It was out for some three seconds of fifteen, and then 300 ms away.
    let crossing = flow(&told, "crossing");
    let loss = crossing["loss_ratio"].as_f64().unwrap();
    assert!((0.05..0.5).contains(&loss), "{crossing:#}");
    let (least, most) = (ms(crossing, "rtt_ms", "min"), ms(crossing, "rtt_ms", "max"));
    // No later than a busy host makes it: what is set is the least that is possible then.
    let far = (15.0..30.0).contains(&least) && most >= 300.0;
    assert!(far, "{crossing:#}");
    // Both noted the same changes at the same lab times.
    let noted = ["m1", "m2"].map(|machine| {
        let file = results.join("machines").join(machine).join("events.ndjson");
        let events = std::fs::read_to_string(file).unwrap();
        let events = events
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_networks = ["member-left", "member-joined", "delays-set"].map(Value::from);
        let events = events.filter(|event| of_networks.contains(&event["kind"]));
        let noted = events.map(|event| (event["t_ns"].clone(), event["kind"].clone()));
        noted.collect::<Vec<_>>()
    });
    assert_eq!((noted[0].len(), &noted[0]), (3, &noted[1]));
    // What members of the channel did is in the summary, whichever machine that was.
    let summary = std::fs::read(results.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let sent = summary["channels"].as_array().unwrap().iter();
    let sent = sent.map(|row| row["sent"].as_u64().unwrap()).sum::<u64>();
    assert!(sent > 100, "{:#}", summary["channels"]);
    host.assert_as_before("after networks on two machines");
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
            "machine m1: it was lost, and the lab went on without its {}",
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

/// Two of three machines are killed, one after the other: their nodes begin anew on those that are left, and then on the last one. They
/// answer again, verbs find them, the lab runs to its end, and all of it is said.
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
                && reason.contains(&format!("began anew on machine {to}"))
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
    // What served there serves again, and what was to begin later has begun.
    let there = flow(&told, "there")["loss_ratio"].as_f64().unwrap();
    assert!((0.05..0.8).contains(&there), "{told:#}");
    for name in ["late", "later"] {
        let late = flow(&told, name);
        assert_eq!(late["status"], "ok", "{late:#}");
        assert!(late["loss_ratio"].as_f64().unwrap() < 0.05, "{late:#}");
    }
    host.assert_as_before("after nodes were moved");
}

/// What became of a lost machine's nodes.
struct AllMoved {
    nodes: usize,
    /// For so long they had no links.
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
    assert!((1.0..20.0).contains(&away_s), "{away_s}");
    AllMoved {
        nodes: nodes.len(),
        away_s,
    }
}

/// What was asked of a lost machine's station, and of the lab after it.
fn answers_again(again: &Value, away_s: f64) {
    for key in ["reached_s", "answers_s"] {
        let after_s = again[key].as_f64();
        let after_s = after_s.unwrap_or_else(|| panic!("{again:#}"));
        assert!((4.0..40.0).contains(&after_s), "{key}: {after_s}");
    }
    let nodes = again["nodes"].as_object().unwrap().values();
    let nodes: u64 = nodes.map(|nodes| nodes.as_u64().unwrap()).sum();
    assert_eq!(nodes, 80, "all are on those that are left: {again:#}");
    let asked = again["asked"].as_array().unwrap();
    for row in asked {
        // Whoever is lost has said nothing of its own events.
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

/// Whoever may reach the store asks about any node, and ends the lab, from anywhere.
#[test]
fn any_machine_answers_for_any_node_and_down_ends_it_on_all() {
    let host = Host::take();
    // All of it also holds where frames are sealed.
    let Some(told) = local(&["--ask", "1", "--down", "1", "--flag=--encrypt"]) else {
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
                assert_eq!(set["routes"]["state"], "stood", "{set:#}");
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
    assert_eq!(followed["exit"], 0, "{lines}");
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

/// What the page says of two hosts is so, line by line.
#[test]
fn two_hosts_in_ten_minutes_are_two_hosts() {
    let host = Host::take();
    let mut command = Command::new(workspace().join("experiments/machines/two-hosts"));
    command
        .args(["--for", "5s"])
        .env("CONSTEL", support::CONSTEL);
    let output = finish(command, WITHIN);
    if output.status.code() == Some(SKIPPED) {
        eprintln!("{}", stderr(&output));
        return;
    }
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", stderr(&output));
    host.assert_as_before("after two hosts");
}

/// Of both nodes the machine that has it wrote down what interfaces and edges counted, second by second, and the other one nothing.
fn each_was_sampled_where_it_is(results: &Path) {
    let read = |machine: &str, file: &str| {
        std::fs::read(results.join("machines").join(machine).join(file)).unwrap()
    };
    let numbers = |machine: &str, file: &str| -> Vec<u64> {
        let bytes = read(machine, file);
        let (numbers, rest) = bytes.as_chunks();
        assert_eq!(rest, [0; 0]);
        numbers
            .iter()
            .map(|bytes| u64::from_le_bytes(*bytes))
            .collect()
    };
    let (mut interfaces, mut senders) = (Vec::new(), Vec::new());
    for machine in ["m1", "m2"] {
        let index = String::from_utf8(read(machine, "interfaces/index.csv")).unwrap();
        let rows = index.lines().skip(1);
        interfaces.extend(rows.map(|row| row.split_once(',').unwrap().1.to_owned()));
        // Lab time zero, every second, and the end.
        let looks = numbers(machine, "interfaces/t_ns.i64").len();
        assert!((2..=14).contains(&looks), "{machine}: {looks}");
        let ports = String::from_utf8(read(machine, "edges/index.csv")).unwrap();
        let ports: Vec<&str> = ports.lines().skip(1).collect();
        let from = numbers(machine, "edges/from.u64");
        let delivered = numbers(machine, "edges/delivered.u64");
        assert_eq!(from.len(), delivered.len());
        let sent = from.iter().zip(&delivered).filter(|(_, count)| **count > 0);
        let mut own: Vec<String> = sent
            .map(|(port, _)| ports[*port as usize].split(',').nth(1).unwrap().to_owned())
            .collect();
        own.sort();
        own.dedup();
        senders.extend(own);
    }
    for rows in [&mut interfaces, &mut senders] {
        rows.sort();
        let all = rows.clone();
        rows.dedup();
        assert_eq!(*rows, all, "each on one machine");
    }
    assert!(
        interfaces.contains(&"tokyo,gsl0".to_owned()),
        "{interfaces:?}"
    );
    assert_eq!(senders, ["sydney", "tokyo"]);
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
