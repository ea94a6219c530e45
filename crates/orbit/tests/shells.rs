//! Sorting the real Starlink set of 2022-09-14 into shells, planes and slots.

use std::collections::BTreeSet;
use std::time::Instant;

use constel_orbit::shells::{LeftOutReason, PlaneRule, ShellSpec, SortError, Sorted, sort};
use constel_orbit::{
    DVec3, ElementSet, Satellite, Walker, WalkerKind, WalkerSpec, positions_itrf_m, tle,
};
use constel_units::{Angle, Length, TimeSpan, Utc};

fn starlink() -> Vec<ElementSet> {
    let text = include_str!("../../../scenarios/data/starlink-2022-09-14.tle");
    tle::parse(text).expect("good file")
}

fn at() -> Utc {
    "2022-09-14T12:00:00Z".parse().expect("valid instant")
}

fn three_days() -> TimeSpan {
    "3 d".parse().expect("valid span")
}

fn shell(name: &str, altitude_km: f64, inclination_deg: f64, planes: PlaneRule) -> ShellSpec {
    ShellSpec {
        name: name.to_owned(),
        altitude: Length::from_m(altitude_km * 1e3),
        altitude_tolerance: Length::from_m(5e3),
        inclination: Angle::from_deg(inclination_deg),
        inclination_tolerance: Angle::from_deg(0.1),
        planes,
    }
}

/// The shells that were operational that day.
fn shells() -> Vec<ShellSpec> {
    let gap = PlaneRule::Gap(Angle::from_deg(2.0));
    vec![
        shell("53.0", 547.0, 53.05, PlaneRule::Count(72)),
        shell("53.2", 540.0, 53.2, gap),
        shell("70", 570.0, 70.0, gap),
        shell("97.6", 560.0, 97.65, gap),
    ]
}

fn sorted() -> (Vec<ElementSet>, Sorted) {
    let sets = starlink();
    let sorted = sort(&sets, &shells(), at(), three_days()).expect("sortable");
    (sets, sorted)
}

#[test]
fn every_object_has_a_place_or_a_reason() {
    let (sets, sorted) = sorted();
    for (spec, found) in shells().iter().zip(&sorted.shells) {
        let satellites: u32 = found.planes.iter().map(|plane| plane.satellites).sum();
        println!(
            "shell {}: {satellites} satellites in {} planes, gaps {:.2} deg between, {:.2} inside",
            spec.name,
            found.planes.len(),
            found.narrowest_gap_rad.to_degrees(),
            found.widest_inner_gap_rad.to_degrees()
        );
    }
    println!(
        "{} kept, {} left out of {}",
        sorted.kept.len(),
        sorted.left_out.len(),
        sets.len()
    );
    let mut seen: Vec<usize> = sorted.kept.iter().map(|placed| placed.index).collect();
    seen.extend(sorted.left_out.iter().map(|left_out| left_out.index));
    seen.sort_unstable();
    assert_eq!(seen, (0..sets.len()).collect::<Vec<_>>());
    // In order of shell, plane, slot; slots count up from zero in order of motion.
    for pair in sorted.kept.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        assert!((a.shell, a.plane, a.slot) < (b.shell, b.plane, b.slot));
        if (a.shell, a.plane) == (b.shell, b.plane) {
            assert_eq!(a.slot + 1, b.slot);
            assert!(a.latitude_argument_rad <= b.latitude_argument_rad);
        } else {
            assert_eq!(b.slot, 0);
        }
    }
}

/// The file also lists debris of the launches and a passenger: none of it is on station.
#[test]
fn only_starlink_satellites_have_places() {
    let (sets, sorted) = sorted();
    let is_ours = |index: usize| {
        sets[index]
            .name()
            .is_some_and(|name| name.starts_with("STARLINK-"))
    };
    assert!(sorted.kept.iter().all(|placed| is_ours(placed.index)));
    assert_eq!(
        sorted
            .left_out
            .iter()
            .filter(|left_out| !is_ours(left_out.index))
            .count(),
        33
    );
}

