//! Jitter laws: random additions to an edge's delay, frame by frame.
//!
//! Correlation is in time, not per frame, and does not change the distribution. An Ornstein-Uhlenbeck process (normal,
//! deviation 1, correlation `2^(-dt / half_life)`) is mapped through the law's quantile function. Blending uniform
//! numbers, as netem does, would change the distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rng::Rng;
use crate::types::Nanos;

/// Tail index of the Pareto laws. Mean and deviation of the standard law follow from it.
const SHAPE: f64 = 3.0;
const PARETO_MEAN: f64 = 1.5;
/// sqrt(3 / 4).
const PARETO_SD: f64 = 0.866_025_403_784_438_6;
/// Weights of the Pareto-normal mix.
const MIX_NORMAL: f64 = 0.25;
const MIX_PARETO: f64 = 0.75;
/// Solution of `(1 + d) exp(-d) = 1/2`, where the left side is the correlation of a smooth process.
const HALVES: f64 = 1.678_346_990_016_661;
/// Factor by which a smooth process is slowed down. Its speed exceeds five deviations once in millions of draws; at
/// this factor the addition then still falls no faster than time passes, so that frames stay in order.
const SLOWER: f64 = 5.0;
/// Deviation of the mix: sqrt(0.25^2 + 0.75^2).
const MIX_SD: f64 = 0.790_569_415_042_094_8;

/// Distribution of the addition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JitterLaw {
    /// Uniform within `-half_width_ns..=half_width_ns`.
    Uniform {
        /// Half of the interval.
        half_width_ns: u64,
    },
    /// Normal around 0.
    Normal {
        /// Standard deviation.
        sd_ns: u64,
    },
    /// Pareto with tail index 3, shifted to mean 0.
    Pareto {
        /// Standard deviation.
        sd_ns: u64,
    },
    /// A quarter normal and three quarters Pareto, of independent numbers.
    ParetoNormal {
        /// Standard deviation.
        sd_ns: u64,
    },
    /// Measured quantiles at equal steps of probability, the first at 0 and the last at 1. Values in between are
    /// interpolated linearly.
    Table {
        /// At least two values in rising order.
        quantiles_ns: Vec<i64>,
    },
    /// A recording over time, repeated from its start at its end. No random numbers are drawn.
    Trace {
        /// Time from one value to the next, at least 1.
        interval_ns: u64,
        /// At least one value.
        extra_ns: Vec<i64>,
        /// Instant of the first value.
        origin_ns: Nanos,
    },
}

/// Behaviour when a frame's delay would make it arrive before one that was sent earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Hash)]
#[serde(rename_all = "snake_case")]
pub enum JitterOrder {
    /// The frame arrives together with the earlier one. The delay is then the running maximum of the law over the
    /// frames in flight: the more frames a second, the larger its mean and the smaller its spread.
    #[default]
    Hold,
    /// The frame overtakes, as with NIST Net and netem: each frame has its delay by the law, and the order of frames
    /// changes.
    Overtake,
    /// Reordering does not occur: the addition follows the law at every instant and changes so smoothly that frames
    /// stay in order. Mean and spread are those of the law, whatever the traffic. The correlation time is the
    /// half-life, or longer if keeping the order requires it.
    Smooth,
}

/// A jitter law and its correlation time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Distribution. The sum of delay and addition is never below 0.
    pub law: JitterLaw,
    /// Time in which the correlation halves. 0: frames are independent.
    #[serde(default)]
    pub half_life_ns: u64,
    /// Whether frames may overtake each other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub order: JitterOrder,
}

fn is_default(order: &JitterOrder) -> bool {
    *order == JitterOrder::default()
}

impl Jitter {
    /// Returns jitter without correlation between frames, or of a recording, in the default order.
    #[must_use]
    pub fn of(law: JitterLaw) -> Jitter {
        Jitter {
            law,
            half_life_ns: 0,
            order: JitterOrder::default(),
        }
    }

