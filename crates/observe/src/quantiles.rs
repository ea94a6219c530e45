//! Quantiles of exact samples (nearest rank), for series that fit in memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Five numbers of a series, in the unit of its samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// How many samples.
    pub count: usize,
    /// Smallest sample.
    pub min: f64,
    /// Median (nearest rank).
    pub p50: f64,
    /// 99th percentile (nearest rank).
    pub p99: f64,
    /// Largest sample.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
}

impl Quantiles {
    /// Sorts `samples` and reads the ranks; `None` for an empty series.
    pub fn of(samples: &mut [f64]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        samples.sort_by(f64::total_cmp);
        let rank = |q: f64| samples[((q * samples.len() as f64).ceil() as usize).max(1) - 1];
        Some(Self {
            count: samples.len(),
            min: samples[0],
            p50: rank(0.50),
            p99: rank(0.99),
            max: samples[samples.len() - 1],
            mean: samples.iter().sum::<f64>() / samples.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let mut series: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let q = Quantiles::of(&mut series).unwrap();
        assert_eq!(
            (q.min, q.p50, q.p99, q.max, q.mean),
            (1.0, 50.0, 99.0, 100.0, 50.5)
        );
        assert_eq!(Quantiles::of(&mut [7.0]).unwrap().p99, 7.0);
        assert!(Quantiles::of(&mut []).is_none());
    }
}
