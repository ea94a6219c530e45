//! Failures, their times, and their reports; lasers that turn and take their time.

use crate::common;

use common::*;
use constel_topology::{
    CrossShell, Down, Failure, FailureTarget, FailureTime, IslKind, LaserPairing, Layout,
    LinkReason, Spec, Stepper, why,
};
use std::collections::BTreeMap;
use std::sync::Arc;

fn failure(name: &str, what: FailureTarget, when: FailureTime) -> Failure {
    Failure {
        name: name.to_owned(),
        what,
        when,
    }
}

const ALWAYS: FailureTime = FailureTime::Scheduled {
    from_ns: 0,
    until_ns: None,
};

fn between(from: u64, until: u64) -> FailureTime {
    FailureTime::Scheduled {
        from_ns: from * SECOND,
        until_ns: Some(until * SECOND),
    }
}

fn random(mtbf: u64, mttr: u64) -> FailureTime {
    FailureTime::Random {
        mtbf_ns: mtbf * SECOND,
        mttr_ns: mttr * SECOND,
    }
}

fn build(change: impl FnOnce(&mut Spec)) -> Stepper {
    let shells = vec![iridium()];
    let mut spec = spec(&shells, cities());
    change(&mut spec);
    let sky = sky(shells);
    let layout = Arc::new(Layout::new(spec, &*sky).unwrap_or_else(|e| panic!("{e:?}")));
    Stepper::new(layout, sky)
}

#[test]
fn a_failed_satellite_loses_everything_and_says_so() {
    let mut stepper = build(|spec| {
        let nodes = FailureTarget::Nodes(vec!["iridium-2-3".into(), "tokyo".into()]);
        spec.failures = vec![failure("storm-4", nodes, between(3, 6))];
    });
    let layout = stepper.layout().clone();
    let id = |name: &str| layout.find(name).unwrap().id;
    for step in 0..9 {
        let snapshot = stepper.advance();
        let broken = (3..6).contains(&step);
        let links = |name: &str| {
            layout
                .ports_of(id(name))
                .iter()
                .map(|p| snapshot.edges_from(p.id).len())
                .sum::<usize>()
        };
        assert_eq!(links("iridium-2-3") == 0, broken, "{step}");
        assert_eq!(links("tokyo") == 0, broken, "{step}");
        let reason = why(&layout, &snapshot, id("iridium-2-3"), id("iridium-2-4"));
        assert_eq!(
            reason.describe(&layout) == "down: failed by `storm-4`",
            broken
        );
        let reason = why(&layout, &snapshot, id("tokyo"), id("iridium-0-0"));
        assert_eq!(
            reason == LinkReason::Down(Down::Failed { failure: 0 }),
            broken
        );
    }
}

#[test]
fn a_regular_failure_begins_again_and_again() {
    let mut stepper = build(|spec| {
        let nodes = FailureTarget::Nodes(vec!["tokyo".into()]);
        let flaps = FailureTime::Regular {
            from_ns: 2 * SECOND,
            for_ns: SECOND,
            every_ns: 3 * SECOND,
        };
        spec.failures = vec![failure("flap", nodes, flaps)];
    });
    let broken = (0..9).map(|_| !stepper.advance().broken.nodes.is_empty());
    let broken: Vec<bool> = broken.collect();
    assert_eq!(
        broken,
        [2, 5, 8].iter().fold(vec![false; 9], |mut all, at| {
            all[*at] = true;
            all
        })
    );
    let bad = FailureTime::Regular {
        from_ns: 0,
        for_ns: SECOND,
        every_ns: SECOND,
    };
    let nodes = FailureTarget::Nodes(vec!["tokyo".into()]);
    let refused = build(|_| {})
        .layout()
        .with_failures(vec![failure("flap", nodes, bad)]);
    assert!(refused.is_err(), "it never ends");
}

