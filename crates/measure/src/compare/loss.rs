//! Losses of a series of probes, and the bursts in which they come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::series::Series;

/// Losses of a series of probes. A burst is a row of lost probes between two answered ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Losses {
    /// Number of probes.
    pub probes: usize,
    /// Share of probes that are lost, 0 to 1.
    pub ratio: f64,
    /// Number of bursts for each thousand probes.
    pub bursts_per_1000: f64,
    /// Mean length of a burst, probes; 0 without losses.
    pub mean_burst: f64,
    /// Share of bursts of one probe, 0 to 1.
    pub single_ratio: f64,
    /// The longest burst, probes.
    pub longest: usize,
}

impl Losses {
    /// Counts the losses of a series.
    #[must_use]
    pub fn of(series: &Series) -> Losses {
        let lost: Vec<bool> = series.probes.iter().map(|p| p.rtt_ms.is_none()).collect();
        let bursts = lost.chunk_by(|a, b| a == b).filter(|run| run[0]);
        let lengths: Vec<usize> = bursts.map(<[bool]>::len).collect();
        let total: usize = lengths.iter().sum();
        let singles = lengths.iter().filter(|n| **n == 1).count();
        let share = |part: usize, all: usize| {
            if all == 0 {
                0.0
            } else {
                part as f64 / all as f64
            }
        };
        Losses {
            probes: lost.len(),
            ratio: share(total, lost.len()),
            bursts_per_1000: 1000.0 * share(lengths.len(), lost.len()),
            mean_burst: share(total, lengths.len()),
            single_ratio: share(singles, lengths.len()),
            longest: lengths.iter().copied().max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Probe;

    #[test]
    fn bursts_are_counted_up_to_both_ends() {
        let text = "x..xx.....xxx...x...";
        let probe = |c: char| Probe {
            t_s: 0.0,
            rtt_ms: (c == '.').then_some(1.0),
        };
        let losses = Losses::of(&Series {
            probes: text.chars().map(probe).collect(),
            ..Series::default()
        });
        assert_eq!(losses.probes, 20);
        assert!((losses.ratio - 0.35).abs() < 1e-12);
        assert!((losses.bursts_per_1000 - 200.0).abs() < 1e-9);
        assert!((losses.mean_burst - 1.75).abs() < 1e-12);
        assert!((losses.single_ratio - 0.5).abs() < 1e-12);
        assert_eq!(losses.longest, 3);
        assert_eq!(Losses::of(&Series::default()), Losses::default());
    }
}
