//! Coverage: what it says of stations and flows is what contacts and paths say.

use constel_analysis::{ContactPlan, Coverage, Interval, Series, parse_pairs};
use constel_plan::Lab;
use constel_scenario::{DiskFiles, parse, resolve};
use constel_topology::GSL;
use constel_units::TimeSpan;

fn lab_of(text: &str) -> Lab {
    let path = format!("{}/../../scenarios/x.yaml", env!("CARGO_MANIFEST_DIR"));
    let parsed = parse(&path, text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &DiskFiles::beside(&path)).unwrap_or_else(|e| panic!("{e}"));
    Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"))
}

/// A thin shell: stations are dark most of the time, and flows often have no path.
fn thin(outage: &str, isl: &str) -> String {
    format!(
        "constel: 1
name: thin
seed: 1
start: 2026-11-21T00:00:00Z
duration: 1 h
step: 1 s
constellations:
  s:
    walker: {{pattern: delta, inclination: 53 deg, satellites: 40, planes: 4, phasing: 1, altitude: 1200 km}}
    isl: {{{isl}}}
    gsl: {{min_elevation: 25 deg, handover: {{outage: {outage}}}, link: {{rate: 1 Mbit/s}}}}
ground:
  stations:
    a: {{latitude: 48 deg, longitude: 2 deg}}
    b: {{latitude: 40 deg, longitude: -74 deg}}
    pole: {{latitude: 90 deg, longitude: 0 deg}}
traffic:
  - {{name: ab, at: 10 s, for: 3000 s, ping: {{from: a, to: b}}}}
  - {{name: to-pole, at: 0 s, for: 10 s, ping: {{from: a, to: pole}}}}
"
    )
}

fn interval(lab: &Lab, from: i64, to: i64) -> Interval {
    let s = |n: i64| TimeSpan::from_ns(n * 1_000_000_000);
    Interval::new(lab, s(from), s(to), None).unwrap()
}

const GRID: &str = "pattern: plus-grid, link: {rate: 1 Mbit/s}";

#[test]
fn dark_time_is_what_contacts_leave() {
    for outage in ["0 s", "3500 ms"] {
        let lab = lab_of(&thin(outage, GRID));
        let interval = interval(&lab, 0, 3600);
        let contacts = ContactPlan::new(&lab, interval, 1);
        let coverage = Coverage::new(&lab, interval, true, 2);
        assert_eq!(coverage.samples, 3600);
        for cover in &coverage.stations {
            let id = lab.layout.find(&cover.station).unwrap().id;
            let mut spans: Vec<(u64, u64)> = contacts
                .contacts
                .iter()
                .filter(|c| c.class == &GSL && (c.a_node == id || c.b_node == id))
                .map(|c| (c.from_ns, c.to_ns))
                .collect();
            spans.sort_unstable();
            let (mut at, mut dark, mut longest, mut first) = (0, 0, 0, None);
            for (from, to) in spans
                .into_iter()
                .chain([(3_600_000_000_000, 3_600_000_000_000)])
            {
                if from > at {
                    first = first.or(Some(at as f64 / 1e9));
                    longest = longest.max(from - at);
                    dark += from - at;
                }
                at = to;
            }
            assert_eq!(
                cover.dark_s,
                dark as f64 / 1e9,
                "{} {outage}",
                cover.station
            );
            assert_eq!(
                cover.longest_dark_s,
                longest as f64 / 1e9,
                "{} {outage}",
                cover.station
            );
            assert_eq!(cover.first_dark_s, first, "{} {outage}", cover.station);
            assert_eq!(cover.in_view_max == Some(0), dark == 3_600_000_000_000);
        }
        let pole = coverage
            .stations
            .iter()
            .find(|s| s.station == "pole")
            .unwrap();
        assert_eq!(
            pole.dark_s, 3600.0,
            "53 degrees never rise 25 degrees over the pole"
        );
    }
}

/// Two shells that meet at a gateway only, which does not always see both, and a host behind it.
const TWO_SHELLS: &str = "constel: 1
name: two
seed: 1
start: 2026-11-21T00:00:00Z
duration: 1 h
step: 10 s
constellations:
  u:
    walker: {pattern: delta, inclination: 53 deg, satellites: 40, planes: 4, phasing: 1, altitude: 1200 km}
    isl: {pattern: plus-grid, link: {rate: 1 Mbit/s}}
    gsl: {min_elevation: 25 deg, link: {rate: 1 Mbit/s}}
  v:
    walker: {pattern: delta, inclination: 70 deg, satellites: 40, planes: 4, phasing: 1, altitude: 1200 km}
    isl: {pattern: plus-grid, link: {rate: 1 Mbit/s}}
    gsl: {min_elevation: 25 deg, link: {rate: 1 Mbit/s}}
ground:
  stations:
    gate: {latitude: 48 deg, longitude: 2 deg, gateway: true}
    b: {latitude: 40 deg, longitude: -74 deg}
  hosts:
    server: {latitude: 48 deg, longitude: 3 deg}
  cables:
    - {from: gate, to: server, delay: 1 ms, link: {rate: 1 Gbit/s}}
routing: {destinations: all}
traffic:
  - {name: across, at: 0 s, for: 3600 s, ping: {from: u-p00-s00, to: v-p00-s00}}
  - {name: to-server, at: 0 s, for: 3600 s, ping: {from: u-p00-s00, to: server}}
  - {name: b-to-server, at: 0 s, for: 3600 s, ping: {from: b, to: server}}
