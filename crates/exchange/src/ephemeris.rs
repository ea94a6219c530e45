//! Positions at given instants, and interpolation between them.

use constel_orbit::time::DUT1_UNKNOWN_S;
use constel_orbit::{DVec3, EarthRotation};
use constel_units::Utc;

use crate::text::{ReadError, ReadErrors};

/// The frames an ephemeris may be given in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// Fixed to the rotating Earth.
    Itrf,
    /// True equator, mean equinox: SGP4's.
    Teme,
}

impl Frame {
    /// The word in CSV files.
    pub fn as_str(self) -> &'static str {
        match self {
            Frame::Itrf => "itrf",
            Frame::Teme => "teme",
        }
    }
}

/// How positions between the given ones are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// A polynomial through positions.
    Lagrange,
    /// A polynomial through positions and velocities.
    Hermite,
}

/// A state at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// When.
    pub at: Utc,
    /// Position in the segment's frame, metres.
    pub position_m: DVec3,
    /// Rate of the position, metres per second.
    pub velocity_m_per_s: Option<DVec3>,
}

/// States of one object in one frame, to be interpolated among themselves only.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    frame: Frame,
    method: Method,
    degree: u32,
    /// Interpolation is allowed between these.
    usable: (Utc, Utc),
    states: Vec<State>,
}

/// Why states make no segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// Too few states for an interpolation.
    #[error(
        "{count} states are too few: a polynomial of degree {degree} ({method:?}) needs {needed}"
    )]
    TooFew {
        /// How many there are.
        count: usize,
        /// How many are needed.
        needed: usize,
        /// The requested degree.
        degree: u32,
        /// The requested method.
        method: Method,
    },
    /// Order of time.
    #[error("state {index} is not later than the one before it")]
    NotLater {
        /// From 0.
        index: usize,
    },
    /// Hermite without velocities.
    #[error("Hermite interpolation needs velocities, and state {index} has none")]
    NoVelocity {
        /// From 0.
        index: usize,
    },
    /// Degree out of bounds.
    #[error("degree {0} is not between 1 and 15 (odd for Hermite)")]
    Degree(u32),
    /// The stated span does not lie within the states'.
    #[error("the usable span is not within the states' span")]
    Usable,
}

/// No state is known there: ephemerides are never extrapolated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no ephemeris at {at}: it reaches from {from} to {to}{}", if *.hole { ", with a hole there" } else { "" })]
pub struct OutOfSpan {
    /// The requested instant.
    pub at: Utc,
    /// First instant known.
    pub from: Utc,
    /// Last instant known.
    pub to: Utc,
    /// The instant is between these.
    pub hole: bool,
}

/// One object.
#[derive(Debug, Clone, PartialEq)]
pub struct Ephemeris {
    /// Its name.
    pub object: String,
    /// The international designator or another identifier; empty if the format has none.
    pub object_id: String,
    /// In order of time, at least one.
    pub segments: Vec<Segment>,
}

/// The bad states of an object: not numbers, positions that nothing can be at, instants out of order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadStates {
    /// The object's name; empty if their lines do not say it. Then they are holes in every object.
    pub object: String,
    /// How many there are, at least one.
    pub count: usize,
    /// The fault of the first.
    pub first: ReadError,
}

/// The objects of a file of positions: their good states, and how many are bad.
#[derive(Debug, Clone, PartialEq)]
pub struct EphemerisFile {
    /// Every object that has positions, in the order of the file, at least one. A bad state ends a segment: nothing is
    /// interpolated over it.
    pub objects: Vec<Ephemeris>,
    /// States of the file, good and bad.
    pub states: usize,
    /// The bad states, by object, in the order of the file. An object that is here only has no position.
    pub bad: Vec<BadStates>,
    /// The faults of the bad states, in order of lines; at most the first 100.
    pub errors: Vec<ReadError>,
}

impl EphemerisFile {
    /// The objects, if every state is good.
    ///
    /// # Errors
    /// The faults of the bad ones.
    pub fn all(self) -> Result<Vec<Ephemeris>, ReadErrors> {
        if self.errors.is_empty() {
            Ok(self.objects)
        } else {
            Err(ReadErrors(self.errors))
        }
    }
}

