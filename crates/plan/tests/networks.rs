//! Networks of scenarios: members, matrices, ranges, bridges; laid out, addressed, stepped and planned.

use crate::given;

use std::collections::BTreeSet;
use std::sync::Arc;

use constel_link::{Effects, EffectsChange, Loss};
use constel_plan::{Blueprint, Document, FailedEdges, Lab, Planner};
use constel_routing::{Graph, GroundTransit};
use constel_units::TimeSpan;
use given::{Given, lab};
use proptest::prelude::*;

const HOSTS: &str = "ground: {hosts: {h: {count: 4, latitude: 52 deg, longitude: 13 deg}}}\nrouting: {mode: computed, metric: hops}\n";

fn mesh(csv: &str) -> Result<Lab, String> {
    let networks =
        "networks:\n  mesh: {members: [h-*], law: {matrix: m.csv}, link: {rate: 100 Mbit/s}}\n";
    lab(
        &format!("{HOSTS}{networks}"),
        &Given(vec![("m.csv", csv.to_owned())]),
    )
}

/// Sender, receiver, delay in microseconds and rate of each edge at a second of lab time.
fn edges(lab: &Lab, t_s: u64) -> Vec<(String, String, u64, Option<u64>)> {
    let document = Document::at(lab, TimeSpan::from_ns(t_s as i64 * 1_000_000_000)).unwrap();
    let edges = document.edges.iter();
    edges
        .map(|e| {
            (
                e.from_node.clone(),
                e.to_node.clone(),
                e.delay_ns / 1000,
                e.rate_bps,
            )
        })
        .collect()
}

fn edge(from: &str, to: &str, us: u64, rate: u64) -> (String, String, u64, Option<u64>) {
    (from.to_owned(), to.to_owned(), us, Some(rate))
}

const SQUARE: &str = "delay_ms,h-0,h-1,h-2,h-3\nh-1,7.5,,1,2\nh-0,0,5,6,\nh-2,1,2,,3\nh-3,1,2,3,\n";

#[test]
fn a_square_of_delays_becomes_edges_of_one_port_each() {
    let lab = mesh(SQUARE).unwrap();
    assert_eq!(lab.layout.ports().len(), 4);
    let edges = edges(&lab, 0);
    assert_eq!(edges.len(), 11);
    assert!(
        edges.contains(&edge("h-1", "h-0", 7500, 100_000_000)),
        "{edges:?}"
    );
    assert!(edges.contains(&edge("h-0", "h-1", 5000, 100_000_000)));
    // An empty cell is no edge.
    assert!(
        !edges
            .iter()
            .any(|e| (e.0.as_str(), e.1.as_str()) == ("h-0", "h-3"))
    );
    let blueprint = Arc::new(Blueprint::new(lab).unwrap());
    let port = &blueprint
        .setup(blueprint.lab.layout.find("h-2").unwrap().id)
        .ports[0];
    assert_eq!(port.address.unwrap().0.to_string(), "10.96.0.3");
    // Each of the four knows those it can send to, and has a route to each node, and one to the port that it has no edge to.
    let plan = Planner::new(Arc::clone(&blueprint))
        .first(&FailedEdges::default())
        .plan;
    assert_eq!((plan.learn.len(), plan.edges.len()), (11, 11));
    assert_eq!(plan.routes.rows.len(), 13);
}

/// Files that R's `write.csv` and spreadsheets write are read as equal.
#[test]
fn cells_in_quotes_are_cells() {
    let quoted = |csv: &str| {
        let cell = |cell: &str| match cell.parse::<f64>() {
            Err(_) => format!("\"{cell}\""),
            Ok(_) => cell.to_owned(),
        };
        let row = |row: &str| row.split(',').map(cell).collect::<Vec<_>>().join(",");
        let rows: Vec<String> = csv.lines().map(row).collect();
        format!("\u{feff}{}\r\n", rows.join("\r\n"))
    };
    let square = edges(&mesh(SQUARE).unwrap(), 0);
    assert_eq!(edges(&mesh(&quoted(SQUARE)).unwrap(), 0), square);
    let table = "from,to,delay_ms\nh-0,h-1,5\nh-1,h-0,6\n";
    assert_eq!(
        edges(&mesh(&quoted(table)).unwrap(), 0),
        edges(&mesh(table).unwrap(), 0)
    );
    let errors = mesh(&quoted(SQUARE).replace("7.5", "fast"));
    let errors = errors.err().unwrap_or_default();
    assert!(
        errors.contains("m.csv:2:1: error: `h-0` is `fast`"),
        "{errors}"
    );
}

