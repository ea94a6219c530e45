//! SP3-a to SP3-d: the standard product of the IGS for precise orbits (Hilla, "The Extended Standard Product 3 Orbit Format
//! (SP3-d)"). Positions in km and velocities in dm/s, in columns, fixed to the Earth.
//!
//! An epoch at which an object has no position (0, 0, 0, or 999999.999999) ends its segment: nothing is interpolated over it.

use std::collections::BTreeMap;

use constel_orbit::DVec3;
use constel_orbit::scales::TimeScale;
use constel_units::{Utc, instant};

use crate::ephemeris::{Ephemeris, EphemerisFile, Frame, Method, State};
use crate::reference::{Block, Reference};
use crate::states::{Bad, Track};
use crate::text::{Findings, ReadErrors, number, shown};

/// Positions of satellites every 15 minutes need this degree for a centimetre; the IGS recommends 9 to 11.
const DEGREE: u32 = 11;
/// Largest distance of two states of one segment, in epochs: a missing epoch is a hole.
const MOST_STEPS: f64 = 1.5;

/// The value of an unknown clock, microseconds.
const UNKNOWN: f64 = 999_999.0;

#[derive(Default)]
struct Object {
    /// Line of its first position.
    line: usize,
    track: Track,
}

struct Reader {
    reference: Reference,
    scale: Option<TimeScale>,
    step_s: f64,
    at: Option<Utc>,
    objects: BTreeMap<String, Object>,
    findings: Findings,
    bad: Bad,
}

/// Whether a text is in this format: `#a` to `#d`, and `P` or `V`.
pub fn is_one(text: &str) -> bool {
    matches!(text.as_bytes(), [b'#', b'a'..=b'd', b'P' | b'V', ..])
}

/// Reads a file in which every state is good.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse(text: &str) -> Result<Vec<Ephemeris>, ReadErrors> {
    read(text)?.all()
}

/// Reads a file: one [`Ephemeris`] an object, in the order of their first positions. A bad record is a hole of its object.
///
/// # Errors
/// Everything found wrong, with its line, if something in the header is or there are no positions.
pub fn read(text: &str) -> Result<EphemerisFile, ReadErrors> {
    let text = constel_units::text::plain(text);
    let mut reader = Reader {
        reference: Reference::Own(Frame::Itrf),
        scale: None,
        step_s: 0.0,
        at: None,
        objects: BTreeMap::new(),
        findings: Findings::default(),
        bad: Bad::default(),
    };
    if !is_one(&text) {
        reader
            .findings
            .push(1, "an SP3 file begins with #aP to #dV");
        return reader.finish();
    }
    for (n, line) in (1..).zip(text.lines()) {
        if line.trim_end() == "EOF" || reader.findings.is_full() {
            break;
        }
        if let Err(reason) = reader.line(n, line) {
            reader.findings.push(n, reason);
        }
    }
    reader.finish()
}

/// Columns `first..=last`, from 1; a line may end early.
fn columns(line: &str, first: usize, last: usize) -> &str {
    let end = last.min(line.len());
    line.get(first - 1..end).unwrap_or("").trim()
}

impl Reader {
    fn line(&mut self, n: usize, line: &str) -> Result<(), String> {
        match line.as_bytes() {
            [b'#', b'#', ..] => {
                self.step_s = number(columns(line, 25, 38))?;
                if self.step_s <= 0.0 {
                    return Err("the interval between epochs must be above 0 s".to_owned());
                }
            }
            [b'#', ..] => {
                // There are many names of realisations (IGS20, SLR08), all fixed to the Earth; a known frame is
                // used as named.
                if let Ok(known) = Reference::named(columns(line, 47, 51)) {
                    self.reference = known;
                }
            }
            // The first of two lines counts; SP3-a and -b have none, and are in GPS time.
            [b'%', b'c', ..] if self.scale.is_none() => {
                let word = columns(line, 10, 12);
                let own = if word.is_empty() || word == "ccc" {
                    "GPS"
                } else {
                    word
                };
                self.scale = Some(TimeScale::named(own)?);
            }
            [b'*', ..] => match instant(line.get(1..).unwrap_or("")) {
                Ok(at) => self.at = Some(at),
                Err(error) => {
                    self.at = None;
                    self.bad.push_unplaced(n, error.to_string());
                }
            },
            [b'P', ..] => self.position(n, line),
            [b'V', ..] => self.velocity(n, line),
            // Comments, accuracies, correlations.
            _ => {}
        }
        Ok(())
    }

