//! One satellite, whatever moves it; and many at once.

use std::f64::consts::TAU;
use std::sync::OnceLock;

use constel_units::{TimeSpan, Utc};
use glam::DVec3;
use thiserror::Error;

use crate::circular::{CircularOrbit, Turn, seconds_since};
use crate::elements::ElementSet;
use crate::frames::{EarthRotation, TemeState};
use crate::time::DUT1_UNKNOWN_S;

/// Why a satellite has no position at an instant. Concerns that satellite only.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PropagationError {
    /// SGP4 cannot start from these elements.
    #[error("SGP4 cannot start from these elements: {reason}")]
    Unusable {
        /// SGP4's error.
        reason: String,
    },
    /// The elements diverge before this instant.
    #[error("SGP4 fails {minutes:.1} min from epoch: {reason}")]
    Diverged {
        /// Minutes from the elements' epoch, of either sign.
        minutes: f64,
        /// SGP4's error.
        reason: String,
    },
    /// The object is lower than any satellite flies: it has come down.
    #[error(
        "has decayed {minutes:.1} min from epoch: {altitude_km:.1} km above the Earth's surface, and no satellite flies below \
         {LOWEST_KM:.0} km"
    )]
    Decayed {
        /// Minutes from the elements' epoch, of either sign.
        minutes: f64,
        /// Altitude above the ellipsoid, km; negative inside the Earth.
        altitude_km: f64,
    },
    /// The orbit came down earlier; SGP4's results after that are not positions.
    #[error(
        "has decayed {down_min:.0} min from epoch, before the requested instant ({minutes:.1} min)"
    )]
    DecayedBefore {
        /// Minutes from the elements' epoch.
        minutes: f64,
        /// When it came down, minutes from the elements' epoch.
        down_min: f64,
    },
    /// SGP4 gives a place that the orbit of the elements does not reach, as it does far from the epoch of falling objects.
    #[error(
        "SGP4 gives no plausible place {minutes:.1} min from epoch: {radius_km:.0} km from the Earth's centre, where the \
         elements' orbit reaches {farthest_km:.0} km at most"
    )]
    Implausible {
        /// Minutes from the elements' epoch, of either sign.
        minutes: f64,
        /// Distance from the Earth's centre, km.
        radius_km: f64,
        /// Farthest that the elements' orbit may reach, km.
        farthest_km: f64,
    },
    /// SGP4 has no plausible orbit at an instant between this one and the epoch, so its results are not positions. The orbit
    /// is beyond the reach of the elements, or below them, although drag lowers an orbit until the epoch.
    #[error(
        "SGP4 gives no plausible orbit earlier than {since_min:.0} min from epoch ({minutes:.1} min was asked for)"
    )]
    BeforePlausible {
        /// Minutes from the elements' epoch, negative.
        minutes: f64,
        /// The earliest plausible place, minutes from the elements' epoch, negative.
        since_min: f64,
    },
}

/// Orbits of 225 minutes and more are deep space's.
const DEEP_SPACE_RAD_PER_MIN: f64 = TAU / 225.0;

/// The share of the semi-major axis by which a position may exceed the apogee. SGP4 is a power series in time:
/// far from the epoch of a falling object it gives positions far outside the orbit of the elements, without an
/// error. A position beyond this limit is therefore rejected. Short-period terms move it by less than 0.5 %,
/// and drag by a few per cent in the weeks for which SGP4 is accurate.
const MOST_BEYOND_APOGEE: f64 = 0.08;

/// Below this altitude no satellite completes an orbit, km; SGP4 has no air that stops one there.
const LOWEST_KM: f64 = 80.0;
/// Flattening of the Earth (WGS72, as SGP4's other constants).
const FLATTENING: f64 = 1.0 / 298.26;

/// The share of its altitude by which an orbit with drag may be lower before the epoch than at it; it was higher in truth.
const MOST_LOWER_BEFORE: f64 = 0.05;

