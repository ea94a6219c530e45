//! Positions of all nodes over an interval.

use constel_orbit::DVec3;
use constel_plan::Lab;

use crate::interval::Interval;

/// Positions that may be held in memory: 24 bytes each.
pub const MAX_POSITIONS: u64 = 50_000_000;

/// Positions of all nodes at every sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Positions {
    /// The sampled interval.
    pub interval: Interval,
    /// By sample, then by node: ITRF, metres. Not finite for a satellite whose orbit has no position then.
    pub itrf_m: Vec<[f64; 3]>,
}

/// There are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{nodes} nodes at {samples} samples are more than {MAX_POSITIONS} positions; sample less often"
)]
pub struct TooManyPositions {
    /// Nodes.
    pub nodes: usize,
    /// Samples.
    pub samples: u64,
}

impl Positions {
    /// Samples `interval` with up to `threads` threads; their number does not change the result. Links are not
    /// computed, so a sample costs the orbits only, unless a station moves.
    ///
    /// # Errors
    /// [`TooManyPositions`].
    pub fn new(lab: &Lab, interval: Interval, threads: usize) -> Result<Self, TooManyPositions> {
        let (nodes, samples) = (lab.layout.nodes().len(), interval.samples());
        if samples.saturating_mul(nodes as u64) > MAX_POSITIONS {
            return Err(TooManyPositions { nodes, samples });
        }
        let satellites = lab.layout.satellite_count();
        let mut itrf_m = vec![[f64::NAN; 3]; nodes * samples as usize];
        let stations = &lab.layout.spec().stations;
        if stations.iter().any(|station| !station.track.is_empty()) {
            // Moving stations are placed step by step only.
            interval.visit(lab, |sample, snapshot| {
                put(
                    &mut itrf_m[sample as usize * nodes..],
                    &snapshot.positions_itrf_m,
                );
            });
            return Ok(Self { interval, itrf_m });
        }
        let first = lab.stepper().at_step(interval.from_ns() / lab.step_ns());
        let ground = &first.positions_itrf_m[satellites..];
        let each = (samples as usize).div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let mut first = 0;
            for part in itrf_m.chunks_mut((nodes * each).max(1)) {
                scope.spawn(move || fill(lab, &interval, first, ground, part));
                first += each as u64;
            }
        });
        Ok(Self { interval, itrf_m })
    }
}

/// The samples from `first` on, as many as there is room for.
fn fill(lab: &Lab, interval: &Interval, first: u64, ground: &[DVec3], part: &mut [[f64; 3]]) {
    let mut satellites = Vec::new();
    for (sample, row) in (first..).zip(part.chunks_mut(lab.layout.nodes().len())) {
        // A satellite without a position is NaN, as documented above.
        let _lost = lab
            .sky
            .positions_itrf_m(interval.at(sample), &mut satellites);
        put(row, &satellites);
        put(&mut row[satellites.len()..], ground);
    }
}

fn put(places: &mut [[f64; 3]], positions: &[DVec3]) {
    for (place, position) in places.iter_mut().zip(positions) {
        *place = position.to_array();
    }
}
