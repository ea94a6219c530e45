//! States of an object on their way from a file to segments. A state that cannot be used is a hole: the segment ends before
//! it, the next one begins after it, and it is counted. The other states and objects of the file stand.

use std::collections::BTreeMap;

use constel_orbit::DVec3;
use constel_units::Utc;

use crate::ephemeris::{BadStates, Ephemeris, EphemerisFile, State};
use crate::text::{Findings, MOST, ReadError, ReadErrors};

/// Nearest to the Earth's centre that a position may be, metres: some kilometres below the poles.
const LEAST_RADIUS_M: f64 = 6_350e3;
/// Farthest from it: beyond all orbits, and less than any of them in metres that were read as kilometres.
const MOST_RADIUS_M: f64 = 5e9;

/// Fastest motion near the Earth, metres per second: more than probes to other planets have.
const MOST_M_PER_S: f64 = 30_000.0;
/// The rotation of the Earth, radians per second, by which far objects move in a frame that is fixed to it.
const EARTH_RATE: f64 = 7.292_115e-5;
/// Longest way between two states on which velocities are compared with it, as a share of the distance to the Earth's
/// centre: some 17 degrees of a circle.
const MOST_TURN: f64 = 0.3;
/// Slower objects, such as aircraft, may turn round between two states.
const LEAST_ORBITAL_M_PER_S: f64 = 1_000.0;
/// Largest difference from the way, as a share of the larger: a wrong power of ten, zero or another direction is more.
const MOST_OFF: f64 = 0.85;

/// Why nothing that flies is at a position, if so.
fn impossible(position_m: DVec3) -> Option<String> {
    let radius_m = position_m.length();
    if (LEAST_RADIUS_M..=MOST_RADIUS_M).contains(&radius_m) {
        return None;
    }
    let km = radius_m / 1e3;
    Some(match radius_m < LEAST_RADIUS_M {
        true => format!("the position is inside the Earth, {km:.3} km from its centre"),
        false => format!("the position is {km:.3e} km from the Earth, above 5,000,000 km"),
    })
}

/// Why a state cannot be right beside another one.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
enum Contradiction {
    #[error("the way between it and the state beside it would need {km_per_s:.3} km/s")]
    TooFast { km_per_s: f64 },
    #[error(
        "its velocity of {km_per_s:.3} km/s does not fit its way to the state beside it, of {way_km_per_s:.3} km/s"
    )]
    Velocity { km_per_s: f64, way_km_per_s: f64 },
}

/// The mean velocity from one state to the next, metres per second; `None` if there is no time between them.
fn way(a: &State, b: &State) -> Option<DVec3> {
    let long_s = (b.at - a.at).ns() as f64 / 1e9;
    (long_s > 0.0).then(|| (b.position_m - a.position_m) / long_s)
}

/// Whether nothing moves from one state to the next so fast.
fn too_fast(a: &State, b: &State) -> Option<Contradiction> {
    let m_per_s = way(a, b)?.length();
    let radius_m = a.position_m.length().max(b.position_m.length());
    let km_per_s = m_per_s / 1e3;
    (m_per_s > MOST_M_PER_S + EARTH_RATE * radius_m).then_some(Contradiction::TooFast { km_per_s })
}

/// Whether the velocity of `own`, one of two states in order, contradicts the way between them; `None` if they cannot be
/// compared.
fn contradicts(own: &State, a: &State, b: &State) -> Option<Option<Contradiction>> {
    let velocity = own.velocity_m_per_s?;
    let way = way(a, b)?;
    // On a longer way the mean velocity is not that of either end.
    let is_long = (b.position_m - a.position_m).length() > MOST_TURN * a.position_m.length();
    if is_long || too_fast(a, b).is_some() {
        return None;
    }
    let largest = velocity.length().max(way.length());
    let off = (way - velocity).length();
    let found = largest > LEAST_ORBITAL_M_PER_S && off > MOST_OFF * largest;
    Some(found.then(|| Contradiction::Velocity {
        km_per_s: velocity.length() / 1e3,
        way_km_per_s: way.length() / 1e3,
    }))
}

