//! Satellites that only forward: what else cannot be with them, and ways that lead where the routes of stacks do.

mod given;

use std::net::IpAddr;
use std::sync::Arc;

use constel_plan::{Blueprint, FailedEdges, Goal, Planner, StepPlan};
use constel_topology::NodeId;
use constel_transit::{Place, Table, Way};
use given::{Given, lab};

const SKY: &str = "
step: 10 s
constellations:
  sat:
    walker: {pattern: delta, inclination: 60 deg, satellites: 24, planes: 4, phasing: 1, altitude: 1400 km}
    isl: {pattern: plus-grid, link: {rate: 1 Gbit/s}}
    gsl: {min_elevation: 5 deg, link: {rate: 1 Gbit/s}}
ground:
  stations:
    hobart: {latitude: -48 deg, longitude: 148 deg}
    chatham: {latitude: -42 deg, longitude: -124 deg}
    weddell: {latitude: -60 deg, longitude: -20 deg}
";
const COMPUTED: &str = "routing: {mode: computed}\n";
const ALL: &str = "routing: {mode: computed, destinations: all}\n";
const FORWARD: &str = "nodes: {satellites: {runtime: forward}}\n";

fn blueprint(rest: &str) -> Arc<Blueprint> {
    let lab = lab(&[SKY, COMPUTED, rest].concat(), &Given::default());
    Arc::new(Blueprint::new(lab.unwrap_or_else(|e| panic!("{e}"))).unwrap())
}

/// What is wrong with satellites that only forward and this.
fn refused(rest: &str) -> String {
    let made = lab(&[SKY, rest].concat(), &Given::default());
    made.err().unwrap_or_else(|| panic!("taken:\n{rest}"))
}

#[test]
fn what_needs_a_stack_is_refused_and_how_to_give_one_is_said() {
    let ping = |from: &str, to: &str| {
        format!("traffic: [{{name: p, at: 1 s, for: 2 s, ping: {{from: {from}, to: {to}}}}}]\n")
    };
    let sat = blueprint("").lab.layout.nodes()[7].name.clone();
    for (rest, wanted) in [
        (
            "routing: {daemon: bird, protocol: ospf}\n".to_owned(),
            "routing daemon",
        ),
        ("routing: {mode: none}\n".to_owned(), "nobody makes routes"),
        (
            "routing: {mode: computed, forwarding: map}\n".to_owned(),
            "forwarding: map",
        ),
        (
            "routing: {mode: computed, metric: hops, paths: 2}\n".to_owned(),
            "paths",
        ),
        (
            [COMPUTED, "links: {driver: edt}\n"].concat(),
            "driver `relay`",
        ),
        (
            [COMPUTED, "links: {driver: netem}\n"].concat(),
            "driver `relay`",
        ),
        ([ALL, &ping(&sat, "hobart")].concat(), "runtime: netns"),
        (
            [COMPUTED, "information: [{classes: [satellite]}]\n"].concat(),
            "`information`",
        ),
        (
            [COMPUTED, "transport: {split_tcp: {satellites: 50 %}}\n"].concat(),
            "transport.split_tcp",
        ),
    ] {
        let said = refused(&[rest.as_str(), FORWARD].concat());
        assert!(said.contains(wanted), "{wanted} is not in:\n{said}");
    }
    let stations = [COMPUTED, "nodes: {stations: {runtime: forward}}\n"].concat();
    assert!(refused(&stations).contains("cannot only forward"));
    let more = "nodes: {satellites: {runtime: forward, limits: {pids: 5}}}\n";
    assert!(refused(&[COMPUTED, more].concat()).contains("nothing else"));
    // A far end answers pings by itself.
    let towards = [SKY, ALL, FORWARD, &ping("hobart", &sat)].concat();
    assert!(lab(&towards, &Given::default()).is_ok());
    // With a stack of its own it may do all of it.
    let own = format!(
        "nodes: {{satellites: {{runtime: forward}}, overrides: [{{nodes: [{sat}], set: {{runtime: netns}}}}]}}\n"
    );
    let with_a_stack = [SKY, ALL, &own, &ping(&sat, "hobart")].concat();
    let lab = lab(&with_a_stack, &Given::default()).unwrap_or_else(|e| panic!("{e}"));
    let forwards = lab
        .layout
        .nodes()
        .iter()
        .filter(|node| lab.forwards(node.id));
    assert_eq!(forwards.count(), 23);
}

