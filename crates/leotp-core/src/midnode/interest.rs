//! What a Midnode does with an Interest: cache, aggregation, or upstream.

use super::{Ask, MAX_CONTROL, Midnode, Passing};
use crate::Nanos;
use crate::sendq::Queued;
use crate::table::SlotId;
use crate::wire::{DATA_HEADER_MAX, Interest, Range};

/// What the cache has made of an Interest.
struct Looked {
    /// Something was there.
    hit: bool,
    /// What was not.
    misses: Vec<Range>,
    /// Bytes of answers, headers included, that what was there takes.
    spent: u64,
}

impl Midnode {
    pub(super) fn on_interest(&mut self, p: Passing<'_>, i: &Interest) {
        let down = p.path.reversed();
        let Some(id) = self.legs.find_or_add(p.now, i.flow, down, &self.params) else {
            return self.pass(p);
        };
        self.stats.interests_in += 1;
        self.hear(p, id, i);
        if i.range.is_empty() {
            // News of a rate ends at the hop it is for.
            return if self.params.hop_by_hop {
                self.plan(p.now, id)
            } else {
                self.pass(p)
            };
        }
        // A Midnode answers from its cache under the same amplification bound
        // as a Producer; what it only passes on it does not amplify.
        let budget = p.bytes.len() as u64 * u64::from(self.params.max_amplification);
        // Nor is it worth more work than an answer: beyond the bound the range is
        // not even looked up (an Interest may name 2^62 bytes).
        let mut range = i.range;
        if range.len() > budget {
            range.end = range.start + budget;
            self.stats.cut += 1;
        }
        let i = &Interest { range, ..*i };
        let look_for_leaps = self.params.interest_holes && self.params.hop_by_hop;
        if look_for_leaps && !i.rtx && !range.is_meta() && self.mend_leap(p, id, i) {
            return self.plan(p.now, id);
        }
        let Looked { hit, misses, spent } = self.look_up(p.now, id, i, budget);
        self.stats.cache_hits += u64::from(hit);
        if !hit && !self.params.hop_by_hop {
            if let Some(leg) = self.legs.get(id) {
                leg.note_asked(range, self.params.min_window_bytes);
                leg.holes.expect(range.start);
            }
            self.stats.interests_out += 1;
            return self.pass(p);
        }
        let mut left = budget.saturating_sub(spent);
        for r in misses {
            self.ask_up(p, id, &Interest { range: r, ..*i }, &mut left);
        }
        self.plan(p.now, id);
    }

    /// Takes what the Interest says besides its range: that its Consumer is there, the
    /// hop's delay, the rate.
    fn hear(&mut self, p: Passing<'_>, id: SlotId, i: &Interest) {
        let before = self.legs.touch(id, p.now).unwrap_or(p.now);
        let Some(leg) = self.legs.get(id) else { return };
        if p.now.saturating_sub(before) >= leg.cc.pause_ns(&self.params) {
            leg.back_on_the_path(&self.params);
        }
        leg.hop_limit = p.hop_limit;
        if self.params.hop_by_hop && !i.bare {
            leg.owd = Some((p.now.wrapping_sub(i.timestamp) as i64, i.tag));
            leg.bucket.set_asked_rate(p.now, i.rate_bps);
            leg.down_rate = i.rate_bps;
            (leg.timing.sparse, leg.timing.rate_bps) = (i.sparse, i.rate_bps);
        }
    }

