//! Constellations of real satellites: element files read, sorted into shells and planes, named; how old they are.

use constel_orbit::omm::OmmError;
use constel_orbit::shells::{Placed, PlaneRule, ShellFound, ShellSpec, sort};
use constel_orbit::{ElementSet, omm, tle};
use constel_scenario::model::{self, Orbits, WalkerPattern, satellite_name};
use constel_scenario::{Diagnostics, Scenario};
use constel_topology::{Neighbours, Satellite};
use constel_units::{TimeSpan, Utc};
use serde::Serialize;

use crate::catalogue::Catalogued;
use crate::flown::{Flown, wrap_of};
use crate::sky;

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
    /// The same of all objects left out alike, in words that follow their number.
    pub kind: &'static str,
}

/// A shell of an element file as its objects show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SortedShell {
    /// The constellation whose file it is of.
    pub constellation: String,
    /// Its name.
    pub shell: String,
    /// Objects that fly in it.
    pub satellites: u32,
    /// Planes they are in.
    pub planes: usize,
    /// Satellites of the emptiest plane, and of the fullest.
    pub per_plane: (u32, u32),
    /// Between the nearest nodes of two neighbouring planes, where they are nearest, degrees.
    pub narrowest_gap_deg: f64,
    /// Between two neighbouring nodes of one plane, where they are farthest apart, degrees.
    pub widest_inner_gap_deg: f64,
}

impl SortedShell {
    fn new(constellation: &model::Constellation, shell: &model::Shell, found: &ShellFound) -> Self {
        let sizes = || found.planes.iter().map(|plane| plane.satellites);
        Self {
            constellation: constellation.name.to_string(),
            shell: shell.name.to_string(),
            satellites: sizes().sum(),
            planes: found.planes.len(),
            per_plane: (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0)),
            narrowest_gap_deg: found.narrowest_gap_rad.to_degrees(),
            widest_inner_gap_deg: found.widest_inner_gap_rad.to_degrees(),
        }
    }
}

/// How old the data of a file is, or where it ends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DataAge {
    /// The constellation that uses it.
    pub constellation: String,
    /// The file, as the scenario names it.
    pub file: String,
    /// Of elements: days between their epoch and the start of the scenario, of either sign, of the middle one of the
    /// satellites that fly.
    pub median_days: Option<f64>,
    /// The same of the farthest one.
    pub farthest_days: Option<f64>,
    /// What the user should know, if anything.
    pub warning: Option<String>,
}

/// Elements farther than this from lab time zero give positions that are some kilometres off, days. Catalogue elements
/// in low orbits are good to about a kilometre at their epoch and lose one to three a day (Vallado et al., "Revisiting
/// Spacetrack Report #3", AIAA 2006-6753).
const FRESH_DAYS: f64 = 2.0;

impl DataAge {
    /// Days from the elements' epochs to the start of the scenario; there is at least one.
    fn of_elements(
        constellation: &model::Constellation,
        set: &model::ElementSet,
        mut days: Vec<f64>,
    ) -> Self {
        days.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let (median, farthest) = (days[days.len() / 2], days[days.len() - 1]);
        let stale = days.iter().filter(|d| d.abs() > FRESH_DAYS).count();
        let warning = (stale > 0).then(|| {
            format!(
                "elements of {stale} of {} satellites are more than {FRESH_DAYS} days from the scenario's start \
                 (up to {:.1}): positions may be off by kilometres",
                days.len(),
                farthest.abs()
            )
        });
        Self {
            constellation: constellation.name.to_string(),
            file: set.file.path.clone(),
            median_days: Some(median),
            farthest_days: Some(farthest),
            warning,
        }
    }

    /// An ephemeris that does not reach the end of the scenario.
    pub(crate) fn ends_early(
        constellation: &model::Constellation,
        file: &constel_scenario::TextFile,
        object: &str,
        last: Utc,
    ) -> Self {
        Self {
            constellation: constellation.name.to_string(),
            file: file.path.clone(),
            median_days: None,
            farthest_days: None,
            warning: Some(format!(
                "`{object}` has positions until {last} only: after that it has no links"
            )),
        }
    }
}

/// What reading element files comes to besides satellites.
pub(crate) struct Findings<'a> {
    pub(crate) left_out: &'a mut Vec<LeftOut>,
    pub(crate) shells: &'a mut Vec<SortedShell>,
    pub(crate) ages: &'a mut Vec<DataAge>,
    pub(crate) errors: &'a mut Diagnostics,
}

