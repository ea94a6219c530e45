//! Paths chosen beforehand: shortest paths, written to a file, are those of a lab with that file; errors are reported.

use crate::given;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use constel_plan::{Blueprint, FailedEdges, Lab, Planner, RouteDestination, StepPlan};
use constel_routing::graph::NextHop;
use constel_topology::NodeId;
use given::{Given, lab};

const SKY: &str = "\
constellations:
  k:
    walker: {pattern: star, altitude: 780 km, inclination: 86.4 deg, satellites: 66, planes: 6, phasing: 2}
    isl: {pattern: plus-grid, link: {rate: 10 Mbit/s}}
    gsl: {min_elevation: 10 deg, link: {rate: 10 Mbit/s}}
ground:
  stations:
    tokyo: {latitude: 35.7 deg, longitude: 139.7 deg}
    london: {latitude: 51.5 deg, longitude: -0.1 deg}
step: 20 s
";

type Tables = BTreeMap<(NodeId, NodeId), NextHop>;

/// The routes of all nodes at each of the first steps.
fn tables(lab: Lab, steps: usize) -> (Vec<Tables>, Vec<u64>, Arc<Blueprint>) {
    let blueprint = Arc::new(Blueprint::new(lab).unwrap_or_else(|e| panic!("{e}")));
    let mut planner = Planner::new(Arc::clone(&blueprint));
    let failed = FailedEdges::default();
    let (mut all, mut times, mut now) = (Vec::new(), Vec::new(), Tables::new());
    let mut step = planner.first(&failed);
    for _ in 0..steps {
        carry_out(&mut now, &step.plan);
        all.push(now.clone());
        times.push(step.plan.t_ns);
        planner.installed(step, &failed);
        step = planner.advance();
        planner.route(&mut step, &failed);
    }
    (all, times, blueprint)
}

fn carry_out(now: &mut Tables, plan: &StepPlan) {
    for row in &plan.routes.rows {
        let RouteDestination::Node(to) = row.goal else {
            panic!("{row:?}")
        };
        if row.set {
            now.insert((row.node, to), row.hop);
        } else {
            assert!(now.remove(&(row.node, to)).is_some());
        }
    }
}

#[test]
fn shortest_paths_written_to_a_file_are_the_lab_s() {
    let shortest = lab(SKY, &Given::default()).unwrap();
    let layout = Arc::clone(&shortest.layout);
    let (wanted, times, _) = tables(shortest, 12);
    assert!(wanted[0].len() > 100 && wanted[0] != wanted[11]);
    let name = |node: NodeId| layout.node(node).name.as_str();
    let (mut csv, mut before) = ("t_s,node,destination,next\n".to_owned(), Tables::new());
    for (now, t_ns) in wanted.iter().zip(times) {
        let t_s = t_ns as f64 / 1e9;
        for (&(node, to), hop) in now.iter().filter(|(key, hop)| before.get(key) != Some(hop)) {
            let next = name(layout.port(hop.far_port).node);
            writeln!(csv, "{t_s},{},{},{next}", name(node), name(to)).unwrap();
        }
        for (node, to) in before.keys().filter(|key| !now.contains_key(key)) {
            writeln!(csv, "{t_s},{},{},", name(*node), name(*to)).unwrap();
        }
        before.clone_from(now);
    }
    let files = Given(vec![("ways.csv", csv)]);
    let chosen = lab(&format!("{SKY}routing: {{choices: ways.csv}}\n"), &files).unwrap();
    let (got, ..) = tables(chosen, 12);
    assert_eq!(got, wanted);
}

