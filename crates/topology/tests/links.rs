//! Known facts about constellations, and laws every topology must keep.

use crate::common;

use common::*;
use constel_orbit::light_time_ns;
use constel_topology::{
    Down, GSL, IslKind, IslPattern, Layout, LinkReason, NodeId, Stepper, diff, why,
};

fn distance(s: &constel_topology::Snapshot, a: NodeId, b: NodeId) -> f64 {
    s.positions_itrf_m[a.index()].distance(s.positions_itrf_m[b.index()])
}

#[test]
fn iridium_has_the_published_geometry() {
    let mut stepper = stepper(vec![iridium()], cities());
    let layout = stepper.layout().clone();
    let snapshot = stepper.advance();
    // 11 to a plane at 780 km: 2 r sin(180/11) = 4,033 km, the "about 4,030 km" of the literature.
    let expected_m = 2.0 * (6_378_137.0 + 780e3) * (std::f64::consts::PI / 11.0).sin();
    assert!((expected_m - 4_033e3).abs() < 1e3);
    let intra = layout
        .isl_links()
        .iter()
        .filter(|l| l.kind == IslKind::IntraPlane);
    let mut count = 0;
    for link in intra {
        let (a, b) = (layout.port(link.a).node, layout.port(link.b).node);
        assert!((distance(&snapshot, a, b) - expected_m).abs() < 1.0);
        assert!(why(&layout, &snapshot, a, b).is_up());
        count += 1;
    }
    assert_eq!(count, 66);
    // Five pairs of adjacent planes, none across the seam.
    let inter = layout
        .isl_links()
        .iter()
        .filter(|l| l.kind == IslKind::InterPlane)
        .count();
    assert_eq!(inter, 55);
    assert!(layout.isl_links().iter().all(|l| l.kind != IslKind::Seam));
    let (a, b) = (
        layout.find("iridium-0-3").unwrap().id,
        layout.find("iridium-5-3").unwrap().id,
    );
    assert_eq!(why(&layout, &snapshot, a, b), LinkReason::Down(Down::Seam));
}

#[test]
fn polar_cutoff_switches_inter_plane_links_and_only_those() {
    let mut stepper = stepper(vec![iridium()], vec![]);
    let layout = stepper.layout().clone();
    let (mut cut, mut kept) = (0, 0);
    for step in (0..6000).step_by(600) {
        let snapshot = stepper.at_step(step);
        for link in layout.isl_links() {
            let (a, b) = (layout.port(link.a).node, layout.port(link.b).node);
            let far = [a, b]
                .iter()
                .map(|n| {
                    constel_topology::geocentric_latitude_deg(snapshot.positions_itrf_m[n.index()])
                        .abs()
                })
                .fold(0.0, f64::max);
            let up = snapshot.edge(link.a, link.b).is_some();
            assert_eq!(up, why(&layout, &snapshot, a, b).is_up());
            if link.kind == IslKind::IntraPlane || far <= 68.0 {
                assert!(up, "{}", why(&layout, &snapshot, a, b).describe(&layout));
                kept += 1;
            } else {
                assert!(!up);
                assert!(matches!(
                    why(&layout, &snapshot, a, b),
                    LinkReason::Down(Down::PolarCutoff { .. })
                ));
                cut += 1;
            }
        }
    }
    assert!(cut > 100 && kept > 100, "{cut} {kept}");
}

#[test]
fn edges_are_symmetric_and_delays_are_range_over_c() {
    let mut stepper = stepper(vec![starlink_shell1(), iridium()], cities());
    let layout = stepper.layout().clone();
    let snapshot = stepper.at_step(33);
    assert!(snapshot.edges.is_sorted_by_key(|e| (e.from, e.to)));
    let mut gsl = 0;
    for e in &snapshot.edges {
        let back = snapshot
            .edge(e.to, e.from)
            .expect("every edge has its opposite");
        assert_eq!(back.impairment, e.impairment);
        let (a, b) = (layout.port(e.from).node, layout.port(e.to).node);
        assert_eq!(
            e.impairment.delay.delay_ns,
            light_time_ns(distance(&snapshot, a, b))
        );
        assert_eq!(e.impairment.delay.t0_ns, 33 * SECOND);
        gsl += usize::from(e.class == &GSL);
    }
    assert_eq!(gsl, 2 * cities().len());
}