/// The bad states of a file.
#[derive(Debug, Default)]
pub(crate) struct Bad {
    by_object: BTreeMap<String, BadStates>,
    /// The fault of the first of them.
    errors: Vec<ReadError>,
    /// Lines of those that name no object, in order.
    unplaced: Vec<usize>,
    /// States seen, good and bad.
    states: usize,
}

impl Bad {
    /// Counts a bad state of `object`.
    pub(crate) fn push(&mut self, object: &str, line: usize, reason: impl Into<String>) {
        let error = ReadError {
            line,
            reason: reason.into(),
        };
        if self.errors.len() < MOST {
            self.errors.push(error.clone());
        }
        match self.by_object.get_mut(object) {
            Some(known) => {
                known.count += 1;
                if line < known.first.line {
                    known.first = error;
                }
            }
            None => {
                let object = object.to_owned();
                let own = BadStates {
                    object: object.clone(),
                    count: 1,
                    first: error,
                };
                self.by_object.insert(object, own);
            }
        }
    }

    /// Counts a bad state that may be of any object: it is a hole in all that have states on both sides of it.
    pub(crate) fn push_unplaced(&mut self, line: usize, reason: impl Into<String>) {
        self.states += 1;
        self.unplaced.push(line);
        self.push("", line, reason);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_object.is_empty()
    }

    /// Whether there is a bad state of `object`.
    pub(crate) fn has(&self, object: &str) -> bool {
        self.by_object.contains_key(object)
    }

    fn unplaced_between(&self, before: usize, after: usize) -> bool {
        let up_to = |line: usize| self.unplaced.partition_point(|own| *own < line);
        up_to(before) != up_to(after)
    }

    /// The file that `objects` are of. A finding refuses it, and so do bad states if there is no object without
    /// them.
    ///
    /// # Errors
    /// All that is wrong, with lines.
    pub(crate) fn file(
        self,
        objects: Vec<Ephemeris>,
        findings: Findings,
    ) -> Result<EphemerisFile, ReadErrors> {
        let mut errors = self.errors;
        errors.sort_by_key(|error| error.line);
        if !findings.is_empty() || (objects.is_empty() && !errors.is_empty()) {
            let mut all = findings.0;
            all.extend(errors);
            all.sort_by_key(|error| error.line);
            all.truncate(MOST);
            return Err(ReadErrors(all));
        }
        let mut bad: Vec<BadStates> = self.by_object.into_values().collect();
        bad.sort_by_key(|own| own.first.line);
        Ok(EphemerisFile {
            objects,
            states: self.states,
            bad,
            errors,
        })
    }
}

/// One record: a state, a hole that the file marks (with its instant), or a bad state (without).
#[derive(Debug)]
struct Row {
    line: usize,
    at: Option<Utc>,
    state: Option<State>,
}

/// The records of one object, or of one segment of it, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Track {
    rows: Vec<Row>,
}

/// The good states of a track.
#[derive(Debug, PartialEq)]
pub(crate) struct Runs {
    /// States with no hole among them, each part of one state at least; of two if there are holes.
    pub(crate) parts: Vec<Vec<State>>,
    /// Whether there are holes, before, between or after them.
    pub(crate) cut: bool,
}

impl Track {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn state(&mut self, line: usize, state: State) {
        self.rows.push(Row {
            line,
            at: Some(state.at),
            state: Some(state),
        });
    }

    /// The object has no position at an instant, by what the file says.
    pub(crate) fn hole(&mut self, line: usize, at: Option<Utc>) {
        self.rows.push(Row {
            line,
            at,
            state: None,
        });
    }

    /// A state of `object` that cannot be read.
    pub(crate) fn bad(
        &mut self,
        object: &str,
        line: usize,
        reason: impl Into<String>,
        bad: &mut Bad,
    ) {
        bad.states += 1;
        bad.push(object, line, reason);
        self.hole(line, None);
    }

