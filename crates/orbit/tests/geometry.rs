//! Walker constellations, geodesy and looks: known numbers and properties.

use std::f64::consts::{FRAC_PI_2, PI, TAU};

use constel_orbit::{
    CircularOrbit, DVec3, EARTH_EQUATORIAL_RADIUS_M, EARTH_MU_M3_PER_S2, EarthRotation, Geodetic,
    Satellite, Site, Walker, WalkerError, WalkerKind, WalkerSpec, grazing_altitude_m,
    light_time_ns, positions_itrf_m,
};
use constel_units::{Angle, Length, TimeSpan, Utc};
use proptest::prelude::*;

fn epoch() -> Utc {
    "2022-09-14T00:00:00Z".parse().expect("valid instant")
}

fn iridium() -> WalkerSpec {
    WalkerSpec {
        kind: WalkerKind::Star,
        inclination: Angle::from_deg(86.4),
        satellites: 66,
        planes: 6,
        phasing: 2,
        altitude: Length::from_m(780e3),
        raan0: Angle::from_deg(0.0),
        plane_spacing: None,
        epoch: epoch(),
    }
}

fn shell1() -> WalkerSpec {
    WalkerSpec {
        kind: WalkerKind::Delta,
        inclination: Angle::from_deg(53.0),
        satellites: 1584,
        planes: 72,
        phasing: 17,
        altitude: Length::from_m(550e3),
        raan0: Angle::from_deg(0.0),
        plane_spacing: None,
        epoch: epoch(),
    }
}

#[test]
fn iridium_goes_round_in_a_hundred_minutes() {
    let orbit = Walker::new(iridium())
        .expect("valid")
        .orbit(0, 0)
        .expect("exists");
    // Published: 100.4 min. By hand: 2 pi sqrt(7158137^3 / 3.986004418e14) = 6027.1 s.
    assert!(
        (orbit.kepler_period_s() - 6027.1).abs() < 0.1,
        "{}",
        orbit.kepler_period_s()
    );
    assert!(
        (orbit.nodal_period_s() / 60.0 - 100.4).abs() < 0.3,
        "{}",
        orbit.nodal_period_s()
    );
}

#[test]
fn j2_turns_the_node_of_shell_1_west() {
    let orbit = Walker::new(shell1())
        .expect("valid")
        .orbit(0, 0)
        .expect("exists");
    let deg_per_day = orbit.raan_rate_rad_per_s().to_degrees() * 86_400.0;
    // -1.5 J2 (R/a)^2 n cos i by hand: -4.489 deg/day.
    assert!((deg_per_day + 4.489).abs() < 0.002, "{deg_per_day}");
    // A sun-synchronous orbit keeps up with the sun: 360 deg in 365.2422 days at 97.604 deg and
    // 560 km.
    let sun = CircularOrbit::new(epoch(), 560e3, 97.63_f64.to_radians(), 0.0, 0.0);
    let deg_per_day = sun.raan_rate_rad_per_s().to_degrees() * 86_400.0;
    assert!(
        (deg_per_day - 360.0 / 365.2422).abs() < 0.005,
        "{deg_per_day}"
    );
}

#[test]
fn energy_and_speed_of_a_circle() {
    let orbit = Walker::new(shell1())
        .expect("valid")
        .orbit(3, 4)
        .expect("exists");
    for hours in 0..48 {
        let at = epoch() + TimeSpan::from_ns(hours * 1_234_567_890_123);
        let state = orbit.teme(at);
        let radius_m = state.position_teme_m.length();
        assert!((radius_m - orbit.radius_m()).abs() < 1e-6);
        let kepler_m_per_s = (EARTH_MU_M3_PER_S2 / radius_m).sqrt();
        // J2 changes the speed by about 1.5 J2 (R/a)^2 of itself, a part in a thousand.
        let speed_m_per_s = state.velocity_teme_m_per_s.length();
        assert!((speed_m_per_s / kepler_m_per_s - 1.0).abs() < 2e-3);
        assert!(state.position_teme_m.dot(state.velocity_teme_m_per_s).abs() / radius_m < 1e-6);
        // The velocity is the rate of the position.
        let half = TimeSpan::from_ns(50_000_000);
        let measured = (orbit.position_teme_m(at + half) - orbit.position_teme_m(at - half)) / 0.1;
        assert!((measured - state.velocity_teme_m_per_s).length() < 1e-2);
    }
    let node_to_node = TimeSpan::from_secs_f64(orbit.nodal_period_s());
    let turns = |at| orbit.latitude_argument_rad(at) / TAU;
    assert!((turns(epoch() + node_to_node) - turns(epoch()) - 1.0).abs() < 1e-9);
}