#[test]
fn no_link_passes_through_the_atmosphere() {
    // A 6-satellite plane at 780 km cannot see its neighbours: the line passes through the Earth.
    let shell = walker(
        "few",
        constel_orbit::WalkerKind::Delta,
        (12, 2, 0),
        60.0,
        780.0,
    );
    let mut stepper = stepper(vec![shell], vec![]);
    let layout = stepper.layout().clone();
    let snapshot = stepper.advance();
    assert!(snapshot.edges.is_empty());
    let link = layout
        .isl_links()
        .iter()
        .find(|l| l.kind == IslKind::IntraPlane)
        .unwrap();
    let reason = why(
        &layout,
        &snapshot,
        layout.port(link.a).node,
        layout.port(link.b).node,
    );
    assert!(
        matches!(reason, LinkReason::Down(Down::BeyondRange { .. })),
        "{reason:?}"
    );
    let mut shell = walker(
        "few",
        constel_orbit::WalkerKind::Delta,
        (12, 2, 0),
        60.0,
        780.0,
    );
    if let IslPattern::PlusGrid(g) = &mut shell.constellation.isl {
        g.max_range_m = 1e8;
    }
    let mut stepper = common::stepper(vec![shell], vec![]);
    let snapshot = stepper.advance();
    assert!(snapshot.edges.is_empty());
    let reason = why(
        stepper.layout(),
        &snapshot,
        layout.port(link.a).node,
        layout.port(link.b).node,
    );
    let LinkReason::Down(Down::LineOfSight { altitude_m, .. }) = reason else {
        panic!("{reason:?}")
    };
    // Chord of 60 degrees: r cos 30 - a.
    let expected = 7_158_137.0 * 30_f64.to_radians().cos() - 6_378_137.0;
    assert!(
        (altitude_m - expected).abs() < 1.0,
        "{altitude_m} {expected}"
    );
}

#[test]
fn delays_are_continuous_from_piece_to_piece() {
    let mut stepper = stepper(vec![starlink_shell1()], cities());
    let mut before = stepper.advance();
    let mut compared = 0;
    for _ in 0..20 {
        let after = stepper.advance();
        for e in &after.edges {
            let Some(old) = before.edge(e.from, e.to) else {
                continue;
            };
            let end = old.impairment.delay.at(after.t_ns);
            assert!(end.abs_diff(e.impairment.delay.delay_ns) <= 1);
            compared += 1;
        }
        before = after;
    }
    assert!(compared > 50_000);
}

#[test]
fn starlink_neighbours_stay_close_and_every_laser_is_used() {
    let mut stepper = stepper(vec![starlink_shell1()], vec![]);
    for step in [0, 1000, 2500] {
        let snapshot = stepper.at_step(step);
        assert_eq!(snapshot.edges.len(), 2 * 2 * 1584);
        let longest = snapshot
            .edges
            .iter()
            .map(|e| e.impairment.delay.delay_ns)
            .max()
            .unwrap();
        // 22 to a plane: 1,972 km intra-plane; adjacent planes of the 72 are nearer than that.
        assert!(longest < 6_700_000, "{longest}");
    }
}

#[test]
fn nearest_is_really_the_nearest_above_the_mask() {
    let mut stepper = stepper(vec![starlink_shell1(), iridium()], spread(40));
    let layout = stepper.layout().clone();
    for step in [0, 77, 1234] {
        let snapshot = stepper.at_step(step);
        for (s, serving) in snapshot.serving.iter().enumerate() {
            let station = NodeId((layout.satellite_count() + s) as u32);
            let lat = layout.spec().stations[s].latitude_deg.to_radians();
            let lon = layout.spec().stations[s].longitude_deg.to_radians();
            let site = constel_orbit::Site::new(&constel_orbit::Geodetic {
                latitude_rad: lat,
                longitude_rad: lon,
                height_m: 50.0,
            });
            let best = layout.nodes()[..layout.satellite_count()]
                .iter()
                .filter(|n| {
                    let mask = if n.name.starts_with("sl") {
                        25.0_f64
                    } else {
                        10.0
                    };
                    let look = site.look(snapshot.positions_itrf_m[n.id.index()]);
                    look.elevation_rad >= mask.to_radians()
                })
                .min_by(|a, b| {
                    distance(&snapshot, station, a.id)
                        .total_cmp(&distance(&snapshot, station, b.id))
                })
                .map(|n| n.id);
            assert_eq!(*serving, best, "step {step} station {s}");
        }
    }
}

