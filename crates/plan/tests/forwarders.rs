//! Satellites that only forward: what else cannot be with them, and ways that lead where the routes of stacks do.

use crate::given;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use constel_link::transit::{AddressLocation, Flow, NeighbourRoute, Table};
use constel_plan::{Blueprint, FailedEdges, Planner, RouteDestination, StepPlan, path_addresses};
use constel_routing::graph::NextHop;
use constel_topology::NodeId;
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
    hobart: {latitude: -48 deg, longitude: 148 deg, antennas: 2}
    chatham: {latitude: -42 deg, longitude: -124 deg, antennas: 2}
    weddell: {latitude: -60 deg, longitude: -20 deg}
";
const COMPUTED: &str = "routing: {mode: computed}\n";
const ALL: &str = "routing: {mode: computed, destinations: all}\n";
const FORWARD: &str = "nodes: {satellites: {runtime: forward}}\n";

fn blueprint(rest: &str) -> Arc<Blueprint> {
    blueprint_by(COMPUTED, rest)
}

fn blueprint_by(routing: &str, rest: &str) -> Arc<Blueprint> {
    let lab = lab(&[SKY, routing, rest].concat(), &Given::default());
    Arc::new(Blueprint::new(lab.unwrap_or_else(|e| panic!("{e}"))).unwrap())
}

