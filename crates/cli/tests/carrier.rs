//! `links: {carrier: follows}`: interfaces lose their carrier with their link.

use crate::support;

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::host::Host;
use support::lab::Lab;
use support::{constel, json, scenario, until};

/// Whether an interface in a node has its carrier.
fn has_carrier(lab: &Lab, node: &str, port: &str) -> bool {
    let out = constel([
        "exec",
        &lab.name,
        node,
        "--",
        "cat",
        &format!("/sys/class/net/{port}/carrier"),
    ]);
    String::from_utf8_lossy(&out.stdout).trim() == "1"
}

#[test]
fn the_carrier_follows_the_link() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = scenario::small(
        dir.path(),
        "carrier.yaml",
        "{mode: computed}",
        "links: {carrier: follows}\n",
    );
    let mut lab = Lab::up("carrier", &file, dir.path(), &[]);
    let path = json(&constel(["path", &lab.name, "west", "east", "--json"]));
    let satellite = path["kernel"][0]["hops"][0]["to"]
        .as_str()
        .unwrap()
        .to_owned();
    until("the carrier", || {
        has_carrier(&lab, "west", "gsl0").then_some(())
    });
    let link = ["west", satellite.as_str()];
    json(&constel([
        "link", "fail", &lab.name, link[0], link[1], "--json",
    ]));
    until("no carrier", || {
        (!has_carrier(&lab, "west", "gsl0")).then_some(())
    });
    // The satellite's radio serves others as well.
    assert!(has_carrier(&lab, &satellite, "gsl0"));
    json(&constel([
        "link", "heal", &lab.name, link[0], link[1], "--json",
    ]));
    until("the carrier again", || {
        has_carrier(&lab, "west", "gsl0").then_some(())
    });
    // It is no change of the node's stack by its own programs.
    lab.interrupt();
    let stacks = lab.summary()["stacks"].clone();
    assert!(stacks.as_array().is_none_or(Vec::is_empty), "{stacks}");
    host.assert_as_before("after the test");
}

#[test]
fn a_daemon_notices_a_cut_laser_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let routing = "{mode: bird, ospf: {hello: 5 s, dead: 30 s}}";
    let file = scenario::small(
        dir.path(),
        "notices.yaml",
        routing,
        "links: {carrier: follows}\n",
    );
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("dead: 30 s"));
    let mut lab = Lab::up("notices", &file, dir.path(), &["--for", "55s"]);
    let path = json(&constel(["path", &lab.name, "west", "east", "--json"]));
    let hops = path["kernel"][0]["hops"].as_array().unwrap();
    let ends = |at: usize| hops[at]["to"].as_str().unwrap();
    let (a, b) = (ends(0).to_owned(), ends(1).to_owned());
    let begun = Instant::now();
    json(&constel(["link", "fail", &lab.name, &a, &b, "--json"]));
    // The dead time is 30 s.
    until("another path", || {
        // No path at all is an answer too, with an exit code of its own.
        let asked = constel(["path", &lab.name, "west", "east", "--json"]);
        let path: Value = serde_json::from_slice(&asked.stdout).unwrap();
        let own = &path["kernel"][0];
        let hops = own["hops"].as_array().unwrap();
        let cut = hops
            .iter()
            .any(|hop| hop["from"] == a.as_str() && hop["to"] == b.as_str());
        (own["arrived"] == true && !cut).then_some(())
    });
    assert!(
        begun.elapsed() < Duration::from_secs(25),
        "{:?}",
        begun.elapsed()
    );
    lab.interrupt();
}
