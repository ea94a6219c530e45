//! The order in which many paced flows send, in O(log n).

use crate::Nanos;
use crate::table::SlotId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Heap of (time, flow). An entry may be stale: the flow has the valid time.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    heap: BinaryHeap<Reverse<(Nanos, SlotId)>>,
}

impl Schedule {
    /// Plans flow `id` for `at`, given its present plan; returns the valid plan. Only an earlier
    /// time makes a new entry.
    pub(crate) fn plan(&mut self, id: SlotId, at: Nanos, so_far: Option<Nanos>) -> Option<Nanos> {
        match so_far {
            Some(t) if t <= at => Some(t),
            _ => {
                self.heap.push(Reverse((at, id)));
                Some(at)
            }
        }
    }

    /// Returns the next flow that is due.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, SlotId)> {
        let &Reverse((at, _)) = self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop().map(|Reverse(x)| x)
    }

    /// Earliest planned time.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((t, _))| *t)
    }
}
