//! Walker constellations `i:T/P/F`: T satellites in P planes, phased by F (J. G. Walker,
//! "Satellite constellations", J. British Interplanetary Society 37, 1984).
//!
//! The ascending nodes hold in the true-of-date-like equatorial frame that is treated as TEME: its
//! x axis is what right ascension is counted from, its z axis the Earth's pole. For a designed
//! constellation the node of plane 0 is a free choice, so nothing is lost by naming it there.

use constel_units::{Angle, Length, Utc};
use thiserror::Error;

use crate::circular::CircularOrbit;

/// More satellites than any design has; a bound so that a slip of the pen cannot eat the memory.
pub const MAX_SATELLITES: u32 = 1_000_000;

/// How the ascending nodes are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkerKind {
    /// Over half a turn: planes 180 deg / P apart; first and last plane counter-rotate side by
    /// side, at the seam.
    Star,
    /// Over a whole turn: planes 360 deg / P apart.
    Delta,
}

/// A Walker constellation as written by its designer; [`Walker::new`] checks it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WalkerSpec {
    /// Star or delta.
    pub kind: WalkerKind,
    /// Inclination of every plane, 0 to 180 deg.
    pub inclination: Angle,
    /// T: satellites altogether.
    pub satellites: u32,
    /// P: planes; divides T.
    pub planes: u32,
    /// F: phasing, 0 <= F < P; each plane is ahead of the one before by F * 360 deg / T.
    pub phasing: u32,
    /// Height above the equatorial radius.
    pub altitude: Length,
    /// Right ascension of plane 0's ascending node at `epoch`.
    pub raan0: Angle,
    /// From one plane's ascending node to the next, where it is not an even share of the turn or half turn: Iridium's are
    /// 31.6 deg apart, which leaves 22 deg at the seam. All planes together take less than a turn.
    pub plane_spacing: Option<Angle>,
    /// When the nodes and slots hold.
    pub epoch: Utc,
}

/// The error of a [`WalkerSpec`].
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum WalkerError {
    /// T = 0.
    #[error("a Walker constellation needs at least one satellite (T = 0)")]
    NoSatellites,
    /// T beyond [`MAX_SATELLITES`].
    #[error("T = {satellites} satellites is more than the {MAX_SATELLITES} taken")]
    TooManySatellites {
        /// T as given.
        satellites: u32,
    },
    /// P = 0.
    #[error("a Walker constellation needs at least one plane (P = 0)")]
    NoPlanes,
    /// P does not divide T.
    #[error("P = {planes} planes do not divide T = {satellites} satellites evenly{}", near_hint(*.satellites, *.planes))]
    UnevenPlanes {
        /// T as given.
        satellites: u32,
        /// P as given.
        planes: u32,
    },
    /// F not below P.
    #[error("phasing F = {phasing} must be less than P = {planes} planes")]
    Phasing {
        /// F as given.
        phasing: u32,
        /// P as given.
        planes: u32,
    },
    /// Altitude not above the ground.
    #[error("altitude {altitude} must be above 0 m")]
    Altitude {
        /// As given.
        altitude: Length,
    },
    /// Planes more than once round, or on top of each other.
    #[error(
        "planes {spacing} apart do not fit: {planes} of them must take more than 0 deg and less than 360 deg"
    )]
    PlaneSpacing {
        /// As given.
        spacing: Angle,
        /// P as given.
        planes: u32,
    },
    /// Inclination out of 0..=180 deg.
    #[error("inclination {inclination} must lie between 0 deg and 180 deg")]
    Inclination {
        /// As given.
        inclination: Angle,
    },
}

/// "; nearest that do: ..." for a P that does not divide T.
fn near_hint(satellites: u32, planes: u32) -> String {
    let divides = |candidate: &u32| satellites.is_multiple_of(*candidate);
    let below = (1..planes.min(satellites)).rev().find(divides);
    let above = (planes.saturating_add(1)..=satellites).find(divides);
    match (below, above) {
        (Some(below), Some(above)) => format!("; the nearest that do are {below} and {above}"),
        (Some(only), None) | (None, Some(only)) => format!("; the nearest that does is {only}"),
        (None, None) => String::new(),
    }
}