/// First instant at which an orbit is sampled for decay, minutes from the epoch, and the factor to the next.
const FIRST_LOOK_MIN: f64 = 720.0;
const NEXT_LOOK: f64 = 1.5;
/// The factor before the epoch, where the series may be implausible for a tenth of the time only.
const NEXT_LOOK_BACK: f64 = 1.05;
/// Last such instant: four years.
const LAST_LOOK_MIN: f64 = 4.0 * 365.25 * 1440.0;

/// An object moved by SGP4/SDP4 with its constants worked out once. WGS72 constants and the
/// "improved" mode: IAU sidereal time, no AFSPC quirk in the choice of quadrant for deep-space
/// orbits of low inclination. It is the combination that reproduces the published verification
/// vectors (Vallado et al., "Revisiting Spacetrack Report #3", AIAA 2006-6753) to the last digit;
/// the AFSPC mode is 964 m off in one of them (23599). For orbits of less than 225 minutes the two
/// modes are the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Sgp4Orbit {
    constants: sgp4::Constants,
    epoch: Utc,
    /// Semi-major axis of the elements, km.
    axis_km: f64,
    /// Distance of the elements' perigee from the Earth's centre, km.
    perigee_km: f64,
    /// Farthest from the Earth's centre that the orbit of the elements may reach, km.
    farthest_km: f64,
    /// Whether the elements have drag.
    has_drag: bool,
    /// Whether the orbit is deep space's.
    is_deep: bool,
    /// The earliest plausible place, minutes from the epoch; minus infinity if all of four years are plausible. Found
    /// when an instant before the epoch is first asked for, as most labs start after it.
    since_min: OnceLock<f64>,
    /// The time at which the orbit has come down, minutes from the epoch; infinite if it does not within four
    /// years.
    down_min: f64,
}

impl Sgp4Orbit {
    /// Prepares SGP4 for `elements`.
    ///
    /// # Errors
    /// [`PropagationError::Unusable`].
    pub fn new(elements: &ElementSet) -> Result<Self, PropagationError> {
        let constants = sgp4::Constants::from_elements_afspc_compatibility_mode(
            elements.elements(),
        )
        .map_err(|error| PropagationError::Unusable {
            reason: error.to_string(),
        })?;
        let orbit = brouwer_orbit(elements)?;
        let axis_km = (sgp4::WGS72.ke / orbit.mean_motion).powf(2.0 / 3.0) * sgp4::WGS72.ae;
        let mut own = Self {
            constants,
            epoch: elements.epoch(),
            axis_km,
            perigee_km: axis_km * (1.0 - orbit.eccentricity),
            farthest_km: axis_km * (1.0 + orbit.eccentricity + MOST_BEYOND_APOGEE),
            has_drag: elements.elements().drag_term > 0.0,
            is_deep: orbit.mean_motion <= DEEP_SPACE_RAD_PER_MIN,
            since_min: OnceLock::new(),
            down_min: f64::INFINITY,
        };
        // Deep-space orbits are integrated step by step, and hardly feel drag.
        if !own.is_deep {
            own.down_min = own.last_plausible(1.0, NEXT_LOOK);
        }
        Ok(own)
    }

    /// Returns the minutes from the epoch, after it (`sign` 1) or before it (-1), beyond which the series gives no
    /// positions; infinite if it gives some for four years. Beyond that time it may give positions again,
    /// at times near the old orbit. After the epoch that is never before half of that time has passed again: samples at that
    /// distance (`factor`) find every such time.
    fn last_plausible(&self, sign: f64, factor: f64) -> f64 {
        let is_bad = |after: f64| {
            self.by_series(sign * after).is_err()
                || (sign < 0.0 && !self.has_plausible_axis(-after))
        };
        let (mut good, mut look) = (0.0, FIRST_LOOK_MIN);
        while look <= LAST_LOOK_MIN {
            if is_bad(look) {
                let mut bad = look;
                while bad - good > 1.0 {
                    let middle = f64::midpoint(good, bad);
                    if is_bad(middle) {
                        bad = middle;
                    } else {
                        good = middle;
                    }
                }
                return bad;
            }
            (good, look) = (look, look * factor);
        }
        f64::INFINITY
    }

