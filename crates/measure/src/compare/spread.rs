//! Distances between two distributions, and the memory of a series.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::series::{Series, Values};
use crate::quantiles::rank;

/// The quantiles of a comparison.
pub const QUANTILES: [f64; 9] = [0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99];

/// A figure of both series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// The position: a probability, seconds since a slot began, or a lag in probes.
    pub at: f64,
    /// The figure of the run.
    pub run: f64,
    /// The figure of the measurement.
    pub measured: f64,
}

impl Pair {
    /// Returns by how much the run differs from the measurement, as a share of it.
    #[must_use]
    pub fn share(&self) -> f64 {
        (self.run - self.measured) / self.measured
    }
}

/// Two distributions, in the unit of their samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Number of samples of the run.
    pub run_count: usize,
    /// Number of samples of the measurement.
    pub measured_count: usize,
    /// Quantiles by nearest rank; `at` is their probability.
    pub quantiles: Vec<Pair>,
    /// Wasserstein-1 distance: the mean difference of equal quantiles.
    pub w1: f64,
    /// Kolmogorov-Smirnov distance: the largest difference of the distribution functions, 0 to 1.
    pub ks: f64,
}

impl Spread {
    /// Compares two sets of samples; `None` if one is empty.
    #[must_use]
    pub fn between(run: &Values, measured: &Values) -> Option<Spread> {
        let (run, measured) = (sorted(run), sorted(measured));
        if run.is_empty() || measured.is_empty() {
            return None;
        }
        let pair = |&at: &f64| Pair {
            at,
            run: rank(&run, at),
            measured: rank(&measured, at),
        };
        Some(Spread {
            run_count: run.len(),
            measured_count: measured.len(),
            quantiles: QUANTILES.iter().map(pair).collect(),
            w1: w1(&run, &measured),
            ks: ks(&run, &measured),
        })
    }
}

fn sorted(values: &Values) -> Vec<f64> {
    let mut values: Vec<f64> = values.iter().map(|v| v.1).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the Wasserstein-1 distance of two sets of samples in rising order, none of them empty: the area between their
/// quantile functions.
#[must_use]
pub fn w1(a: &[f64], b: &[f64]) -> f64 {
    let (mut i, mut j, mut area, mut at) = (0, 0, 0.0, 0u128);
    // Both quantile functions are steps. Positions are in units of 1 / (len a * len b), so that they are exact.
    let (step_a, step_b) = (b.len() as u128, a.len() as u128);
    while i < a.len() && j < b.len() {
        let (end_a, end_b) = ((i as u128 + 1) * step_a, (j as u128 + 1) * step_b);
        let end = end_a.min(end_b);
        area += (a[i] - b[j]).abs() * (end - at) as f64;
        at = end;
        i += usize::from(end == end_a);
        j += usize::from(end == end_b);
    }
    area / (step_a * step_b) as f64
}

/// Returns the Kolmogorov-Smirnov distance of two sets of samples in rising order, none of them empty.
#[must_use]
pub fn ks(a: &[f64], b: &[f64]) -> f64 {
    let (mut i, mut j, mut most) = (0, 0, 0.0f64);
    while i < a.len() && j < b.len() {
        let value = a[i].min(b[j]);
        // All equal samples of both count before the functions are compared.
        i += a[i..].iter().take_while(|v| **v <= value).count();
        j += b[j..].iter().take_while(|v| **v <= value).count();
        most = most.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    most
}

/// Returns the correlation of round-trip times that are `lag` probes apart, where both were answered; `None` if there are
/// fewer than two such pairs or they do not vary.
#[must_use]
pub fn autocorrelation(series: &Series, lag: usize) -> Option<f64> {
    let probes = &series.probes;
    let pairs = probes.iter().zip(probes.get(lag..)?);
    let pairs: Vec<(f64, f64)> = pairs
        .filter_map(|(a, b)| Some((a.rtt_ms?, b.rtt_ms?)))
        .collect();
    let n = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let (mean_a, mean_b) = (mean(|p| p.0), mean(|p| p.1));
    let (mut both, mut a2, mut b2) = (0.0, 0.0, 0.0);
    for (a, b) in &pairs {
        let (a, b) = (a - mean_a, b - mean_b);
        both += a * b;
        a2 += a * a;
        b2 += b * b;
    }
    (pairs.len() >= 2 && a2 > 0.0 && b2 > 0.0).then(|| both / (a2 * b2).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Probe;
    use proptest::prelude::*;

    #[test]
    fn distances_of_known_distributions() {
        let a: Vec<f64> = (0..1000).map(f64::from).collect();
        let shifted: Vec<f64> = a.iter().map(|v| v + 5.0).collect();
        assert!((w1(&a, &shifted) - 5.0).abs() < 1e-9);
        assert!((ks(&a, &shifted) - 0.005).abs() < 1e-12);
        // Sets of different sizes: {0, 1} and {0, 0, 1} differ by 1 over a sixth of the probability.
        assert!((w1(&[0.0, 1.0], &[0.0, 0.0, 1.0]) - 1.0 / 6.0).abs() < 1e-12);
        assert!((ks(&[0.0, 1.0], &[0.0, 0.0, 1.0]) - 1.0 / 6.0).abs() < 1e-12);
        assert!((ks(&[1.0], &[2.0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn memory_of_an_alternating_series() {
        let probe = |n: usize| Probe {
            t_s: n as f64,
            rtt_ms: (n % 10 != 9).then_some(if n.is_multiple_of(2) { 1.0 } else { 3.0 }),
        };
        let series = Series {
            probes: (0..100).map(probe).collect(),
            ..Series::default()
        };
        assert!((autocorrelation(&series, 1).unwrap() + 1.0).abs() < 1e-9);
        assert!((autocorrelation(&series, 2).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(autocorrelation(&series, 100), None);
        assert_eq!(autocorrelation(&series, 200), None);
    }

    proptest! {
        /// A distance is symmetric, zero between equal sets, and W1 keeps the triangle inequality.
        #[test]
        fn distances_are_distances(
            mut a in prop::collection::vec(0.0..100.0f64, 1..40),
            mut b in prop::collection::vec(0.0..100.0f64, 1..40),
            mut c in prop::collection::vec(0.0..100.0f64, 1..40),
        ) {
            for set in [&mut a, &mut b, &mut c] {
                set.sort_by(f64::total_cmp);
            }
            prop_assert!((w1(&a, &b) - w1(&b, &a)).abs() < 1e-9);
            prop_assert!((ks(&a, &b) - ks(&b, &a)).abs() < 1e-12);
            prop_assert!(w1(&a, &a) == 0.0 && ks(&a, &a) == 0.0);
            prop_assert!(w1(&a, &c) <= w1(&a, &b) + w1(&b, &c) + 1e-9);
            prop_assert!((0.0..=1.0).contains(&ks(&a, &b)));
        }
    }
}