fn put(blueprint: &Blueprint, table: &Table, plan: &StepPlan) {
    let (numbers, _) = blueprint.forwarders().unwrap();
    for row in &plan.routes.ways {
        let way = row.hop.map(|hop| Way {
            port: hop.port,
            far_port: hop.far_port,
        });
        let member = numbers.member(row.node).unwrap();
        table.set(member, numbers.goal(row.destination).unwrap(), way);
    }
}

/// Step by step the table of those that forward holds what the kernels of stacks are told.
#[test]
fn ways_are_the_routes_of_stacks() {
    let (stacks, forward) = (blueprint(""), blueprint(FORWARD));
    assert!(stacks.forwarders().is_none());
    let (numbers, spec) = forward.forwarders().unwrap();
    let table = Table::new(spec).unwrap();
    let failed = FailedEdges::default();
    let mut planners = [&stacks, &forward].map(|b| Planner::new(Arc::clone(b)));
    let mut hops = std::collections::BTreeMap::new();
    let layout = &forward.lab.layout;
    for step in 0..30 {
        let steps = planners.each_mut().map(|planner| match step {
            0 => planner.first(&failed),
            _ => {
                let mut step = planner.advance();
                planner.route(&mut step, &failed);
                step
            }
        });
        let [of_stacks, of_forwarders] = &steps;
        assert!(of_stacks.plan.routes.ways.is_empty());
        assert_eq!(of_stacks.plan.edges, of_forwarders.plan.edges);
        for row in &of_stacks.plan.routes.rows {
            let Goal::Node(to) = row.goal else { continue };
            hops.insert((row.node, to), row.set.then_some(row.hop));
        }
        let rows = &of_forwarders.plan.routes.rows;
        assert!(rows.iter().all(|row| !forward.lab.forwards(row.node)));
        put(&forward, &table, &of_forwarders.plan);
        for node in layout.nodes().iter().map(|node| node.id) {
            let Some(member) = numbers.member(node) else {
                continue;
            };
            for to in layout.stations().map(|node| node.id) {
                let wanted = hops.get(&(node, to)).copied().flatten();
                let wanted = wanted.map_or(Place::Nowhere, |hop| {
                    Place::Towards(Way {
                        port: hop.port,
                        far_port: hop.far_port,
                    })
                });
                for address in forward.loopbacks(to) {
                    assert_eq!(table.place(member, address), wanted, "{node} to {to}");
                }
            }
        }
        for (planner, step) in planners.iter_mut().zip(steps) {
            planner.installed(step, &failed);
        }
    }
    assert!(hops.len() > 50, "{}", hops.len());
    own_addresses(&forward, &table, &numbers);
}

fn own_addresses(blueprint: &Blueprint, table: &Table, numbers: &constel_plan::Forwarders) {
    let node = NodeId(3);
    let member = numbers.member(node).unwrap();
    let ports = blueprint.lab.layout.ports_of(node);
    let of_ports = ports
        .iter()
        .filter_map(|p| blueprint.addresses.port(p.id).v4);
    let of_ports = of_ports.map(|(address, _)| IpAddr::from(address));
    let all: Vec<IpAddr> = blueprint
        .loopbacks(node)
        .into_iter()
        .chain(of_ports)
        .collect();
    assert!(all.len() > 4);
    for address in all {
        assert_eq!(table.place(member, address), Place::Own, "{address}");
    }
}
