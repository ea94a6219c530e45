//! SP3-a to SP3-d: the standard product of the IGS for precise orbits (Hilla, "The Extended Standard Product 3 Orbit Format
//! (SP3-d)"). Positions in km and velocities in dm/s, in columns, fixed to the Earth.
//!
//! An epoch at which an object has no position (0, 0, 0) ends its segment: nothing is interpolated over it.

use std::collections::BTreeMap;

use constel_orbit::DVec3;
use constel_orbit::scales::TimeScale;
use constel_units::{Utc, instant};

use crate::ephemeris::{Ephemeris, Frame, Method, State};
use crate::reference::{Block, Reference};
use crate::text::{Findings, ReadErrors, number, shown};

/// Positions of satellites every 15 minutes need this degree for a centimetre; the IGS recommends 9 to 11.
const DEGREE: u32 = 11;
/// Largest distance of two states of one segment, in epochs: a missing epoch is a hole.
const MOST_STEPS: f64 = 1.5;

#[derive(Default)]
struct Object {
    /// Line of its first position.
    line: usize,
    blocks: Vec<Vec<State>>,
}

impl Object {
    fn hole(&mut self) {
        if self.blocks.last().is_some_and(|block| !block.is_empty()) {
            self.blocks.push(Vec::new());
        }
    }
}

struct Reader {
    reference: Reference,
    scale: Option<TimeScale>,
    step_s: f64,
    at: Option<Utc>,
    objects: BTreeMap<String, Object>,
    findings: Findings,
}

/// Whether a text is in this format: `#a` to `#d`, and `P` or `V`.
pub fn is_one(text: &str) -> bool {
    matches!(text.as_bytes(), [b'#', b'a'..=b'd', b'P' | b'V', ..])
}

/// Reads a file: one [`Ephemeris`] an object, in the order of their first positions.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse(text: &str) -> Result<Vec<Ephemeris>, ReadErrors> {
    let text = constel_units::text::plain(text);
    let mut reader = Reader {
        reference: Reference::Own(Frame::Itrf),
        scale: None,
        step_s: 0.0,
        at: None,
        objects: BTreeMap::new(),
        findings: Findings::default(),
    };
    if !is_one(&text) {
        reader
            .findings
            .push(1, "an SP3 file begins with #aP to #dV");
        return reader.findings.or(Vec::new());
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
            [b'*', ..] => {
                self.at = None;
                let text = line.get(1..).unwrap_or("");
                self.at = Some(instant(text).map_err(|error| error.to_string())?);
            }
            [b'P', ..] => self.position(n, line)?,
            [b'V', ..] => self.velocity(line)?,
            // Comments, accuracies, correlations.
            _ => {}
        }
        Ok(())
    }

    fn position(&mut self, n: usize, line: &str) -> Result<(), String> {
        // A bad epoch has been reported once, for all its positions.
        let Some(at) = self.at else { return Ok(()) };
        let km = vector(line)?;
        let name = columns(line, 2, 4);
        if name.is_empty() {
            return Err("no satellite in columns 2 to 4".to_owned());
        }
        let object = self
            .objects
            .entry(name.to_owned())
            .or_insert_with(|| Object {
                line: n,
                blocks: vec![Vec::new()],
            });
        if km == DVec3::ZERO {
            object.hole();
            return Ok(());
        }
        let last = object.blocks.last().and_then(|block| block.last());
        let apart_s = last.map(|last| (at.unix_ns() - last.at.unix_ns()) as f64 / 1e9);
        match apart_s {
            Some(s) if s <= 0.0 => {
                return Err(format!("`{}` is not later than before", shown(name)));
            }
            Some(s) if self.step_s > 0.0 && s > MOST_STEPS * self.step_s => object.hole(),
            _ => {}
        }
        if let Some(block) = object.blocks.last_mut() {
            block.push(State {
                at,
                position_m: km * 1e3,
                velocity_m_per_s: None,
            });
        }
        Ok(())
    }

    fn velocity(&mut self, line: &str) -> Result<(), String> {
        let own = self.objects.get_mut(columns(line, 2, 4));
        let last = own
            .and_then(|object| object.blocks.last_mut())
            .and_then(|block| block.last_mut())
            .filter(|state| Some(state.at) == self.at);
        let dm_per_s = vector(line)?;
        // Zeros mean an unknown velocity.
        if let Some(state) = last.filter(|_| dm_per_s != DVec3::ZERO) {
            state.velocity_m_per_s = Some(dm_per_s * 0.1);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Ephemeris>, ReadErrors> {
        let mut objects: Vec<(String, Object)> =
            std::mem::take(&mut self.objects).into_iter().collect();
        objects.sort_by_key(|(_, object)| object.line);
        let mut read = Vec::new();
        for (name, object) in objects {
            let blocks = object.blocks.into_iter();
            // A single state between two holes is no segment.
            let segments: Result<Vec<_>, _> = blocks
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
                    self.findings.push(object.line, reason);
                }
            }
        }
        if read.is_empty() && self.findings.is_empty() {
            self.findings.push(1, "no positions in the file");
        }
        self.findings.or(read)
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
