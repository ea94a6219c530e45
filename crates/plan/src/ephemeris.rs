//! Constellations of objects whose positions are given: reads ephemeris files and names their objects.

use std::collections::BTreeSet;
use std::path::Path;

use constel_exchange::ephemeris::{BadStates, Ephemeris, EphemerisFile};
use constel_exchange::position_files::{self, Format};
use constel_scenario::model::{self, satellite_name};
use constel_scenario::{LeftOut, Scenario, TextFile};
use constel_topology::{Neighbours, Satellite, Wrap};
use constel_units::TimeSpan;

use crate::catalogue::Catalogued;
use crate::chosen::Chooser;
use crate::elements::{DataAge, Findings, UNREAD};
use crate::flown::Flown;
use crate::sky::Orbits;

const SECOND: TimeSpan = TimeSpan::from_ns(1_000_000_000);

/// Returns the objects of a file of positions. Errors go to `findings`. Unless `strict` is set, bad states are holes, and an
/// object without any other state is left out.
pub(crate) fn read(
    constellation: &model::Constellation,
    file: &TextFile,
    strict: bool,
    findings: &mut Findings<'_>,
) -> Option<EphemerisFile> {
    let text = file.text();
    let stem = Path::new(&file.path).file_stem();
    let stem = stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let objects = match position_files::read(text, &stem) {
        Ok(objects) if !strict || objects.errors.is_empty() => objects,
        other => {
            let code = Format::of(text).as_str();
            let found = other.map_or_else(|errors| errors.0, |objects| objects.errors);
            for error in found {
                let error = file.error_in_line(error.line, code, error.reason);
                findings.errors.push(error);
            }
            return None;
        }
    };
    if !objects.bad.is_empty() {
        let bad = DataAge::bad_states(constellation, file, &objects);
        findings.ages.push(bad);
    }
    let lost = objects.bad.iter().filter(|bad| is_lost(bad, &objects));
    findings.left_out.extend(lost.map(|bad| LeftOut {
        constellation: constellation.name.to_string(),
        object: Some(bad.object.clone()),
        catalogue_number: None,
        reason: match bad.count - 1 {
            0 => bad.first.to_string(),
            more => format!("{}; and {more} more", bad.first),
        },
        kind: UNREAD,
    }));
    Some(objects)
}

/// Whether an object has bad states and no others.
fn is_lost(bad: &BadStates, file: &EphemerisFile) -> bool {
    !bad.object.is_empty() && file.objects.iter().all(|own| own.object != bad.object)
}

/// Why an object cannot be in the scenario: it has no position at its start, or a second later, by which the direction of
/// flight is found.
fn not_at_start(scenario: &Scenario, object: &Ephemeris) -> Option<String> {
    let start = scenario.start;
    let (from, to) = object.span();
    if from > start || to < start {
        return Some(format!(
            "`{}` has positions from {from} to {to}, not at the start of the scenario, {start}",
            object.object
        ));
    }
    let missing = [start, start + SECOND]
        .into_iter()
        .find_map(|at| object.position_itrf_m(at).err())?;
    Some(format!(
        "`{}` has no position in the first second of the scenario, which starts at {start}: {missing}",
        object.object
    ))
}

/// Whether all objects of a file have positions at the start of the scenario; those that have none are errors. Warnings
/// state when the rest have none later.
pub(crate) fn check_spans(
    scenario: &Scenario,
    constellation: &model::Constellation,
    file: &TextFile,
    flying: &[Ephemeris],
    findings: &mut Findings<'_>,
) {
    let (start, end) = (scenario.start, scenario.start + scenario.duration);
    for object in flying {
        let name = object.object.as_str();
        if let Some(message) = not_at_start(scenario, object) {
            let error = file.error_where_named("ephemeris", message);
            findings.errors.push(error);
            continue;
        }
        let (_, to) = object.span();
        if to < end {
            let age = DataAge::ends_early(constellation, file, name, to);
            findings.ages.push(age);
        }
        let mut holes = object.holes();
        holes.retain(|(from, to)| *from < end && *to > start);
        if !holes.is_empty() {
            let age = DataAge::holes(constellation, file, name, &holes);
            findings.ages.push(age);
        }
    }
}

/// Returns the catalogue entry of an object, which has the name in the file.
pub(crate) fn catalogued(object: &Ephemeris) -> Option<Catalogued> {
    Some(Catalogued {
        catalogue_name: Some(object.object.clone()),
        norad_id: None,
    })
}

/// Reads a file of positions and names the selected objects.
pub(crate) fn fly(
    scenario: &Scenario,
    constellation: &model::Constellation,
    positions: &model::Positions,
    findings: &mut Findings<'_>,
) -> Option<Flown> {
    let before = findings.left_out.len();
    let file = &positions.file;
    let EphemerisFile { objects, bad, .. } = read(constellation, file, positions.strict, findings)?;
    let called = |object: &Ephemeris| (Some(object.object.clone()), None);
    let unread = &findings.left_out[before..];
    let chosen = Chooser::new(&positions.chosen).choose(
        objects.iter().map(called),
        unread,
        findings.errors,
    )?;
    let spoilt: BTreeSet<&str> = bad.iter().map(|bad| bad.object.as_str()).collect();
    let mut flying = Vec::new();
    for (object, chosen) in objects.into_iter().zip(chosen) {
        let is_spoilt = spoilt.contains(object.object.as_str()) || spoilt.contains("");
        let late = || not_at_start(scenario, &object).filter(|_| is_spoilt);
        let (reason, kind) = match chosen {
            Err(reason) => (reason, "not chosen"),
            // Bad states are at its start: that is no reason to refuse the others.
            Ok(()) => match late() {
                Some(reason) => (reason, "without a position at the start"),
                None => {
                    flying.push(object);
                    continue;
                }
            },
        };
        findings.left_out.push(LeftOut {
            constellation: constellation.name.to_string(),
            object: Some(object.object),
            catalogue_number: None,
            reason,
            kind,
        });
    }
    check_spans(scenario, constellation, file, &flying, findings);
    let objects = flying;
    if objects.is_empty() {
        let out = findings.left_out[before..].iter();
        let mut lost = out.filter(|out| out.kind != "not chosen");
        let message = match lost.next() {
            Some(first) => format!("no object of the file can fly: {}", first.reason),
            None => "no object of the file is chosen".to_owned(),
        };
        let error = file.error_where_named("no-satellites", message);
        findings.errors.push(error);
        return None;
    }
    let slots = u32::try_from(objects.len()).unwrap_or(u32::MAX);
    let name = |slot: u32| satellite_name(constellation.name.as_str(), 0, 1, slot, slots);
    let satellites = (0..slots).map(|slot| Satellite {
        name: name(slot),
        shell: 0,
        plane: 0,
        // The layout refuses larger numbers as duplicate seats.
        slot: u16::try_from(slot).unwrap_or(u16::MAX),
    });
    Some(Flown {
        satellites: satellites.collect(),
        catalogued: objects.iter().map(catalogued).collect(),
        orbits: Orbits::Given(objects),
        neighbours: Neighbours::Nearest { wrap: Wrap::Delta },
    })
}
