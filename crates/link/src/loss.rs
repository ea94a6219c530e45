//! Loss laws beyond independent loss, one decision per frame in the order of service.
//!
//! Order of draws: [`LossLaw::GilbertElliott`] draws the loss with the present state's ratio, then the transition.
//! [`LossLaw::FourState`] draws the transition, and the new state decides. The laws without randomness draw nothing.
//! Every life of an edge starts in the good state with frame number 1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// Law by which an edge loses frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LossLaw {
    /// No frame is lost.
    None,
    /// Each frame is lost independently.
    Bernoulli {
        /// Probability of losing a frame, 0 to 1.
        loss_ratio: f64,
    },
    /// Each bit is wrong independently, and a frame with any wrong bit is lost. Longer frames are lost more often.
    BitErrors {
        /// Probability that a bit is wrong, 0 to 1.
        bit_error_ratio: f64,
    },
    /// Two states with a loss ratio each (Gilbert 1960, Elliott 1963).
    GilbertElliott {
        /// Probability of going from good to bad after a frame.
        good_to_bad: f64,
        /// Probability of going from bad to good after a frame.
        bad_to_good: f64,
        /// Probability of losing a frame in the good state.
        loss_good: f64,
        /// Probability of losing a frame in the bad state.
        loss_bad: f64,
    },
    /// Four states (Salsano, Ludovici, Ordine 2009): 1 received in a gap, 2 received in a burst,
    /// 3 lost in a burst, 4 lost alone. State 4 always goes back to 1.
    FourState {
        /// Transition from gap to burst.
        p13: f64,
        /// Transition from burst back to the gap.
        p31: f64,
        /// Transition from lost to received, within the burst.
        p32: f64,
        /// Transition from received to lost, within the burst.
        p23: f64,
        /// Transition to a single loss within the gap.
        p14: f64,
    },
    /// The last `burst` frames of every `every` frames are lost.
    Periodic {
        /// Length of the period in frames, at least 1.
        every: u64,
        /// Frames lost per period, 1 to `every`.
        burst: u64,
    },
    /// Exactly these frames are lost, counted from 1. Ranges include both ends, rise, and do not touch.
    Pattern {
        /// First and last frame of each range.
        frames: Vec<(u64, u64)>,
    },
    /// A recording, one entry per frame (true: lost), repeated from its start at its end.
    Trace {
        /// At least one entry.
        lost: Vec<bool>,
    },
}

impl LossLaw {
    /// Adds all errors in the law's values.
    pub(crate) fn check(&self, errors: &mut Vec<String>) {
        let mut ratio = |name: &str, value: f64| {
            let sound = (0.0..=1.0).contains(&value);
            if !sound {
                errors.push(format!("{name} {value} is not within 0..=1"));
            }
            sound
        };
        match *self {
            LossLaw::None => {}
            LossLaw::Bernoulli { loss_ratio } => {
                ratio("loss ratio", loss_ratio);
            }
            LossLaw::BitErrors { bit_error_ratio } => {
                ratio("bit error ratio", bit_error_ratio);
            }
            LossLaw::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_good,
                loss_bad,
            } => {
                ratio("good_to_bad", good_to_bad);
                ratio("bad_to_good", bad_to_good);
                ratio("loss_good", loss_good);
                ratio("loss_bad", loss_bad);
            }
            LossLaw::FourState {
                p13,
                p31,
                p32,
                p23,
                p14,
            } => {
                let sound = [
                    ratio("p13", p13),
                    ratio("p31", p31),
                    ratio("p32", p32),
                    ratio("p23", p23),
                    ratio("p14", p14),
                ];
                // The sums are probabilities of leaving a state, so they must not exceed 1 either. The check runs
                // only if the terms are valid, to report each error once.
                if sound.iter().all(|s| *s) {
                    ratio("p13 + p14", p13 + p14);
                    ratio("p31 + p32", p31 + p32);
                }
            }
            LossLaw::Periodic { every, burst } => {
                if burst == 0 || burst > every {
                    errors.push(format!("periodic loss of {burst} in {every} frames"));
                }
            }
            LossLaw::Pattern { ref frames } => {
                let mut before = 0;
                for &(first, last) in frames {
                    if first <= before || last < first {
                        errors.push(format!(
                            "loss pattern {first}-{last}: frames count from 1, ranges must rise \
                             and not touch the range before"
                        ));
                    }
                    before = before.max(last);
                }
            }
            LossLaw::Trace { ref lost } => {
                if lost.is_empty() {
                    errors.push("a loss trace needs at least one frame".into());
                }
            }
        }
    }
}