    /// The state that was added last, if nothing came after it.
    pub(crate) fn last_mut(&mut self) -> Option<&mut State> {
        self.rows.last_mut()?.state.as_mut()
    }

    /// Makes the last record a bad state.
    pub(crate) fn spoil_last(&mut self, object: &str, reason: impl Into<String>, bad: &mut Bad) {
        if let Some(last) = self.rows.pop() {
            self.bad(object, last.line, reason, bad);
        }
    }

    /// Makes states bad for which `reason` has one.
    pub(crate) fn sift(
        &mut self,
        object: &str,
        bad: &mut Bad,
        reason: impl Fn(&State) -> Option<String>,
    ) {
        for row in &mut self.rows {
            if let Some(reason) = row.state.as_ref().and_then(&reason) {
                bad.states += 1;
                bad.push(object, row.line, reason);
                (row.at, row.state) = (None, None);
            }
        }
    }

    pub(crate) fn states(&self) -> impl Iterator<Item = &State> {
        self.rows.iter().filter_map(|row| row.state.as_ref())
    }

    /// The states in parts without holes. States out of order of time, and such as nothing can be at, are bad. `repeats`:
    /// an instant may be there twice.
    pub(crate) fn runs(mut self, object: &str, repeats: bool, bad: &mut Bad) -> Runs {
        self.drop_zero_velocities();
        if !repeats {
            self.drop_copies();
        }
        self.sift(object, bad, |state| impossible(state.position_m));
        self.sort_out(object, repeats, bad);
        self.sift_motion(object, bad);
        bad.states += self.states().count();
        let mut parts = vec![Vec::new()];
        let mut cut = false;
        let mut before = None;
        for row in self.rows {
            let unplaced = before.is_some_and(|before| bad.unplaced_between(before, row.line));
            if unplaced || row.state.is_none() {
                cut = true;
                parts.push(Vec::new());
            }
            if let (Some(part), Some(state)) = (parts.last_mut(), row.state) {
                part.push(state);
            }
            before = Some(row.line);
        }
        // Between two holes a single state has nothing to be interpolated with.
        let least = if cut { 2 } else { 1 };
        parts.retain(|part| part.len() >= least);
        Runs { parts, cut }
    }

    /// Removes velocities if all are zero and the object moves: some programs write zeros for velocities that they do not have.
    pub(crate) fn drop_zero_velocities(&mut self) {
        let is_zero = |state: &State| state.velocity_m_per_s.is_none_or(|v| v == DVec3::ZERO);
        let first = self.states().next().map(|state| state.position_m);
        let moves = self.states().any(|state| Some(state.position_m) != first);
        if moves && self.states().all(is_zero) {
            for state in self.rows.iter_mut().filter_map(|row| row.state.as_mut()) {
                state.velocity_m_per_s = None;
            }
        }
    }

    /// Removes records that are there already, with the same instant: files that overlap were put one after another.
    fn drop_copies(&mut self) {
        let content = |state: State| (state.position_m, state.velocity_m_per_s);
        let mut known: BTreeMap<Utc, Option<State>> = BTreeMap::new();
        self.rows.retain(|row| {
            let Some(at) = row.at else { return true };
            match known.get(&at) {
                Some(known) => known.map(content) != row.state.map(content),
                None => {
                    known.insert(at, row.state);
                    true
                }
            }
        });
    }

    /// Makes states bad that contradict their neighbours: nothing moves so fast, or their velocity is of other units or of
    /// another frame. One such state would bend the interpolated path by hundreds of kilometres.
    fn sift_motion(&mut self, object: &str, bad: &mut Bad) {
        let found: Vec<_> = (0..self.rows.len())
            .filter_map(|n| Some((n, self.contradiction(n)?)))
            .collect();
        for (n, contradiction) in found {
            let row = &mut self.rows[n];
            bad.states += 1;
            bad.push(object, row.line, contradiction.to_string());
            (row.at, row.state) = (None, None);
        }
    }

