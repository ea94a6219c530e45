//! Steps far from the start: found without those before them, the same as by walking there.

use crate::common;

use common::*;
use constel_orbit::WalkerKind;
use constel_topology::{
    CutReason, Effort, Failure, FailureTarget, FailureTime, GslPolicy, GslSpec, Layout, NodeId,
    PlainPolicy, Spec, Station, StepRefusal, Stepper, Terminal, Waypoint,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const DAY: u64 = 86_400 * SECOND;

fn remembering() -> impl Strategy<Value = GslPolicy> {
    prop_oneof![
        (1.0..40.0_f64).prop_map(|gain_deg| GslPolicy::Hysteresis { gain_deg }),
        Just(GslPolicy::Plain(PlainPolicy::LongestVisible)),
        Just(GslPolicy::Plain(PlainPolicy::Nearest)),
        (2_u64..30, any::<bool>()).prop_map(|(s, late)| GslPolicy::Scheduler {
            period_ns: s * SECOND,
            phase_ns: if late { s * SECOND / 2 } else { 0 },
        }),
        Just(GslPolicy::Plain(PlainPolicy::LeastLoaded)),
    ]
}

/// A stepper over a spec, and another.
fn two(spec: Spec, shells: Vec<Shell>) -> (Stepper, Stepper) {
    let sky = sky(shells);
    let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
    let stepper = || Stepper::new(layout.clone(), sky.clone());
    (stepper(), stepper())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// However few of the steps before were walked through: all of the snapshot is what stepping from 0 gives, and what
    /// follows it as well.
    #[test]
    fn a_far_step_is_what_walking_gives(
        (policy, others) in (remembering(), prop::option::of(remembering())),
        (planes, slots, altitude_km) in (2_u32..7, 3_u32..9, 500.0..3000.0_f64),
        places in prop::collection::vec((-60.0..60.0_f64, -180.0..180.0_f64), 1..4),
        (gateway, moves, breaks) in (any::<bool>(), any::<bool>(), any::<bool>()),
        (outage, make_before_break) in (0_u64..9, any::<bool>()),
        acquisition in 0_u64..20,
        (antennas, beams) in (1_u8..4, prop::option::of(1_u32..4)),
        step_ns in prop::sample::select(vec![100_000_000_u64, 1_000_000_000, 5_000_000_000]),
        at in prop::collection::vec(0_u64..2500, 3),
    ) {
        let mut shell = walker("w", WalkerKind::Delta, (planes * slots, planes, 1), 60.0, altitude_km);
        shell.constellation.lasers.acquisition_ns = acquisition * SECOND / 2;
        shell.constellation.beams = beams.and_then(NonZeroU32::new);
        let mut stations: Vec<Station> = places
            .iter()
            .enumerate()
            .map(|(i, (lat, lon))| station(&format!("g{i}"), *lat, *lon))
            .collect();
        stations[0].gateway = gateway;
        stations.iter_mut().for_each(|station| station.terminals[0].antennas = antennas);
        if moves {
            let point = |t_s: u64, off: f64| Waypoint {
                t_ns: t_s * SECOND,
                latitude_deg: places[0].0 + off,
                longitude_deg: places[0].1,
                altitude_m: 10_000.0,
            };
            stations[0].track = vec![point(0, 0.0), point(900, 9.0), point(3000, -9.0)];
        }
        let shells = vec![shell];
        let mut spec = spec(&shells, stations);
        spec.step_ns = step_ns;
        spec.rules[0].policy = policy;
        spec.rules[0].outage_ns = outage * SECOND / 4;
        spec.rules[0].make_before_break = make_before_break;
        if let Some(policy) = others {
            // Stations with a second terminal that chooses in its own way, beside those with one.
            spec.rules.push(GslSpec { policy, ..spec.rules[0] });
            for station in spec.stations.iter_mut().step_by(2) {
                station.terminals.push(Terminal {
                    rule: 1,
                    min_elevation_deg: Some(25.0),
                    ..Terminal::default()
                });
            }
        }
        if breaks {
            spec.failures = vec![Failure {
                name: "random".to_owned(),
                what: FailureTarget::Satellites { constellation: 0 },
                when: FailureTime::Random { mtbf_ns: 300 * SECOND, mttr_ns: 20 * SECOND },
            }];
        }
        let (mut walks, mut jumps) = two(spec, shells);
        let last = at.iter().max().unwrap() + 3;
        let walked: Vec<_> = (0..=last).map(|_| walks.advance()).collect();
        for step in at {
            let far = jumps.try_step(step, &mut Effort::unlimited()).unwrap();
            prop_assert_eq!(&far, &walked[step as usize], "step {}", step);
            for after in 1..=3 {
                prop_assert_eq!(&jumps.advance(), &walked[(step + after) as usize], "{} after", after);
            }
        }
    }

    /// A satellite that is used at some step is among those that may be.
    #[test]
    fn those_that_may_be_used_are_all_that_are(
        (planes, slots, altitude_km) in (2_u32..9, 3_u32..9, 400.0..20_000.0_f64),
        (lat, lon) in (-80.0..80.0_f64, -180.0..180.0_f64),
        mask in -5.0..60.0_f64,
        moves in any::<bool>(),
        (from_s, for_s) in (0_u64..3000, 1_u64..4000),
        looks in prop::sample::select(vec![1_u64, 2_000, 1_000_000]),
    ) {
        let mut shell = walker("w", WalkerKind::Delta, (planes * slots, planes, 1), 60.0, altitude_km);
        shell.constellation.min_elevation_deg = mask;
        let mut station = station("g", lat, lon);
        station.terminals[0].min_elevation_deg = Some(mask);
        if moves {
            let point = |t_s: u64, longitude_deg: f64| Waypoint {
                t_ns: t_s * SECOND,
                latitude_deg: lat,
                longitude_deg,
                altitude_m: 10_000.0,
            };
            station.track = vec![point(0, lon), point(2000, 0.0), point(5000, -lon)];
        }
        let shells = vec![shell];
        let mut spec = spec(&shells, vec![station]);
        spec.step_ns = 5 * SECOND;
        let (mut walks, looks_round) = two(spec, shells);
        let span = (from_s * SECOND, (from_s + for_s) * SECOND);
        let may = looks_round.may_use(span, looks, &mut Effort::unlimited()).unwrap();
        let first = from_s.div_ceil(5);
        let mut snapshot = walks.at_step(first);
        while snapshot.t_ns <= span.1 {
            for satellite in snapshot.beams.iter().flatten() {
                prop_assert!(may[0].contains(satellite), "{} at {} s", satellite, snapshot.t_ns / SECOND);
            }
            snapshot = walks.advance();
        }
    }
}

fn iridium_with(policy: GslPolicy, stations: Vec<Station>) -> Stepper {
    let shells = vec![iridium()];
    let mut spec = spec(&shells, stations);
    spec.step_ns = 10_000_000;
    spec.rules[0].policy = policy;
    spec.rules[0].outage_ns = 100_000_000;
    two(spec, shells).0
}

/// 3,162,240,000 steps of 10 ms lie before; a year's end costs no more than a question may, and what is found there does
/// not depend on from how far it was come to.
#[test]
fn a_year_of_steps_of_10_ms_is_not_walked_through() {
    for policy in [
        GslPolicy::Hysteresis { gain_deg: 10.0 },
        GslPolicy::Plain(PlainPolicy::LongestVisible),
    ] {
        let mut stepper = iridium_with(policy, cities());
        let step = 366 * DAY / 10_000_000;
        let mut effort = Effort::new(Effort::QUESTION, &|| true);
        let there = stepper.try_step(step, &mut effort).unwrap();
        assert!(there.serving.iter().all(Option::is_some), "{policy:?}");
        println!(
            "{policy:?}: {} of {}",
            effort.limit() - effort.left(),
            effort.limit()
        );
        let mut before = stepper.try_step(step - 500, &mut Effort::new(Effort::QUESTION, &|| true));
        for _ in 0..500 {
            before = Ok(stepper.advance());
        }
        assert_eq!(before.unwrap(), there, "{policy:?}");
    }
}

/// Stations that depend on each other's load never forget, as far as can be proved: that is reported at once, with the next step.
#[test]
fn what_cannot_be_found_is_refused_at_once() {
    let mut stepper = iridium_with(GslPolicy::Plain(PlainPolicy::LeastLoaded), cities());
    let mut effort = Effort::new(Effort::QUESTION, &|| true);
    let step = 366 * DAY / 10_000_000;
    let error = stepper.try_step(step, &mut effort).unwrap_err();
    assert_eq!(effort.left(), effort.limit(), "nothing was spent");
    let StepRefusal::TooFar { before_ns, key, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(key, "gsl.policy");
    assert!(error.to_string().contains("nearest"), "{error}");
    // The instant that it names can be computed.
    let step = before_ns / 10_000_000 - 1;
    let mut effort = Effort::new(Effort::QUESTION, &|| true);
    assert_eq!(stepper.try_step(step, &mut effort).unwrap().step, step);
}

#[test]
fn whoever_calls_it_off_is_heard_soon() {
    let mut stepper = iridium_with(GslPolicy::Plain(PlainPolicy::LeastLoaded), cities());
    let asked = AtomicU64::new(0);
    let wanted = || asked.fetch_add(1, Ordering::Relaxed) < 2;
    let mut effort = Effort::new(u64::MAX, &wanted);
    let error = stepper.try_step(10_000_000, &mut effort).unwrap_err();
    assert_eq!(error, StepRefusal::Unwanted);
    assert_eq!(asked.into_inner(), 3);
    // Random failures that happen all the time are passed through as patiently.
    let shells = vec![iridium()];
    let mut spec = spec(&shells, cities());
    spec.failures = vec![Failure {
        name: "flicker".to_owned(),
        what: FailureTarget::Satellites { constellation: 0 },
        when: FailureTime::Random {
            mtbf_ns: SECOND,
            mttr_ns: SECOND,
        },
    }];
    let mut stepper = two(spec, shells).0;
    let mut effort = Effort::new(100_000, &|| true);
    let error = stepper.try_step(366 * 86_400, &mut effort).unwrap_err();
    assert!(
        matches!(error, StepRefusal::TooManyFailures { .. }),
        "{error}"
    );
    let mut effort = Effort::new(u64::MAX, &|| false);
    let error = stepper.try_step(366 * 86_400, &mut effort).unwrap_err();
    assert_eq!(error, StepRefusal::Unwanted);
}

/// A year ahead, all that may rise do; satellites of low inclination are never seen from the pole.
#[test]
fn what_may_be_used_in_a_year_takes_no_longer_than_in_a_day() {
    let shells = vec![walker("low", WalkerKind::Delta, (40, 5, 1), 20.0, 550.0)];
    let stations = vec![station("equator", 0.0, 0.0), station("pole", 89.0, 0.0)];
    let spec = spec(&shells, stations);
    let stepper = two(spec, shells).0;
    let may = |days: u64| {
        let mut effort = Effort::new(4_100_000, &|| true);
        stepper
            .may_use((0, days * DAY), 4_000_000, &mut effort)
            .unwrap()
    };
    assert_eq!(may(366)[0].len(), 40);
    let month = may(30);
    assert_eq!(
        (month[0].len(), &month[1]),
        (40, &BTreeSet::<NodeId>::new())
    );
    let mut called_off = Effort::new(u64::MAX, &|| false);
    let cut = stepper.may_use((0, 30 * DAY), 4_000_000, &mut called_off);
    assert_eq!(cut, Err(CutReason::Unwanted));
}
