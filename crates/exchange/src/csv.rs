//! Ephemerides as CSV (RFC 4180): `t_utc,sat_id,x_m,y_m,z_m,vx_mps,vy_mps,vz_mps,frame`, without the velocity
//! columns if there are no velocities. Each row has one object and instant, in any order of objects. A row with
//! empty coordinates (or `NA`, `NaN`) means that the object has no position from the previous row on: nothing is interpolated
//! between the rows around it.

use std::collections::BTreeMap;

use constel_orbit::DVec3;
use constel_orbit::scales::TimeScale;
use constel_units::text::is_missing;
use constel_units::{Utc, instant};
use csv::{ReaderBuilder, StringRecord, Trim, WriterBuilder};

use crate::ephemeris::{Ephemeris, EphemerisFile, State};
use crate::reference::{Block, Reference};
use crate::states::{Bad, Runs, Track};
use crate::text::{Findings, ReadErrors, number, shown};

/// First line of a file with velocities.
pub const HEADER: &str = "t_utc,sat_id,x_m,y_m,z_m,vx_mps,vy_mps,vz_mps,frame";
/// First line of a file without.
pub const HEADER_WITHOUT_VELOCITY: &str = "t_utc,sat_id,x_m,y_m,z_m,frame";

struct Object {
    line: usize,
    reference: Option<Reference>,
    track: Track,
}

/// Reads a file in which every state is good.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse(text: &str) -> Result<Vec<Ephemeris>, ReadErrors> {
    read(text)?.all()
}

/// Reads a file: one [`Ephemeris`] an object, in the order of their first rows. A bad row is a hole of its object.
///
/// # Errors
/// Everything found wrong, with its line, if there is no header or no object.
pub fn read(text: &str) -> Result<EphemerisFile, ReadErrors> {
    let text = constel_units::text::plain(text);
    let mut findings = Findings::default();
    let mut bad = Bad::default();
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    let mut objects: BTreeMap<String, Object> = BTreeMap::new();
    let mut columns = None;
    loop {
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                let line = error.position().map_or(1, csv::Position::line);
                findings.push(usize::try_from(line).unwrap_or(1), error.to_string());
                break;
            }
        }
        let line = record.position().map_or(1, csv::Position::line);
        let line = usize::try_from(line).unwrap_or(usize::MAX);
        let Some(columns) = columns else {
            columns = width(&record);
            if columns.is_none() {
                let header = record.iter().collect::<Vec<_>>().join(",");
                let reason = format!("the first line is `{}`, not `{HEADER}`", shown(&header));
                findings.push(line, reason);
                return bad.file(Vec::new(), findings);
            }
            continue;
        };
        row(line, &record, columns, &mut objects, &mut bad);
    }
    if objects.is_empty() && bad.is_empty() && findings.is_empty() {
        findings.push(1, "no rows");
    }
    let mut objects: Vec<(String, Object)> = objects.into_iter().collect();
    objects.sort_by_key(|(_, object)| object.line);
    let read = objects
        .into_iter()
        .filter_map(|(name, object)| ephemeris(name, object, &mut bad))
        .collect();
    bad.file(read, findings)
}

/// How many columns the rows after this first one have, if it is one of the two.
fn width(header: &StringRecord) -> Option<usize> {
    let is = |known: &str| {
        let wanted = known.split(',');
        let same = |(cell, name): (&str, &str)| cell.eq_ignore_ascii_case(name);
        header.len() == wanted.clone().count() && header.iter().zip(wanted).all(same)
    };
    [HEADER, HEADER_WITHOUT_VELOCITY]
        .into_iter()
        .find(|known| is(known))
        .map(|known| known.split(',').count())
}

/// The object, if any of its states are good.
fn ephemeris(name: String, object: Object, bad: &mut Bad) -> Option<Ephemeris> {
    let Runs { parts, cut } = object.track.runs(&name, false, bad);
    let mut segments = Vec::new();
    for states in parts {
        let block = Block {
            reference: object.reference?,
            scale: TimeScale::Utc,
            method: None,
            degree: None,
            usable: None,
            cut,
            states,
        };
        match block.segment() {
            Ok(segment) => segments.push(segment),
            Err(error) => {
                bad.push(&name, object.line, format!("`{}`: {error}", shown(&name)));
                return None;
            }
        }
    }
    if segments.is_empty() {
        if !bad.has(&name) {
            let reason = format!("`{}` has no two positions in a row", shown(&name));
            bad.push(&name, object.line, reason);
        }
        return None;
    }
    Some(Ephemeris {
        object: name,
        object_id: String::new(),
        segments,
    })
}

