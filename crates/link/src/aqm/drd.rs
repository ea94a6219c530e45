//! NIST Net's Derivative Random Drop: the decision depends only on the present queue, without memory.

use super::Verdict;
use crate::rng::Rng;

/// Maximum drop probability: even above the upper threshold some frames pass.
const MOST: f64 = 0.95;

/// Decides about a frame that finds `waiting` frames in the queue. Thresholds are (min, max), in frames.
pub(super) fn arrival((min, max): (u64, u64), ecn: bool, waiting: u64, rng: &mut Rng) -> Verdict {
    if waiting <= min {
        return Verdict::Take;
    }
    // `Discipline::check` has refused thresholds with min >= max, so the divisor is positive.
    let ramp = (waiting - min) as f64 / (max - min) as f64;
    match rng.chance(MOST * ramp.min(1.0)) {
        true if ecn && waiting < max => Verdict::Mark,
        true => Verdict::Drop,
        false => Verdict::Take,
    }
}
