//! A log-bucketed histogram: constant memory, no allocation per record, 3 % resolution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::Nanos;

/// Number of sub-buckets per power of two, as a power of two.
const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// Counts of nanosecond values in buckets no wider than 1/32 of their value.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    sum: u128,
    max: Nanos,
}

/// Quantiles of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TimeQuantiles")]
pub struct Quantiles {
    /// Values recorded.
    pub count: u64,
    /// Half of the values are not above this.
    pub p50_ns: Nanos,
    /// 90 % are not above this.
    pub p90_ns: Nanos,
    /// 99 % are not above this.
    pub p99_ns: Nanos,
    /// 99.9 % are not above this.
    pub p999_ns: Nanos,
    /// The largest value, exact.
    pub max_ns: Nanos,
}

/// Returns the bucket of a value. Buckets are at most 1 / 2^`SUB_BITS` of their values wide.
pub(crate) fn bucket_of<const SUB_BITS: u32>(value: u64) -> usize {
    if value < 1 << SUB_BITS {
        return value as usize;
    }
    // The value's upper SUB_BITS + 1 bits select the bucket; its highest bit is implied by the exponent.
    let exponent = 63 - value.leading_zeros() - SUB_BITS;
    ((exponent as usize + 1) << SUB_BITS) + ((value >> exponent) as usize - (1 << SUB_BITS))
}

/// Returns the largest value that falls into the bucket.
pub(crate) fn bucket_end<const SUB_BITS: u32>(bucket: usize) -> u64 {
    let sub = 1 << SUB_BITS;
    if bucket < sub {
        return bucket as u64;
    }
    // The inverse of `bucket_of`: the highest bit of the value is put back.
    let exponent = (bucket >> SUB_BITS) as u32 - 1;
    let mantissa = (sub + (bucket & (sub - 1))) as u64;
    (mantissa << exponent) + ((1 << exponent) - 1)
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Histogram {
        Histogram {
            buckets: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            sum: 0,
            max: 0,
        }
    }

    /// Returns an empty histogram whose memory grows up to the bucket of the largest value. Use it where there are many
    /// histograms.
    #[must_use]
    pub fn growing() -> Histogram {
        Histogram {
            buckets: Box::default(),
            count: 0,
            sum: 0,
            max: 0,
        }
    }

    /// Makes room for at least `buckets` buckets.
    fn grow(&mut self, buckets: usize) {
        if buckets > self.buckets.len() {
            let mut more = std::mem::take(&mut self.buckets).into_vec();
            // Grows to the end of a power of two, so that growing is rare.
            more.resize(buckets.next_multiple_of(SUB), 0);
            self.buckets = more.into_boxed_slice();
        }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.record_n(value, 1);
    }

    /// Counts a value `n` times.
    pub fn record_n(&mut self, value: Nanos, n: u64) {
        let bucket = bucket_of::<SUB_BITS>(value);
        self.grow(bucket + 1);
        self.buckets[bucket] += n;
        self.count += n;
        self.sum += u128::from(value) * u128::from(n);
        self.max = self.max.max(value);
    }

    /// Values recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean of the values, exact.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// Returns a value not below the given share (0..=1) of all values, at most 1/32 too large; 0 when nothing was
    /// recorded.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Nanos {
        // Nearest rank: the smallest value that is not below this share of all values.
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                // The maximum is exact, so no quantile is reported above it.
                return bucket_end::<SUB_BITS>(bucket).min(self.max);
            }
        }
        self.max
    }

    /// Returns how many values are not above a bound. A bucket counts if its end is not above the bound.
    #[must_use]
    pub fn not_above(&self, bound: Nanos) -> u64 {
        let buckets = self.buckets.iter().enumerate();
        let whole = buckets.take_while(|(bucket, _)| bucket_end::<SUB_BITS>(*bucket) <= bound);
        whole.map(|(_, n)| n).sum()
    }

    /// Returns the usual quantiles.
    #[must_use]
    pub fn quantiles(&self) -> Quantiles {
        Quantiles {
            count: self.count,
            p50_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: self.quantile(0.99),
            p999_ns: self.quantile(0.999),
            max_ns: self.max,
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.grow(other.buckets.len());
        for (a, b) in self.buckets.iter_mut().zip(&other.buckets) {
            *a += b;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Removes all counts.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        self.count = 0;
        self.sum = 0;
        self.max = 0;
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        for value in (0..70_000).chain([1 << 40, (1 << 40) - 1, u64::MAX - 1, u64::MAX]) {
            let end = bucket_end::<SUB_BITS>(bucket_of::<SUB_BITS>(value));
            assert!(
                end >= value && end - value <= value / SUB as u64,
                "{value} -> {end}"
            );
        }
        for bucket in 0..BUCKETS - 1 {
            let next = bucket_end::<SUB_BITS>(bucket) + 1;
            assert_eq!(bucket_of::<SUB_BITS>(next), bucket + 1);
        }
        assert_eq!(bucket_of::<SUB_BITS>(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let mut a = Histogram::new();
        let mut b = Histogram::new();
        (1..=5_000).for_each(|v| a.record(v));
        (5_001..=10_000).for_each(|v| b.record(v));
        a.merge(&b);
        let q = a.quantiles();
        assert_eq!((q.count, q.max_ns), (10_000, 10_000));
        for (got, exact) in [(q.p50_ns, 5_000), (q.p90_ns, 9_000), (q.p99_ns, 9_900)] {
            assert!(
                got >= exact && got <= exact + exact / 32,
                "{got} for {exact}"
            );
        }
        assert!((a.mean_ns() - 5_000.5).abs() < 1e-9);
        assert_eq!(Histogram::new().quantiles(), Quantiles::default());
        let mut grown = Histogram::growing();
        assert_eq!(grown.quantiles(), Quantiles::default());
        grown.merge(&a);
        assert_eq!(grown.quantiles(), a.quantiles());
        grown.record(u64::MAX);
        assert_eq!(
            (grown.count(), grown.quantiles().max_ns),
            (10_001, u64::MAX)
        );
        a.clear();
        assert_eq!(a.quantiles().count, 0);
    }
}
