//! Path series: the same paths as routing's, however they are computed.

use constel_plan::{Interval, Lab, Paths, Series, SeriesError, parse_pairs};
use constel_routing::{Graph, GroundTransit, Scratch};
use constel_scenario::{DiskFiles, parse, resolve};
use constel_topology::{NodeId, NodeKind};
use constel_units::TimeSpan;

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
        .filter(|n| n.kind == NodeKind::Ground)
        .map(|n| n.id)
        .collect();
    if satellite_ends {
        ends.extend([NodeId(0), NodeId(7)]);
    }
    let (mut stepper, mut paths, mut scratch) =
        (lab.stepper(), Paths::default(), Scratch::default());
    let (mut nodes, mut seen) = (Vec::new(), 0);
    for _ in 0..steps {
        let snapshot = stepper.advance();
        let graph = Graph::new(layout, &snapshot, GroundTransit::Never);
        paths.load(layout, &snapshot);
        for (slot, &to) in ends.iter().enumerate() {
            let tree = graph.tree(to, &mut scratch);
            paths.aim(slot, to);
            for &from in &ends {
                let found = paths.path(slot, from, to, &mut nodes);
                let theirs = graph.path(&tree, from);
                assert_eq!(
                    found.is_some(),
                    theirs.is_some(),
                    "{from} to {to} at {}",
                    snapshot.t_ns
                );
                let (Some(found), Some(theirs)) = (found, theirs) else {
                    continue;
                };
                seen += 1;
                assert_eq!(found.delay_ns, tree.distance_ns[from.index()]);
                assert_eq!(usize::from(found.hops), theirs.len());
                let hops: Vec<u32> = theirs.iter().map(|h| h.to.0).collect();
                assert_eq!(nodes[1..], hops, "{from} to {to} at {}", snapshot.t_ns);
            }
        }
    }
    assert!(seen > 0);
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
        Err(SeriesError::NoPair(_))
    ));
    assert!(matches!(read("london-london"), Err(SeriesError::Same(_))));
    assert!(matches!(read(""), Err(SeriesError::NoPair(_))));
    assert!(matches!(
        read("london-tokyo,,"),
        Err(SeriesError::NoPair(_))
    ));
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