/// The errors of a scenario with these keys and satellites that only forward.
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
        ("routing: {mode: none}\n".to_owned(), "need computed routes"),
        (
            "routing: {mode: computed, forwarding: map}\n".to_owned(),
            "forwarding: map",
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
    let pair = format!(
        "routing: {{mode: computed, destinations: all, disjoint: {{a: {{between: [hobart, {sat}], paths: 2}}}}}}\n"
    );
    assert!(refused(&[&pair, FORWARD].concat()).contains("end of disjoint paths"));
    let stations = [COMPUTED, "nodes: {stations: {runtime: forward}}\n"].concat();
    assert!(refused(&stations).contains("cannot only forward"));
    let more = "nodes: {satellites: {runtime: forward, limits: {pids: 5}}}\n";
    assert!(refused(&[COMPUTED, more].concat()).contains("no other key"));
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

/// Two constellations, and what `overrides` say; of nodes that do not forward, the satellites.
fn with_stacks(overrides: &str) -> Result<BTreeSet<String>, String> {
    const LOW: &str = "  low:
    walker: {pattern: delta, inclination: 50 deg, satellites: 40, planes: 5, phasing: 1, altitude: 600 km}
    isl: {pattern: plus-grid, link: {rate: 1 Gbit/s}}
    gsl: {min_elevation: 5 deg, link: {rate: 1 Gbit/s}}
ground:";
    let sky = SKY.replace("ground:", LOW);
    let nodes = format!("nodes: {{satellites: {{runtime: forward}}, overrides: [{overrides}]}}\n");
    let lab = lab(&[&sky, COMPUTED, &nodes].concat(), &Given::default())?;
    let nodes = lab.layout.nodes().iter();
    let stacks = nodes.filter(|node| node.seat.is_some() && !lab.forwards(node.id));
    Ok(stacks.map(|node| node.name.clone()).collect())
}

#[test]
fn stacks_are_given_by_name_by_shell_and_by_what_is_below() {
    let all = |rest: &str| with_stacks(&format!("{{{rest}, set: {{runtime: netns}}}}")).unwrap();
    let low = all("shells: [low]");
    assert_eq!(low.len(), 40);
    assert!(low.iter().all(|name| name.starts_with("low-")), "{low:?}");
    assert_eq!(all("shells: [low, sat]").len(), 64);
    let circle = "region: {latitude: 20 deg, longitude: 30 deg, radius: 6000 km}";
    let over = all(circle);
    // Each by itself, by the haversine of what is below it.
    let lab = blueprint("").lab.clone();
    let mut positions = Vec::new();
    assert!(lab.sky.positions_itrf_m(0, &mut positions).is_empty());
    let satellites = lab.layout.nodes().iter().zip(&positions);
    let satellites = satellites.filter(|(node, _)| node.seat.is_some());
    let mut own = BTreeSet::new();
    for (node, p) in satellites {
        let (lat, lon) = ((p.z / p.length()).asin(), p.y.atan2(p.x));
        let (lat0, lon0) = (20_f64.to_radians(), 30_f64.to_radians());
        let half = |angle: f64| (angle / 2.0).sin().powi(2);
        let h = half(lat - lat0) + lat.cos() * lat0.cos() * half(lon - lon0);
        if 2.0 * h.sqrt().asin() * 6_371_008.8 <= 6_000e3 {
            own.insert(node.name.clone());
        }
    }
    let of_sat = |names: &BTreeSet<String>| -> BTreeSet<String> {
        names
            .iter()
            .filter(|name| name.starts_with("sat-"))
            .cloned()
            .collect()
    };
    assert_eq!(of_sat(&over), own);
    assert!(
        (1..24).contains(&own.len()) && over.len() > own.len(),
        "{over:?}"
    );
    let both = all(&format!("shells: [sat], {circle}"));
    assert_eq!(both, own, "all of what is said");
    let named = all(&format!("nodes: ['sat-*'], shells: [sat, low], {circle}"));
    assert_eq!(named, own);
    // The last entry that matches a node counts.
    let again = format!(
        "{{shells: [sat], set: {{runtime: netns}}}}, {{{circle}, set: {{runtime: forward}}}}"
    );
    let rest = with_stacks(&again).unwrap();
    assert_eq!(rest.len(), 24 - own.len());
    assert!(rest.is_disjoint(&own));
    // No satellite is in this region.
    let nowhere = "{shells: [low], region: {latitude: 90 deg, longitude: 0 deg, radius: 100 km}, set: {runtime: netns}}";
    let said = with_stacks(nowhere).unwrap_err();
    assert!(said.contains("no node of the lab matches this"), "{said}");
    assert!(said.contains("lab time zero"), "{said}");
    let said = with_stacks("{nodes: [osaka], shells: [low], set: {runtime: netns}}").unwrap_err();
    assert!(said.contains("osaka"), "{said}");
}

fn put(blueprint: &Blueprint, table: &Table, plan: &StepPlan) {
    let (numbers, _) = blueprint.forwarders().unwrap();
    let put = |node, goal, hops: &[NextHop]| {
        let ways: Vec<NeighbourRoute> = hops.iter().map(way).collect();
        let member = numbers.member(node).unwrap();
        table.set(member, numbers.goal(goal).unwrap(), &ways);
    };
    for row in &plan.routes.ways {
        put(
            row.node,
            RouteDestination::Node(row.destination),
            row.hop.as_slice(),
        );
    }
    for row in &plan.routes.shared_ways {
        put(row.node, row.goal, &row.hops);
    }
}

fn way(hop: &NextHop) -> NeighbourRoute {
    NeighbourRoute {
        port: hop.port,
        far_port: hop.far_port,
    }
}

#[test]
fn ways_are_the_routes_of_stacks() {
    let (most, paths) = ways_are_the_routes(COMPUTED);
    assert_eq!((most, paths), (1, 0));
}

#[test]
fn ways_that_share_packets_are_the_routes_of_stacks() {
    let (most, _) = ways_are_the_routes("routing: {mode: computed, metric: hops, paths: 4}\n");
    assert!(most > 1, "none are shared");
}

#[test]
fn ways_of_disjoint_paths_are_the_routes_of_stacks() {
    let (_, paths) = ways_are_the_routes(
        "routing: {mode: computed, disjoint: {a: {between: [hobart, chatham], paths: 2}}}\n",
    );
    assert!(paths > 10, "{paths}");
}

/// Step by step the table of forwarding nodes equals the routes for the kernels of stacks. The most ways that there were to a
/// destination, and how many there were to ends of paths.
fn ways_are_the_routes(routing: &str) -> (usize, usize) {
    let [stacks, forward] = ["", FORWARD].map(|rest| blueprint_by(routing, rest));
    let paths = path_addresses(&forward.lab).unwrap();
    let (mut most, mut of_paths) = (0, 0);
    assert!(stacks.forwarders().is_none());
    let (numbers, spec) = forward.forwarders().unwrap();
    let table = Table::new(spec).unwrap();
    let failed = FailedEdges::default();
    let mut planners = [&stacks, &forward].map(|b| Planner::new(Arc::clone(b)));
    let mut hops = HashMap::new();
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
        assert!(of_stacks.plan.routes.shared_ways.is_empty());
        assert_eq!(of_stacks.plan.edges, of_forwarders.plan.edges);
        let told = |plan: &StepPlan| [plan.routes.rows.clone(), plan.routes.paths.clone()].concat();
        for row in told(&of_stacks.plan) {
            let ways = row.hops().map(|hop| way(&hop));
            let ways = if row.set { ways.collect() } else { Vec::new() };
            hops.insert((row.node, row.goal), ways);
        }
        let rows = told(&of_forwarders.plan);
        assert!(rows.iter().all(|row| !forward.lab.forwards(row.node)));
        put(&forward, &table, &of_forwarders.plan);
        for node in layout.nodes().iter().map(|node| node.id) {
            let Some(member) = numbers.member(node) else {
                continue;
            };
            for to in layout.stations().map(|node| node.id) {
                let wanted = hops
                    .get(&(node, RouteDestination::Node(to)))
                    .cloned()
                    .unwrap_or_default();
                most = most.max(wanted.len());
                for address in forward.loopbacks(to) {
                    assert_eq!(table.ways_to(member, address), wanted, "{node} to {to}");
                }
            }
            for end in paths.ends() {
                let wanted = hops
                    .get(&(node, RouteDestination::Path(end)))
                    .cloned()
                    .unwrap_or_default();
                of_paths += wanted.len();
                let own = paths.address(end);
                for address in [IpAddr::from(own.v4), own.v6.into()] {
                    assert_eq!(table.ways_to(member, address), wanted, "{node} to {end:?}");
                }
            }
        }
        for (planner, step) in planners.iter_mut().zip(steps) {
            planner.installed(step, &failed);
        }
    }
    assert!(hops.len() > 50, "{}", hops.len());
    own_addresses(&forward, &table, &numbers);
    (most, of_paths)
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
        let place = table.place(member, address, &Flow::default());
        assert_eq!(place, AddressLocation::Own, "{address}");
    }
}