    /// Whether the orbit's mean size at an instant before the epoch is plausible: not far above that of the elements, and, with
    /// drag, not below it.
    fn has_plausible_axis(&self, minutes: f64) -> bool {
        let earth = &sgp4::WGS72;
        let mu_m3_per_s2 = 1e9 * earth.ae.powi(3) * (earth.ke / 60.0).powi(2);
        let axis_km = |minutes: f64| {
            let state = self.by_series(minutes).ok()?;
            let speed = state.velocity_teme_m_per_s.length_squared();
            Some(1e-3 / (2.0 / state.position_teme_m.length() - speed / mu_m3_per_s2))
        };
        // The Earth's oblateness moves the axis by up to 10 km, twice up and down in an orbit: a quarter of an orbit later
        // it is as much on the other side.
        let quarter_min = 0.25 * TAU * (self.axis_km / earth.ae).powf(1.5) / earth.ke;
        let (Some(one), Some(other)) = (axis_km(minutes), axis_km(minutes + quarter_min)) else {
            return false;
        };
        let now_km = f64::midpoint(one, other);
        let altitude_km = (self.axis_km - earth.ae).max(0.0);
        let is_lower = self.has_drag && now_km < self.axis_km - MOST_LOWER_BEFORE * altitude_km;
        // An orbit whose apogee is near the limit would be beyond it at some instants and not at others.
        let apogee = 2.0 - self.perigee_km / self.axis_km;
        let is_larger = now_km > self.axis_km * (1.0 + (MOST_BEYOND_APOGEE - 0.01) / apogee);
        !(is_larger || is_lower)
    }

    /// Returns the first instant from `from` to `to` without a position, to a second, and the reason. Instants are
    /// compared every minute, or 20,000 times in a long interval, and only of orbits that can come down in it.
    pub fn first_lost(&self, from: Utc, to: Utc) -> Option<(Utc, PropagationError)> {
        /// Perigees above these do not come down without a decay that `down_min` has, km above the equator: deep space's
        /// are also moved by the Moon and the Sun.
        const SAFE_KM: f64 = 300.0;
        const SAFE_DEEP_KM: f64 = 2_000.0;
        let safe_km = if self.is_deep { SAFE_DEEP_KM } else { SAFE_KM };
        let minutes = |at: Utc| seconds_since(self.epoch, at) / 60.0;
        let stays = self.since_min(minutes(from)) <= minutes(from) && self.down_min > minutes(to);
        if stays && self.perigee_km > sgp4::WGS72.ae + safe_km {
            return None;
        }
        let span_s = seconds_since(from, to).max(0.0);
        let step_s = (span_s / 20_000.0).max(60.0);
        let at = |s: f64| from + TimeSpan::from_secs_f64(s);
        let (mut good, mut now) = (0.0, 0.0);
        let mut error = loop {
            if let Err(error) = self.teme(at(now)) {
                break error;
            }
            if now >= span_s {
                return None;
            }
            (good, now) = (now, (now + step_s).min(span_s));
        };
        while now - good > 1.0 {
            let middle = f64::midpoint(good, now);
            match self.teme(at(middle)) {
                Ok(_) => good = middle,
                Err(earlier) => (now, error) = (middle, earlier),
            }
        }
        Some((at(now), error))
    }

    /// When the elements hold.
    pub fn epoch(&self) -> Utc {
        self.epoch
    }

    /// State in TEME, `minutes` after the elements' epoch.
    ///
    /// # Errors
    /// All kinds of [`PropagationError`] but [`PropagationError::Unusable`].
    pub fn teme_at_minutes(&self, minutes: f64) -> Result<TemeState, PropagationError> {
        if minutes > self.down_min {
            let down_min = self.down_min;
            return Err(PropagationError::DecayedBefore { minutes, down_min });
        }
        let since_min = self.since_min(minutes);
        if minutes < since_min {
            return Err(PropagationError::BeforePlausible { minutes, since_min });
        }
        self.by_series(minutes)
    }

    /// Returns the earliest plausible place, minutes from the epoch, if `minutes` may be before it.
    fn since_min(&self, minutes: f64) -> f64 {
        if self.is_deep || minutes > -FIRST_LOOK_MIN {
            return f64::NEG_INFINITY;
        }
        let search = || -self.last_plausible(-1.0, NEXT_LOOK_BACK);
        *self.since_min.get_or_init(search)
    }

