//! Sorting a real element set into operational shells, planes and slots.
//!
//! A catalogue lists all objects in orbit: satellites on station, on their way up or down, and debris. The
//! caller names the shells; here every object is either placed or left out with the reason. Planes are found
//! from the right ascensions of the nodes, which are all moved to one instant by their J2 drift first: at 550
//! km and 53 deg nodes drift 4.5 deg a day, about a whole plane spacing, and element sets of one file are a day
//! apart.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use constel_units::{Angle, Length, TimeSpan, Utc};
use thiserror::Error;

use crate::EARTH_EQUATORIAL_RADIUS_M;
use crate::circular::seconds_since;
use crate::elements::ElementSet;
use crate::frames::TemeState;
use crate::propagator::{PropagationError, Satellite, brouwer_orbit};
pub use crate::shells_planes::along_plane_rad;
use crate::shells_planes::{split_into_planes, spread_and_mean};

/// Above this eccentricity an orbit is not a slot in a shell: at Starlink's height it is 70 km
/// between lowest and highest point.
pub const MAX_ECCENTRICITY: f64 = 0.005;

/// The distance of a propagated orbit from the shell's altitude that is allowed besides the tolerance: the
/// Earth's oblateness moves the osculating semi-major axis by up to 10 km within an orbit, up or down.
const SHORT_PERIOD_M: f64 = 25e3;

/// The largest number of objects of one catalogue number that a set is compared with: a file with a single
/// number stays cheap.
const MOST_COMPARED: usize = 100;

/// The rule by which the planes of a shell are separated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PlaneRule {
    /// A new plane begins wherever neighbouring nodes are more than this apart.
    Gap(Angle),
    /// This number of planes, separated at the widest gaps. Refused if the gaps do not confirm it: see
    /// [`SortError::UnclearPlanes`].
    Count(u32),
}

/// One operational shell.
#[derive(Debug, Clone, PartialEq)]
pub struct ShellSpec {
    /// Name, for messages.
    pub name: String,
    /// Mean altitude above the equatorial radius.
    pub altitude: Length,
    /// Largest distance from `altitude` of a satellite on station.
    pub altitude_tolerance: Length,
    /// Mean inclination.
    pub inclination: Angle,
    /// Largest distance from `inclination`.
    pub inclination_tolerance: Angle,
    /// The rule by which planes are separated.
    pub planes: PlaneRule,
}

/// A satellite and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// Index into the element sets given.
    pub index: usize,
    /// Index into the shells given.
    pub shell: usize,
    /// Plane in the shell, from 0, by ascending right ascension at the instant of sorting.
    pub plane: u32,
    /// Slot in the plane, from 0, by ascending `latitude_argument_rad`: slot 1 is ahead of slot 0, the last is behind
    /// slot 0.
    pub slot: u32,
    /// Right ascension of its node at that instant, rad, `0 <= raan < 2 pi`.
    pub raan_rad: f64,
    /// Angle along the orbit at that instant, rad, `0 <= u < 2 pi`, in the plane's mean frame. It counts from
    /// the node of the mean of the plane's orbits, or from the vernal equinox if that node is undefined because
    /// the mean orbit is equatorial. Each object's own node would be another zero: near the equator the nodes
    /// of one ring lie anywhere.
    pub latitude_argument_rad: f64,
    /// Mean altitude above the equatorial radius, m.
    pub altitude_m: f64,
    /// Ready to propagate.
    pub satellite: Satellite,
    /// The object's state at that instant.
    pub state: TemeState,
}

