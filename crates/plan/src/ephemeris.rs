//! Constellations of objects whose positions are given: reads ephemeris files and names their objects.

use std::path::Path;

use constel_exchange::ephemeris::{self, Ephemeris, Format};
use constel_scenario::model::{self, satellite_name};
use constel_scenario::{Diagnostics, LeftOut, Scenario, TextFile};
use constel_topology::{Neighbours, Satellite, Wrap};

use crate::catalogue::Catalogued;
use crate::chosen::Chooser;
use crate::elements::{DataAge, Findings};
use crate::flown::Flown;
use crate::sky::Orbits;

/// Returns the objects of a file of positions. Errors go to `errors`.
pub(crate) fn read(
    scenario: &Scenario,
    constellation: &model::Constellation,
    file: &TextFile,
    ages: &mut Vec<DataAge>,
    errors: &mut Diagnostics,
) -> Option<Vec<Ephemeris>> {
    let text = file.text();
    let stem = Path::new(&file.path).file_stem();
    let stem = stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let objects = match ephemeris::read(text, &stem) {
        Ok(objects) => objects,
        Err(found) => {
            let code = Format::of(text).as_str();
            for error in found.0 {
                errors.push(file.error_in_line(error.line, code, error.reason));
            }
            return None;
        }
    };
    let (start, end) = (scenario.start, scenario.start + scenario.duration);
    for object in &objects {
        let (from, to) = object.span();
        if from > start || to < start {
            let message = format!(
                "`{}` has positions from {from} to {to}, not at the start of the scenario, {start}",
                object.object
            );
            errors.push(file.error_where_named("ephemeris", message));
        } else if to < end {
            ages.push(DataAge::ends_early(constellation, file, &object.object, to));
        }
        let mut holes = object.holes();
        holes.retain(|(from, to)| *from < end && *to > start);
        if !holes.is_empty() {
            ages.push(DataAge::holes(constellation, file, &object.object, &holes));
        }
    }
    Some(objects)
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
    let Findings {
        left_out,
        ages,
        errors,
        ..
    } = findings;
    let objects = read(scenario, constellation, &positions.file, ages, errors)?;
    let called = |object: &Ephemeris| (Some(object.object.clone()), None);
    let chosen = Chooser::new(&positions.chosen).choose(objects.iter().map(called), errors)?;
    let mut flying = Vec::new();
    for (object, chosen) in objects.into_iter().zip(chosen) {
        match chosen {
            Ok(()) => flying.push(object),
            Err(reason) => left_out.push(LeftOut {
                constellation: constellation.name.to_string(),
                object: Some(object.object),
                catalogue_number: None,
                reason,
                kind: "not chosen",
            }),
        }
    }
    let objects = flying;
    if objects.is_empty() {
        let message = "no object of the file is chosen";
        let error = positions.file.error_where_named("no-satellites", message);
        errors.push(error);
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
