//! Rings that have no nodes of their own, orbits that SGP4 makes nonsense of, and objects that share a number.

use constel_orbit::shells::{LeftOutReason, PlaneRule, ShellSpec, Sorted, as_they_are, sort};
use constel_orbit::{ElementSet, PropagationError, Satellite, omm};
use constel_units::{Angle, Length, TimeSpan, Utc};
use proptest::prelude::*;
use serde_json::json;

fn at() -> Utc {
    "2026-11-21T00:00:00Z".parse().expect("an instant")
}

fn days(days: f64) -> TimeSpan {
    TimeSpan::from_secs_f64(days * 86_400.0)
}

/// Elements in degrees and revolutions a day.
#[derive(Debug, Clone)]
struct Given {
    name: Option<String>,
    number: u64,
    epoch: &'static str,
    mean_motion: f64,
    eccentricity: f64,
    inclination: f64,
    node: f64,
    perigee: f64,
    anomaly: f64,
    drag: f64,
}

impl Given {
    fn new(number: u64, mean_motion: f64, inclination: f64) -> Self {
        Self {
            name: None,
            number,
            epoch: "2026-11-21T00:00:00",
            mean_motion,
            eccentricity: 1e-4,
            inclination,
            node: 0.0,
            perigee: 0.0,
            anomaly: 0.0,
            drag: 0.0,
        }
    }
}

fn sets(given: &[Given]) -> Vec<ElementSet> {
    let objects: Vec<serde_json::Value> = given
        .iter()
        .map(|own| {
            json!({
                "OBJECT_NAME": own.name, "NORAD_CAT_ID": own.number, "EPOCH": own.epoch,
                "MEAN_MOTION": own.mean_motion, "ECCENTRICITY": own.eccentricity, "INCLINATION": own.inclination,
                "RA_OF_ASC_NODE": own.node, "ARG_OF_PERICENTER": own.perigee, "MEAN_ANOMALY": own.anomaly,
                "BSTAR": own.drag,
            })
        })
        .collect();
    omm::parse(serde_json::Value::from(objects).to_string()).expect("good elements")
}

fn spec(altitude_km: f64, inclination_deg: f64) -> ShellSpec {
    ShellSpec {
        name: "ring".to_owned(),
        altitude: Length::from_m(altitude_km * 1e3),
        altitude_tolerance: Length::from_m(100e3),
        inclination: Angle::from_deg(inclination_deg),
        inclination_tolerance: Angle::from_deg(1.0),
        planes: PlaneRule::Count(1),
    }
}

fn sorted(given: &[Given], spec: ShellSpec) -> Sorted {
    sort(&sets(given), &[spec], at(), days(14.0)).expect("sortable")
}

/// The position of each satellite along the ring, by the order of slots, degrees eastward.
fn longitudes_deg(sorted: &Sorted) -> Vec<f64> {
    let longitude = |satellite: &Satellite| {
        let p = satellite.teme(at()).expect("a state").position_teme_m;
        p.y.atan2(p.x).to_degrees().rem_euclid(360.0)
    };
    sorted
        .kept
        .iter()
        .map(|placed| longitude(&placed.satellite))
        .collect()
}

/// Whether the numbers go once round the circle, rising or falling.
fn once_round(longitudes_deg: &[f64], rising: bool) -> bool {
    let steps = longitudes_deg
        .iter()
        .zip(longitudes_deg.iter().cycle().skip(1));
    let sign = if rising { 1.0 } else { -1.0 };
    let sum: f64 = steps.map(|(a, b)| (sign * (b - a)).rem_euclid(360.0)).sum();
    (sum - 360.0).abs() < 1e-6
}

proptest! {
    /// A ring within 0.4 deg of the equator, prograde or retrograde, whatever its members' nodes: slots follow one another
    /// in space. A node's longitude says nothing there.
    #[test]
    fn slots_of_an_equatorial_ring_are_in_order(
        members in prop::collection::vec((0.0..0.4_f64, 0.0..360.0_f64, 0.0..360.0_f64), 3..24),
        motion in prop::sample::select(vec![1.0027, 2.0, 5.0]),
        retrograde: bool,
    ) {
        let many = members.len() as f64;
        let mut given = Vec::new();
        for (number, (tilt, node, perigee)) in (0_u32..).zip(members) {
            let place = f64::from(number * 7 % 24) * 360.0 / many.max(24.0);
            let inclination = if retrograde { 180.0 - tilt } else { tilt };
            let along = if retrograde { node - place } else { place - node };
            given.push(Given {
                node,
                perigee,
                anomaly: (along - perigee).rem_euclid(360.0),
                ..Given::new(u64::from(number) + 1, motion, inclination)
            });
        }
        let altitude_km = (398_600.8 / (motion * std::f64::consts::TAU / 86_400.0).powi(2)).cbrt() - 6378.137;
        let equator = if retrograde { 180.0 } else { 0.0 };
        let spec = ShellSpec { altitude_tolerance: Length::from_m(500e3), ..spec(altitude_km, equator) };
        let sorted = sorted(&given, spec);
        prop_assert_eq!(sorted.kept.len(), given.len());
        let longitudes = longitudes_deg(&sorted);
        prop_assert!(once_round(&longitudes, !retrograde), "{:?}", longitudes);
    }
}

