//! TEME to ITRF: one rotation about the pole by Greenwich mean sidereal time.

use constel_units::Utc;
use glam::DVec3;

use crate::time::{GMST_RATE_RAD_PER_S, gmst_rad};

/// Position and velocity in TEME.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TemeState {
    /// Position, m.
    pub position_teme_m: DVec3,
    /// Velocity, m/s.
    pub velocity_teme_m_per_s: DVec3,
}

/// Position and velocity in ITRF; the velocity is relative to the rotating Earth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ItrfState {
    /// Position, m.
    pub position_itrf_m: DVec3,
    /// Velocity relative to the rotating Earth, m/s: the rate of `position_itrf_m`.
    pub velocity_itrf_m_per_s: DVec3,
}

/// The Earth's rotation at one instant: make it once per instant and use it for every satellite.
/// Polar motion and length-of-day variations are left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EarthRotation {
    sin: f64,
    cos: f64,
}

impl EarthRotation {
    /// The rotation at `utc`; `dut1_s` is UT1 - UTC in seconds
    /// ([`crate::time::DUT1_UNKNOWN_S`] if not known).
    pub fn at(utc: Utc, dut1_s: f64) -> Self {
        let (sin, cos) = gmst_rad(utc, dut1_s).sin_cos();
        Self { sin, cos }
    }

    /// A position in TEME to ITRF, m.
    pub fn position_itrf_m(&self, position_teme_m: DVec3) -> DVec3 {
        let DVec3 { x, y, z } = position_teme_m;
        DVec3::new(self.cos * x + self.sin * y, self.cos * y - self.sin * x, z)
    }

    /// A position in ITRF to TEME, m.
    pub fn position_teme_m(&self, position_itrf_m: DVec3) -> DVec3 {
        let DVec3 { x, y, z } = position_itrf_m;
        DVec3::new(self.cos * x - self.sin * y, self.cos * y + self.sin * x, z)
    }

    /// A state in TEME to ITRF.
    pub fn state_itrf(&self, state: &TemeState) -> ItrfState {
        let position_itrf_m = self.position_itrf_m(state.position_teme_m);
        let earth_rate = DVec3::new(0.0, 0.0, GMST_RATE_RAD_PER_S);
        ItrfState {
            position_itrf_m,
            velocity_itrf_m_per_s: self.position_itrf_m(state.velocity_teme_m_per_s)
                - earth_rate.cross(position_itrf_m),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_units::TimeSpan;

    #[test]
    fn a_point_fixed_in_teme_moves_west_in_itrf() {
        let at: Utc = "2022-09-14T00:00:00Z".parse().unwrap();
        let state = TemeState {
            position_teme_m: DVec3::new(7.0e6, -1.0e6, 2.0e6),
            velocity_teme_m_per_s: DVec3::ZERO,
        };
        let position = |span_ns| {
            EarthRotation::at(at + TimeSpan::from_ns(span_ns), 0.0)
                .position_itrf_m(state.position_teme_m)
        };
        let measured = (position(500_000_000) - position(-500_000_000)) / 1.0;
        let claimed = EarthRotation::at(at, 0.0)
            .state_itrf(&state)
            .velocity_itrf_m_per_s;
        assert!((measured - claimed).length() < 1e-5, "{measured} {claimed}");
        assert!((claimed.length() - 7.0711e6 * 7.2921e-5).abs() < 0.1);
    }

    #[test]
    fn there_and_back() {
        let rotation = EarthRotation::at("2022-09-14T07:00:00Z".parse().unwrap(), -0.01);
        let point = DVec3::new(1.0e6, 2.0e6, -3.0e6);
        let back = rotation.position_teme_m(rotation.position_itrf_m(point));
        assert!((back - point).length() < 1e-8);
    }
}
