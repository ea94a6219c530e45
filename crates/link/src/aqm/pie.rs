//! Proportional Integral controller Enhanced, RFC 8033 appendix A, with the delay measured by time stamps: the delay of
//! the last frame taken, or 0 if no frame waits.

use super::Verdict;
use crate::discipline::PieParams;
use crate::rng::Rng;
use crate::types::Nanos;

/// Gains, per second.
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// The RFC's MEAN_PKTSIZE.
const MEAN_FRAME_BYTES: u64 = 1500;
/// Below this probability frames are marked instead of dropped (section 5.1).
const MARK_BELOW: f64 = 0.1;

#[derive(Clone, Debug)]
pub(super) struct Pie {
    ratio: f64,
    /// Sum of the probabilities since the last drop. It spaces drops apart (section 5.4).
    accumulated: f64,
    delay_ns: Nanos,
    old_delay_ns: Nanos,
    burst_ns: Nanos,
    next_update_ns: Nanos,
}

impl Pie {
    pub(super) fn new(params: &PieParams, now: Nanos) -> Pie {
        Pie {
            ratio: 0.0,
            accumulated: 0.0,
            delay_ns: 0,
            old_delay_ns: 0,
            burst_ns: params.burst_ns,
            next_update_ns: now.saturating_add(params.update_ns),
        }
    }

    pub(super) fn arrival(
        &mut self,
        params: &PieParams,
        waiting_bytes: u64,
        room: bool,
        rng: &mut Rng,
    ) -> Verdict {
        // The RFC resets the accumulator on a tail drop. The caller drops the frame itself, so the verdict is
        // irrelevant.
        if !room {
            self.accumulated = 0.0;
            return Verdict::Take;
        }
        if self.burst_ns == 0 && self.drops(params, waiting_bytes, rng) {
            self.accumulated = 0.0;
            return if params.ecn && self.ratio < MARK_BELOW {
                Verdict::Mark
            } else {
                Verdict::Drop
            };
        }
        // RFC 8033, section 4.4: when congestion has ended, the next burst is allowed again.
        let short = |delay_ns| delay_ns < params.target_ns / 2;
        if self.ratio == 0.0 && short(self.delay_ns) && short(self.old_delay_ns) {
            self.burst_ns = params.burst_ns;
        }
        Verdict::Take
    }

    /// The RFC's `drop_early`.
    fn drops(&mut self, params: &PieParams, waiting_bytes: u64, rng: &mut Rng) -> bool {
        // Section 4.1's safeguards: no early drops at a low delay and probability, or if at most two frames wait.
        let calm = self.old_delay_ns < params.target_ns / 2 && self.ratio < 0.2;
        if calm || waiting_bytes <= 2 * MEAN_FRAME_BYTES {
            return false;
        }
        if self.ratio == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.ratio;
        // De-randomization (section 5.4): no drop before the sum reaches 0.85, and always one from 8.5 on.
        if self.accumulated < 0.85 {
            return false;
        }
        self.accumulated >= 8.5 || rng.chance(self.ratio)
    }

    /// Records the delay of the frame that arrived at `arrived_ns` and is taken at `now`. `empty`: no other frame
    /// waits.
    pub(super) fn departure(&mut self, now: Nanos, arrived_ns: Option<Nanos>, empty: bool) {
        let waited = arrived_ns.map_or(0, |arrived| now.saturating_sub(arrived));
        self.delay_ns = if empty { 0 } else { waited };
    }

    /// Runs all updates up to `now`, inclusive.
    pub(super) fn tick(&mut self, params: &PieParams, now: Nanos) {
        while self.next_update_ns <= now {
            let settled = self.ratio == 0.0
                && self.delay_ns == 0
                && self.old_delay_ns == 0
                && self.burst_ns == 0;
            if settled {
                // The state cannot change before the next arrival, so the missed updates need no loop.
                let missed = (now - self.next_update_ns) / params.update_ns + 1;
                self.next_update_ns += missed * params.update_ns;
                return;
            }
            self.update(params);
            self.next_update_ns = self.next_update_ns.saturating_add(params.update_ns);
        }
    }

    /// The RFC's `calculate_drop_prob`.
    fn update(&mut self, params: &PieParams) {
        let seconds = |ns: Nanos| ns as f64 / 1e9;
        let (delay, old) = (seconds(self.delay_ns), seconds(self.old_delay_ns));
        // Equation of section 4.2: p += alpha * (delay - target) + beta * (delay - old delay).
        let mut step = ALPHA * (delay - seconds(params.target_ns)) + BETA * (delay - old);
        // The steps are scaled down while the probability is small (section 4.2).
        step /= match self.ratio {
            r if r < 0.000_001 => 2048.0,
            r if r < 0.000_01 => 512.0,
            r if r < 0.000_1 => 128.0,
            r if r < 0.001 => 32.0,
            r if r < 0.01 => 8.0,
            r if r < 0.1 => 2.0,
            _ => 1.0,
        };
        if self.ratio >= 0.1 {
            // Section 5.5: at a high probability one step is at most 2 %, so that the controller does not overshoot.
            step = step.min(0.02);
        }
        self.ratio += step;
        let short = |delay_ns| delay_ns < params.target_ns / 2;
        if short(self.delay_ns) && short(self.old_delay_ns) {
            // Exponential decay while there is no congestion.
            self.ratio *= 0.98;
        }
        self.ratio = self.ratio.clamp(0.0, 1.0);
        self.burst_ns = self.burst_ns.saturating_sub(params.update_ns);
        self.old_delay_ns = self.delay_ns;
    }
}
