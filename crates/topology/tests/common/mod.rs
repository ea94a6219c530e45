//! Constellations the tests share.
#![allow(dead_code, reason = "each test binary uses some of these")]

use constel_orbit::{Satellite as Orbit, Walker, WalkerKind, WalkerSpec};
use constel_topology::{
    Constellation, GslPolicy, GslSpec, IslPattern, Layout, LinkClass, Neighbours, OrbitSky,
    PlainPolicy, PlusGrid, Satellite, Spec, Station, Stepper, Wrap,
};
use constel_units::{Angle, Length, Utc};
use proptest::prelude::*;
use std::num::NonZeroU64;
use std::sync::Arc;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// A shell and its orbits.
pub(crate) struct Shell {
    pub(crate) constellation: Constellation,
    pub(crate) orbits: Vec<Orbit>,
}

pub(crate) fn start() -> Utc {
    "2022-09-14T12:00:00Z".parse().unwrap()
}

pub(crate) fn class() -> LinkClass {
    LinkClass {
        rate_bps: NonZeroU64::new(100_000_000),
        queue_bytes: 150_000,
        loss_ratio: 0.0,
        ..LinkClass::default()
    }
}

/// `numbers`: T, P, F.
pub(crate) fn walker(
    name: &str,
    kind: WalkerKind,
    numbers: (u32, u32, u32),
    inclination_deg: f64,
    altitude_km: f64,
) -> Shell {
    let (satellites, planes, phasing) = numbers;
    let walker = Walker::new(WalkerSpec {
        kind,
        inclination: Angle::from_deg(inclination_deg),
        satellites,
        planes,
        phasing,
        altitude: Length::from_m(altitude_km * 1e3),
        raan0: Angle::from_deg(0.0),
        plane_spacing: None,
        epoch: start(),
    })
    .unwrap();
    let wrap = match kind {
        WalkerKind::Star => Wrap::StarSeamOff,
        WalkerKind::Delta => Wrap::Delta,
    };
    let sats = walker.satellites();
    Shell {
        orbits: sats.iter().map(|s| Orbit::Circular(s.orbit)).collect(),
        constellation: Constellation {
            name: name.to_owned(),
            satellites: sats
                .iter()
                .map(|s| Satellite {
                    name: format!("{name}-{}-{}", s.plane, s.slot),
                    shell: 0,
                    plane: s.plane as u16,
                    slot: s.slot as u16,
                })
                .collect(),
            isl: IslPattern::PlusGrid(PlusGrid {
                neighbours: Neighbours::Walker {
                    phasing,
                    wrap,
                    slots_ahead: 0,
                },
                polar_cutoff_deg: 90.0,
                max_range_m: 6e6,
                clearance_m: 80e3,
            }),
            isl_class: class(),
            min_elevation_deg: 10.0,
            gsl_class: class(),
            ..Constellation::default()
        },
    }
}

pub(crate) fn iridium() -> Shell {
    let mut shell = walker("iridium", WalkerKind::Star, (66, 6, 2), 86.4, 780.0);
    if let IslPattern::PlusGrid(grid) = &mut shell.constellation.isl {
        grid.polar_cutoff_deg = 68.0;
    }
    shell
}

pub(crate) fn starlink_shell1() -> Shell {
    let mut shell = walker("sl", WalkerKind::Delta, (1584, 72, 17), 53.0, 550.0);
    shell.constellation.min_elevation_deg = 25.0;
    shell
}

pub(crate) fn station(name: &str, latitude_deg: f64, longitude_deg: f64) -> Station {
    Station {
        name: name.to_owned(),
        latitude_deg,
        longitude_deg,
        altitude_m: 50.0,
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

/// Evenly spread stations between 60 degrees south and north.
pub(crate) fn spread(count: u32) -> Vec<Station> {
    (0..count)
        .map(|i| {
            let z = 0.86 * (1.0 - (2.0 * f64::from(i) + 1.0) / f64::from(count));
            let lon = (f64::from(i) * 137.507_764) % 360.0 - 180.0;
            station(&format!("gs-{i}"), z.asin().to_degrees(), lon)
        })
        .collect()
}

pub(crate) fn spec(shells: &[Shell], stations: Vec<Station>) -> Spec {
    Spec {
        step_ns: SECOND,
        constellations: shells.iter().map(|s| s.constellation.clone()).collect(),
        stations,
        rules: vec![GslSpec {
            policy: GslPolicy::Plain(PlainPolicy::Nearest),
            outage_ns: 0,
            ..GslSpec::default()
        }],
        ..Spec::default()
    }
}

pub(crate) fn sky(shells: Vec<Shell>) -> Arc<OrbitSky> {
    Arc::new(OrbitSky::new(
        start(),
        shells.into_iter().flat_map(|s| s.orbits).collect(),
    ))
}

pub(crate) fn lab(shells: Vec<Shell>, stations: Vec<Station>) -> (Arc<Layout>, Arc<OrbitSky>) {
    let spec = spec(&shells, stations);
    let sky = sky(shells);
    (Arc::new(Layout::new(spec, &*sky).unwrap()), sky)
}

pub(crate) fn stepper(shells: Vec<Shell>, stations: Vec<Station>) -> Stepper {
    let (layout, sky) = lab(shells, stations);
    Stepper::new(layout, sky)
}

/// Every kind of policy, with numbers of its own.
pub(crate) fn policies() -> impl Strategy<Value = GslPolicy> {
    prop_oneof![
        Just(GslPolicy::Plain(PlainPolicy::Nearest)),
        Just(GslPolicy::Plain(PlainPolicy::HighestElevation)),
        Just(GslPolicy::Plain(PlainPolicy::LongestVisible)),
        (0.0..20.0_f64).prop_map(|gain_deg| GslPolicy::Hysteresis { gain_deg }),
        Just(GslPolicy::Plain(PlainPolicy::LeastLoaded)),
        Just(GslPolicy::Plain(PlainPolicy::MostReachable)),
        (5_u64..40, 0_u64..5).prop_map(|(period, phase)| GslPolicy::Scheduler {
            period_ns: period * SECOND,
            phase_ns: phase * SECOND,
        }),
    ]
}