#[test]
fn a_way_that_is_not_the_shortest_is_taken_and_ends_where_a_link_fails() {
    // Three hosts, each with a cable to the others: the long way round, though there is a short one.
    let rest = "\
ground:
  hosts:
    a: {latitude: 0 deg, longitude: 0 deg}
    b: {latitude: 1 deg, longitude: 1 deg}
    c: {latitude: 0 deg, longitude: 2 deg}
  cables:
    - {from: a, to: b, delay: 1 ms, link: {rate: 10 Mbit/s}}
    - {from: b, to: c, delay: 1 ms, link: {rate: 10 Mbit/s}}
    - {from: a, to: c, delay: 1 ms, link: {rate: 10 Mbit/s}}
step: 20 s
routing: {choices: ways.csv}
";
    let csv = "t_s,node,destination,next\n0,a,c,b\n0,b,c,c\n40,a,c,\n40,b,c,c\n";
    let files = Given(vec![("ways.csv", csv.to_owned())]);
    let (got, _, blueprint) = tables(lab(rest, &files).unwrap(), 3);
    let layout = &blueprint.lab.layout;
    let named = |tables: &Tables| -> Vec<String> {
        let name = |node: NodeId| layout.node(node).name.as_str();
        let far = |hop: &NextHop| name(layout.port(hop.far_port).node);
        let rows = tables.iter();
        rows.map(|((node, to), hop)| format!("{} to {} by {}", name(*node), name(*to), far(hop)))
            .collect()
    };
    assert_eq!(named(&got[0]), ["a to c by b", "b to c by c"]);
    assert_eq!(got[1], got[0]);
    assert_eq!(named(&got[2]), ["b to c by c"]);
    // A link that fails by hand takes what leads over it along, and only that.
    let mut planner = Planner::new(Arc::clone(&blueprint));
    let mut failed = FailedEdges::default();
    let first = planner.first(&failed);
    let mut now = Tables::new();
    carry_out(&mut now, &first.plan);
    planner.installed(first, &failed);
    let of = |name: &str| layout.find(name).unwrap().id;
    for edge in &planner.current().edges {
        let ends = [edge.from, edge.to].map(|port| layout.port(port).node);
        if ends == [of("a"), of("b")] || ends == [of("b"), of("a")] {
            failed.set((edge.from, edge.to), true);
        }
    }
    let within = planner.within(0, &failed).unwrap();
    let gone: Vec<_> = within
        .plan
        .rows
        .iter()
        .map(|row| (row.node, row.set))
        .collect();
    assert_eq!(gone, [(of("a"), false)]);
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    let errors = |routing: &str, csv: &str| {
        let files = Given(vec![("ways.csv", csv.to_owned())]);
        lab(&format!("{SKY}routing: {routing}\n"), &files)
            .map(drop)
            .unwrap_err()
    };
    let csv = "t_s,node,destination,next\n0,tokyo,london,k-p01-s99\n-1,tokyo,london,\n5,k-p01-s01,k-p01-s02,tokyo\n\
               5,tokyo,london,tokyo\n4,tokyo,london,\n1,2\n";
    let all = errors("{choices: ways.csv}", csv);
    for (line, reason) in [
        (2, "no node is called `k-p01-s99`"),
        (3, "`t_s` is `-1`"),
        (4, "`k-p01-s02` is no destination"),
        (5, "a node is no way to itself"),
        (7, "2 cells"),
    ] {
        let found = all
            .lines()
            .any(|text| text.contains(&format!("ways.csv:{line}")) && text.contains(reason));
        assert!(found, "{line} {reason}:\n{all}");
    }
    assert!(errors("{choices: ways.csv}", "t_s,node\n").contains("the columns must be"));
    let fine = "t_s,node,destination,next\n";
    for key in [
        "metric: hops",
        "paths: 2, metric: hops",
        "reaction: {detect: 1 s, processing: 0 s}",
    ] {
        let all = errors(&format!("{{choices: ways.csv, {key}}}"), fine);
        assert!(all.contains("`choices` gives the paths"), "{all}");
    }
    let all = errors("{daemon: bird, choices: ways.csv}", fine);
    assert!(all.contains("routing.choices"), "{all}");
    let late = errors(
        "{choices: ways.csv}",
        "t_s,node,destination,next\n5,tokyo,london,\n4,tokyo,london,\n",
    );
    assert!(late.contains("order of time"), "{late}");
}
