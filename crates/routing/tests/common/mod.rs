//! Constellations the tests share.
#![allow(dead_code, reason = "each test binary uses some of these")]

use constel_orbit::{Satellite as Orbit, Walker, WalkerKind, WalkerSpec};
use constel_topology::{
    Constellation, GslPolicy, GslSpec, IslPattern, Layout, LinkClass, Neighbours, OrbitSky,
    PlusGrid, Satellite, Spec, Station, Stepper, Wrap,
};
use constel_units::{Angle, Length, Utc};
use std::sync::Arc;

pub(crate) fn station(name: &str, latitude_deg: f64, longitude_deg: f64) -> Station {
    Station {
        name: name.to_owned(),
        latitude_deg,
        longitude_deg,
        altitude_m: 50.0,
        min_elevation_deg: 0.0,
        ..Station::default()
    }
}

pub(crate) fn cities() -> Vec<Station> {
    vec![
        station("london", 51.5, -0.12),
        station("new-york", 40.71, -74.0),
        station("tokyo", 35.68, 139.69),
        station("sydney", -33.87, 151.21),
        station("nairobi", -1.29, 36.82),
        station("suva", -18.14, 178.44),
    ]
}

/// Evenly spread stations between 50 degrees south and north.
pub(crate) fn spread(count: u32) -> Vec<Station> {
    (0..count)
        .map(|i| {
            let z = 0.76 * (1.0 - (2.0 * f64::from(i) + 1.0) / f64::from(count));
            let lon = (f64::from(i) * 137.507_764) % 360.0 - 180.0;
            station(&format!("gs-{i}"), z.asin().to_degrees(), lon)
        })
        .collect()
}

/// One Walker shell and stations; `numbers`: T, P, F.
pub(crate) fn lab(
    kind: WalkerKind,
    numbers: (u32, u32, u32),
    inclination_deg: f64,
    altitude_km: f64,
    stations: Vec<Station>,
) -> Stepper {
    let start: Utc = "2022-09-14T12:00:00Z".parse().unwrap();
    let (satellites, planes, phasing) = numbers;
    let walker = Walker::new(WalkerSpec {
        kind,
        inclination: Angle::from_deg(inclination_deg),
        satellites,
        planes,
        phasing,
        altitude: Length::from_m(altitude_km * 1e3),
        raan0: Angle::from_deg(0.0),
        epoch: start,
    })
    .unwrap();
    let (wrap, polar_cutoff_deg) = match kind {
        WalkerKind::Star => (Wrap::StarSeamOff, 68.0),
        WalkerKind::Delta => (Wrap::Delta, 90.0),
    };
    let sats = walker.satellites();
    let class = LinkClass {
        rate_bps: None,
        queue_bytes: 100_000,
        loss_ratio: 0.0,
        ..LinkClass::default()
    };
    let spec = Spec {
        step_ns: 1_000_000_000,
        constellations: vec![Constellation {
            name: "sat".into(),
            satellites: sats
                .iter()
                .map(|s| Satellite {
                    name: format!("sat-{}-{}", s.plane, s.slot),
                    shell: 0,
                    plane: s.plane as u16,
                    slot: s.slot as u16,
                })
                .collect(),
            isl: IslPattern::PlusGrid(PlusGrid {
                neighbours: Neighbours::Walker { phasing, wrap },
                polar_cutoff_deg,
                max_range_m: 6e6,
                clearance_m: 80e3,
            }),
            isl_class: class,
            min_elevation_deg: 10.0,
            gsl_class: class,
            ..Constellation::default()
        }],
        stations,
        gsl: GslSpec {
            policy: GslPolicy::Nearest,
            outage_ns: 0,
            ..GslSpec::default()
        },
        ..Spec::default()
    };
    let sky = Arc::new(OrbitSky::new(
        start,
        sats.iter().map(|s| Orbit::Circular(s.orbit)).collect(),
    ));
    let layout = Arc::new(Layout::new(spec, &*sky).unwrap());
    Stepper::new(layout, sky)
}

pub(crate) fn iridium(stations: Vec<Station>) -> Stepper {
    lab(WalkerKind::Star, (66, 6, 2), 86.4, 780.0, stations)
}

pub(crate) fn shell1(stations: Vec<Station>) -> Stepper {
    lab(WalkerKind::Delta, (1584, 72, 17), 53.0, 550.0, stations)
}