/// In an inclined plane, members' nodes are some tenths of a degree apart. Two that fly close behind one another are in the order
/// in which they fly.
#[test]
fn slots_of_an_inclined_plane_are_in_order() {
    let given: Vec<Given> = [(10.0, 5.0), (10.6, 4.9), (9.4, 5.1), (10.0, 180.0)]
        .into_iter()
        .zip(1..)
        .map(|((node, anomaly), number)| Given {
            node,
            anomaly,
            ..Given::new(number, 15.05, 53.0)
        })
        .collect();
    let sorted = sorted(&given, spec(550.0, 53.0));
    // Along the plane: (node - mean node) * cos(53 deg) + anomaly, so 5, 5.26, 4.74 and 180 degrees.
    let order: Vec<usize> = sorted.kept.iter().map(|placed| placed.index).collect();
    assert_eq!(order, [2, 0, 1, 3]);
}

/// A satellite about to re-enter. Backwards in time the power series of drag throws it outward.
fn falling() -> Given {
    Given {
        epoch: "2026-11-28T00:00:00",
        drag: 0.05,
        ..Given::new(7, 16.2, 53.0)
    }
}

#[test]
fn a_place_that_the_orbit_does_not_reach_is_none() {
    let own = sets(&[falling()]);
    let satellite = Satellite::from_elements(&own[0]).expect("starts");
    let nominal_m = 6_378e3 + 250e3;
    let mut refused = 0;
    for hour in 0..(20 * 24) {
        let when = own[0].epoch() - TimeSpan::from_secs_f64(f64::from(hour) * 3600.0);
        match satellite.teme(when) {
            Ok(state) => {
                let radius_m = state.position_teme_m.length();
                assert!((radius_m - nominal_m).abs() < 800e3, "{hour} h: {radius_m}");
            }
            Err(error) => {
                refused += 1;
                assert!(
                    matches!(
                        error,
                        PropagationError::Implausible { .. }
                            | PropagationError::BeforePlausible { .. }
                    ),
                    "{error}"
                );
            }
        }
    }
    assert!(refused > 100, "{refused}");
    let one = sort(&own, &[spec(250.0, 53.0)], at(), days(14.0));
    let left_out = one.map_or_else(|unsorted| unsorted.left_out, |sorted| sorted.left_out);
    assert_eq!(left_out.len(), 1, "it flies in no shell");
}

#[test]
fn an_object_that_has_come_down_does_not_return() {
    for drag in [1e-4, 1e-3, 1e-2] {
        for motion in [15.6, 15.9, 16.2] {
            let own = sets(&[Given {
                drag,
                ..Given::new(8, motion, 53.0)
            }]);
            let satellite = Satellite::from_elements(&own[0]).expect("starts");
            let mut down = None;
            for day in 0..1400 {
                let when = own[0].epoch() + days(f64::from(day));
                match (satellite.teme(when), down) {
                    (Err(_), None) => down = Some(day),
                    (Ok(_), Some(fallen)) => {
                        panic!("{drag} {motion}: fell on day {fallen}, is back on day {day}")
                    }
                    _ => {}
                }
            }
            assert!(
                down.is_some() || drag < 1e-2,
                "{drag} {motion}: never falls"
            );
        }
    }
}

