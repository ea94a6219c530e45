//! Statistics of repeats.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

/// Mean of independent repeats, and where the true mean is with 95 % confidence, if repeats are spread as a normal
/// distribution is (Student's t).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Repeats.
    pub n: usize,
    /// The repeats' arithmetic mean.
    pub mean: f64,
    /// Half of the interval's width: the mean is `mean` +- this. Absent with less than two repeats.
    pub ci95: Option<f64>,
    /// Smallest repeat.
    pub min: f64,
    /// Largest repeat.
    pub max: f64,
    /// The median: half of the repeats are at most this.
    pub median: f64,
    /// The interval that contains the true median with at least 95 % confidence, whatever the distribution of the repeats: two
    /// of the repeats (order statistics). Absent with fewer than six repeats, whose whole range has less confidence.
    pub median_ci95: Option<[f64; 2]>,
}

impl Interval {
    /// Returns the statistics of these repeats; `None` without repeats, or with one that is not a finite
    /// number.
    #[must_use]
    pub fn of(repeats: &[f64]) -> Option<Self> {
        if repeats.is_empty() || !repeats.iter().all(|x| x.is_finite()) {
            return None;
        }
        let (mean, variance) = mean_and_variance(repeats);
        let n = repeats.len() as f64;
        let ci95 = variance.and_then(|variance| {
            let t = StudentsT::new(0.0, 1.0, n - 1.0).ok()?;
            Some(t.inverse_cdf(0.975) * (variance / n).sqrt())
        });
        let mut sorted = repeats.to_vec();
        sorted.sort_by(f64::total_cmp);
        let half = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[half - 1], sorted[half]),
            _ => sorted[half],
        };
        let outside = confident_outside(sorted.len());
        Some(Self {
            n: repeats.len(),
            mean,
            ci95,
            min: repeats.iter().copied().fold(f64::INFINITY, f64::min),
            max: repeats.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            median,
            median_ci95: outside.map(|out| [sorted[out], sorted[sorted.len() - 1 - out]]),
        })
    }
}

/// The number of repeats on each side that are outside of the interval of the median: the most for which the interval has 95 %
/// confidence. The number of repeats below the true median is binomial with 1/2.
fn confident_outside(n: usize) -> Option<usize> {
    let below = Binomial::new(0.5, n as u64).ok()?;
    let allowed = |out: &usize| below.cdf(*out as u64) <= 0.025;
    (0..n / 2).take_while(allowed).last()
}

/// Returns the arithmetic mean of one value or more, and, for two or more, the estimated variance of their
/// distribution.
pub(crate) fn mean_and_variance(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, (values.len() >= 2).then(|| squares / (n - 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Student's own table: t(0.975) of 1, 2, 9 and 29 degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
    #[test]
    fn the_quantiles_are_students() {
        for (n, t) in [(2, 12.706), (3, 4.303), (10, 2.262), (30, 2.045)] {
            // Half of the repeats at -1, half at 1 (and one at 0): the deviation is known.
            let repeats: Vec<f64> = (0..n)
                .map(|i| {
                    if n % 2 == 1 && i == n - 1 {
                        0.0
                    } else {
                        f64::from(i % 2) * 2.0 - 1.0
                    }
                })
                .collect();
            let deviation = (repeats.iter().map(|x| x * x).sum::<f64>() / f64::from(n - 1)).sqrt();
            let interval = Interval::of(&repeats).unwrap();
            let expected = t * deviation / f64::from(n).sqrt();
            assert!(
                (interval.ci95.unwrap() - expected).abs() < 1e-3,
                "{n}: {interval:?}"
            );
            assert_eq!(
                (interval.n, interval.min, interval.max),
                (n as usize, -1.0, 1.0)
            );
        }
    }

    /// The ranks of Conover's table A3 and of the usual tables of the median: 1 and 6 of six, 2 and 9 of ten, 6 and 15 of
    /// twenty, 40 and 61 of a hundred.
    #[test]
    fn the_interval_of_the_median_is_of_two_repeats() {
        for (n, low, high) in [(6, 1, 6), (10, 2, 9), (20, 6, 15), (100, 40, 61)] {
            let repeats: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            let interval = Interval::of(&repeats).unwrap();
            let expected = [f64::from(low), f64::from(high)];
            assert_eq!(interval.median_ci95, Some(expected), "{n}");
            assert_eq!(interval.median, (f64::from(n) + 1.0) / 2.0);
        }
        let few = Interval::of(&[3.0, 1.0, 2.0, 9.0, 8.0]).unwrap();
        assert_eq!((few.median, few.median_ci95), (3.0, None));
    }

    #[test]
    fn one_repeat_has_no_interval_and_none_no_mean() {
        let one = Interval::of(&[3.0]).unwrap();
        assert_eq!((one.mean, one.ci95), (3.0, None));
        assert_eq!(Interval::of(&[2.0, 2.0]).unwrap().ci95, Some(0.0));
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[1.0, f64::NAN]), None);
    }
}
