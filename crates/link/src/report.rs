//! Report of a link driver: figures that all drivers have, and each driver's own counters.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::capabilities::DriverKind;
use crate::histogram::{Histogram, Quantiles};
use crate::table::Totals;
use crate::types::Nanos;

/// Figures of a link driver at an instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlaneReport {
    /// The driver. Results of earlier versions, in which the relay omitted this field, are the relay's.
    #[serde(default = "relay")]
    pub driver: DriverKind,
    /// Instant of the report, on `CLOCK_MONOTONIC`.
    pub at_ns: Nanos,
    /// Sums over all edges, including past ones. Drops that the scenario requests are included.
    pub totals: Totals,
    /// Frames dropped by the emulator, by cause. All counts are zero in a sound run.
    pub emulator_drops: Causes,
    /// Actual minus due time of the frames released so far; `None` for a driver that cannot measure it.
    pub lateness: Option<Quantiles>,
    /// Lateness without the time for which the machine is responsible; absent for drivers that cannot measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_lateness: Option<Quantiles>,
    /// Numbers of frames by lateness. The difference of two reports describes the time between them. Absent for drivers
    /// that cannot measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_frames: Option<LateFrames>,
    /// Times in which the machine kept the driver from running; absent for drivers that cannot measure them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<StallStats>,
    /// Frames released before their time; absent for a driver that cannot measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early: Option<u64>,
    /// All other counters of the driver, by its own names; `docs/reference/drivers.md` explains them.
    #[serde(flatten)]
    pub counters: BTreeMap<String, u64>,
}

/// Bounds of [`LateFrames`].
const LATE_BOUNDS: usize = 25;

/// Numbers of frames by lateness: two lists of the same length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LateFrames {
    /// Bounds in nanoseconds, rising.
    pub up_to_ns: [Nanos; LATE_BOUNDS],
    /// Numbers of frames that were not later than the bound.
    pub frames: [u64; LATE_BOUNDS],
}

impl LateFrames {
    /// Counts frames from a histogram of their lateness. The bounds start at 5 us, and each is 1.5 times the one
    /// before, up to 84 ms.
    #[must_use]
    pub fn of(lateness: &Histogram) -> Self {
        // From 5 us to 84 ms, each bound 1.5 times the one before.
        let up_to_ns =
            std::array::from_fn(|power| (5e3 * 1.5_f64.powi(power as i32)).round() as Nanos);
        let frames = up_to_ns.map(|bound| lateness.not_above(bound));
        Self { up_to_ns, frames }
    }
}

fn relay() -> DriverKind {
    DriverKind::Relay
}

/// Sums over the times in which the driver's thread was ready to run and did not run, or ran slowly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StallStats {
    /// Number of stalls of 0.2 ms or more.
    pub count: u64,
    /// Total duration, nanoseconds.
    pub total_ns: Nanos,
    /// Longest stall, nanoseconds.
    pub longest_ns: Nanos,
    /// Part of the total in which other tasks of this kernel occupied the processor, nanoseconds.
    pub in_run_queue_ns: Nanos,
    /// Time in which the thread's processor had less than half of its highest observed speed, nanoseconds; not part of
    /// the total.
    #[serde(default)]
    pub slow_ns: Nanos,
    /// Lowest speed of that processor relative to the highest. `None`: the driver does not measure it.
    #[serde(default)]
    pub least_speed_ratio: Option<f64>,
}

/// Lateness of the frames of a class of edges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassLateness {
    /// The class: `isl`, `gsl` or `cable`.
    pub class: String,
    /// Actual minus due time.
    pub lateness: Quantiles,
    /// Lateness without the time in which the machine kept the driver's thread from running.
    pub own_lateness: Quantiles,
}

/// Counts by cause, in the driver's order; serialized as an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes(Vec<(String, u64)>);

impl Causes {
    /// Returns all causes with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(cause, count)| (cause.as_str(), *count))
    }

    /// Returns the count of one cause; 0 if the driver does not report it.
    #[must_use]
    pub fn get(&self, cause: &str) -> u64 {
        let found = self.iter().find(|(name, _)| *name == cause);
        found.map_or(0, |(_, count)| count)
    }

    /// Sets the count of one cause.
    pub fn set(&mut self, cause: &str, count: u64) {
        match self.0.iter_mut().find(|(name, _)| name == cause) {
            Some((_, known)) => *known = count,
            None => self.0.push((cause.to_owned(), count)),
        }
    }

    /// Returns the sum of all counts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, count)| count).sum()
    }
}

impl<S: Into<String>> FromIterator<(S, u64)> for Causes {
    fn from_iter<I: IntoIterator<Item = (S, u64)>>(counts: I) -> Self {
        let counts = counts.into_iter();
        Self(counts.map(|(cause, n)| (cause.into(), n)).collect())
    }
}

impl Serialize for Causes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (cause, count) in self.iter() {
            map.serialize_entry(cause, &count)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Causes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Deserializing through a sorted map would lose the order of the causes.
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Causes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("counts by cause")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Causes, A::Error> {
                let mut causes = Causes::default();
                while let Some((cause, count)) = map.next_entry::<String, u64>()? {
                    causes.set(&cause, count);
                }
                Ok(causes)
            }
        }
        from.deserialize_map(InOrder)
    }
}

impl JsonSchema for Causes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Causes".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        BTreeMap::<String, u64>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_frames_are_counted_up_to_bounds() {
        let mut lateness = Histogram::new();
        lateness.record_n(1_000, 3);
        lateness.record(6_000);
        lateness.record(400_000_000);
        let late = LateFrames::of(&lateness);
        assert_eq!((late.up_to_ns[0], late.up_to_ns[1]), (5_000, 7_500));
        assert_eq!((late.up_to_ns.len(), late.up_to_ns[24]), (25, 84_170_561));
        assert_eq!(late.frames[..3], [3, 4, 4]);
        assert_eq!(late.frames[24], 4);
    }

    #[test]
    fn a_report_is_read_back_as_it_was_written() {
        let mut emulator_drops: Causes = [("ring", 2), ("backlog", 5)].into_iter().collect();
        emulator_drops.set("backlog", 1);
        emulator_drops.set("capture", 3);
        let report = PlaneReport {
            driver: DriverKind::Edt,
            at_ns: 7,
            totals: Totals::default(),
            emulator_drops,
            lateness: None,
            own_lateness: None,
            late_frames: None,
            stalls: Some(StallStats::default()),
            early: Some(0),
            counters: [("in_fq".to_owned(), 9)].into(),
        };
        let text = serde_json::to_string(&report).unwrap();
        assert!(!text.contains("late_frames"));
        assert!(
            text.contains(r#""emulator_drops":{"ring":2,"backlog":1,"capture":3},"lateness":null"#)
        );
        assert!(text.contains(r#""in_fq":9"#) && !text.contains("own_lateness"));
        assert_eq!(serde_json::from_str::<PlaneReport>(&text).unwrap(), report);
        assert_eq!(report.emulator_drops.total(), 6);
    }
}
