//! Labs that forward by one map: it is what forwards, in both families; traceroute sees every node; a handover with
//! draining loses nothing; and nothing of it is left after `kill -9`.

use crate::support;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use constel_host::netlink::{Batch, InstalledRoute, IpPrefix, ROUTE_PROTOCOL, Route, Socket};
use serde_json::Value;
use support::host::Host;
use support::lab::Lab;
use support::netns::loopback;
use support::probe::{Pace, echo};
use support::stream::{STREAM_BYTES, stream};
use support::{constel, json, scenario, stderr, stdout};

const FROM: &str = "hobart";
const TO: &str = "chatham";

fn by_map(dir: &Path) -> PathBuf {
    let text = std::fs::read_to_string(scenario::sky(dir, 120, "0 s")).unwrap();
    let made = text.replace(
        "routing: {mode: computed}",
        "routing: {mode: computed, forwarding: map, drain: 300 ms}",
    );
    scenario::write(dir, "by-map.yaml", &made)
}

/// In each family the address at the end and the nodes that a packet reaches on its way.
fn ways(lab: &Lab) -> Vec<(IpAddr, Vec<String>)> {
    let path = json(&constel(["path", &lab.name, FROM, TO, "--json"]));
    let way = |family: &Value| {
        assert_eq!(family["arrived"], true, "{family:#}");
        let hops = family["hops"].as_array().unwrap().iter();
        let hops = hops.map(|hop| hop["to"].as_str().unwrap().to_owned());
        let address = family["address"].as_str().unwrap().parse().unwrap();
        (address, hops.collect())
    };
    path["kernel"].as_array().unwrap().iter().map(way).collect()
}

/// All addresses of a node.
fn addresses(lab: &Lab, node: &str) -> Vec<IpAddr> {
    let all = Socket::open_in(&lab.node(node))
        .unwrap()
        .addresses()
        .unwrap();
    all.iter().map(|address| address.local.addr).collect()
}

/// The output of ping from the first node.
fn ping(lab: &Lab, flags: &[&str], to: IpAddr) -> String {
    let to = to.to_string();
    let begin = [
        "exec", &lab.name, FROM, "--", "ping", "-n", "-c", "3", "-i", "0.2", "-W", "2",
    ];
    let args = begin
        .into_iter()
        .chain(flags.iter().copied())
        .chain([to.as_str()]);
    stdout(&constel(args))
}

/// Takes Constel's routes out of a node's kernel; returns how many.
fn forget_routes(lab: &Lab, node: &str) -> usize {
    let mut socket = Socket::open_in(&lab.node(node)).unwrap();
    // Not the one for multicast, which is no host's.
    let ours =
        |route: &InstalledRoute| route.protocol == ROUTE_PROTOCOL && !route.dst.addr.is_multicast();
    let routes: Vec<_> = socket.routes().unwrap().into_iter().filter(ours).collect();
    let mut batch = Batch::new();
    for route in &routes {
        let named = Route::new(IpPrefix::host(route.dst.addr), route.target.clone());
        batch.delete_route(&named).unwrap();
    }
    socket.send(&mut batch).unwrap();
    routes.len()
}

#[test]
fn transit_goes_by_the_map_and_the_kernels_answer_for_the_rest() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let mut lab = Lab::up(
        "forwarding",
        &by_map(dir.path()),
        dir.path(),
        &["--no-traffic"],
    );
    let to = loopback(&lab.node(TO));

    // The first node hands over at 7 s of lab time.
    let pace = Pace {
        count: 2000,
        every: Duration::from_millis(5),
        patience: Duration::from_secs(1),
    };
    let samples = echo(&lab.node(FROM), to, pace);
    let lost = samples.iter().filter(|sample| sample.took_ns.is_none());
    assert_eq!(lost.count(), 0, "of {}", samples.len());

    // The first hops to live end where `constel path` says.
    for (address, hops) in ways(&lab) {
        assert!(hops.len() >= 3, "{hops:?} has no transit");
        for (ttl, node) in (1..).zip(&hops[..hops.len() - 1]) {
            let said = ping(&lab, &["-t", &ttl.to_string()], address);
            let own = addresses(&lab, node);
            let answers = own.iter().any(|own| {
                said.contains(&format!("From {own} ")) && said.to_lowercase().contains("exceeded")
            });
            assert!(
                answers,
                "hop {ttl} to {address} is {node} with {own:?}:\n{said}"
            );
        }
        // In fragments, which the kernels forward.
        let said = ping(&lab, &["-s", "4000"], address);
        assert!(said.contains(" 0% packet loss"), "{said}");
    }

    // Without any route in the satellites' kernels, packets still arrive, and their paths are known.
    let satellites = lab
        .nodes()
        .into_iter()
        .filter(|name| name.starts_with("sat"));
    let forgotten: usize = satellites.map(|node| forget_routes(&lab, &node)).sum();
    assert!(forgotten > 100, "{forgotten} routes");
    for (address, _) in ways(&lab) {
        let said = ping(&lab, &[], address);
        assert!(said.contains(" 0% packet loss"), "{said}");
        assert_eq!(
            stream(&lab, FROM, TO, address),
            STREAM_BYTES,
            "to {address}"
        );
    }

    lab.kill9();
    let cleaned = constel(["clean", &lab.name]);
    assert_eq!(cleaned.status.code(), Some(0), "{}", stderr(&cleaned));
    host.assert_as_before("after clean");
}

/// The contrast: here the tables are what forwards.
#[test]
fn without_the_map_nothing_passes_kernels_without_routes() {
    let _host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::sky(dir.path(), 120, "0 s");
    let lab = Lab::up("tables", &file, dir.path(), &["--no-traffic"]);
    let (address, hops) = ways(&lab).remove(0);
    assert!(forget_routes(&lab, &hops[0]) > 0);
    let said = ping(&lab, &[], address);
    assert!(said.contains(" 100% packet loss"), "{said}");
}
