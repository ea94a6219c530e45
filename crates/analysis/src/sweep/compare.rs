//! Two runs, or two groups of repeats: which figures differ, and whether by more than repeats do.

use std::collections::BTreeMap;

use constel_api::summary::Summary;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::sweep::figures::{Figure, figure, figures, rank};
use crate::sweep::interval::{Interval, mean_and_variance};

/// The chance that a comparison reports a difference that does not exist, over all its rows together.
const ERROR: f64 = 0.05;

/// The number of segments of equal length into which the time of a single run's flow is divided.
const PIECES: usize = 10;

/// Samples of one flow of a single run: lab time in seconds, value.
pub type Samples = Vec<(f64, f64)>;

/// The names of a flow's samples in a comparison of single runs, in the units of the names.
pub const SAMPLED: [Figure; 4] = [
    figure("rtt_mean_ms", "ms", "mean round-trip time"),
    figure("owd_mean_ms", "ms", "mean one-way delay"),
    figure(
        "owd_back_mean_ms",
        "ms",
        "mean one-way delay of the reverse path",
    ),
    figure("throughput_mean_mbps", "Mbit/s", "mean throughput"),
];

/// One side of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// Its runs.
    pub summaries: Vec<Summary>,
    /// Samples by flow, in the order of [`SAMPLED`], for a single run.
    pub samples: BTreeMap<String, [Samples; SAMPLED.len()]>,
}

/// The noise that a difference was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Noise {
    /// The spread of each side's repeats (Welch's test).
    Repeats,
    /// The spread of the differences of the pieces of lab time of two single runs.
    Time,
}

/// A figure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The flow's name.
    pub flow: String,
    /// The figure, with its unit.
    #[serde(flatten)]
    pub figure: Figure,
    /// The first side.
    pub a: Interval,
    /// The second side.
    pub b: Interval,
    /// Mean of the second less mean of the first.
    pub difference: f64,
    /// The noise that it was compared with; absent for a figure of a single run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Whether it is more than noise, by 95 % confidence over all rows together; absent if the size of the
    /// noise is not known.
    pub differs: Option<bool>,
}

/// Two sides compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Version of this document.
    pub version: u32,
    /// Runs of each side.
    pub runs: [usize; 2],
    /// How many of them are trustworthy.
    pub trustworthy: [usize; 2],
    /// Seeds of each side, sorted, each once.
    pub seeds: [Vec<u64>; 2],
    /// Flows with figures on one side only.
    pub only: [Vec<String>; 2],
    /// By flow, then figure.
    pub rows: Vec<Compared>,
}

/// A difference, its standard error, and the degrees of freedom of that.
struct Tested {
    difference: f64,
    error: f64,
    degrees: f64,
    noise: Noise,
}

impl Comparison {
    /// Compares two sides; rows are the figures that both sides have.
    #[must_use]
    pub fn of(a: &Side, b: &Side) -> Self {
        let [of_a, of_b] = [a, b].map(|side| values(&side.summaries));
        let mut rows: Vec<(Compared, Option<Tested>)> = Vec::new();
        for ((flow, _), (figure, first)) in &of_a {
            let Some((_, second)) = of_b.get(&(*flow, rank(*figure))) else {
                continue;
            };
            rows.extend(row(flow, *figure, first, second, welch(first, second)));
        }
        for (flow, first) in &a.samples {
            let Some(second) = b.samples.get(flow) else {
                continue;
            };
            for ((figure, first), second) in SAMPLED.into_iter().zip(first).zip(second) {
                let pieces = pieces(first, second);
                let (first, second): (Vec<f64>, Vec<f64>) = pieces.iter().copied().unzip();
                rows.extend(row(flow, figure, &first, &second, paired(&pieces)));
            }
        }
        let tests = rows.iter().filter(|(_, tested)| tested.is_some()).count();
        let judged = rows.into_iter().map(|(mut row, tested)| {
            row.noise = tested.as_ref().map(|tested| tested.noise);
            row.differs = tested.map(|tested| tested.differs(tests));
            row
        });
        let mut rows: Vec<Compared> = judged.collect();
        rows.sort_by(|a, b| a.flow.cmp(&b.flow));
        Self {
            version: 1,
            runs: [a, b].map(|side| side.summaries.len()),
            trustworthy: [a, b].map(|side| {
                let summaries = side.summaries.iter();
                summaries.filter(|s| s.verdict.trustworthy).count()
            }),
            seeds: [a, b].map(|side| {
                let mut seeds: Vec<u64> = side.summaries.iter().map(|s| s.seed).collect();
                seeds.sort_unstable();
                seeds.dedup();
                seeds
            }),
            only: [only(&of_a, &of_b), only(&of_b, &of_a)],
            rows,
        }
    }
}

