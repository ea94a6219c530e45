//! Path series: the same paths as routing's, however they are computed.

use constel_analysis::{
    ContactPlan, Coverage, Interval, LANES, Paths, Series, SeriesError, parse_pairs,
};
use constel_plan::Lab;
use constel_routing::{Graph, GroundTransit, Scratch};
use constel_scenario::{DiskFiles, parse, resolve};
use constel_topology::{Layout, NodeId, Snapshot};
use constel_units::TimeSpan;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn shipped(name: &str) -> String {
    std::fs::read_to_string(format!(
        "{}/../../scenarios/{name}.yaml",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

fn lab_of(text: &str) -> Lab {
    let path = format!("{}/../../scenarios/x.yaml", env!("CARGO_MANIFEST_DIR"));
    let parsed = parse(&path, text).unwrap_or_else(|e| panic!("{e}"));
    let scenario = resolve(&parsed, &DiskFiles::beside(&path)).unwrap_or_else(|e| panic!("{e}"));
    Lab::new(scenario).unwrap_or_else(|e| panic!("{e}"))
}

fn interval(lab: &Lab, from: i64, to: i64, every: i64) -> Interval {
    let s = |n: i64| TimeSpan::from_ns(n * 1_000_000_000);
    Interval::new(lab, s(from), s(to), Some(s(every))).unwrap()
}

/// Every station to every station and to a satellite, step after step: delays and nodes as routing has them.
fn same_as_routing(text: &str, steps: u64, satellite_ends: bool) {
    let lab = lab_of(text);
    let layout = &lab.layout;
    let mut ends: Vec<NodeId> = layout
        .nodes()
        .iter()
        .filter(|n| !n.class.flies)
        .map(|n| n.id)
        .collect();
    if satellite_ends {
        ends.extend([NodeId(0), NodeId(7)]);
    }
    let mut stepper = lab.stepper();
    let (mut paths, mut kept) = (Paths::default(), Kept::default());
    let mut left = steps;
    while left > 0 {
        // Now and then not as many as there is room for.
        let count = left.min(LANES as u64 - u64::from(left.is_multiple_of(5)));
        left -= count;
        let snapshots: Vec<Snapshot> = (0..count).map(|_| stepper.advance()).collect();
        compare(layout, &snapshots, &ends, &mut paths, &mut kept);
    }
    // Orbits of a minute leave few paths as they were.
    assert!(kept.times > ends.len() || lab.step_ns() > 1_000_000_000);
}

/// By two ends, the nodes of their path at the last instant looked at; and how often it stayed.
#[derive(Default)]
struct Kept {
    last: BTreeMap<(NodeId, NodeId), Vec<u32>>,
    times: usize,
}

/// All paths between `ends` at the instants of some snapshots: as [`Graph`] has them. There are some.
fn compare(
    layout: &Layout,
    snapshots: &[Snapshot],
    ends: &[NodeId],
    paths: &mut Paths,
    kept: &mut Kept,
) {
    let mut scratch = Scratch::default();
    let graphs: Vec<Graph> = snapshots
        .iter()
        .map(|s| Graph::new(layout, s, GroundTransit::Never))
        .collect();
    paths.clear();
    for snapshot in snapshots {
        paths.load(layout, snapshot);
    }
    let mut seen = 0;
    for (slot, &to) in ends.iter().enumerate() {
        let trees: Vec<_> = graphs.iter().map(|g| g.tree(to, &mut scratch)).collect();
        paths.aim(slot, to);
        for &from in ends {
            let mut next = 0;
            let last = kept.last.entry((from, to)).or_default();
            let first = last.get(1).map_or(u32::MAX, |n| *n);
            // Computed only now and then: the known paths of other pairs must suffice.
            let ask = (from.0 + to.0) % 3 > 0;
            let unchanged = ask.then(|| paths.unchanged(from, first)).flatten();
            let mut stays = true;
            paths.trace(from, |run, delays, nodes| {
                assert_eq!(run.start, next);
                next = run.end;
                for lane in run {
                    let theirs = graphs[lane].path(&trees[lane], from);
                    let at = format!("{from} to {to} at {}", snapshots[lane].t_ns);
                    let hops = theirs.map_or(Vec::new(), |hops| {
                        seen += 1;
                        let onward = hops.iter().map(|h| h.to.0);
                        std::iter::once(from.0).chain(onward).collect()
                    });
                    assert_eq!(nodes, hops, "{at}");
                    stays &= hops == *last && !hops.is_empty();
                    if let Some(unchanged) = unchanged {
                        assert_eq!(unchanged[lane], delays[lane], "{at}");
                    }
                    if lane + 1 == snapshots.len() {
                        last.clone_from(&hops);
                    }
                    let delay_ns = trees[lane].distance_ns[from.index()];
                    match hops.is_empty() {
                        true => assert_eq!(delays[lane], f64::INFINITY, "{at}"),
                        false => assert_eq!(delays[lane], delay_ns as f64, "{at}"),
                    }
                }
            });
            assert_eq!(next, snapshots.len());
            assert!(unchanged.is_none() || stays, "{from} to {to}");
            kept.times += usize::from(unchanged.is_some());
        }
    }
    assert!(seen > 0);
}

/// Some edges gone, one way or both, the others with delays of few values, so that ties are common and orders
/// change from one instant to the next.
fn shaken(snapshot: &Snapshot, seed: u64) -> Snapshot {
    let mut state = seed;
    let mut below = |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut shaken = snapshot.clone();
    shaken.edges.retain(|_| below(5) > 0);
    for edge in &mut shaken.edges {
        edge.impairment.delay.delay_ns = 1 + below(6);
    }
    shaken
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn paths_are_those_of_routing_whatever_the_delays(seeds in vec(vec(any::<u64>(), 1..=LANES), 1..4)) {
        let lab = lab_of(&shipped("iridium"));
        let all = lab.stepper().advance();
        let ends: Vec<NodeId> = [0, 7, 40].into_iter().chain(66..80).map(NodeId).collect();
        let (mut paths, mut kept) = (Paths::default(), Kept::default());
        for window in seeds {
            let snapshots: Vec<Snapshot> = window.iter().map(|seed| shaken(&all, *seed)).collect();
            compare(&lab.layout, &snapshots, &ends, &mut paths, &mut kept);
        }
    }
}

/// Two shells without a laser between them: only gateways lead from one to the other. Behind two of these are points
/// of presence.
const TWO_SHELLS: &str = "\
constel: 1
name: two-shells
seed: 1
start: 2026-11-21T00:00:00Z
duration: 10 min
step: 1 s
constellations:
  low:
    walker: {pattern: delta, inclination: 53 deg, satellites: 200, planes: 10, phasing: 1, altitude: 900 km}
    isl: {pattern: plus-grid, link: {rate: 200 Mbit/s}}
    gsl: {min_elevation: 10 deg, link: {rate: 100 Mbit/s}}
  high:
    walker: {pattern: delta, inclination: 60 deg, satellites: 120, planes: 10, phasing: 1, altitude: 1300 km}
    isl: {pattern: plus-grid, link: {rate: 200 Mbit/s}}
    gsl: {min_elevation: 10 deg, link: {rate: 100 Mbit/s}}
ground:
  stations:
    london: {latitude: 51.5 deg, longitude: -0.1 deg, gateway: true}
    tokyo: {latitude: 35.7 deg, longitude: 139.7 deg, gateway: true}
    lagos: {latitude: 6.5 deg, longitude: 3.4 deg}
    lima: {latitude: -12 deg, longitude: -77 deg}
    sydney: {latitude: -33.9 deg, longitude: 151.2 deg}
  hosts:
    frankfurt: {latitude: 50.1 deg, longitude: 8.7 deg}
    osaka: {latitude: 34.7 deg, longitude: 135.5 deg}
  cables:
    - {from: frankfurt, to: london, delay: 4 ms, link: {rate: 10 Gbit/s}}
    - {from: osaka, to: tokyo, delay: 3 ms, link: {rate: 10 Gbit/s}}
    - {from: osaka, to: frankfurt, delay: 60 ms, link: {rate: 10 Gbit/s}}
";

#[test]
fn paths_are_those_of_routing_through_gateways() {
    same_as_routing(TWO_SHELLS, 120, true);
}

#[test]
fn paths_are_those_of_routing_while_links_come_and_go() {
    same_as_routing(&shipped("iridium"), 700, true);
}

#[test]
fn paths_are_those_of_routing_in_a_large_shell() {
    same_as_routing(&shipped("starlink-shell1"), 40, false);
}

#[test]
fn paths_are_those_of_routing_with_jumps_of_a_minute() {
    let text = shipped("starlink-shell1")
        .replace("step: 1 s", "step: 60 s")
        .replace("duration: 60 s", "duration: 1 h");
    // The traffic of the scenario fits no steps of a minute, nor matters here.
    let text = &text[..text.find("traffic:").unwrap()];
    same_as_routing(text, 20, false);
}

#[test]
fn threads_do_not_matter() {
    let lab = lab_of(&shipped("iridium"));
    let of = |threads| {
        let pairs = parse_pairs(&lab, "all").unwrap();
        Series::new(&lab, interval(&lab, 2, 302, 1), pairs, true, threads).unwrap()
    };
    let one = of(1);
    assert_eq!(one.pairs.len(), 14 * 13 / 2);
    assert_eq!(one.points.len(), one.pairs.len() * 300);
    for threads in [2, 5] {
        assert_eq!(one, of(threads), "{threads}");
    }
    // Summaries are those of the points, and the same without them.
    let bare = Series::new(&lab, one.interval, one.pairs.clone(), false, 2).unwrap();
    assert!(bare.points.is_empty());
    assert_eq!(bare.summaries, one.summaries);
    for (p, summary) in one.summaries.iter().enumerate() {
        let points: Vec<_> = one.points.iter().skip(p).step_by(one.pairs.len()).collect();
        let delays: Vec<u64> = points
            .iter()
            .filter_map(|x| x.delay_ns)
            .map(u64::from)
            .collect();
        assert_eq!(summary.samples, 300);
        assert_eq!(summary.with_path, delays.len() as u64);
        assert_eq!(summary.delay_min_ns, delays.iter().min().copied());
        assert_eq!(summary.delay_max_ns, delays.iter().max().copied());
        assert_eq!(
            summary.changes,
            points.iter().filter(|x| x.changed).count() as u64
        );
    }
    assert!(one.summaries.iter().any(|s| s.changes > 0));
}

#[test]
fn pairs_are_read() {
    let lab = lab_of(&shipped("iridium"));
    let name = |id: NodeId| lab.layout.node(id).name.as_str();
    let read = |text| parse_pairs(&lab, text);
    let pairs = read("london-new-york, iridium-p00-s01:tokyo").unwrap();
    let names: Vec<_> = pairs.iter().map(|&(a, b)| (name(a), name(b))).collect();
    assert_eq!(
        names,
        [("london", "new-york"), ("iridium-p00-s01", "tokyo")]
    );
    assert!(matches!(
        read("london-atlantis"),
        Err(SeriesError::NoPair { .. })
    ));
    assert!(matches!(read("london-london"), Err(SeriesError::Same(_))));
    assert!(matches!(read(""), Err(SeriesError::NoPair { .. })));
    assert!(matches!(
        read("london-tokyo,,"),
        Err(SeriesError::NoPair { .. })
    ));
}

/// The fault of a pair: its unknown name with the nearest one, or, where nothing is known, the form.
#[test]
fn a_pair_with_an_unknown_name_says_which() {
    let lab = lab_of(&shipped("iridium"));
    for (text, wanted) in [
        (
            "tokio:london",
            "no node is called 'tokio'; nearest is 'tokyo'",
        ),
        (
            "london:tokio",
            "no node is called 'tokio'; nearest is 'tokyo'",
        ),
        (
            "tokio-new-york",
            "no node is called 'tokio'; nearest is 'tokyo'",
        ),
        (
            "new-york-tokio",
            "no node is called 'tokio'; nearest is 'tokyo'",
        ),
        (
            "tokio:lundon",
            "no node is called 'tokio'; nearest is 'tokyo'",
        ),
        (
            "iridium-p00-s01:tokio",
            "no node is called 'tokio'; nearest is 'tokyo'",
        ),
        ("xyzzy", "write A-B or A:B"),
        ("", "write A-B or A:B"),
    ] {
        let error = parse_pairs(&lab, text).unwrap_err().to_string();
        assert_eq!(error, format!("`{text}` is not a pair of nodes: {wanted}"));
    }
}

#[test]
fn too_much_is_refused_before_it_is_computed() {
    let lab = lab_of(&shipped("iridium"));
    let pairs = parse_pairs(&lab, "all").unwrap();
    let week = interval(&lab, 0, 40 * 86_400, 1);
    assert!(matches!(
        Series::new(&lab, week, pairs, true, 1),
        Err(SeriesError::TooMany { .. })
    ));
}

/// Members that start `away` have no edges in any answer about the scenario; a change by hand may bring them back.
#[test]
fn members_that_are_away_are_on_no_path() {
    let lab = lab_of(
        "constel: 1\nname: away\nstart: 2026-11-21T00:00:00Z\nduration: 10 s\nstep: 1 s\nrouting: {mode: computed}\n\
         ground: {hosts: {h: {count: 4, latitude: 0 deg, longitude: 0 deg}}}\n\
         networks:\n  one: {members: [h-0, h-1, h-2], away: [h-2], law: {range: 10 km}, link: {rate: 1 Mbit/s}}\n  \
         two: {members: [h-2, h-3], law: {range: 10 km}, link: {rate: 1 Mbit/s}}\n\
         traffic:\n  - {name: f, at: 1 s, for: 5 s, ping: {from: h-0, to: h-2}}\n",
    );
    let pairs = |names: &[&str]| -> Vec<(NodeId, NodeId)> {
        names
            .iter()
            .map(|name| parse_pairs(&lab, name).unwrap()[0])
            .collect()
    };
    let pairs = pairs(&["h-0:h-1", "h-0:h-2", "h-0:h-3", "h-2:h-3"]);
    let reached = |series: &Series| -> Vec<bool> {
        let delays = series.points.iter().map(|point| point.delay_ns.is_some());
        delays.take(4).collect()
    };
    let own = Series::new(&lab, interval(&lab, 0, 10, 1), pairs.clone(), true, 1).unwrap();
    assert_eq!(reached(&own), [true, false, false, true]);
    let all = interval(&lab, 0, 10, 1);
    let joined = Series::with_changes(&lab, all, pairs, true, 1, |_| None).unwrap();
    assert_eq!(
        reached(&joined),
        [true; 4],
        "by a join, h-2 is an end of edges again"
    );
    let contacts = ContactPlan::new(&lab, interval(&lab, 0, 10, 1), 1).contacts;
    assert_eq!(contacts.len(), 2, "h-0 to h-1, and h-2 to h-3");
    let coverage = Coverage::bounded(&lab, 1).unwrap();
    assert_eq!(coverage.flows[0].path_ratio, Some(0.0));
}