    /// Returns the smallest addition, nanoseconds. Laws with a normal part have no bound: the result is two deviations
    /// below the mean, and one below that of the mix. If the delay plus this value is negative, the law is cut off at 0
    /// and its mean changes; for unbounded laws the mean then moves by more than a hundredth of the deviation.
    #[must_use]
    pub fn least_ns(&self) -> i64 {
        let share = |deviations: f64, sd_ns: u64| round(-deviations * sd_ns as f64);
        // The Pareto law's smallest value is its quantile at 0.
        let pareto_least = -pareto(0.0);
        match &self.law {
            JitterLaw::Uniform { half_width_ns } => share(1.0, *half_width_ns),
            JitterLaw::Normal { sd_ns } => share(2.0, *sd_ns),
            JitterLaw::Pareto { sd_ns } => share(pareto_least, *sd_ns),
            JitterLaw::ParetoNormal { sd_ns } => share(1.0, *sd_ns),
            JitterLaw::Table { quantiles_ns } => quantiles_ns.first().copied().unwrap_or(0),
            JitterLaw::Trace { extra_ns, .. } => extra_ns.iter().min().copied().unwrap_or(0),
        }
    }

    /// Checks that the jitter is not too large for a delay: frames cannot arrive before they were sent.
    ///
    /// # Errors
    /// A message with both values.
    pub fn fits(&self, delay_ns: u64) -> Result<(), String> {
        let least_ns = self.least_ns();
        if i128::from(delay_ns) + i128::from(least_ns) >= 0 {
            return Ok(());
        }
        let ms = |ns: f64| ns / 1e6;
        Err(format!(
            "jitter takes up to {} ms off a delay of {} ms: delays would be cut off at 0, and their mean would not be what is set",
            ms(-(least_ns as f64)),
            ms(delay_ns as f64)
        ))
    }

    /// Returns the time in which the correlation halves. For smooth jitter it is long enough for frames to keep their
    /// order.
    fn half_life(&self) -> u64 {
        match self.order {
            JitterOrder::Hold | JitterOrder::Overtake => self.half_life_ns,
            JitterOrder::Smooth => self
                .half_life_ns
                // The delay may not fall faster than time passes, or frames would overtake each other. The slower the
                // process, the flatter its delays.
                .max((HALVES * SLOWER * self.steepest_ns()) as u64),
        }
    }

    /// Returns the largest change of the addition, ns, per deviation that the underlying process moves. For laws with
    /// an unbounded tail the bound holds for all but one frame in some hundred.
    fn steepest_ns(&self) -> f64 {
        /// Density of the normal law at 0.
        const PEAK: f64 = 0.398_942_280_401_432_7;
        match &self.law {
            // d(quantile)/dz of the uniform law is its width times the normal density, which is largest at 0.
            JitterLaw::Uniform { half_width_ns } => 2.0 * PEAK * *half_width_ns as f64,
            JitterLaw::Normal { sd_ns } => *sd_ns as f64,
            JitterLaw::Pareto { sd_ns } | JitterLaw::ParetoNormal { sd_ns } => 8.0 * *sd_ns as f64,
            JitterLaw::Table { quantiles_ns } => {
                let steps = quantiles_ns
                    .windows(2)
                    .map(|two| two[1].saturating_sub(two[0]));
                let steepest = steps.max().unwrap_or(0) as f64;
                // The quantile function of a table is piecewise linear over the probability, with this largest slope.
                PEAK * steepest * (quantiles_ns.len() - 1) as f64
            }
            JitterLaw::Trace { .. } => 0.0,
        }
    }

    pub(crate) fn check(&self, errors: &mut Vec<String>) {
        match &self.law {
            JitterLaw::Table { quantiles_ns }
                if quantiles_ns.len() < 2 || !quantiles_ns.is_sorted() =>
            {
                errors.push("a jitter table needs two or more values that do not fall".into());
            }
            JitterLaw::Trace {
                interval_ns,
                extra_ns,
                ..
            } => {
                if *interval_ns == 0 || extra_ns.is_empty() {
                    errors.push("a jitter trace needs an interval and at least one value".into());
                }
                if self.half_life_ns != 0 {
                    errors.push("a jitter trace has its own correlation: no half-life".into());
                }
                if self.order == JitterOrder::Smooth {
                    errors.push("a jitter trace is what was recorded: it is not smoothed".into());
                }
            }
            _ => {}
        }
    }
}

