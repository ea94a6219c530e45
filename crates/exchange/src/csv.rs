//! Ephemerides as CSV (RFC 4180): `t_utc,sat_id,x_m,y_m,z_m,vx_mps,vy_mps,vz_mps,frame`, without the velocity
//! columns if there are no velocities. Each row has one object and instant, in any order of objects. A row with
//! empty coordinates means that the object has no position from the previous row on: nothing is interpolated
//! between the rows around it.

use std::collections::BTreeMap;

use constel_orbit::DVec3;
use constel_orbit::scales::TimeScale;
use constel_units::{Utc, instant};
use csv::{ReaderBuilder, StringRecord, Trim, WriterBuilder};

use crate::ephemeris::{Ephemeris, State};
use crate::reference::{Block, Reference};
use crate::text::{Findings, ReadErrors, number, shown};

/// First line of a file with velocities.
pub const HEADER: &str = "t_utc,sat_id,x_m,y_m,z_m,vx_mps,vy_mps,vz_mps,frame";
/// First line of a file without.
pub const HEADER_WITHOUT_VELOCITY: &str = "t_utc,sat_id,x_m,y_m,z_m,frame";

struct Object {
    line: usize,
    reference: Reference,
    /// Instant of its last row, with a position or without.
    last: Option<Utc>,
    blocks: Vec<Vec<State>>,
}

/// Reads a file: one [`Ephemeris`] an object, in the order of their first rows.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse(text: &str) -> Result<Vec<Ephemeris>, ReadErrors> {
    let text = constel_units::text::plain(text);
    let mut findings = Findings::default();
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
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
                return findings.or(Vec::new());
            }
            continue;
        };
        if let Err(reason) = row(line, &record, columns, &mut objects) {
            findings.push(line, reason);
        }
        if findings.is_full() {
            break;
        }
    }
    if objects.is_empty() && findings.is_empty() {
        findings.push(1, "no rows");
    }
    let mut objects: Vec<(String, Object)> = objects.into_iter().collect();
    objects.sort_by_key(|(_, object)| object.line);
    let read = objects
        .into_iter()
        .filter_map(|(name, object)| ephemeris(name, object, &mut findings))
        .collect();
    findings.or(read)
}

/// How many columns the rows after this first one have, if it is one of the two.
fn width(header: &StringRecord) -> Option<usize> {
    let is = |known: &str| header.iter().eq(known.split(','));
    [HEADER, HEADER_WITHOUT_VELOCITY]
        .into_iter()
        .find(|known| is(known))
        .map(|known| known.split(',').count())
}

fn ephemeris(name: String, object: Object, findings: &mut Findings) -> Option<Ephemeris> {
    let mut segments = Vec::new();
    for states in object
        .blocks
        .into_iter()
        .filter(|states| !states.is_empty())
    {
        let block = Block {
            reference: object.reference,
            scale: TimeScale::Utc,
            method: None,
            degree: None,
            usable: None,
            states,
        };
        match block.segment() {
            Ok(segment) => segments.push(segment),
            Err(error) => {
                findings.push(object.line, format!("`{}`: {error}", shown(&name)));
                return None;
            }
        }
    }
    if segments.is_empty() {
        findings.push(object.line, format!("`{}` has no position", shown(&name)));
        return None;
    }
    Some(Ephemeris {
        object: name,
        object_id: String::new(),
        segments,
    })
}

fn row(
    line: usize,
    fields: &StringRecord,
    columns: usize,
    objects: &mut BTreeMap<String, Object>,
) -> Result<(), String> {
    if fields.len() != columns {
        return Err(format!("{} fields, not {columns}", fields.len()));
    }
    let at = instant(&fields[0]).map_err(|error| error.to_string())?;
    let name = &fields[1];
    if name.is_empty() {
        return Err("no sat_id".to_owned());
    }
    let reference = Reference::named(&fields[columns - 1])?;
    let object = objects.entry(name.to_owned()).or_insert_with(|| Object {
        line,
        reference,
        last: None,
        blocks: vec![Vec::new()],
    });
    if object.reference != reference {
        return Err(format!("`{}` was in another frame before", shown(name)));
    }
    if object.last.is_some_and(|last| last >= at) {
        return Err(format!(
            "`{}` is not later than its row before",
            shown(name)
        ));
    }
    object.last = Some(at);
    if (2..columns - 1).all(|column| fields[column].is_empty()) {
        object.blocks.push(Vec::new());
        return Ok(());
    }
    let vector = |first: usize| {
        Ok::<_, String>(DVec3::new(
            number(&fields[first])?,
            number(&fields[first + 1])?,
            number(&fields[first + 2])?,
        ))
    };
    let position_m = vector(2)?;
    let velocity_m_per_s = if columns == 9 { Some(vector(5)?) } else { None };
    if let Some(block) = object.blocks.last_mut() {
        block.push(State {
            at,
            position_m,
            velocity_m_per_s,
        });
    }
    Ok(())
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
