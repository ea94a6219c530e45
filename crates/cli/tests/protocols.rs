//! The example protocols of `scenarios/protocols` as programs in a small lab: each finds its paths from nothing, and
//! others when a link fails.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::host::Host;
use support::lab::Lab;
use support::{constel, json, scenario, until, workspace};

/// Five hosts in a ring without routes, with these programs and information.
fn ring(dir: &Path, name: &str, more: &str) -> PathBuf {
    let folder = workspace().join("scenarios/protocols");
    let host = |n: u32| format!("    r-{n}: {{latitude: 0 deg, longitude: {n} deg}}\n");
    let cable = |n: u32| {
        let far = (n + 1) % 5;
        format!("    - {{from: r-{n}, to: r-{far}, delay: 1 ms, link: {{rate: 1 Gbit/s}}}}\n")
    };
    let (hosts, cables): (String, String) =
        ((0..5).map(host).collect(), (0..5).map(cable).collect());
    let text = format!(
        "constel: 1
name: ring
seed: 1
start: 2026-11-21T00:00:00Z
duration: 1 h
step: 1 s
ground:
  hosts:
{hosts}  cables:
{cables}routing: {{mode: none, families: [ipv4]}}
mounts: [{{host: {}, at: /mnt}}]
{more}",
        folder.display()
    );
    scenario::write(dir, name, &text)
}

/// Whether a ping from one node reaches another.
fn reaches(lab: &Lab, from: &str, to: &str) -> bool {
    let ping = [
        "exec", &lab.name, from, "--", "ping", "-c", "1", "-W", "1", to,
    ];
    constel(ping).status.code() == Some(0)
}

/// Fails or heals the link in the middle of the short path.
fn link(lab: &Lab, verb: &str) {
    json(&constel(["link", verb, &lab.name, "r-1", "r-2", "--json"]));
}

/// The nodes of the path between two nodes by the kernels' tables; `None` if packets do not arrive.
fn path(lab: &Lab, from: &str, to: &str) -> Option<Vec<String>> {
    let output = constel(["path", &lab.name, from, to, "--json"]);
    let walks: Value = serde_json::from_slice(&output.stdout).ok()?;
    let walk = &walks["kernel"][0];
    let hops = walk["hops"]
        .as_array()
        .filter(|_| walk["arrived"] == true)?;
    let names = hops
        .iter()
        .map(|hop| hop["to"].as_str().unwrap().to_owned());
    Some(names.collect())
}

/// Runs a protocol whose routes are in the kernels.
fn finds_routes(name: &str, more: &str) {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let file = ring(dir.path(), &format!("{name}.yaml"), more);
    let mut lab = Lab::up(name, &file, dir.path(), &[]);
    let takes = |wanted: &[&str]| {
        let found = path(&lab, "r-0", "r-2");
        found.is_some_and(|nodes| nodes == wanted) && reaches(&lab, "r-0", "r-2")
    };
    until("a path from nothing", || {
        takes(&["r-1", "r-2"]).then_some(())
    });
    link(&lab, "fail");
    until("the other path", || {
        takes(&["r-4", "r-3", "r-2"]).then_some(())
    });
    link(&lab, "heal");
    until("the first path again", || {
        takes(&["r-1", "r-2"]).then_some(())
    });
    lab.interrupt();
    host.assert_as_before("a lab with a protocol of its own");
}

#[test]
fn a_distance_vector_finds_routes() {
    finds_routes(
        "vector",
        "traffic:\n  - {name: router, at: 0 s, for: 1 h, run: {node: 'r-*', command: [python3, /mnt/distance_vector.py]}}\n",
    );
}

#[test]
fn orbit_aware_link_state_finds_routes() {
    finds_routes(
        "opspf",
        "information: [{topology: all, ahead: 60 s}]
traffic:\n  - {name: router, at: 0 s, for: 1 h, run: {node: 'r-*', command: [python3, /mnt/opspf.py]}}\n",
    );
}

#[test]
fn lipsin_delivers_by_the_filter_in_the_frame() {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let program = |n: u32, flags: &str| {
        format!(
            "  - {{name: node-{n}, at: 0 s, for: 1 h, run: {{node: r-{n}, command: [python3, /mnt/lipsin.py{flags}]}}}}\n"
        )
    };
    let ends = program(0, ", --to, r-2") + &program(2, ", --from, r-0");
    let others: String = [1, 3, 4].map(|n| program(n, "")).concat();
    let more = format!("information: [{{topology: all}}]\ntraffic:\n{ends}{others}");
    let file = ring(dir.path(), "lipsin.yaml", &more);
    let mut lab = Lab::up("lipsin", &file, dir.path(), &[]);
    let out = lab.results.join("flows/node-2.out");
    // The last complete row: the links that the message passed.
    let links = || {
        let text = fs::read_to_string(&out).ok()?;
        let complete = &text[..=text.rfind('\n')?];
        complete
            .lines()
            .last()?
            .split(',')
            .nth(2)?
            .parse::<u32>()
            .ok()
    };
    until("the first message", || (links()? == 2).then_some(()));
    link(&lab, "fail");
    until("a message over the other links", || {
        (links()? == 3).then_some(())
    });
    lab.interrupt();
    host.assert_as_before("a lab with LIPSIN");
}
