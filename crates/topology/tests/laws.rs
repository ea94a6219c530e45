//! Laws that hold for every constellation, station and moment.

use crate::common;

use common::*;
use constel_orbit::{WalkerKind, grazing_altitude_m, light_time_ns};
use constel_topology::{GSL, IslPattern, Layout, Stepper, diff, why};
use proptest::prelude::*;
use std::sync::Arc;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_topology_keeps_the_laws(
        star in any::<bool>(),
        (planes, slots) in (1_u32..9, 1_u32..13),
        phasing in 0_u32..9,
        inclination in 30.0..100.0_f64,
        altitude_km in 300.0..2000.0_f64,
        cutoff in 40.0..90.0_f64,
        mask in 0.0..40.0_f64,
        max_range in 1e6..1e7_f64,
        outage_ns in 0_u64..5_000_000_000,
        step_ns in prop::sample::select(vec![100_000_000_u64, 1_000_000_000, 1_500_000_000]),
        stations in prop::collection::vec((-90.0..90.0_f64, -180.0..180.0_f64), 0..6),
        at in 0_u64..5000,
    ) {
        let kind = if star { WalkerKind::Star } else { WalkerKind::Delta };
        let mut shell =
            walker("w", kind, (planes * slots, planes, phasing % planes), inclination, altitude_km);
        shell.constellation.min_elevation_deg = mask;
        if let IslPattern::PlusGrid(grid) = &mut shell.constellation.isl {
            grid.polar_cutoff_deg = cutoff;
            grid.max_range_m = max_range;
        }
        let stations: Vec<_> = stations
            .iter()
            .enumerate()
            .map(|(i, (lat, lon))| station(&format!("g{i}"), *lat, *lon))
            .collect();
        let shells = vec![shell];
        let mut spec = spec(&shells, stations);
        spec.step_ns = step_ns;
        spec.rules[0].outage_ns = outage_ns;
        let sky = sky(shells);
        let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
        let mut stepper = Stepper::new(layout.clone(), sky.clone());
        // Not from 0, to save time: stepping on from a step computed from scratch.
        let mut before = stepper.at_step(at);
        for _ in 0..6 {
            let snapshot = stepper.advance();
            // From scratch equals stepping, to the bit.
            let scratch = Stepper::new(layout.clone(), sky.clone()).at_step(snapshot.step);
            prop_assert_eq!(&scratch, &snapshot);
            prop_assert!(snapshot.edges.windows(2).all(|w| (w[0].from, w[0].to) < (w[1].from, w[1].to)));
            for e in &snapshot.edges {
                let back = snapshot.edge(e.to, e.from).expect("its opposite");
                prop_assert_eq!(&back.impairment, &e.impairment);
                let (p, q) = (layout.port(e.from), layout.port(e.to));
                let (a, b) =
                    (snapshot.positions_itrf_m[p.node.index()], snapshot.positions_itrf_m[q.node.index()]);
                prop_assert_eq!(e.impairment.delay.delay_ns, light_time_ns(a.distance(b)));
                if p.class == &GSL {
                    prop_assert_eq!(q.class, &GSL);
                    prop_assert!(p.node.index() < layout.satellite_count() || snapshot.edges_from(p.id).len() == 1);
                } else {
                    prop_assert_eq!(snapshot.edges_from(p.id).len(), 1, "a laser has one link");
                    prop_assert!(grazing_altitude_m(a, b) >= 80e3, "through the atmosphere");
                    prop_assert!(a.distance(b) <= max_range);
                }
                prop_assert!(!matches!(why(&layout, &snapshot, p.node, q.node), constel_topology::LinkReason::Down(_)));
                if let Some(old) = before.edge(e.from, e.to) {
                    let end = old.impairment.delay.at(snapshot.t_ns);
                    prop_assert!(end.abs_diff(e.impairment.delay.delay_ns) <= 1);
                }
            }
            // The reason for a link's absence is never "up".
            for link in layout.isl_links() {
                let (a, b) = (layout.port(link.a).node, layout.port(link.b).node);
                prop_assert_eq!(snapshot.edge(link.a, link.b).is_some(), why(&layout, &snapshot, a, b).is_up());
            }
            let delta = diff(&layout, &before, &snapshot);
            prop_assert_eq!(
                before.edges.len() + delta.added.len() - delta.removed.len(),
                snapshot.edges.len()
            );
            before = snapshot;
        }
    }
}