    /// The state of a record, if it is there and has one.
    fn at(&self, n: Option<usize>) -> Option<&State> {
        self.rows.get(n?)?.state.as_ref()
    }

    /// Returns why the state of a record cannot be right: it contradicts the states on both sides, or the only one.
    fn contradiction(&self, n: usize) -> Option<Contradiction> {
        let own = self.at(Some(n))?;
        let before = self.at(n.checked_sub(1)).map(|before| (before, own));
        let after = self.at(Some(n + 1)).map(|after| (own, after));
        let pairs = [before, after].into_iter().flatten();
        let velocities = pairs.clone().filter_map(|(a, b)| contradicts(own, a, b));
        let of_velocity: Vec<Option<Contradiction>> = velocities.collect();
        let fast = pairs.map(|(a, b)| too_fast(a, b));
        let of_way: Vec<Option<Contradiction>> = fast.collect();
        // Beside one state alone, the other may be the wrong one: then that is so on both of its sides.
        let is_others = of_way.len() == 1 && {
            let other = if before.is_some() {
                n.wrapping_sub(1)
            } else {
                n + 1
            };
            let pairs = [
                (other.checked_sub(1), Some(other)),
                (Some(other), other.checked_add(1)),
            ];
            let mut sides = pairs.map(|(a, b)| self.at(a).zip(self.at(b))).into_iter();
            sides.all(|side| side.is_some_and(|(a, b)| too_fast(a, b).is_some()))
        };
        let all = |found: &[Option<Contradiction>]| {
            found
                .iter()
                .all(Option::is_some)
                .then(|| found.first().copied().flatten())
                .flatten()
        };
        all(&of_velocity).or_else(|| all(&of_way).filter(|_| !is_others))
    }

    /// Makes the fewest records bad that keep the others from being in order of time.
    fn sort_out(&mut self, object: &str, repeats: bool, bad: &mut Bad) {
        let timed = self.rows.iter().enumerate();
        let timed: Vec<(usize, Utc)> = timed
            .filter_map(|(index, row)| Some((index, row.at?)))
            .collect();
        let instants: Vec<Utc> = timed.iter().map(|(_, at)| *at).collect();
        let kept = in_order(&instants, repeats);
        if kept.len() == instants.len() {
            return;
        }
        let mut kept = kept.into_iter().peekable();
        let mut before = None;
        for (n, (index, at)) in timed.into_iter().enumerate() {
            if kept.next_if_eq(&n).is_some() {
                before = Some(at);
                continue;
            }
            let reason = match before {
                Some(before) if before >= at => "the state is not later than the one before it",
                _ => "the state is later than those after it",
            };
            let row = &mut self.rows[index];
            bad.states += usize::from(row.state.is_some());
            bad.push(object, row.line, reason);
            (row.at, row.state) = (None, None);
        }
    }
}