/// State of a law.
#[derive(Clone, Debug)]
pub(crate) struct JitterState {
    rng: Rng,
    /// The processes behind the law, and the instant of their values.
    z: Option<(Nanos, [Process; 2])>,
}

/// A stationary Gaussian process of deviation 1.
#[derive(Clone, Copy, Debug)]
struct Process {
    value: f64,
    /// Speed, in deviations of the speed; 0 for a rough process.
    speed: f64,
}

impl JitterState {
    pub(crate) fn new(rng: Rng) -> JitterState {
        JitterState { rng, z: None }
    }

    /// Returns the addition to the delay of a frame served at `t`.
    pub(crate) fn extra_ns(&mut self, jitter: &Jitter, t: Nanos) -> i64 {
        let half_life = Memory {
            half_life_ns: jitter.half_life(),
            smooth: jitter.order == JitterOrder::Smooth,
        };
        match &jitter.law {
            JitterLaw::Uniform { half_width_ns } => {
                // From 0..1 to -1..1: all laws have mean 0, so that jitter does not change the mean delay.
                round((2.0 * self.uniform(half_life, t) - 1.0) * *half_width_ns as f64)
            }
            JitterLaw::Normal { sd_ns } => round(self.normal(half_life, t, 0) * *sd_ns as f64),
            JitterLaw::Pareto { sd_ns } => {
                round(pareto(self.uniform(half_life, t)) * *sd_ns as f64)
            }
            JitterLaw::ParetoNormal { sd_ns } => {
                let heavy = pareto(self.uniform(half_life, t));
                // The second process is independent of the first and advances together with it.
                let mix = MIX_PARETO * heavy + MIX_NORMAL * self.normal(half_life, t, 1);
                round(mix / MIX_SD * *sd_ns as f64)
            }
            JitterLaw::Table { quantiles_ns } => {
                // Linear interpolation between the two quantiles around the drawn probability.
                let place = self.uniform(half_life, t) * (quantiles_ns.len() - 1) as f64;
                let below = (place as usize).min(quantiles_ns.len() - 2);
                let (a, b) = (quantiles_ns[below] as f64, quantiles_ns[below + 1] as f64);
                round(a + (place - below as f64) * (b - a))
            }
            JitterLaw::Trace {
                interval_ns,
                extra_ns,
                origin_ns,
            } => {
                // Recordings are steps, not lines: between two samples nothing is known.
                let nr = t.saturating_sub(*origin_ns) / interval_ns;
                extra_ns[(nr % extra_ns.len() as u64) as usize]
            }
        }
    }

    fn uniform(&mut self, memory: Memory, t: Nanos) -> f64 {
        if memory.half_life_ns == 0 {
            self.rng.unit()
        } else {
            // A correlated normal value becomes a correlated uniform one, from which each law takes its quantile.
            normal_cdf(self.normal(memory, t, 0))
        }
    }

    /// Moves both processes on to `t` if `process` is 0. Process 1 must be read after process 0.
    fn normal(&mut self, memory: Memory, t: Nanos, process: usize) -> f64 {
        if memory.half_life_ns == 0 {
            return self.rng.normal();
        }
        let (then, z) = match self.z {
            Some(known) => known,
            None => {
                let mut begin = || Process {
                    value: self.rng.normal(),
                    speed: if memory.smooth {
                        self.rng.normal()
                    } else {
                        0.0
                    },
                };
                (t, [begin(), begin()])
            }
        };
        // Frames served at the same instant, or slightly before the last one, get the same value: time does not run
        // backwards.
        if process == 1 || t <= then {
            self.z = Some((then, z));
            return z[process].value;
        }
        let half_lives = (t - then) as f64 / memory.half_life_ns as f64;
        let z = match memory.smooth {
            true => self.smoothly(z, HALVES * half_lives),
            false => {
                // Exact discretization of the Ornstein-Uhlenbeck process: z' = rho z + sqrt(1 - rho^2) n.
                let rho = (-half_lives).exp2();
                let fresh = (1.0 - rho * rho).sqrt();
                z.map(|z| Process {
                    value: rho * z.value + fresh * self.rng.normal(),
                    speed: 0.0,
                })
            }
        };
        self.z = Some((t, z));
        z[process].value
    }