    fn position(&mut self, n: usize, line: &str) {
        let name = columns(line, 2, 4);
        if name.is_empty() {
            let reason = "no satellite in columns 2 to 4";
            return self.bad.push_unplaced(n, reason);
        }
        if !self.objects.contains_key(name) {
            let object = Object {
                line: n,
                track: Track::default(),
            };
            self.objects.insert(name.to_owned(), object);
        }
        let Some(object) = self.objects.get_mut(name) else {
            return;
        };
        // A bad epoch has been counted once, for all its positions.
        let Some(at) = self.at else {
            return object.track.hole(n, None);
        };
        match vector(line) {
            // Zeros by the standard; some programs write the value that means an unknown clock.
            Ok(km) if km == DVec3::ZERO || km.cmpge(DVec3::splat(UNKNOWN)).all() => {
                object.track.hole(n, Some(at));
            }
            Ok(km) => object.track.state(
                n,
                State {
                    at,
                    position_m: km * 1e3,
                    velocity_m_per_s: None,
                },
            ),
            Err(reason) => object.track.bad(name, n, reason, &mut self.bad),
        }
    }

    fn velocity(&mut self, n: usize, line: &str) {
        let name = columns(line, 2, 4);
        let Some(object) = self.objects.get_mut(name) else {
            return;
        };
        let Some(state) = object.track.last_mut() else {
            return;
        };
        if Some(state.at) != self.at {
            return;
        }
        match vector(line) {
            // Zeros mean an unknown velocity.
            Ok(dm_per_s) if dm_per_s == DVec3::ZERO => {}
            Ok(dm_per_s) => state.velocity_m_per_s = Some(dm_per_s * 0.1),
            Err(reason) => {
                let reason = format!("{reason} (its velocity, in line {n})");
                object.track.spoil_last(name, reason, &mut self.bad);
            }
        }
    }

    fn finish(mut self) -> Result<EphemerisFile, ReadErrors> {
        let mut objects: Vec<(String, Object)> =
            std::mem::take(&mut self.objects).into_iter().collect();
        objects.sort_by_key(|(_, object)| object.line);
        let mut read = Vec::new();
        for (name, object) in objects {
            let runs = object.track.runs(&name, false, &mut self.bad);
            let parts = runs.parts.into_iter();
            let parts = parts.flat_map(|part| self.without_gaps(part));
            // A single state between two holes is no segment.
            let segments: Result<Vec<_>, _> = parts
                .filter(|states| states.len() > 1)
                .map(|states| self.block(states).segment())
                .collect();
            match segments {
                Ok(segments) if !segments.is_empty() => read.push(Ephemeris {
                    object: name,
                    object_id: String::new(),
                    segments,
                }),
                // All zeros: a satellite that the header lists and that has no orbit in the file.
                Ok(_) => {}
                Err(error) => {
                    let reason = format!("`{}`: {error}", shown(&name));
                    self.bad.push(&name, object.line, reason);
                }
            }
        }
        if read.is_empty() && self.findings.is_empty() && self.bad.is_empty() {
            self.findings.push(1, "no positions in the file");
        }
        self.bad.file(read, self.findings)
    }

    /// The states in parts in which no epoch is missing.
    fn without_gaps(&self, states: Vec<State>) -> Vec<Vec<State>> {
        let apart_s = |a: &State, b: &State| (b.at.unix_ns() as f64 - a.at.unix_ns() as f64) / 1e9;
        states
            .chunk_by(|a, b| self.step_s <= 0.0 || apart_s(a, b) <= MOST_STEPS * self.step_s)
            .map(<[State]>::to_vec)
            .collect()
    }

    fn block(&self, states: Vec<State>) -> Block {
        let moving = states.iter().all(|state| state.velocity_m_per_s.is_some());
        let most = u32::try_from(states.len() - 1).unwrap_or(DEGREE);
        Block {
            reference: self.reference,
            scale: self.scale.unwrap_or(TimeScale::Gps),
            method: (!moving).then_some(Method::Lagrange),
            degree: (!moving).then_some(most.min(DEGREE)),
            usable: None,
            cut: false,
            states,
        }
    }
}

/// Three numbers in columns 5 to 46.
fn vector(line: &str) -> Result<DVec3, String> {
    Ok(DVec3::new(
        number(columns(line, 5, 18))?,
        number(columns(line, 19, 32))?,
        number(columns(line, 33, 46))?,
    ))
}
