//! Statistics of repeats.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Mean of independent repeats, and where the true mean is with 95 % confidence, if repeats are spread as a normal
/// distribution is (Student's t).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
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
        Some(Self {
            n: repeats.len(),
            mean,
            ci95,
            min: repeats.iter().copied().fold(f64::INFINITY, f64::min),
            max: repeats.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
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

    #[test]
    fn one_repeat_has_no_interval_and_none_no_mean() {
        let one = Interval::of(&[3.0]).unwrap();
        assert_eq!((one.mean, one.ci95), (3.0, None));
        assert_eq!(Interval::of(&[2.0, 2.0]).unwrap().ci95, Some(0.0));
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[1.0, f64::NAN]), None);
    }
}
