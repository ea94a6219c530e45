//! Craft that fly together: where each is beside a chief becomes a state of its own.
//! The values beside the chief's circular orbit are input only: [`Relative`] states in Clohessy and Wiltshire's terms, in
//! curvilinear coordinates (distances along the orbit and across it are arcs), or [`RelativeElements`]. From lab time zero on each craft moves
//! by itself ([`crate::gravity`]), and so do the differences: Clohessy and Wiltshire's own solution would be 185 m off after
//! two orbits of a circumnavigation of 10 km.

use glam::DVec3;

use crate::EARTH_MU_M3_PER_S2;
use crate::frames::TemeState;
use crate::gravity::{energy_j_per_kg, potential_j_per_kg, propagated};

/// A circular orbit at lab time zero, and the point of it that others are beside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chief {
    /// Distance from the Earth's centre, m.
    pub radius_m: f64,
    /// Inclination, rad.
    pub inclination_rad: f64,
    /// Right ascension of the ascending node, rad.
    pub raan_rad: f64,
    /// Angle from the ascending node along the orbit, rad.
    pub latitude_argument_rad: f64,
}

/// A state beside a chief.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Relative {
    /// Higher than the chief, m.
    pub radial_m: f64,
    /// Ahead of it, along the chief's orbit, m.
    pub along_m: f64,
    /// To the side of the orbit's angular momentum, m.
    pub cross_m: f64,
    /// Rate of `radial_m`, m/s.
    pub radial_m_per_s: f64,
    /// Rate of `along_m`, m/s; `None`: the rate at which the craft does not drift along the orbit.
    pub along_m_per_s: Option<f64>,
    /// Rate of `cross_m`, m/s.
    pub cross_m_per_s: f64,
}

/// Quasi-nonsingular relative orbital elements times the chief's semi-major axis (D'Amico, Autonomous Formation Flying in Low
/// Earth Orbit, 2010, section 2.2), m.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RelativeElements {
    /// Difference of semi-major axes.
    pub a_m: f64,
    /// Mean difference along the orbit.
    pub lambda_m: f64,
    /// Relative eccentricity vector, towards the node.
    pub ex_m: f64,
    /// Relative eccentricity, the part a quarter of an orbit on.
    pub ey_m: f64,
    /// Relative inclination.
    pub ix_m: f64,
    /// Relative node times the sine of the inclination.
    pub iy_m: f64,
}

impl Chief {
    /// Returns the chief's state in TEME, with the speed of a circular orbit of that radius without the Earth's
    /// flattening.
    #[must_use]
    pub fn state(&self) -> TemeState {
        let [outward, forward, _] = self.axes();
        TemeState {
            position_teme_m: outward * self.radius_m,
            velocity_teme_m_per_s: forward * (self.mean_motion_rad_per_s() * self.radius_m),
        }
    }

    /// `sqrt(mu / r^3)`, rad/s.
    #[must_use]
    pub fn mean_motion_rad_per_s(&self) -> f64 {
        (EARTH_MU_M3_PER_S2 / self.radius_m.powi(3)).sqrt()
    }

    /// Unit vectors outward, forward, and along the angular momentum.
    fn axes(&self) -> [DVec3; 3] {
        let (sin_u, cos_u) = self.latitude_argument_rad.sin_cos();
        let (sin_o, cos_o) = self.raan_rad.sin_cos();
        let (sin_i, cos_i) = self.inclination_rad.sin_cos();
        let at = |x: f64, y: f64| {
            DVec3::new(
                cos_o * x - sin_o * y * cos_i,
                sin_o * x + cos_o * y * cos_i,
                y * sin_i,
            )
        };
        let (outward, forward) = (at(cos_u, sin_u), at(-sin_u, cos_u));
        [outward, forward, outward.cross(forward)]
    }

    /// The state that the chief has when it is `ahead_m` further on its way: a craft there follows it on the same path.
    #[must_use]
    pub fn on_its_way(&self, ahead_m: f64) -> TemeState {
        let speed_m_per_s = self.mean_motion_rad_per_s() * self.radius_m;
        propagated(&self.state(), ahead_m / speed_m_per_s)
    }

    /// Returns a craft relative to it.
    #[must_use]
    pub fn beside(&self, relative: &Relative) -> TemeState {
        let n = self.mean_motion_rad_per_s();
        let drifts = relative.along_m_per_s.is_some();
        let along_m_per_s = relative
            .along_m_per_s
            .unwrap_or(-2.0 * n * relative.radial_m);
        let state = self.curvilinear(relative, along_m_per_s);
        if drifts {
            return state;
        }
        at_energy(state, energy_j_per_kg(&self.state()))
    }

