//! Ephemeris files of STK (`.e`): `EphemerisTimePos`, `EphemerisTimePosVel` and `EphemerisTimePosVelAcc`, seconds after
//! `ScenarioEpoch` (UTC) in any frame that [`crate::oem`] reads. Accelerations are skipped.

use constel_orbit::DVec3;
use constel_orbit::scales::TimeScale;
use constel_units::{TimeSpan, Utc, instant};

use crate::ephemeris::{Ephemeris, EphemerisFile, Method, State};
use crate::reference::{Block, Reference};
use crate::states::{Bad, Runs, Track};
use crate::text::{Findings, ReadErrors, number, shown};

/// Longest time from the epoch to a state, seconds: 100 years.
const MOST_S: f64 = 3.2e9;
const NO_EPOCH: &str = "ScenarioEpoch is not given before the data";

/// The part of the file that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Before,
    Keywords,
    /// Positions, with this number of values after the time.
    Data(usize),
    Boundaries,
    /// A block without positions.
    Other,
    After,
}

struct Reader {
    part: Section,
    epoch: Option<Utc>,
    reference: Option<Reference>,
    method: Option<Method>,
    samples: Option<u32>,
    metres: f64,
    track: Track,
    boundaries: Vec<Utc>,
    findings: Findings,
    bad: Bad,
}

/// Whether a text is in this format.
pub fn is_one(text: &str) -> bool {
    text.trim_start()
        .get(..6)
        .is_some_and(|begin| begin.eq_ignore_ascii_case("stk.v."))
}

/// Reads a file in which every state is good.
///
/// # Errors
/// Everything found wrong, with its line.
pub fn parse(text: &str, name: &str) -> Result<Vec<Ephemeris>, ReadErrors> {
    read(text, name)?.all()
}

/// Reads a file. It has one object and no name of it: `name` is what it is called. A bad state is a hole.
///
/// # Errors
/// Everything found wrong, with its line, if it is no state or there are no good ones.
pub fn read(text: &str, name: &str) -> Result<EphemerisFile, ReadErrors> {
    let text = constel_units::text::plain(text);
    let mut reader = Reader {
        part: Section::Before,
        epoch: None,
        reference: None,
        method: None,
        samples: None,
        metres: 1.0,
        track: Track::default(),
        boundaries: Vec::new(),
        findings: Findings::default(),
        bad: Bad::default(),
    };
    if !is_one(&text) {
        reader
            .findings
            .push(1, "an ephemeris of STK begins with `stk.v.`");
        return reader.bad.file(Vec::new(), reader.findings);
    }
    for (n, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if reader.part == Section::After || reader.findings.is_full() {
            break;
        }
        if !line.is_empty()
            && let Err(reason) = reader.line(n, line, name)
        {
            reader.findings.push(n, reason);
        }
    }
    reader.finish(name)
}

impl Reader {
    fn line(&mut self, n: usize, line: &str, name: &str) -> Result<(), String> {
        let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (key, value) = (key.to_ascii_lowercase(), value.trim());
        let is = |word: &str| value.eq_ignore_ascii_case(word);
        match (self.part, key.as_str()) {
            (Section::Before, "begin") if is("Ephemeris") => self.part = Section::Keywords,
            (Section::Before, _) => {}
            (_, "end") if is("Ephemeris") => self.part = Section::After,
            (_, "end") => self.part = Section::Keywords,
            (_, "begin") if is("SegmentBoundaryTimes") => self.part = Section::Boundaries,
            (_, "begin") => self.part = Section::Other,
            (Section::Other, _) => {}
            (Section::Boundaries, _) => {
                for time in line.split_whitespace() {
                    let at = self.at(time)?;
                    self.boundaries.push(at);
                }
            }
            // After the data there may be keywords of other blocks (covariances).
            (Section::Data(_), _) if key.starts_with("covariance") => self.part = Section::Other,
            (Section::Data(count), _) => {
                if self.epoch.is_none() {
                    return Err(NO_EPOCH.to_owned());
                }
                match self.state(line, count) {
                    Ok(state) => self.track.state(n, state),
                    Err(reason) => self.track.bad(name, n, reason, &mut self.bad),
                }
            }
            (Section::Keywords | Section::After, _) => self.keyword(&key, value)?,
        }
        Ok(())
    }

