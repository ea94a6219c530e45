//! Round-trip times by the scheduler's slots: the median of each slot, and the profile within slots.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::series::Series;
use crate::quantiles::rank;

/// Fewest answered probes of a slot whose median counts: below it, a gap or the end of the series has cut the slot.
const LEAST_PROBES: usize = 10;

/// Times of the scheduler's slots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlotTimes {
    /// Length of a slot, seconds, above 0.
    pub period_s: f64,
    /// A slot's beginning, seconds after a full minute.
    pub phase_s: f64,
}

impl Default for SlotTimes {
    /// The slots of Starlink: 15 s, from second 12 of each minute on.
    fn default() -> SlotTimes {
        SlotTimes {
            period_s: 15.0,
            phase_s: 12.0,
        }
    }
}

/// Round-trip times at a distance from the beginning of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// Begin, seconds since the slot's beginning.
    pub from_s: f64,
    /// End, seconds.
    pub to_s: f64,
    /// Median, milliseconds.
    pub p50_ms: f64,
    /// 95 % of the times are below this one, milliseconds.
    pub p95_ms: f64,
}

/// Returns the median round-trip time of each slot with at least ten answered probes, milliseconds, in rising order.
#[must_use]
pub fn medians(series: &Series, slots: SlotTimes) -> Vec<f64> {
    let rtts = series.rtts();
    let number = |t_s: f64| ((t_s - slots.phase_s) / slots.period_s).floor() as i64;
    let of_slots = rtts.chunk_by(|a, b| number(a.0) == number(b.0));
    let mut medians: Vec<f64> = of_slots
        .filter(|slot| slot.len() >= LEAST_PROBES)
        .map(|slot| {
            let mut values: Vec<f64> = slot.iter().map(|v| v.1).collect();
            values.sort_by(f64::total_cmp);
            rank(&values, 0.5)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    medians
}

/// Returns the profile of round-trip times over a slot: half seconds up to 2 s, and the rest. Parts without probes are
/// left out.
#[must_use]
pub fn profile(series: &Series, slots: SlotTimes) -> Vec<Profile> {
    let edges = [0.0, 0.5, 1.0, 1.5, 2.0, f64::INFINITY];
    let rtts = series.rtts();
    let parts = edges.windows(2).filter_map(|edge| {
        let (from_s, to_s) = (edge[0].min(slots.period_s), edge[1].min(slots.period_s));
        let within = rtts.iter().filter(|(t_s, _)| {
            let at = (t_s - slots.phase_s).rem_euclid(slots.period_s);
            (from_s..to_s).contains(&at)
        });
        let mut values: Vec<f64> = within.map(|v| v.1).collect();
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then(|| Profile {
            from_s,
            to_s,
            p50_ms: rank(&values, 0.5),
            p95_ms: rank(&values, 0.95),
        })
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Probe;

    #[test]
    fn a_slow_first_second_shows_in_the_profile_and_slots_in_the_medians() {
        let probe = |n: usize| {
            let t_s = 12.0 + n as f64 / 10.0;
            let slot = (n / 150) as f64;
            let start = if n % 150 < 10 { 40.0 } else { 0.0 };
            Probe {
                t_s,
                rtt_ms: Some(30.0 + slot + start),
            }
        };
        let series = Series {
            probes: (0..455).map(probe).collect(),
            ..Series::default()
        };
        // The fourth slot has five probes only.
        assert_eq!(medians(&series, SlotTimes::default()), [30.0, 31.0, 32.0]);
        let profile = profile(&series, SlotTimes::default());
        assert_eq!(profile.len(), 5);
        assert_eq!((profile[1].from_s, profile[1].p50_ms), (0.5, 71.0));
        assert_eq!((profile[4].to_s, profile[4].p95_ms), (15.0, 32.0));
    }
}
