//! A series of any length in bounded memory: exact minimum, maximum and mean, and quantiles to a thousandth.

use std::collections::BTreeMap;

use crate::histogram::{bucket_end, bucket_of};

/// Buckets are at most 1/1024 of their values wide; values below 1024 have one each.
const SUB_BITS: u32 = 10;

/// Counts of values in buckets. Only buckets with a value are stored: at most 56,320, and at most 10,241 for values
/// within a factor of a thousand of each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    buckets: BTreeMap<u32, u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Tally {
    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        // There are fewer than 2^16 buckets, so the cast is exact.
        *self
            .buckets
            .entry(bucket_of::<SUB_BITS>(value) as u32)
            .or_insert(0) += 1;
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the smallest value, exact; 0 without values.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.min
    }

    /// Returns the largest value, exact; 0 without values.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean, exact; 0 without values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// Returns the nearest-rank quantile for the given share (0..=1), at most 1/1024 too large; 0 without values.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, n) in &self.buckets {
            seen += n;
            if seen >= rank {
                return bucket_end::<SUB_BITS>(*bucket as usize).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The quantiles of a series are within 1/1024 of those found by sorting it, and exact at its ends.
        #[test]
        fn quantiles_are_within_a_thousandth(
            values in prop::collection::vec(prop_oneof![0..2000_u64, any::<u64>(), 1_000_000..9_000_000_u64], 1..500),
            share in 0.0..=1.0_f64,
        ) {
            let mut tally = Tally::default();
            let mut sorted = values.clone();
            values.iter().for_each(|v| tally.record(*v));
            sorted.sort_unstable();
            let rank = ((share * sorted.len() as f64).ceil() as usize).max(1);
            let exact = sorted[rank - 1];
            let got = tally.quantile(share);
            prop_assert!(got >= exact && got - exact <= exact / 1024, "{got} for {exact}");
            prop_assert_eq!((tally.min(), tally.max()), (sorted[0], *sorted.last().unwrap()));
            prop_assert_eq!(tally.count(), sorted.len() as u64);
            let mean = sorted.iter().map(|v| *v as f64).sum::<f64>() / sorted.len() as f64;
            prop_assert!((tally.mean() - mean).abs() <= mean * 1e-9);
        }
    }

    #[test]
    fn nothing_is_nothing() {
        let none = Tally::default();
        assert_eq!(
            (none.count(), none.quantile(0.5), none.min(), none.max()),
            (0, 0, 0, 0)
        );
    }
}