impl Segment {
    /// A segment of states in order of time. `usable` narrows the span; `None` is all of it.
    ///
    /// # Errors
    /// Everything that would make interpolation impossible.
    pub fn new(
        frame: Frame,
        method: Method,
        degree: u32,
        states: Vec<State>,
        usable: Option<(Utc, Utc)>,
    ) -> Result<Self, SegmentError> {
        if !(1..=15).contains(&degree) || (method == Method::Hermite && degree.is_multiple_of(2)) {
            return Err(SegmentError::Degree(degree));
        }
        let needed = window(method, degree);
        if states.len() < needed {
            return Err(SegmentError::TooFew {
                count: states.len(),
                needed,
                degree,
                method,
            });
        }
        if let Some(n) = states.windows(2).position(|w| w[1].at <= w[0].at) {
            return Err(SegmentError::NotLater { index: n + 1 });
        }
        let bare = states.iter().position(|s| s.velocity_m_per_s.is_none());
        if let (Method::Hermite, Some(index)) = (method, bare) {
            return Err(SegmentError::NoVelocity { index });
        }
        let span = (states[0].at, states[states.len() - 1].at);
        let usable = usable.unwrap_or(span);
        if usable.0 < span.0 || usable.1 > span.1 || usable.1 < usable.0 {
            return Err(SegmentError::Usable);
        }
        Ok(Self {
            frame,
            method,
            degree,
            usable,
            states,
        })
    }

    /// The method that suits the states: Hermite of degree 7 (four states) where there are velocities, else
    /// Lagrange of degree 7 (eight states); lower where there are fewer states.
    ///
    /// For a circular orbit at 550 km given every 60 s, both are good to a few millimetres (see this module's
    /// tests for the figures), near the ends of Lagrange's span to some centimetres.
    pub fn suited(states: &[State]) -> (Method, u32) {
        let count = states.len().min(1000) as u32;
        if states.iter().all(|s| s.velocity_m_per_s.is_some()) {
            (Method::Hermite, (2 * count).saturating_sub(1).clamp(1, 7))
        } else {
            (Method::Lagrange, count.saturating_sub(1).clamp(1, 7))
        }
    }

    /// Its frame.
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// How it is interpolated.
    pub fn method(&self) -> (Method, u32) {
        (self.method, self.degree)
    }

    /// First and last instant at which it has a position.
    pub fn usable(&self) -> (Utc, Utc) {
        self.usable
    }

    /// The states given.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    fn holds(&self, at: Utc) -> bool {
        (self.usable.0..=self.usable.1).contains(&at)
    }

    /// Position in the segment's own frame; the caller has checked the span.
    fn position_m(&self, at: Utc) -> DVec3 {
        let count = window(self.method, self.degree);
        let after = self.states.partition_point(|s| s.at <= at);
        // As many states before as after, as far as there are any.
        let first = after
            .saturating_sub(count.div_ceil(2))
            .min(self.states.len() - count);
        let states = &self.states[first..first + count];
        // 128 bits: two instants may be further apart than 63 bits of nanoseconds.
        let offset =
            |s: &State| (i128::from(s.at.unix_ns()) - i128::from(at.unix_ns())) as f64 / 1e9;
        if let Some(hit) = states.iter().find(|s| s.at == at) {
            return hit.position_m;
        }
        match self.method {
            Method::Lagrange => neville(states.iter().map(|s| (offset(s), s.position_m)).collect()),
            Method::Hermite => hermite(states, offset),
        }
    }
}

/// Returns the number of states that a polynomial uses.
fn window(method: Method, degree: u32) -> usize {
    match method {
        Method::Lagrange => degree as usize + 1,
        Method::Hermite => (degree as usize).div_ceil(2),
    }
}

/// Neville's scheme at 0: the value of the polynomial through all (x, p).
fn neville(mut points: Vec<(f64, DVec3)>) -> DVec3 {
    for level in 1..points.len() {
        for i in 0..points.len() - level {
            let (x0, x1) = (points[i].0, points[i + level].0);
            points[i].1 = (points[i].1 * x1 - points[i + 1].1 * x0) / (x1 - x0);
        }
    }
    points[0].1
}