/// One row, as a record of its object; a bad one that names no object is of any.
fn row(
    line: usize,
    fields: &StringRecord,
    columns: usize,
    objects: &mut BTreeMap<String, Object>,
    bad: &mut Bad,
) {
    let Some(name) = fields.get(1).filter(|name| !name.is_empty()) else {
        let reason = match fields.len() == columns {
            true => "no sat_id".to_owned(),
            false => format!("{} fields, not {columns}", fields.len()),
        };
        return bad.push_unplaced(line, reason);
    };
    if !objects.contains_key(name) {
        let object = Object {
            line,
            reference: None,
            track: Track::default(),
        };
        objects.insert(name.to_owned(), object);
    }
    let Some(object) = objects.get_mut(name) else {
        return;
    };
    match record(fields, columns, &mut object.reference) {
        Ok((_, Some(state))) => object.track.state(line, state),
        Ok((at, None)) => object.track.hole(line, Some(at)),
        Err(reason) => object.track.bad(name, line, reason, bad),
    }
}

/// An instant, and the state then; none where the coordinates are empty.
fn record(
    fields: &StringRecord,
    columns: usize,
    known: &mut Option<Reference>,
) -> Result<(Utc, Option<State>), String> {
    if fields.len() != columns {
        return Err(format!("{} fields, not {columns}", fields.len()));
    }
    let at = instant(&fields[0]).map_err(|error| error.to_string())?;
    let reference = Reference::named(&fields[columns - 1])?;
    if known.is_some_and(|known| known != reference) {
        let name = shown(&fields[1]);
        return Err(format!("`{name}` was in another frame before"));
    }
    let vector = |first: usize| {
        Ok::<_, String>(DVec3::new(
            number(&fields[first])?,
            number(&fields[first + 1])?,
            number(&fields[first + 2])?,
        ))
    };
    let state = if (2..columns - 1).all(|column| is_missing(&fields[column])) {
        None
    } else {
        Some(State {
            at,
            position_m: vector(2)?,
            velocity_m_per_s: if columns == 9 { Some(vector(5)?) } else { None },
        })
    };
    *known = Some(reference);
    Ok((at, state))
}

/// Writes objects, one after another; with velocities when every state has one. Positions to a micrometre. Between two
/// segments of an object, a row with empty coordinates marks the hole, a millisecond after the last state.
pub fn write(objects: &[Ephemeris]) -> String {
    let rows = || objects.iter().flat_map(|o| o.segments.iter());
    let velocities = rows().all(|s| s.states().iter().all(|s| s.velocity_m_per_s.is_some()));
    let header = if velocities {
        HEADER
    } else {
        HEADER_WITHOUT_VELOCITY
    };
    let mut out = WriterBuilder::new().from_writer(Vec::new());
    // Writing into memory cannot fail.
    let _ = out.write_record(header.split(','));
    for object in objects {
        let name: String = object
            .object
            .chars()
            .map(|c| if c.is_control() { '_' } else { c })
            .collect();
        for (number, segment) in object.segments.iter().enumerate() {
            for state in segment.states() {
                let p = state.position_m;
                let mut cells = vec![state.at.to_string(), name.clone()];
                cells.extend([p.x, p.y, p.z].map(|x| format!("{x:.6}")));
                if let (true, Some(v)) = (velocities, state.velocity_m_per_s) {
                    cells.extend([v.x, v.y, v.z].map(|x| format!("{x:.9}")));
                }
                cells.push(segment.frame().as_str().to_owned());
                let _ = out.write_record(&cells);
            }
            let last = segment.states().last().map(|state| state.at);
            if let (Some(last), true) = (last, number + 1 < object.segments.len()) {
                let after = Utc::from_unix_ns(last.unix_ns().saturating_add(HOLE_NS));
                let mut cells = vec![after.to_string(), name.clone()];
                cells.resize(header.split(',').count() - 1, String::new());
                cells.push(segment.frame().as_str().to_owned());
                let _ = out.write_record(&cells);
            }
        }
    }
    let bytes = out.into_inner().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// How long after the last state before a hole the row that marks it is.
const HOLE_NS: i64 = 1_000_000;
