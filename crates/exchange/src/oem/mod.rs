//! CCSDS Orbit Ephemeris Messages (CCSDS 502.0-B-3, section 5) in the keyword notation and as XML (CCSDS 505.0-B).
//!
//! Read: centre `EARTH`; frames ITRF, TEME, GCRF and ICRF, EME2000, MOD and TOD; time systems UTC, TAI, TT, GPS, BDT and TDB.
//! Anything else is refused, as it would need models this crate does not have. Inertial states are turned into TEME when they
//! are read; [`constel_orbit::inertial`] says what that costs. Covariances and accelerations are skipped.

mod kvn;
mod write;
mod xml;

use std::collections::BTreeSet;

use constel_orbit::DVec3;
use constel_orbit::scales::TimeScale;
use constel_units::{Utc, instant};

pub use write::write;

use crate::ephemeris::{Ephemeris, EphemerisFile, Method, Segment, SegmentError, State};
use crate::reference::{Block, Reference};
use crate::states::{Bad, Runs, Track};
use crate::text::{Findings, ReadErrors, shown};

/// Reads a message, in either notation, in which every state is good.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse(text: &str) -> Result<Vec<Ephemeris>, ReadErrors> {
    read(text)?.all()
}

/// Reads a message in either notation: one [`Ephemeris`] an object, in order of their first appearance. A bad state is a hole
/// of its segment.
///
/// # Errors
/// Everything found wrong, with its line, if it is no state or there are no good ones.
pub fn read(text: &str) -> Result<EphemerisFile, ReadErrors> {
    let text = constel_units::text::plain(text);
    if text.trim_start().starts_with('<') {
        xml::read(&text)
    } else {
        kvn::read(&text)
    }
}

/// Metadata of the segment being read.
#[derive(Debug, Default)]
struct Meta {
    /// Line where it begins, from 1.
    line: usize,
    object: String,
    object_id: String,
    reference: Option<Reference>,
    center: bool,
    scale: Option<TimeScale>,
    start: Option<Utc>,
    stop: Option<Utc>,
    usable_start: Option<Utc>,
    usable_stop: Option<Utc>,
    method: Option<Method>,
    degree: Option<u32>,
    /// The keywords so far.
    seen: BTreeSet<String>,
}

impl Meta {
    fn new(line: usize) -> Self {
        Self {
            line,
            ..Self::default()
        }
    }

    /// One keyword and its value.
    fn put(&mut self, key: &str, value: &str) -> Result<(), String> {
        let time = || instant(value).map(Some).map_err(|error| error.to_string());
        let key = key.to_ascii_uppercase();
        if !self.seen.insert(key.clone()) {
            return Err(format!("{} is given twice", shown(&key)));
        }
        match key.as_str() {
            "OBJECT_NAME" => self.object = value.to_owned(),
            "OBJECT_ID" => self.object_id = value.to_owned(),
            "CENTER_NAME" => {
                self.center = true;
                if !value.eq_ignore_ascii_case("earth") {
                    let value = shown(value);
                    return Err(format!("centre {value} is not supported, only EARTH"));
                }
            }
            "REF_FRAME" => {
                // One finding for an unknown frame, not a second one for a frame that is missing.
                let known = Reference::named(value);
                let stand_in = Reference::Own(crate::ephemeris::Frame::Itrf);
                self.reference = Some(*known.as_ref().unwrap_or(&stand_in));
                known?;
            }
            "TIME_SYSTEM" => {
                let known = TimeScale::named(value);
                self.scale = Some(*known.as_ref().unwrap_or(&TimeScale::Utc));
                known?;
            }
            "START_TIME" => self.start = time()?,
            "STOP_TIME" => self.stop = time()?,
            "USEABLE_START_TIME" => self.usable_start = time()?,
            "USEABLE_STOP_TIME" => self.usable_stop = time()?,
            "INTERPOLATION" => match value.to_ascii_uppercase().as_str() {
                "LAGRANGE" => self.method = Some(Method::Lagrange),
                "HERMITE" => self.method = Some(Method::Hermite),
                "LINEAR" => (self.method, self.degree) = (Some(Method::Lagrange), Some(1)),
                _ => return Err(format!("interpolation {} is not known", shown(value))),
            },
            "INTERPOLATION_DEGREE" => match value.parse() {
                Ok(degree) => self.degree = Some(degree),
                Err(_) => return Err(format!("degree `{}` is no whole number", shown(value))),
            },
            "REF_FRAME_EPOCH" => {
                return Err("frames with an epoch of their own are not supported".to_owned());
            }
            _ => return Err(format!("unknown keyword `{}` in the metadata", shown(&key))),
        }
        Ok(())
    }

