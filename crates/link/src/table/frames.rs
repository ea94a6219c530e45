//! Whose the frames are, and how they come out.

use crate::counters::EdgeCounters;
use crate::packet::Traits;
use crate::types::{DropCause, Nanos, PortId};

/// What the table asks of whoever owns the frames.
pub trait Frames<F> {
    /// A second frame with the same content, for a further edge of a multicast frame. `None` when
    /// there is no room; the table counts that.
    fn duplicate(&mut self, frame: &F) -> Option<F>;

    /// The frame goes no further.
    fn discard(&mut self, frame: F, cause: DropCause);

    /// Flip one bit of the frame behind its Ethernet header, number `draw` modulo the bits there
    /// are, so that the receiver's checksum sees it.
    fn flip_bit(&mut self, frame: &mut F, draw: u64);

    /// What a queue discipline wants to know of the frame; asked only where an edge has one. As it
    /// stands here: all frames are one flow, and none can be marked.
    fn traits(&mut self, _: &F) -> Traits {
        Traits::default()
    }

    /// Set the frame's ECN field to "congestion experienced" ([`packet::mark_ce`]). Only frames
    /// that [`Frames::traits`] called capable are marked.
    ///
    /// [`packet::mark_ce`]: crate::packet::mark_ce
    fn mark_ce(&mut self, _: &mut F) {}

    /// Whether the frame is new: not one that a node passed on, or sent in answer to a frame. As it stands here: none is.
    /// Where the host does not keep up, new frames wait for the others, and are the first to be let go
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
    /// When it should reach it.
    pub due_ns: Nanos,
    /// Its length.
    pub len_bytes: u32,
    /// The frame.
    pub frame: F,
}

/// The owner of the frames, with the drops counted on the way.
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