    /// Returns a craft with these elements. Equal `a_m` means equal energies, flattening included, so that
    /// craft with equal axes do not separate for that reason.
    #[must_use]
    pub fn with_elements(&self, e: &RelativeElements) -> TemeState {
        let n = self.mean_motion_rad_per_s();
        let (sin_u, cos_u) = self.latitude_argument_rad.sin_cos();
        // First order in distance over radius (D'Amico, eq. 2.17).
        let relative = Relative {
            radial_m: e.a_m - e.ex_m * cos_u - e.ey_m * sin_u,
            along_m: e.lambda_m + 2.0 * (e.ex_m * sin_u - e.ey_m * cos_u),
            cross_m: e.ix_m * sin_u - e.iy_m * cos_u,
            radial_m_per_s: n * (e.ex_m * sin_u - e.ey_m * cos_u),
            along_m_per_s: None,
            cross_m_per_s: n * (e.ix_m * cos_u + e.iy_m * sin_u),
        };
        let along_m_per_s = n * (-1.5 * e.a_m + 2.0 * (e.ex_m * cos_u + e.ey_m * sin_u));
        let state = self.curvilinear(&relative, along_m_per_s);
        let axes = [self.radius_m, self.radius_m + e.a_m];
        let [own, other] = axes.map(|a| -EARTH_MU_M3_PER_S2 / (2.0 * a));
        at_energy(state, energy_j_per_kg(&self.state()) + other - own)
    }

    fn curvilinear(&self, relative: &Relative, along_m_per_s: f64) -> TemeState {
        let [outward, forward, normal] = self.axes();
        let radius = self.radius_m;
        let (sin_t, cos_t) = (relative.along_m / radius).sin_cos();
        let (sin_p, cos_p) = (relative.cross_m / radius).sin_cos();
        let r = radius + relative.radial_m;
        let in_plane = outward * cos_t + forward * sin_t;
        let east = forward * cos_t - outward * sin_t;
        let up = in_plane * cos_p + normal * sin_p;
        let north = normal * cos_p - in_plane * sin_p;
        let turn = self.mean_motion_rad_per_s() + along_m_per_s / radius;
        TemeState {
            position_teme_m: up * r,
            velocity_teme_m_per_s: up * relative.radial_m_per_s
                + east * (r * cos_p * turn)
                + north * (r * relative.cross_m_per_s / radius),
        }
    }
}

/// Returns a state with the same place and direction, and the speed that the energy requires.
fn at_energy(state: TemeState, energy_j_per_kg: f64) -> TemeState {
    let speed2 = 2.0 * (energy_j_per_kg + potential_j_per_kg(state.position_teme_m));
    let speed = state.velocity_teme_m_per_s.length();
    TemeState {
        velocity_teme_m_per_s: state.velocity_teme_m_per_s * (speed2.max(0.0).sqrt() / speed),
        ..state
    }
}

/// Craft in train, `spacing_m` apart, the first at the chief and the others behind it on the same path.
#[must_use]
pub fn string_of_pearls(chief: &Chief, craft: u32, spacing_m: f64) -> Vec<TemeState> {
    let place = |n| chief.on_its_way(-f64::from(n) * spacing_m);
    (0..craft).map(place).collect()
}

/// Returns the states of a circumnavigation: the first craft at the chief, the others evenly around it on a
/// circle of radius `radius_m` that turns once per orbit (the general circular orbit: Alfriend et al.,
/// Spacecraft Formation Flying, 2010, section 5.2).
#[must_use]
pub fn circumnavigation(chief: &Chief, craft: u32, radius_m: f64) -> Vec<TemeState> {
    let around = craft.saturating_sub(1);
    let place = |n: u32| {
        let angle = std::f64::consts::TAU * f64::from(n) / f64::from(around);
        let (sin, cos) = angle.sin_cos();
        let tilt = 0.75_f64.sqrt() * radius_m;
        chief.with_elements(&RelativeElements {
            ex_m: 0.5 * radius_m * cos,
            ey_m: 0.5 * radius_m * sin,
            // Across the orbit in phase with the height: at any time as high as `cross = sqrt(3) radial`.
            ix_m: -tilt * sin,
            iy_m: tilt * cos,
            ..RelativeElements::default()
        })
    };
    let chief_itself = (craft > 0).then(|| chief.state());
    chief_itself
        .into_iter()
        .chain((0..around).map(place))
        .collect()
}