/// R's `write.csv`, its `write.table` with commas, pandas' `to_csv` and NumPy have other first cells and other words for a
/// missing number; each file is the square or the table that it was made of.
#[test]
fn files_of_r_and_pandas_are_squares_and_tables() {
    let square = edges(&mesh(SQUARE).unwrap(), 0);
    let table = "from,to,delay_ms,rate_bit_per_s\nh-0,h-1,5,\nh-1,h-0,6,1000000\n";
    let numbered = |head: &str| {
        let lines = table.lines().zip(0..);
        let line = |(line, n): (&str, usize)| match n {
            0 => format!("{head},{line}\n"),
            n => format!("{n},{line}\n"),
        };
        lines.map(line).collect::<String>()
    };
    for missing in ["", "NA", "NaN", "nan", "na", "\"NA\""] {
        let cell = |cell: &str| match cell {
            "" => missing.to_owned(),
            cell => cell.to_owned(),
        };
        let row = |row: &str| row.split(',').map(cell).collect::<Vec<_>>().join(",") + "\n";
        let filled: String = SQUARE.lines().map(row).collect();
        for corner in ["delay_ms,", "DELAY_MS,", "\"\",", ",", ""] {
            let csv = filled.replacen("delay_ms,", corner, 1);
            let read = mesh(&csv).unwrap_or_else(|e| panic!("{csv}\n{e}"));
            assert_eq!(edges(&read, 0), square, "{csv}");
            let file = constel_scenario::TextFile::alone("m.csv", &csv);
            let members: Vec<String> = (0..4).map(|n| format!("h-{n}")).collect();
            assert!(constel_plan::is_square(&file, &members), "{csv}");
        }
    }
    for csv in [
        numbered(""),
        numbered("\"\""),
        table.replace("5,\n", "5,NA\n"),
        table.replace("from,to,delay_ms", "From,TO,Delay_ms"),
        // The first of a table's columns may be any of them.
        "delay_ms,from,to,rate_bit_per_s\n5,h-0,h-1,\n6,h-1,h-0,1e6\n".to_owned(),
    ] {
        let read = mesh(&csv).unwrap_or_else(|e| panic!("{csv}\n{e}"));
        assert_eq!(edges(&read, 0), edges(&mesh(table).unwrap(), 0), "{csv}");
    }
    for (csv, says) in [
        ("\"\";\"h-0\";\"h-1\"\n", "cells are separated by commas"),
        (
            "from,to,delay_ms\nh-0,h-1,NA\n",
            "no row where there is no edge",
        ),
        (
            "delay_ms,h-0,h-1,h-2,h-3\nh-0,0,inf,1,1\n",
            "`h-1` is `inf`, not a number from 0",
        ),
    ] {
        let errors = mesh(csv).err().unwrap_or_default();
        assert!(errors.contains(says), "{csv}\n{errors}");
    }
}

/// The bound of edges is one for both forms.
#[test]
fn a_square_has_no_more_edges_than_a_table_may() {
    let many = 1_050;
    let name = |n: usize| format!("h-{n:04}");
    let names: Vec<String> = (0..many).map(name).collect();
    let row = |from: usize| {
        let cells = (0..many).map(|to| if to == from { "0" } else { "1" });
        format!("{},{}\n", name(from), cells.collect::<Vec<_>>().join(","))
    };
    let rows: String = (0..many).map(row).collect();
    let square = format!("delay_ms,{}\n{rows}", names.join(","));
    let text = HOSTS.replace("count: 4", "count: 1050");
    let networks =
        "networks:\n  mesh: {members: [h-*], law: {matrix: m.csv}, link: {rate: 100 Mbit/s}}\n";
    let errors = lab(
        &format!("{text}{networks}"),
        &Given(vec![("m.csv", square)]),
    );
    let errors = errors.err().unwrap_or_default();
    assert!(
        errors.contains("error: more than 1100000 edges"),
        "{errors}"
    );
}