#[test]
fn planes_and_slots_are_where_walker_says() {
    let star = Walker::new(iridium()).expect("valid");
    assert_eq!((star.slots(), star.satellites().len()), (11, 66));
    let deg = |orbit: &CircularOrbit| {
        (
            orbit.raan_rad(epoch()).to_degrees(),
            orbit.latitude_argument_rad(epoch()).to_degrees(),
        )
    };
    let close = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).abs() < 1e-9 && (a.1 - b.1).abs() < 1e-9;
    // Star: 180/6 = 30 deg between planes; slots 360/11 apart; phase 2 * 360/66 per plane.
    assert!(close(deg(&star.orbit(1, 0).unwrap()), (30.0, 120.0 / 11.0)));
    assert!(close(
        deg(&star.orbit(5, 1).unwrap()),
        (150.0, 360.0 / 11.0 + 10.0 * 360.0 / 66.0)
    ));
    let delta = Walker::new(shell1()).expect("valid");
    assert!(close(
        deg(&delta.orbit(1, 0).unwrap()),
        (5.0, 17.0 * 360.0 / 1584.0)
    ));
    assert!(close(
        deg(&delta.orbit(71, 0).unwrap()),
        (355.0, (71.0 * 17.0) % 1584.0 * 360.0 / 1584.0)
    ));
    assert_eq!(star.orbit(6, 0), None);
    assert_eq!(star.orbit(0, 11), None);
    // A delta closes: going from the last plane to plane 0 is one phase step ahead like every other,
    // to the slot F further on (P * F * 360/T is F slots).
    let ahead_deg =
        |from: &CircularOrbit, to: &CircularOrbit| (deg(to).1 - deg(from).1).rem_euclid(360.0);
    let step_deg = 17.0 * 360.0 / 1584.0;
    for slot in 0..22 {
        let last = delta.orbit(71, slot).unwrap();
        let first = delta.orbit(0, (slot + 17) % 22).unwrap();
        assert!((ahead_deg(&last, &first) - step_deg).abs() < 1e-9);
        let (a, b) = (
            delta.orbit(30, slot).unwrap(),
            delta.orbit(31, slot).unwrap(),
        );
        assert!((ahead_deg(&a, &b) - step_deg).abs() < 1e-9);
    }
    // Slots in order of motion: a moment later slot 0 is nearer to where slot 1 was.
    let (slot0, slot1) = (star.orbit(0, 0).unwrap(), star.orbit(0, 1).unwrap());
    let target = slot1.position_teme_m(epoch());
    let later = epoch() + TimeSpan::from_ns(60_000_000_000);
    let distance = |at| (slot0.position_teme_m(at) - target).length();
    assert!(distance(later) < distance(epoch()) - 400e3);
}

#[test]
fn impossible_walker_numbers_are_all_reported() {
    let errors = Walker::new(WalkerSpec {
        inclination: Angle::from_deg(181.0),
        satellites: 66,
        planes: 7,
        phasing: 7,
        altitude: Length::from_m(-1.0),
        ..iridium()
    })
    .expect_err("impossible");
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "P = 7 planes do not divide T = 66 satellites evenly; the nearest that do are 6 and 11",
            "phasing F = 7 must be less than P = 7 planes",
            "altitude -1 m must be above 0 m",
            "inclination 181 deg must lie between 0 deg and 180 deg",
        ]
    );
    let errors = Walker::new(WalkerSpec {
        satellites: 0,
        planes: 0,
        ..iridium()
    })
    .unwrap_err();
    assert_eq!(errors, [WalkerError::NoSatellites, WalkerError::NoPlanes]);
    let errors = Walker::new(WalkerSpec {
        satellites: u32::MAX,
        planes: u32::MAX,
        ..iridium()
    });
    assert_eq!(
        errors,
        Err(vec![WalkerError::TooManySatellites {
            satellites: u32::MAX
        }])
    );
    let errors = Walker::new(WalkerSpec {
        satellites: u32::MAX,
        planes: 2,
        phasing: 0,
        ..iridium()
    })
    .unwrap_err();
    assert_eq!(errors.len(), 2);
}