/// Why an object has no place.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum LeftOutReason {
    /// In no shell: on its way up or down, or of another constellation.
    #[error("at {altitude_km:.1} km and {inclination_deg:.2} deg it is in none of the shells")]
    NoShell {
        /// Mean altitude, km.
        altitude_km: f64,
        /// Mean inclination, deg.
        inclination_deg: f64,
    },
    /// Too far from a circle.
    #[error("eccentricity {eccentricity} is above {MAX_ECCENTRICITY}")]
    Eccentric {
        /// As given.
        eccentricity: f64,
    },
    /// The elements are too far from the instant of sorting to be believed.
    #[error("its elements are {:.1} days from the requested instant, more than {max_age}", .age.seconds() / 86_400.0)]
    Stale {
        /// Distance in time, positive.
        age: TimeSpan,
        /// The caller's bound.
        max_age: TimeSpan,
    },
    /// The set has other elements of the object that are nearer to the instant: with the same number, no other
    /// name, and another epoch (or identical elements).
    #[error("another element set of this object, at index {index}, is nearer to the instant")]
    Superseded {
        /// Index of the set that counts.
        index: usize,
    },
    /// SGP4 moves it to another altitude than its elements have, as it does with falling objects far from their epoch.
    #[error(
        "its elements are of {altitude_km:.1} km, but SGP4 has it at {propagated_km:.1} km at the requested instant"
    )]
    MovedAway {
        /// Mean altitude by the elements, km.
        altitude_km: f64,
        /// Mean altitude of the propagated state, km.
        propagated_km: f64,
    },
    /// No position at the instant of sorting.
    #[error(transparent)]
    Propagation(#[from] PropagationError),
}

impl LeftOutReason {
    /// Returns the common part of all reasons of this kind, in words that follow a number of objects.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoShell { .. } => "in none of the shells",
            Self::Eccentric { .. } => "not circular enough",
            Self::Stale { .. } => "with elements too old or too new",
            Self::Superseded { .. } => "with better elements in the same file",
            Self::MovedAway { .. } => "that SGP4 moves out of their shell",
            Self::Propagation(_) => "without a position",
        }
    }
}

/// An object without a place.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// Index into the element sets given.
    pub index: usize,
    /// Why.
    pub reason: LeftOutReason,
}

/// A plane as found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlaneFound {
    /// Mean right ascension, rad, `0 <= raan < 2 pi`.
    pub raan_rad: f64,
    /// From its first node to its last, rad.
    pub spread_rad: f64,
    /// Satellites in it.
    pub satellites: u32,
}

/// A shell as found.
#[derive(Debug, Clone, PartialEq)]
pub struct ShellFound {
    /// The shell's planes, by ascending right ascension.
    pub planes: Vec<PlaneFound>,
    /// Smallest gap between neighbouring planes' nearest nodes, rad (a turn if one plane or none).
    pub narrowest_gap_rad: f64,
    /// Largest gap between neighbouring nodes of one plane, rad.
    pub widest_inner_gap_rad: f64,
}

/// The result of [`sort`].
#[derive(Debug, Clone, PartialEq)]
pub struct Sorted {
    /// One for every requested shell, in the same order.
    pub shells: Vec<ShellFound>,
    /// Every satellite kept, by shell, plane, slot.
    pub kept: Vec<Placed>,
    /// Every object left out, by index.
    pub left_out: Vec<LeftOut>,
}

/// Why a set cannot be sorted as requested.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SortError {
    /// A shell's numbers make no sense.
    #[error("shell {shell:?}: {reason}")]
    BadShell {
        /// The shell's name.
        shell: String,
        /// The error in words.
        reason: &'static str,
    },
    /// Fewer satellites than requested planes.
    #[error(
        "shell {shell:?}: {planes} planes requested, but only {satellites} satellites are in it"
    )]
    TooFewSatellites {
        /// The shell's name.
        shell: String,
        /// The number of requested planes.
        planes: u32,
        /// Satellites found.
        satellites: u32,
    },
    /// The gaps do not show the requested planes: the last gap between two planes is not twice the widest gap
    /// inside one.
    #[error(
        "shell {shell:?}: its nodes do not fall into {planes} planes: the narrowest gap between \
         planes would be {narrowest_deg:.3} deg, the widest inside one {widest_inner_deg:.3} deg"
    )]
    UnclearPlanes {
        /// The shell's name.
        shell: String,
        /// The number of requested planes.
        planes: u32,
        /// Narrowest gap that would part two planes, deg.
        narrowest_deg: f64,
        /// Widest gap that would be inside a plane, deg.
        widest_inner_deg: f64,
    },
}