/// Networks whose edges follow from positions, and switches, are bounded too: the possible edges count.
#[test]
fn no_law_has_more_edges_than_a_file_may() {
    let network = |members: usize, law: &str| {
        let text = HOSTS.replace("count: 4", &format!("count: {members}"));
        let found = lab(
            &format!("{text}networks:\n  mesh: {{members: [h-*], {law}}}\n"),
            &Given(Vec::new()),
        );
        found.err().unwrap_or_default()
    };
    let link = "link: {rate: 1 Mbit/s}";
    let shared =
        "medium: shared, law: {range: 1 km}, link: {rate: 1 Mbit/s}, channel: {access: aloha}";
    for law in [
        "medium: switched",
        &format!("law: {{range: 1 km}}, {link}"),
        shared,
    ] {
        let errors = network(1_050, law);
        assert!(
            errors.contains("1101450 edges are possible"),
            "{law}: {errors}"
        );
        assert!(
            errors.contains("allowed: 2 to 1049 members"),
            "{law}: {errors}"
        );
        assert!(errors.starts_with("x.yaml:"), "{law}: {errors}");
    }
    assert_eq!(network(1_049, "medium: switched"), "");
}

/// Each law, in a square and in a table that changes: refused at the line of the first delay that is too short, and valid
/// where the delay, or the extra delay of the link, leaves room.
#[test]
fn jitter_above_a_delay_of_a_file_is_refused_at_its_line() {
    let square = "delay_ms,h-0,h-1\nh-0,0,40\nh-1,4,0\n";
    let table = "from,to,delay_ms,t_s\nh-0,h-1,40,0\nh-1,h-0,40,0\nh-0,h-1,4,10\n";
    let network = |csv: &str, link: &str| {
        let text = HOSTS.replace("count: 4", "count: 2");
        let network = format!(
            "networks:\n  mesh: {{members: [h-*], law: {{matrix: m.csv}}, link: {{rate: 1 Mbit/s, {link}}}}}\n"
        );
        let found = lab(
            &format!("{text}{network}"),
            &Given(vec![("m.csv", csv.to_owned())]),
        );
        found.err().unwrap_or_default()
    };
    // Each law takes off at most 10 ms, or, without a bound, that much in all but few draws.
    for law in [
        "uniform: 10 ms",
        "normal: 5 ms",
        "pareto_normal: 10 ms",
        "quantiles: [-10 ms, 0 ms, 1 ms]",
    ] {
        for (csv, line, ends) in [(square, 3, "`h-1` to `h-0`"), (table, 4, "`h-0` to `h-1`")] {
            let errors = network(csv, &format!("jitter: {{{law}}}"));
            let wanted = format!(
                "m.csv:{line}:1: error: {ends}: jitter takes up to 10 ms off a delay of 4 ms"
            );
            assert!(errors.starts_with(&wanted), "{law}: {errors}");
            assert_eq!(errors.matches("error:").count(), 1, "{law}: {errors}");
            let longer = csv.replace(",4,", ",10,");
            assert_eq!(network(&longer, &format!("jitter: {{{law}}}")), "", "{law}");
            assert_eq!(
                network(csv, &format!("extra_delay: 6 ms, jitter: {{{law}}}")),
                "",
                "{law}"
            );
        }
    }
}