#[test]
fn ranges_and_delays_by_hand() {
    // Straight overhead at the equator: 550 km, 1 834 602.5 ns of light.
    let site = Site::new(&Geodetic {
        latitude_rad: 0.0,
        longitude_rad: 0.0,
        height_m: 0.0,
    });
    let above = DVec3::new(EARTH_EQUATORIAL_RADIUS_M + 550e3, 0.0, 0.0);
    let look = site.look(above);
    assert_eq!((look.azimuth_rad, look.range_m), (0.0, 550e3));
    assert!((look.elevation_rad - FRAC_PI_2).abs() < 1e-15);
    assert_eq!(light_time_ns(look.range_m), 1_834_603);
    // On the horizon due east: range = sqrt((R+h)^2 - R^2) = 2 705.26 km.
    let range_m = (above.x.powi(2) - EARTH_EQUATORIAL_RADIUS_M.powi(2)).sqrt();
    let east = site.look(DVec3::new(EARTH_EQUATORIAL_RADIUS_M, range_m, 0.0));
    assert!((east.azimuth_rad - FRAC_PI_2).abs() < 1e-12 && east.elevation_rad.abs() < 1e-12);
    assert!((east.range_m - 2_705_263.5).abs() < 1.0, "{}", east.range_m);
    // Neighbours in a plane of 22 at 550 km: 2 (R+h) sin(pi/22) = 1 971.9 km; the middle of the
    // link is (R+h) cos(pi/22) - R = 479.6 km up.
    let walker = Walker::new(shell1()).expect("valid");
    let at = |slot| walker.orbit(0, slot).unwrap().position_teme_m(epoch());
    let (a, b) = (at(0), at(1));
    assert!(
        ((a - b).length() - 1_971_940.0).abs() < 100.0,
        "{}",
        (a - b).length()
    );
    assert!(
        (grazing_altitude_m(a, b) - 479_600.0).abs() < 200.0,
        "{}",
        grazing_altitude_m(a, b)
    );
    assert_eq!(site.look(site.position_itrf_m).range_m, 0.0);
    // West and a hair: the azimuth stays below a full turn.
    let north = site.look(DVec3::new(EARTH_EQUATORIAL_RADIUS_M, -1e-300, 1e3));
    assert!((0.0..TAU).contains(&north.azimuth_rad));
}

#[test]
fn a_batch_is_each_satellite_alone() {
    let satellites: Vec<Satellite> = Walker::new(shell1())
        .expect("valid")
        .satellites()
        .into_iter()
        .map(|satellite| satellite.orbit.into())
        .collect();
    let at = epoch() + TimeSpan::from_ns(12_345_678_901);
    let mut positions = vec![DVec3::ONE; 3];
    assert!(positions_itrf_m(&satellites, at, &mut positions).is_empty());
    assert_eq!(positions.len(), 1584);
    let rotation = EarthRotation::at(at, 0.0);
    for (satellite, position) in satellites.iter().zip(&positions) {
        let state = rotation.state_itrf(&satellite.teme(at).expect("never fails"));
        assert_eq!(state.position_itrf_m, *position);
    }
}

#[test]
fn poles_and_axes() {
    for sign in [1.0, -1.0] {
        let pole = Geodetic::from_itrf_m(DVec3::new(0.0, 0.0, sign * 7e6));
        assert!((pole.latitude_rad - sign * FRAC_PI_2).abs() < 1e-15);
        // Polar radius of WGS84: 6 356 752.314 245 m.
        assert!(
            (pole.height_m - (7e6 - 6_356_752.314_245)).abs() < 1e-6,
            "{}",
            pole.height_m
        );
    }
    let equator = Geodetic::from_itrf_m(DVec3::new(-7e6, 0.0, 0.0));
    assert_eq!((equator.latitude_rad, equator.longitude_rad), (0.0, PI));
}

