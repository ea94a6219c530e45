//! The owner of the frames, and frames that leave the table.

use crate::counters::EdgeCounters;
use crate::packet::Traits;
use crate::types::{DropCause, Nanos, PortId};

/// Operations on frames that the table needs from their owner.
pub trait Frames<F> {
    /// Returns a second frame with the same content, for a further edge of a multicast frame. `None` when there is no
    /// room; the table counts that.
    fn duplicate(&mut self, frame: &F) -> Option<F>;

    /// Frees a dropped frame.
    fn discard(&mut self, frame: F, cause: DropCause);

    /// Flips one bit of the frame behind its Ethernet header: bit `draw` modulo the number of bits, so that the
    /// receiver's checksum detects it.
    fn flip_bit(&mut self, frame: &mut F, draw: u64);

    /// Returns the properties of the frame that queue disciplines use. It is called only if an edge has a discipline.
    /// By default all frames are one flow and cannot be marked.
    fn traits(&mut self, _: &F) -> Traits {
        Traits::default()
    }

    /// Sets the frame's ECN field to "congestion experienced" ([`packet::mark_ce`]). Only frames that
    /// [`Frames::traits`] reported as capable are marked.
    ///
    /// [`packet::mark_ce`]: crate::packet::mark_ce
    fn mark_ce(&mut self, _: &mut F) {}

    /// Returns whether the frame is new: neither forwarded by a node, nor sent in answer to a frame. By default no
    /// frame is new. If the host does not keep up, new frames wait for the others and are the first to be dropped
    /// ([`EdgeTable::set_patience`](crate::EdgeTable::set_patience)).
    fn is_new(&self, _: &F) -> bool {
        false
    }
}

/// A frame that has reached the far end of its edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<F> {
    /// Port it left.
    pub from: PortId,
    /// Port it reaches.
    pub to: PortId,
    /// Instant at which it should reach the port.
    pub due_ns: Nanos,
    /// Length of the frame.
    pub len_bytes: u32,
    /// The frame.
    pub frame: F,
}

/// The owner of the frames, together with the sum that counts drops.
pub(super) struct Counting<'a, S> {
    pub(super) frames: &'a mut S,
    pub(super) sum: &'a mut EdgeCounters,
}

impl<S> Counting<'_, S> {
    pub(super) fn discard<F>(&mut self, frame: F, cause: DropCause)
    where
        S: Frames<F>,
    {
        self.sum.count_drop(cause);
        self.frames.discard(frame, cause);
    }
}