/// Unforeseen losses of nodes: the sky is the same until the loss is reported, and without them from then on.
#[test]
fn a_failure_that_is_told_begins_when_it_is_told_to() {
    let plain = build(|_| {});
    let told = || {
        let nodes = FailureTarget::Nodes(vec!["iridium-2-3".into(), "tokyo".into()]);
        failure("machine b", nodes, FailureTime::Told)
    };
    let layout = plain.layout().with_failures(vec![told()]).unwrap();
    assert_eq!(layout.nodes().len(), plain.layout().nodes().len());
    let twice = layout.with_failures(vec![told()]);
    assert!(twice.is_err(), "its name is taken");
    let layout = Arc::new(layout);
    let mut stepper = Stepper::new(Arc::clone(&layout), sky(vec![iridium()]));
    let mut plain = plain;
    let gone = layout.find("iridium-2-3").unwrap().id;
    let edges_of = |edges: &[constel_topology::Edge]| {
        let own = |port| layout.port(port).node == gone;
        edges.iter().filter(|e| own(e.from) || own(e.to)).count()
    };
    for step in 0..6 {
        if step == 3 {
            assert!(!stepper.fail_from("machine c", 0), "nobody of that name");
            assert!(stepper.fail_from("machine b", 4 * SECOND));
            // The first report holds.
            assert!(stepper.fail_from("machine b", 5 * SECOND));
        }
        let (with, without) = (stepper.advance(), plain.advance());
        if step < 4 {
            assert_eq!(with.edges, without.edges, "{step}");
        } else {
            assert_eq!(edges_of(&with.edges), 0, "{step}");
            assert!(edges_of(&without.edges) > 0);
            assert_eq!(with.broken.nodes.len(), 2);
        }
    }
    let mut scheduled = build(|spec| {
        let nodes = FailureTarget::Nodes(vec!["tokyo".into()]);
        spec.failures = vec![failure("storm", nodes, ALWAYS)];
    });
    assert!(!scheduled.fail_from("storm", 0), "it has a time of its own");
}

/// Nodes that were removed come back one by one, and take others with them when they go again.
#[test]
fn nodes_of_a_failure_that_is_told_come_back_when_it_is_told() {
    let nodes = ["iridium-2-3", "iridium-2-4", "tokyo"];
    let layout = build(|_| {}).layout().clone();
    let target = FailureTarget::Nodes(nodes[..2].iter().map(|n| (*n).to_owned()).collect());
    let layout = layout.with_failures(vec![failure("machine b", target, FailureTime::Told)]);
    let layout = Arc::new(layout.unwrap());
    let mut stepper = Stepper::new(Arc::clone(&layout), sky(vec![iridium()]));
    let [first, second, third] = nodes.map(|name| layout.find(name).unwrap().id);
    assert!(
        !stepper.fail_also("machine c", &[third], 0) && !stepper.heal_from("machine c", &[], 0)
    );
    assert!(stepper.fail_from("machine b", SECOND));
    assert!(stepper.fail_also("machine b", &[third], 2 * SECOND));
    assert!(stepper.heal_from("machine b", &[first, third], 3 * SECOND));
    let broken = |stepper: &mut Stepper| {
        let broken = stepper.advance().broken.nodes;
        broken.iter().map(|(node, _)| *node).collect::<Vec<_>>()
    };
    assert_eq!(broken(&mut stepper), []);
    assert_eq!(broken(&mut stepper), [first, second]);
    assert_eq!(broken(&mut stepper), [first, second, third]);
    assert_eq!(broken(&mut stepper), [second]);
}

#[test]
fn planes_seams_poles_and_regions_break() {
    let hit = |what| {
        let mut stepper = build(|spec| spec.failures = vec![failure("f", what, ALWAYS)]);
        let snapshot = stepper.advance();
        let layout = stepper.layout().clone();
        let names: Vec<String> = snapshot
            .broken
            .nodes
            .iter()
            .map(|n| layout.node(n.0).name.clone())
            .collect();
        (names, snapshot, layout)
    };
    let plane = FailureTarget::Plane {
        constellation: 0,
        shell: 0,
        plane: 4,
    };
    let (names, ..) = hit(plane);
    assert_eq!(names.len(), 11);
    assert!(names.iter().all(|n| n.starts_with("iridium-4-")));
    let region = FailureTarget::Region {
        latitude_deg: 51.0,
        longitude_deg: 0.0,
        radius_m: 3e6,
        satellites: true,
        stations: true,
    };
    let (names, ..) = hit(region);
    assert!(names.contains(&"london".to_owned()) && !names.contains(&"tokyo".to_owned()));
    // 3,000 km round London is 5.5 % of the Earth; Iridium is dense there.
    assert!((2..8).contains(&names.len()), "{names:?}");
    let polar = FailureTarget::Polar {
        constellation: 0,
        beyond_deg: 60.0,
    };
    let (names, snapshot, layout) = hit(polar);
    assert!(names.is_empty());
    for link in layout.isl_links() {
        let beyond = [link.a, link.b].iter().any(|p| {
            let at = snapshot.positions_itrf_m[layout.port(*p).node.index()];
            constel_topology::geocentric_latitude_deg(at).abs() > 60.0
        });
        assert_eq!(snapshot.broken.link(link.number).is_some(), beyond);
        assert!(!beyond || snapshot.edge(link.a, link.b).is_none());
    }
}