    /// Keywords that must be there and are not.
    fn missing(&self) -> impl Iterator<Item = String> {
        let keys = [
            (!self.object.is_empty(), "OBJECT_NAME"),
            (self.center, "CENTER_NAME"),
            (self.reference.is_some(), "REF_FRAME"),
            (self.scale.is_some(), "TIME_SYSTEM"),
        ];
        keys.into_iter()
            .filter(|(there, _)| !there)
            .map(|(_, key)| format!("the metadata has no {key}"))
    }
}

/// Objects read so far, and the errors found.
#[derive(Default)]
struct Objects {
    objects: Vec<Ephemeris>,
    findings: Findings,
    bad: Bad,
}

impl Objects {
    /// Reads a keyword of the metadata; errors are added to the findings.
    fn meta(&mut self, meta: &mut Meta, line: usize, key: &str, value: &str) {
        if let Err(reason) = meta.put(key, value) {
            self.findings.push(line, reason);
        }
    }

    /// Adds the segment that `meta` describes, or the parts that bad states leave of it.
    fn close(&mut self, meta: Meta, mut track: Track) {
        let (Some(reference), Some(scale)) = (meta.reference, meta.scale) else {
            return;
        };
        let name = &meta.object;
        track.drop_zero_velocities();
        if meta.method == Some(Method::Hermite)
            && track.states().any(|state| state.velocity_m_per_s.is_some())
        {
            track.sift(name, &mut self.bad, |state| {
                let missing = state.velocity_m_per_s.is_none();
                missing.then(|| "no velocity, which Hermite interpolation needs".to_owned())
            });
        }
        let empty = track.is_empty();
        let Runs { mut parts, cut } = track.runs(name, false, &mut self.bad);
        if empty {
            parts.push(Vec::new());
        }
        let ends = (
            meta.usable_start.or(meta.start),
            meta.usable_stop.or(meta.stop),
        );
        let usable = ends.0.zip(ends.1);
        for states in parts {
            let block = Block {
                reference,
                scale,
                method: meta.method,
                degree: meta.degree,
                usable,
                cut,
                states,
            };
            match block.segment() {
                // All of the part is outside of what may be used.
                Err(SegmentError::Usable) if cut => {}
                Err(error) => {
                    let reason = format!("segment of `{}`: {error}", shown(name));
                    self.findings.push(meta.line, reason);
                }
                Ok(segment) => self.add(name, &meta.object_id, segment),
            }
        }
    }

    fn add(&mut self, name: &str, id: &str, segment: Segment) {
        let mut all = self.objects.iter_mut();
        match all.find(|o| (o.object.as_str(), o.object_id.as_str()) == (name, id)) {
            Some(object) => object.segments.push(segment),
            None => self.objects.push(Ephemeris {
                object: name.to_owned(),
                object_id: id.to_owned(),
                segments: vec![segment],
            }),
        }
    }

    fn finish(mut self) -> Result<EphemerisFile, ReadErrors> {
        // After other findings this one adds no information.
        if self.objects.is_empty() && self.findings.is_empty() && self.bad.is_empty() {
            self.findings.push(1, "no ephemeris in the file");
        }
        self.bad.file(self.objects, self.findings)
    }
}

/// A state of positions in km and velocities in km/s, perhaps with accelerations.
fn state(at: Utc, numbers: &[f64]) -> Option<State> {
    let vector =
        |from: usize| DVec3::new(numbers[from], numbers[from + 1], numbers[from + 2]) * 1e3;
    let velocity_m_per_s = match numbers.len() {
        3 => None,
        6 | 9 => Some(vector(3)),
        _ => return None,
    };
    Some(State {
        at,
        position_m: vector(0),
        velocity_m_per_s,
    })
}

/// A version of the standard that is read.
fn known_version(version: &str) -> bool {
    ["1.0", "2.0", "3.0"].contains(&version)
}