#[test]
fn a_table_of_delays_changes_over_time() {
    let lab = mesh(
        "t_s,from,to,delay_ms,loss_ratio,rate_bit_per_s\n\
         1,h-0,h-1,5,0.25,\n1,h-1,h-0,6,,1000000\n3,h-0,h-1,9,,\n",
    )
    .unwrap();
    assert_eq!(edges(&lab, 0), []);
    let at_one = [
        edge("h-0", "h-1", 5000, 100_000_000),
        edge("h-1", "h-0", 6000, 1_000_000),
    ];
    assert_eq!(edges(&lab, 1), at_one);
    assert_eq!(edges(&lab, 2), at_one);
    assert_eq!(edges(&lab, 4), [edge("h-0", "h-1", 9000, 100_000_000)]);
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    for (csv, said) in [
        ("", "m.csv:1:1: error: this file has no rows"),
        (
            "delay_ms,h-0,h-1,h-2\n",
            "`h-3` have no column in this file",
        ),
        (
            SQUARE.replace("h-2,1", "h-9,1").as_str(),
            "m.csv:4:1: error: no member is called `h-9`",
        ),
        (
            SQUARE.replace("7.5", "fast").as_str(),
            "m.csv:2:1: error: `h-0` is `fast`, not a number from 0 to 10000",
        ),
        (
            SQUARE.replace("0,5", "4,5").as_str(),
            "m.csv:3:1: error: `h-0` is 4 ms from itself",
        ),
        (
            SQUARE.replace("h-3,1,2,3,\n", "").as_str(),
            "`h-3` have no row in this file",
        ),
        (
            SQUARE.replace("h-3,1,2,3,", "h-3,1,2").as_str(),
            "m.csv:5:1: error: 2 delays for 4 columns",
        ),
        ("from,to,ms\n", "no column is called `delay_ms`"),
        (
            "from,to,delay_ms\n",
            "m.csv:1:1: error: this file has no rows after its header",
        ),
        (
            "from,to,delay_ms,delay_ms\nh-0,h-1,1,2\n",
            "m.csv:1:1: error: two columns are called `delay_ms`",
        ),
        (
            "from,to,delay_ms\nh-0,h-1,1\nh-0,h-1,2\n",
            "m.csv:3:1: error: `h-0` to `h-1` is there already",
        ),
        (
            "from,to,delay_ms,t_s\nh-0,h-1,1,2\nh-1,h-0,2,1\n",
            "m.csv:3:1: error: lines must be in order of time",
        ),
        (
            "from,to,delay_ms\nh-0,h-0,1\n",
            "m.csv:2:1: error: `h-0` is both ends",
        ),
        (
            "from,to,delay_ms\nh-0,h-1,-1\n",
            "m.csv:2:1: error: `delay_ms` is `-1`",
        ),
    ] {
        let errors = mesh(csv).err().unwrap_or_default();
        assert!(errors.contains(said), "{csv}: {errors}");
    }
}

#[test]
fn craft_in_range_are_linked_at_the_speed_of_light() {
    let text = "spacecraft:\n  s: {orbit: {altitude: 500 km, inclination: 53 deg}, preset: string-of-pearls, craft: 4, size: 50 km}\n\
                networks:\n  radio:\n    members: [s-*]\n    law: {range: 120 km, by_range: [{beyond: 60 km, rate: 1 Mbit/s, loss: 1 %}]}\n    \
                link: {rate: 4 Mbit/s}\n";
    let lab = lab(text, &Given::default()).unwrap();
    let edges = edges(&lab, 0);
    // Neighbours and the next but one, not the ends of the string.
    assert_eq!(edges.len(), 10);
    let of = |from: &str, to: &str| {
        edges
            .iter()
            .find(|e| (e.0.as_str(), e.1.as_str()) == (from, to))
    };
    let (near, far) = (of("s-0", "s-1").unwrap(), of("s-3", "s-1").unwrap());
    // 50 km of vacuum are 166.8 us.
    assert!(
        (166..=168).contains(&near.2) && (332..=336).contains(&far.2),
        "{near:?} {far:?}"
    );
    assert_eq!([near.3, far.3], [Some(4_000_000), Some(1_000_000)]);
    assert_eq!(of("s-0", "s-3"), None);
}

#[test]
fn a_bridge_joins_all_at_once() {
    let lab = lab(
        &format!("{HOSTS}networks: {{lan: {{members: [h-*], medium: switched}}}}\n"),
        &Given::default(),
    )
    .unwrap();
    let edges = edges(&lab, 0);
    assert_eq!(edges.len(), 12);
    assert!(edges.iter().all(|e| (e.2, e.3) == (0, None)), "{edges:?}");
}

