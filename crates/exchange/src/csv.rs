//! Ephemerides as CSV: `t_utc,sat_id,x_m,y_m,z_m,vx_mps,vy_mps,vz_mps,frame`, the velocity columns left out where
//! there are none. One row an object and instant, in any order of objects.

use std::collections::BTreeMap;

use constel_orbit::DVec3;

use crate::ephemeris::{Ephemeris, Frame, Segment, State};
use crate::text::{Findings, ReadErrors, instant, number, shown};

/// First line of a file with velocities.
pub const HEADER: &str = "t_utc,sat_id,x_m,y_m,z_m,vx_mps,vy_mps,vz_mps,frame";
/// First line of a file without.
pub const HEADER_WITHOUT_VELOCITY: &str = "t_utc,sat_id,x_m,y_m,z_m,frame";

struct Object {
    line: usize,
    frame: Frame,
    states: Vec<State>,
}

/// Reads a file: one [`Ephemeris`] an object, in the order of their first rows.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse(text: &str) -> Result<Vec<Ephemeris>, ReadErrors> {
    let mut findings = Findings::default();
    let mut lines = text.lines().enumerate();
    let header = lines
        .next()
        .map_or("", |(_, line)| line.trim().trim_start_matches('\u{feff}'));
    let columns = match header {
        HEADER => 9,
        HEADER_WITHOUT_VELOCITY => 6,
        _ => {
            findings.push(
                1,
                format!("the first line is `{}`, not `{HEADER}`", shown(header)),
            );
            return findings.or(Vec::new());
        }
    };
    let mut objects: BTreeMap<String, Object> = BTreeMap::new();
    for (n, line) in lines {
        if findings.is_full() {
            break;
        }
        if !line.trim().is_empty()
            && let Err(reason) = row(n + 1, line, columns, &mut objects)
        {
            findings.push(n + 1, reason);
        }
    }
    if objects.is_empty() {
        findings.push(1, "no rows");
    }
    let mut read = Vec::new();
    let mut objects: Vec<(String, Object)> = objects.into_iter().collect();
    objects.sort_by_key(|(_, object)| object.line);
    for (name, object) in objects {
        let (method, degree) = Segment::suited(&object.states);
        match Segment::new(object.frame, method, degree, object.states, None) {
            Ok(segment) => {
                read.push(Ephemeris {
                    object: name,
                    object_id: String::new(),
                    segments: vec![segment],
                });
            }
            Err(error) => findings.push(object.line, format!("`{}`: {error}", shown(&name))),
        }
    }
    findings.or(read)
}

fn row(
    n: usize,
    line: &str,
    columns: usize,
    objects: &mut BTreeMap<String, Object>,
) -> Result<(), String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() != columns {
        return Err(format!("{} fields, not {columns}", fields.len()));
    }
    let at = instant(fields[0])?;
    if fields[1].is_empty() {
        return Err("no sat_id".to_owned());
    }
    let vector = |first: usize| {
        Ok::<_, String>(DVec3::new(
            number(fields[first])?,
            number(fields[first + 1])?,
            number(fields[first + 2])?,
        ))
    };
    let position_m = vector(2)?;
    let velocity_m_per_s = if columns == 9 { Some(vector(5)?) } else { None };
    let frame = match fields[columns - 1] {
        "itrf" => Frame::Itrf,
        "teme" => Frame::Teme,
        other => {
            return Err(format!(
                "frame `{}` is not known, only itrf and teme",
                shown(other)
            ));
        }
    };
    let object = objects
        .entry(fields[1].to_owned())
        .or_insert_with(|| Object {
            line: n,
            frame,
            states: Vec::new(),
        });
    if object.frame != frame {
        return Err(format!(
            "`{}` was in frame {} before",
            shown(fields[1]),
            object.frame.as_str()
        ));
    }
    if object.states.last().is_some_and(|s| s.at >= at) {
        return Err(format!(
            "`{}` is not later than its row before",
            shown(fields[1])
        ));
    }
    object.states.push(State {
        at,
        position_m,
        velocity_m_per_s,
    });
    Ok(())
}

/// Writes objects, one after another; with velocities when every state has one. Positions to a micrometre.
///
/// Names must hold no commas and no line ends; such characters become `_`.
pub fn write(objects: &[Ephemeris]) -> String {
    use std::fmt::Write;
    let rows = || {
        objects
            .iter()
            .flat_map(|o| o.segments.iter().map(move |s| (o, s)))
    };
    let velocities = rows().all(|(_, s)| s.states().iter().all(|s| s.velocity_m_per_s.is_some()));
    let mut out = format!(
        "{}\n",
        if velocities {
            HEADER
        } else {
            HEADER_WITHOUT_VELOCITY
        }
    );
    for (object, segment) in rows() {
        let name: String = object
            .object
            .chars()
            .map(|c| if c == ',' || c.is_control() { '_' } else { c })
            .collect();
        for state in segment.states() {
            let p = state.position_m;
            // Writing into a string cannot fail.
            let _ = write!(out, "{},{name},{:.6},{:.6},{:.6},", state.at, p.x, p.y, p.z);
            if let (true, Some(v)) = (velocities, state.velocity_m_per_s) {
                let _ = write!(out, "{:.9},{:.9},{:.9},", v.x, v.y, v.z);
            }
            let _ = writeln!(out, "{}", segment.frame().as_str());
        }
    }
    out
}
