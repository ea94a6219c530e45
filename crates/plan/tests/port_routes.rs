//! Addresses of networks' ports: a subnet for each network, and routes to members that a node has no edge to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use constel_link::PortId;
use constel_plan::{Blueprint, FailedEdges, Lab, Planner, RouteDestination, RouteRow};
use constel_routing::graph::NextHop;
use constel_scenario::{DiskFiles, parse, resolve};
use constel_topology::{NodeId, Snapshot};

fn blueprint(text: &str) -> Arc<Blueprint> {
    let parsed = parse("ports.yaml", text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &DiskFiles::beside("ports.yaml"));
    let scenario = scenario.unwrap_or_else(|e| panic!("{e}"));
    let lab = Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(Blueprint::new(lab).unwrap_or_else(|e| panic!("{e}")))
}

/// Craft in a row that hear their neighbours.
const CHAIN: &str = "constel: 1
name: chain
start: 2026-11-21T00:00:00Z
duration: 60 s
step: 1 s
spacecraft:
  craft: {orbit: {altitude: 560 km, inclination: 97.6 deg}, preset: string-of-pearls, craft: 5, size: 10 km}
networks:
  crosslink: {members: [craft-*], law: {range: 15 km}, link: {rate: 1 Mbit/s, queue: 64 KiB}}
routing: {mode: computed}
";

type Held = BTreeMap<(NodeId, PortId), Vec<NextHop>>;

fn take(held: &mut Held, rows: &[RouteRow]) {
    for row in rows {
        let RouteDestination::Port(port) = row.goal else {
            continue;
        };
        let hops: Vec<NextHop> = row.hops().collect();
        match row.set {
            true => drop(held.insert((row.node, port), hops)),
            false => assert_eq!(held.remove(&(row.node, port)), Some(hops)),
        }
    }
}

/// Routes to ports are those to their nodes, but where there is an edge to the port.
fn assert_routed(blueprint: &Blueprint, now: &Snapshot, nodes: &Held, ports: &Held) {
    let layout = &blueprint.lab.layout;
    let members = layout.network_ports(0);
    for from in members {
        for to in members.iter().filter(|to| *to != from) {
            let node = layout.port(*from).node;
            let route = ports.get(&(node, *to));
            if now.edge(*from, *to).is_some() {
                assert_eq!(route, None, "{from} hears {to}");
            } else {
                assert_eq!(route, nodes.get(&(node, *to)), "{from} to {to}");
            }
        }
    }
}

/// Routes to nodes, by their port in the network.
fn to_nodes(blueprint: &Blueprint, held: &mut Held, rows: &[RouteRow]) {
    let layout = &blueprint.lab.layout;
    for row in rows {
        let RouteDestination::Node(to) = row.goal else {
            continue;
        };
        let port = layout.ports_of(to)[0].id;
        match row.set {
            true => drop(held.insert((row.node, port), row.hops().collect())),
            false => drop(held.remove(&(row.node, port))),
        }
    }
}

#[test]
fn a_member_out_of_reach_has_a_route_to_its_ports_address() {
    let blueprint = blueprint(CHAIN);
    let layout = Arc::clone(&blueprint.lab.layout);
    let mut planner = Planner::new(Arc::clone(&blueprint));
    let mut failed = FailedEdges::default();
    let first = planner.first(&failed);
    let (mut nodes, mut ports) = (Held::new(), Held::new());
    take(&mut ports, &first.plan.routes.rows);
    to_nodes(&blueprint, &mut nodes, &first.plan.routes.rows);
    let mut now = Snapshot::clone(&first.snapshot);
    assert_routed(&blueprint, &now, &nodes, &ports);
    assert!(
        ports.len() >= 6,
        "the ends of a chain do not hear each other: {ports:?}"
    );
    planner.installed(first, &failed);

    // A link that fails by hand is no edge any more; healed, the route goes.
    let members = layout.network_ports(0);
    let cut = members
        .iter()
        .flat_map(|a| members.iter().map(move |b| (*a, *b)));
    let cut = cut
        .into_iter()
        .find(|(a, b)| now.edge(*a, *b).is_some())
        .unwrap();
    for (down, rows) in [(true, "routes come"), (false, "and go")] {
        failed.set(cut, down);
        failed.set((cut.1, cut.0), down);
        let planned = planner.within(1_000_000, &failed).expect(rows);
        take(&mut ports, &planned.plan.rows);
        to_nodes(&blueprint, &mut nodes, &planned.plan.rows);
        planner.installed_within(planned);
        now = Snapshot::clone(planner.current());
        if down {
            now.edges.retain(|e| !failed.contains((e.from, e.to)));
        }
        assert_routed(&blueprint, &now, &nodes, &ports);
    }
}

