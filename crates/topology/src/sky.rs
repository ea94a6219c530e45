//! Where satellites are: the door between orbits and topology.

/// Gives positions of all satellites at any time of the lab. Must be a pure function of `t_ns`.
pub trait Sky: Send + Sync {
    /// How many satellites it knows; the same order and number as the spec's satellites, constellation by
    /// constellation.
    fn count(&self) -> usize;

    /// Fills `out` (of length [`count`](Sky::count)) with ITRF positions in metres, `t_ns` after the start
    /// of the lab.
    ///
    /// # Errors
    /// When a position cannot be computed (an orbit that has decayed, a time outside an ephemeris).
    fn positions_itrf_m(&self, t_ns: u64, out: &mut [[f64; 3]]) -> Result<(), SkyError>;
}

/// A satellite has no position at the time asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no position for satellite number {satellite} at {} s: {reason}", *.t_ns as f64 / 1e9)]
pub struct SkyError {
    /// Place of the satellite in the sky's order.
    pub satellite: usize,
    /// The time asked for, nanoseconds after the start of the lab.
    pub t_ns: u64,
    /// What the propagator said.
    pub reason: String,
}
