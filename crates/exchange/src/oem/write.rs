//! Messages written in the keyword notation.

use constel_units::Utc;

use crate::ephemeris::{Ephemeris, Frame, Method};

/// Writes a message. Positions to a millimetre; `created`, in whole seconds, and `originator` go into the header.
pub fn write(objects: &[Ephemeris], created: Utc, originator: &str) -> String {
    use std::fmt::Write;
    let time = |at: Utc| at.to_string().trim_end_matches('Z').to_owned();
    let line = |text: &str| {
        text.chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect::<String>()
    };
    let mut out = format!(
        "CCSDS_OEM_VERS = 2.0\nCREATION_DATE = {}\nORIGINATOR = {}\n",
        format!("{created:.0}").trim_end_matches('Z'),
        line(originator)
    );
    for object in objects {
        for segment in &object.segments {
            let (method, degree) = segment.method();
            let (from, to) = segment.usable();
            let states = segment.states();
            // Writing into a string cannot fail.
            let _ = write!(
                out,
                "\nMETA_START\nOBJECT_NAME = {}\nOBJECT_ID = {}\nCENTER_NAME = EARTH\nREF_FRAME = {}\n\
                 TIME_SYSTEM = UTC\nSTART_TIME = {}\nUSEABLE_START_TIME = {}\nUSEABLE_STOP_TIME = {}\n\
                 STOP_TIME = {}\nINTERPOLATION = {}\nINTERPOLATION_DEGREE = {degree}\nMETA_STOP\n",
                line(&object.object),
                line(&object.object_id),
                match segment.frame() {
                    Frame::Itrf => "ITRF2000",
                    Frame::Teme => "TEME",
                },
                time(states[0].at),
                time(from),
                time(to),
                time(states[states.len() - 1].at),
                match method {
                    Method::Lagrange => "LAGRANGE",
                    Method::Hermite => "HERMITE",
                },
            );
            for state in states {
                let p = state.position_m / 1e3;
                let _ = write!(out, "{} {:.6} {:.6} {:.6}", time(state.at), p.x, p.y, p.z);
                if let Some(v) = state.velocity_m_per_s {
                    let v = v / 1e3;
                    let _ = write!(out, " {:.9} {:.9} {:.9}", v.x, v.y, v.z);
                }
                out.push('\n');
            }
        }
    }
    out
}