/// By flow and place among figures: the figure, and its value in each run that has it.
type Values<'a> = BTreeMap<(&'a str, usize), (Figure, Vec<f64>)>;

fn values(summaries: &[Summary]) -> Values<'_> {
    let mut values = Values::new();
    for (flow, figure, value) in summaries.iter().flat_map(figures) {
        let key = (flow, rank(figure));
        let known = values.entry(key).or_insert((figure, Vec::new()));
        known.1.push(value);
    }
    values
}

fn only(these: &Values<'_>, those: &Values<'_>) -> Vec<String> {
    let there = |flow: &str| those.keys().any(|(known, _)| *known == flow);
    let flows = these.keys().map(|(flow, _)| *flow);
    let mut only: Vec<String> = flows
        .filter(|flow| !there(flow))
        .map(str::to_owned)
        .collect();
    only.dedup();
    only
}

fn row(
    flow: &str,
    figure: Figure,
    a: &[f64],
    b: &[f64],
    tested: Option<Tested>,
) -> Option<(Compared, Option<Tested>)> {
    let (a, b) = (Interval::of(a)?, Interval::of(b)?);
    let row = Compared {
        flow: flow.to_owned(),
        figure,
        difference: tested.as_ref().map_or(b.mean - a.mean, |t| t.difference),
        a,
        b,
        noise: None,
        differs: None,
    };
    Some((row, tested))
}

/// Welch (1947): two groups whose spreads need not be the same.
fn welch(a: &[f64], b: &[f64]) -> Option<Tested> {
    let (mean_a, variance_a) = mean_and_variance(a);
    let (mean_b, variance_b) = mean_and_variance(b);
    let (variance_a, variance_b) = (variance_a?, variance_b?);
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let (share_a, share_b) = (variance_a / n_a, variance_b / n_b);
    let both = share_a + share_b;
    let parts = share_a.powi(2) / (n_a - 1.0) + share_b.powi(2) / (n_b - 1.0);
    Some(Tested {
        difference: mean_b - mean_a,
        error: both.sqrt(),
        degrees: if parts > 0.0 {
            both.powi(2) / parts
        } else {
            n_a + n_b - 2.0
        },
        noise: Noise::Repeats,
    })
}

/// The differences of pairs, whose mean is zero where both sides are the same.
fn paired(pairs: &[(f64, f64)]) -> Option<Tested> {
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    let (mean, variance) = mean_and_variance(&differences);
    let variance = variance?;
    let n = differences.len() as f64;
    Some(Tested {
        difference: mean,
        error: (variance / n).sqrt(),
        degrees: n - 1.0,
        noise: Noise::Time,
    })
}

impl Tested {
    /// By Bonferroni's rule: `tests` of them together are wrong once in twenty at most.
    fn differs(&self, tests: usize) -> bool {
        let tail = ERROR / 2.0 / tests.max(1) as f64;
        // Degrees of freedom are positive: each side has two values or more.
        let bound = StudentsT::new(0.0, 1.0, self.degrees)
            .map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - tail));
        self.difference.abs() > bound * self.error
    }
}

