//! What is due when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens at an instant. The order is that of things at the same instant: what ends makes room before what
/// begins, and who decides does so before it can hear who decided at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The frame with this number ends at a receiver.
    Ends { receiver: usize, number: u64 },
    /// The frame with this number has left the port that sent it.
    Left { port: usize, number: u64 },
    /// A port may send, unless it has changed its mind since: decisions are counted.
    MaySend { port: usize, decision: u64 },
    /// The frame with this number reaches a receiver.
    Reaches { receiver: usize, number: u64 },
}

/// Everything that is due.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<(u64, Due)>>,
}

impl Agenda {
    pub(crate) fn add(&mut self, at_ns: u64, due: Due) {
        self.heap.push(Reverse((at_ns, due)));
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// The first that is due at `now_ns`.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<(u64, Due)> {
        let due = self.next_ns().is_some_and(|at_ns| at_ns <= now_ns);
        if !due {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}
