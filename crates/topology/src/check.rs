//! Validation of a spec: everything at once, nothing clamped.

use crate::error::SpecError;
use crate::spec::{Constellation, IslPattern, LinkClass, Neighbours, PlusGrid, Spec, Station};
use std::collections::{BTreeMap, BTreeSet};

/// The most nodes a lab may have, so that ports and addresses fit their numbers.
pub const MAX_NODES: usize = 100_000;

/// All that is wrong with the spec itself.
pub(crate) fn check(spec: &Spec) -> Vec<SpecError> {
    let mut c = Checker { errors: Vec::new() };
    c.bounds(
        "step",
        "length in ns",
        spec.step_ns as f64,
        1e6..=6e10,
        "1e6 to 6e10",
    );
    c.bounds(
        "gsl",
        "outage in ns",
        spec.gsl.outage_ns as f64,
        0.0..=3.6e12,
        "0 to 3.6e12 (1 h)",
    );
    let satellites = spec
        .constellations
        .iter()
        .map(|c| c.satellites.len())
        .sum::<usize>();
    c.at_most("nodes", satellites + spec.stations.len(), MAX_NODES);
    c.at_most(
        "constellations",
        spec.constellations.len(),
        usize::from(u16::MAX),
    );
    let mut names = BTreeSet::new();
    let all = spec
        .constellations
        .iter()
        .flat_map(|k| k.satellites.iter().map(|s| &s.name))
        .chain(spec.stations.iter().map(|s| &s.name));
    for name in all {
        if !names.insert(name.as_str()) {
            c.errors.push(SpecError::DuplicateName(name.clone()));
        }
    }
    for constellation in &spec.constellations {
        c.constellation(constellation);
    }
    for station in &spec.stations {
        c.station(station);
    }
    c.errors
}

struct Checker {
    errors: Vec<SpecError>,
}

impl Checker {
    fn bounds(
        &mut self,
        what: &str,
        field: &'static str,
        value: f64,
        range: std::ops::RangeInclusive<f64>,
        allowed: &'static str,
    ) {
        // Not-a-number is in no range.
        if !range.contains(&value) {
            self.errors.push(SpecError::OutOfBounds {
                what: what.to_owned(),
                field,
                value,
                allowed,
            });
        }
    }

    fn at_most(&mut self, what: &'static str, count: usize, max: usize) {
        if count > max {
            self.errors.push(SpecError::TooMany { what, count, max });
        }
    }

    fn constellation(&mut self, k: &Constellation) {
        let mask = k.min_elevation_deg;
        self.bounds(
            &k.name,
            "elevation mask in degrees",
            mask,
            -5.0..=90.0,
            "-5 to 90",
        );
        self.class(&k.name, &k.gsl_class);
        let mut seats = BTreeMap::new();
        for s in &k.satellites {
            if let Some(first) = seats.insert((s.shell, s.plane, s.slot), &s.name) {
                self.errors.push(SpecError::DuplicateSeat {
                    constellation: k.name.clone(),
                    first: first.clone(),
                    second: s.name.clone(),
                    shell: s.shell,
                    plane: s.plane,
                    slot: s.slot,
                });
            }
        }
        if let IslPattern::PlusGrid(grid) = &k.isl {
            self.class(&k.name, &k.isl_class);
            self.grid(k, grid);
        }
    }

    fn class(&mut self, what: &str, class: &LinkClass) {
        self.bounds(what, "loss ratio", class.loss_ratio, 0.0..=1.0, "0 to 1");
    }

    fn grid(&mut self, k: &Constellation, grid: &PlusGrid) {
        let name = &k.name;
        self.bounds(
            name,
            "polar cut-off in degrees",
            grid.polar_cutoff_deg,
            0.0..=90.0,
            "0 to 90",
        );
        self.bounds(
            name,
            "ISL range in m",
            grid.max_range_m,
            1.0..=1e9,
            "1 to 1e9",
        );
        self.bounds(
            name,
            "ISL clearance in m",
            grid.clearance_m,
            0.0..=1e6,
            "0 to 1e6",
        );
        let Neighbours::Walker { phasing, .. } = grid.neighbours else {
            return;
        };
        let mut shells: BTreeMap<u16, BTreeMap<u16, BTreeSet<u16>>> = BTreeMap::new();
        for s in &k.satellites {
            shells
                .entry(s.shell)
                .or_default()
                .entry(s.plane)
                .or_default()
                .insert(s.slot);
        }
        for (shell, planes) in shells {
            let slots = planes.values().map(BTreeSet::len).max().unwrap_or(0);
            let whole = 0..planes.len();
            if !planes.keys().map(|&p| usize::from(p)).eq(whole) {
                let reason = format!("planes must be numbered 0 to {}", planes.len() - 1);
                self.incomplete(name, shell, reason);
            }
            for (plane, have) in &planes {
                if !have.iter().map(|&s| usize::from(s)).eq(0..slots) {
                    let reason = format!("plane {plane} must have slots 0 to {}", slots - 1);
                    self.incomplete(name, shell, reason);
                }
            }
            if phasing as usize >= planes.len() {
                self.errors.push(SpecError::Phasing {
                    constellation: name.clone(),
                    shell,
                    phasing,
                    planes: planes.len(),
                });
            }
        }
    }

    fn incomplete(&mut self, name: &str, shell: u16, reason: String) {
        let constellation = name.to_owned();
        self.errors.push(SpecError::IncompleteWalker {
            constellation,
            shell,
            reason,
        });
    }

    fn station(&mut self, s: &Station) {
        self.bounds(
            &s.name,
            "latitude in degrees",
            s.latitude_deg,
            -90.0..=90.0,
            "-90 to 90",
        );
        self.bounds(
            &s.name,
            "longitude in degrees",
            s.longitude_deg,
            -180.0..=180.0,
            "-180 to 180",
        );
        self.bounds(
            &s.name,
            "altitude in m",
            s.altitude_m,
            -1e3..=2e4,
            "-1,000 to 20,000",
        );
        let mask = s.min_elevation_deg;
        self.bounds(
            &s.name,
            "elevation mask in degrees",
            mask,
            -5.0..=90.0,
            "-5 to 90",
        );
    }
}
