//! Positions of satellites: element sets, propagation, frames and visibility.
//!
//! Pure: no clock, no files, no network. Time comes in as [`constel_units::Utc`].
//!
//! # Frames
//! - **TEME** (true equator, mean equinox): the inertial-like frame of SGP4. Walker satellites use it too; see
//!   [`walker`].
//! - **ITRF**: fixed to the rotating Earth. Polar motion is left out (it moves a point by less
//!   than 15 m, a light time of 50 ns).
//!
//! Names carry the frame and the unit: `position_itrf_m`, `velocity_teme_m_per_s`.
//!
//! # Map
//! - [`time`]: Julian dates and sidereal time. [`scales`]: other time scales to UTC. [`frames`]: TEME to ITRF.
//!   [`inertial`]: GCRF, EME2000, MOD and TOD to TEME.
//! - [`geodesy`]: WGS84, the view of an observer. [`visibility`]: line of sight, light time.
//! - [`circular`], [`walker`]: designed constellations. [`tle`], [`omm`]: real ones. [`FileKind`]: what a file
//!   is, by its beginning.
//! - [`formation`]: craft in formation; [`gravity`]: their motion.
//! - [`propagator`]: one [`Satellite`] for both, alone and in batches.
//! - [`shells`]: sorting a real set into shells, planes and slots.
//!
//! ```
//! use constel_orbit::{Walker, WalkerKind, WalkerSpec, light_time_ns, line_of_sight};
//!
//! // Iridium as designed: 66 satellites in 6 planes, half a turn apart.
//! let epoch = "2026-11-22T00:00:00Z".parse()?;
//! let walker = Walker::new(WalkerSpec {
//!     kind: WalkerKind::Star,
//!     inclination: "86.4 deg".parse()?,
//!     satellites: 66,
//!     planes: 6,
//!     phasing: 2,
//!     altitude: "780 km".parse()?,
//!     raan0: "0 deg".parse()?,
//!     plane_spacing: None,
//!     epoch,
//! })
//! .unwrap();
//! let [one, next] = [0, 1].map(|slot| walker.orbit(0, slot).unwrap().position_teme_m(epoch));
//! assert!(line_of_sight(one, next, 80_000.0), "neighbours in a plane see each other");
//! let range_m = (one - next).length();
//! assert!((range_m / 1e3 - 4_033.0).abs() < 1.0, "{range_m}");
//! assert_eq!(light_time_ns(299_792.458), 1_000_000);
//! # Ok::<(), constel_units::UnitError>(())
//! ```

#![forbid(unsafe_code)]

pub mod circular;
pub mod elements;
mod file_kind;
pub mod formation;
pub mod frames;
pub mod geodesy;
pub mod gravity;
pub mod inertial;
pub mod omm;
pub mod propagator;
pub mod scales;
pub mod shells;
mod shells_planes;
pub mod sun;
pub mod time;
pub mod tle;
mod tle_fields;
pub mod visibility;
pub mod walker;

pub use circular::CircularOrbit;
pub use elements::{ElementFile, ElementSet, RecordError, RecordErrors};
pub use file_kind::FileKind;
pub use frames::{EarthRotation, ItrfState, TemeState};
pub use geodesy::{Geodetic, LookAngles, Site};
pub use glam::DVec3;
pub use propagator::{
    PropagationError, Satellite, SatelliteFailure, Sgp4Orbit, positions_itrf_m,
    positions_itrf_m_with, some_positions_itrf_m,
};
pub use visibility::{grazing_altitude_m, light_time_ns, line_of_sight};
pub use walker::{Walker, WalkerError, WalkerKind, WalkerSatellite, WalkerSpec};

/// Earth's gravitational parameter, m^3/s^2 (WGS84 / EGM96; used for Walker orbits).
pub const EARTH_MU_M3_PER_S2: f64 = 3.986_004_418e14;
/// Earth's equatorial radius, m (WGS84).
pub const EARTH_EQUATORIAL_RADIUS_M: f64 = 6_378_137.0;
/// Second zonal harmonic, unnormalised (EGM96; used for Walker orbits).
pub const EARTH_J2: f64 = 1.082_626_68e-3;
