//! A run that a policy decided live, replayed from the files of its decisions, has the same plan, byte for byte.

use crate::given;

use std::fmt::Write as _;
use std::sync::Arc;

use constel_plan::{
    Blueprint, Decision, FailedEdges, LINK_COLUMNS, Lab, Planner, ROUTE_COLUMNS, RouteChoice,
    STATION_COLUMNS, link_row, route_row, station_row,
};
use constel_topology::{Layout, NodeId, StationCandidates};
use given::{Given, lab};
use proptest::prelude::*;

const SKY: &str = "\
constellations:
  k:
    walker: {pattern: star, altitude: 780 km, inclination: 86.4 deg, satellites: 66, planes: 6, phasing: 2}
    isl: {pattern: plus-grid, link: {rate: 10 Mbit/s}}
    gsl: {min_elevation: 10 deg, policy: least-loaded, handover: {outage: 500 ms}, link: {rate: 10 Mbit/s}}
ground:
  stations:
    london: {latitude: 51.5 deg, longitude: -0.1 deg}
    lagos: {latitude: 6.5 deg, longitude: 3.4 deg}
    tokyo: {latitude: 35.7 deg, longitude: 139.7 deg}
  hosts:
    server: {latitude: 51.5 deg, longitude: -0.1 deg}
  cables: [{from: london, to: server, delay: 1 ms, link: {rate: 10 Mbit/s}}]
";

/// The files of choices, as the record of a run has them.
struct Files {
    stations: String,
    links: String,
    routes: String,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            stations: format!("{STATION_COLUMNS}\n"),
            links: format!("{LINK_COLUMNS}\n"),
            routes: format!("{ROUTE_COLUMNS}\n"),
        }
    }
}

impl Files {
    fn record(&mut self, layout: &Layout, t_ns: u64, decision: &Decision) {
        let (chosen, switched) = decision.at(t_ns);
        chosen.for_each(|(station, chosen)| {
            writeln!(self.stations, "{}", station_row(layout, station, &chosen)).unwrap();
        });
        switched.for_each(|own| writeln!(self.links, "{}", link_row(layout, &own)).unwrap());
        for route in &decision.routes {
            writeln!(self.routes, "{}", route_row(layout, t_ns, route)).unwrap();
        }
    }

    fn given(self) -> Given {
        Given(vec![
            ("stations.csv", self.stations),
            ("links.csv", self.links),
            ("routes.csv", self.routes),
        ])
    }
}

/// Plans the steps, each as text, with the decisions of `policy`.
fn plans(
    lab: Lab,
    steps: usize,
    mut policy: impl FnMut(&Layout, u64, Vec<StationCandidates>) -> Option<Decision>,
) -> Vec<String> {
    let blueprint = Arc::new(Blueprint::new(lab).unwrap_or_else(|e| panic!("{e}")));
    let mut planner = Planner::new(Arc::clone(&blueprint));
    let failed = FailedEdges::default();
    let mut step = planner.first(&failed);
    let mut all = Vec::new();
    for _ in 0..steps {
        all.push(serde_json::to_string(&step.plan).unwrap());
        planner.installed(step, &failed);
        let t_ns = planner.next_t_ns();
        let candidates = planner.candidates();
        if let Some(decision) = policy(&blueprint.lab.layout, t_ns, candidates) {
            planner.decide(&decision);
        }
        step = planner.advance();
        planner.route(&mut step, &failed);
    }
    all
}

