//! State that the Consumers of one flow share at a Midnode: Interests sent upstream, and the legs
//! that wait for their answers (section VII, Multicast).

use super::table::SlotId;
use crate::wire::{DATA_HEADER_MAX, Range};
use crate::{Nanos, RangeSet};
use std::collections::BTreeMap;

/// An Interest sent upstream. Kept only for flows with more than one Consumer.
pub(crate) struct Pending {
    end: u64,
    owner: SlotId,
    at: Nanos,
    waiters: BTreeMap<SlotId, Waiter>,
}

/// The share of the answers of a leg that joined another's Interest: the bytes that it has
/// requested itself, and no more than its own Interests may be answered with. It does not pay for
/// the size and the padding of the Interest that it joined.
#[derive(Default)]
struct Waiter {
    wanted: RangeSet,
    left: u64,
}

/// Ranges of one Interest that a leg may wait for.
const MAX_WANTED: usize = 64;

/// The shared state of one flow's Consumers.
#[derive(Default)]
pub(crate) struct Shared {
    /// The number of Consumers.
    pub(crate) legs: u32,
    pub(crate) fin: Option<u64>,
    pending: BTreeMap<u64, Pending>,
    /// The time when `pending` was last full and cleared.
    cleared: Option<Nanos>,
}

/// Entries of the aggregation table per flow.
const MAX_PENDING: usize = 16_384;

impl Shared {
    /// Joins `leg` to an Interest already sent for all of `r`, for another leg and not longer
    /// than `ttl` ago. The leg's answers, headers included, are charged to `budget`, which its
    /// own Interest has brought.
    pub(crate) fn join(
        &mut self,
        now: Nanos,
        ttl: Nanos,
        leg: SlotId,
        r: Range,
        budget: &mut u64,
    ) -> bool {
        let Some((_, p)) = self.pending.range_mut(..=r.start).next_back() else {
            return false;
        };
        // An older Interest's answer may be lost: waiting for it could take until the timeout.
        if p.end < r.end || p.owner == leg || now.saturating_sub(p.at) > ttl {
            return false;
        }
        let waiter = p.waiters.entry(leg).or_default();
        if waiter.wanted.count() >= MAX_WANTED {
            return false;
        }
        waiter.wanted.insert(r);
        // The answers' packets may be smaller than ours and begin elsewhere, which costs more
        // headers.
        let enough = r.len().saturating_mul(2) + 4 * DATA_HEADER_MAX as u64;
        let share = enough.min(*budget);
        *budget -= share;
        waiter.left = waiter.left.saturating_add(share);
        true
    }

    /// Notes an Interest sent for `leg`.
    pub(crate) fn sent(&mut self, now: Nanos, ttl: Nanos, leg: SlotId, r: Range) {
        // With a single Consumer there is no other to join, and the table stays empty.
        if self.legs < 2 {
            return;
        }
        if self.pending.len() >= MAX_PENDING && !self.make_room(now, ttl) {
            return;
        }
        // Legs that wait for the earlier Interest for these bytes are served by this one.
        let waiters = self
            .pending
            .remove(&r.start)
            .map_or_else(BTreeMap::new, |p| p.waiters);
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

    /// Forgets Interests sent longer than `ttl` ago, at most twice in that time: a full table
    /// must not be searched for every packet.
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

    /// Returns the parts of `r`, which has now arrived, that legs wait for. Some of these legs
    /// may be gone.
    pub(crate) fn arrived(&mut self, r: Range) -> BTreeMap<SlotId, RangeSet> {
        let mut out: BTreeMap<SlotId, RangeSet> = BTreeMap::new();
        if self.pending.is_empty() {
            return out;
        }
        let touched: Vec<u64> = self
            .pending
            .range(..r.end)
            .rev()
            .take_while(|(_, p)| p.end > r.start)
            .map(|(&s, _)| s)
            .collect();
        // A packet may answer several Interests, and only a part of each.
        for s in touched {
            let Some(p) = self.pending.get_mut(&s) else {
                continue;
            };
            for (leg, waiter) in &mut p.waiters {
                let own = waiter.wanted.within(r);
                waiter.wanted.remove(r);
                let cost = own.bytes() + (own.count() * DATA_HEADER_MAX) as u64;
                // Bytes that the leg's Interests have not paid for must be requested again.
                if own.is_empty() || cost > waiter.left {
                    continue;
                }
                waiter.left -= cost;
                let parts = out.entry(*leg).or_default();
                own.iter().for_each(|part| parts.insert(part));
            }
            // The last byte of this Interest has arrived.
            if p.end <= r.end {
                self.pending.remove(&s);
            }
        }
        out
    }

    /// Returns the parts of `r` awaited on behalf of legs other than `leg`.
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
