//! Periods in which frames to a port left late. They show whether one flow was affected or all.
//!
//! A quantile over all frames hides a quiet flow beside a busy one. Therefore spells are recorded: periods in which
//! frames to a port left later than a bound, one soon after the other.

use std::collections::VecDeque;

use constel_link::{Nanos, PortId};

use crate::stats::{LateSpell, LateSpells};

/// Default bound.
pub(crate) const BOUND_NS: Nanos = 1_000_000;
/// Spells kept until they are taken; the oldest are dropped first.
const KEPT: usize = 16_384;
/// Number of the latest spells that are searched for one of the same port that continues.
const LOOKED_AT: usize = 64;

/// The thread's record.
#[derive(Debug)]
pub(crate) struct LateFrames {
    bound_ns: Nanos,
    spells: VecDeque<LateSpell>,
    forgotten: u64,
}

impl LateFrames {
    pub(crate) fn new() -> LateFrames {
        LateFrames {
            bound_ns: BOUND_NS,
            spells: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// Sets the lateness above which frames are recorded from now on.
    pub(crate) fn beyond(&mut self, bound_ns: Nanos) {
        self.bound_ns = bound_ns;
    }

    /// Records that a frame to this port was due at one instant and sent at another.
    pub(crate) fn note(&mut self, to: PortId, due: Nanos, sent: Nanos) {
        let late = sent.saturating_sub(due);
        if late <= self.bound_ns {
            return;
        }
        let bound_ns = self.bound_ns;
        let goes_on =
            |spell: &&mut LateSpell| spell.to == to && spell.to_ns.saturating_add(bound_ns) >= due;
        // Frames to several ports alternate, so the spell need not be the latest one.
        let mut latest = self.spells.iter_mut().rev().take(LOOKED_AT);
        if let Some(spell) = latest.find(goes_on) {
            spell.from_ns = spell.from_ns.min(due);
            spell.to_ns = spell.to_ns.max(sent);
            spell.worst_ns = spell.worst_ns.max(late);
            spell.frames += 1;
            return;
        }
        if self.spells.len() == KEPT {
            self.spells.pop_front();
            self.forgotten += 1;
        }
        self.spells.push_back(LateSpell {
            to,
            from_ns: due,
            to_ns: sent,
            worst_ns: late,
            frames: 1,
        });
    }

    /// Returns the spells recorded since the last call.
    pub(crate) fn take(&mut self) -> LateSpells {
        LateSpells {
            spells: self.spells.drain(..).collect(),
            forgotten: std::mem::take(&mut self.forgotten),
        }
    }

    pub(crate) fn clear(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn frames_late_one_after_the_other_are_one_spell_of_their_port() {
        let mut late = LateFrames::new();
        let (a, b) = (PortId(1), PortId(2));
        // On time, and just within the bound.
        late.note(a, 10 * MS, 10 * MS);
        late.note(a, 10 * MS, 11 * MS);
        late.note(a, 20 * MS, 25 * MS);
        late.note(b, 21 * MS, 25 * MS);
        late.note(a, 22 * MS, 26 * MS);
        // Long after.
        late.note(a, 40 * MS, 42 * MS);
        let spell = |to, from: Nanos, until: Nanos, worst: Nanos, frames| LateSpell {
            to,
            from_ns: from * MS,
            to_ns: until * MS,
            worst_ns: worst * MS,
            frames,
        };
        let expected = [
            spell(a, 20, 26, 5, 2),
            spell(b, 21, 25, 4, 1),
            spell(a, 40, 42, 2, 1),
        ];
        let taken = late.take();
        assert_eq!(taken.spells, expected);
        assert_eq!(taken.forgotten, 0);
        assert!(late.take().spells.is_empty());
        late.beyond(10 * MS);
        late.note(a, 50 * MS, 60 * MS);
        assert!(late.take().spells.is_empty());
    }

    #[test]
    fn of_very_many_the_latest_are_kept_and_the_others_counted() {
        let mut late = LateFrames::new();
        for k in 0..KEPT as u64 + 7 {
            late.note(PortId(1), k * 10 * MS, k * 10 * MS + 2 * MS);
        }
        let taken = late.take();
        assert_eq!((taken.spells.len(), taken.forgotten), (KEPT, 7));
        assert_eq!(taken.spells[0].from_ns, 70 * MS);
    }
}
