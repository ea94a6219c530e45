//! What a Midnode does with an Interest: cache, aggregation, or upstream.

use super::{Control, MAX_CONTROL, Midnode};
use crate::Nanos;
use crate::Path;
use crate::sendq::Queued;
use crate::wire::{DATA_HEADER_MAX, Interest, Range};

impl Midnode {
    pub(super) fn on_interest(&mut self, now: Nanos, path: Path, i: &Interest, bytes: &[u8]) {
        let Some(id) = self
            .legs
            .find_or_add(now, i.flow, path.reversed(), &self.params)
        else {
            return self.pass(path, bytes);
        };
        let room = self.legs.room(path.src.ip(), &self.params);
        let Some((leg, shared)) = self.legs.with_shared(id) else {
            return;
        };
        self.stats.interests_in += 1;
        if now.saturating_sub(leg.seen) >= self.params.rto_min_ns {
            leg.back_on_the_path(&self.params);
        }
        leg.seen = now;
        if self.params.hop_by_hop && !i.bare {
            leg.owd = Some((now.wrapping_sub(i.timestamp) as i64, i.tag));
            leg.bucket.set_rate(now, i.rate_bps);
            leg.down_rate = i.rate_bps;
            (leg.timing.sparse, leg.timing.rate_bps) = (i.sparse, i.rate_bps);
        }
        if i.range.is_empty() {
            // News of a rate ends at the hop it is for.
            return if self.params.hop_by_hop {
                self.plan(now, id)
            } else {
                self.pass(path, bytes)
            };
        }
        // A Midnode answers from its cache under the same amplification bound
        // as a Producer; what it only passes on it does not amplify.
        let budget = bytes.len() as u64 * u64::from(self.params.max_amplification);
        // Nor is it worth more work than an answer: beyond the bound the range is
        // not even looked up (an Interest may name 2^62 bytes).
        let mut range = i.range;
        if range.len() > budget {
            range.end = range.start + budget;
            self.stats.cut += 1;
        }
        let i = &Interest { range, ..*i };
        if self.params.interest_holes && self.params.hop_by_hop && !i.rtx && !i.range.is_meta() {
            if leg.asked_ahead.contains(i.range) {
                // Late, not lost: asked for already.
                leg.asked_ahead.remove(i.range);
                self.stats.aggregated += 1;
                return self.plan(now, id);
            }
            let gap = leg.skipped(i.range, self.params.min_window_bytes);
            for r in gap.map_or_else(Vec::new, |g| self.cache.missing(leg.cache_key, g)) {
                let mut at = r.start;
                while at < r.end && self.control.len() < MAX_CONTROL {
                    let range = Range {
                        start: at,
                        end: r.end.min(at + self.params.interest_bytes()),
                    };
                    at = range.end;
                    leg.note_asked(range, self.params.min_window_bytes);
                    leg.holes.expect(range.start);
                    self.stats.asked_ahead += 1;
                    self.control.push_back((
                        path,
                        Control::Interest {
                            flow: i.flow,
                            range,
                            rtx: false,
                            fresh: false,
                            leg: id,
                        },
                    ));
                }
            }
        }
        let mut spent = 0;
        let mut misses = Vec::new();
        let mut hit = false;
        if i.fresh {
            self.cache.forget(leg.cache_key, i.range);
            misses.push(i.range);
        } else {
            let mut at = i.range.start;
            let mut piece = Vec::new();
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
                    let stop = self
                        .cache
                        .next_stored(leg.cache_key, rest)
                        .unwrap_or(i.range.end);
                    misses.push(Range {
                        start: at,
                        end: stop,
                    });
                    at = stop;
                    continue;
                }
                hit = true;
                let r = Range {
                    start: at,
                    end: at + n,
                };
                at += n;
                if leg.queue.holds(r) {
                    continue;
                }
                spent += n + DATA_HEADER_MAX as u64;
                if spent > budget {
                    self.stats.cut += 1;
                    break;
                }
                let fin = shared.fin == Some(r.end);
                let q = Queued {
                    range: r,
                    payload: Some(piece.as_slice().into()),
                    fin,
                    rtx: i.rtx,
                    queued_us: 0,
                    timed: false,
                    since: now,
                };
                if !leg.queue.push(q, room) {
                    self.stats.dropped += 1;
                }
            }
        }
        self.stats.cache_hits += u64::from(hit);
        if !hit && !self.params.hop_by_hop {
            leg.note_asked(i.range, self.params.min_window_bytes);
            leg.holes.expect(i.range.start);
            self.stats.interests_out += 1;
            return self.pass(path, bytes);
        }
        for r in misses {
            if !r.is_meta() {
                leg.note_asked(r, self.params.min_window_bytes);
                leg.holes.expect(r.start);
            }
            if i.rtx && self.params.shr_repeats > 0 && !leg.note_repair(now, r, &self.params) {
                self.stats.aggregated += 1;
                continue;
            }
            if !i.rtx && !i.fresh && shared.join(now, self.params.aggregation_ns, id, r) {
                self.stats.aggregated += 1;
                continue;
            }
            shared.sent(now, self.params.aggregation_ns, id, r);
            if self.control.len() < MAX_CONTROL {
                self.control.push_back((
                    path,
                    Control::Interest {
                        flow: i.flow,
                        range: r,
                        rtx: i.rtx,
                        fresh: i.fresh,
                        leg: id,
                    },
                ));
            }
        }
        self.plan(now, id);
    }
}