#[test]
fn members_are_nodes_and_more_than_one() {
    let with = |members: &str| {
        let networks = format!("networks: {{lan: {{members: {members}, medium: switched}}}}\n");
        let hosts = HOSTS.replace("ground: {hosts:", "ground: {cables: [{from: h-0, to: h-1, delay: 1 ms, link: {rate: 1 Mbit/s}}, {from: h-2, to: h-3, delay: 1 ms, link: {rate: 1 Mbit/s}}], hosts:");
        lab(&format!("{hosts}{networks}"), &Given::default())
    };
    let errors = with("[h-0, x-*]").err().unwrap();
    assert!(errors.contains("no node is called `x-*`"), "{errors}");
    let errors = with("[h-0]").err().unwrap();
    assert!(
        errors.contains("network `lan` has one member only"),
        "{errors}"
    );
    assert!(with("[h-3, h-*]").is_ok());
}

#[test]
fn over_a_constellation_edges_are_its_shortest_paths() {
    let sky = |more: &str| {
        format!(
            "constellations:\n  iridium:\n    preset: iridium\n    isl: {{pattern: plus-grid, link: {{rate: 100 Mbit/s}}}}\n    \
             gsl: {{min_elevation: 8.2 deg, policy: nearest, link: {{rate: 50 Mbit/s, loss: 1 %}}}}\n{more}"
        )
    };
    let places = "a: {latitude: 51 deg, longitude: 0 deg}, b: {latitude: -33 deg, longitude: 151 deg}, c: {latitude: 1 deg, longitude: 103 deg}";
    let real = lab(
        &sky(&format!(
            "ground: {{stations: {{{places}}}}}\nrouting: {{mode: computed}}\n"
        )),
        &Given::default(),
    )
    .unwrap();
    let over = lab(
        &sky(&format!(
            "    nodes: false\nground: {{hosts: {{{places}}}}}\nrouting: {{mode: computed}}\nnetworks:\n  \
             net: {{members: [a, b, c], law: {{over: iridium}}, link: {{rate: 80 Mbit/s, loss: 10 %}}}}\n"
        )),
        &Given::default(),
    )
    .unwrap();
    assert_eq!(
        (over.layout.nodes().len(), over.layout.ports().len()),
        (3, 3)
    );
    let (mut truth, mut stepper) = (real.stepper(), over.stepper());
    let nodes = ["a", "b", "c"].map(|name| real.layout.find(name).unwrap().id);
    for _ in 0..60 {
        let snapshot = truth.advance();
        let graph = Graph::new(&real.layout, &snapshot, GroundTransit::Never);
        let delays = graph.all_pairs_ns(&nodes);
        let edges = stepper.advance().edges;
        assert_eq!(edges.len(), 6);
        for edge in edges {
            let place = |port| over.layout.port(port).node.index();
            let said = edge.impairment.delay.at(snapshot.t_ns);
            assert_eq!(said, delays[place(edge.from)][place(edge.to)]);
            assert_eq!(edge.impairment.rate_bps.unwrap().get(), 50_000_000);
            // The network's own, and up and down.
            let Loss::Bernoulli { loss_ratio } = edge.impairment.loss else {
                panic!("{edge:?}");
            };
            assert!((loss_ratio - (1.0 - 0.9 * 0.99 * 0.99)).abs() < 1e-9);
        }
    }
}

