//! Service in parts of a blocked slot, as behind a tree: a chain of two states in time.

use super::draw::{For, Terminal};
use super::parts::{Access, Partial};
use super::slot::Slot;
use crate::types::Nanos;

/// Ticks of the chain in the shorter of its two mean lengths. The state changes at ticks only, so lengths are geometric
/// with the given means: the more ticks, the closer to exponential, and the more draws for each frame.
const TICKS_IN_MEAN: u64 = 8;

impl Terminal {
    /// Returns whether a frame that is ready at `at` waits for the end of a gap, as far as its queue keeps frames. Each
    /// gap has its own limit: the queue is that of a link that is found again at some phase of its timers.
    pub(super) fn holds(&self, most_ns: u64, at: Nanos, end_ns: Nanos) -> bool {
        let hold_ns = (self.unit(For::Hold, end_ns) * most_ns as f64) as u64;
        end_ns - at <= hold_ns
    }
}

/// The chain of one slot.
struct Chain<'a> {
    partial: Partial,
    terminal: &'a Terminal,
    begin_ns: Nanos,
    tick_ns: u64,
}

impl Chain<'_> {
    fn instant(&self, tick: u64) -> Nanos {
        self.begin_ns
            .saturating_add(tick.saturating_mul(self.tick_ns))
    }

    /// Returns whether there is no service from a tick to the next one. As for rows of slots, some draws decide whatever
    /// the state before, and all others keep it; the first tick has the shares of the long run.
    fn blocked(&self, tick: u64) -> bool {
        let Partial {
            blocked_ns,
            clear_ns,
            ..
        } = self.partial;
        let leaves = |mean_ns: u64| self.tick_ns as f64 / mean_ns as f64;
        let (begin, end) = (leaves(clear_ns), leaves(blocked_ns));
        for back in (1..=tick).rev() {
            let place = self.terminal.unit(For::PartialState, self.instant(back));
            if place < begin {
                return true;
            }
            if place >= 1.0 - end {
                return false;
            }
        }
        self.terminal.unit(For::PartialState, self.begin_ns) < begin / (begin + end)
    }
}

impl Access {
    /// Returns the first instant from `at` on at which a slot has service; `None` if this is beyond its wait.
    pub(super) fn service_from(
        &self,
        slot: &Slot,
        terminal: &Terminal,
        at: Nanos,
    ) -> Option<Nanos> {
        let partial = self.blockage.and_then(|chain| chain.partial);
        let Some(partial) = partial.filter(|_| slot.partial && slot.time.contains(at)) else {
            return Some(at);
        };
        let chain = Chain {
            partial,
            terminal,
            begin_ns: slot.time.begin_ns,
            tick_ns: partial.blocked_ns.min(partial.clear_ns) / TICKS_IN_MEAN,
        };
        let now = (at - chain.begin_ns) / chain.tick_ns;
        if !chain.blocked(now) {
            return Some(at);
        }
        // Ticks beyond the longest wait need no draw.
        let mut tick = now + 1;
        loop {
            let end_ns = chain.instant(tick).min(slot.time.end_ns);
            if end_ns - at > partial.hold_ns {
                return None;
            }
            if end_ns == slot.time.end_ns || !chain.blocked(tick) {
                return terminal
                    .holds(partial.hold_ns, at, end_ns)
                    .then_some(end_ns);
            }
            tick += 1;
        }
    }
}