/// A decision from numbers: for each station a satellite that it sees, some lasers, and routes by neighbours.
fn decision(
    layout: &Layout,
    candidates: &[StationCandidates],
    numbers: &[u32],
    with_routes: bool,
) -> Decision {
    let pick = |at: usize, among: usize| numbers[at % numbers.len()] as usize % among.max(1);
    let mut decision = Decision::default();
    for (place, own) in candidates.iter().enumerate() {
        if pick(place, 3) > 0 {
            let satellites = own.satellites.iter().map(|c| c.satellite);
            let mut satellites: Vec<NodeId> = satellites.collect();
            let first = pick(place + 1, satellites.len() + 1);
            let first = first.min(satellites.len());
            satellites.rotate_left(first);
            satellites.truncate(2);
            decision.attachments.push((own.station, satellites));
        }
    }
    let lasers = layout.isl_links();
    for at in 0..3 {
        let laser = lasers[(pick(at, lasers.len()) + at) % lasers.len()];
        let [a, b] = [laser.a, laser.b].map(|port| layout.port(port).node);
        if !decision.links.iter().any(|(x, y, _)| (*x, *y) == (a, b)) {
            decision.links.push((a, b, pick(at + 5, 2) > 0));
        }
    }
    if with_routes {
        let to = candidates[pick(1, candidates.len())].station;
        for laser in lasers.iter().skip(pick(2, 40)).take(30) {
            let [node, next] = [laser.a, laser.b].map(|port| layout.port(port).node);
            let route = RouteChoice {
                node,
                destination: to,
                next: Some(next),
            };
            if !decision.routes.iter().any(|own| own.node == node) {
                decision.routes.push(route);
            }
        }
        if let Some((station, satellites)) = decision.attachments.first()
            && *station != to
        {
            let next = satellites.first().copied();
            decision.routes.push(RouteChoice {
                node: *station,
                destination: to,
                next,
            });
        }
    }
    decision
}

/// Runs with the decisions, then from their record; returns the plan of both.
fn replayed(numbers: &[Vec<u32>], step: &str, with_routes: bool) -> Vec<String> {
    let head = format!("{SKY}step: {step}\n");
    let routing = if with_routes {
        "routing: {choices: routes.csv}\n"
    } else {
        ""
    };
    let none = Files::default().given();
    let live = lab(&format!("{head}{routing}"), &none).unwrap();
    let mut files = Files::default();
    let seen = plans(live, numbers.len() + 1, |layout, t_ns, candidates| {
        let numbers = numbers.get((t_ns / 1_000_000) as usize % numbers.len())?;
        // An empty list is a policy that is late: the decisions before hold.
        let decision =
            (!numbers.is_empty()).then(|| decision(layout, &candidates, numbers, with_routes))?;
        files.record(layout, t_ns, &decision);
        Some(decision)
    });
    let choices = "links: {choices: links.csv}\n";
    let scenario = head.replace("ground:\n", "ground:\n  choices: stations.csv\n");
    let again = lab(&format!("{scenario}{routing}{choices}"), &files.given()).unwrap();
    let replay = plans(again, numbers.len() + 1, |_, _, _| None);
    assert_eq!(replay, seen);
    seen
}

#[test]
fn decisions_change_the_plan() {
    let numbers: Vec<Vec<u32>> = (0..6).map(|step| (step..step + 8).collect()).collect();
    for with_routes in [false, true] {
        let seen = replayed(&numbers, "1 s", with_routes);
        let nothing = vec![Vec::new(); numbers.len()];
        let by_rules = replayed(&nothing, "1 s", with_routes);
        assert_eq!(seen[0], by_rules[0]);
        assert_ne!(seen[1..], by_rules[1..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_replay_has_the_same_plan(
        numbers in prop::collection::vec(prop::collection::vec(0_u32..1_000, 0..8), 2..12),
        step in prop::sample::select(vec!["20 s", "1 s", "10 ms"]),
        with_routes in any::<bool>(),
    ) {
        replayed(&numbers, step, with_routes);
    }
}

#[test]
fn errors_of_a_file_of_links_have_their_lines() {
    let text = "t_s,a,b,up\n0,london,server,0\n1,london,nowhere,1\n2,london,london,1\n3,london,server,yes\n0.5,london,server,1\n9,server,london,0\n8,server,london,0\n";
    let given = Given(vec![("links.csv", text.to_owned())]);
    let errors = lab(&format!("{SKY}links: {{choices: links.csv}}\n"), &given)
        .err()
        .unwrap();
    for part in [
        "links.csv:3",
        "no node is called `nowhere`",
        "links.csv:4",
        "a link joins two nodes",
        "links.csv:5",
        "neither 1 (on) nor 0 (off)",
        "links.csv:8",
        "in order of time",
    ] {
        assert!(errors.contains(part), "{part} in {errors}");
    }
}
