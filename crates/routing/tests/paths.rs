//! Addresses, trees, changes and walks over real constellations.

use crate::common;

use common::{cities, iridium, shell1};
use constel_routing::{
    AddressBlocks, AddressPlan, Graph, GroundTransit, Route, RouteChange, Routes, Scratch, Table,
    UNREACHABLE, Via, WalkEnd, walk, walk_at, walk_until,
};
use constel_topology::{Edge, GSL, Layout, NodeId, STATION, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

fn stations(layout: &Layout) -> Vec<NodeId> {
    layout
        .nodes()
        .iter()
        .filter(|n| n.class == &STATION)
        .map(|n| n.id)
        .collect()
}

/// Kernel tables as a runtime that applies changes would hold them.
#[derive(Default, Clone)]
struct Kernels(BTreeMap<(NodeId, NodeId), Via>);

impl Kernels {
    fn apply(&mut self, change: &RouteChange) {
        let key = (change.node, change.destination);
        let had = match change.via {
            Some(via) => self.0.insert(key, via),
            None => self.0.remove(&key),
        };
        assert_eq!(had.is_some(), change.had, "{change:?}");
    }

    fn tables(&self, layout: &Layout, plan: &AddressPlan) -> Vec<Table> {
        let mut routes: Vec<Vec<Route>> = vec![Vec::new(); layout.nodes().len()];
        for ((node, destination), via) in &self.0 {
            let to = plan.loopback(*destination);
            let both: [(IpAddr, u8, IpAddr); 2] = [
                (to.v4.into(), 32, via.gateway_v4.into()),
                (to.v6.into(), 128, via.gateway_v6.into()),
            ];
            for (prefix, prefix_len, gateway) in both {
                routes[node.index()].push(Route {
                    prefix,
                    prefix_len,
                    port: via.port,
                    gateway: Some(gateway),
                    metric: 0,
                    choices: 1,
                });
            }
        }
        routes.into_iter().map(Table::new).collect()
    }
}

/// Bellman and Ford's plain way, as the oracle: repeat until nothing gets shorter.
fn oracle(layout: &Layout, snapshot: &Snapshot, destination: NodeId) -> Vec<u64> {
    let mut d = vec![UNREACHABLE; layout.nodes().len()];
    d[destination.index()] = 0;
    loop {
        let mut better = false;
        for e in &snapshot.edges {
            let (a, b) = (layout.port(e.from).node, layout.port(e.to).node);
            let passes = b == destination || layout.node(b).class.flies;
            if passes && d[b.index()] != UNREACHABLE {
                let through = d[b.index()] + e.impairment.delay.delay_ns;
                if through < d[a.index()] {
                    d[a.index()] = through;
                    better = true;
                }
            }
        }
        if !better {
            return d;
        }
    }
}

#[test]
fn distances_are_the_shortest_and_paths_add_up_to_them() {
    let mut stepper = iridium(cities());
    let layout = stepper.layout().clone();
    for step in [0, 300, 900] {
        let snapshot = stepper.at_step(step);
        let graph = Graph::new(&layout, &snapshot, GroundTransit::Never);
        let mut scratch = Scratch::default();
        for &to in &stations(&layout) {
            let tree = graph.tree(to, &mut scratch);
            assert_eq!(tree.distance_ns, oracle(&layout, &snapshot, to));
            for from in layout.nodes() {
                let path = graph.path(&tree, from.id).expect("iridium is connected");
                assert_eq!(
                    path.iter().map(|h| h.delay_ns).sum::<u64>(),
                    tree.distance_ns[from.id.index()]
                );
                for h in path.iter().skip(1) {
                    assert_eq!(
                        layout.node(h.from).class,
                        &constel_topology::SATELLITE,
                        "transit through the ground"
                    );
                }
            }
        }
        let ground = stations(&layout);
        let pairs = graph.all_pairs_ns(&ground);
        for (i, row) in pairs.iter().enumerate() {
            assert_eq!(row[i], 0);
            for (j, d) in row.iter().enumerate() {
                assert_eq!(*d, pairs[j][i], "delays are the same both ways");
            }
        }
    }
}

#[test]
fn the_ground_forwards_only_when_asked() {
    // sat-0-0 - london - sat-0-1 - tokyo: by hand, since a station of the stepper has one satellite at a time.
    let mut stepper = iridium(cities());
    let layout = stepper.layout().clone();
    let mut snapshot = stepper.advance();
    let id = |name| layout.find(name).unwrap().id;
    let model = *snapshot.edges.iter().find(|e| e.class == &GSL).unwrap();
    let ends = [
        ("sat-0-0", "london"),
        ("london", "sat-0-1"),
        ("sat-0-1", "tokyo"),
    ];
    snapshot.edges = ends
        .iter()
        .flat_map(|(a, b)| [(a, b), (b, a)])
        .map(|(a, b)| {
            let (from, to) = (layout.gsl_port(id(a)), layout.gsl_port(id(b)));
            Edge { from, to, ..model }
        })
        .collect();
    snapshot.edges.sort_by_key(|e| (e.from, e.to));
    let hops = |from, transit| {
        let graph = Graph::new(&layout, &snapshot, transit);
        let tree = graph.tree(id("tokyo"), &mut Scratch::default());
        graph.path(&tree, id(from)).map(|p| p.len())
    };
    assert_eq!(hops("sat-0-0", GroundTransit::Allowed), Some(3));
    assert_eq!(hops("sat-0-0", GroundTransit::Never), None);
    assert_eq!(
        hops("london", GroundTransit::Never),
        Some(2),
        "first and last hops are fine"
    );
}

#[test]
fn changes_are_minimal_and_give_the_new_routes() {
    let mut stepper = iridium(cities());
    let layout = stepper.layout().clone();
    let plan = AddressPlan::new(&layout, &AddressBlocks::default()).unwrap();
    let ground = stations(&layout);
    let mut kernels = Kernels::default();
    let mut before = Routes::default();
    let mut changed = 0;
    for step in 0..400 {
        let snapshot = stepper.advance();
        let after = Routes::compute(
            &Graph::new(&layout, &snapshot, GroundTransit::Never),
            &ground,
        );
        let changes = after.changes_from(&before, &plan);
        for c in &changes {
            kernels.apply(c);
            assert_ne!(
                before.next_hop(c.node, c.destination),
                after.next_hop(c.node, c.destination)
            );
        }
        for node in layout.nodes() {
            for &to in &ground {
                let have = kernels.0.get(&(node.id, to)).map(|v| (v.port, v.far_port));
                assert_eq!(
                    have,
                    after.next_hop(node.id, to).map(|h| (h.port, h.far_port))
                );
            }
        }
        if step > 0 {
            changed += changes.len();
        }
        before = after;
    }
    assert!(changed > 100, "nothing ever moved: {changed}");
    // Without destinations all routes are gone.
    for c in Routes::default().changes_from(&before, &plan) {
        kernels.apply(&c);
    }
    assert!(kernels.0.is_empty());
}

#[test]
fn applying_changes_one_by_one_never_makes_a_loop() {
    let mut stepper = iridium(cities());
    let layout = stepper.layout().clone();
    let plan = AddressPlan::new(&layout, &AddressBlocks::default()).unwrap();
    let ground = stations(&layout);
    let routes =
        |s: &Snapshot| Routes::compute(&Graph::new(&layout, s, GroundTransit::Never), &ground);
    // Far apart, so that much changes at once.
    let mut before = routes(&stepper.at_step(0));
    for step in [200, 500, 1000, 3000] {
        let after = routes(&stepper.at_step(step));
        let mut next: BTreeMap<(NodeId, NodeId), NodeId> = BTreeMap::new();
        for node in layout.nodes() {
            for &to in &ground {
                if let Some(h) = before.next_hop(node.id, to) {
                    next.insert((node.id, to), layout.port(h.far_port).node);
                }
            }
        }
        let changes = after.changes_from(&before, &plan);
        assert!(changes.len() > 20);
        for c in &changes {
            match c.via {
                Some(v) => next.insert((c.node, c.destination), layout.port(v.far_port).node),
                None => next.remove(&(c.node, c.destination)),
            };
            for node in layout.nodes() {
                let (mut at, mut seen) = (node.id, BTreeSet::new());
                while let Some(n) = next.get(&(at, c.destination)) {
                    assert!(seen.insert(at), "loop at {at} towards {}", c.destination);
                    at = *n;
                }
            }
        }
        before = after;
    }
}

#[test]
fn walks_follow_kernel_tables() {
    let mut stepper = iridium(cities());
    let layout = stepper.layout().clone();
    let plan = AddressPlan::new(&layout, &AddressBlocks::default()).unwrap();
    let ground = stations(&layout);
    let snapshot = stepper.advance();
    let routes = Routes::compute(
        &Graph::new(&layout, &snapshot, GroundTransit::Never),
        &ground,
    );
    let mut kernels = Kernels::default();
    for c in routes.changes_from(&Routes::default(), &plan) {
        kernels.apply(&c);
    }
    let tables = kernels.tables(&layout, &plan);
    let go =
        |tables: &[Table], a: NodeId, to: IpAddr| walk(&layout, &snapshot, &plan, tables, a, to);
    for &a in &ground {
        for &b in &ground {
            let own = plan.loopback(b);
            for to in [IpAddr::from(own.v4), IpAddr::from(own.v6)] {
                let walked = go(&tables, a, to);
                assert!(walked.arrived(), "{walked:?}");
                assert_eq!(Some(walked.delay_ns()), routes.cost(a, b));
            }
        }
    }
    // Many walks to one destination ask each node on the way once, and arrive as each by itself.
    for &b in &ground {
        let to = IpAddr::from(plan.loopback(b).v4);
        let (mut sure, mut asked) = (BTreeSet::new(), BTreeMap::new());
        for &a in ground.iter().filter(|a| **a != b) {
            let route = |at: NodeId| {
                *asked.entry(at).or_insert(0) += 1;
                Ok::<_, ()>(tables[at.index()].lookup(to).copied())
            };
            let known = |at: NodeId| sure.contains(&at);
            let (ends, t_ns) = ((a, to), snapshot.t_ns);
            let walked = walk_until(&layout, &snapshot, &plan, ends, t_ns, known, route).unwrap();
            assert!(walked.arrived(), "{walked:?}");
            sure.extend(walked.hops.iter().skip(1).map(|hop| hop.from));
        }
        assert!(asked.values().all(|times| *times == 1), "{asked:?}");
        assert!(asked.len() > ground.len());
    }
    // The possible errors, each with its place.
    let (a, b) = (ground[0], ground[1]);
    let to = IpAddr::from(plan.loopback(b).v4);
    let path = go(&tables, a, to).hops;
    let mut cut = tables.clone();
    cut[path[1].from.index()] = Table::default();
    assert_eq!(go(&cut, a, to).end, WalkEnd::NoRoute(path[1].from));
    let mut back = kernels.clone();
    let via = kernels.0[&(path[1].from, b)];
    let aft = snapshot.edge(path[0].far_port, path[0].port).unwrap();
    let far = plan.port(aft.to);
    let wrong = Via {
        port: aft.from,
        far_port: aft.to,
        gateway_v4: far.v4.unwrap().0,
        gateway_v6: far.v6_link_local,
    };
    back.0.insert((path[1].from, b), wrong);
    assert_eq!(
        go(&back.tables(&layout, &plan), a, to).end,
        WalkEnd::Loop(a)
    );
    let mut gone = snapshot.clone();
    gone.edges
        .retain(|e| (e.from, e.to) != (via.port, via.far_port));
    let walked = walk(&layout, &gone, &plan, &tables, a, to);
    assert_eq!(walked.end, WalkEnd::NoEdge(via.port, via.far_port));
    let mut dark = snapshot.clone();
    for e in &mut dark.edges {
        if e.from == path[0].port {
            e.impairment.up_from_ns = dark.t_ns + 1;
        }
    }
    let walked = walk(&layout, &dark, &plan, &tables, a, to);
    let no_edge = WalkEnd::NoEdge(path[0].port, path[0].far_port);
    assert_eq!(walked.end, no_edge);
    // A moment later it is up, and the delays have glided on.
    let later = dark.t_ns + 500_000_000;
    let walked = walk_at(&layout, &dark, &plan, &tables, a, to, later);
    assert!(walked.arrived());
    let glided: u64 = path
        .iter()
        .map(|h| {
            snapshot
                .edge(h.port, h.far_port)
                .unwrap()
                .impairment
                .delay
                .at(later)
        })
        .sum();
    assert_eq!(walked.delay_ns(), glided);
    assert_ne!(Some(glided), routes.cost(a, b));
}

#[test]
fn routes_use_an_edge_whose_outage_ends_within_the_step() {
    let mut stepper = iridium(cities());
    let layout = stepper.layout().clone();
    let mut snapshot = stepper.at_step(7);
    let (station, step_ns) = (stations(&layout)[0], layout.spec().step_ns);
    let port = layout.gsl_port(station);
    let mut reached = |outage_ns: u64| {
        for e in snapshot
            .edges
            .iter_mut()
            .filter(|e| e.from == port || e.to == port)
        {
            e.impairment.up_from_ns = snapshot.t_ns + outage_ns;
        }
        let graph = Graph::new(&layout, &snapshot, GroundTransit::Never);
        Routes::compute(&graph, &[station])
            .cost(NodeId(0), station)
            .is_some()
    };
    assert!(reached(step_ns - 1));
    assert!(!reached(step_ns));
}

#[test]
fn addresses_are_unique_and_lead_back() {
    let layout = shell1(cities()).layout().clone();
    let plan = AddressPlan::new(&layout, &AddressBlocks::default()).unwrap();
    let mut seen = BTreeSet::new();
    for node in layout.nodes() {
        let own = plan.loopback(node.id);
        for address in [IpAddr::from(own.v4), IpAddr::from(own.v6)] {
            assert!(seen.insert(address));
            assert_eq!(plan.node_of(address), Some(node.id));
            assert_eq!(plan.port_of(address), None);
        }
    }
    for port in layout.ports() {
        let own = plan.port(port.id);
        assert!(seen.insert(own.v6_link_local.into()));
        assert_eq!(plan.port_of(own.v6_link_local.into()), Some(port.id));
        if let Some((v4, _)) = own.v4 {
            assert!(seen.insert(v4.into()));
            assert_eq!(plan.port_of(v4.into()), Some(port.id));
            assert_eq!(plan.node_of(v4.into()), None);
        }
    }
    for link in layout.isl_links() {
        let (a, b) = (plan.port(link.a).v4.unwrap(), plan.port(link.b).v4.unwrap());
        assert_eq!((a.1, b.1), (31, 31));
        assert_eq!(u32::from(a.0) ^ 1, u32::from(b.0));
    }
    for stranger in [
        "10.0.0.0",
        "10.0.0.255",
        "10.63.255.1",
        "10.79.255.255",
        "10.255.255.255",
        "9.9.9.9",
    ] {
        let address: IpAddr = stranger.parse().unwrap();
        assert_eq!(
            (plan.node_of(address), plan.port_of(address)),
            (None, None),
            "{stranger}"
        );
    }
    let table = plan.table(&layout);
    assert_eq!(
        table.lines().count(),
        1 + layout.nodes().len() + layout.ports().len()
    );
    let hosts = plan.hosts(&layout);
    assert!(
        hosts.starts_with("10.0.0.1 sat-0-0\nfdc0:57e1::1 sat-0-0\n"),
        "{}",
        &hosts[..80]
    );
}
