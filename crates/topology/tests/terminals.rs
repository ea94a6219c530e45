//! Stations with several terminals: each for its own constellations, with its own mask and rule.

use crate::common;

use common::*;
use constel_orbit::WalkerKind;
use constel_topology::{
    Down, GSL, GslSpec, Layout, LinkReason, NodeId, Operators, Snapshot, Station, Stepper,
    Terminal, diff, why,
};
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::sync::Arc;

fn rules() -> impl Strategy<Value = GslSpec> {
    (policies(), 0_u64..4, any::<bool>()).prop_map(|(policy, outage_s, make_before_break)| {
        GslSpec {
            policy,
            outage_ns: outage_s * SECOND,
            make_before_break,
        }
    })
}

/// All or some of three constellations.
fn operators() -> impl Strategy<Value = Operators> {
    prop_oneof![
        Just(Operators::All),
        prop::collection::btree_set(0_u16..3, 1..3).prop_map(Operators::Only),
    ]
}

fn terminals() -> impl Strategy<Value = Vec<Terminal>> {
    let terminal = (
        operators(),
        prop::option::of(0.0..40.0_f64),
        1_u8..3,
        0_usize..3,
    );
    let terminal = terminal.prop_map(|(serves, min_elevation_deg, antennas, rule)| Terminal {
        serves,
        min_elevation_deg,
        antennas,
        rule,
    });
    prop::collection::vec(terminal, 1..4)
}

fn fleet() -> Vec<Shell> {
    let shell = |k: u32| {
        let altitude_km = 900.0 + 200.0 * f64::from(k);
        walker(
            &format!("k{k}"),
            WalkerKind::Delta,
            (120, 10, 1),
            60.0,
            altitude_km,
        )
    };
    (0..3).map(shell).collect()
}