#[test]
fn handover_takes_its_outage_and_moves_only_its_own_edges() {
    let shells = vec![starlink_shell1()];
    let mut spec = spec(&shells, cities());
    spec.rules[0].outage_ns = 2_500_000_000;
    let sky = sky(shells);
    let layout = std::sync::Arc::new(Layout::new(spec, &*sky).unwrap());
    let mut stepper = Stepper::new(layout.clone(), sky.clone());
    let mut before = stepper.advance();
    assert!(
        before.edges.iter().all(|e| e.impairment.up_from_ns == 0),
        "no outage at the start"
    );
    let mut handovers = 0;
    for _ in 0..120 {
        let after = stepper.advance();
        let delta = diff(&layout, &before, &after);
        handovers += delta.handovers.len();
        let touched = delta
            .added
            .iter()
            .map(|e| (e.from, e.to))
            .chain(delta.removed.iter().copied());
        for (from, to) in touched {
            assert!([from, to].iter().all(|p| layout.port(*p).class == &GSL));
            assert!(
                delta
                    .handovers
                    .iter()
                    .any(|h| { [from, to].contains(&layout.gsl_port(h.station)) })
            );
        }
        for h in &delta.handovers {
            let to = h.to.expect("somebody is always in view of these cities");
            let edge = after
                .edge(layout.gsl_port(h.station), layout.gsl_port(to))
                .unwrap();
            assert_eq!(edge.impairment.up_from_ns, after.t_ns + 2_500_000_000);
            assert!(!edge.usable_at(after.t_ns) && edge.usable_at(after.t_ns + 2_500_000_000));
            let told = why(&layout, &after, h.station, to);
            assert!(matches!(told, LinkReason::Acquiring { .. }), "{told:?}");
            let old = why(&layout, &after, h.station, h.from.unwrap());
            assert!(matches!(
                old,
                LinkReason::Down(Down::PolicyChose { .. } | Down::BelowMask { .. })
            ));
        }
        // From scratch, in the middle of outages too.
        let scratch = Stepper::new(layout.clone(), sky.clone()).at_step(after.step);
        assert!(scratch == after, "step {}", after.step);
        before = after;
    }
    assert!(handovers > 3, "{handovers}");
}

#[test]
fn a_delta_applied_gives_the_next_snapshot() {
    let mut stepper = stepper(vec![iridium()], cities());
    let layout = stepper.layout().clone();
    let mut before = stepper.at_step(100);
    for _ in 0..60 {
        let after = stepper.advance();
        let delta = diff(&layout, &before, &after);
        let mut table: std::collections::BTreeMap<_, _> =
            before.edges.iter().map(|e| ((e.from, e.to), *e)).collect();
        for key in &delta.removed {
            assert!(table.remove(key).is_some());
        }
        for e in &delta.added {
            assert!(table.insert((e.from, e.to), *e).is_none());
        }
        for e in &delta.changed {
            assert!(table.insert((e.from, e.to), *e).is_some());
        }
        assert_eq!(table.len(), after.edges.len());
        for e in &after.edges {
            let have = table[&(e.from, e.to)].impairment;
            for ahead in [0, SECOND / 3, SECOND] {
                let t = after.t_ns + ahead;
                assert_eq!(have.delay.at(t), e.impairment.delay.at(t));
            }
        }
        before = after;
    }
    // A snapshot has no changes to itself.
    assert!(diff(&layout, &before, &before).is_empty());
}

#[test]
fn a_lost_satellite_has_no_links_and_says_so() {
    struct Losing(std::sync::Arc<constel_topology::OrbitSky>);
    impl constel_topology::Sky for Losing {
        fn count(&self) -> usize {
            self.0.count()
        }
        fn positions_itrf_m(
            &self,
            t_ns: u64,
            out: &mut Vec<constel_orbit::DVec3>,
        ) -> Vec<constel_topology::NoPosition> {
            let mut lost = self.0.positions_itrf_m(t_ns, out);
            if t_ns >= 10 * SECOND {
                out[20] = constel_orbit::DVec3::NAN;
                lost.push(constel_topology::NoPosition {
                    satellite: 20,
                    t_ns,
                    reason: "gone".into(),
                });
            }
            lost
        }
    }
    let (layout, sky) = lab(vec![iridium()], cities());
    let mut stepper = Stepper::new(layout.clone(), std::sync::Arc::new(Losing(sky)));
    let edges_of = |s: &constel_topology::Snapshot| {
        layout
            .ports_of(NodeId(20))
            .iter()
            .map(|p| s.edges_from(p.id).len())
            .sum::<usize>()
    };
    let mut last = stepper.advance();
    for _ in 1..10 {
        assert!(edges_of(&last) > 0 && last.lost.is_empty());
        last = stepper.advance();
    }
    let after = stepper.advance();
    assert_eq!(edges_of(&after), 0);
    assert_eq!(after.lost.len(), 1);
    let told = why(&layout, &after, NodeId(20), NodeId(21)).describe(&layout);
    assert!(told.contains("has no position"), "{told}");
}