    /// Asks for what the Interests have skipped before this one (`interest_holes`). True:
    /// this one itself has been asked for so already.
    fn mend_leap(&mut self, p: Passing<'_>, id: SlotId, i: &Interest) -> bool {
        let lost = self.params.min_window_bytes;
        let Some(leg) = self.legs.get(id) else {
            return false;
        };
        if leg.asked_ahead.contains(i.range) {
            // Late, not lost.
            leg.asked_ahead.remove(i.range);
            self.stats.aggregated += 1;
            return true;
        }
        let gap = leg.skipped(i.range, lost);
        for r in gap.map_or_else(Vec::new, |g| self.cache.missing(leg.cache_key, g)) {
            let mut at = r.start;
            while at < r.end && self.control.len() < MAX_CONTROL {
                let range = Range {
                    start: at,
                    end: r.end.min(at + self.params.interest_bytes()),
                };
                at = range.end;
                leg.note_asked(range, lost);
                leg.holes.expect(range.start);
                self.stats.asked_ahead += 1;
                let ask = Ask {
                    flow: i.flow,
                    range,
                    rtx: false,
                    fresh: false,
                    leg: id,
                };
                self.control
                    .push_back((p.path, p.hop_limit, super::Control::Interest(ask)));
            }
        }
        false
    }

    /// Queues what the cache has of an Interest's range, within `budget` bytes of answers.
    fn look_up(&mut self, now: Nanos, id: SlotId, i: &Interest, budget: u64) -> Looked {
        let mut looked = Looked {
            hit: false,
            misses: Vec::new(),
            spent: 0,
        };
        let room = self.legs.get(id).map(|l| l.path.dst.ip());
        let room = room.map_or(0, |ip| self.legs.room(ip, &self.params));
        let Some((leg, shared)) = self.legs.with_shared(id) else {
            return looked;
        };
        if i.fresh {
            self.cache.forget(leg.cache_key, i.range);
            looked.misses.push(i.range);
            return looked;
        }
        let (mut at, mut piece) = (i.range.start, Vec::new());
        while at < i.range.end {
            let end = i.range.end.min(at + u64::from(self.params.segment_bytes));
            piece.clear();
            let n = self
                .cache
                .read(leg.cache_key, Range { start: at, end }, &mut piece);
            if n == 0 {
                let rest = Range {
                    start: at,
                    end: i.range.end,
                };
                let stop = self.cache.next_stored(leg.cache_key, rest);
                let miss = Range {
                    start: at,
                    end: stop.unwrap_or(i.range.end),
                };
                looked.misses.push(miss);
                at = miss.end;
                continue;
            }
            looked.hit = true;
            let range = Range {
                start: at,
                end: at + n,
            };
            at = range.end;
            if leg.queue.holds(range) {
                continue;
            }
            looked.spent += n + DATA_HEADER_MAX as u64;
            if looked.spent > budget {
                self.stats.cut += 1;
                break;
            }
            let q = Queued {
                range,
                payload: Some(piece.as_slice().into()),
                fin: shared.fin == Some(range.end),
                rtx: i.rtx,
                queued_us: 0,
                timed: false,
                since: now,
                hop_limit: None,
            };
            if !leg.queue.push(q, room) {
                self.stats.dropped += 1;
            }
        }
        looked
    }

    /// Asks the next node for the range of `i`, unless it has been asked already: answers to an Interest that is joined take from `budget`.
    fn ask_up(&mut self, p: Passing<'_>, id: SlotId, i: &Interest, budget: &mut u64) {
        let Some((leg, shared)) = self.legs.with_shared(id) else {
            return;
        };
        let (now, range, ttl) = (p.now, i.range, self.params.aggregation_ns);
        if !range.is_meta() {
            leg.note_asked(range, self.params.min_window_bytes);
            leg.holes.expect(range.start);
        }
        let repair = i.rtx && self.params.shr_repeats > 0;
        let asked = repair && !leg.note_repair(now, range, &self.params)
            || !i.rtx && !i.fresh && shared.join(now, ttl, id, range, budget);
        if asked {
            self.stats.aggregated += 1;
            return;
        }
        shared.sent(now, ttl, id, range);
        let ask = Ask {
            flow: i.flow,
            range,
            rtx: i.rtx,
            fresh: i.fresh,
            leg: id,
        };
        self.ask(p.path, p.hop_limit, ask);
    }
}
