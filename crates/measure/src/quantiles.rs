//! Quantiles by nearest rank: of series that fit in memory, and of integers in bounded memory.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A summary of a series, in the unit of its samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// The number of samples.
    pub count: usize,
    /// The smallest sample.
    pub min: f64,
    /// The median (nearest rank).
    pub p50: f64,
    /// The 99th percentile (nearest rank).
    pub p99: f64,
    /// The largest sample.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
}

impl Quantiles {
    /// Sorts `samples` and computes the summary; `None` for an empty series.
    pub fn of(samples: &mut [f64]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        samples.sort_by(f64::total_cmp);
        Some(Self {
            count: samples.len(),
            min: samples[0],
            p50: rank(samples, 0.50),
            p99: rank(samples, 0.99),
            max: samples[samples.len() - 1],
            mean: samples.iter().sum::<f64>() / samples.len() as f64,
        })
    }
}

/// Returns the quantile with this probability, 0 to 1, by nearest rank.
///
/// # Panics
/// If `sorted` is empty. It is in rising order.
#[must_use]
pub fn rank(sorted: &[f64], probability: f64) -> f64 {
    sorted[((probability * sorted.len() as f64).ceil() as usize).max(1) - 1]
}

/// The largest number of distinct values that are kept apart.
const DISTINCT: usize = 1 << 20;

/// A histogram of integers. It is exact while there are at most 2^20 different values; then the width of its steps
/// doubles as often as needed. It never uses more than about 40 MB.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Counts by value, rounded down to whole steps of 2^`coarse`.
    values: BTreeMap<u64, u64>,
    coarse: u32,
    count: u64,
    sum: u128,
    max: u64,
    min: u64,
}

impl Counted {
    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.record_within(value, DISTINCT);
    }

    fn record_within(&mut self, value: u64, distinct: usize) {
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        *self.values.entry(value >> self.coarse).or_insert(0) += 1;
        while self.values.len() > distinct {
            self.coarse += 1;
            for (value, count) in std::mem::take(&mut self.values) {
                *self.values.entry(value >> 1).or_insert(0) += count;
            }
        }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the smallest value, exact; 0 without any.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.min
    }

    /// Returns the largest value, exact; 0 without any.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean, exact; 0 without any.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// Returns the quantile by nearest rank for a share (0..=1) of all values; 0 without any. The result is less
    /// than a step too small when there are too many different values to be exact.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (value, count) in &self.values {
            seen += count;
            if seen >= rank {
                return (value << self.coarse).max(self.min);
            }
        }
        self.max
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

    #[test]
    fn counted_values_are_exact_until_there_are_too_many_different_ones() {
        let mut exact = Counted::default();
        let mut coarse = Counted::default();
        for value in (0..10_000_u64).map(|k| 1_000_000 + k * 7_919 % 10_000) {
            exact.record(value);
            coarse.record_within(value, 1_024);
        }
        assert_eq!(
            (exact.quantile(0.5), exact.quantile(0.99)),
            (1_004_999, 1_009_899)
        );
        assert_eq!(exact.coarse, 0);
        assert!(coarse.values.len() <= 1_024 && coarse.coarse == 4);
        let off = exact.quantile(0.5) - coarse.quantile(0.5);
        assert!(off < 16, "{off}");
        for counted in [exact, coarse] {
            assert_eq!((counted.min(), counted.max()), (1_000_000, 1_009_999));
            assert!((counted.mean() - 1_004_999.5).abs() < 1e-9);
        }
        let none = Counted::default();
        assert_eq!((none.quantile(0.5), none.mean(), none.count()), (0, 0.0, 0));
        let mut largest = Counted::default();
        largest.record(u64::MAX);
        assert_eq!(largest.quantile(1.0), u64::MAX);
    }
}
