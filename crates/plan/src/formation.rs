//! Formations: craft that are placed relative to their chief or read from a file, and then propagated separately.

use constel_exchange::ephemeris::{Ephemeris, EphemerisFile, Frame, Method, Segment, State};
use constel_orbit::formation::{self, Chief, Relative, RelativeElements};
use constel_orbit::gravity::propagated;
use constel_orbit::shells::{self, LeftOutReason};
use constel_orbit::{EARTH_EQUATORIAL_RADIUS_M, TemeState, tle};
use constel_scenario::model::{
    self, FormationPreset, FormationSource, RelativeElements as Elements, RelativeState,
};
use constel_scenario::{Diagnostics, Scenario, TextFile};
use constel_topology::{Neighbours, Satellite, Wrap};
use constel_units::{TimeSpan, Utc};

use crate::catalogue::Catalogued;
use crate::elements::{self, DataAge, Findings, catalogued};
use crate::ephemeris;
use crate::flown::Flown;
use crate::lab::whole_file;
use crate::sky::Orbits;

/// The interval of the computed states, seconds. A polynomial through four states has millimetre accuracy between
/// them.
const GRAIN_S: u32 = 60;
/// The largest number of states of a lab's formation: about 110 MB, or 13 days of 100 craft.
const MOST_STATES: u64 = 2_000_000;
/// The time beyond the end of the lab for code that looks ahead: twice the longest step.
const AHEAD_S: u64 = 120;

/// Returns the craft of a formation.
pub(crate) fn fly(
    scenario: &Scenario,
    constellation: &model::Constellation,
    own: &model::Formation,
    findings: &mut Findings<'_>,
) -> Option<Flown> {
    let from_states = |states: Vec<TemeState>, errors: &mut Diagnostics| {
        move_all(scenario, constellation, &states, errors)
            .map(|orbits| (orbits, vec![None; states.len()]))
    };
    let (orbits, catalogued): (Orbits, Vec<Option<Catalogued>>) = match &own.from {
        FormationSource::Preset(chief, preset, size) => from_states(
            by_name(chief, *preset, own.count, size.m()),
            findings.errors,
        )?,
        FormationSource::Relative(chief, states) => {
            let chief = chief_of(chief);
            let states = states.iter().map(|s| chief.beside(&beside(s)));
            from_states(states.collect(), findings.errors)?
        }
        FormationSource::Elements(chief, elements) => {
            let chief = chief_of(chief);
            let states = elements.iter().map(|e| chief.with_elements(&different(e)));
            from_states(states.collect(), findings.errors)?
        }
        FormationSource::Tle(file, max_age) => {
            two_line(scenario, constellation, own, (file, *max_age), findings)?
        }
        FormationSource::Ephemeris(file) => given(scenario, constellation, own, file, findings)?,
    };
    let names = constellation.craft_names()?;
    Some(Flown {
        orbits,
        satellites: (0..)
            .zip(names)
            .map(|(slot, name)| Satellite {
                name,
                shell: 0,
                plane: 0,
                slot,
            })
            .collect(),
        catalogued,
        neighbours: Neighbours::Nearest { wrap: Wrap::Delta },
    })
}

fn by_name(chief: &model::Chief, preset: FormationPreset, count: u32, m: f64) -> Vec<TemeState> {
    let chief = chief_of(chief);
    match preset {
        FormationPreset::StringOfPearls | FormationPreset::Starling => {
            formation::string_of_pearls(&chief, count, m)
        }
        FormationPreset::Circumnavigation => formation::circumnavigation(&chief, count, m),
        FormationPreset::Tetrahedron => formation::tetrahedron(&chief, m),
    }
}

fn chief_of(chief: &model::Chief) -> Chief {
    Chief {
        radius_m: EARTH_EQUATORIAL_RADIUS_M + chief.altitude.m(),
        inclination_rad: chief.inclination.rad(),
        raan_rad: chief.raan.rad(),
        latitude_argument_rad: chief.latitude_argument.rad(),
    }
}

fn beside(state: &RelativeState) -> Relative {
    Relative {
        radial_m: state.radial.m(),
        along_m: state.along.m(),
        cross_m: state.cross.m(),
        radial_m_per_s: state.radial_speed.m_per_s(),
        along_m_per_s: state.along_speed.map(|speed| speed.m_per_s()),
        cross_m_per_s: state.cross_speed.m_per_s(),
    }
}

fn different(elements: &Elements) -> RelativeElements {
    RelativeElements {
        a_m: elements.a.m(),
        lambda_m: elements.lambda.m(),
        ex_m: elements.ex.m(),
        ey_m: elements.ey.m(),
        ix_m: elements.ix.m(),
        iy_m: elements.iy.m(),
    }
}

