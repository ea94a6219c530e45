//! CCSDS Orbit Ephemeris Messages in the keyword notation (CCSDS 502.0-B-3, section 5).
//!
//! Read: centre `EARTH`, frames of the ITRF family and `TEME`, time system `UTC`; anything else is refused, as it
//! would need models this crate does not have. Covariances and accelerations are skipped.

use constel_orbit::DVec3;
use constel_units::Utc;

use crate::ephemeris::{Ephemeris, Frame, Method, Segment, State};
use crate::text::{Findings, ReadErrors, instant, number, shown};

/// Metadata of the segment being read.
#[derive(Debug, Default)]
struct Meta {
    line: usize,
    object: String,
    object_id: String,
    frame: Option<Frame>,
    center: bool,
    time_system: bool,
    start: Option<Utc>,
    stop: Option<Utc>,
    usable_start: Option<Utc>,
    usable_stop: Option<Utc>,
    method: Option<Method>,
    degree: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Header,
    Meta,
    Data,
    Covariance,
}

struct Reader {
    part: Part,
    version: bool,
    meta: Meta,
    states: Vec<State>,
    objects: Vec<Ephemeris>,
    findings: Findings,
}

/// Reads a message: one [`Ephemeris`] an object, in order of their first appearance.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse(text: &str) -> Result<Vec<Ephemeris>, ReadErrors> {
    let mut reader = Reader {
        part: Part::Header,
        version: false,
        meta: Meta::default(),
        states: Vec::new(),
        objects: Vec::new(),
        findings: Findings::default(),
    };
    for (n, line) in text.lines().enumerate() {
        reader.line(n + 1, line.trim());
        if reader.findings.is_full() {
            break;
        }
    }
    let last = text.lines().count().max(1);
    if reader.part == Part::Meta || reader.part == Part::Covariance {
        reader.findings.push(last, "the file ends within a block");
    }
    reader.close(last);
    if reader.objects.is_empty() {
        reader.findings.push(last, "no ephemeris in the file");
    }
    reader.findings.or(reader.objects)
}

impl Reader {
    fn line(&mut self, n: usize, line: &str) {
        if line.is_empty() || line == "COMMENT" || line.starts_with("COMMENT ") {
            return;
        }
        match (self.part, line) {
            (Part::Covariance, "COVARIANCE_STOP") => self.part = Part::Data,
            (Part::Covariance, _) => {}
            (Part::Data, "COVARIANCE_START") => self.part = Part::Covariance,
            (Part::Header | Part::Data, "META_START") => {
                self.close(n);
                self.part = Part::Meta;
                self.meta = Meta {
                    line: n,
                    ..Meta::default()
                };
            }
            (Part::Meta, "META_STOP") => {
                self.part = Part::Data;
                self.check_meta(n);
            }
            (Part::Header | Part::Meta, _) => match line.split_once('=') {
                Some((key, value)) => self.pair(n, key.trim(), value.trim()),
                None => self
                    .findings
                    .push(n, format!("`{}` is no `KEYWORD = value`", shown(line))),
            },
            (Part::Data, _) => self.state(n, line),
        }
    }

    fn pair(&mut self, n: usize, key: &str, value: &str) {
        let time = |findings: &mut Findings| match instant(value) {
            Ok(at) => Some(at),
            Err(reason) => {
                findings.push(n, reason);
                None
            }
        };
        if self.part == Part::Header {
            match key {
                "CCSDS_OEM_VERS" => {
                    self.version = true;
                    if !["1.0", "2.0", "3.0"].contains(&value) {
                        self.findings
                            .push(n, format!("version {} of OEM is not known", shown(value)));
                    }
                }
                "CREATION_DATE" | "ORIGINATOR" | "CLASSIFICATION" | "MESSAGE_ID" => {}
                _ => self
                    .findings
                    .push(n, format!("unknown keyword `{}` in the header", shown(key))),
            }
            if !self.version {
                self.findings.push(n, "an OEM begins with CCSDS_OEM_VERS");
                self.version = true;
            }
            return;
        }
        let meta = &mut self.meta;
        match key {
            "OBJECT_NAME" => meta.object = value.to_owned(),
            "OBJECT_ID" => meta.object_id = value.to_owned(),
            "CENTER_NAME" => {
                meta.center = true;
                if !value.eq_ignore_ascii_case("earth") {
                    let reason = format!("centre {} is not supported, only EARTH", shown(value));
                    self.findings.push(n, reason);
                }
            }
            "REF_FRAME" => match frame(value) {
                Some(frame) => meta.frame = Some(frame),
                None => {
                    // One finding, not a second one for a frame that is missing.
                    meta.frame = Some(Frame::Itrf);
                    let reason = format!(
                        "frame {} is not supported, only ITRF and TEME",
                        shown(value)
                    );
                    self.findings.push(n, reason);
                }
            },
            "TIME_SYSTEM" => {
                meta.time_system = true;
                if value != "UTC" {
                    let reason = format!("time system {} is not supported, only UTC", shown(value));
                    self.findings.push(n, reason);
                }
            }
            "START_TIME" => meta.start = time(&mut self.findings),
            "STOP_TIME" => meta.stop = time(&mut self.findings),
            "USEABLE_START_TIME" => meta.usable_start = time(&mut self.findings),
            "USEABLE_STOP_TIME" => meta.usable_stop = time(&mut self.findings),
            "INTERPOLATION" => match value.to_ascii_uppercase().as_str() {
                "LAGRANGE" => meta.method = Some(Method::Lagrange),
                "HERMITE" => meta.method = Some(Method::Hermite),
                "LINEAR" => (meta.method, meta.degree) = (Some(Method::Lagrange), Some(1)),
                _ => self
                    .findings
                    .push(n, format!("interpolation {} is not known", shown(value))),
            },
            "INTERPOLATION_DEGREE" => match value.parse() {
                Ok(degree) => meta.degree = Some(degree),
                Err(_) => self
                    .findings
                    .push(n, format!("degree `{}` is no whole number", shown(value))),
            },
            "REF_FRAME_EPOCH" => {
                self.findings
                    .push(n, "frames with an epoch of their own are not supported");
            }
            _ => self.findings.push(
                n,
                format!("unknown keyword `{}` in the metadata", shown(key)),
            ),
        }
    }