#[test]
fn a_link_budget_says_rate_and_reach() {
    let craft = "spacecraft:\n  craft: {orbit: {altitude: 500 km, inclination: 97.4 deg}, preset: string-of-pearls, craft: 6, size: 60 km}\n";
    let radio = "radio: {frequency: 2.4 GHz, eirp: 3 dBW, g_over_t: -25 dB/K, bandwidth: 1 MHz}";
    let text = |rate: &str, more: &str| {
        format!(
            "{craft}networks:\n  radio: {{members: [craft-*], law: {{range: 2000 km, {radio}{more}}}, link: {{rate: {rate}, queue: 32 KiB}}}}\nrouting: {{mode: computed}}\n"
        )
    };
    let free = lab(&text("100 Mbit/s", ""), &Given::default()).unwrap();
    let rates: Vec<(String, u64)> = edges(&free, 0)
        .into_iter()
        .filter(|e| e.0 == "craft-0")
        .map(|e| (e.1, e.3.unwrap()))
        .collect();
    // By hand at 60 km: 3 - 25 + 228.6 - 135.6 (free space) - 60 (1 MHz) = 11.0 dB, 11.8 dB of Es/N0 in 833 ksymbol/s:
    // 16APSK 5/6, which needs 11.61 dB. Farther it is slower, and in the end there is no edge.
    assert_eq!(rates[0].0, "craft-1");
    assert!(
        (rates[0].1 as f64 - 833_333.3 * 3.300_184).abs() < 2.0,
        "{rates:?}"
    );
    assert!(rates.windows(2).all(|w| w[0].1 >= w[1].1), "{rates:?}");
    assert!(
        rates.len() > 1 && rates[0].1 > rates[rates.len() - 1].1,
        "{rates:?}"
    );
    let slow = lab(&text("1 Mbit/s", ""), &Given::default()).unwrap();
    assert!(edges(&slow, 0).iter().all(|e| e.3 <= Some(1_000_000)));
    let both = ", by_range: [{beyond: 80 km, rate: 500 kbit/s}]";
    let error = lab(&text("1 Mbit/s", both), &Given::default())
        .err()
        .unwrap();
    assert!(error.contains("both set the rate"), "{error}");
}

#[test]
fn who_is_away_is_a_member() {
    let text = |away: &str| {
        format!("{HOSTS}networks:\n  lan: {{members: [h-*], away: [{away}], medium: switched}}\n")
    };
    let own = lab(&text("h-2, h-3"), &Given::default()).unwrap();
    let away: Vec<String> = own
        .away()
        .into_iter()
        .map(|(_, port)| own.layout.node(own.layout.port(port).node).name.clone())
        .collect();
    assert_eq!(away, ["h-2", "h-3"]);
    // A plan has the edges that the lab has before anybody joins; the members keep their ports.
    let document = Document::at(&own, TimeSpan::from_ns(0)).unwrap();
    let ends: Vec<_> = document
        .edges
        .iter()
        .map(|e| (&*e.from_node, &*e.to_node))
        .collect();
    assert_eq!(ends, [("h-0", "h-1"), ("h-1", "h-0")]);
    assert!(document.nodes.iter().all(|node| node.ports.len() == 1));
    let (absent, _) = own.absent_at_start();
    let port = |name: &str| own.layout.ports_of(own.layout.find(name).unwrap().id)[0].id;
    let ends = |a: &str, b: &str| vec![(port(a), port(b)), (port(b), port(a))];
    let why = absent.why_down(&own.layout, &ends("h-0", "h-3")).unwrap();
    assert!(
        why.starts_with("down: `h-3` is not in its network now (h-3/"),
        "{why}"
    );
    assert_eq!(absent.why_down(&own.layout, &ends("h-0", "h-1")), None);
    let error = lab(&text("x-1"), &Given::default()).err().unwrap();
    assert!(error.contains("no member is called `x-1`"), "{error}");
}

