//! Two operators' constellations with different policies, masks and MTUs, joined by a gateway that has a terminal for
//! each: pings pass from one operator's customer to the other's, and never through a third customer of both.

use crate::support;

use std::path::{Path, PathBuf};

use constel_host::netlink::Socket;
use serde_json::Value;
use support::host::Host;
use support::lab::Lab;
use support::{constel, json, scenario, until};

/// Eight satellites each, so high that each sees a quarter of the Earth.
fn small(dir: &Path, name: &str, routing: &str) -> PathBuf {
    let text = format!(
        "constel: 1
name: {name}
start: 2026-11-21T00:00:00Z
duration: 120 s
step: 1 s
clock: {{hold: until-routes-converge}}
constellations:
  alpha:
    walker: {{pattern: delta, inclination: 56 deg, satellites: 8, planes: 2, phasing: 1, altitude: 10000 km}}
    isl: {{pattern: plus-grid, link: {{rate: 100 Mbit/s}}}}
    gsl: {{min_elevation: 5 deg, policy: nearest, link: {{rate: 50 Mbit/s}}}}
  beta:
    walker: {{pattern: star, inclination: 87 deg, satellites: 8, planes: 2, phasing: 1, altitude: 12000 km}}
    isl: {{pattern: plus-grid, polar_cutoff: none, link: {{rate: 100 Mbit/s}}}}
    gsl: {{min_elevation: 5 deg, policy: longest-visible, handover: {{outage: 100 ms}}, link: {{rate: 50 Mbit/s, mtu: 1400 B}}}}
ground:
  stations:
    gateway: {{latitude: 48 deg, longitude: 2 deg, gateway: true, terminals: [{{constellations: [alpha]}}, {{constellations: [beta], min_elevation: 3 deg}}]}}
    both: {{latitude: 48 deg, longitude: 3 deg, terminals: [{{constellations: [alpha]}}, {{constellations: [beta]}}]}}
    a: {{latitude: 47 deg, longitude: 2 deg, terminals: [{{constellations: [alpha]}}]}}
    b: {{latitude: 49 deg, longitude: 3 deg, terminals: [{{constellations: [beta]}}]}}
routing: {{{routing}}}
traffic:
  - {{name: across, at: 1 s, for: 6 s, ping: {{from: a, to: b, interval: 200 ms, family: ipv4}}}}
  - {{name: across6, at: 1 s, for: 6 s, ping: {{from: b, to: a, interval: 200 ms, family: ipv6}}}}
  - {{name: near, at: 1 s, for: 6 s, ping: {{from: both, to: gateway, interval: 200 ms}}}}
"
    );
    scenario::write(dir, &format!("{name}.yaml"), &text)
}

fn asked(args: &[&str]) -> Value {
    json(&constel(args))
}

fn works(name: &str, routing: &str) {
    let host = Host::take();
    let dir = tempfile::tempdir().unwrap();
    let mut lab = Lab::up(name, &small(dir.path(), name, routing), dir.path(), &[]);
    let links = Socket::open_in(&lab.node("both")).unwrap().links().unwrap();
    let mtu = |name: &str| links.iter().find(|l| l.name == name).map(|l| l.mtu);
    assert_eq!(
        (mtu("gsl0"), mtu("gsl1"), mtu("gsl2")),
        (Some(1500), Some(1400), None)
    );
    // Each terminal of its own operator's; the answer has the ports.
    let plan = asked(&[
        "plan",
        "--json",
        dir.path().join(format!("{name}.yaml")).to_str().unwrap(),
    ]);
    for edge in plan["edges"].as_array().unwrap() {
        if edge["from_node"] == "both" || edge["from_node"] == "gateway" {
            let operator = if edge["from_port"] == "gsl0" {
                "alpha-"
            } else {
                "beta-"
            };
            assert!(
                edge["to_node"].as_str().unwrap().starts_with(operator),
                "{edge}"
            );
        }
    }
    for (from, to) in [("a", "b"), ("b", "a")] {
        let path = asked(&["path", &lab.name, from, to, "--json"]);
        for walked in path["kernel"].as_array().unwrap() {
            let hops = walked["hops"].as_array().unwrap();
            let passed: Vec<&str> = hops.iter().map(|h| h["from"].as_str().unwrap()).collect();
            assert!(
                passed.contains(&"gateway") && !passed.contains(&"both"),
                "{walked:#}"
            );
        }
    }
    let results = lab.results.clone();
    until("the pings are over", || {
        let events = std::fs::read_to_string(results.join("events.ndjson")).ok()?;
        (events.matches("flow-ended").count() == 3).then_some(())
    });
    lab.interrupt();
    let summary = lab.summary();
    for flow in summary["flows"].as_array().unwrap() {
        assert_eq!(flow["status"], "ok", "{flow:#}");
        let sent = flow["sent_packets"].as_f64().unwrap();
        let lost = flow["loss_ratio"].as_f64().unwrap() * sent;
        // The last may still be on its way when ping ends.
        assert!(sent >= 20.0 && lost < 1.5, "{flow:#}");
    }
    host.assert_as_before(name);
}

#[test]
fn computed_routes_lead_through_the_shared_gateway() {
    works("terminals", "mode: computed");
}

#[test]
fn bird_finds_the_shared_gateway() {
    works(
        "terminals-bird",
        "mode: bird, ospf: {hello: 1 s, dead: 4 s}",
    );
}