";

#[test]
fn flows_pass_gateways_and_cables_and_no_other_station() {
    let lab = lab_of(TWO_SHELLS);
    let whole = interval(&lab, 0, 3600);
    let coverage = Coverage::new(&lab, whole, false, 2);
    let pairs = parse_pairs(&lab, "u-p00-s00:v-p00-s00,u-p00-s00:server,b:server").unwrap();
    let series = Series::new(&lab, whole, pairs, false, 1).unwrap();
    for (flow, summary) in coverage.flows.iter().zip(&series.summaries) {
        assert_eq!(
            flow.path_s,
            10.0 * summary.with_path as f64,
            "{}",
            flow.flow
        );
        let always_or_never = [0.0, 3600.0].contains(&flow.path_s);
        assert!(!always_or_never, "{} {}", flow.flow, flow.path_s);
    }
}

#[test]
fn a_flow_has_a_path_when_the_series_has_one() {
    for isl in [GRID, "pattern: none"] {
        let lab = lab_of(&thin("0 s", isl));
        let whole = interval(&lab, 0, 3600);
        let coverage = Coverage::new(&lab, whole, false, 1);
        let pairs = parse_pairs(&lab, "a-b").unwrap();
        let series = Series::new(&lab, whole, pairs, true, 1).unwrap();
        let there = series.points[10..3010]
            .iter()
            .filter(|p| p.delay_ns.is_some())
            .count();
        let flow_of = |name: &str| coverage.flows.iter().find(|f| f.flow == name).unwrap();
        let flow = flow_of("ab");
        assert_eq!(
            (flow.requested_s, flow.path_s),
            (3000.0, there as f64),
            "{isl}"
        );
        assert_eq!(flow.path_ratio, Some(there as f64 / 3000.0));
        assert_eq!(flow_of("to-pole").path_ratio, Some(0.0));
        assert_eq!(flow_of("to-pole").first_without_s, Some(0.0));
    }
}

#[test]
fn threads_do_not_matter() {
    let lab = lab_of(&thin("2500 ms", GRID));
    let interval = interval(&lab, 7, 1507);
    let one = Coverage::new(&lab, interval, true, 1);
    for threads in [2, 3, 8] {
        assert_eq!(
            one,
            Coverage::new(&lab, interval, true, threads),
            "{threads}"
        );
    }
}

#[test]
fn the_bounded_look_spans_the_scenario_and_stays_small() {
    let lab = lab_of(&thin("2500 ms", GRID));
    let coverage = Coverage::bounded(&lab, 1).unwrap();
    assert_eq!((coverage.from_s, coverage.to_s), (0.0, 3600.0));
    assert!(
        (8..=600).contains(&coverage.samples),
        "{}",
        coverage.samples
    );
    // A year of steps of 10 ms: spread over all of it without outages, the beginning with a long one.
    for (outage, to_s) in [("0 s", 366.0 * 86_400.0), ("60 s", 6.0)] {
        let text = thin(outage, GRID)
            .replace("duration: 1 h", "duration: 366 d")
            .replace("step: 1 s", "step: 10 ms");
        let coverage = Coverage::bounded(&lab_of(&text), 1).unwrap();
        assert_eq!(coverage.to_s, to_s);
        assert!(coverage.samples <= 600, "{}", coverage.samples);
    }
}

/// Frames between two hosts without an edge go over a third: squares are reported, because their cells are easily forgotten.
#[test]
fn empty_cells_of_a_square_are_told() {
    let told = |csv: &str, name: &str| {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(folder.join(name), csv).unwrap();
        let text = format!(
            "constel: 1\nname: x\nstart: 2026-11-21T00:00:00Z\nduration: 10 s\n\
             ground: {{hosts: {{h: {{count: 3, latitude: 0 deg, longitude: 0 deg}}}}}}\n\
             networks: {{mesh: {{members: [h-*], law: {{matrix: {name}}}, link: {{rate: 1 Mbit/s}}}}}}\n"
        );
        let path = folder.join("x.yaml");
        let parsed = parse(path.to_str().unwrap(), &text).unwrap_or_else(|e| panic!("{e}"));
        let scenario =
            resolve(&parsed, &DiskFiles::in_folder(folder)).unwrap_or_else(|e| panic!("{e}"));
        let lab = Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"));
        constel_analysis::warnings(&lab, &[])
    };
    let holes = told(
        "delay_ms,h-0,h-1,h-2\nh-0,,5,\nh-1,5,,5\nh-2,5,5,\n",
        "holes.csv",
    );
    assert_eq!(holes.len(), 1, "{holes:?}");
    assert!(
        holes[0].starts_with("network mesh: 1 of 6 pairs of members have no edge"),
        "{holes:?}"
    );
    assert!(holes[0].contains("the first h-0 to h-2"), "{holes:?}");
    // As R writes it.
    let of_r = told(
        "\"\",\"h-0\",\"h-1\",\"h-2\"\n\"h-0\",0,5,NA\n\"h-1\",5,NA,5\n\"h-2\",5,5,0\n",
        "r.csv",
    );
    assert_eq!(of_r, holes);
    assert!(
        told(
            "delay_ms,h-0,h-1,h-2\nh-0,,5,5\nh-1,5,,5\nh-2,5,5,\n",
            "full.csv"
        )
        .is_empty()
    );
    // A table has the pairs that it means.
    assert!(told("from,to,delay_ms\nh-0,h-1,5\nh-1,h-2,5\n", "table.csv").is_empty());
}