/// Properties of every station's terminals at every step.
fn check(layout: &Layout, snapshot: &Snapshot, place: usize) -> Result<(), TestCaseError> {
    let spec = layout.spec();
    let station = &spec.stations[place];
    let node = layout.find(&station.name).unwrap().id;
    let laid = layout.terminals_of(place);
    prop_assert_eq!(laid.len(), station.terminals.len());
    let mut used = Vec::new();
    for (terminal, laid) in station.terminals.iter().zip(laid) {
        let rule = &spec.rules[terminal.rule];
        prop_assert_eq!(layout.port(laid.port).node, node);
        let links = snapshot.edges_from(laid.port);
        let most = laid.beams.len() * if rule.make_before_break { 2 } else { 1 };
        prop_assert!(
            links.len() <= most,
            "{} links of {} antennas",
            links.len(),
            laid.beams.len()
        );
        for edge in links {
            let satellite = layout.port(edge.to).node;
            let k = layout.node(satellite).seat.unwrap().constellation;
            prop_assert!(terminal.serves.has(k), "a terminal uses whom it is not for");
            used.push(satellite);
            let LinkReason::Up { elevation_deg, .. } = why(layout, snapshot, node, satellite)
            else {
                continue;
            };
            let own_deg = spec.constellations[usize::from(k)].min_elevation_deg;
            let mask_deg = terminal.min_elevation_deg.unwrap_or(own_deg);
            prop_assert!(elevation_deg.unwrap() >= mask_deg - 1e-9);
        }
        let own = &snapshot.beams[laid.beams.clone()];
        prop_assert!(own.is_sorted_by_key(|b| (b.is_none(), *b)));
    }
    let count = used.len();
    used.sort_unstable();
    used.dedup();
    prop_assert_eq!(used.len(), count, "one satellite, one link to a station");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn every_terminal_keeps_to_its_own_satellites_and_rule(
        stations in prop::collection::vec((terminals(), -55.0..55.0_f64, -180.0..180.0_f64), 1..5),
        rules in prop::collection::vec(rules(), 3),
        beams in prop::option::of(1_u32..3),
        at in 0_u64..200,
    ) {
        let mut shells = fleet();
        shells[0].constellation.beams = beams.and_then(NonZeroU32::new);
        let stations: Vec<Station> = stations
            .into_iter()
            .enumerate()
            .map(|(i, (terminals, lat, lon))| Station {
                terminals,
                ..station(&format!("g{i}"), lat, lon)
            })
            .collect();
        let mut spec = spec(&shells, stations);
        spec.rules = rules;
        let sky = sky(shells);
        let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
        let mut stepper = Stepper::new(layout.clone(), sky.clone());
        let mut before = stepper.at_step(at);
        for _ in 0..10 {
            let snapshot = stepper.advance();
            let scratch = Stepper::new(layout.clone(), sky.clone()).at_step(snapshot.step);
            prop_assert_eq!(&scratch, &snapshot, "from scratch");
            for place in 0..layout.spec().stations.len() {
                check(&layout, &snapshot, place)?;
            }
            for handover in diff(&layout, &before, &snapshot).handovers {
                prop_assert_eq!(layout.port(handover.port).node, handover.station);
                let laid = layout.terminals().iter().find(|t| t.port == handover.port).unwrap();
                let own = &snapshot.beams[laid.beams.clone()];
                prop_assert!(handover.to.is_none() || own.contains(&handover.to));
            }
            before = snapshot;
        }
    }

    /// A terminal for one constellation chooses by its rule as its station would if there were no other.
    #[test]
    fn another_operator_changes_nothing(
        (lat, lon) in (-55.0..55.0_f64, -180.0..180.0_f64),
        rules in prop::collection::vec(rules(), 3),
        at in 0_u64..200,
    ) {
        let serving = |ks: &[u16], rules: &[GslSpec]| {
            let shells = fleet();
            let terminals = ks.iter().enumerate().map(|(rule, k)| Terminal {
                serves: Operators::Only([*k].into()),
                rule,
                ..Terminal::default()
            });
            let here = Station { terminals: terminals.collect(), ..station("here", lat, lon) };
            let mut spec = spec(&shells, vec![here]);
            spec.rules = rules.to_vec();
            let sky = sky(shells);
            let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
            let mut stepper = Stepper::new(layout, sky);
            let mut seen = vec![stepper.at_step(at).beams];
            seen.extend((0..5).map(|_| stepper.advance().beams));
            seen
        };
        let together = serving(&[0, 1, 2], &rules);
        for k in 0..3 {
            let alone = serving(&[k as u16], &rules[k..=k]);
            let own: Vec<_> = together.iter().map(|beams| vec![beams[k]]).collect();
            prop_assert_eq!(own, alone);
        }
    }
}

/// A station with a terminal for each of two operators.
fn two() -> (Vec<Shell>, Station) {
    let shells = vec![
        walker("low", WalkerKind::Delta, (200, 10, 1), 60.0, 900.0),
        walker("high", WalkerKind::Star, (120, 10, 1), 87.0, 1400.0),
    ];
    let terminal = |k| Terminal {
        serves: Operators::Only([k].into()),
        ..Terminal::default()
    };
    let mut both = station("both", 50.0, 10.0);
    both.terminals = vec![terminal(0), terminal(1)];
    (shells, both)
}

