//! Counters of an edge.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::DropCause;

/// Frames of one edge (or a sum over edges) since its start.
///
/// The equation `offered + duplicated = delivered + dropped() + held` holds at every instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct EdgeCounters {
    /// Frames that reached the edge.
    pub offered: u64,
    /// Bytes of the offered frames.
    pub offered_bytes: u64,
    /// Frames released to the far port.
    pub delivered: u64,
    /// Bytes of the delivered frames.
    pub delivered_bytes: u64,
    /// Copies of frames that the edge made.
    #[serde(default)]
    pub duplicated: u64,
    /// Frames delivered with a bit flipped.
    #[serde(default)]
    pub corrupted: u64,
    /// Frames delivered with the mark "congestion experienced" of the edge's queue discipline.
    #[serde(default)]
    pub marked: u64,
    /// Frames dropped because the queue was full.
    pub dropped_queue: u64,
    /// Frames dropped by the queue discipline before the queue was full.
    #[serde(default)]
    pub dropped_aqm: u64,
    /// Frames dropped by the loss law.
    pub dropped_loss: u64,
    /// Frames that arrived before the edge was up, or while it had failed.
    pub dropped_outage: u64,
    /// Frames that waited for service when the edge was removed or failed.
    pub dropped_removed: u64,
    /// Copies that could not be made because no buffer was free (dropped by the emulator).
    pub dropped_no_buffer: u64,
    /// Frames dropped because the host did not keep up and they were far too late (dropped by the emulator).
    #[serde(default)]
    pub dropped_overload: u64,
}

impl EdgeCounters {
    /// Returns the number of dropped frames, for all causes.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_queue
            + self.dropped_aqm
            + self.dropped_loss
            + self.dropped_outage
            + self.dropped_removed
            + self.dropped_no_buffer
            + self.dropped_overload
    }

    /// Adds the counts of another edge, or of another life of the same edge.
    pub fn add(&mut self, other: &EdgeCounters) {
        self.offered += other.offered;
        self.offered_bytes += other.offered_bytes;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.duplicated += other.duplicated;
        self.corrupted += other.corrupted;
        self.marked += other.marked;
        self.dropped_queue += other.dropped_queue;
        self.dropped_aqm += other.dropped_aqm;
        self.dropped_loss += other.dropped_loss;
        self.dropped_outage += other.dropped_outage;
        self.dropped_removed += other.dropped_removed;
        self.dropped_no_buffer += other.dropped_no_buffer;
        self.dropped_overload += other.dropped_overload;
    }

    pub(crate) fn count_drop(&mut self, cause: DropCause) {
        match cause {
            DropCause::Queue => self.dropped_queue += 1,
            DropCause::Aqm => self.dropped_aqm += 1,
            DropCause::Loss => self.dropped_loss += 1,
            DropCause::Outage => self.dropped_outage += 1,
            DropCause::Removed => self.dropped_removed += 1,
            DropCause::NoBuffer => self.dropped_no_buffer += 1,
            DropCause::Overload => self.dropped_overload += 1,
            // Such a frame never reached an edge; the table counts it.
            DropCause::NoEdge => {}
        }
    }
}
