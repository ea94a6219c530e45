//! Counters of an edge.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::DropCause;

/// Makes [`EdgeCounters`] from one table.
macro_rules! counters {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        /// Frames of one edge (or a sum over edges) since its start.
        ///
        /// The equation `offered + duplicated = delivered + dropped() + held` holds at every instant.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
        pub struct EdgeCounters {
            $(
                $(#[$attribute])*
                pub $name: u64,
            )*
        }

        impl EdgeCounters {
            /// Adds the counts of another edge, or of another life of the same edge.
            pub fn add(&mut self, other: &EdgeCounters) {
                $(self.$name += other.$name;)*
            }

            /// Returns the counts since `before`, an earlier state of the same edge.
            #[must_use]
            pub fn since(&self, before: &EdgeCounters) -> EdgeCounters {
                EdgeCounters { $($name: self.$name - before.$name,)* }
            }

            /// Returns a counter by its name.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

counters! {
    /// Frames that reached the edge.
    offered,
    /// Bytes of the offered frames.
    offered_bytes,
    /// Frames released to the far port.
    delivered,
    /// Bytes of the delivered frames.
    delivered_bytes,
    /// Copies of frames that the edge made.
    #[serde(default)]
    duplicated,
    /// Frames delivered with a bit flipped.
    #[serde(default)]
    corrupted,
    /// Frames delivered with the mark "congestion experienced" of the edge's queue discipline.
    #[serde(default)]
    marked,
    /// Frames dropped because the queue was full.
    dropped_queue,
    /// Frames dropped by the queue discipline before the queue was full.
    #[serde(default)]
    dropped_aqm,
    /// Frames dropped by the loss law.
    dropped_loss,
    /// Frames that arrived before the edge was up, or while it had failed.
    dropped_outage,
    /// Frames that waited for service when the edge was removed or failed.
    dropped_removed,
    /// Copies that could not be made because no buffer was free (dropped by the emulator).
    dropped_no_buffer,
    /// Frames dropped because the host did not keep up and they were far too late (dropped by the emulator).
    #[serde(default)]
    dropped_overload,
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
