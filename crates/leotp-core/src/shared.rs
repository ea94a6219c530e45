//! What the Consumers of one flow share at a Midnode: Interests on their way, and
//! who else waits for the answers (section VII, Multicast).

use super::table::SlotId;
use crate::Nanos;
use crate::wire::Range;
use std::collections::{BTreeMap, BTreeSet};

/// An Interest on its way upstream. Kept only for flows with more than one Consumer.
pub(crate) struct Pending {
    end: u64,
    owner: SlotId,
    at: Nanos,
    waiters: BTreeSet<SlotId>,
}

/// What Consumers of one flow share.
#[derive(Default)]
pub(crate) struct Shared {
    /// How many they are.
    pub(crate) legs: u32,
    pub(crate) fin: Option<u64>,
    pending: BTreeMap<u64, Pending>,
    /// When `pending` was last full and looked through.
    cleared: Option<Nanos>,
}

/// Entries of the aggregation table per flow.
const MAX_PENDING: usize = 16_384;

impl Shared {
    /// Joins `leg` to an Interest already on its way for all of `r`, sent for
    /// another leg not longer than `ttl` ago.
    pub(crate) fn join(&mut self, now: Nanos, ttl: Nanos, leg: SlotId, r: Range) -> bool {
        match self.pending.range_mut(..=r.start).next_back() {
            Some((_, p)) if p.end >= r.end && p.owner != leg && now.saturating_sub(p.at) <= ttl => {
                p.waiters.insert(leg);
                true
            }
            _ => false,
        }
    }

    /// Notes an Interest sent for `leg`.
    pub(crate) fn sent(&mut self, now: Nanos, ttl: Nanos, leg: SlotId, r: Range) {
        if self.legs < 2 {
            return;
        }
        if self.pending.len() >= MAX_PENDING && !self.make_room(now, ttl) {
            return;
        }
        let waiters = self
            .pending
            .remove(&r.start)
            .map_or_else(BTreeSet::new, |p| p.waiters);
        self.pending.insert(
            r.start,
            Pending {
                end: r.end,
                owner: leg,
                at: now,
                waiters,
            },
        );
    }

    /// Forgets what was sent longer than `ttl` ago, at most twice in that time: a
    /// full table must not be looked through for every packet.
    fn make_room(&mut self, now: Nanos, ttl: Nanos) -> bool {
        if self
            .cleared
            .is_some_and(|t| now.saturating_sub(t) < ttl / 2)
        {
            return false;
        }
        self.cleared = Some(now);
        self.pending.retain(|_, p| now.saturating_sub(p.at) <= ttl);
        self.pending.len() < MAX_PENDING
    }

    /// Legs that wait for bytes of `r`, which have now arrived. Some may be gone.
    pub(crate) fn arrived(&mut self, r: Range) -> BTreeSet<SlotId> {
        if self.pending.is_empty() {
            return BTreeSet::new();
        }
        let touched: Vec<u64> = self
            .pending
            .range(..r.end)
            .rev()
            .take_while(|(_, p)| p.end > r.start)
            .map(|(&s, _)| s)
            .collect();
        let mut out = BTreeSet::new();
        for s in touched {
            let Some(p) = self.pending.get_mut(&s) else {
                continue;
            };
            if p.end <= r.end {
                out.append(&mut p.waiters);
                self.pending.remove(&s);
            } else {
                out.extend(&p.waiters);
            }
        }
        out
    }

    /// Parts of `r` awaited on behalf of legs other than `leg`.
    pub(crate) fn awaited_by_others(&self, leg: SlotId, r: Range) -> Vec<Range> {
        let hit = self
            .pending
            .range(..r.end)
            .rev()
            .take_while(|(_, p)| p.end > r.start);
        hit.filter(|(_, p)| p.owner != leg)
            .map(|(&start, p)| Range { start, end: p.end })
            .collect()
    }
}
