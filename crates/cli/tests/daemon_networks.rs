//! Daemons on a network with several neighbours of each port: routes converge, and lead behind the network. Every combination of
//! daemon, protocol and medium that `check` accepts (`daemon_networks` of `plan`) runs here. Needs root, BIRD and FRR.

use crate::support;

use support::host::{Host, LABS};
use support::{constel, judged, scenario, stderr};

const MEDIA: [(&str, &str); 3] = [
    ("links", "law: {range: 10 km}, link: {rate: 1 Mbit/s}"),
    (
        "shared",
        "medium: shared, channel: {access: csma}, law: {range: 10 km}, link: {rate: 1 Mbit/s}",
    ),
    ("switched", "medium: switched"),
];

/// Runs a lab for each medium: three hosts in the network, and a fourth behind one of them, to which the others must route.
fn converges(routing: &str, families: &[&str]) {
    let host = Host::take();
    for (medium, network) in MEDIA {
        let dir = tempfile::tempdir().unwrap();
        let pings: String = families
            .iter()
            .map(|family| {
                format!(
                    "  - {{name: {family}, at: 1 s, for: 1 s, ping: {{from: a, to: d, interval: 100 ms, family: {family}}}}}\n"
                )
            })
            .collect();
        let text = format!(
            "constel: 1
name: {LABS}{medium}
start: 2026-11-21T00:00:00Z
duration: 3 s
ground:
  hosts:
    a: {{latitude: 0 deg, longitude: 0 deg}}
    b: {{latitude: 0 deg, longitude: 0 deg}}
    c: {{latitude: 0 deg, longitude: 0 deg}}
    d: {{latitude: 0 deg, longitude: 0 deg}}
  cables:
    - {{from: c, to: d, delay: 1 ms, link: {{rate: 1 Gbit/s}}}}
networks:
  lan: {{members: [a, b, c], {network}}}
routing: {{{routing}, families: [{}]}}
traffic:
{pings}",
            families.join(", ")
        );
        let file = scenario::write(dir.path(), "lab.yaml", &text);
        let results = dir.path().join("results");
        let output = constel([
            "run".as_ref(),
            file.as_os_str(),
            "--results".as_ref(),
            results.as_os_str(),
        ]);
        // 3: a busy host made frames late, which is not judged here.
        let code = output.status.code().unwrap();
        assert!(
            [0, 3].contains(&code),
            "{routing}, {medium}: {code}, {}",
            stderr(&output)
        );
        let summary = std::fs::read(results.join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
        let is_judged = judged(&summary);
        let flows = summary["flows"].as_array().unwrap();
        assert_eq!(flows.len(), families.len());
        for flow in flows {
            assert_eq!(flow["status"], "ok", "{routing}, {medium}: {flow:#}");
            let answered = 1.0 - flow["loss_ratio"].as_f64().unwrap();
            let least = if is_judged { 0.5 } else { 0.0 };
            assert!(answered > least, "{routing}, {medium}: {flow:#}");
        }
    }
    host.assert_as_before("daemons on networks");
}

#[test]
fn bird_converges_by_ospf_with_several_neighbours_on_a_port() {
    converges("daemon: bird, protocol: ospf", &["ipv4", "ipv6"]);
}

#[test]
fn bird_converges_by_babel_with_several_neighbours_on_a_port() {
    converges("daemon: bird, protocol: babel", &["ipv4", "ipv6"]);
}

#[test]
fn frr_converges_by_ospf_with_several_neighbours_on_a_port() {
    converges("daemon: frr, protocol: ospf", &["ipv4"]);
}
