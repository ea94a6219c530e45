//! Constellations of real satellites: element files are read and named, and sorted into shells and planes or flown
//! as they are. Reports the age of their data.

use std::collections::BTreeMap;

use constel_exchange::ReadError;
use constel_exchange::ephemeris::EphemerisFile;
use constel_orbit::shells::{Placed, PlaneRule, ShellFound, ShellSpec, sort};
use constel_orbit::{ElementFile, ElementSet, RecordError, omm, tle};
use constel_scenario::model::{self, Orbits, WalkerPattern, satellite_name};
use constel_scenario::{Diagnostics, LeftOut, Scenario, TextFile};
use constel_topology::{Neighbours, Satellite, Wrap};
use constel_units::Utc;
use serde::Serialize;

use crate::catalogue::Catalogued;
use crate::chosen::Chooser;
use crate::flown::{Flown, wrap_of};
use crate::sky;

/// A shell of an element file, with the values that its objects show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SortedShell {
    /// The constellation that uses the file.
    pub constellation: String,
    /// The name.
    pub shell: String,
    /// Objects that fly in it.
    pub satellites: u32,
    /// The number of planes with objects.
    pub planes: usize,
    /// The number of satellites in the emptiest plane, and in the fullest.
    pub per_plane: (u32, u32),
    /// The smallest gap between the nearest nodes of two neighbouring planes, degrees.
    pub narrowest_gap_deg: f64,
    /// The largest gap between two neighbouring nodes of one plane, degrees.
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

/// The age of a file's data, or the place where the data ends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DataAge {
    /// The constellation that uses it.
    pub constellation: String,
    /// The file name in the scenario.
    pub file: String,
    /// For elements: the median of the days between their epoch and the start of the scenario (positive or
    /// negative), over the satellites that fly.
    pub median_days: Option<f64>,
    /// For elements: the days of the satellite with the farthest epoch.
    pub farthest_days: Option<f64>,
    /// A warning for the user, if any.
    pub warning: Option<String>,
}

/// The age in days from which elements count as old: positions are then some kilometres off. Catalogue elements in
/// low orbits are accurate to about a kilometre at their epoch and lose one to three kilometres a day (Vallado et
/// al., "Revisiting Spacetrack Report #3", AIAA 2006-6753).
const FRESH_DAYS: f64 = 2.0;

impl DataAge {
    /// Returns a warning about a file whose age has no meaning.
    fn warned(constellation: &model::Constellation, file: &TextFile, warning: String) -> Self {
        Self {
            constellation: constellation.name.to_string(),
            file: file.path.clone(),
            median_days: None,
            farthest_days: None,
            warning: Some(warning),
        }
    }

    /// Reports records of a file that could not be read, if the others fly without them.
    pub(crate) fn unread(
        constellation: &model::Constellation,
        named: &TextFile,
        file: &ElementFile,
    ) -> Self {
        let records = records(&file.errors);
        let first = records.first().and_then(|record| record.first());
        let first = first.map_or_else(String::new, ToString::to_string);
        let (bad, good) = (records.len(), file.sets.len());
        Self::warned(
            constellation,
            named,
            format!(
                "{bad} of {} records cannot be read and do not fly, the first for {first} (`strict: true` refuses such a file)",
                bad + good
            ),
        )
    }

    /// Reports states of an ephemeris that could not be used, if the others fly without them.
    pub(crate) fn bad_states(
        constellation: &model::Constellation,
        named: &TextFile,
        file: &EphemerisFile,
    ) -> Self {
        let bad: usize = file.bad.iter().map(|bad| bad.count).sum();
        let first = file.bad.first().map_or_else(String::new, |bad| {
            match (bad.object.as_str(), &bad.first) {
                ("", first) => first.to_string(),
                (name, ReadError { line, reason }) => format!("line {line}: {name}: {reason}"),
            }
        });
        Self::warned(
            constellation,
            named,
            format!(
                "{bad} of {} states cannot be used and leave holes, the first for {first} (`strict: true` refuses such a file)",
                file.states.max(bad)
            ),
        )
    }

    /// Reports times between the first and the last at which an object of an ephemeris has no position.
    pub(crate) fn holes(
        constellation: &model::Constellation,
        file: &TextFile,
        object: &str,
        holes: &[(Utc, Utc)],
    ) -> Self {
        let (from, to) = holes[0];
        let more = match holes.len() - 1 {
            0 => String::new(),
            n => format!(", nor in {n} later holes"),
        };
        Self::warned(
            constellation,
            file,
            format!(
                "`{object}` has no position between {from} and {to}{more}: it has no links there"
            ),
        )
    }