/// The reason why a set was not sorted, and the errors found before.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{}", .errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Unsorted {
    /// All errors of the requested shells; never empty.
    pub errors: Vec<SortError>,
    /// Every object left out, by index: often the true reason.
    pub left_out: Vec<LeftOut>,
}

/// Mean elements of one object, moved to the instant of sorting.
struct Mean {
    altitude_m: f64,
    inclination_deg: f64,
    raan_rad: f64,
}

/// Sorts `sets` into `shells` as they stand at `at`. An object in reach of two shells goes to the
/// one it is nearer to, measured in tolerances. Elements further than `max_age` from `at` are left
/// out.
///
/// # Errors
/// Everything wrong with the requested shells, at once.
pub fn sort(
    sets: &[ElementSet],
    shells: &[ShellSpec],
    at: Utc,
    max_age: TimeSpan,
) -> Result<Sorted, Unsorted> {
    let errors: Vec<SortError> = shells.iter().filter_map(check_shell).collect();
    if !errors.is_empty() {
        return Err(Unsorted {
            errors,
            left_out: Vec::new(),
        });
    }
    let better = superseded(sets, at);
    let mut members: Vec<Vec<Placed>> = vec![Vec::new(); shells.len()];
    let mut left_out = Vec::new();
    for (index, set) in sets.iter().enumerate() {
        match place(index, set, shells, at, max_age, better[index]) {
            Ok(placed) => members[placed.shell].push(placed),
            Err(reason) => left_out.push(LeftOut { index, reason }),
        }
    }
    let mut found = Vec::with_capacity(shells.len());
    let mut kept = Vec::with_capacity(sets.len() - left_out.len());
    let mut errors = Vec::new();
    for (spec, members) in shells.iter().zip(members) {
        match into_planes(spec, members) {
            Ok((shell, mut placed)) => {
                found.push(shell);
                kept.append(&mut placed);
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(Sorted {
            shells: found,
            kept,
            left_out,
        })
    } else {
        Err(Unsorted { errors, left_out })
    }
}

/// Returns every object of `sets` in order, with its index and ready to propagate, or left out. An object may
/// have any orbit, but needs a position at `at`, by elements that are at most `max_age` from it and the best of
/// the object in the set.
pub fn as_they_are(
    sets: &[ElementSet],
    at: Utc,
    max_age: TimeSpan,
) -> impl Iterator<Item = Result<(usize, Satellite), LeftOut>> {
    let better = superseded(sets, at).into_iter();
    sets.iter()
        .zip(better)
        .enumerate()
        .map(move |(index, (set, better))| {
            let flown = match better {
                Some(index) => Err(LeftOutReason::Superseded { index }),
                None => self::flown(set, at, max_age),
            };
            flown
                .map(|satellite| (index, satellite))
                .map_err(|reason| LeftOut { index, reason })
        })
}

/// Returns an object ready to propagate, whatever its orbit.
///
/// # Errors
/// [`LeftOutReason::Stale`] for elements farther than `max_age` from `at`, [`LeftOutReason::Propagation`] for an object
/// without a position then.
pub fn flown(set: &ElementSet, at: Utc, max_age: TimeSpan) -> Result<Satellite, LeftOutReason> {
    fresh(set, at, max_age)?;
    let satellite = Satellite::from_elements(set)?;
    satellite.teme(at)?;
    Ok(satellite)
}

/// Whether the elements are near enough to `at`.
fn fresh(set: &ElementSet, at: Utc, max_age: TimeSpan) -> Result<(), LeftOutReason> {
    let age_ns = at.unix_ns().abs_diff(set.epoch().unix_ns());
    if age_ns <= max_age.ns().max(0).unsigned_abs() {
        return Ok(());
    }
    let age = TimeSpan::from_ns(i64::try_from(age_ns).unwrap_or(i64::MAX));
    Err(LeftOutReason::Stale { age, max_age })
}

fn check_shell(spec: &ShellSpec) -> Option<SortError> {
    let reason = if spec.altitude.m() <= 0.0 {
        "its altitude must be above 0 m"
    } else if !(0.0..=180.0).contains(&spec.inclination.deg()) {
        "its inclination must lie between 0 deg and 180 deg"
    } else if spec.altitude_tolerance.m() <= 0.0 || spec.inclination_tolerance.deg() <= 0.0 {
        "its tolerances must be above zero"
    } else {
        match spec.planes {
            PlaneRule::Count(0) => "it needs at least one plane",
            PlaneRule::Gap(gap) if gap.deg() <= 0.0 || gap.deg() >= 360.0 => {
                "the gap between planes must lie between 0 deg and 360 deg"
            }
            _ => return None,
        }
    };
    Some(SortError::BadShell {
        shell: spec.name.clone(),
        reason,
    })
}

/// For every set, the index of a set of the same object that is nearer to `at` (the first of equals), if there is one.
fn superseded(sets: &[ElementSet], at: Utc) -> Vec<Option<usize>> {
    let distance = |index: usize| at.unix_ns().abs_diff(sets[index].epoch().unix_ns());
    let mut by_number: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, set) in sets.iter().enumerate() {
        if let Some(number) = set.catalogue_number() {
            by_number.entry(number).or_default().push(index);
        }
    }
    let mut better = vec![None; sets.len()];
    for mut same_number in by_number.into_values().filter(|all| all.len() > 1) {
        same_number.sort_by_key(|index| (distance(*index), *index));
        // Nearest first: a set is superseded by the first of its object that is kept.
        let mut kept: Vec<usize> = Vec::new();
        for index in same_number {
            better[index] = kept
                .iter()
                .take(MOST_COMPARED)
                .find(|best| sets[index].is_of_same_object(&sets[**best]))
                .copied();
            if better[index].is_none() {
                kept.push(index);
            }
        }
    }
    better
}

fn place(
    index: usize,
    set: &ElementSet,
    shells: &[ShellSpec],
    at: Utc,
    max_age: TimeSpan,
    better: Option<usize>,
) -> Result<Placed, LeftOutReason> {
    if let Some(index) = better {
        return Err(LeftOutReason::Superseded { index });
    }
    let eccentricity = set.elements().eccentricity;
    if eccentricity > MAX_ECCENTRICITY {
        return Err(LeftOutReason::Eccentric { eccentricity });
    }
    let mean = mean_at(set, at)?;
    let (shell, _) = shells
        .iter()
        .enumerate()
        .filter_map(|(shell, spec)| {
            let altitude = (mean.altitude_m - spec.altitude.m()) / spec.altitude_tolerance.m();
            let inclination =
                (mean.inclination_deg - spec.inclination.deg()) / spec.inclination_tolerance.deg();
            (altitude.abs() <= 1.0 && inclination.abs() <= 1.0)
                .then(|| (shell, altitude.hypot(inclination)))
        })
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .ok_or(LeftOutReason::NoShell {
            altitude_km: mean.altitude_m / 1e3,
            inclination_deg: mean.inclination_deg,
        })?;
    fresh(set, at, max_age)?;
    let satellite = Satellite::from_elements(set)?;
    let state = satellite.teme(at)?;
    let own = &shells[shell];
    let propagated_m = osculating_axis_m(&state) - EARTH_EQUATORIAL_RADIUS_M;
    let off_m = (propagated_m - own.altitude.m()).abs();
    // Written so that a semi-major axis that is not finite is off too.
    if off_m.is_nan() || off_m > own.altitude_tolerance.m() + SHORT_PERIOD_M {
        return Err(LeftOutReason::MovedAway {
            altitude_km: mean.altitude_m / 1e3,
            propagated_km: propagated_m / 1e3,
        });
    }
    Ok(Placed {
        index,
        shell,
        plane: 0,
        slot: 0,
        raan_rad: mean.raan_rad,
        latitude_argument_rad: 0.0,
        altitude_m: mean.altitude_m,
        satellite,
        state,
    })
}

/// Semi-major axis of the ellipse that a state is on at its instant, metres (the vis-viva equation, with the constants of
/// SGP4).
fn osculating_axis_m(state: &TemeState) -> f64 {
    let sgp4::Geopotential { ae, ke, .. } = sgp4::WGS72;
    let mu = ke.powi(2) * (ae * 1e3).powi(3) / 3600.0;
    let radius_m = state.position_teme_m.length();
    1.0 / (2.0 / radius_m - state.velocity_teme_m_per_s.length_squared() / mu)
}

/// Returns Brouwer mean elements (SGP4's form of the catalogue's mean motion), with the node moved to `at` by
/// the secular drift of J2.
fn mean_at(set: &ElementSet, at: Utc) -> Result<Mean, PropagationError> {
    let elements = set.elements();
    let geopotential = sgp4::WGS72;
    let orbit = brouwer_orbit(set)?;
    let axis_in_radii = (geopotential.ke / orbit.mean_motion).powf(2.0 / 3.0);
    let parameter_in_radii = axis_in_radii * (1.0 - elements.eccentricity.powi(2));
    let mean_motion_rad_per_s = orbit.mean_motion / 60.0;
    let raan_rate_rad_per_s =
        -1.5 * geopotential.j2 * mean_motion_rad_per_s * orbit.inclination.cos()
            / parameter_in_radii.powi(2);
    let moved_rad = raan_rate_rad_per_s * seconds_since(set.epoch(), at);
    Ok(Mean {
        altitude_m: axis_in_radii * geopotential.ae * 1e3 - EARTH_EQUATORIAL_RADIUS_M,
        inclination_deg: elements.inclination,
        raan_rad: one_turn(orbit.right_ascension + moved_rad),
    })
}

/// Into `0 <= angle < 2 pi`.
fn one_turn(angle_rad: f64) -> f64 {
    let turned = angle_rad.rem_euclid(TAU);
    if turned >= TAU { 0.0 } else { turned } // rem_euclid of a tiny negative number is 2 pi
}

/// Gives the members of one shell their planes and slots; returns them in that order.
fn into_planes(
    spec: &ShellSpec,
    members: Vec<Placed>,
) -> Result<(ShellFound, Vec<Placed>), SortError> {
    let raans_rad: Vec<f64> = members.iter().map(|placed| placed.raan_rad).collect();
    let split = split_into_planes(&raans_rad, spec)?;
    let mut members: Vec<Option<Placed>> = members.into_iter().map(Some).collect();
    let mut planes: Vec<(PlaneFound, Vec<Placed>)> = split
        .planes
        .iter()
        .map(|plane| {
            let placed: Vec<Placed> = plane
                .iter()
                .filter_map(|member| members[*member].take())
                .collect();
            let (spread_rad, raan_rad) = spread_and_mean(plane, &raans_rad);
            let satellites = placed.len() as u32;
            (
                PlaneFound {
                    raan_rad,
                    spread_rad,
                    satellites,
                },
                placed,
            )
        })
        .collect();
    planes.sort_by(|a, b| a.0.raan_rad.total_cmp(&b.0.raan_rad));
    let mut found = Vec::with_capacity(planes.len());
    let mut kept = Vec::with_capacity(raans_rad.len());
    for (plane, (summary, mut placed)) in planes.into_iter().enumerate() {
        let states: Vec<TemeState> = placed.iter().map(|placed| placed.state).collect();
        for (placed, angle_rad) in placed.iter_mut().zip(along_plane_rad(&states)) {
            placed.latitude_argument_rad = one_turn(angle_rad);
        }
        placed.sort_by(|a, b| {
            (a.latitude_argument_rad.total_cmp(&b.latitude_argument_rad))
                .then(a.index.cmp(&b.index))
        });
        found.push(summary);
        kept.extend(placed.into_iter().enumerate().map(|(slot, placed)| Placed {
            plane: plane as u32,
            slot: slot as u32,
            ..placed
        }));
    }
    let shell = ShellFound {
        planes: found,
        narrowest_gap_rad: split.narrowest_gap_rad,
        widest_inner_gap_rad: split.widest_inner_gap_rad,
    };
    Ok((shell, kept))
}
