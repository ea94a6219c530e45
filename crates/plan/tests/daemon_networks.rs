//! Daemon by protocol by medium by family: what converges is accepted, and configured for as many neighbours as a port can
//! have; what cannot is refused.

use constel_plan::{Lab, daemon_spec};
use constel_routing::daemons::{Served, Software, Templates, contexts};
use constel_routing::{AddressBlocks, AddressPlan};
use constel_scenario::{DiskFiles, parse, resolve};

/// The networks that join a member of the lab to others.
const MEDIA: [(&str, &str); 5] = [
    ("cables", ""),
    (
        "pair",
        "networks: {lan: {members: [a, b], law: {range: 10 km}, link: {rate: 1 Mbit/s}}}\n",
    ),
    (
        "links",
        "networks: {lan: {members: ['*'], law: {range: 10 km}, link: {rate: 1 Mbit/s}}}\n",
    ),
    (
        "shared",
        "networks: {lan: {members: ['*'], medium: shared, channel: {access: aloha}, law: {range: 10 km}, link: {rate: 1 Mbit/s}}}\n",
    ),
    (
        "switched",
        "networks: {lan: {members: ['*'], medium: switched}}\n",
    ),
];

fn text(routing: &str, networks: &str) -> String {
    format!(
        "constel: 1
name: matrix
start: 2026-11-21T00:00:00Z
duration: 30 s
ground:
  hosts:
    a: {{latitude: 0 deg, longitude: 0 deg}}
    b: {{latitude: 0 deg, longitude: 0 deg}}
    c: {{latitude: 0 deg, longitude: 0 deg}}
  cables:
    - {{from: a, to: b, delay: 1 ms, link: {{rate: 1 Gbit/s}}}}
    - {{from: b, to: c, delay: 1 ms, link: {{rate: 1 Gbit/s}}}}
{networks}routing: {routing}
"
    )
}

fn lab(text: &str) -> Result<Lab, String> {
    let parsed = parse("matrix.yaml", text).map_err(|e| e.to_string())?;
    let scenario = resolve(&parsed, &DiskFiles::beside("matrix.yaml"));
    Lab::new(scenario.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
}

/// The configurations of the three nodes.
fn configurations(lab: &Lab) -> Vec<(String, String)> {
    let routing = lab.scenario.routing.mode.daemons().unwrap();
    let spec = daemon_spec(lab, routing);
    let plan = AddressPlan::new(&lab.layout, &AddressBlocks::default()).unwrap();
    let templates = Templates::new(None).unwrap();
    let mut all = Vec::new();
    for node in lab.layout.nodes() {
        let contexts = contexts(&lab.layout, &plan, &spec, None, node.id, &Served::new());
        for context in contexts.unwrap() {
            all.push((
                context.program.to_owned(),
                templates.render(&context).unwrap(),
            ));
        }
    }
    all
}

/// The lines of an interface's part of a configuration.
fn of_port<'a>(text: &'a str, port: &str) -> Vec<&'a str> {
    let begins = |line: &&str| {
        let line = line.trim_start();
        line.starts_with(&format!("interface \"{port}\"")) || line == format!("interface {port}")
    };
    let lines = text.lines().skip_while(|line| !begins(line));
    let first = lines.clone().next();
    let rest = lines
        .skip(1)
        .take_while(|line| line.starts_with(' ') && !line.contains("interface"));
    first.into_iter().chain(rest).collect()
}

#[test]
fn daemons_find_all_neighbours_of_a_port_or_are_refused() {
    let mut accepted = 0;
    for (daemon, protocol) in [
        ("bird", "ospf"),
        ("bird", "babel"),
        ("frr", "ospf"),
        ("frr", "isis"),
    ] {
        for families in ["[ipv4]", "[ipv6]", "[ipv4, ipv6]"] {
            for (medium, networks) in MEDIA {
                let case = format!("{daemon} {protocol} {families} {medium}");
                let routing =
                    format!("{{daemon: {daemon}, protocol: {protocol}, families: {families}}}");
                let found = lab(&text(&routing, networks));
                let several = !matches!(medium, "cables" | "pair");
                let one_neighbour = daemon == "frr" && (protocol, families) != ("ospf", "[ipv4]");
                if several && one_neighbour {
                    let refused = found.err().unwrap_or_else(|| panic!("{case} is accepted"));
                    assert!(
                        refused.contains("hold one neighbour on a port"),
                        "{case}: {refused}"
                    );
                    assert!(
                        refused.contains("networks.lan.members"),
                        "{case}: {refused}"
                    );
                    continue;
                }
                let lab = found.unwrap_or_else(|e| panic!("{case}: {e}"));
                accepted += 1;
                if medium == "cables" {
                    continue;
                }
                for (program, text) in configurations(&lab) {
                    let on = of_port(&text, "net0").join("\n");
                    match (program.as_str(), protocol) {
                        // `c` is not in the network of two.
                        _ if on.is_empty() => {
                            assert!(medium == "pair" || program == "zebra", "{case}: {text}")
                        }
                        ("bird", "ospf") => {
                            assert!(on.contains("type ptmp"), "{case}: {on}");
                            assert!(on.contains("neighbors {"), "{case}: {on}");
                        }
                        ("bird", _) => assert!(on.contains("type wireless"), "{case}: {on}"),
                        ("ospfd", _) => assert!(on.contains("point-to-multipoint"), "{case}: {on}"),
                        _ => {}
                    }
                }
            }
        }
    }
    // 4 x 3 x 5, without three media of five kinds: IS-IS by any family, OSPF by FRR with IPv6.
    assert_eq!(accepted, 60 - 3 * 5);
}

#[test]
fn neighbours_are_all_other_members() {
    let routing = "{daemon: bird, families: [ipv4]}";
    let lab = lab(&text(routing, MEDIA[2].1)).unwrap();
    assert_eq!(
        daemon_spec(&lab, lab.scenario.routing.mode.daemons().unwrap()).software,
        Software::Bird
    );
    let all = configurations(&lab);
    assert!(
        of_port(&all[0].1, "net0")[0].contains("neighbors { 10.96.0.2; 10.96.0.3; }"),
        "{}",
        all[0].1
    );
    assert!(
        all[0].1.contains("stubnet 10.96.0.0/12 { hidden yes;"),
        "{}",
        all[0].1
    );
}

#[test]
fn systems_and_areas_are_kept_out_of_networks_that_they_cannot_cross() {
    let systems = "systems: {one: {asn: 65001}, two: {asn: 65002, nodes: [c]}}";
    let refused = lab(&text(&format!("{{daemon: bird, {systems}}}"), MEDIA[2].1))
        .err()
        .unwrap();
    assert!(refused.contains("are of different systems"), "{refused}");
    assert!(
        lab(&text(
            &format!("{{daemon: frr, families: [ipv4, ipv6], {systems}}}"),
            ""
        ))
        .is_ok()
    );
}
