//! Changes of a running topology: another layout of the same shape, and antennas pointed by command.

use crate::common;

use common::*;
use constel_topology::{
    Cable, Failure, FailureTarget, FailureTime, GslPolicy, HOST, Host, Layout, NodeId, PlainPolicy,
    Spec, Stepper,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

fn failure(name: &str, nodes: &[&str], when: FailureTime) -> Failure {
    let nodes = nodes.iter().map(|name| (*name).to_owned()).collect();
    Failure {
        name: name.to_owned(),
        what: FailureTarget::Nodes(nodes),
        when,
    }
}

fn from(step: u64) -> FailureTime {
    FailureTime::Scheduled {
        from_ns: step * SECOND,
        until_ns: None,
    }
}

fn layout(change: impl FnOnce(&mut Spec)) -> (Arc<Layout>, Arc<constel_topology::OrbitSky>) {
    let shells = vec![iridium()];
    let mut spec = spec(&shells, cities());
    change(&mut spec);
    let sky = sky(shells);
    let layout = Layout::new(spec, &*sky).unwrap_or_else(|e| panic!("{e:?}"));
    (Arc::new(layout), sky)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A layout that was adopted gives the steps that it would have given from the start, if decisions do not remember.
    #[test]
    fn an_adopted_layout_is_in_force_from_the_next_step_on(
        at in 0_u64..12,
        rate in 1_u64..1_000,
        begins in 0_u64..15,
        mask_deg in 5.0..25.0_f64,
    ) {
        let (before, sky) = layout(|_| {});
        let (after, _) = layout(|spec| {
            spec.constellations[0].isl_class.rate_bps = NonZeroU64::new(rate * 1_000_000);
            spec.constellations[0].min_elevation_deg = mask_deg;
            spec.rules[0].policy = GslPolicy::Plain(PlainPolicy::HighestElevation);
            spec.failures = vec![
                failure("a", &["iridium-2-3"], from(begins)),
                failure("b", &["tokyo"], FailureTime::Random {
                    mtbf_ns: 4 * SECOND,
                    mttr_ns: 2 * SECOND,
                }),
            ];
        });
        let mut adopting = Stepper::new(before, sky.clone());
        let mut fresh = Stepper::new(Arc::clone(&after), sky);
        for step in 0..16 {
            if step == at {
                adopting.adopt(Arc::clone(&after));
            }
            let (is, would) = (adopting.advance(), fresh.advance());
            if step >= at {
                prop_assert_eq!(is, would, "step {}", step);
            }
        }
    }
}

#[test]
fn a_failure_by_command_stays_and_the_others_are_those_of_the_new_layout() {
    let by_hand = || failure("by hand", &[], FailureTime::Told);
    let (before, sky) = layout(|spec| {
        spec.failures = vec![failure("old", &["suva"], from(0)), by_hand()];
    });
    let (after, _) = layout(|spec| {
        spec.failures = vec![by_hand(), failure("new", &["nairobi"], from(0))];
    });
    let id = |name: &str| before.find(name).unwrap().id;
    let mut stepper = Stepper::new(Arc::clone(&before), sky);
    assert!(stepper.fail_also("by hand", &[id("tokyo"), id("london")], 0));
    let first = stepper.advance();
    assert_eq!(first.broken.node(id("tokyo")), Some(1));
    assert_eq!(first.broken.node(id("suva")), Some(0));
    stepper.adopt(Arc::clone(&after));
    let second = stepper.advance();
    let broken: Vec<_> = ["tokyo", "london", "suva", "nairobi"]
        .map(|name| second.broken.node(id(name)))
        .into();
    assert_eq!(broken, [Some(0), Some(0), None, Some(1)]);
    assert!(stepper.heal_from("by hand", &[id("tokyo")], 2 * SECOND));
    let third = stepper.advance();
    assert_eq!(third.broken.node(id("tokyo")), None);
    assert_eq!(third.broken.node(id("london")), Some(0));
    // A foreseen sky stays without failures.
    let mut foreseen = Stepper::new(Arc::clone(&before), sky_of()).foreseen();
    foreseen.adopt(after);
    assert_eq!(foreseen.advance().broken.node(id("nairobi")), None);
}

fn sky_of() -> Arc<constel_topology::OrbitSky> {
    sky(vec![iridium()])
}

#[test]
fn a_layout_with_another_node_or_cable_has_another_shape() {
    let (plain, _) = layout(|_| {});
    let (faster, _) = layout(|spec| spec.constellations[0].gsl_class.queue_bytes += 1_000);
    assert_eq!(plain.shape_differs(&faster), None);
    let (more, _) = layout(|spec| spec.stations.push(station("quito", -0.2, -78.5)));
    assert_eq!(plain.shape_differs(&more), Some("nodes"));
    let cable = |spec: &mut Spec, to: &str| {
        let host = |name: &str| Host {
            name: name.to_owned(),
            class: &HOST,
            latitude_deg: 0.0,
            longitude_deg: 0.0,
            altitude_m: 0.0,
            attach: None,
        };
        spec.hosts = vec![host("h"), host("i")];
        spec.cables = vec![Cable {
            a: "h".to_owned(),
            b: to.to_owned(),
            delay_ns: 1_000_000,
            class: class(),
        }];
    };
    let (one, _) = layout(|spec| cable(spec, "london"));
    let (other, _) = layout(|spec| cable(spec, "tokyo"));
    assert!(one.shape_differs(&other).is_some());
    assert_eq!(one.shape_differs(&one), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A pointed antenna has its satellite whenever the station can use it, and is dark otherwise, with every policy.
    #[test]
    fn a_pointed_antenna_has_its_satellite_or_none(
        policy in policies(),
        antennas in 1_u8..4,
        at in 0_u64..4,
        which in 0_usize..66,
        (dark, visible) in any::<(bool, bool)>(),
    ) {
        let (layout, sky) = layout(|spec| {
            spec.rules[0].policy = policy;
            spec.stations[0].terminals[0].antennas = antennas;
        });
        let place = layout.terminals()[0].beams.start;
        let first = Stepper::new(Arc::clone(&layout), sky.clone()).advance();
        // Most satellites are on the other side of the Earth.
        let any = NodeId(which as u32);
        let satellite = match visible {
            true => first.beams[place].unwrap_or(any),
            false => any,
        };
        let satellite = (!dark).then_some(satellite);
        let mut pointed = Stepper::new(Arc::clone(&layout), sky.clone());
        let mut plain = Stepper::new(Arc::clone(&layout), sky);
        for step in 0..8 {
            if step == at {
                pointed.point(BTreeMap::from([(place, satellite)]));
            }
            let (is, was) = (pointed.advance(), plain.advance());
            let own = layout.terminals()[0].beams.clone();
            if step < at {
                prop_assert_eq!(&is.beams, &was.beams);
                continue;
            }
            let lit: Vec<NodeId> = is.beams[own.clone()].iter().flatten().copied().collect();
            if dark {
                prop_assert!(lit.len() < usize::from(antennas), "{:?}", lit);
            }
            if antennas == 1 {
                prop_assert!(lit.iter().all(|own| Some(*own) == satellite), "{:?}", lit);
                let used = was.beams[own.clone()].first().copied().flatten();
                if used == satellite && satellite.is_some() {
                    // The policy itself uses it, so it can be used.
                    prop_assert_eq!(lit, Vec::from_iter(satellite));
                }
            }
        }
        // Without orders, the antenna follows its policy again: a policy without memory as if nothing had happened.
        pointed.point(BTreeMap::new());
        let (is, was) = (pointed.advance(), plain.advance());
        let memoryless = matches!(
            policy,
            GslPolicy::Plain(PlainPolicy::Nearest | PlainPolicy::HighestElevation)
        );
        if memoryless {
            prop_assert_eq!(is.beams, was.beams);
        }
    }
}

#[test]
fn another_policy_is_that_of_the_stations_named() {
    let (layout, _) = layout(|_| {});
    let id = |name: &str| layout.find(name).unwrap().id;
    let policy = GslPolicy::Hysteresis { gain_deg: 5.0 };
    let other = layout.with_policy(&[id("tokyo"), id("iridium-0-0")], policy);
    assert_eq!(layout.shape_differs(&other), None);
    let of = |name: &str| {
        let station = id(name).index() - other.satellite_count();
        let mut terminals = other.terminals().iter();
        let own = terminals.find(|terminal| terminal.station == station);
        other.spec().rules[own.unwrap().rule].policy
    };
    assert_eq!(of("tokyo"), policy);
    assert_eq!(of("london"), layout.spec().rules[0].policy);
}
