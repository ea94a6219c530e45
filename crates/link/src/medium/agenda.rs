//! Events of a channel, ordered by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event at an instant. The order of the variants is that of events at the same instant: frames end before others
/// begin, and a port decides before it can hear the frame of another port that decided at the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The frame with this number ends at a receiver.
    Ends { receiver: usize, number: u64 },
    /// The frame with this number has left the port that sent it.
    Left { port: usize, number: u64 },
    /// A port may send, unless it has decided again since: decisions are numbered.
    MaySend { port: usize, decision: u64 },
    /// The frame with this number reaches a receiver.
    Reaches { receiver: usize, number: u64 },
}

/// All pending events.
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

    /// Takes the first event due by `now_ns`.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<(u64, Due)> {
        let due = self.next_ns().is_some_and(|at_ns| at_ns <= now_ns);
        if !due {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}