    /// Computes the days from the elements' epochs to the start of the scenario, from at least one epoch.
    pub(crate) fn of_elements(
        constellation: &model::Constellation,
        file: &TextFile,
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
            file: file.path.clone(),
            median_days: Some(median),
            farthest_days: Some(farthest),
            warning,
        }
    }

    /// Returns a warning about the objects that come down within the lab, with the first one, its instant and the reason.
    pub(crate) fn coming_down(
        constellation: &model::Constellation,
        file: &TextFile,
        mut down: Vec<(Utc, String)>,
    ) -> Option<Self> {
        down.sort();
        let (at, what) = down.first()?;
        let others = match down.len() - 1 {
            0 => String::new(),
            others => format!("; {others} more after it"),
        };
        // To a second: the orbit is not known better.
        Some(Self::warned(
            constellation,
            file,
            format!("{what}: it has no position from {at:.0} on, and no links{others}"),
        ))
    }

    /// Reports an ephemeris that does not reach the end of the scenario.
    pub(crate) fn ends_early(
        constellation: &model::Constellation,
        file: &TextFile,
        object: &str,
        last: Utc,
    ) -> Self {
        Self::warned(
            constellation,
            file,
            format!("`{object}` has positions until {last} only: after that it has no links"),
        )
    }
}

/// The results of reading element files, apart from the satellites.
pub(crate) struct Findings<'a> {
    pub(crate) left_out: &'a mut Vec<LeftOut>,
    pub(crate) shells: &'a mut Vec<SortedShell>,
    pub(crate) ages: &'a mut Vec<DataAge>,
    pub(crate) errors: &'a mut Diagnostics,
}

/// Groups the errors by record, in the order of records.
fn records(errors: &[RecordError]) -> Vec<&[RecordError]> {
    errors.chunk_by(|a, b| a.record == b.record).collect()
}

/// Returns the objects of a file. Errors go to `findings`. Records that cannot be read are left out if others can
/// be read and `strict` is not set.
fn read(
    constellation: &model::Constellation,
    set: &model::ElementSet,
    findings: &mut Findings<'_>,
) -> Option<Vec<ElementSet>> {
    let (code, read) = match &constellation.orbits {
        Orbits::Omm(_) => ("omm", omm::read(set.file.text())),
        _ => ("tle", tle::read(set.file.text())),
    };
    if read.sets.is_empty() || (set.strict && !read.errors.is_empty()) {
        refuse(&set.file, code, &read.errors, findings.errors);
        return None;
    }
    leave_out_unread(constellation, &set.file, &read, findings);
    Some(read.sets)
}

/// An error for each record of `file` that cannot be read.
pub(crate) fn refuse(
    file: &TextFile,
    code: &'static str,
    found: &[RecordError],
    errors: &mut Diagnostics,
) {
    for error in found {
        if errors.is_full() {
            break;
        }
        let named = error.object.as_ref().map(|name| format!("{name}: "));
        let message = format!("{}{}", named.unwrap_or_default(), error.reason);
        errors.push(file.error_in_line(error.line, code, message));
    }
}

/// Counts and names the records of `file` that cannot be read.
pub(crate) fn leave_out_unread(
    constellation: &model::Constellation,
    file: &TextFile,
    read: &ElementFile,
    findings: &mut Findings<'_>,
) {
    let records = records(&read.errors);
    findings
        .left_out
        .extend(records.iter().map(|record| unread(constellation, record)));
    if !records.is_empty() {
        let age = DataAge::unread(constellation, file, read);
        findings.ages.push(age);
    }
}

/// The kind of objects whose records cannot be read.
pub(crate) const UNREAD: &str = "in records that cannot be read";

fn unread(constellation: &model::Constellation, record: &[RecordError]) -> LeftOut {
    let reasons: Vec<String> = record
        .iter()
        .map(|error| format!("line {}: {}", error.line, error.reason))
        .collect();
    LeftOut {
        constellation: constellation.name.to_string(),
        object: record.first().and_then(|error| error.object.clone()),
        catalogue_number: None,
        reason: reasons.join("; "),
        kind: UNREAD,
    }
}

/// Reads a constellation's element file, selects its objects, and sorts them into shells or takes them as they are.
pub(crate) fn fly(
    scenario: &Scenario,
    constellation: &model::Constellation,
    set: &model::ElementSet,
    findings: &mut Findings<'_>,
) -> Option<Flown> {
    let before = findings.left_out.len();
    let objects = read(constellation, set, findings)?;
    let read = objects.len();
    let objects = choose(constellation, set, objects, before, findings)?;
    let flown = if objects.is_empty() {
        let message = format!("`only` and `except` leave none of the {read} objects");
        let error = with_reasons(set, "no-satellites", message, &findings.left_out[before..]);
        findings.errors.push(error);
        None
    } else if set.shells.is_empty() {
        fly_as_is(scenario, constellation, set, &objects, findings)
    } else {
        fly_shells(scenario, constellation, set, &objects, findings)
    };
    if flown.is_none() {
        // There will be no plan to report the objects that were left out, so the errors must.
        let own = findings.left_out[before..].to_vec();
        findings.errors.leave_out(own);
    }
    flown
}

