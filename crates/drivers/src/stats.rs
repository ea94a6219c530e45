//! Statistics that all drivers have in common.

pub use constel_link::{ClassLateness, StallStats};
use constel_link::{Nanos, PlaneReport, PortId, Quantiles, Totals};
use serde::Serialize;

use crate::DriverKind;

/// The cause under which frames in transit are counted.
pub const BACKLOG: &str = "backlog";

/// The cause of [`crate::Plane::lost_before_capture`].
pub const CAPTURE: &str = "capture";

/// Counters of a driver at an instant.
#[derive(Clone, Debug, Serialize)]
pub struct PlaneStats {
    /// The driver.
    pub driver: DriverKind,
    /// Sums over all edges. Drops that the scenario requests are included.
    pub totals: Totals,
    /// Frames dropped by the emulator, by cause. All counts are zero in a sound run. Frames counted under `backlog` may
    /// be in transit at the moment of the snapshot, so only a value that persists is meaningful.
    pub emulator_drops: Vec<(&'static str, u64)>,
    /// Actual minus due time of the frames released so far; empty for a driver that cannot measure it.
    pub lateness: Quantiles,
    /// Lateness without the part for which the machine is responsible; equal to `lateness` for drivers that cannot
    /// distinguish it.
    pub own_lateness: Quantiles,
    /// Times in which the machine kept the driver from running, for drivers that measure them.
    pub stalls: StallStats,
    /// Frames released before their time.
    pub early: u64,
    /// All counters of the driver, for reports and other programs.
    pub detail: PlaneReport,
}

impl PlaneStats {
    /// Returns the count of one cause of unintended drops.
    #[must_use]
    pub fn lost_to(&self, cause: &str) -> u64 {
        self.emulator_drops
            .iter()
            .find(|(name, _)| *name == cause)
            .map_or(0, |(_, count)| *count)
    }

    /// Returns the sum of all unintended drops except `backlog`.
    #[must_use]
    pub fn emulator_drops_total(&self) -> u64 {
        let counts = self
            .emulator_drops
            .iter()
            .filter(|(name, _)| *name != BACKLOG);
        counts.map(|(_, count)| count).sum()
    }

    /// Removes frames from `backlog` that were in transit at this snapshot and have arrived by `later`: they were not
    /// lost.
    pub fn settle_backlog(&mut self, later: &PlaneStats) {
        let now = later.lost_to(BACKLOG);
        for (_, count) in self
            .emulator_drops
            .iter_mut()
            .filter(|(name, _)| *name == BACKLOG)
        {
            if now < *count {
                *count = now;
                self.detail.emulator_drops.set(BACKLOG, now);
            }
        }
    }

    /// Adds the frames [lost before capture](crate::Plane::lost_before_capture).
    pub fn add_lost_before_capture(&mut self, frames: u64) {
        self.emulator_drops.push((CAPTURE, frames));
        self.detail.emulator_drops.set(CAPTURE, frames);
    }
}

/// A period in which frames to a port left later than the bound, one soon after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateSpell {
    /// The port that the frames went to.
    pub to: PortId,
    /// When the first of them was due, `CLOCK_MONOTONIC`.
    pub from_ns: Nanos,
    /// When the last of them left.
    pub to_ns: Nanos,
    /// Largest lateness of its frames.
    pub worst_ns: Nanos,
    /// Number of frames.
    pub frames: u64,
}

/// Spells since the last query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateSpells {
    /// The spells, in the order of their beginning for each port.
    pub spells: Vec<LateSpell>,
    /// Number of older ones that were dropped.
    pub forgotten: u64,
}

/// A period in which the relay's thread was ready but did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stall {
    /// Beginning, `CLOCK_MONOTONIC`.
    pub from_ns: Nanos,
    /// End.
    pub to_ns: Nanos,
    /// Upper bound of the part in which other tasks of this kernel occupied the processor.
    pub in_run_queue_ns: Nanos,
}
