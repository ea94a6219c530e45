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
use constel_topology::{IslPattern, Station, Stepper};

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