/// Newton's divided differences over doubled nodes, evaluated at 0.
fn hermite(states: &[State], offset: impl Fn(&State) -> f64) -> DVec3 {
    let nodes: Vec<f64> = states.iter().flat_map(|s| [offset(s); 2]).collect();
    let mut table: Vec<DVec3> = states.iter().flat_map(|s| [s.position_m; 2]).collect();
    let rates: Vec<DVec3> = states
        .iter()
        .map(|s| s.velocity_m_per_s.unwrap_or(DVec3::ZERO))
        .collect();
    for level in 1..nodes.len() {
        for i in (level..nodes.len()).rev() {
            table[i] = if level == 1 && i % 2 == 1 {
                rates[i / 2]
            } else {
                (table[i] - table[i - 1]) / (nodes[i] - nodes[i - level])
            };
        }
    }
    let mut value = table[nodes.len() - 1];
    for i in (0..nodes.len() - 1).rev() {
        value = table[i] - value * nodes[i];
    }
    value
}

impl Ephemeris {
    /// Returns the position of the object, ITRF, metres.
    ///
    /// # Errors
    /// [`OutOfSpan`] at times that no segment covers.
    pub fn position_itrf_m(&self, at: Utc) -> Result<DVec3, OutOfSpan> {
        // At the border of two segments the later one holds: a manoeuvre at that instant has happened.
        let Some(segment) = self.segments.iter().rev().find(|s| s.holds(at)) else {
            let (from, to) = self.span();
            let hole = (from..=to).contains(&at);
            return Err(OutOfSpan { at, from, to, hole });
        };
        let position_m = segment.position_m(at);
        Ok(match segment.frame {
            Frame::Itrf => position_m,
            Frame::Teme => EarthRotation::at(at, DUT1_UNKNOWN_S).position_itrf_m(position_m),
        })
    }

    /// Times between its first and its last instant at which it has no position, in order.
    pub fn holes(&self) -> Vec<(Utc, Utc)> {
        let mut spans: Vec<(Utc, Utc)> = self.segments.iter().map(Segment::usable).collect();
        spans.sort_unstable();
        let mut holes = Vec::new();
        let mut until: Option<Utc> = None;
        for (from, to) in spans {
            if let Some(until) = until.filter(|until| *until < from) {
                holes.push((until, from));
            }
            until = until.max(Some(to));
        }
        holes
    }

