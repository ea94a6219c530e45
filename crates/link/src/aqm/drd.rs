//! NIST Net's Derivative Random Drop: by the queue of this moment, without memory.

use super::Verdict;
use crate::rng::Rng;

/// Even above the upper threshold some frames pass.
const MOST: f64 = 0.95;

/// What becomes of a frame that finds so many waiting; thresholds as (min, max), in frames.
pub(super) fn arrival((min, max): (u64, u64), ecn: bool, waiting: u64, rng: &mut Rng) -> Verdict {
    if waiting <= min {
        return Verdict::Take;
    }
    let ramp = (waiting - min) as f64 / (max - min) as f64;
    match rng.chance(MOST * ramp.min(1.0)) {
        true if ecn && waiting < max => Verdict::Mark,
        true => Verdict::Drop,
        false => Verdict::Take,
    }
}
