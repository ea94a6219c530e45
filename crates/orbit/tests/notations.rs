//! Messages in every notation, and inertial frames, against python-sgp4 and skyfield. See `oracle/notations_oracle.py`.

use constel_orbit::inertial::{Inertial, ToTeme};
use constel_orbit::{EarthRotation, Satellite, TemeState, omm};
use constel_units::{TimeSpan, Utc};
use glam::DVec3;
use serde::Deserialize;

#[derive(Deserialize)]
struct Positions {
    objects: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    name: String,
    states: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    hours: f64,
    position_km: [f64; 3],
    velocity_km_per_s: [f64; 3],
}

#[derive(Deserialize)]
struct Frames {
    rows: Vec<FrameRow>,
}

/// Position in metres and velocity in metres per second.
type State = [[f64; 3]; 2];

#[derive(Deserialize)]
struct FrameRow {
    utc: Utc,
    gcrf: State,
    eme2000: State,
    mean_of_date: State,
    true_of_date: State,
    itrf: State,
}

/// Every file of the folder that holds the messages, by name.
fn files() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/notations");
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| !path.ends_with("positions.json") && !path.ends_with("inertial.json"))
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), std::fs::read(&path).expect("readable"))
        })
        .collect();
    files.sort();
    files
}

#[test]
fn every_notation_gives_the_states_of_python_sgp4() {
    let oracle: Positions =
        serde_json::from_str(include_str!("data/notations/positions.json")).expect("the oracle");
    let files = files();
    assert_eq!(files.len(), 12);
    let mut worst = (0.0_f64, 0.0_f64);
    for (file, bytes) in files {
        let sets = omm::parse(bytes).unwrap_or_else(|errors| panic!("{file}: {errors}"));
        assert_eq!(sets.len(), oracle.objects.len(), "{file}");
        for (set, object) in sets.iter().zip(&oracle.objects) {
            assert_eq!(set.name(), Some(object.name.as_str()), "{file}");
            assert_eq!(
                set.epoch().to_string(),
                "2026-11-20T12:00:00.123456Z",
                "{file}"
            );
            assert!(set.catalogue_number().is_some_and(|number| number > 70_000));
            let satellite = Satellite::from_elements(set).expect("propagates");
            for row in &object.states {
                let at = set.epoch() + TimeSpan::from_secs_f64(row.hours * 3600.0);
                let state = satellite.teme(at).expect("a state");
                let off_m = (state.position_teme_m - DVec3::from(row.position_km) * 1e3).length();
                let off_m_per_s = (state.velocity_teme_m_per_s
                    - DVec3::from(row.velocity_km_per_s) * 1e3)
                    .length();
                worst = (worst.0.max(off_m), worst.1.max(off_m_per_s));
                assert!(off_m < 0.05, "{file}: {}: {off_m} m", object.name);
                assert!(off_m_per_s < 1e-4, "{file}: {}: {off_m_per_s}", object.name);
            }
        }
    }
    println!("at most {:.2e} m and {:.2e} m/s", worst.0, worst.1);
}

#[test]
fn inertial_frames_are_those_of_skyfield() {
    let oracle: Frames =
        serde_json::from_str(include_str!("data/notations/inertial.json")).expect("the oracle");
    assert_eq!(oracle.rows.len(), 8);
    let mut worst = (0.0_f64, 0.0_f64);
    for row in &oracle.rows {
        for (frame, state) in [
            (Inertial::Gcrf, row.gcrf),
            (Inertial::Eme2000, row.eme2000),
            (Inertial::Mod, row.mean_of_date),
            (Inertial::Tod, row.true_of_date),
        ] {
            let (position, velocity) = ToTeme::new(frame).state(
                row.utc,
                DVec3::from(state[0]),
                Some(DVec3::from(state[1])),
            );
            let teme = TemeState {
                position_teme_m: position,
                velocity_teme_m_per_s: velocity.expect("a velocity"),
            };
            let itrf = EarthRotation::at(row.utc, 0.0).state_itrf(&teme);
            let off_m = (itrf.position_itrf_m - DVec3::from(row.itrf[0])).length();
            let off_m_per_s = (itrf.velocity_itrf_m_per_s - DVec3::from(row.itrf[1])).length();
            println!(
                "{} {frame:?}: {off_m:.2e} m, {off_m_per_s:.2e} m/s",
                row.utc
            );
            worst = (worst.0.max(off_m), worst.1.max(off_m_per_s));
        }
    }
    assert!(worst.0 < 0.03, "{worst:?}");
    assert!(worst.1 < 1e-3, "{worst:?}");
}

/// Vallado, Fundamentals of Astrodynamics and Applications, example 3-15, as published with its reduction: the same state in
/// GCRF and, without polar motion, in the true frame turned by apparent sidereal time (PEF).
#[test]
fn gcrf_of_vallado_example_3_15() {
    let utc: Utc = "2004-04-06T07:51:28.386009Z".parse().expect("an instant");
    let gcrf_m = DVec3::new(5_102_508.958, 6_123_011.401, 6_378_136.928);
    let pef_m = DVec3::new(-1_033_475.031, 7_901_305.586, 6_380_344.533);
    let (teme, _) = ToTeme::new(Inertial::Gcrf).state(utc, gcrf_m, None);
    let itrf = EarthRotation::at(utc, -0.439_961_9).position_itrf_m(teme);
    // The book applies the observed corrections to nutation (0.05 arcseconds, 2.5 m), which this crate leaves out.
    let off_m = (itrf - pef_m).length();
    assert!(off_m < 3.0, "{off_m}");
}