/// State of a law.
#[derive(Clone, Debug)]
pub(crate) struct LossState {
    rng: Rng,
    /// Gilbert-Elliott: 0 good, 1 bad. Four-state: 1 to 4; the initial 0 counts as 1.
    state: u8,
    /// Frames decided so far.
    count: u64,
    /// Pattern: first range that has not passed. Trace: next entry.
    at: usize,
}

impl LossState {
    pub(crate) fn new(rng: Rng) -> LossState {
        LossState {
            rng,
            state: 0,
            count: 0,
            at: 0,
        }
    }

    /// Decides whether the next frame, of `len_bytes`, is lost.
    pub(crate) fn next(&mut self, law: &LossLaw, len_bytes: u32) -> bool {
        self.count += 1;
        match *law {
            LossLaw::None => false,
            // Independent of all other frames, so there is no state.
            LossLaw::Bernoulli { loss_ratio } => self.rng.chance(loss_ratio),
            LossLaw::BitErrors { bit_error_ratio } => {
                self.rng.chance(frame_errors(bit_error_ratio, len_bytes))
            }
            LossLaw::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_good,
                loss_bad,
            } => {
                let (loss, leave) = if self.state == 0 {
                    (loss_good, good_to_bad)
                } else {
                    (loss_bad, bad_to_good)
                };
                // The loss is drawn before the transition, so the state changes between two frames. Each frame takes
                // two draws, whatever its fate.
                let lost = self.rng.chance(loss);
                if self.rng.chance(leave) {
                    self.state ^= 1;
                }
                lost
            }
            LossLaw::FourState {
                p13,
                p31,
                p32,
                p23,
                p14,
            } => {
                let u = self.rng.unit();
                // States 3 and 4 are the lost ones. One uniform number chooses among the transitions of the present
                // state.
                self.state = match self.state {
                    2 if u < p23 => 3,
                    2 => 2,
                    3 if u < p31 => 1,
                    3 if u < p31 + p32 => 2,
                    3 => 3,
                    4 => 1,
                    _ if u < p13 => 3,
                    _ if u < p13 + p14 => 4,
                    _ => 1,
                };
                self.state >= 3
            }
            // The count is at least 1 here. The lost frames are at the end of each period.
            LossLaw::Periodic { every, burst } => (self.count - 1) % every >= every - burst,
            LossLaw::Pattern { ref frames } => {
                // The ranges rise, so the position only moves forward and each frame costs constant time on average.
                while frames
                    .get(self.at)
                    .is_some_and(|&(_, last)| last < self.count)
                {
                    self.at += 1;
                }
                frames
                    .get(self.at)
                    .is_some_and(|&(first, _)| first <= self.count)
            }
            LossLaw::Trace { ref lost } => {
                let now = lost[self.at];
                // A trace repeats from its beginning.
                self.at = (self.at + 1) % lost.len();
                now
            }
        }
    }
}

