//! Statistics that all drivers have in common.

pub use constel_link::{ClassLateness, StallStats};
use constel_link::{Nanos, PlaneReport, PortId};
use serde::Serialize;

/// The cause under which frames in transit are counted.
pub const BACKLOG: &str = "backlog";

/// The cause of [`crate::Plane::lost_before_capture`].
pub const CAPTURE: &str = "capture";

/// Removes frames from `backlog` that were in transit at the first snapshot and have arrived by the later one: they were not
/// lost.
pub fn settle_backlog(before: &mut PlaneReport, later: &PlaneReport) {
    let lost = &mut before.emulator_drops;
    let now = later.emulator_drops.get(BACKLOG);
    if now < lost.get(BACKLOG) {
        lost.set(BACKLOG, now);
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