/// The operator's filing: shell 1 has 72 planes 5 degrees apart.
#[test]
fn shell_1_has_its_72_planes() {
    let (_, sorted) = sorted();
    let planes = &sorted.shells[0].planes;
    assert_eq!(planes.len(), 72);
    for pair in planes.windows(2) {
        let apart_deg = (pair[1].raan_rad - pair[0].raan_rad).to_degrees();
        assert!((apart_deg - 5.0).abs() < 0.1, "{apart_deg}");
    }
    let satellites: Vec<u32> = planes.iter().map(|plane| plane.satellites).collect();
    assert!(
        satellites.iter().all(|count| (15..=25).contains(count)),
        "{satellites:?}"
    );
    assert!(
        planes
            .iter()
            .all(|plane| plane.spread_rad < 1f64.to_radians())
    );
}

/// Places are physical: everyone in a plane really is in the plane through the Earth's centre.
#[test]
fn slots_lie_in_their_plane() {
    let (_, sorted) = sorted();
    let state = |satellite: &Satellite| satellite.teme(at()).expect("propagates");
    for pair in sorted
        .kept
        .windows(2)
        .filter(|pair| (pair[0].shell, pair[0].plane) == (pair[1].shell, pair[1].plane))
    {
        let (a, b) = (state(&pair[0].satellite), state(&pair[1].satellite));
        let normal = |state: &constel_orbit::TemeState| -> DVec3 {
            state
                .position_teme_m
                .cross(state.velocity_teme_m_per_s)
                .normalize()
        };
        let tilt_deg = normal(&a)
            .dot(normal(&b))
            .clamp(-1.0, 1.0)
            .acos()
            .to_degrees();
        assert!(tilt_deg < 0.8, "{tilt_deg}");
        // Forward along the motion from slot to slot.
        let turned = a.position_teme_m.cross(b.position_teme_m).dot(normal(&a));
        let ahead = a.position_teme_m.dot(b.position_teme_m);
        let angle = turned.atan2(ahead).rem_euclid(std::f64::consts::TAU);
        let by_slots = pair[1].latitude_argument_rad - pair[0].latitude_argument_rad;
        assert!(
            (angle - by_slots).abs() < 0.02 || by_slots < 0.02,
            "{angle} {by_slots}"
        );
    }
}

/// Without moving the nodes to one instant, planes would smear by degrees.
#[test]
fn planes_stand_at_any_instant() {
    let sets = starlink();
    let members = |sorted: &Sorted| -> BTreeSet<BTreeSet<usize>> {
        let mut planes = vec![BTreeSet::new(); sorted.shells[0].planes.len()];
        for placed in sorted.kept.iter().filter(|placed| placed.shell == 0) {
            planes[placed.plane as usize].insert(placed.index);
        }
        planes.into_iter().collect()
    };
    let now = sort(&sets, &shells(), at(), three_days()).expect("sortable");
    let later = at() + "20 h".parse().expect("valid span");
    let then = sort(&sets, &shells(), later, three_days()).expect("sortable");
    assert_eq!(members(&now), members(&then));
}

#[test]
fn what_cannot_be_sorted_is_refused() {
    let sets = starlink();
    let errors = |specs: &[ShellSpec]| {
        sort(&sets, specs, at(), three_days())
            .expect_err("refused")
            .errors
    };
    // 53.2 had 48 planes that day: 72 are not there to be found.
    let wrong = shell("53.2", 540.0, 53.2, PlaneRule::Count(72));
    let found = errors(std::slice::from_ref(&wrong));
    assert!(
        matches!(found[0], SortError::UnclearPlanes { planes: 72, .. }),
        "{found:?}"
    );
    let none = shell("none", 2000.0, 10.0, PlaneRule::Count(3));
    let found = errors(&[none, wrong]);
    assert!(
        matches!(found[0], SortError::TooFewSatellites { satellites: 0, .. }),
        "{found:?}"
    );
    assert_eq!(found.len(), 2, "all at once");
    let nonsense = ShellSpec {
        altitude_tolerance: Length::from_m(0.0),
        ..shell("x", 547.0, 53.0, PlaneRule::Count(1))
    };
    let found = errors(&[nonsense, shell("y", 547.0, 53.0, PlaneRule::Count(0))]);
    assert_eq!(found.len(), 2);
    assert!(
        found
            .iter()
            .all(|error| matches!(error, SortError::BadShell { .. }))
    );
}