/// Returns the means of both sides in the segments of lab time that both have, for segments with samples of
/// both. The geometry affects both values of a pair equally; values that follow each other in time are in one
/// segment.
fn pieces(a: &[(f64, f64)], b: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let range = |samples: &[(f64, f64)]| {
        let times = samples.iter().map(|(t_s, _)| *t_s);
        times.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), t_s| {
            (least.min(t_s), most.max(t_s))
        })
    };
    let (of_a, of_b) = (range(a), range(b));
    let (begin_s, end_s) = (of_a.0.max(of_b.0), of_a.1.min(of_b.1));
    let length_s = (end_s - begin_s) / PIECES as f64;
    if !(length_s > 0.0 && length_s.is_finite()) {
        return Vec::new();
    }
    let means = |samples: &[(f64, f64)]| {
        let mut sums = [(0.0, 0.0); PIECES];
        for (t_s, value) in samples
            .iter()
            .filter(|(t_s, _)| (begin_s..=end_s).contains(t_s))
        {
            // The last sample belongs to the last piece.
            let piece = (((t_s - begin_s) / length_s) as usize).min(PIECES - 1);
            sums[piece].0 += value;
            sums[piece].1 += 1.0;
        }
        sums.map(|(sum, count)| (count > 0.0).then(|| sum / count))
    };
    means(a)
        .into_iter()
        .zip(means(b))
        .filter_map(|(a, b)| Some((a?, b?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST/SEMATECH e-Handbook, 1.3.5.3 (AUTO83B.DAT) has 249 and 79 values; a smaller pair by hand: variances 1 and 4, three values each.
    #[test]
    fn the_test_is_welchs() {
        let tested = welch(&[1.0, 2.0, 3.0], &[4.0, 6.0, 8.0]).unwrap();
        assert_eq!(tested.difference, 4.0);
        assert!((tested.error - (5.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        // (1/3 + 4/3)^2 / ((1/3)^2 / 2 + (4/3)^2 / 2)
        assert!((tested.degrees - 50.0 / 17.0).abs() < 1e-12);
        // t = 3.098; of 2.94 degrees 0.975 is 3.21 (3 degrees: 3.182), 0.95 is 2.37.
        assert!(!tested.differs(1));
        let wider = Tested {
            difference: 4.2,
            ..tested
        };
        assert!(wider.differs(1));
        assert!(!wider.differs(10), "ten tests ask for more");
    }

    #[test]
    fn equal_values_differ_when_they_are_others() {
        assert!(!welch(&[2.0, 2.0], &[2.0, 2.0]).unwrap().differs(5));
        assert!(welch(&[2.0, 2.0], &[2.1, 2.1]).unwrap().differs(5));
        assert!(welch(&[2.0], &[2.1, 2.1]).is_none());
    }

    /// A trend that both have is no noise; without pairs it would hide the difference.
    #[test]
    fn pieces_are_pairs() {
        let wave = |t: f64| 50.0 + 30.0 * (t / 20.0).sin();
        let samples = |off: f64| -> Samples {
            (0..500)
                .map(|i| (f64::from(i) / 10.0, f64::from(i) / 10.0))
                .map(|(t, x)| (t, wave(x) + off + 0.2 * ((x * 977.0 + off * 31.0).sin())))
                .collect()
        };
        let same = paired(&pieces(&samples(0.0), &samples(0.0))).unwrap();
        assert!(!same.differs(1));
        let more = paired(&pieces(&samples(0.0), &samples(1.0))).unwrap();
        assert!((more.difference - 1.0).abs() < 0.1, "{}", more.difference);
        assert!(more.differs(12));
    }

    #[test]
    fn series_without_a_common_time_have_no_pieces() {
        assert!(pieces(&[(0.0, 1.0), (1.0, 1.0)], &[(2.0, 1.0), (3.0, 1.0)]).is_empty());
        assert!(pieces(&[], &[(2.0, 1.0)]).is_empty());
        assert!(pieces(&[(1.0, 1.0)], &[(1.0, 1.0)]).is_empty());
    }
}