/// Returns four craft at the corners of a regular tetrahedron of edge `edge_m` at lab time zero (and nearly so
/// once per orbit), none of which drifts away.
#[must_use]
pub fn tetrahedron(chief: &Chief, edge_m: f64) -> Vec<TemeState> {
    let half = 0.5 * edge_m;
    let n = chief.mean_motion_rad_per_s();
    // Two in train below; two above, side by side, which rise and sink against each other so that they never meet
    // where their planes cross.
    let high = edge_m / 2.0_f64.sqrt();
    let low = |along_m: f64| Relative {
        along_m,
        ..Relative::default()
    };
    let up = |side: f64| Relative {
        radial_m: high,
        cross_m: side * half,
        radial_m_per_s: side * half * n,
        ..Relative::default()
    };
    [low(half), low(-half), up(1.0), up(-1.0)]
        .iter()
        .map(|relative| chief.beside(relative))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chief() -> Chief {
        Chief {
            radius_m: 6_878_137.0,
            inclination_rad: 97.4_f64.to_radians(),
            raan_rad: 0.3,
            latitude_argument_rad: 0.7,
        }
    }

    fn period_s() -> f64 {
        std::f64::consts::TAU / chief().mean_motion_rad_per_s()
    }

    /// Ranges of all pairs, m.
    fn ranges(craft: &[TemeState], after_s: f64) -> Vec<f64> {
        let at: Vec<DVec3> = craft
            .iter()
            .map(|c| propagated(c, after_s).position_teme_m)
            .collect();
        let pairs = (0..at.len()).flat_map(|a| (a + 1..at.len()).map(move |b| (a, b)));
        pairs.map(|(a, b)| at[a].distance(at[b])).collect()
    }

    #[test]
    fn pearls_keep_their_string() {
        let pearls = string_of_pearls(&chief(), 6, 10e3);
        for orbits in [0.0, 2.0, 15.0] {
            let ranges = ranges(&pearls, orbits * period_s());
            let next = [0, 5, 9, 12, 14].map(|pair: usize| ranges[pair]);
            for range in next {
                assert!((range - 10e3).abs() < 30.0, "{orbits}: {range}");
            }
        }
    }

    #[test]
    fn those_around_stay_around() {
        let craft = circumnavigation(&chief(), 5, 1e3);
        for quarters in 0..8 {
            let ranges = ranges(&craft, f64::from(quarters) * period_s() / 4.0);
            for range in &ranges[..4] {
                assert!((range - 1e3).abs() < 60.0, "{quarters}: {range}");
            }
            // Between neighbours of four on a circle: the root of two.
            assert!((ranges[4] - 1414.0).abs() < 90.0, "{ranges:?}");
        }
    }

    #[test]
    fn a_tetrahedron_is_regular_and_nobody_meets() {
        let craft = tetrahedron(&chief(), 10e3);
        for range in ranges(&craft, 0.0) {
            assert!((range - 10e3).abs() < 15.0, "{range}");
        }
        for step in 0..100 {
            let ranges = ranges(&craft, period_s() * f64::from(step) / 50.0);
            for range in ranges {
                assert!((3e3..45e3).contains(&range), "{step}: {range}");
            }
        }
    }

    #[test]
    fn what_is_not_said_of_speed_does_not_drift() {
        let still = Relative {
            radial_m: 500.0,
            along_m: 5e3,
            ..Relative::default()
        };
        let drifting = Relative {
            along_m_per_s: Some(0.0),
            ..still
        };
        let apart = |relative| {
            let both = [chief().state(), chief().beside(relative)];
            ranges(&both, 5.0 * period_s())[0]
        };
        assert!((apart(&still) - 5e3).abs() < 200.0, "{}", apart(&still));
        // An orbit 2 km higher on average falls 3 pi times that behind each time round.
        assert!(apart(&drifting) > 50e3, "{}", apart(&drifting));
    }

    #[test]
    fn elements_and_states_are_the_same() {
        let ring = RelativeElements {
            ex_m: 500.0,
            ..RelativeElements::default()
        };
        let mut at_node = chief();
        at_node.latitude_argument_rad = 0.0;
        let below = Relative {
            radial_m: -500.0,
            ..Relative::default()
        };
        let (a, b) = (at_node.with_elements(&ring), at_node.beside(&below));
        assert!((a.position_teme_m - b.position_teme_m).length() < 1e-6);
        assert!((a.velocity_teme_m_per_s - b.velocity_teme_m_per_s).length() < 1e-3);
    }
}