#[test]
fn each_network_is_a_subnet_of_its_own() {
    let two = "constel: 1
name: two
start: 2026-11-21T00:00:00Z
duration: 10 s
step: 1 s
ground:
  hosts:
    h: {count: 3, latitude: 0 deg, longitude: 0 deg}
networks:
  fast: {members: ['h-*'], law: {range: 10 km}, link: {rate: 10 Mbit/s}}
  slow: {members: ['h-0', 'h-2'], law: {range: 10 km}, link: {rate: 10 Mbit/s}}
routing: {mode: computed, destinations: all}
";
    let blueprint = blueprint(two);
    let layout = &blueprint.lab.layout;
    let of = |network: usize| -> Vec<String> {
        let ports = layout.network_ports(network).iter();
        let own = ports.map(|port| blueprint.addresses.port(*port).v4.unwrap());
        own.map(|(address, length)| format!("{address}/{length}"))
            .collect()
    };
    assert_eq!(of(0), ["10.96.0.1/13", "10.96.0.2/13", "10.96.0.3/13"]);
    assert_eq!(of(1), ["10.104.0.1/13", "10.104.0.2/13"]);
    // A member answers from its address in the network of the request.
    let (h0, slow) = (layout.find("h-0").unwrap().id, layout.network_ports(1));
    let beside = blueprint.addresses.beside(layout, h0, slow[1]);
    assert_eq!(beside.unwrap().to_string(), "10.104.0.1");
    let h1 = layout.find("h-1").unwrap().id;
    assert_eq!(blueprint.addresses.beside(layout, h1, slow[1]), None);

    let one = two.replace(
        "  slow: {members: ['h-0', 'h-2'], law: {range: 10 km}, link: {rate: 10 Mbit/s}}\n",
        "",
    );
    let alone = self::blueprint(&one);
    let port = alone.lab.layout.network_ports(0)[2];
    let (address, length) = alone.addresses.port(port).v4.unwrap();
    assert_eq!((address.to_string().as_str(), length), ("10.96.0.3", 12));
}

#[test]
fn too_small_a_block_is_refused_where_it_is_written() {
    let text = CHAIN.replace("craft: 5", "craft: 60").replace(
        "routing:",
        "  other: {members: [craft-*], law: {range: 15 km}, link: {rate: 1 Mbit/s}}
  third: {members: [craft-*], law: {range: 15 km}, link: {rate: 1 Mbit/s}}
  fourth: {members: [craft-*], law: {range: 15 km}, link: {rate: 1 Mbit/s}}
  fifth: {members: [craft-*], law: {range: 15 km}, link: {rate: 1 Mbit/s}}
addresses: {networks: 192.168.7.0/24}
routing:",
    );
    let parsed = parse("ports.yaml", &text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &DiskFiles::beside("ports.yaml")).unwrap();
    let refused = Lab::new(scenario).err().unwrap().to_string();
    let words = "5 networks need 320 addresses, a power of two for each; 192.168.7.0/24 has 256";
    assert!(refused.contains(words), "{refused}");
    assert!(refused.contains("addresses.networks"), "{refused}");
}

#[test]
fn programs_that_name_no_interface_send_multicast_to_the_nodes_first_network() {
    let blueprint = blueprint(CHAIN);
    let layout = &blueprint.lab.layout;
    let node = layout.port(layout.network_ports(0)[2]).node;
    let setup = blueprint.setup(node);
    assert_eq!(setup.multicast, Some(setup.ports[0].ifindex));
    // No member has IPv4 there.
    let text = CHAIN.replace("mode: computed", "mode: computed, families: [ipv6]");
    assert_eq!(self::blueprint(&text).setup(node).multicast, None);
}

/// All neighbour entries of a lab with this medium.
fn told(medium: &str) -> BTreeSet<(PortId, PortId)> {
    let text = "constel: 1
name: lan
start: 2026-11-21T00:00:00Z
duration: 10 s
step: 1 s
ground:
  hosts:
    h: {count: 3, latitude: 0 deg, longitude: 0 deg}
networks:
  lan: {members: ['h-*'], MEDIUM}
routing: {mode: computed, destinations: all}
";
    let blueprint = blueprint(&text.replace("MEDIUM", medium));
    let mut planner = Planner::new(Arc::clone(&blueprint));
    let first = planner.first(&FailedEdges::default());
    let learn = first.plan.learn.iter();
    learn.map(|own| (own.port, own.far_port)).collect()
}

#[test]
fn members_of_a_switch_ask_for_each_others_ethernet_addresses() {
    assert_eq!(told("law: {range: 10 km}, link: {rate: 1 Mbit/s}").len(), 6);
    // Any address may be behind a port of it, and move: an entry that never changes would hide that.
    assert_eq!(told("medium: switched").len(), 0);
}
