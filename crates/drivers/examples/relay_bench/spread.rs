//! A figure of several rounds: the median is reported, the least and the greatest value show its variation.

use constel_link::Quantiles;
use serde::Serialize;

/// Measures all cases `rounds` times, alternately, and returns the rounds of each.
pub(crate) fn in_rounds<C, R>(
    rounds: usize,
    cases: &[C],
    mut one: impl FnMut(&C) -> R,
) -> Vec<Vec<R>> {
    let mut measured: Vec<Vec<R>> = cases.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (case, rounds) in cases.iter().zip(&mut measured) {
            rounds.push(one(case));
        }
    }
    measured
}

/// A figure of several rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

impl Spread {
    /// Returns the spread of at least one value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let last = values.len() - 1;
        Spread {
            median: f64::midpoint(values[last / 2], values[values.len() / 2]),
            least: values[0],
            greatest: values[last],
        }
    }

    /// Formats `median (least to greatest)` with all values scaled.
    pub(crate) fn text(&self, factor: f64, digits: usize) -> String {
        let [median, least, greatest] = [self.median, self.least, self.greatest]
            .map(|value| format!("{:.digits$}", value * factor));
        format!("{median} ({least} to {greatest})")
    }

    /// Formats nanoseconds as microseconds.
    pub(crate) fn in_us(&self) -> String {
        self.text(1e-3, 1)
    }
}

/// Quantiles of several rounds, ns.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Errors {
    pub(crate) p50_ns: Spread,
    pub(crate) p90_ns: Spread,
    pub(crate) p99_ns: Spread,
    pub(crate) p999_ns: Spread,
    pub(crate) max_ns: Spread,
}

impl Errors {
    pub(crate) fn of(rounds: &[Quantiles]) -> Errors {
        let spread = |of: fn(&Quantiles) -> u64| Spread::of(rounds.iter().map(|q| of(q) as f64));
        Errors {
            p50_ns: spread(|q| q.p50_ns),
            p90_ns: spread(|q| q.p90_ns),
            p99_ns: spread(|q| q.p99_ns),
            p999_ns: spread(|q| q.p999_ns),
            max_ns: spread(|q| q.max_ns),
        }
    }
}