    /// The state that the series gives, if it is plausible by itself.
    fn by_series(&self, minutes: f64) -> Result<TemeState, PropagationError> {
        let prediction = self
            .constants
            .propagate(sgp4::MinutesSinceEpoch(minutes))
            .map_err(|error| PropagationError::Diverged {
                minutes,
                reason: error.to_string(),
            })?;
        let position_km = DVec3::from_array(prediction.position);
        let velocity_km_per_s = DVec3::from_array(prediction.velocity);
        let radius_km = position_km.length();
        if !(radius_km.is_finite() && velocity_km_per_s.is_finite()) {
            return Err(PropagationError::Diverged {
                minutes,
                reason: "the state is not finite".to_owned(),
            });
        }
        // The report's code refuses what is inside the Earth (its error 6); the sgp4 crate leaves that to its caller.
        let sine = position_km.z / radius_km;
        let altitude_km = radius_km - sgp4::WGS72.ae * (1.0 - FLATTENING * sine * sine);
        if altitude_km < LOWEST_KM {
            return Err(PropagationError::Decayed {
                minutes,
                altitude_km,
            });
        }
        if radius_km > self.farthest_km {
            return Err(PropagationError::Implausible {
                minutes,
                radius_km,
                farthest_km: self.farthest_km,
            });
        }
        Ok(TemeState {
            position_teme_m: position_km * 1e3,
            velocity_teme_m_per_s: velocity_km_per_s * 1e3,
        })
    }

    /// State in TEME at `utc`.
    ///
    /// # Errors
    /// As [`Self::teme_at_minutes`].
    pub fn teme(&self, utc: Utc) -> Result<TemeState, PropagationError> {
        self.teme_at_minutes(seconds_since(self.epoch, utc) / 60.0)
    }
}

/// The mean elements SGP4 works with (Brouwer's mean motion instead of the catalogue's Kozai one),
/// in radians and radians a minute, with the WGS72 constants.
pub(crate) fn brouwer_orbit(set: &ElementSet) -> Result<sgp4::Orbit, PropagationError> {
    let elements = set.elements();
    sgp4::Orbit::from_kozai_elements(
        &sgp4::WGS72,
        elements.inclination.to_radians(),
        elements.right_ascension.to_radians(),
        elements.eccentricity,
        elements.argument_of_perigee.to_radians(),
        elements.mean_anomaly.to_radians(),
        elements.mean_motion * (std::f64::consts::PI / 720.0),
    )
    .map_err(|error| PropagationError::Unusable {
        reason: error.to_string(),
    })
}

/// A satellite whose position can be computed.
#[derive(Debug, Clone, PartialEq)]
pub enum Satellite {
    /// A designed circular orbit; never fails.
    Circular(CircularOrbit),
    /// Mean elements moved by SGP4.
    Sgp4(Box<Sgp4Orbit>),
}

impl Satellite {
    /// A satellite from mean elements.
    ///
    /// # Errors
    /// [`PropagationError::Unusable`].
    pub fn from_elements(elements: &ElementSet) -> Result<Self, PropagationError> {
        Ok(Self::Sgp4(Box::new(Sgp4Orbit::new(elements)?)))
    }

    /// State in TEME at `utc`.
    ///
    /// # Errors
    /// As [`Sgp4Orbit::teme_at_minutes`].
    pub fn teme(&self, utc: Utc) -> Result<TemeState, PropagationError> {
        match self {
            Self::Circular(orbit) => Ok(orbit.teme(utc)),
            Self::Sgp4(orbit) => orbit.teme(utc),
        }
    }

    /// Returns the first instant from `from` to `to` without a position, as [`Sgp4Orbit::first_lost`].
    pub fn first_lost(&self, from: Utc, to: Utc) -> Option<(Utc, PropagationError)> {
        match self {
            Self::Circular(_) => None,
            Self::Sgp4(orbit) => orbit.first_lost(from, to),
        }
    }

