//! What drivers count, in words that all of them have in common.

pub use constel_link::{ClassLateness, StallStats};
use constel_link::{Nanos, PlaneReport, PortId, Quantiles, Totals};
use serde::Serialize;

use crate::DriverKind;

/// The cause that frames under way are counted under.
pub const BACKLOG: &str = "backlog";

/// The cause of [`crate::Plane::lost_before_capture`].
pub const CAPTURE: &str = "capture";

/// A driver at an instant.
#[derive(Clone, Debug, Serialize)]
pub struct PlaneStats {
    /// Which driver.
    pub driver: DriverKind,
    /// Sums over all edges; drops the scenario asked for are in here.
    pub totals: Totals,
    /// Frames lost by the emulator itself, by cause. All zero in a sound run. Frames counted under `backlog` may
    /// be on their way at the moment of the snapshot, so only a value that stays says something.
    pub unintended: Vec<(&'static str, u64)>,
    /// Actual minus due time of the frames released so far; without values for a driver that cannot know.
    pub lateness: Quantiles,
    /// Of that, what the machine is not to blame for; for drivers that cannot tell, the same.
    pub own_lateness: Quantiles,
    /// When the machine kept the driver from running, for drivers that can tell.
    pub stalls: StallStats,
    /// Frames released before their time.
    pub early: u64,
    /// Everything the driver counts, for people and programs to read.
    pub detail: PlaneReport,
}

impl PlaneStats {
    /// The count of one cause of unintended drops.
    #[must_use]
    pub fn lost_to(&self, cause: &str) -> u64 {
        self.unintended
            .iter()
            .find(|(name, _)| *name == cause)
            .map_or(0, |(_, count)| *count)
    }

    /// All unintended drops, without `backlog`.
    #[must_use]
    pub fn unintended_total(&self) -> u64 {
        let counts = self.unintended.iter().filter(|(name, _)| *name != BACKLOG);
        counts.map(|(_, count)| count).sum()
    }

    /// Frames that were on their way at this snapshot and have arrived by `later` were not lost.
    pub fn settle_backlog(&mut self, later: &PlaneStats) {
        let now = later.lost_to(BACKLOG);
        for (_, count) in self
            .unintended
            .iter_mut()
            .filter(|(name, _)| *name == BACKLOG)
        {
            if now < *count {
                *count = now;
                self.detail.unintended.set(BACKLOG, now);
            }
        }
    }

    /// Adds what was [lost before capture](crate::Plane::lost_before_capture).
    pub fn add_lost_before_capture(&mut self, frames: u64) {
        self.unintended.push((CAPTURE, frames));
        self.detail.unintended.set(CAPTURE, frames);
    }
}

/// A stretch of time in which frames to a port left later than the bound, one soon after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateSpell {
    /// The port that the frames went to.
    pub to: PortId,
    /// When the first of them was due, `CLOCK_MONOTONIC`.
    pub from_ns: Nanos,
    /// When the last of them left.
    pub to_ns: Nanos,
    /// How late the latest was.
    pub worst_ns: Nanos,
    /// How many.
    pub frames: u64,
}

/// Spells since they were last asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateSpells {
    /// In order of their beginning on a port.
    pub spells: Vec<LateSpell>,
    /// How many older ones are not known any more.
    pub forgotten: u64,
}

/// The relay's thread wanted to run and did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stall {
    /// Since when, `CLOCK_MONOTONIC`.
    pub from_ns: Nanos,
    /// Until when.
    pub to_ns: Nanos,
    /// How much of it other tasks of this kernel held the processor, at most.
    pub in_run_queue_ns: Nanos,
}