/// Returns the objects that `only` and `except` select. Objects that were left out from `before` on cannot be read.
fn choose(
    constellation: &model::Constellation,
    set: &model::ElementSet,
    objects: Vec<ElementSet>,
    before: usize,
    findings: &mut Findings<'_>,
) -> Option<Vec<ElementSet>> {
    let called =
        |object: &ElementSet| (object.name().map(str::to_owned), object.catalogue_number());
    let names = objects.iter().map(called);
    let unread = &findings.left_out[before..];
    let chosen = Chooser::new(&set.chosen).choose(names, unread, findings.errors)?;
    let (kept, others): (Vec<_>, Vec<_>) = objects
        .into_iter()
        .zip(chosen)
        .partition(|(_, chosen)| chosen.is_ok());
    findings
        .left_out
        .extend(others.iter().filter_map(|(object, chosen)| {
            let reason = chosen.as_ref().err()?;
            Some(left_out(
                constellation,
                object,
                reason.clone(),
                "not chosen",
            ))
        }));
    Some(kept.into_iter().map(|(object, _)| object).collect())
}

fn left_out(
    constellation: &model::Constellation,
    object: &ElementSet,
    reason: String,
    kind: &'static str,
) -> LeftOut {
    LeftOut {
        constellation: constellation.name.to_string(),
        object: object.name().map(str::to_owned),
        catalogue_number: object.catalogue_number(),
        reason,
        kind,
    }
}

/// Warns of objects that lose their position within the lab: they come down.
pub(crate) fn warn_of_falls<'s>(
    scenario: &Scenario,
    constellation: &model::Constellation,
    file: &TextFile,
    flying: impl Iterator<Item = (&'s ElementSet, &'s constel_orbit::Satellite)>,
    findings: &mut Findings<'_>,
) {
    let (start, end) = (scenario.start, scenario.start + scenario.duration);
    let down = flying.filter_map(|(object, satellite)| {
        let (at, reason) = satellite.first_lost(start, end)?;
        Some((
            at,
            format!("`{}` comes down ({reason})", catalogued(object)),
        ))
    });
    let warning = DataAge::coming_down(constellation, file, down.collect());
    findings.ages.extend(warning);
}

/// Returns the days from the epoch of an object's elements to the start.
pub(crate) fn days(scenario: &Scenario, object: &ElementSet) -> f64 {
    (scenario.start.unix_ns() as f64 - object.epoch().unix_ns() as f64) / 86_400e9
}

/// Returns an error at the file's name, with the kinds of reasons for which objects are left out, and one reason of
/// each kind in full.
fn with_reasons(
    set: &model::ElementSet,
    code: &'static str,
    message: String,
    left_out: &[LeftOut],
) -> constel_scenario::Diagnostic {
    let mut kinds: BTreeMap<&str, (usize, &LeftOut)> = BTreeMap::new();
    for out in left_out {
        kinds.entry(out.kind).or_insert((0, out)).0 += 1;
    }
    let mut error = set.file.error_where_named(code, message);
    // Errors of the shells are those of planes that the objects do not form.
    let do_not_fit = code == "shells" || NOT_OF_SHELLS.iter().any(|kind| kinds.contains_key(kind));
    if do_not_fit && !set.shells.is_empty() {
        error = error.with_suggestion(
            "correct the shell, choose objects by `only` and `except`, or leave `shells` out: then all objects fly as they are",
        );
    }
    if kinds.is_empty() {
        return error;
    }
    let stale = kinds.contains_key(STALE);
    let name = |out: &LeftOut| match (&out.object, out.catalogue_number) {
        (Some(name), _) => format!("{name}: "),
        (None, Some(number)) => format!("{number}: "),
        (None, None) => String::new(),
    };
    let reasons = kinds
        .iter()
        .map(|(kind, (count, first))| format!("{count} {kind} ({}{})", name(first), first.reason));
    let error = error.with_reason(format!(
        "left out: {}",
        reasons.collect::<Vec<_>>().join(", ")
    ));
    if stale {
        return error.with_suggestion(NEARER);
    }
    error.with_next("`constel check FILE --json` names each object, with its reason")
}

/// The kinds of objects that fly without `shells`.
const NOT_OF_SHELLS: [&str; 2] = ["in none of the shells", "not circular enough"];

/// The remedy for elements that are too old or too new.
pub(crate) const NEARER: &str =
    "set `start` near the epochs of the elements, or `max_age` to fly them all the same";

/// The kind of the objects that `max_age` leaves out.
const STALE: &str = "with elements too old or too new";