#[test]
fn ports_mtus_and_transit_follow_terminals() {
    let (mut shells, both) = two();
    shells[1].constellation.gsl_class.mtu_bytes = 1400;
    let gateway = Station {
        name: "gateway".to_owned(),
        gateway: true,
        ..both.clone()
    };
    let mut only = station("only", 50.0, 11.0);
    only.terminals = vec![both.terminals[1].clone()];
    let (layout, _) = lab(shells, vec![both, gateway, only]);
    let of = |name: &str| {
        let node = layout.find(name).unwrap();
        let ports = layout.ports_of(node.id).iter();
        let ports: Vec<_> = ports.map(|p| (p.name(), p.class, p.mtu_bytes)).collect();
        (ports, layout.is_transit(node.id))
    };
    let (low, high) = (("gsl0", &GSL, 1500), ("gsl1", &GSL, 1400));
    assert_eq!(of("both"), (vec![low, high], false));
    assert_eq!(of("gateway"), (vec![low, high], true));
    assert_eq!(of("only"), (vec![("gsl0", &GSL, 1400)], false));
    let mtu = |satellite: &str| {
        let node = layout.find(satellite).unwrap().id;
        layout.port(layout.gsl_port(node)).mtu_bytes
    };
    assert_eq!((mtu("low-0-0"), mtu("high-0-0")), (1500, 1400));
}

#[test]
fn why_speaks_of_the_terminal_that_is_meant() {
    let (shells, both) = two();
    let mut only = station("only", 50.0, 10.0);
    only.terminals = vec![both.terminals[0].clone()];
    let mut stepper = stepper(shells, vec![both, only]);
    let layout = stepper.layout().clone();
    let snapshot = stepper.advance();
    let (both, only) = (
        layout.find("both").unwrap().id,
        layout.find("only").unwrap().id,
    );
    let laid = layout.terminals_of(0);
    let used = |terminal: usize| snapshot.beams[laid[terminal].beams.start].unwrap();
    let high = used(1);
    assert!(matches!(
        why(&layout, &snapshot, both, high),
        LinkReason::Up { .. }
    ));
    assert_eq!(
        why(&layout, &snapshot, only, high),
        LinkReason::Down(Down::NoTerminal { node: high })
    );
    let text = why(&layout, &snapshot, only, high).describe(&layout);
    assert!(
        text.contains("no terminal for the constellation of high-"),
        "{text}"
    );
    // Another of the second operator in sight: the terminal for it chose that one, not the first terminal's.
    let others = (0..layout.satellite_count() as u32).map(NodeId);
    let reasons = others
        .filter(|n| layout.node(*n).seat.unwrap().constellation == 1 && *n != high)
        .map(|n| why(&layout, &snapshot, both, n));
    let chose = reasons.filter(|r| matches!(r, LinkReason::Down(Down::PolicyChose { .. })));
    let chose: Vec<_> = chose.collect();
    assert!(!chose.is_empty());
    let own = LinkReason::Down(Down::PolicyChose { satellite: high });
    assert!(chose.iter().all(|reason| *reason == own), "{chose:?}");
}

#[test]
fn terminals_that_cannot_be_are_refused() {
    let (shells, both) = two();
    let sky_of = |shells: &[Shell]| shells.iter().flat_map(|s| s.orbits.clone()).collect();
    let sky = constel_topology::OrbitSky::new(start(), sky_of(&shells));
    let reasons = |change: &dyn Fn(&mut Station)| {
        let mut station = both.clone();
        change(&mut station);
        let errors = Layout::new(spec(&shells, vec![station]), &sky).unwrap_err();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        reasons(&|s| s.terminals.clear()),
        ["both: 0 terminals, allowed are 1 to 16"]
    );
    assert_eq!(
        reasons(&|s| s.terminals = vec![Terminal::default(); 17]),
        ["both: 17 terminals, allowed are 1 to 16"]
    );
    assert_eq!(
        reasons(&|s| s.terminals[0].rule = 1),
        ["both: a terminal chooses by no rule"]
    );
    for serves in [Operators::Only([].into()), Operators::Only([0, 2].into())] {
        assert_eq!(
            reasons(&|s| s.terminals[0].serves = serves.clone()),
            ["both: a terminal is for no constellation of this lab"]
        );
    }
    let errors = reasons(&|s| {
        s.terminals[1].antennas = 0;
        s.terminals[1].min_elevation_deg = Some(91.0);
    });
    assert_eq!(errors.len(), 2, "{errors:?}");
}
