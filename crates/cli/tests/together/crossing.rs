//! Frames of all kinds that go from machine to machine, and what is measured of them.

use std::path::Path;

use serde_json::Value;

use crate::together::local::{flow, late_ms, local, local_of, ms, ospf};
use crate::together::support::host::Host;
use crate::together::support::{container, judged, workspace};

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
    // The estimate of the clocks may change by this much from a request to its answer.
    let clocks = told["clocks"].as_array().unwrap().iter();
    let clocks_ms = clocks.map(|row| row["clock_error_ns"].as_f64().unwrap_or(0.0) / 1e6);
    let clocks_ms = 2.0 * clocks_ms.fold(0.0, f64::max);
    for flow in flows {
        // Cut short: the scenario's flows last longer than twelve seconds.
        assert_eq!(flow["status"], "cut-short", "{flow:#}");
        assert!(ms(flow, "bound_rtt_ms", "min") > 10.0);
        let (bound, rtt) = (ms(flow, "bound_rtt_ms", "min"), ms(flow, "rtt_ms", "min"));
        // No ping is faster than the shortest path.
        assert!(rtt >= bound - 0.05 - clocks_ms, "{clocks_ms} {flow:#}");
        // Queues are empty: what is more than the way's delay is frames' own length at each hop, and the host's lateness.
        let (path, p50) = (ms(flow, "path_rtt_ms", "max"), ms(flow, "rtt_ms", "p50"));
        assert!(p50 < path + late_ms(&told), "{flow:#}");
        let loss = flow["loss_ratio"].as_f64().unwrap();
        assert!(!judged(flow) || loss < 0.02, "{flow:#}");
    }
    let over = flows
        .iter()
        .find(|flow| flow["flow"] == "lagos-lima")
        .unwrap();
    assert_eq!(over["handovers"], 1);
    each_was_sampled_where_it_is(&results);
    host.assert_as_before("after a lab on two machines");
}

/// For both nodes the machine that has it recorded the counters of interfaces and edges, second by second, and the other one did not.
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

/// Beside other tests, which take the processors of both machines from it, a flow may lose more than in `pings_cross_as_the_sky_says`,
/// which has the machine to itself. Some probes arrive on any host.
fn arrives(flow: &Value) {
    let loss = flow["loss_ratio"].as_f64().unwrap();
    assert!(loss < 1.0, "{flow:#}");
    assert!(!judged(flow) || loss < 0.1, "{flow:#}");
}

/// Raw Ethernet is found to reach, carries frames, sealed, and leaves neither programs nor sockets; nor does a part that is killed.
#[test]
fn raw_ethernet_carries_a_lab_and_leaves_nothing() {
    let host = Host::take();
    let Some(told) = local(&["--for", "6s", "--flag=--between=auto"]) else {
        return;
    };
    let between = &told["between"];
    assert_eq!(between["transport"], "ethernet", "{between:#}");
    assert_eq!(
        (&between["frame_bytes"], &between["mtu_wanted_bytes"]),
        (&1_514.into(), &1_574.into())
    );
    for flow in told["flows"].as_array().unwrap() {
        arrives(flow);
        let (path, p50) = (ms(flow, "path_rtt_ms", "max"), ms(flow, "rtt_ms", "p50"));
        assert!(p50 < path + late_ms(&told), "{flow:#}");
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

/// Each flow with a server at one end and a client at the other has them on two machines, and one result.
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
        let is_judged = judged(flow);
        let least_bps = if is_judged { 1e4 } else { 0.0 };
        assert!(
            flow["throughput_bps"].as_f64().unwrap() > least_bps,
            "{flow:#}"
        );
        // Clocks of two machines make no time of one way.
        assert_eq!(flow["has_owd"], false, "{flow:#}");
        if ["leotp", "tcp"].contains(&kind) {
            let bytes = |key: &str| flow[key].as_u64().unwrap_or_else(|| panic!("{flow:#}"));
            assert!(bytes("sent_bytes") >= bytes("received_bytes"), "{flow:#}");
            let least = if is_judged { 10_000 } else { 0 };
            assert!(bytes("received_bytes") > least, "{flow:#}");
        }
    }
    host.assert_as_before("after flows between two machines");
}

/// Stations are containers, and have their own information; satellites only forward. Each is where it is placed, and packets go over both.
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
        arrives(flow);
        let (path, p50) = (ms(flow, "path_rtt_ms", "max"), ms(flow, "rtt_ms", "p50"));
        assert!(p50 < path + late_ms(&told), "{flow:#}");
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
        // Both forwarded the crossing frames.
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
    arrives(shared);
    // It was out for some seconds of fifteen, and then 300 ms away.
    let crossing = flow(&told, "crossing");
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
    // Ten probes for each second that it was out; a few are on their way when that begins.
    let at_s = |n: usize| noted[0][n].0.as_f64().unwrap() / 1e9;
    let out_s = at_s(1) - at_s(0);
    let lost = crossing["loss_ratio"].as_f64().unwrap() * crossing["sent"].as_f64().unwrap();
    assert!(lost > 0.0, "{lost} in {out_s} s: {crossing:#}");
    // Each machine moves its member and its routes when the host lets it.
    if judged(&told) && judged(crossing) {
        assert!(
            lost > 7.0 * out_s - 3.0 && lost < 10.0 * out_s + 20.0,
            "{lost} in {out_s} s: {crossing:#}"
        );
    }
    // The summary has the counters of all members of the channel, on both machines.
    let summary = std::fs::read(results.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let sent = summary["channels"].as_array().unwrap().iter();
    let sent = sent.map(|row| row["sent"].as_u64().unwrap()).sum::<u64>();
    assert!(sent > 100, "{:#}", summary["channels"]);
    host.assert_as_before("after networks on two machines");
}
