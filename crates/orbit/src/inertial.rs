//! Inertial frames of foreign files to TEME: precession and nutation.
//!
//! The models are IAU 2006 precession and IAU 2000A nutation with the frame bias, by `sofars`, a translation of the IAU's
//! own library. TEME here is what [`crate::frames::EarthRotation`] turns into ITRF by mean sidereal time alone. Against
//! skyfield's own precession and nutation, without polar motion, a position is off by less than 1 mm in low and geostationary
//! orbits from 1996 to 2026 (`tests/notations.rs`). Effects that this crate leaves out everywhere cost more: polar motion up to 15 m,
//! and UT1 - UTC up to 420 m in ITRF, the same for all objects.

use constel_units::{TimeSpan, Utc};
use glam::{DMat3, DVec3};
use sofars::erst::gst06;
use sofars::pnp::pn06a;

use crate::scales::tt;
use crate::time::{DUT1_UNKNOWN_S, gmst_rad, julian_date};

/// Rotations are computed this far apart and interpolated: the fastest terms of nutation have periods of days,
/// and in between the rotation is off by 1e-11 rad.
const GRAIN_NS: i64 = 900_000_000_000;

/// Frames with the Earth's centre that do not rotate with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inertial {
    /// Geocentric Celestial Reference Frame, also ICRF about the Earth.
    Gcrf,
    /// Mean equator and equinox of J2000.0; 0.02 arcseconds from GCRF.
    Eme2000,
    /// Mean equator and equinox of date.
    Mod,
    /// True equator and equinox of date.
    Tod,
}

/// Turns states of one inertial frame into TEME. Keeps the rotation of the last quarter of an hour, so that states in
/// order of time are cheap.
#[derive(Debug, Clone)]
pub struct ToTeme {
    frame: Inertial,
    kept: Option<(i64, [DMat3; 2])>,
}

impl ToTeme {
    /// For states in `frame`.
    pub fn new(frame: Inertial) -> Self {
        Self { frame, kept: None }
    }

    /// Returns the position at `utc` in TEME, metres, and its velocity as the rate of that position.
    pub fn state(
        &mut self,
        utc: Utc,
        position_m: DVec3,
        velocity_m_per_s: Option<DVec3>,
    ) -> (DVec3, Option<DVec3>) {
        let number = utc.unix_ns().div_euclid(GRAIN_NS);
        let [first, second] = match self.kept {
            Some((kept, pair)) if kept == number => pair,
            _ => {
                // At the limit of 64 bits both ends are the same instant.
                let begin = Utc::from_unix_ns(number.saturating_mul(GRAIN_NS));
                let end = begin.checked_add(TimeSpan::from_ns(GRAIN_NS));
                let pair = [begin, end.unwrap_or(begin)].map(|at| to_teme(self.frame, at));
                self.kept = Some((number, pair));
                pair
            }
        };
        let part = utc.unix_ns().rem_euclid(GRAIN_NS) as f64 / GRAIN_NS as f64;
        let change = second - first;
        let rotation = first + change * part;
        let rate_per_s = change * (1e9 / GRAIN_NS as f64);
        let velocity = velocity_m_per_s.map(|v| rotation * v + rate_per_s * position_m);
        (rotation * position_m, velocity)
    }
}

/// Rotation from `frame` to TEME at `utc`.
fn to_teme(frame: Inertial, utc: Utc) -> DMat3 {
    let (tt, ut1) = (julian_date(tt(utc)), julian_date(utc));
    let (_, _, _, bias, _, _, nutation, all) = pn06a(tt.day, tt.fraction);
    let [bias, nutation, all_from_gcrf] = [bias, nutation, all].map(matrix);
    let to_tod = match frame {
        Inertial::Gcrf => all_from_gcrf,
        Inertial::Eme2000 => all_from_gcrf * bias.transpose(),
        Inertial::Mod => nutation,
        Inertial::Tod => DMat3::IDENTITY,
    };
    // From the true equinox to the mean one: the difference of apparent and mean sidereal time.
    let apparent = gst06(ut1.day, ut1.fraction, tt.day, tt.fraction, &all);
    let (sin, cos) = (apparent - gmst_rad(utc, DUT1_UNKNOWN_S)).sin_cos();
    let to_mean_equinox = DMat3::from_cols(
        DVec3::new(cos, -sin, 0.0),
        DVec3::new(sin, cos, 0.0),
        DVec3::Z,
    );
    to_mean_equinox * to_tod
}

/// SOFA's matrices are rows.
fn matrix(rows: [[f64; 3]; 3]) -> DMat3 {
    DMat3::from_cols_array_2d(&rows).transpose()
}
