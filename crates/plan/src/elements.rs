//! Constellations of real satellites: element files read, sorted into shells and planes, named.

use constel_orbit::omm::OmmError;
use constel_orbit::shells::{Placed, PlaneRule, ShellSpec, sort};
use constel_orbit::{ElementSet, omm, tle};
use constel_scenario::model::{self, WalkerPattern, satellite_name};
use constel_scenario::{Diagnostics, Scenario};
use constel_topology::{Neighbours, Satellite};
use constel_units::TimeSpan;
use serde::Serialize;

use crate::lab::{Flown, wrap_of};

/// Elements farther than this from lab time zero are not believed: SGP4 is good for a couple of weeks.
const MAX_AGE: TimeSpan = TimeSpan::from_ns(14 * 86_400 * 1_000_000_000);

/// An object of an element file that does not fly in the lab.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// The constellation whose file lists it.
    pub constellation: String,
    /// Its name in the file, if it has one.
    pub object: Option<String>,
    /// Catalogue number.
    pub catalogue_number: u64,
    /// Why it does not fly.
    pub reason: String,
}

pub(crate) fn fly_tle(
    scenario: &Scenario,
    constellation: &model::Constellation,
    set: &model::ElementSet,
    left_out: &mut Vec<LeftOut>,
    errors: &mut Diagnostics,
) -> Option<Flown> {
    match tle::parse(set.file.text()) {
        Ok(objects) => fly(scenario, constellation, set, &objects, left_out, errors),
        Err(found) => {
            for error in found.0 {
                let width = set
                    .file
                    .text()
                    .lines()
                    .nth(error.line - 1)
                    .map_or(1, |l| l.chars().count());
                errors.push(set.file.error(
                    u32::try_from(error.line).unwrap_or(u32::MAX),
                    1,
                    u32::try_from(width.max(1)).unwrap_or(u32::MAX),
                    "tle",
                    error.reason.to_string(),
                ));
            }
            None
        }
    }
}

pub(crate) fn fly_omm(
    scenario: &Scenario,
    constellation: &model::Constellation,
    set: &model::ElementSet,
    left_out: &mut Vec<LeftOut>,
    errors: &mut Diagnostics,
) -> Option<Flown> {
    match omm::parse(set.file.text()) {
        Ok(objects) => fly(scenario, constellation, set, &objects, left_out, errors),
        Err(found) => {
            for error in found.0 {
                let (line, column) = match &error {
                    OmmError::Json { line, column, .. } => (*line, *column),
                    _ => (1, 1),
                };
                errors.push(set.file.error(
                    u32::try_from(line.max(1)).unwrap_or(u32::MAX),
                    u32::try_from(column.max(1)).unwrap_or(u32::MAX),
                    1,
                    "omm",
                    error.to_string(),
                ));
            }
            None
        }
    }
}

fn fly(
    scenario: &Scenario,
    constellation: &model::Constellation,
    set: &model::ElementSet,
    objects: &[ElementSet],
    left_out: &mut Vec<LeftOut>,
    errors: &mut Diagnostics,
) -> Option<Flown> {
    let shells: Vec<ShellSpec> = set.shells.iter().map(shell_spec).collect();
    let sorted = match sort(objects, &shells, scenario.start, MAX_AGE) {
        Ok(sorted) => sorted,
        Err(found) => {
            for error in found {
                errors.push(set.file.error_where_named("shells", error.to_string()));
            }
            return None;
        }
    };
    for out in &sorted.left_out {
        let object = &objects[out.index];
        left_out.push(LeftOut {
            constellation: constellation.name.to_string(),
            object: object.name().map(str::to_owned),
            catalogue_number: object.catalogue_number(),
            reason: out.reason.to_string(),
        });
    }
    if sorted.kept.is_empty() {
        let message = format!(
            "none of the {} objects flies in a shell of `{}`",
            objects.len(),
            constellation.name
        );
        errors.push(set.file.error_where_named("no-satellites", message));
        return None;
    }
    let Some(pattern) = one_pattern(set) else {
        let message = "shells of one file must all be `star` or all be `delta`";
        errors.push(set.file.error_where_named("shells", message));
        return None;
    };
    // The widest plane of each shell says how many digits slot numbers need.
    let mut slots = vec![0; set.shells.len()];
    for placed in &sorted.kept {
        slots[placed.shell] = slots[placed.shell].max(placed.slot + 1);
    }
    let name = |placed: &Placed| {
        let shell = &set.shells[placed.shell];
        let prefix = format!("{}-{}", constellation.name, shell.name);
        satellite_name(
            &prefix,
            placed.plane,
            shell.planes,
            placed.slot,
            slots[placed.shell],
        )
    };
    let small = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    Some(Flown {
        satellites: sorted
            .kept
            .iter()
            .map(|placed| Satellite {
                name: name(placed),
                // At most 100 shells and 10,000 planes by the scenario's bounds; slots are counted in files.
                shell: small(u32::try_from(placed.shell).unwrap_or(u32::MAX)),
                plane: small(placed.plane),
                slot: small(placed.slot),
            })
            .collect(),
        orbits: sorted
            .kept
            .into_iter()
            .map(|placed| placed.satellite)
            .collect(),
        neighbours: Neighbours::Nearest {
            wrap: wrap_of(pattern, &constellation.isl),
        },
    })
}

fn shell_spec(shell: &model::Shell) -> ShellSpec {
    ShellSpec {
        name: shell.name.to_string(),
        altitude: shell.altitude,
        altitude_tolerance: shell.altitude_tolerance,
        inclination: shell.inclination,
        inclination_tolerance: shell.inclination_tolerance,
        planes: PlaneRule::Count(shell.planes),
    }
}

fn one_pattern(set: &model::ElementSet) -> Option<WalkerPattern> {
    let first = set.shells.first()?.pattern;
    set.shells
        .iter()
        .all(|shell| shell.pattern == first)
        .then_some(first)
}