/// Indices of the most instants that are in order. If there are several choices, it is the one that keeps the first instants.
fn in_order(instants: &[Utc], repeats: bool) -> Vec<usize> {
    let follows = |before: Utc, at: Utc| before < at || (repeats && before == at);
    let mut first: Vec<usize> = Vec::new();
    for (n, at) in instants.iter().enumerate() {
        if first
            .last()
            .is_none_or(|last| follows(instants[*last], *at))
        {
            first.push(n);
        }
    }
    if first.len() == instants.len() {
        return first;
    }
    // The longest increasing subsequence: `ends[k]` is the earliest end of one of k + 1.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::new();
    for (n, at) in instants.iter().enumerate() {
        let place = ends.partition_point(|end| follows(instants[*end], *at));
        before.push(place.checked_sub(1).map(|place| ends[place]));
        match ends.get(place) {
            None => ends.push(n),
            Some(end) if *at < instants[*end] => ends[place] = n,
            Some(_) => {}
        }
    }
    if ends.len() == first.len() {
        return first;
    }
    let mut longest: Vec<usize> =
        std::iter::successors(ends.last().copied(), |n| before[*n]).collect();
    longest.reverse();
    longest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(s: i64) -> Utc {
        Utc::from_unix_ns(s * 1_000_000_000)
    }

    fn state(s: i64) -> State {
        State {
            at: at(s),
            position_m: DVec3::new(7e6, 0.0, s as f64),
            velocity_m_per_s: None,
        }
    }

    fn runs(seconds: &[i64], repeats: bool) -> (Vec<Vec<i64>>, Vec<usize>) {
        let mut track = Track::default();
        for (line, s) in (1..).zip(seconds) {
            // No two are copies.
            let mut own = state(*s);
            own.position_m.y = line as f64;
            track.state(line, own);
        }
        let mut bad = Bad::default();
        let runs = track.runs("x", repeats, &mut bad);
        assert_eq!(bad.states, seconds.len());
        let parts = runs.parts.iter();
        let parts = parts.map(|part| {
            part.iter()
                .map(|s| s.at.unix_ns() / 1_000_000_000)
                .collect()
        });
        let mut lines: Vec<usize> = bad.errors.iter().map(|error| error.line).collect();
        lines.sort_unstable();
        (parts.collect(), lines)
    }

    #[test]
    fn the_fewest_states_out_of_order_are_bad() {
        for (seconds, parts, lines) in [
            (&[0, 1, 2, 3][..], vec![vec![0, 1, 2, 3]], vec![]),
            (
                &[0, 1, 2, 1, 3, 4],
                vec![vec![0, 1, 2], vec![3, 4]],
                vec![4],
            ),
            (&[0, 1, 1, 2, 3], vec![vec![0, 1], vec![2, 3]], vec![3]),
            // A wrong year in one line does not make all later ones bad.
            (
                &[0, 1, 999, 2, 3, 4],
                vec![vec![0, 1], vec![2, 3, 4]],
                vec![3],
            ),
            (&[999, 1, 2], vec![vec![1, 2]], vec![1]),
        ] {
            assert_eq!(runs(seconds, false), (parts, lines), "{seconds:?}");
        }
        assert_eq!(runs(&[0, 1, 1, 2], true).1, [0_usize; 0]);
    }

    proptest! {
        /// For all instants: parts are in order, none bridges a bad state, and all good states but lone ones are there.
        #[test]
        fn parts_are_in_order_and_end_at_bad_states(seconds in prop::collection::vec(0_i64..30, 0..40), repeats in any::<bool>()) {
            let (parts, lines) = runs(&seconds, repeats);
            let rises = |a: &i64, b: &i64| if repeats { a <= b } else { a < b };
            let flat: Vec<i64> = parts.iter().flatten().copied().collect();
            prop_assert!(flat.is_sorted_by(rises));
            let good: Vec<Vec<i64>> = (1..).zip(&seconds).collect::<Vec<_>>()
                .split(|(line, _)| lines.contains(line))
                .map(|run| run.iter().map(|(_, s)| **s).collect())
                .filter(|run: &Vec<i64>| run.len() > usize::from(!lines.is_empty()))
                .collect();
            prop_assert_eq!(parts, good);
        }
    }

    #[test]
    fn copies_of_states_are_dropped() {
        let mut track = Track::default();
        // Two files that overlap, one after another, and a state that is there twice in a row.
        for (line, s) in (1..).zip([0, 1, 2, 3, 3, 2, 3, 4, 5]) {
            track.state(line, state(s));
        }
        let mut bad = Bad::default();
        let runs = track.runs("x", false, &mut bad);
        assert_eq!(runs.parts.iter().map(Vec::len).collect::<Vec<_>>(), [6]);
        assert!(bad.is_empty() && !runs.cut);
        // Another position at the same instant is a contradiction.
        let mut track = Track::default();
        (0..3).for_each(|s| track.state(s as usize, state(s)));
        let mut other = state(1);
        other.position_m.y = 1.0;
        track.state(3, other);
        track.runs("x", false, &mut bad);
        assert!(bad.has("x"));
    }

    /// A circular orbit of 7,000 km, sampled every 30 s; `change` changes each state.
    fn orbit(change: impl Fn(i64, &mut State)) -> (Vec<usize>, Vec<usize>, bool) {
        let mut track = Track::default();
        for n in 0..8 {
            let (rate, radius_m) = (1.078e-3, 7e6);
            let (sin, cos) = (rate * 30.0 * n as f64).sin_cos();
            let mut own = State {
                at: at(30 * n),
                position_m: DVec3::new(cos, sin, 0.0) * radius_m,
                velocity_m_per_s: Some(DVec3::new(-sin, cos, 0.0) * radius_m * rate),
            };
            change(n, &mut own);
            track.state(10 + n as usize, own);
        }
        let mut bad = Bad::default();
        let runs = track.runs("x", false, &mut bad);
        let mut lines: Vec<usize> = bad.errors.iter().map(|error| error.line).collect();
        lines.sort_unstable();
        let mut parts = runs.parts.iter();
        let moving = parts.all(|part| part.iter().all(|s| s.velocity_m_per_s.is_some()));
        (lines, runs.parts.iter().map(Vec::len).collect(), moving)
    }

    #[test]
    fn velocities_that_contradict_the_motion_are_bad() {
        let times = |factor: f64| {
            move |own: &mut State| own.velocity_m_per_s = own.velocity_m_per_s.map(|v| v * factor)
        };
        assert_eq!(orbit(|_, _| {}), (vec![], vec![8], true));
        // The rotation of the Earth is far less than a contradiction.
        assert_eq!(orbit(|_, own| times(1.07)(own)), (vec![], vec![8], true));
        // Zeros mean that they are not known: positions alone are interpolated.
        assert_eq!(orbit(|_, own| times(0.0)(own)), (vec![], vec![8], false));
        // All in other units, or backwards: nothing is left.
        for factor in [1e3, 1e-3, -1.0] {
            let (lines, parts, _) = orbit(|_, own| times(factor)(own));
            assert_eq!((lines.len(), parts), (8, vec![]), "{factor}");
        }
        // One of them, in the middle or at an end.
        for (wrong, parts) in [(4, vec![4, 3]), (0, vec![7]), (7, vec![7]), (1, vec![6])] {
            let one = orbit(|n, own| {
                if n == wrong {
                    times(1e3)(own)
                }
            });
            assert_eq!(one, (vec![10 + wrong as usize], parts, true), "{wrong}");
        }
        // A position that nothing reaches in 30 s, without velocities.
        let jump = orbit(|n, own| {
            own.velocity_m_per_s = None;
            if n == 3 {
                own.position_m = DVec3::splat(999_999_999.999);
            }
        });
        assert_eq!(jump, (vec![13], vec![3, 4], false));
        // An aircraft may turn between two states.
        let slow = |n: i64, own: &mut State| {
            let turn = if n % 2 == 0 { 250.0 } else { -250.0 };
            own.position_m = DVec3::new(6.38e6, 0.0, 100.0 * n as f64);
            own.velocity_m_per_s = Some(DVec3::new(0.0, turn, 0.0));
        };
        assert_eq!(orbit(slow), (vec![], vec![8], true));
    }

    #[test]
    fn impossible_positions_are_bad() {
        for (x, words) in [
            (7e3, "inside the Earth, 7.000 km from its centre"),
            (0.0, "inside the Earth"),
            (7e9, "7.000e6 km from the Earth, above"),
            (f64::INFINITY, "from the Earth, above"),
            (f64::NAN, "from the Earth, above"),
        ] {
            let mut track = Track::default();
            for s in 0..5 {
                let mut own = state(s);
                if s == 2 {
                    own.position_m.x = x;
                }
                track.state(10 + s as usize, own);
            }
            let mut bad = Bad::default();
            let runs = track.runs("x", false, &mut bad);
            assert_eq!(runs.parts.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
            assert_eq!(bad.errors[0].line, 12);
            assert!(bad.errors[0].reason.contains(words), "{}", bad.errors[0]);
        }
    }
}
