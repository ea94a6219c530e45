//! Positions of satellites: the interface between orbits and topology.

use constel_orbit::sun::sun_itrf_m;
use constel_orbit::{DVec3, Satellite, positions_itrf_m, some_positions_itrf_m};
use constel_units::{TimeSpan, Utc};

/// Gives positions of all satellites at any time of the lab. Must be a pure function of `t_ns`.
pub trait Sky: Send + Sync {
    /// How many satellites it knows; the same order and number as the spec's satellites, constellation by
    /// constellation.
    fn count(&self) -> usize;

    /// Fills `out` (cleared first) with [`count`](Sky::count) ITRF positions in metres, `t_ns` after the start
    /// of the lab. A satellite without a position gets [`DVec3::NAN`] and an entry in the list returned; it
    /// has no links then.
    #[must_use = "satellites in this list have no position"]
    fn positions_itrf_m(&self, t_ns: u64, out: &mut Vec<DVec3>) -> Vec<NoPosition>;

    /// As [`positions_itrf_m`](Self::positions_itrf_m), but only the satellites in `some`, in rising order, are
    /// needed: the others may get [`DVec3::NAN`], and satellites without a position are not reported. The
    /// result for a satellite does not depend on which others are requested.
    fn some_positions_itrf_m(&self, t_ns: u64, some: &[usize], out: &mut Vec<DVec3>) {
        let _ = some;
        drop(self.positions_itrf_m(t_ns, out));
    }

    /// Whether the satellite has no position at some time between two at which it has one, nanoseconds after
    /// the start of the lab: a hole in the given positions. Computed positions have no holes.
    fn is_interrupted(&self, satellite: usize, from_ns: u64, to_ns: u64) -> bool {
        let _ = (satellite, from_ns, to_ns);
        false
    }

    /// Returns the position of the Sun, ITRF metres; `None`: the sky has no Sun and no shadow.
    fn sun_itrf_m(&self, t_ns: u64) -> Option<DVec3> {
        let _ = t_ns;
        None
    }
}

/// A satellite has no position at the requested time (an orbit that has decayed, elements that diverge).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no position for satellite number {satellite} at {} s: {reason}", *.t_ns as f64 / 1e9)]
pub struct NoPosition {
    /// Place of the satellite in the sky's order; its node number.
    pub satellite: usize,
    /// The requested time, nanoseconds after the start of the lab.
    pub t_ns: u64,
    /// The propagator's error.
    pub reason: String,
}

/// The sky of [`constel_orbit`]'s satellites.
#[derive(Debug, Clone)]
pub struct OrbitSky {
    start: Utc,
    satellites: Vec<Satellite>,
}

impl OrbitSky {
    /// Satellites of all constellations, in the spec's order; the lab starts at `start`.
    #[must_use]
    pub fn new(start: Utc, satellites: Vec<Satellite>) -> OrbitSky {
        OrbitSky { start, satellites }
    }

    /// Returns the time in the sky `t_ns` after the start of the lab.
    #[must_use]
    pub fn utc_at(&self, t_ns: u64) -> Utc {
        // A lab's time is far below 292 years.
        self.start + TimeSpan::from_ns(t_ns as i64)
    }
}

impl Sky for OrbitSky {
    fn count(&self) -> usize {
        self.satellites.len()
    }

    fn positions_itrf_m(&self, t_ns: u64, out: &mut Vec<DVec3>) -> Vec<NoPosition> {
        positions_itrf_m(&self.satellites, self.utc_at(t_ns), out)
            .into_iter()
            .map(|f| NoPosition {
                satellite: f.index,
                t_ns,
                reason: f.error.to_string(),
            })
            .collect()
    }

    fn some_positions_itrf_m(&self, t_ns: u64, some: &[usize], out: &mut Vec<DVec3>) {
        some_positions_itrf_m(&self.satellites, self.utc_at(t_ns), some, out);
    }

    fn sun_itrf_m(&self, t_ns: u64) -> Option<DVec3> {
        Some(sun_itrf_m(self.utc_at(t_ns)))
    }
}
