//! A lab without a constellation: stations and hosts joined by cables alone.

use std::sync::Arc;

use constel_plan::{Blueprint, Document, FailedEdges, Lab, Planner};
use constel_scenario::{DiskFiles, parse, resolve};
use constel_units::TimeSpan;

fn lab(routing: &str) -> Lab {
    let text = format!(
        "constel: 1
name: skyless
start: 2026-11-21T00:00:00Z
duration: 30 s
ground:
  stations:
    tokyo: {{latitude: 35.7 deg, longitude: 139.7 deg}}
  hosts:
    router: {{latitude: 35.7 deg, longitude: 139.7 deg}}
    server: {{latitude: 37.5 deg, longitude: 127.0 deg}}
  cables:
    - {{from: tokyo, to: router, delay: 1 ms, link: {{rate: 1 Gbit/s}}}}
    - {{from: router, to: server, delay: 9 ms, link: {{rate: 100 Mbit/s}}}}
failures:
  - {{name: fire, at: 5 s, for: 5 s, nodes: [router]}}
routing: {routing}
traffic:
  - {{name: ping, at: 2 s, for: 20 s, ping: {{from: tokyo, to: server}}}}
"
    );
    let parsed = parse("skyless.yaml", &text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &DiskFiles::beside("skyless.yaml"));
    Lab::new(scenario.unwrap_or_else(|e| panic!("{e}"))).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn cables_alone_are_planned_and_routed() {
    let lab = lab("{mode: computed}");
    let edges = |s: i64| {
        let at = TimeSpan::from_ns(s * 1_000_000_000);
        Document::at(&lab, at).unwrap().edges.len()
    };
    assert_eq!([0, 5, 9, 10].map(edges), [4, 0, 0, 4]);
    let blueprint = Arc::new(Blueprint::new(lab.clone()).unwrap());
    let layout = &blueprint.lab.layout;
    let id = |name: &str| layout.find(name).unwrap().id;
    let mut planner = Planner::new(Arc::clone(&blueprint));
    let first = planner.first(&FailedEdges::default());
    assert_eq!(first.plan.edges.len(), 4);
    let hop = |from: &str, to: &str| {
        let goal = constel_plan::RouteDestination::Node(id(to));
        let rows = first.plan.routes.rows.iter();
        let row = rows
            .into_iter()
            .find(|r| r.node == id(from) && r.goal == goal);
        layout.port(row.unwrap().hop.port).name()
    };
    assert_eq!(hop("tokyo", "server"), "eth0");
    assert_eq!(hop("server", "tokyo"), "eth0");
    assert_eq!(hop("router", "server"), "eth1");
}

#[test]
fn daemons_are_configured_without_satellites() {
    for routing in ["{daemon: bird}", "{daemon: frr}", "{mode: none}"] {
        let lab = lab(routing);
        let blueprint = Blueprint::new(lab).unwrap_or_else(|e| panic!("{routing}: {e}"));
        let Some(daemons) = blueprint.lab.scenario.routing.mode.daemons() else {
            continue;
        };
        let spec = constel_plan::daemon_spec(&blueprint.lab, daemons);
        let templates = constel_plan::daemon_templates(daemons).unwrap();
        for node in blueprint.lab.layout.nodes() {
            let contexts = constel_routing::daemons::contexts(
                &blueprint.lab.layout,
                &blueprint.addresses,
                &spec,
                None,
                node.id,
                &Default::default(),
            );
            let rendered = contexts.unwrap();
            let rendered = rendered.iter().map(|c| templates.render(c).unwrap());
            let all = rendered.collect::<String>();
            for port in blueprint.lab.layout.ports_of(node.id) {
                let cable = blueprint.lab.layout.far_port(port.id).is_some();
                assert!(!cable || all.contains(port.name()), "{routing}: {all}");
            }
        }
    }
}