fn fly_shells(
    scenario: &Scenario,
    constellation: &model::Constellation,
    set: &model::ElementSet,
    objects: &[ElementSet],
    findings: &mut Findings<'_>,
) -> Option<Flown> {
    let shells: Vec<ShellSpec> = set.shells.iter().map(shell_spec).collect();
    let Some(pattern) = one_pattern(set) else {
        let message = "shells of one file must all be `star` or all be `delta`";
        findings
            .errors
            .push(set.file.error_where_named("shells", message));
        return None;
    };
    let sorting = sort(objects, &shells, scenario.start, set.max_age);
    let outs = match &sorting {
        Ok(sorted) => &sorted.left_out,
        Err(unsorted) => &unsorted.left_out,
    };
    let outs: Vec<LeftOut> = outs
        .iter()
        .map(|out| {
            let object = &objects[out.index];
            left_out(
                constellation,
                object,
                out.reason.to_string(),
                out.reason.kind(),
            )
        })
        .collect();
    findings.left_out.extend(outs.iter().cloned());
    let sorted = match sorting {
        Ok(sorted) => sorted,
        Err(unsorted) => {
            for error in unsorted.errors {
                let error = with_reasons(set, "shells", error.to_string(), &outs);
                findings.errors.push(error);
            }
            return None;
        }
    };
    let pairs = set.shells.iter().zip(&sorted.shells);
    findings
        .shells
        .extend(pairs.map(|(shell, sorted)| SortedShell::new(constellation, shell, sorted)));
    if sorted.kept.is_empty() {
        let message = format!(
            "none of the {} objects flies in a shell of `{}`",
            objects.len(),
            constellation.name
        );
        let error = with_reasons(set, "no-satellites", message, &outs);
        findings.errors.push(error);
        return None;
    }
    let ages = sorted
        .kept
        .iter()
        .map(|placed| days(scenario, &objects[placed.index]));
    findings.ages.push(DataAge::of_elements(
        constellation,
        &set.file,
        ages.collect(),
    ));
    let flying = sorted.kept.iter();
    let flying = flying.map(|placed| (&objects[placed.index], &placed.satellite));
    warn_of_falls(scenario, constellation, &set.file, flying, findings);
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

/// Takes every object in the order of the file, whatever its orbit.
fn fly_as_is(
    scenario: &Scenario,
    constellation: &model::Constellation,
    set: &model::ElementSet,
    objects: &[ElementSet],
    findings: &mut Findings<'_>,
) -> Option<Flown> {
    let mut outs = Vec::new();
    let mut flying = Vec::new();
    for placed in constel_orbit::shells::as_they_are(objects, scenario.start, set.max_age) {
        match placed {
            Ok(flown) => flying.push(flown),
            Err(out) => {
                let object = &objects[out.index];
                let reason = out.reason.to_string();
                outs.push(left_out(constellation, object, reason, out.reason.kind()));
            }
        }
    }
    findings.left_out.extend(outs.iter().cloned());
    if flying.is_empty() {
        let message = format!("none of the {} objects flies", objects.len());
        let error = with_reasons(set, "no-satellites", message, &outs);
        findings.errors.push(error);
        return None;
    }
    let slots = u32::try_from(flying.len()).unwrap_or(u32::MAX);
    let ages = flying
        .iter()
        .map(|(index, _)| days(scenario, &objects[*index]));
    findings.ages.push(DataAge::of_elements(
        constellation,
        &set.file,
        ages.collect(),
    ));
    let objects_of = flying
        .iter()
        .map(|(index, satellite)| (&objects[*index], satellite));
    warn_of_falls(scenario, constellation, &set.file, objects_of, findings);
    let own = |(index, _): &(usize, _)| Some(catalogued(&objects[*index]));
    Some(Flown {
        catalogued: flying.iter().map(own).collect(),
        satellites: (0..slots)
            .map(|slot| Satellite {
                name: satellite_name(constellation.name.as_str(), 0, 1, slot, slots),
                shell: 0,
                plane: 0,
                // The layout refuses larger numbers as duplicate seats.
                slot: u16::try_from(slot).unwrap_or(u16::MAX),
            })
            .collect(),
        orbits: sky::Orbits::Computed(flying.into_iter().map(|(_, satellite)| satellite).collect()),
        neighbours: Neighbours::Nearest { wrap: Wrap::Delta },
    })
}

/// Returns the satellites with their names, in the given order.
fn named(
    constellation: &model::Constellation,
    set: &model::ElementSet,
    kept: &[Placed],
) -> Vec<Satellite> {
    // The largest plane of each shell determines the number of digits in slot numbers.
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
            // The scenario allows at most 100 shells and 10,000 planes; slots are counted per file.
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
        norad_id: object.catalogue_number(),
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
