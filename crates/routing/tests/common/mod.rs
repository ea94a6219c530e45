//! Constellations the tests share: topology's, as one shell of satellites called `sat-PLANE-SLOT`.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses some of these"
)]

#[path = "../../../topology/tests/common/mod.rs"]
mod shells;

pub(crate) use shells::{cities, spread, station};

use constel_orbit::WalkerKind;
use constel_routing::daemons::{Protocol, Software, Spec};
use constel_topology::{Cable, Host, IslPattern, Layout, Operators, Station, Stepper, Terminal};
use std::sync::Arc;

/// OSPF by BIRD with timers for tests.
pub(crate) const OSPF: Spec = Spec {
    software: Software::Bird,
    protocol: Protocol::Ospf,
    hello_s: 1,
    dead_s: 4,
    ground_hello_s: 1,
    ground_dead_s: 4,
    ground_retransmit_s: 2,
    retransmit_s: 2,
    tick_s: 1,
    isl_cost: 10,
    gsl_cost: 1000,
    ipv4: true,
    ipv6: true,
    bfd: None,
    kernel_events: true,
    cable_cost: 10,
    systems: Vec::new(),
    uplinks: std::collections::BTreeSet::new(),
    bgp_hello_s: 1,
    bgp_dead_s: 4,
};

/// One Walker shell and stations; `numbers`: T, P, F.
pub(crate) fn lab(
    kind: WalkerKind,
    numbers: (u32, u32, u32),
    inclination_deg: f64,
    altitude_km: f64,
    stations: Vec<Station>,
) -> Stepper {
    let mut shell = shells::walker("sat", kind, numbers, inclination_deg, altitude_km);
    if let (WalkerKind::Star, IslPattern::PlusGrid(grid)) = (kind, &mut shell.constellation.isl) {
        grid.polar_cutoff_deg = 68.0;
    }
    shells::stepper(vec![shell], stations)
}

pub(crate) fn iridium(stations: Vec<Station>) -> Stepper {
    lab(WalkerKind::Star, (66, 6, 2), 86.4, 780.0, stations)
}

pub(crate) fn shell1(stations: Vec<Station>) -> Stepper {
    lab(WalkerKind::Delta, (1584, 72, 17), 53.0, 550.0, stations)
}

/// A small shell whose first and last city are gateways, with a host behind each.
pub(crate) fn with_hosts() -> Stepper {
    let shell = shells::walker("sat", WalkerKind::Delta, (24, 4, 1), 60.0, 780.0);
    let shells = vec![shell];
    let mut spec = shells::spec(&shells, cities());
    for (name, gateway) in [("user", 0), ("server", spec.stations.len() - 1)] {
        let gateway = &spec.stations[gateway];
        spec.hosts.push(Host {
            class: &constel_topology::HOST,
            name: name.to_owned(),
            latitude_deg: gateway.latitude_deg,
            longitude_deg: gateway.longitude_deg,
            altitude_m: 0.0,
            attach: None,
        });
        spec.cables.push(Cable {
            a: name.to_owned(),
            b: gateway.name.clone(),
            delay_ns: 1_000_000,
            class: shells::class(),
        });
    }
    let sky = shells::sky(shells);
    let layout = Layout::new(spec, &*sky).unwrap();
    Stepper::new(Arc::new(layout), sky)
}

/// Two operators of a shell each; a user and a gateway have a terminal for each.
pub(crate) fn two_operators() -> Stepper {
    let shells = vec![
        shells::walker("low", WalkerKind::Delta, (200, 10, 1), 60.0, 900.0),
        shells::walker("high", WalkerKind::Star, (120, 10, 1), 87.0, 1400.0),
    ];
    let terminal = |k| Terminal {
        serves: Operators::Only([k].into()),
        ..Terminal::default()
    };
    let user = Station {
        terminals: vec![terminal(0), terminal(1)],
        ..station("user", 50.0, 10.0)
    };
    let gateway = Station {
        name: "gateway".to_owned(),
        gateway: true,
        ..user.clone()
    };
    shells::stepper(shells, vec![user, gateway])
}
