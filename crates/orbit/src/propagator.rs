//! One satellite, whatever moves it; and many at once.

use constel_units::Utc;
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
    /// The orbit has come down: nearer to the centre than the equatorial radius.
    #[error("has decayed {minutes:.1} min from epoch: {radius_km:.1} km from the Earth's centre")]
    Decayed {
        /// Minutes from the elements' epoch, of either sign.
        minutes: f64,
        /// Distance from the Earth's centre, km.
        radius_km: f64,
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
}

/// Orbits of 225 minutes and more are deep space's.
const DEEP_SPACE_RAD_PER_MIN: f64 = std::f64::consts::TAU / 225.0;

/// The share of the semi-major axis by which a position may exceed the apogee. SGP4 is a power series in time:
/// far from the epoch of a falling object it gives positions far outside the orbit of the elements, without an
/// error. A position beyond this limit is therefore rejected. Short-period terms move it by less than 0.5 %,
/// and drag by a few per cent in the weeks for which SGP4 is accurate.
const MOST_BEYOND_APOGEE: f64 = 0.08;

/// First instant after the epoch at which an orbit is looked at for decay, minutes, and how much later the next is.
const FIRST_LOOK_MIN: f64 = 720.0;
const NEXT_LOOK: f64 = 1.5;
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
    /// Farthest from the Earth's centre that the orbit of the elements may reach, km.
    farthest_km: f64,
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
            farthest_km: axis_km * (1.0 + orbit.eccentricity + MOST_BEYOND_APOGEE),
            down_min: f64::INFINITY,
        };
        // Deep-space orbits are integrated step by step, and hardly feel drag.
        if orbit.mean_motion > DEEP_SPACE_RAD_PER_MIN {
            own.down_min = own.first_down();
        }
        Ok(own)
    }

    /// Returns when the orbit comes down, minutes from the epoch. After that the series gives positions again,
    /// at times near the old orbit, but never before half of that time has passed again: samples at that
    /// distance find every such time.
    fn first_down(&self) -> f64 {
        let (mut up, mut look) = (0.0, FIRST_LOOK_MIN);
        while look <= LAST_LOOK_MIN {
            if self.teme_at_minutes(look).is_err() {
                let mut down = look;
                while down - up > 1.0 {
                    let middle = f64::midpoint(up, down);
                    match self.teme_at_minutes(middle) {
                        Ok(_) => up = middle,
                        Err(_) => down = middle,
                    }
                }
                return down;
            }
            (up, look) = (look, look * NEXT_LOOK);
        }
        f64::INFINITY
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
        // The report's code has this check (its error 6); the sgp4 crate leaves it to its caller.
        if radius_km < sgp4::WGS72.ae {
            return Err(PropagationError::Decayed { minutes, radius_km });
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