    /// Moves processes on by `d` in units of their own time. They are Matern processes with index 3/2, whose
    /// correlation is `(1 + d) exp(-d)` and which have a speed (Rasmussen and Williams, "Gaussian Processes for Machine
    /// Learning", 4.2.1 and appendix B). Value and speed together are a Markov process, so the step is exact for every
    /// `d`.
    fn smoothly(&mut self, z: [Process; 2], d: f64) -> [Process; 2] {
        let fade = (-d).exp();
        // Covariance of the innovation: 1 - A A'. The first element is of the order of d^3, so the difference would
        // lose all digits at small d. `gamma_3` computes it without cancellation.
        let q_value = gamma_3(2.0 * d);
        let q_both = 2.0 * d * d * fade * fade;
        let q_speed = 1.0 - fade * fade * (1.0 - 2.0 * d + 2.0 * d * d);
        // Cholesky factor of the 2 x 2 covariance: the value uses one normal number, the speed both.
        let of_value = q_value.sqrt();
        let shared = if of_value > 0.0 {
            q_both / of_value
        } else {
            0.0
        };
        let of_speed = (q_speed - shared * shared).max(0.0).sqrt();
        z.map(|z| {
            let (a, b) = (self.rng.normal(), self.rng.normal());
            Process {
                value: fade * ((1.0 + d) * z.value + d * z.speed) + of_value * a,
                speed: fade * ((1.0 - d) * z.speed - d * z.value) + shared * a + of_speed * b,
            }
        })
    }
}

/// Correlation of a law over time.
#[derive(Clone, Copy)]
struct Memory {
    /// Time in which the correlation halves; 0: no correlation.
    half_life_ns: u64,
    smooth: bool,
}

/// Returns `1 - exp(-x) (1 + x + x^2 / 2)` for `x >= 0`. For small x it uses the series, so that nothing cancels.
fn gamma_3(x: f64) -> f64 {
    if x > 1.0 {
        // Above 1 the closed form has enough digits; below, the series avoids the difference of nearly equal numbers.
        return 1.0 - (-x).exp() * (1.0 + x + x * x / 2.0);
    }
    let (mut term, mut sum, mut n) = (x * x * x / 6.0, 0.0, 3.0);
    while sum + term != sum {
        sum += term;
        n += 1.0;
        term *= x / n;
    }
    (-x).exp() * sum
}

fn round(x: f64) -> i64 {
    // The cast saturates. A draw from the Pareto law's tail may exceed an i64 on very rare occasions.
    x.round() as i64
}

/// Returns the quantile of the Pareto law with mean 0 and deviation 1.
fn pareto(u: f64) -> f64 {
    ((1.0 - u).powf(-1.0 / SHAPE) - PARETO_MEAN) / PARETO_SD
}

