//! A Midnode's processing of an Interest: cache, aggregation, or upstream.

use super::{Ask, MAX_CONTROL, Midnode, Passing};
use crate::Nanos;
use crate::sendq::Queued;
use crate::table::SlotId;
use crate::wire::{DATA_HEADER_MAX, Interest, Range};

/// The cache's result for an Interest.
struct CacheResult {
    /// Whether some bytes were cached.
    hit: bool,
    /// The ranges that were not cached.
    misses: Vec<Range>,
    /// Bytes of answers, headers included, from the cache.
    spent: u64,
}

impl Midnode {
    pub(super) fn on_interest(&mut self, p: Passing<'_>, i: &Interest) {
        let down = p.path.reversed();
        // The key is the path of the Data, which is the Interest's reversed.
        let Some(id) = self.legs.find_or_add(p.now, i.flow, down, &self.params) else {
            return self.pass(p);
        };
        self.stats.interests_in += 1;
        self.hear(p, id, i);
        if i.range.is_empty() {
            // An Interest without bytes only carries a rate, for this hop only.
            return if self.params.hop_by_hop {
                self.plan(p.now, id)
            } else {
                self.pass(p)
            };
        }
        // A Midnode answers from its cache under the same amplification bound as a Producer; a
        // packet that it only passes on is not amplified.
        let budget = p.bytes.len() as u64 * u64::from(self.params.max_amplification);
        // The work is bounded like the answer: beyond the bound the range is not even looked up
        // (an Interest may name 2^62 bytes).
        let mut range = i.range;
        if range.len() > budget {
            range.end = range.start + budget;
            self.stats.cut += 1;
        }
        let i = &Interest { range, ..*i };
        // Repairs come out of order, and the record is not part of the flow: neither says
        // anything about lost Interests.
        let look_for_leaps = self.params.interest_holes && self.params.hop_by_hop;
        if look_for_leaps && !i.rtx && !range.is_meta() && self.mend_leap(p, id, i) {
            return self.plan(p.now, id);
        }
        let CacheResult { hit, misses, spent } = self.look_up(p.now, id, i, budget);
        self.stats.cache_hits += u64::from(hit);
        // Ablation: without hop-by-hop control the Interest passes unchanged, but hole detection
        // must know about it.
        if !hit && !self.params.hop_by_hop {
            if let Some(leg) = self.legs.get(id) {
                leg.note_asked(range, self.params.min_window_bytes);
                leg.holes.expect(range.start);
            }
            self.stats.interests_out += 1;
            return self.pass(p);
        }
        let mut left = budget.saturating_sub(spent);
        // The cached parts shorten the budget; the rest goes upstream.
        for r in misses {
            self.ask_up(p, id, &Interest { range: r, ..*i }, &mut left);
        }
        self.plan(p.now, id);
    }

    /// Processes the fields of an Interest besides its range: the Consumer is active, the hop's
    /// delay, the rate.
    fn hear(&mut self, p: Passing<'_>, id: SlotId, i: &Interest) {
        let before = self.legs.touch(id, p.now).unwrap_or(p.now);
        let Some(leg) = self.legs.get(id) else { return };
        // After a long silence the flow has used another path in the meantime; see
        // `back_on_the_path`.
        if p.now.saturating_sub(before) >= leg.cc.pause_ns(&self.params) {
            leg.back_on_the_path(&self.params);
        }
        leg.hop_limit = p.hop_limit;
        if self.params.hop_by_hop && !i.bare {
            // OWD of the Interest (section III.C), returned to the Requester in Data. It contains
            // the difference of the clocks.
            leg.owd = Some((p.now.wrapping_sub(i.timestamp) as i64, i.tag));
            // The Rate Limiter of Fig. 9 gets the requested rate, which is also Rate_nextHop of
            // equation 9.
            leg.bucket.set_requested_rate(p.now, i.rate_bps);
            leg.down_rate = i.rate_bps;
            (leg.timing.sparse, leg.timing.rate_bps) = (i.sparse, i.rate_bps);
        }
    }

    /// Requests the bytes that the Interests have skipped before this one (`interest_holes`).
    /// Returns true if the bytes of this one have been requested in that way already.
    fn mend_leap(&mut self, p: Passing<'_>, id: SlotId, i: &Interest) -> bool {
        let lost = self.params.min_window_bytes;
        let Some(leg) = self.legs.get(id) else {
            return false;
        };
        if leg.asked_ahead.contains(i.range) {
            // The Interest was late, not lost.
            leg.asked_ahead.remove(i.range);
            self.stats.aggregated += 1;
            return true;
        }
        let gap = leg.skipped(i.range, lost);
        // A jump in the Interests means that some were lost on their way here: requesting the
        // bytes in between here saves the time until the hole shows in the Data. Cached bytes are
        // not requested.
        for r in gap.map_or_else(Vec::new, |g| self.cache.missing(leg.cache_key, g)) {
            let mut at = r.start;
            while at < r.end && self.control.len() < MAX_CONTROL {
                let range = Range {
                    start: at,
                    end: r.end.min(at + self.params.interest_bytes()),
                };
                at = range.end;
                // The Data of these Interests will come in order, so hole detection expects them.
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

    /// Queues the cached parts of an Interest's range, within `budget` bytes of answers.
    fn look_up(&mut self, now: Nanos, id: SlotId, i: &Interest, budget: u64) -> CacheResult {
        let mut looked = CacheResult {
            hit: false,
            misses: Vec::new(),
            spent: 0,
        };
        let room = self.legs.get(id).map(|l| l.path.dst.ip());
        let room = room.map_or(0, |ip| self.legs.room(ip, &self.params));
        let Some((leg, shared)) = self.legs.with_shared(id) else {
            return looked;
        };
        // The Consumer wants the Producer's bytes (forged or old ones may be cached), so the
        // cache forgets its own.
        if i.fresh {
            self.cache.forget(leg.cache_key, i.range);
            looked.misses.push(i.range);
            return looked;
        }
        let (mut at, mut piece) = (i.range.start, Vec::new());
        // One Data packet per segment. Each round either answers from the cache or skips to the
        // next cached byte.
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
                // The miss ends where the cache continues: only missing bytes are requested
                // upstream.
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
            // These bytes wait already: one answer serves both Interests.
            if leg.queue.holds(range) {
                continue;
            }
            // The bound holds for the answer's wire length, headers included.
            looked.spent += n + DATA_HEADER_MAX as u64;
            if looked.spent > budget {
                self.stats.cut += 1;
                break;
            }
            // The Data begins here: it has no wait behind it, and the system's hop limit.
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

    /// Requests the range of `i` from the next node, unless it has been requested already:
    /// answers to a joined Interest are charged to `budget`.
    fn ask_up(&mut self, p: Passing<'_>, id: SlotId, i: &Interest, budget: &mut u64) {
        let Some((leg, shared)) = self.legs.with_shared(id) else {
            return;
        };
        let (now, range, ttl) = (p.now, i.range, self.params.aggregation_ns);
        // Hole detection must know the requested bytes, or their Data would count as unrequested.
        if !range.is_meta() {
            leg.note_asked(range, self.params.min_window_bytes);
            leg.holes.expect(range.start);
        }
        let repair = i.rtx && self.params.shr_repeats > 0;
        // Multicast (section VII): a second Consumer's Interest waits for the answer to the
        // first. A repair is only suppressed if this node has sent the same one within a hopRTT
        // (`shr_repeats`).
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
