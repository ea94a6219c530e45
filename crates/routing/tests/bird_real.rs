//! The generated configuration run by real BIRDs.
//!
//! Needs root, `ip`, `ping` and `bird`. Makes namespaces of its own and removes them.

use crate::birds;
use crate::common;

use birds::Lab;
use common::OSPF;
use constel_orbit::WalkerKind;
use constel_routing::daemons::{Served, Spec, System, serving_within};
use constel_topology::NodeId;
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn real_birds_follow_a_handover() {
    follow_a_handover("", &OSPF);
}

/// West and east are in systems of their own: what follows is BGP.
#[test]
fn real_birds_follow_a_handover_between_systems() {
    let system = |asn, nodes: &[u32]| System {
        asn,
        nodes: nodes.iter().copied().map(NodeId).collect(),
        reflectors: BTreeSet::new(),
    };
    let spec = Spec {
        systems: vec![system(65001, &[]), system(65002, &[3]), system(65003, &[4])],
        ..OSPF
    };
    follow_a_handover("b", &spec);
}

fn follow_a_handover(name: &str, spec: &Spec) {
    let stations = vec![
        common::station("west", 0.0, 0.0),
        common::station("east", 0.0, 90.0),
    ];
    let layout = common::lab(WalkerKind::Delta, (3, 1, 0), 60.0, 780.0, stations)
        .layout()
        .clone();
    // Three satellites in a ring, less one link: a row. The ends of the row depend on how links are numbered.
    let links = layout.isl_links()[..2].to_vec();
    let ends: Vec<NodeId> = links
        .iter()
        .flat_map(|l| [l.a, l.b])
        .map(|p| layout.port(p).node)
        .collect();
    let degree = |n: &NodeId| ends.iter().filter(|e| *e == n).count();
    let middle = (0..3).map(NodeId).find(|n| degree(n) == 2).unwrap();
    let outer: Vec<NodeId> = (0..3).map(NodeId).filter(|n| *n != middle).collect();
    let (west, east) = (NodeId(3), NodeId(4));
    let known = [west, east].map(|station| {
        let port = layout.gsl_port(station);
        (0..3).map(|n| (port, NodeId(n))).collect()
    });
    let mut lab = Lab::new(name, layout, links);
    lab.attach(west, outer[0]);
    lab.attach(east, outer[1]);
    lab.start_birds_of(spec, &known);
    let (took, _) = lab.wait_for_routes(&outer);
    println!("from nothing: {:.1} s", took.as_secs_f64());
    let walks = lab.walks(&lab.snapshot(&outer));
    assert_eq!(
        walks.iter().map(|w| w.hops.len()).collect::<Vec<_>>(),
        [4, 4, 4, 4]
    );
    lab.ping(west, east);
    // One route for each other node and family, none to links. Only those to its ends are announced to another system.
    let told = if spec.systems.is_empty() { 4 } else { 1 };
    for family in ["-4", "-6"] {
        assert_eq!(lab.bird_routes(west, family).lines().count(), told);
    }
    println!("memory of each bird, KiB: {:?}", lab.pss_kib());

    for (to, expected) in [(middle, 3), (outer[1], 2)] {
        // A settled network: BIRD originates no router LSA within 5 s of its last, and the last of a
        // handover comes up to 5 s after the old neighbour is dropped.
        std::thread::sleep(Duration::from_secs(10));
        lab.attach(west, to);
        let (took, longest) = lab.wait_for_routes(&[to, outer[1]]);
        println!("handover: {:.1} s", took.as_secs_f64());
        let walks = lab.walks(&lab.snapshot(&[to, outer[1]]));
        assert!(walks.iter().all(|w| w.hops.len() == expected), "{walks:?}");
        lab.ping(west, east);
        // Dead time, one LSA held back, one calculation: more than that is no convergence but luck.
        let limit = Duration::from_secs(10) + 10 * longest;
        assert!(took < limit, "{took:?}, of {limit:?}");
    }
    assert!(!lab.logs().contains("<ERR>"), "{}", lab.logs());
}

#[test]
#[ignore = "80 namespaces, two minutes; prints figures"]
fn iridium_of_real_birds() {
    let mut stepper = common::iridium(common::spread(14));
    let layout = stepper.layout().clone();
    let snapshot = stepper.at_step(0);
    let up = |l: &&constel_topology::IslLink| snapshot.edge(l.a, l.b).is_some();
    let links: Vec<_> = layout.isl_links().iter().filter(up).copied().collect();
    let mut serving: Vec<NodeId> = snapshot.serving.iter().map(|s| s.unwrap()).collect();
    let mut known = serving_within(&mut stepper, 120, &|| true).unwrap();
    println!(
        "{} ISLs up; stations know {:?} satellites each",
        links.len(),
        known.iter().map(Served::len).collect::<Vec<_>>()
    );
    let mut lab = Lab::new("i", layout.clone(), links);
    let stations = lab.stations();
    for (station, satellite) in stations.iter().zip(&serving) {
        lab.attach(*station, *satellite);
    }
    // The second station will move to the satellite of the third.
    let second = layout.terminals_of(1)[0].port;
    known[1].insert((second, serving[2]));
    lab.start_birds(&known);
    let (took, _) = lab.wait_for_routes(&serving);
    println!(
        "from nothing: {:.1} s, {:.1} s of CPU",
        took.as_secs_f64(),
        lab.cpu_s()
    );
    std::thread::sleep(Duration::from_secs(15));
    let pss = lab.pss_kib();
    println!(
        "memory: {} KiB each",
        pss.iter().sum::<u64>() / pss.len() as u64
    );
    let cpu = lab.cpu_s();
    std::thread::sleep(Duration::from_secs(10));
    println!(
        "idle: {:.1} % of a core",
        (lab.cpu_s() - cpu) / 10.0 * 100.0
    );
    let cpu = lab.cpu_s();
    serving[1] = serving[2];
    lab.attach(stations[1], serving[1]);
    let (took, _) = lab.wait_for_routes(&serving);
    println!(
        "handover: {:.1} s, {:.2} s of CPU",
        took.as_secs_f64(),
        lab.cpu_s() - cpu
    );
    lab.ping(stations[0], stations[1]);
    assert!(!lab.logs().contains("<ERR>"), "{}", lab.logs());
}