/// Computes the positions of all craft from the start of the lab to its end.
fn move_all(
    scenario: &Scenario,
    constellation: &model::Constellation,
    states: &[TemeState],
    errors: &mut Diagnostics,
) -> Option<Orbits> {
    let lab_s = scenario
        .duration
        .ns()
        .unsigned_abs()
        .div_ceil(1_000_000_000);
    // Three states more, so that the polynomial always has four.
    let count = (lab_s + AHEAD_S).div_ceil(u64::from(GRAIN_S)) + 3;
    if count * states.len() as u64 > MOST_STATES {
        let message = format!(
            "`{}`: {} craft over {} would be {} states; at most {MOST_STATES}",
            constellation.name,
            states.len(),
            scenario.duration,
            count * states.len() as u64,
        );
        let error = whole_file(scenario, "out-of-range", message);
        errors.push(error.with_suggestion("shorten `duration`, or give an `ephemeris`"));
        return None;
    }
    let name = |n: usize| format!("{}-{n}", constellation.name);
    let mut objects = Vec::new();
    for (n, state) in states.iter().enumerate() {
        let states = trajectory(state, scenario.start, count);
        if let Some(low) = states
            .iter()
            .find(|s| s.position_m.length() < EARTH_EQUATORIAL_RADIUS_M + 100e3)
        {
            let message = format!("`{}` has come down at {}", name(n), low.at);
            errors.push(whole_file(scenario, "orbit", message));
            return None;
        }
        match Segment::new(Frame::Teme, Method::Hermite, 7, states, None) {
            Ok(segment) => objects.push(Ephemeris {
                object: name(n),
                object_id: String::new(),
                segments: vec![segment],
            }),
            Err(error) => {
                let message = format!("`{}`: {error}", name(n));
                errors.push(whole_file(scenario, "orbit", message));
                return None;
            }
        }
    }
    Some(Orbits::Given(objects))
}

fn trajectory(first: &TemeState, start: Utc, count: u64) -> Vec<State> {
    let mut state = *first;
    let mut at = start;
    let mut states = Vec::new();
    for _ in 0..count {
        states.push(State {
            at,
            position_m: state.position_teme_m,
            velocity_m_per_s: Some(state.velocity_teme_m_per_s),
        });
        state = propagated(&state, f64::from(GRAIN_S));
        at = at + TimeSpan::from_ns(i64::from(GRAIN_S) * 1_000_000_000);
    }
    states
}

/// Returns the objects of a file of two-line elements, in its order. Bad records are counted if there are enough others.
fn two_line(
    scenario: &Scenario,
    constellation: &model::Constellation,
    own: &model::Formation,
    (file, max_age): (&TextFile, TimeSpan),
    findings: &mut Findings<'_>,
) -> Option<(Orbits, Vec<Option<Catalogued>>)> {
    let read = tle::read(file.text());
    let right = usize::try_from(own.count) == Ok(read.sets.len());
    if !read.errors.is_empty() && (own.strict || !right) {
        elements::refuse(file, "tle", &read.errors, findings.errors);
        if read.sets.is_empty() || own.strict {
            return None;
        }
    }
    right_number(own.count, read.sets.len(), file, findings.errors)?;
    elements::leave_out_unread(constellation, file, &read, findings);
    let objects = read.sets;
    let mut craft = Vec::new();
    for object in &objects {
        // A formation has all of its craft, so a reason to leave one out is an error.
        match shells::flown(object, scenario.start, max_age) {
            Ok(satellite) => craft.push(satellite),
            Err(reason) => {
                let message = format!("`{}` cannot fly: {reason}", catalogued(object));
                let error = file.error_where_named("tle", message);
                findings.errors.push(match reason {
                    LeftOutReason::Stale { .. } => error.with_suggestion(elements::NEARER),
                    _ => error,
                });
            }
        }
    }
    if craft.len() == objects.len() {
        let ages = objects
            .iter()
            .map(|object| elements::days(scenario, object));
        let age = DataAge::of_elements(constellation, file, ages.collect());
        findings.ages.push(age);
        let flying = objects.iter().zip(&craft);
        elements::warn_of_falls(scenario, constellation, file, flying, findings);
    }
    let names = objects.iter().map(|object| Some(catalogued(object)));
    (craft.len() == objects.len()).then(|| (Orbits::Computed(craft), names.collect()))
}

/// Returns the objects of a file of positions, in its order.
fn given(
    scenario: &Scenario,
    constellation: &model::Constellation,
    own: &model::Formation,
    file: &TextFile,
    findings: &mut Findings<'_>,
) -> Option<(Orbits, Vec<Option<Catalogued>>)> {
    let before = findings.left_out.len();
    let EphemerisFile { objects, .. } = ephemeris::read(constellation, file, own.strict, findings)?;
    if usize::try_from(own.count) != Ok(objects.len()) {
        // There will be no plan that lists them, so the errors do.
        for out in &findings.left_out[before..] {
            let name = out.object.as_deref().unwrap_or_default();
            let message = format!("`{name}` cannot be read: {}", out.reason);
            let error = file.error_where_named("ephemeris", message);
            findings.errors.push(error);
        }
    }
    right_number(own.count, objects.len(), file, findings.errors)?;
    ephemeris::check_spans(scenario, constellation, file, &objects, findings);
    let names = objects.iter().map(ephemeris::catalogued).collect();
    Some((Orbits::Given(objects), names))
}

/// Checks that as many objects of a file can be read as the formation has craft.
fn right_number(count: u32, found: usize, file: &TextFile, errors: &mut Diagnostics) -> Option<()> {
    if usize::try_from(count) == Ok(found) {
        return Some(());
    }
    let message = format!("this file has {found} objects, and `craft` is {count}");
    errors.push(file.error_where_named("disagreement", message));
    None
}