/// A checked Walker constellation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Walker {
    spec: WalkerSpec,
}

/// One satellite of a [`Walker`] constellation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WalkerSatellite {
    /// Plane, `0 <= plane < P`, in order of ascending node, eastwards.
    pub plane: u32,
    /// Slot in the plane, `0 <= slot < T / P`, in order of motion: slot 1 is ahead of slot 0.
    pub slot: u32,
    /// Its orbit.
    pub orbit: CircularOrbit,
}

impl Walker {
    /// Checks `spec`.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once.
    pub fn new(spec: WalkerSpec) -> Result<Self, Vec<WalkerError>> {
        let WalkerSpec {
            satellites,
            planes,
            phasing,
            altitude,
            inclination,
            plane_spacing,
            ..
        } = spec;
        let mut errors = Vec::new();
        if satellites == 0 {
            errors.push(WalkerError::NoSatellites);
        }
        if satellites > MAX_SATELLITES {
            errors.push(WalkerError::TooManySatellites { satellites });
        }
        if planes == 0 {
            errors.push(WalkerError::NoPlanes);
        } else {
            if satellites > 0 && !satellites.is_multiple_of(planes) {
                errors.push(WalkerError::UnevenPlanes { satellites, planes });
            }
            if phasing >= planes {
                errors.push(WalkerError::Phasing { phasing, planes });
            }
        }
        if altitude.m() <= 0.0 {
            errors.push(WalkerError::Altitude { altitude });
        }
        if let Some(spacing) = plane_spacing
            && !(spacing.deg() > 0.0 && spacing.deg() * f64::from(planes.saturating_sub(1)) < 360.0)
        {
            errors.push(WalkerError::PlaneSpacing { spacing, planes });
        }
        if !(0.0..=180.0).contains(&inclination.deg()) {
            errors.push(WalkerError::Inclination { inclination });
        }
        if errors.is_empty() {
            Ok(Self { spec })
        } else {
            Err(errors)
        }
    }

    /// The constellation as written.
    pub fn spec(&self) -> &WalkerSpec {
        &self.spec
    }

    /// Satellites in each plane, T / P.
    pub fn slots(&self) -> u32 {
        self.spec.satellites / self.spec.planes
    }

    /// The orbit of one satellite, or `None` if there is no such plane or slot.
    pub fn orbit(&self, plane: u32, slot: u32) -> Option<CircularOrbit> {
        let spec = &self.spec;
        if plane >= spec.planes || slot >= self.slots() {
            return None;
        }
        let spread_deg = match spec.kind {
            WalkerKind::Star => 180.0,
            WalkerKind::Delta => 360.0,
        };
        let from_first_deg = match spec.plane_spacing {
            Some(spacing) => spacing.deg() * f64::from(plane),
            None => spread_deg * f64::from(plane) / f64::from(spec.planes),
        };
        let raan_deg = spec.raan0.deg() + from_first_deg;
        // Both terms over the common denominator T: slot * 360 P/T + plane * F * 360/T. In whole
        // numbers modulo T first, so that equal positions come out equal to the bit.
        let (t, p) = (u64::from(spec.satellites), u64::from(spec.planes));
        let steps = (u64::from(slot) * p + u64::from(plane) * u64::from(spec.phasing)) % t;
        Some(CircularOrbit::new(
            spec.epoch,
            spec.altitude.m(),
            spec.inclination.rad(),
            raan_deg.to_radians(),
            (360.0 * steps as f64 / t as f64).to_radians(),
        ))
    }

    /// Every satellite, by plane, then slot.
    pub fn satellites(&self) -> Vec<WalkerSatellite> {
        (0..self.spec.planes)
            .flat_map(|plane| (0..self.slots()).map(move |slot| (plane, slot)))
            .filter_map(|(plane, slot)| {
                self.orbit(plane, slot)
                    .map(|orbit| WalkerSatellite { plane, slot, orbit })
            })
            .collect()
    }
}