/// Drag lowers orbits. Before its epoch an object was therefore higher than at it, whatever the power series gives,
/// and no satellite flies below 80 km, on either side of the epoch.
#[test]
fn no_object_with_drag_was_lower_before_its_epoch_or_flies_below_80_km() {
    let mut refused = 0;
    for drag in [1e-5, 1e-4, 5e-4, 1e-3, 1e-2, 9e-2] {
        for motion in [14.0, 15.05, 15.5, 15.9, 16.2] {
            for inclination in [0.1, 53.0, 98.6] {
                let own = sets(&[Given {
                    drag,
                    ..Given::new(8, motion, inclination)
                }]);
                let satellite = Satellite::from_elements(&own[0]).expect("starts");
                let at_epoch = satellite.teme(own[0].epoch()).expect("at its epoch");
                let mut lost = false;
                for day in 1..1400 {
                    for sign in [-1.0, 1.0] {
                        let when = own[0].epoch() + days(sign * f64::from(day));
                        let Ok(state) = satellite.teme(when) else {
                            refused += 1;
                            lost |= sign < 0.0;
                            continue;
                        };
                        let from_centre_km = state.position_teme_m.length() / 1e3;
                        assert!(from_centre_km > 6356.7 + 80.0, "{drag} {motion} {day}");
                        if sign < 0.0 {
                            assert!(!lost, "{drag} {motion}: is back on day -{day}");
                            // Eccentricity and oblateness move a radius by less than 30 km, and 5 % are tolerated.
                            let epoch_km = at_epoch.position_teme_m.length() / 1e3;
                            let least_km = epoch_km - 30.0 - 0.05 * (epoch_km - 6378.0);
                            assert!(
                                from_centre_km > least_km,
                                "{drag} {motion}: {from_centre_km} km on day -{day}, {epoch_km} at its epoch"
                            );
                        }
                    }
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

/// The first instant without a position is found wherever it is in the interval.
#[test]
fn the_instant_of_coming_down_is_found() {
    let own = sets(&[Given {
        epoch: "2026-11-21T00:00:00",
        drag: 5e-3,
        ..Given::new(8, 16.45, 53.0)
    }]);
    let satellite = Satellite::from_elements(&own[0]).expect("starts");
    let epoch = own[0].epoch();
    let (down, _) = satellite
        .first_lost(epoch, epoch + days(1.0))
        .expect("falls within hours");
    let second = TimeSpan::from_secs_f64(1.0);
    assert!(satellite.teme(down).is_err());
    assert!(satellite.teme(down - second - second).is_ok());
    let before = down - TimeSpan::from_secs_f64(90.0);
    assert_eq!(satellite.first_lost(epoch, before), None);
    let late = satellite.first_lost(down + second, epoch + days(1.0));
    assert_eq!(late.map(|(at, _)| at), Some(down + second));
    // An orbit that stays is not searched, and a designed one never ends.
    let steady = sets(&[Given::new(9, 15.05, 53.0)]);
    let steady = Satellite::from_elements(&steady[0]).expect("starts");
    assert_eq!(steady.first_lost(epoch, epoch + days(300.0)), None);
}

/// Falling within weeks: the mean altitude at the requested instant is not that of the epoch, and the shell is left.
#[test]
fn an_object_that_sgp4_moves_out_of_its_shell_is_left_out() {
    let given = Given {
        epoch: "2026-11-16T00:00:00",
        drag: 0.01,
        ..Given::new(9, 15.9, 53.0)
    };
    let narrow = ShellSpec {
        altitude_tolerance: Length::from_m(10e3),
        ..spec(300.0, 53.0)
    };
    let unsorted = sort(&sets(&[given]), &[narrow], at(), days(14.0)).expect_err("nothing left");
    let reasons: Vec<_> = unsorted.left_out.iter().map(|out| &out.reason).collect();
    assert!(
        matches!(
            reasons[..],
            [LeftOutReason::MovedAway { .. } | LeftOutReason::Propagation(_)]
        ),
        "{reasons:?}"
    );
}

#[test]
fn objects_that_share_a_number_all_fly() {
    let one = |name: &str, anomaly: f64| Given {
        name: (!name.is_empty()).then(|| name.to_owned()),
        anomaly,
        ..Given::new(99_999, 15.05, 53.0)
    };
    let flying = |given: &[Given]| {
        let sorted = sorted(given, spec(550.0, 53.0));
        let as_is = as_they_are(&sets(given), at(), days(14.0))
            .filter(Result::is_ok)
            .count();
        assert_eq!(as_is, sorted.kept.len(), "the same without shells");
        sorted.kept.len()
    };
    // Other names; no names, but other orbits at one epoch.
    assert_eq!(
        flying(&[one("SIM 0", 0.0), one("SIM 1", 90.0), one("SIM 2", 180.0)]),
        3
    );
    assert_eq!(flying(&[one("", 0.0), one("", 90.0), one("", 180.0)]), 3);
    let earlier = Given {
        epoch: "2026-11-20T00:00:00",
        ..one("SIM 1", 30.0)
    };
    // A later set of the same object; the same set twice; another object with another epoch.
    assert_eq!(flying(&[one("SIM 1", 0.0), earlier.clone()]), 1);
    assert_eq!(flying(&[one("SIM 1", 0.0), one("sim 1 ", 0.0)]), 1);
    assert_eq!(flying(&[one("SIM 0", 0.0), earlier]), 2);
}
