//! Computed routes with several next hops, in real kernels: both families have them, flows are shared among them,
//! and each flow keeps to one.

use crate::support;

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};

use serde_json::Value;
use support::lab::Lab;
use support::{constel, scenario};

/// Flows sent, one packet each; and packets of the one flow sent then.
const COUNT: u64 = 64;

/// A port without a listener.
const DISCARD: u16 = 9;

fn json(args: &[&str]) -> Value {
    let out = constel(args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {said}");
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Packets that each interface of a node has sent.
fn sent(lab: &Lab, node: &str) -> BTreeMap<String, u64> {
    let table = lab
        .node(node)
        .run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap())
        .unwrap();
    let row = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let packets = numbers.split_whitespace().nth(9)?.parse().ok()?;
        Some((name.trim().to_owned(), packets))
    };
    table.lines().filter_map(row).collect()
}

/// How many packets each of these interfaces of a node sends while `f` runs.
fn sent_during(lab: &Lab, node: &str, ports: &[String], f: impl FnOnce()) -> Vec<u64> {
    let before = sent(lab, node);
    f();
    // Packets are on their way for some tens of milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let after = sent(lab, node);
    ports
        .iter()
        .map(|port| after[port] - before[port])
        .collect()
}

/// One socket, so one flow, and a number of packets.
fn send(lab: &Lab, from: &str, to: IpAddr, packets: u64) {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let sending = move || {
        let socket = UdpSocket::bind(any).unwrap();
        for _ in 0..packets {
            // "Refused" answers an earlier packet.
            let _ = socket.send_to(b"one of many", (to, DISCARD));
        }
    };
    lab.node(from).run(sending).unwrap();
}

#[test]
fn equal_paths_share_flows_and_each_flow_keeps_to_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::sky(dir.path(), 120, "0 s");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replace(
        "routing: {mode: computed}",
        "routing: {mode: computed, destinations: all, metric: hops, paths: 4}",
    );
    let file = scenario::write(dir.path(), "multipath.yaml", &text);
    let lab = Lab::up("multipath", &file, dir.path(), &["--no-traffic"]);
    let name = lab.name.as_str();

    // A satellite on the way to some node that has several next hops to it.
    let from = "ross";
    let found = lab
        .nodes()
        .into_iter()
        .filter(|to| to != from)
        .find_map(|to| {
            let path = json(&["path", name, from, &to, "--json"]);
            for family in path["kernel"].as_array().unwrap() {
                assert_eq!(family["arrived"], true, "{family:#}");
            }
            let hops = path["kernel"][0]["hops"].as_array().unwrap();
            let several = |hop: &&Value| hop["next_hops"].as_u64().unwrap() > 1;
            let at = hops.iter().skip(1).find(several)?["from"].as_str().unwrap();
            Some((to, at.to_owned(), path))
        });
    let (to, at, path) = found.expect("some way has a choice");

    let routes = json(&["routes", name, &at, "--json"]);
    for family in path["kernel"].as_array().unwrap() {
        let address: IpAddr = family["address"].as_str().unwrap().parse().unwrap();
        let route = routes["routes"].as_array().unwrap().iter();
        let mut route = route
            .filter(|route| route["to"] == to.as_str())
            .filter(|route| {
                let destination = route["destination"].as_str().unwrap();
                destination.contains(':') == address.is_ipv6()
            });
        let hops = route.next().unwrap()["hops"].as_array().unwrap();
        assert!(hops.len() > 1, "{at} to {address}: {hops:?}");
        assert!(route.next().is_none(), "one route a destination");
        let ports: Vec<String> = hops
            .iter()
            .map(|hop| hop["port"].as_str().unwrap().to_owned())
            .collect();

        let shared = sent_during(&lab, &at, &ports, || {
            for _ in 0..COUNT {
                send(&lab, from, address, 1);
            }
        });
        let least = COUNT / (4 * ports.len() as u64);
        assert!(
            shared.iter().all(|sent| *sent > least),
            "{from} to {address}: {shared:?} by {ports:?} of {at}"
        );
        let kept = sent_during(&lab, &at, &ports, || {
            send(&lab, from, address, COUNT);
        });
        let used = kept.iter().filter(|sent| **sent > COUNT / 2).count();
        let other = kept.iter().filter(|sent| **sent < COUNT / 4).count();
        assert_eq!(
            (used, other),
            (1, ports.len() - 1),
            "{from} to {address}: {kept:?} by {ports:?} of {at}"
        );
    }

    // The settings for it are those of the node's own namespace, and the run records them.
    let manifest = std::fs::read(lab.results.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    for (key, value) in [
        ("net/ipv4/fib_multipath_hash_policy", "1"),
        ("net/ipv6/fib_multipath_hash_policy", "1"),
        ("net/ipv4/ip_default_ttl", "255"),
    ] {
        let read = || constel_host::sysctl::read(key).unwrap();
        assert_eq!(lab.node(&at).run(read).unwrap(), value, "{key}");
        assert_eq!(manifest["node_settings"][key], value, "{key}");
    }
}