/// The objects of a file; its errors go to `errors`.
fn read(orbits: &Orbits, errors: &mut Diagnostics) -> Option<Vec<ElementSet>> {
    let saturate = |n: usize| u32::try_from(n.max(1)).unwrap_or(u32::MAX);
    match orbits {
        Orbits::Tle(set) => match tle::parse(set.file.text()) {
            Ok(objects) => return Some(objects),
            Err(found) => {
                for e in found.0 {
                    errors.push(set.file.error_in_line(e.line, "tle", e.reason.to_string()));
                }
            }
        },
        Orbits::Omm(set) => match omm::parse(set.file.text()) {
            Ok(objects) => return Some(objects),
            Err(found) => {
                for e in found.0 {
                    errors.push(match &e {
                        OmmError::Csv { line, reason } => {
                            set.file.error_in_line(*line, "omm", reason.clone())
                        }
                        OmmError::Json { line, column, .. } => {
                            let (line, column) = (saturate(*line), saturate(*column));
                            set.file.error(line, column, 1, "omm", e.to_string())
                        }
                        _ => set.file.error(1, 1, 1, "omm", e.to_string()),
                    });
                }
            }
        },
        Orbits::Walker(_) | Orbits::Ephemeris(_) | Orbits::Formation(_) => {}
    }
    None
}

/// Reads a constellation's element file and sorts it into shells.
pub(crate) fn fly(
    scenario: &Scenario,
    constellation: &model::Constellation,
    set: &model::ElementSet,
    findings: &mut Findings<'_>,
) -> Option<Flown> {
    let Findings {
        left_out,
        shells: found,
        ages,
        errors,
    } = findings;
    let objects = read(&constellation.orbits, errors)?;
    let shells: Vec<ShellSpec> = set.shells.iter().map(shell_spec).collect();
    let sorted = match sort(&objects, &shells, scenario.start, MAX_AGE) {
        Ok(sorted) => sorted,
        Err(wrong) => {
            for error in wrong {
                errors.push(set.file.error_where_named("shells", error.to_string()));
            }
            return None;
        }
    };
    let pairs = set.shells.iter().zip(&sorted.shells);
    found.extend(pairs.map(|(shell, sorted)| SortedShell::new(constellation, shell, sorted)));
    for out in &sorted.left_out {
        let object = &objects[out.index];
        left_out.push(LeftOut {
            constellation: constellation.name.to_string(),
            object: object.name().map(str::to_owned),
            catalogue_number: object.catalogue_number(),
            reason: out.reason.to_string(),
            kind: out.reason.kind(),
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
    let days = |placed: &Placed| {
        let epoch = objects[placed.index].epoch();
        (scenario.start.unix_ns() - epoch.unix_ns()) as f64 / 86_400e9
    };
    let days = sorted.kept.iter().map(days).collect();
    ages.push(DataAge::of_elements(constellation, set, days));
    Some(Flown {
        catalogued: sorted
            .kept
            .iter()
            .map(|placed| Some(catalogued(&objects[placed.index])))
            .collect(),
        satellites: named(constellation, set, &sorted.kept),
        orbits: sky::Orbits::Computed(
            sorted
                .kept
                .into_iter()
                .map(|placed| placed.satellite)
                .collect(),
        ),
        neighbours: Neighbours::Nearest {
            wrap: wrap_of(pattern, &constellation.isl),
        },
    })
}

/// The satellites by their names, in this order.
fn named(
    constellation: &model::Constellation,
    set: &model::ElementSet,
    kept: &[Placed],
) -> Vec<Satellite> {
    // The widest plane of each shell says how many digits slot numbers need.
    let mut slots = vec![0; set.shells.len()];
    for placed in kept {
        slots[placed.shell] = slots[placed.shell].max(placed.slot + 1);
    }
    let small = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    let satellite = |placed: &Placed| {
        let shell = &set.shells[placed.shell];
        let prefix = format!("{}-{}", constellation.name, shell.name);
        let widest = slots[placed.shell];
        Satellite {
            name: satellite_name(&prefix, placed.plane, shell.planes, placed.slot, widest),
            // At most 100 shells and 10,000 planes by the scenario's bounds; slots are counted in files.
            shell: small(u32::try_from(placed.shell).unwrap_or(u32::MAX)),
            plane: small(placed.plane),
            slot: small(placed.slot),
        }
    };
    kept.iter().map(satellite).collect()
}

pub(crate) fn catalogued(object: &ElementSet) -> Catalogued {
    Catalogued {
        catalogue_name: object.name().map(str::to_owned),
        norad_id: Some(object.catalogue_number()),
    }
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
