//! All distances between two series.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::loss::Losses;
use super::series::{Series, Values};
use super::slots::{Profile, SlotTimes, medians, profile};
use super::spread::{Pair, Spread, autocorrelation};

/// Lags of the autocorrelation, probes.
const LAGS: [usize; 6] = [1, 2, 5, 10, 20, 50];

/// Distance between a run and a measurement. A part is absent if one of them has no samples for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distance {
    /// Round-trip times, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<Spread>,
    /// One-way delays from terminal to network, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_ms: Option<Spread>,
    /// One-way delays from network to terminal, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_ms: Option<Spread>,
    /// Throughput from network to terminal, Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_mbps: Option<Spread>,
    /// Throughput from terminal to network, Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_mbps: Option<Spread>,
    /// Medians of the slots' round-trip times, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_medians_ms: Option<Spread>,
    /// Profile of the run over a slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_profile: Vec<Profile>,
    /// Profile of the measurement over a slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured_profile: Vec<Profile>,
    /// Autocorrelation of round-trip times; `at` is the lag in probes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub autocorrelation: Vec<Pair>,
    /// Losses of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_losses: Option<Losses>,
    /// Losses of the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_losses: Option<Losses>,
}

impl Distance {
    /// Returns whether the two series have no kind of sample in common.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let spreads = [
            &self.rtt_ms,
            &self.up_ms,
            &self.down_ms,
            &self.down_mbps,
            &self.up_mbps,
        ];
        spreads.iter().all(|spread| spread.is_none())
    }

    /// Compares two series. Without `slots` it compares no slots.
    #[must_use]
    pub fn between(run: &Series, measured: &Series, slots: Option<SlotTimes>) -> Distance {
        let has_probes = !run.probes.is_empty() && !measured.probes.is_empty();
        let placed =
            |values: Vec<f64>| -> Values { values.into_iter().map(|v| (0.0, v)).collect() };
        let of_slots = |series: &Series| slots.map(|s| placed(medians(series, s)));
        let profile_of = |series: &Series| slots.map_or_else(Vec::new, |s| profile(series, s));
        let lags = LAGS.iter().filter_map(|&lag| {
            Some(Pair {
                at: lag as f64,
                run: autocorrelation(run, lag)?,
                measured: autocorrelation(measured, lag)?,
            })
        });
        let pair = of_slots(run).zip(of_slots(measured));
        Distance {
            rtt_ms: Spread::between(&run.rtts(), &measured.rtts()),
            up_ms: Spread::between(&run.up_ms, &measured.up_ms),
            down_ms: Spread::between(&run.down_ms, &measured.down_ms),
            down_mbps: Spread::between(&run.down_mbps, &measured.down_mbps),
            up_mbps: Spread::between(&run.up_mbps, &measured.up_mbps),
            slot_medians_ms: pair.and_then(|(a, b)| Spread::between(&a, &b)),
            run_profile: profile_of(run),
            measured_profile: profile_of(measured),
            autocorrelation: lags.collect(),
            run_losses: has_probes.then(|| Losses::of(run)),
            measured_losses: has_probes.then(|| Losses::of(measured)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Probe;

    #[test]
    fn equal_series_have_no_distance() {
        let probe = |n: u32| Probe {
            t_s: f64::from(n) / 10.0,
            rtt_ms: (!n.is_multiple_of(17)).then(|| 30.0 + f64::from(n * 7919 % 13)),
        };
        let series = Series {
            probes: (0..900).map(probe).collect(),
            down_mbps: vec![(0.0, 100.0), (1.0, 120.0)],
            ..Series::default()
        };
        let distance = Distance::between(&series, &series, Some(SlotTimes::default()));
        for spread in [
            &distance.rtt_ms,
            &distance.down_mbps,
            &distance.slot_medians_ms,
        ] {
            let spread = spread.as_ref().unwrap();
            assert_eq!((spread.w1, spread.ks), (0.0, 0.0));
            assert!(spread.quantiles.iter().all(|pair| pair.share() == 0.0));
        }
        assert_eq!(distance.up_mbps, None);
        assert_eq!(distance.run_losses, distance.measured_losses);
        assert_eq!(distance.run_profile, distance.measured_profile);
        assert_eq!(distance.autocorrelation.len(), LAGS.len());
        let without = Distance::between(&series, &series, None);
        assert_eq!(without.slot_medians_ms, None);
        assert!(without.run_profile.is_empty() && !without.is_empty());
        assert!(Distance::between(&series, &Series::default(), None).is_empty());
    }
}