#[test]
fn reasons_are_the_true_ones() {
    let mut sets = starlink();
    sets.push(sets[0].clone());
    let specs = shells();
    let sorted = sort(&sets, &specs, at(), "12 h".parse().expect("valid")).expect("sortable");
    let count = |wanted: fn(&LeftOutReason) -> bool| {
        sorted
            .left_out
            .iter()
            .filter(|left_out| wanted(&left_out.reason))
            .count()
    };
    assert_eq!(
        count(|reason| matches!(reason, LeftOutReason::Superseded { index: 0 })),
        1
    );
    assert!(count(|reason| matches!(reason, LeftOutReason::NoShell { .. })) > 300);
    let stale = count(|reason| matches!(reason, LeftOutReason::Stale { .. }));
    assert!(stale > 0);
    for left_out in &sorted.left_out {
        match &left_out.reason {
            LeftOutReason::Stale { age, .. } => assert!(age.seconds() > 12.0 * 3600.0),
            LeftOutReason::NoShell {
                altitude_km,
                inclination_deg,
            } => {
                assert!(specs.iter().all(|spec| {
                    (altitude_km * 1e3 - spec.altitude.m()).abs() > 5e3
                        || (inclination_deg - spec.inclination.deg()).abs() > 0.1
                }));
            }
            _ => {}
        }
    }
}

/// `cargo test --release -p constel-orbit -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn bench_positions_of_4408_satellites() {
    let sets = starlink();
    let sgp4: Vec<Satellite> = sets
        .iter()
        .cycle()
        .filter_map(|set| Satellite::from_elements(set).ok())
        .take(4408)
        .collect();
    let walker = Walker::new(WalkerSpec {
        kind: WalkerKind::Delta,
        inclination: Angle::from_deg(53.0),
        satellites: 4408,
        planes: 76,
        phasing: 1,
        altitude: Length::from_m(550e3),
        raan0: Angle::from_deg(0.0),
        plane_spacing: None,
        epoch: at(),
    })
    .expect("valid");
    let circular: Vec<Satellite> = walker
        .satellites()
        .into_iter()
        .map(|satellite| satellite.orbit.into())
        .collect();
    for (name, satellites) in [("SGP4", &sgp4), ("Walker", &circular)] {
        assert_eq!(satellites.len(), 4408);
        let mut positions = Vec::new();
        let mut times: Vec<f64> = (0..200)
            .map(|step| {
                let instant = at() + TimeSpan::from_ns(step * 1_000_000_000);
                let started = Instant::now();
                let failures = positions_itrf_m(satellites, instant, &mut positions);
                std::hint::black_box((&failures, &positions));
                started.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!(
            "{name}: 4408 satellites, p50 {:.3} ms, p99 {:.3} ms",
            times[100], times[198]
        );
    }
    let started = Instant::now();
    let parsed = starlink().len();
    println!(
        "parsing {parsed} element sets: {:.1} ms",
        started.elapsed().as_secs_f64() * 1e3
    );
    let started = Instant::now();
    let kept = sort(&sets, &shells(), at(), three_days())
        .expect("sortable")
        .kept
        .len();
    println!(
        "sorting them, {kept} kept: {:.1} ms",
        started.elapsed().as_secs_f64() * 1e3
    );
}