    fn keyword(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "scenarioepoch" => {
                self.epoch = Some(instant(value).map_err(|error| error.to_string())?);
            }
            "coordinatesystem" => self.reference = Some(Reference::named(value)?),
            "coordinatesystemepoch" => {
                return Err("frames with an epoch of their own are not supported".to_owned());
            }
            "centralbody" if !value.eq_ignore_ascii_case("earth") => {
                let value = shown(value);
                return Err(format!("central body {value} is not supported, only Earth"));
            }
            "timeformat" if !value.eq_ignore_ascii_case("epsec") => {
                let value = shown(value);
                return Err(format!(
                    "times as {value} are not supported, only as seconds after ScenarioEpoch (EpSec)"
                ));
            }
            "timescale" => {
                let scale = TimeScale::named(value)?;
                if scale != TimeScale::Utc {
                    return Err(format!(
                        "time scale {} is not supported, only UTC",
                        shown(value)
                    ));
                }
            }
            "interpolationmethod" => {
                self.method = match value.to_ascii_lowercase().as_str() {
                    "lagrange" => Some(Method::Lagrange),
                    "hermite" => Some(Method::Hermite),
                    // STK's third method needs the force model; the method that suits the states is used
                    // instead.
                    _ => None,
                };
            }
            "interpolationsamplesm1" | "interpolationorder" => {
                let many = value.parse();
                self.samples =
                    Some(many.map_err(|_| format!("`{}` is no whole number", shown(value)))?);
            }
            "distanceunit" => {
                self.metres = match value.to_ascii_lowercase().as_str() {
                    "meters" | "m" => 1.0,
                    "kilometers" | "km" => 1e3,
                    _ => return Err(format!("distance unit {} is not known", shown(value))),
                };
            }
            "ephemeristimepos" => self.part = Section::Data(3),
            "ephemeristimeposvel" => self.part = Section::Data(6),
            "ephemeristimeposvelacc" => self.part = Section::Data(9),
            _ if key.starts_with("ephemeris") => {
                return Err(format!(
                    "`{}` is not supported, only EphemerisTimePos, EphemerisTimePosVel and EphemerisTimePosVelAcc",
                    shown(key)
                ));
            }
            // Message levels, counts and file names have no effect on positions.
            _ => {}
        }
        Ok(())
    }

    /// The instant that is `text` seconds after the epoch.
    fn at(&self, text: &str) -> Result<Utc, String> {
        let seconds = number(text)?;
        let epoch = self.epoch.ok_or(NO_EPOCH)?;
        if seconds.abs() > MOST_S {
            return Err(format!("{seconds} s after the epoch is too far"));
        }
        let span = TimeSpan::from_secs_f64(seconds);
        let too_far = || format!("{seconds} s after {epoch} is out of range");
        epoch.checked_add(span).ok_or_else(too_far)
    }

    fn state(&self, line: &str, count: usize) -> Result<State, String> {
        let mut fields = line.split_whitespace();
        let at = self.at(fields.next().unwrap_or(""))?;
        let numbers = fields.map(number).collect::<Result<Vec<f64>, String>>()?;
        if numbers.len() != count {
            let have = numbers.len();
            return Err(format!("{have} numbers after the time; {count} are right"));
        }
        let vector = |from: usize| DVec3::from_slice(&numbers[from..from + 3]) * self.metres;
        let velocity_m_per_s = (count > 3).then(|| vector(3));
        Ok(State {
            at,
            position_m: vector(0),
            velocity_m_per_s,
        })
    }

    fn finish(mut self, name: &str) -> Result<EphemerisFile, ReadErrors> {
        if self.track.is_empty() && self.findings.is_empty() {
            self.findings.push(1, "no positions in the file");
        }
        let Some(reference) = self.reference else {
            if self.findings.is_empty() {
                self.findings.push(1, "the file has no CoordinateSystem");
            }
            return self.bad.file(Vec::new(), self.findings);
        };
        // An instant that is there twice is a boundary of segments.
        let Runs { parts, cut } = self.track.runs(name, true, &mut self.bad);
        let degree = |states: &[State]| {
            let most = u32::try_from(states.len().saturating_sub(1)).unwrap_or(u32::MAX);
            let asked = self.samples?.clamp(1, 15).min(most.max(1));
            Some(match self.method? {
                Method::Lagrange => asked,
                Method::Hermite => (2 * asked.min(most) + 1).min(15),
            })
        };
        self.boundaries.sort_unstable();
        let mut segments = Vec::new();
        let parts = parts.iter();
        for states in parts.flat_map(|part| split(part, &self.boundaries)) {
            let block = Block {
                reference,
                scale: TimeScale::Utc,
                method: self.method,
                degree: degree(&states),
                usable: None,
                cut,
                states,
            };
            match block.segment() {
                Ok(segment) => segments.push(segment),
                Err(error) => self.findings.push(1, error.to_string()),
            }
        }
        if segments.is_empty() {
            if self.bad.is_empty() && self.findings.is_empty() {
                self.findings.push(1, "no two positions in a row");
            }
            return self.bad.file(Vec::new(), self.findings);
        }
        let object = Ephemeris {
            object: name.to_owned(),
            object_id: String::new(),
            segments,
        };
        self.bad.file(vec![object], self.findings)
    }
}

/// The states in segments: a boundary (they are in order) ends one and begins the next, and so does an instant that is there twice.
fn split(states: &[State], boundaries: &[Utc]) -> Vec<Vec<State>> {
    let mut parts: Vec<Vec<State>> = vec![Vec::new()];
    for state in states {
        let open = parts.last_mut();
        let last = open.and_then(|part| part.last().copied());
        let twice = last.is_some_and(|last| last.at == state.at);
        let passed = last.is_some_and(|last| {
            let next = boundaries.partition_point(|boundary| *boundary < last.at);
            boundaries.get(next).is_some_and(|next| *next < state.at)
        });
        if twice || passed {
            let mut part = Vec::new();
            // At a boundary that is given once, the state there belongs to both.
            if let Some(last) =
                last.filter(|last| !twice && boundaries.binary_search(&last.at).is_ok())
            {
                part.push(last);
            }
            parts.push(part);
        }
        if let Some(open) = parts.last_mut() {
            open.push(*state);
        }
    }
    parts.retain(|part| part.len() > 1);
    parts
}