/// Times of failure depend on the seed and the object alone.
#[test]
fn random_failures_do_not_depend_on_order() {
    let states = |failures: Vec<Failure>, seed: u64, from_scratch: bool| {
        let mut stepper = build(|spec| {
            spec.seed = seed;
            spec.failures = failures;
        });
        let layout = stepper.layout().clone();
        let mut all = BTreeMap::new();
        for step in 0..200 {
            let snapshot = if from_scratch {
                stepper.at_step(199 - step)
            } else {
                stepper.advance()
            };
            for (node, by) in &snapshot.broken.nodes {
                let by = layout.spec().failures[usize::from(*by)].name.clone();
                if by == "wear" {
                    all.insert((snapshot.step, layout.node(*node).name.clone()), by);
                }
            }
        }
        all
    };
    let wear = failure(
        "wear",
        FailureTarget::Satellites { constellation: 0 },
        random(300, 30),
    );
    let other = failure("other", FailureTarget::Stations, random(50, 5));
    let alone = states(vec![wear.clone()], 1, false);
    // 66 satellites broken a tenth of the time or less (all work at the start).
    assert!((300..1300).contains(&alone.len()), "{}", alone.len());
    assert_eq!(alone, states(vec![other.clone(), wear.clone()], 1, false));
    assert_eq!(
        alone,
        states(vec![wear.clone()], 1, true),
        "from scratch, backwards"
    );
    assert_ne!(alone, states(vec![wear], 2, false));
}

#[test]
fn bad_failures_are_all_named() {
    let shells = vec![iridium()];
    let mut spec = spec(&shells, cities());
    spec.failures = vec![
        failure("a", FailureTarget::Nodes(vec!["nobody".into()]), ALWAYS),
        failure("a", FailureTarget::Stations, ALWAYS),
        failure("b", FailureTarget::Seam { constellation: 7 }, ALWAYS),
        failure("c", FailureTarget::Stations, between(5, 5)),
    ];
    spec.constellations[0].lasers.pairing =
        LaserPairing::List(vec![("iridium-0-0".into(), "iridium-0-0".into())]);
    let errors = Layout::new(spec, &*sky(shells)).unwrap_err();
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "failure `a`: no node is called `nobody`",
            "failure `a`: another one has the same name",
            "failure `b`: no such constellation",
            "failure `c`: it has no time to happen",
            "iridium: `iridium-0-0` and `iridium-0-0` cannot be linked: both are the same",
        ]
    );
}

#[test]
fn lasers_take_their_time() {
    let run = |acquisition: u64| {
        let mut stepper = build(|spec| {
            spec.constellations[0].lasers.acquisition_ns = acquisition * SECOND;
        });
        let layout = stepper.layout().clone();
        let mut came = BTreeMap::new();
        let mut waits = Vec::new();
        for step in 0..1500_u64 {
            let snapshot = stepper.advance();
            if step == 700 {
                let scratch = Stepper::new(layout.clone(), sky(vec![iridium()])).at_step(step);
                assert_eq!(scratch, snapshot);
            }
            for link in layout.isl_links() {
                match snapshot.edge(link.a, link.b) {
                    None => {
                        came.insert(link.number, None);
                    }
                    Some(edge) => {
                        let first = came.entry(link.number).or_insert(Some(0));
                        let since = *first.get_or_insert(step);
                        if since > 0 && edge.usable_at(snapshot.t_ns) {
                            waits.push(step - since);
                            came.insert(link.number, Some(0));
                        }
                    }
                }
            }
        }
        waits
    };
    let waits = run(8);
    assert!(
        waits.len() > 20 && waits.iter().all(|w| *w == 8),
        "{waits:?}"
    );
    assert!(run(0).iter().all(|w| *w == 0));
}