/// Returns the distribution function of the standard normal law by Marsaglia's series ("Evaluating the Normal
/// Distribution", 2004). It is exact to double precision within +-7. Beyond that the result is 1e-12 away from 0 or 1,
/// so that quantile functions stay finite.
fn normal_cdf(z: f64) -> f64 {
    if z < -7.0 {
        return 1e-12;
    }
    if z > 7.0 {
        return 1.0 - 1e-12;
    }
    let (mut sum, mut term, mut n) = (z, z, 1.0);
    loop {
        n += 2.0;
        term *= z * z / n;
        let next = sum + term;
        if next == sum {
            break;
        }
        sum = next;
    }
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    (0.5 + sum * density).clamp(1e-12, 1.0 - 1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(law: JitterLaw, half_life_ns: u64, step_ns: u64, n: u64) -> Vec<f64> {
        let jitter = Jitter {
            half_life_ns,
            ..Jitter::of(law)
        };
        let mut state = JitterState::new(Rng::for_edge(3, 0, 1, 0));
        (0..n)
            .map(|i| state.extra_ns(&jitter, i * step_ns) as f64)
            .collect()
    }

    /// Kolmogorov and Smirnov: the largest distance from `cdf`, against the 0.999 quantile for
    /// `n` independent values.
    fn fits(mut values: Vec<f64>, independent: f64, cdf: impl Fn(f64) -> f64) {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let gap = |(i, x): (usize, &f64)| {
            let (low, high) = (i as f64 / n, (i + 1) as f64 / n);
            (cdf(*x) - low).abs().max((high - cdf(*x)).abs())
        };
        let worst = values.iter().enumerate().map(gap).fold(0.0, f64::max);
        assert!(worst < 1.95 / independent.sqrt(), "distance {worst}");
    }

    const SD: u64 = 1_000_000;
    fn pareto_cdf(x: f64) -> f64 {
        let y = x / SD as f64 * PARETO_SD + PARETO_MEAN;
        if y <= 1.0 { 0.0 } else { 1.0 - y.powf(-SHAPE) }
    }

    #[test]
    fn laws_have_their_distributions() {
        let n = 100_000;
        let uniform = JitterLaw::Uniform { half_width_ns: SD };
        fits(run(uniform, 0, 1, n), n as f64, |x| {
            (x / SD as f64 + 1.0) / 2.0
        });
        fits(
            run(JitterLaw::Normal { sd_ns: SD }, 0, 1, n),
            n as f64,
            |x| normal_cdf(x / SD as f64),
        );
        fits(
            run(JitterLaw::Pareto { sd_ns: SD }, 0, 1, n),
            n as f64,
            pareto_cdf,
        );
        let quantiles_ns = vec![-1_000_000, 0, 0, 3_000_000];
        fits(
            run(JitterLaw::Table { quantiles_ns }, 0, 1, n),
            n as f64,
            |x| {
                if x < 0.0 {
                    (x / 1e6 + 1.0) / 3.0
                } else if x == 0.0 {
                    // The law's step, where both sides of the distance are within it.
                    f64::NAN
                } else {
                    2.0 / 3.0 + x / 9e6
                }
            },
        );
    }

    #[test]
    fn pareto_normal_has_its_moments() {
        let values = run(JitterLaw::ParetoNormal { sd_ns: SD }, 0, 1, 1_000_000);
        let mean = values.iter().sum::<f64>() / 1e6;
        assert!(mean.abs() < 4.0 * SD as f64 / 1e3, "{mean}");
        let sd = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e6).sqrt();
        // Tail index 3: the fourth moment does not exist, so the spread of this is wide.
        assert!((sd / SD as f64 - 1.0).abs() < 0.1, "{sd}");
    }

    #[test]
    fn correlation_halves_in_its_half_life_and_keeps_the_distribution() {
        let (half_life, step) = (1_000_000_000, 100_000_000);
        let n = 200_000u64;
        let rho = 0.5f64.powf(step as f64 / half_life as f64);
        let effective = n as f64 * (1.0 - rho) / (1.0 + rho);
        fits(
            run(JitterLaw::Pareto { sd_ns: SD }, half_life, step, n),
            effective,
            pareto_cdf,
        );
        let values = run(JitterLaw::Normal { sd_ns: SD }, half_life, step, n);
        fits(values.clone(), effective, |x| normal_cdf(x / SD as f64));
        let at = |lag: usize| {
            let pairs = values.iter().zip(&values[lag..]);
            pairs.map(|(a, b)| a * b).sum::<f64>() / (n as f64 - lag as f64) / (SD as f64).powi(2)
        };
        let tolerance = 4.0 / effective.sqrt();
        assert!((at(10) - 0.5).abs() < tolerance, "{}", at(10));
        assert!((at(20) - 0.25).abs() < tolerance, "{}", at(20));
    }

    #[test]
    fn a_trace_plays_in_time_and_repeats() {
        let law = JitterLaw::Trace {
            interval_ns: 10,
            extra_ns: vec![5, -3, 0],
            origin_ns: 20,
        };
        let jitter = Jitter::of(law);
        let mut state = JitterState::new(Rng::for_edge(3, 0, 1, 0));
        let got = [0, 20, 29, 30, 40, 50, 60].map(|t| state.extra_ns(&jitter, t));
        assert_eq!(got, [5, 5, 5, -3, 0, 5, -3]);
    }

    #[test]
    fn the_normal_law_is_exact() {
        // Abramowitz and Stegun, table 26.1.
        for (z, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (2.0, 0.977_249_868_051_821),
        ] {
            assert!((normal_cdf(z) - p).abs() < 1e-14);
            assert!((normal_cdf(-z) - (1.0 - p)).abs() < 1e-14);
        }
    }
}