/// Returns the probability that a frame of `len_bytes` has a wrong bit, if bits are wrong independently.
fn frame_errors(bit_error_ratio: f64, len_bytes: u32) -> f64 {
    let bits = 8.0 * f64::from(len_bytes);
    // 1 - (1 - p)^n, computed so that small p keep their digits.
    -(bits * (-bit_error_ratio).ln_1p()).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_errors_lose_long_frames_more_often_than_short_ones() {
        let law = LossLaw::BitErrors {
            bit_error_ratio: 1e-5,
        };
        for (len_bytes, expected) in [(64, 0.005_107), (1_514, 0.114_073)] {
            assert!((frame_errors(1e-5, len_bytes) - expected).abs() < 1e-6);
            let mut state = LossState::new(Rng::for_edge(19, 0, 1, 0));
            let frames = 200_000;
            let lost = (0..frames).filter(|_| state.next(&law, len_bytes)).count() as f64;
            let mean = expected * f64::from(frames);
            let sigma = (mean * (1.0 - expected)).sqrt();
            assert!(
                (lost - mean).abs() < 3.5 * sigma,
                "{lost} of {mean} +- {sigma}"
            );
        }
        assert_eq!(frame_errors(1.0, 64), 1.0);
        assert_eq!(frame_errors(0.0, 64), 0.0);
    }

    fn run(law: &LossLaw, seed: u64, n: usize) -> Vec<bool> {
        let mut state = LossState::new(Rng::for_edge(seed, 0, 1, 0));
        (0..n).map(|_| state.next(law, 1_000)).collect()
    }

    /// Lengths of the runs of `what`, without the first and the last run.
    fn runs(sequence: &[bool], what: bool) -> Vec<usize> {
        let mut all: Vec<(bool, usize)> = Vec::new();
        for &x in sequence {
            match all.last_mut() {
                Some((y, n)) if *y == x => *n += 1,
                _ => all.push((x, 1)),
            }
        }
        let inner = &all[1..all.len() - 1];
        inner
            .iter()
            .filter(|(x, _)| *x == what)
            .map(|&(_, n)| n)
            .collect()
    }

    /// Pearson's statistic of run lengths 1.. against `p(length)`, cells of at least 20 expected,
    /// the rest together; must stay below the 0.999 quantile (Wilson-Hilferty).
    fn chi_square(what: &str, runs: &[usize], p: impl Fn(usize) -> f64) {
        let n = runs.len() as f64;
        let (mut stat, mut cells, mut rest, mut seen) = (0.0, 0, 1.0, 0);
        for length in 1.. {
            let expected = n * p(length);
            if expected < 20.0 || n * (rest - p(length)) < 20.0 {
                break;
            }
            let got = runs.iter().filter(|&&r| r == length).count();
            stat += (got as f64 - expected).powi(2) / expected;
            seen += got;
            rest -= p(length);
            cells += 1;
        }
        let tail = runs.len() - seen;
        stat += (tail as f64 - n * rest).powi(2) / (n * rest);
        let k = f64::from(cells);
        assert!(cells >= 3, "too few cells to say anything");
        let limit = k * (1.0 - 2.0 / (9.0 * k) + 3.0902 * (2.0 / (9.0 * k)).sqrt()).powi(3);
        let text = format!("{what}: chi-square {stat:.1} over {cells} degrees of freedom");
        println!("{text} ({n} runs; 0.999 quantile {limit:.1})");
        assert!(stat < limit, "{text}: over {limit}");
    }

    #[test]
    fn gilbert_has_geometric_bursts_and_gaps() {
        let law = LossLaw::GilbertElliott {
            good_to_bad: 0.02,
            bad_to_good: 0.25,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        let sequence = run(&law, 5, 1_000_000);
        chi_square("Gilbert, bursts", &runs(&sequence, true), |l| {
            0.25 * 0.75f64.powi(l as i32 - 1)
        });
        chi_square("Gilbert, gaps", &runs(&sequence, false), |l| {
            0.02 * 0.98f64.powi(l as i32 - 1)
        });
    }

    #[test]
    fn elliott_has_its_loss_ratio_and_burst_lengths() {
        let (p, r, g, b) = (0.05, 0.2, 0.01, 0.6);
        let law = LossLaw::GilbertElliott {
            good_to_bad: p,
            bad_to_good: r,
            loss_good: g,
            loss_bad: b,
        };
        let sequence = run(&law, 6, 1_000_000);
        let (good, bad) = (r / (p + r), p / (p + r));
        let mean = good * g + bad * b;
        let ratio = sequence.iter().filter(|l| **l).count() as f64 / 1e6;
        // Correlated draws: the variance of the mean is larger by (1 + rho) / (1 - rho).
        let rho = 1.0 - p - r;
        let sd = (mean * (1.0 - mean) / 1e6 * (1.0 + rho) / (1.0 - rho)).sqrt();
        println!(
            "Gilbert-Elliott: {ratio} lost of 1,000,000 for {mean}, standard deviation {sd:.6}"
        );
        assert!((ratio - mean).abs() < 4.0 * sd, "{ratio} for {mean}");
        // Burst lengths by the hidden chain: v after a received frame then a lost one.
        let move_on = |v: [f64; 2]| [v[0] * (1.0 - p) + v[1] * r, v[0] * p + v[1] * (1.0 - r)];
        let start = move_on([good * (1.0 - g), bad * (1.0 - b)]);
        let first = [start[0] * g, start[1] * b];
        let total = first[0] + first[1];
        chi_square(
            "Gilbert-Elliott, bursts",
            &runs(&sequence, true),
            |length| {
                let mut v = first.map(|x| x / total);
                for _ in 1..length {
                    let next = move_on(v);
                    v = [next[0] * g, next[1] * b];
                }
                let next = move_on(v);
                next[0] * (1.0 - g) + next[1] * (1.0 - b)
            },
        );
    }

    #[test]
    fn four_states_have_their_bursts_and_gaps() {
        let (p13, p31, p32, p23, p14) = (0.03, 0.2, 0.3, 0.5, 0.01);
        let law = LossLaw::FourState {
            p13,
            p31,
            p32,
            p23,
            p14,
        };
        let sequence = run(&law, 7, 1_000_000);
        // A burst of losses begins from 1 (by 3 or 4) or from 2 (by 3); the stationary chain says
        // how often.
        let pi3_of_1 = p13 / p31;
        let pi2_of_1 = pi3_of_1 * p32 / p23;
        let (to3, to4) = (p13 + pi2_of_1 * p23, p14);
        let alone = to4 / (to3 + to4);
        let stay = 1.0 - p31 - p32;
        chi_square("four states, bursts", &runs(&sequence, true), |l| {
            let burst = (1.0 - alone) * (1.0 - stay) * stay.powi(l as i32 - 1);
            burst + if l == 1 { alone } else { 0.0 }
        });
        // A gap begins in 1 (after 4, or by p31) or in 2 (by p32).
        let in1 = alone + (1.0 - alone) * p31 / (p31 + p32);
        let out1 = p13 + p14;
        chi_square("four states, gaps", &runs(&sequence, false), |l| {
            let l = l as i32 - 1;
            in1 * out1 * (1.0 - out1).powi(l) + (1.0 - in1) * p23 * (1.0 - p23).powi(l)
        });
    }

    #[test]
    fn bernoulli_keeps_its_binomial_interval() {
        for ratio in [1e-4, 1e-3, 0.01, 0.3] {
            let n = 1_000_000;
            let lost = run(&LossLaw::Bernoulli { loss_ratio: ratio }, 8, n);
            let hits = lost.iter().filter(|l| **l).count() as f64;
            let (mean, sd) = (n as f64 * ratio, (n as f64 * ratio * (1.0 - ratio)).sqrt());
            let off = (hits - mean) / sd;
            println!("Bernoulli {ratio}: {hits} of {n} lost, {off:+.2} standard deviations");
            assert!(off.abs() < 4.0, "{ratio}: {hits}");
        }
    }

    #[test]
    fn laws_without_chance_are_exact() {
        let at = |law: &LossLaw, n| -> Vec<usize> {
            let sequence = run(law, 1, n);
            (1..=n).filter(|i| sequence[i - 1]).collect()
        };
        let pattern = |frames| LossLaw::Pattern { frames };
        assert_eq!(at(&pattern(vec![(17, 17)]), 40), [17]);
        assert_eq!(
            at(&pattern(vec![(1, 2), (5, 5), (7, 8)]), 40),
            [1, 2, 5, 7, 8]
        );
        assert_eq!(
            at(&LossLaw::Periodic { every: 5, burst: 2 }, 12),
            [4, 5, 9, 10]
        );
        assert_eq!(at(&LossLaw::Periodic { every: 1, burst: 1 }, 3), [1, 2, 3]);
        let lost = vec![false, true, true];
        assert_eq!(at(&LossLaw::Trace { lost }, 7), [2, 3, 5, 6]);
        assert_eq!(at(&LossLaw::None, 7), [0usize; 0]);
    }

    #[test]
    fn same_seed_same_sequence() {
        let law = LossLaw::GilbertElliott {
            good_to_bad: 0.1,
            bad_to_good: 0.3,
            loss_good: 0.01,
            loss_bad: 0.5,
        };
        assert_eq!(run(&law, 1, 10_000), run(&law, 1, 10_000));
        assert_ne!(run(&law, 1, 10_000), run(&law, 2, 10_000));
    }

    #[test]
    fn bad_values_are_all_named() {
        let wrong = |law: LossLaw| {
            let mut errors = Vec::new();
            law.check(&mut errors);
            errors.len()
        };
        let ge = |good_to_bad, loss_bad| LossLaw::GilbertElliott {
            good_to_bad,
            bad_to_good: 1.0,
            loss_good: 0.0,
            loss_bad,
        };
        assert_eq!(wrong(ge(0.0, 1.0)), 0);
        assert_eq!(wrong(ge(-0.1, f64::NAN)), 2);
        let four = |p13, p14| LossLaw::FourState {
            p13,
            p31: 0.5,
            p32: 0.5,
            p23: 0.0,
            p14,
        };
        assert_eq!(wrong(four(0.5, 0.5)), 0);
        assert_eq!(wrong(four(0.6, 0.5)), 1, "more than certain");
        assert_eq!(wrong(LossLaw::Periodic { every: 3, burst: 4 }), 1);
        assert_eq!(wrong(LossLaw::Periodic { every: 0, burst: 0 }), 1);
        let pattern = |frames| LossLaw::Pattern { frames };
        assert_eq!(wrong(pattern(vec![(1, 2), (3, 3)])), 0);
        assert_eq!(wrong(pattern(vec![(0, 1)])), 1);
        assert_eq!(wrong(pattern(vec![(2, 1)])), 1);
        assert_eq!(wrong(pattern(vec![(1, 5), (5, 6)])), 1);
        assert_eq!(wrong(LossLaw::Trace { lost: vec![] }), 1);
    }
}
