//! Constellations of objects whose positions are given: ephemeris files read and named.

use constel_exchange::{ReadErrors, csv, ephemeris::Ephemeris, oem};
use constel_scenario::model::{self, satellite_name};
use constel_scenario::{Diagnostics, Scenario, TextFile};
use constel_topology::{Neighbours, Satellite, Wrap};

use crate::catalogue::Catalogued;
use crate::elements::DataAge;
use crate::flown::Flown;
use crate::sky::Orbits;

/// The objects of a file of positions; its errors go to `errors`. What begins as an OEM must, with its version, is one; all else is CSV.
pub(crate) fn read(
    scenario: &Scenario,
    constellation: &model::Constellation,
    file: &TextFile,
    ages: &mut Vec<DataAge>,
    errors: &mut Diagnostics,
) -> Option<Vec<Ephemeris>> {
    let text = file.text();
    let (code, read): (_, Result<Vec<Ephemeris>, ReadErrors>) =
        if text.trim_start().starts_with("CCSDS_OEM_VERS") {
            ("oem", oem::parse(text))
        } else {
            ("csv", csv::parse(text))
        };
    let objects = match read {
        Ok(objects) => objects,
        Err(found) => {
            for error in found.0 {
                errors.push(file.error_in_line(error.line, code, error.reason));
            }
            return None;
        }
    };
    let (start, end) = (scenario.start, scenario.start + scenario.duration);
    for object in &objects {
        let (Some(first), Some(last)) = (object.segments.first(), object.segments.last()) else {
            continue;
        };
        let (from, to) = (first.usable().0, last.usable().1);
        if from > start || to < start {
            let message = format!(
                "`{}` has positions from {from} to {to}, not at the start of the scenario, {start}",
                object.object
            );
            errors.push(file.error_where_named("ephemeris", message));
        } else if to < end {
            ages.push(DataAge::ends_early(constellation, file, &object.object, to));
        }
    }
    Some(objects)
}

/// What a catalogue calls an object: by its name in the file.
pub(crate) fn catalogued(object: &Ephemeris) -> Option<Catalogued> {
    Some(Catalogued {
        catalogue_name: Some(object.object.clone()),
        norad_id: None,
    })
}

/// Reads a file of positions and names its objects.
pub(crate) fn fly(
    scenario: &Scenario,
    constellation: &model::Constellation,
    file: &TextFile,
    ages: &mut Vec<DataAge>,
    errors: &mut Diagnostics,
) -> Option<Flown> {
    let objects = read(scenario, constellation, file, ages, errors)?;
    let slots = u32::try_from(objects.len()).unwrap_or(u32::MAX);
    let name = |slot: u32| satellite_name(constellation.name.as_str(), 0, 1, slot, slots);
    let satellites = (0..slots).map(|slot| Satellite {
        name: name(slot),
        shell: 0,
        plane: 0,
        // More than that are refused by the layout: two in one seat.
        slot: u16::try_from(slot).unwrap_or(u16::MAX),
    });
    Some(Flown {
        satellites: satellites.collect(),
        catalogued: objects.iter().map(catalogued).collect(),
        orbits: Orbits::Given(objects),
        neighbours: Neighbours::Nearest { wrap: Wrap::Delta },
    })
}