#[test]
fn slow_lasers_lose_links_near_the_poles_first() {
    let mut stepper = build(|spec| {
        spec.constellations[0].lasers.max_slew_deg_per_s = Some(0.1);
        if let constel_topology::IslPattern::PlusGrid(grid) = &mut spec.constellations[0].isl {
            grid.polar_cutoff_deg = 90.0;
        }
    });
    let layout = stepper.layout().clone();
    let snapshot = stepper.advance();
    let mut latitudes = (Vec::new(), Vec::new());
    for link in layout.isl_links() {
        let ends = [link.a, link.b].map(|p| layout.port(p).node);
        let latitude = ends.map(|n| {
            constel_topology::geocentric_latitude_deg(snapshot.positions_itrf_m[n.index()]).abs()
        });
        match (why(&layout, &snapshot, ends[0], ends[1]), link.kind) {
            // In a plane neighbours stand still in each other's frame.
            (reason, IslKind::IntraPlane) => assert!(reason.is_up(), "{reason:?}"),
            (LinkReason::Down(Down::SlewLimit { rate_deg_per_s, .. }), _) => {
                assert!(rate_deg_per_s > 0.1);
                latitudes.0.push(latitude[0].max(latitude[1]));
            }
            (reason, _) => {
                assert!(reason.is_up(), "{reason:?}");
                latitudes.1.push(latitude[0].max(latitude[1]));
            }
        }
    }
    let least = |v: &[f64]| v.iter().copied().fold(90.0, f64::min);
    assert!(
        latitudes.0.len() > 5 && latitudes.1.len() > 5,
        "{latitudes:?}"
    );
    assert!(least(&latitudes.0) > least(&latitudes.1), "{latitudes:?}");
}

#[test]
fn other_patterns_pair_as_they_say() {
    let links = |pairing: LaserPairing| {
        let stepper = build(|spec| spec.constellations[0].lasers.pairing = pairing);
        stepper.layout().clone()
    };
    let ring = links(LaserPairing::Ring);
    assert_eq!(ring.isl_links().len(), 66);
    assert!(
        ring.isl_links()
            .iter()
            .all(|l| l.kind == IslKind::IntraPlane)
    );
    for most in 1..=4 {
        let layout = links(LaserPairing::Nearest(most));
        let mut degree = vec![0; layout.satellite_count()];
        for link in layout.isl_links() {
            for port in [link.a, link.b] {
                degree[layout.port(port).node.index()] += 1;
            }
        }
        assert!(degree.iter().all(|d| *d <= most), "{degree:?}");
        assert!(
            degree.iter().map(|d| u32::from(*d)).sum::<u32>() as f64
                > 0.85 * 66.0 * f64::from(most)
        );
    }
    let pairs = vec![
        ("iridium-0-0".to_owned(), "iridium-3-5".to_owned()),
        ("iridium-1-1".to_owned(), "iridium-0-0".to_owned()),
    ];
    let list = links(LaserPairing::List(pairs.clone()));
    assert_eq!(list.isl_links().len(), 2);
    for (a, b) in pairs {
        let id = |name: &str| list.find(name).unwrap().id;
        assert!(list.isl_between(id(&a), id(&b)).is_some());
    }
}

#[test]
fn shells_are_joined() {
    let mut second = walker(
        "up",
        constel_orbit::WalkerKind::Star,
        (66, 6, 2),
        86.4,
        900.0,
    );
    second.constellation.min_elevation_deg = 8.0;
    let shells = vec![iridium(), second];
    let mut spec = spec(&shells, cities());
    spec.cross = vec![CrossShell {
        from: (0, 0),
        to: (1, 0),
        max_range_m: 3e6,
        clearance_m: 80e3,
        horizon_ns: 600 * SECOND,
        class: class(),
        acquisition_ns: 0,
    }];
    let sky = sky(shells);
    let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
    let cross: Vec<_> = layout
        .isl_links()
        .iter()
        .filter(|l| l.kind == IslKind::CrossShell)
        .collect();
    assert!(cross.len() > 60, "{}", cross.len());
    let mut used = std::collections::BTreeSet::new();
    for link in &cross {
        for port in [link.a, link.b] {
            assert_eq!(layout.port(port).name(), "isl4");
            assert!(used.insert(port), "a laser has one link");
        }
    }
    let mut stepper = Stepper::new(layout.clone(), sky);
    for step in [0, 300, 600] {
        let snapshot = stepper.at_step(step);
        let up = cross
            .iter()
            .filter(|l| snapshot.edge(l.a, l.b).is_some())
            .count();
        assert!(
            up * 10 > cross.len() * 9,
            "{up} of {} at {step}",
            cross.len()
        );
    }
}