    /// Position in TEME at `utc`, m; cheaper than [`Self::teme`] for circular orbits.
    ///
    /// # Errors
    /// As [`Sgp4Orbit::teme_at_minutes`].
    pub fn position_teme_m(&self, utc: Utc) -> Result<DVec3, PropagationError> {
        match self {
            Self::Circular(orbit) => Ok(orbit.position_teme_m(utc)),
            Self::Sgp4(orbit) => orbit.teme(utc).map(|state| state.position_teme_m),
        }
    }
}

impl From<CircularOrbit> for Satellite {
    fn from(orbit: CircularOrbit) -> Self {
        Self::Circular(orbit)
    }
}

/// A satellite without a position in a batch.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("satellite {index}: {error}")]
pub struct SatelliteFailure {
    /// Index into the batch.
    pub index: usize,
    /// Why.
    pub error: PropagationError,
}

/// Positions of all `satellites` at `utc` in ITRF, m, into `positions_itrf_m` (cleared first, same
/// order), with UT1 taken as UTC ([`DUT1_UNKNOWN_S`]). One sine and cosine of sidereal time for
/// all.
///
/// A satellite that cannot be propagated gets [`DVec3::NAN`] and an entry in the returned list;
/// the others are not affected. The list is empty when all is well.
#[must_use = "satellites in this list have no position"]
pub fn positions_itrf_m(
    satellites: &[Satellite],
    utc: Utc,
    positions_itrf_m: &mut Vec<DVec3>,
) -> Vec<SatelliteFailure> {
    positions_itrf_m_with(
        satellites,
        utc,
        &EarthRotation::at(utc, DUT1_UNKNOWN_S),
        positions_itrf_m,
    )
}

/// As [`positions_itrf_m`], with the Earth's `rotation` at `utc` given by the caller.
#[must_use = "satellites in this list have no position"]
pub fn positions_itrf_m_with(
    satellites: &[Satellite],
    utc: Utc,
    rotation: &EarthRotation,
    positions_itrf_m: &mut Vec<DVec3>,
) -> Vec<SatelliteFailure> {
    let mut failures = Vec::new();
    positions_itrf_m.clear();
    let mut turn = None;
    positions_itrf_m.extend(satellites.iter().enumerate().map(|(index, satellite)| {
        match batch_position_teme_m(satellite, utc, &mut turn) {
            Ok(position_teme_m) => rotation.position_itrf_m(position_teme_m),
            Err(error) => {
                failures.push(SatelliteFailure { index, error });
                DVec3::NAN
            }
        }
    }));
    failures
}

/// As [`positions_itrf_m`] for the satellites in `some` only, to the bit; the others get [`DVec3::NAN`], as do those
/// that cannot be propagated.
///
/// # Panics
/// When `some` names a satellite that there is not.
pub fn some_positions_itrf_m(
    satellites: &[Satellite],
    utc: Utc,
    some: &[usize],
    positions_itrf_m: &mut Vec<DVec3>,
) {
    let rotation = EarthRotation::at(utc, DUT1_UNKNOWN_S);
    positions_itrf_m.clear();
    positions_itrf_m.resize(satellites.len(), DVec3::NAN);
    let mut turn = None;
    for &index in some {
        if let Ok(position_teme_m) = batch_position_teme_m(&satellites[index], utc, &mut turn) {
            positions_itrf_m[index] = rotation.position_itrf_m(position_teme_m);
        }
    }
}

/// Returns the position of one satellite of a batch. A shell's satellites rotate alike: one sine and cosine for
/// all of them, kept in `turn`.
fn batch_position_teme_m(
    satellite: &Satellite,
    utc: Utc,
    turn: &mut Option<Turn>,
) -> Result<DVec3, PropagationError> {
    match satellite {
        Satellite::Circular(orbit) => {
            let turn = match turn {
                Some(turn) if turn.is_of(orbit) => turn,
                other => other.insert(orbit.turn(utc)),
            };
            Ok(orbit.position_after_m(turn))
        }
        Satellite::Sgp4(orbit) => orbit.teme(utc).map(|state| state.position_teme_m),
    }
}