proptest! {
    /// An edge is down exactly if a user failed it or an end is absent, in whatever order members leave and return and links
    /// fail and heal.
    #[test]
    fn an_edge_is_down_if_it_is_failed_or_an_end_is_absent(
        acts in prop::collection::vec((0_usize..4, 0_usize..3, any::<bool>()), 0..30),
    ) {
        let text = format!("{HOSTS}networks:\n  lan: {{members: [h-0, h-1, h-2, h-3], away: [h-2], medium: switched}}\n");
        let own = lab(&text, &Given::default()).unwrap();
        let ports = own.layout.network_ports(0).to_vec();
        let (mut away, mut effects) = own.absent_at_start();
        let (mut is_in, mut failed) = ([true, true, false], BTreeSet::new());
        for (act, member, on) in acts {
            let next = (member + 1) % 3;
            if act == 0 {
                away.move_recorded(&own.layout, (ports[member], on), &mut effects);
                is_in[member] = on;
            } else {
                for edge in [(member, next), (next, member)] {
                    let ends = (ports[edge.0], ports[edge.1]);
                    away.set_failed(ends, on);
                    let down = on || away.failed_by_hand(ends).is_some();
                    let own = effects.edge(ends).merged(&Effects::failed(down));
                    effects.record(EffectsChange::of_edge(ends, own));
                    if on { failed.insert(edge) } else { failed.remove(&edge) };
                }
            }
            for (a, b) in [(0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2)] {
                let down = effects.edge((ports[a], ports[b])).down == Some(true);
                prop_assert_eq!(down, failed.contains(&(a, b)) || !is_in[a] || !is_in[b]);
            }
        }
    }
}

#[test]
fn management_has_an_address_for_each_member_that_follows_from_the_labs_name() {
    let managed = |count: usize, block: &str| {
        let hosts = HOSTS.replace("count: 4", &format!("count: {count}"));
        let networks = "networks:\n  lan: {members: [h-*], medium: switched, management: true}\n  \
                        more: {members: [h-*], medium: switched, management: true}\n  radio: {members: [h-*], medium: switched}\n";
        let block = format!("addresses: {{management: {block}}}\n");
        lab(&format!("{hosts}{networks}{block}"), &Given::default())
    };
    let own = managed(4, "172.20.0.0/16").unwrap();
    let one = own.management("one").unwrap();
    assert_eq!(Some(&one), own.management("one").as_ref());
    assert_eq!((one.nodes.len(), one.subnet.length), (4, 24), "each once");
    assert!(one.interface.len() <= 15, "{}", one.interface);
    let first = u32::from(one.subnet.first);
    assert_eq!(
        first & 0xffff_00ff,
        u32::from(std::net::Ipv4Addr::new(172, 20, 0, 0))
    );
    let own_addresses = one.nodes.iter().map(|(_, address)| *address);
    let all: Vec<u32> = [one.host, one.bridge]
        .into_iter()
        .chain(own_addresses)
        .map(u32::from)
        .collect();
    assert_eq!(all, (first + 1..first + 7).collect::<Vec<u32>>());
    let other = own.management("other").unwrap();
    assert!(other.subnet != one.subnet && other.interface != one.interface);

    // Plans use the addresses of the lab with the scenario's name.
    let named = own.management(own.scenario.name.as_str()).unwrap();
    let document = Document::at(&own, TimeSpan::from_ns(0)).unwrap();
    assert_eq!(document.management.unwrap().host, named.host);
    assert_eq!(document.nodes[2].management, Some(named.nodes[2].1));
    assert_eq!(document.nodes[2].ports.len(), 3, "it is no port of the lab");

    // 252 fit the smallest subnet, and there is one such.
    let whole = managed(252, "172.20.1.0/24")
        .unwrap()
        .management("one")
        .unwrap();
    assert_eq!(whole.subnet.to_string(), "172.20.1.0/24");
    assert_eq!(whole.nodes[251].1, std::net::Ipv4Addr::new(172, 20, 1, 254));
    assert_eq!(
        managed(253, "172.20.0.0/22")
            .unwrap()
            .management("one")
            .unwrap()
            .subnet
            .length,
        23
    );
    let error = managed(253, "172.20.1.0/24").err().unwrap();
    assert!(
        error.contains("253 nodes with management do not fit 172.20.1.0/24: at most 252"),
        "{error}"
    );
    assert!(error.contains("at: addresses.management"), "{error}");
}

#[test]
fn without_management_nothing_is_there() {
    let text = format!("{HOSTS}networks: {{lan: {{members: [h-*], medium: switched}}}}\n");
    let own = lab(&text, &Given::default()).unwrap();
    assert_eq!(own.management("one"), None);
    let document = Document::at(&own, TimeSpan::from_ns(0)).unwrap();
    let json = serde_json::to_string(&document).unwrap();
    assert!(!json.contains("management"), "{json}");
}