    /// First and last instant of all segments; there may be holes.
    pub fn span(&self) -> (Utc, Utc) {
        let first = self.segments.iter().map(|s| s.usable.0).min();
        let last = self.segments.iter().map(|s| s.usable.1).max();
        (
            first.unwrap_or(Utc::from_unix_ns(0)),
            last.unwrap_or(Utc::from_unix_ns(0)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_orbit::{CircularOrbit, Satellite};
    use constel_units::TimeSpan;

    fn start() -> Utc {
        "2026-11-21T00:00:00Z".parse().unwrap()
    }

    fn orbit() -> Satellite {
        CircularOrbit::new(start(), 550e3, 53_f64.to_radians(), 1.0, 0.3).into()
    }

    fn after(s: f64) -> Utc {
        start() + TimeSpan::from_ns((s * 1e9) as i64)
    }

    /// The orbit every `step_s` for an hour in `frame`; velocities in ITRF are those in ITRF.
    fn states(frame: Frame, step_s: f64, velocities: bool) -> Vec<State> {
        (0..=(3600.0 / step_s) as u32)
            .map(|n| {
                let at = after(f64::from(n) * step_s);
                let teme = orbit().teme(at).unwrap();
                let itrf = EarthRotation::at(at, DUT1_UNKNOWN_S).state_itrf(&teme);
                let (position_m, velocity) = match frame {
                    Frame::Teme => (teme.position_teme_m, teme.velocity_teme_m_per_s),
                    Frame::Itrf => (itrf.position_itrf_m, itrf.velocity_itrf_m_per_s),
                };
                State {
                    at,
                    position_m,
                    velocity_m_per_s: velocities.then_some(velocity),
                }
            })
            .collect()
    }

    /// Largest error away from the given states, metres: in the middle of the span, and in all of it.
    fn errors(frame: Frame, method: Method, degree: u32, step_s: f64) -> (f64, f64) {
        let states = states(frame, step_s, method == Method::Hermite);
        let segment = Segment::new(frame, method, degree, states, None).unwrap();
        let ephemeris = Ephemeris {
            object: String::new(),
            object_id: String::new(),
            segments: vec![segment],
        };
        let (mut inner, mut all) = (0.0_f64, 0.0_f64);
        for n in 0..7200 {
            let s = f64::from(n) * 0.5 + 0.123;
            if s > 3600.0 {
                break;
            }
            let at = after(s);
            let truth = EarthRotation::at(at, DUT1_UNKNOWN_S)
                .position_itrf_m(orbit().position_teme_m(at).unwrap());
            let error = (ephemeris.position_itrf_m(at).unwrap() - truth).length();
            all = all.max(error);
            if (600.0..3000.0).contains(&s) {
                inner = inner.max(error);
            }
        }
        (inner, all)
    }

    #[test]
    fn stated_errors_hold() {
        for frame in [Frame::Itrf, Frame::Teme] {
            for (method, degree, step_s, inner_m, all_m) in [
                (Method::Hermite, 7, 60.0, 1e-3, 1e-2),
                (Method::Lagrange, 7, 60.0, 1e-3, 5e-2),
                (Method::Lagrange, 5, 60.0, 0.05, 1.0),
                (Method::Hermite, 3, 60.0, 1.5, 2.0),
                (Method::Hermite, 7, 120.0, 0.05, 1.0),
                (Method::Lagrange, 1, 1.0, 2.0, 2.0),
            ] {
                let (inner, all) = errors(frame, method, degree, step_s);
                println!(
                    "{frame:?} {method:?} {degree} every {step_s} s: {inner:.2e} m, at the ends {all:.2e} m"
                );
                assert!(inner < inner_m, "{method:?} {degree} {step_s}: {inner}");
                assert!(all < all_m, "{method:?} {degree} {step_s}: {all}");
            }
        }
    }

    #[test]
    fn exact_at_the_states_and_nowhere_outside() {
        let states = states(Frame::Itrf, 60.0, true);
        let (method, degree) = Segment::suited(&states);
        assert_eq!((method, degree), (Method::Hermite, 7));
        let segment = Segment::new(Frame::Itrf, method, degree, states.clone(), None).unwrap();
        let ephemeris = Ephemeris {
            object: "x".into(),
            object_id: String::new(),
            segments: vec![segment],
        };
        for s in &states {
            assert_eq!(ephemeris.position_itrf_m(s.at), Ok(s.position_m));
        }
        assert!(ephemeris.position_itrf_m(after(-0.001)).is_err());
        assert!(ephemeris.position_itrf_m(after(3600.001)).is_err());
    }

    #[test]
    fn states_that_make_no_segment_are_refused() {
        let good = states(Frame::Itrf, 60.0, false);
        let new = |method, degree, states: &[State], usable| {
            Segment::new(Frame::Itrf, method, degree, states.to_vec(), usable).unwrap_err()
        };
        assert!(matches!(
            new(Method::Lagrange, 7, &good[..7], None),
            SegmentError::TooFew { needed: 8, .. }
        ));
        assert!(matches!(
            new(Method::Lagrange, 0, &good, None),
            SegmentError::Degree(0)
        ));
        assert!(matches!(
            new(Method::Hermite, 4, &good, None),
            SegmentError::Degree(4)
        ));
        assert!(matches!(
            new(Method::Hermite, 3, &good, None),
            SegmentError::NoVelocity { index: 0 }
        ));
        assert!(matches!(
            new(Method::Lagrange, 3, &good, Some((after(-1.0), after(9.0)))),
            SegmentError::Usable
        ));
        let mut twice = good.clone();
        twice[3].at = twice[2].at;
        assert!(matches!(
            new(Method::Lagrange, 3, &twice, None),
            SegmentError::NotLater { index: 3 }
        ));
    }
}