    fn check_meta(&mut self, n: usize) {
        let meta = &self.meta;
        for (there, key) in [
            (!meta.object.is_empty(), "OBJECT_NAME"),
            (meta.center, "CENTER_NAME"),
            (meta.frame.is_some(), "REF_FRAME"),
            (meta.time_system, "TIME_SYSTEM"),
        ] {
            if !there {
                self.findings.push(n, format!("the metadata has no {key}"));
            }
        }
    }

    fn state(&mut self, n: usize, line: &str) {
        if self.meta.line == 0 {
            self.findings.push(n, "data before the first META_START");
            return;
        }
        let mut fields = line.split_whitespace();
        let at = match instant(fields.next().unwrap_or("")) {
            Ok(at) => at,
            Err(reason) => return self.findings.push(n, reason),
        };
        let numbers: Result<Vec<f64>, String> = fields.map(number).collect();
        match numbers.as_deref() {
            // Positions in km, velocities in km/s, perhaps accelerations.
            Ok([x, y, z]) => self.keep(at, DVec3::new(*x, *y, *z), None),
            Ok([x, y, z, u, v, w] | [x, y, z, u, v, w, _, _, _]) => {
                self.keep(at, DVec3::new(*x, *y, *z), Some(DVec3::new(*u, *v, *w)));
            }
            Ok(other) => {
                let reason = format!(
                    "{} numbers after the instant; 3, 6 or 9 are right",
                    other.len()
                );
                self.findings.push(n, reason);
            }
            Err(reason) => self.findings.push(n, reason.clone()),
        }
    }

    fn keep(&mut self, at: Utc, position_km: DVec3, velocity_km_per_s: Option<DVec3>) {
        self.states.push(State {
            at,
            position_m: position_km * 1e3,
            velocity_m_per_s: velocity_km_per_s.map(|v| v * 1e3),
        });
    }

    /// Ends the segment that was being read.
    fn close(&mut self, n: usize) {
        let states = std::mem::take(&mut self.states);
        let meta = std::mem::take(&mut self.meta);
        if meta.line == 0 {
            return;
        }
        let Some(frame) = meta.frame else { return };
        let suited = Segment::suited(&states);
        let method = meta.method.unwrap_or(suited.0);
        let degree = meta.degree.unwrap_or(suited.1);
        let usable = match (
            meta.usable_start.or(meta.start),
            meta.usable_stop.or(meta.stop),
        ) {
            (Some(from), Some(to)) => Some((from, to)),
            _ => None,
        };
        match Segment::new(frame, method, degree, states, usable) {
            Err(error) => self.findings.push(
                n.max(meta.line),
                format!("segment of line {}: {error}", meta.line),
            ),
            Ok(segment) => {
                let known = self
                    .objects
                    .iter_mut()
                    .find(|o| (&o.object, &o.object_id) == (&meta.object, &meta.object_id));
                match known {
                    Some(object) => object.segments.push(segment),
                    None => self.objects.push(Ephemeris {
                        object: meta.object,
                        object_id: meta.object_id,
                        segments: vec![segment],
                    }),
                }
            }
        }
    }
}

fn frame(name: &str) -> Option<Frame> {
    match name {
        "TEME" => Some(Frame::Teme),
        // ITRF, ITRF2000, ITRF-97 and so on: they differ by centimetres.
        _ if name.starts_with("ITRF") => Some(Frame::Itrf),
        _ => None,
    }
}

/// Writes a message. Positions to a millimetre; `created` and `originator` go into the header.
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
        time(created),
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