proptest! {
    /// For any circular orbit with J2's drift: its energy is the same at any two times, and one nodal period later it
    /// is as far north and has gone round once.
    #[test]
    fn energy_and_period_are_conserved(
        altitude_m in 200e3..2_000e3f64,
        inclination_deg in 0.0..180.0f64,
        (raan_deg, ahead_deg) in (0.0..360.0f64, 0.0..360.0f64),
        (t1_s, t2_s) in (-10.0 * 86_400.0..10.0 * 86_400.0f64, -10.0 * 86_400.0..10.0 * 86_400.0f64),
    ) {
        let [inclination, raan, ahead] =
            [inclination_deg, raan_deg, ahead_deg].map(f64::to_radians);
        let orbit = CircularOrbit::new(epoch(), altitude_m, inclination, raan, ahead);
        let at = |s: f64| epoch() + TimeSpan::from_secs_f64(s);
        let energy = |s: f64| {
            let state = orbit.teme(at(s));
            state.velocity_teme_m_per_s.length_squared() / 2.0
                - EARTH_MU_M3_PER_S2 / state.position_teme_m.length()
        };
        let (e1, e2) = (energy(t1_s), energy(t2_s));
        prop_assert!(((e1 - e2) / e1).abs() < 1e-6, "{} {}", e1, e2);
        let period_s = orbit.nodal_period_s();
        let north = |s: f64| orbit.position_teme_m(at(s)).z;
        prop_assert!((north(t1_s) - north(t1_s + period_s)).abs() < 0.01);
        let turns = |s: f64| orbit.latitude_argument_rad(at(s)) / TAU;
        prop_assert!((turns(t1_s + period_s) - turns(t1_s) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn geodetic_round_trip(
        latitude_deg in -90.0..=90.0f64,
        longitude_deg in -180.0..=180.0f64,
        height_m in -10e3..5e7f64,
    ) {
        let point = Geodetic::new(
            Angle::from_deg(latitude_deg),
            Angle::from_deg(longitude_deg),
            Length::from_m(height_m),
        );
        let position = point.position_itrf_m();
        let back = Geodetic::from_itrf_m(position);
        let rounding_m = 1e-8 * (1.0 + height_m.abs() / 1e6);
        prop_assert!((back.position_itrf_m() - position).length() < rounding_m + 1e-8);
        prop_assert!((back.height_m - height_m).abs() < rounding_m + 1e-8);
        prop_assert!((back.latitude_rad - point.latitude_rad).abs() < 1e-14);
    }

    #[test]
    fn itrf_round_trip(x in -5e7..5e7f64, y in -5e7..5e7f64, z in -5e7..5e7f64) {
        let position = DVec3::new(x, y, z);
        prop_assume!(position.length() > 1e5);
        let back = Geodetic::from_itrf_m(position).position_itrf_m();
        prop_assert!((back - position).length() < 1e-6, "{}", (back - position).length());
    }

    #[test]
    fn looks_keep_their_promises(
        latitude_rad in -FRAC_PI_2..=FRAC_PI_2,
        longitude_rad in -PI..=PI,
        east_m in -3e6..3e6f64,
        north_m in -3e6..3e6f64,
        up_m in -1e6..3e6f64,
    ) {
        let site = Site::new(&Geodetic { latitude_rad, longitude_rad, height_m: 0.0 });
        let up = site.up_itrf();
        let east = DVec3::new(-longitude_rad.sin(), longitude_rad.cos(), 0.0);
        let target = site.position_itrf_m + east * east_m + up.cross(east) * north_m + up * up_m;
        let look = site.look(target);
        prop_assert!((0.0..TAU).contains(&look.azimuth_rad));
        prop_assert!((look.range_m - DVec3::new(east_m, north_m, up_m).length()).abs() < 1e-6);
        let (sin, cos) = look.azimuth_rad.sin_cos();
        let across = look.range_m * look.elevation_rad.cos();
        prop_assert!((across * sin - east_m).abs() < 1e-6);
        prop_assert!((across * cos - north_m).abs() < 1e-6);
    }

    #[test]
    fn light_is_never_outrun(range_m in 0.0..1e12f64) {
        let delay_ns = light_time_ns(range_m) as f64;
        let exact_ns = range_m / 0.299_792_458;
        prop_assert!(delay_ns >= exact_ns * (1.0 - 1e-15) && delay_ns < exact_ns + 1.001);
    }
}
