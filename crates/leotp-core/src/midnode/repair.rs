//! A Midnode's own Interests: repairs of holes, their repetition, and changed rates.

use super::{Ask, MAX_CONTROL, MAX_REPEATS, Midnode};
use crate::Nanos;
use crate::Path;
use crate::table::SlotId;
use crate::wire::Range;
use std::cmp::Reverse;

impl Midnode {
    /// Requests a hole from upstream (Algorithm 1, line 14).
    pub(super) fn repair(
        &mut self,
        now: Nanos,
        id: SlotId,
        up: Path,
        flow: u64,
        hole: Range,
        round: u32,
    ) {
        let step = self.params.interest_bytes();
        // One Interest names at most `interest_bytes`, so a long hole needs several.
        let mut at = hole.start;
        while at < hole.end && self.control.len() < MAX_CONTROL {
            let range = Range {
                start: at,
                end: hole.end.min(at + step),
            };
            at = range.end;
            let Some(leg) = self.legs.get(id) else { return };
            // These bytes were requested within a hopRTT: their answer may still come.
            if self.params.shr_repeats > 0 && !leg.note_repair(now, range, &self.params) {
                continue;
            }
            let hop_limit = leg.hop_limit;
            let ask = Ask {
                flow,
                range,
                rtx: true,
                fresh: false,
                leg: id,
            };
            self.ask(up, hop_limit, ask);
            self.stats.repairs += 1;
        }
        self.watch(now, id, hole, round);
    }

    /// Checks a hole of this hop again after 1.5 hopRTT (`shr_repeats`). Holes announced from
    /// upstream are checked there, and by the Consumer.
    fn watch(&mut self, now: Nanos, id: SlotId, hole: Range, round: u32) {
        if round < self.params.shr_repeats
            && self.params.is_loss(hole)
            && self.params.cache_bytes > 0
            && self.repeats.len() < MAX_REPEATS
        {
            let Some(leg) = self.legs.get(id) else { return };
            let hop = leg.cc.assumed_hop_rtt_ns(&self.params);
            // Many repairs at once are queued behind each other on their way downstream. `drain`
            // is the time to send them at this hop's throughput, as in `Consumer::again_at`.
            let under_way = leg.repairing.len() as f64 * f64::from(self.params.segment_bytes);
            let drain = under_way * 8e9 / leg.cc.throughput_bps().max(1e5);
            let at = now + (1.5 * hop + drain.min(2e9)) as Nanos + 1_000_000;
            self.repeats
                .push(Reverse((at, id, hole.start, hole.end, round + 1)));
        }
    }

    /// Checks repairs that should have been answered (`shr_repeats`).
    pub(super) fn run_repeats(&mut self, now: Nanos) {
        while let Some(&Reverse((at, id, start, end, round))) = self.repeats.peek() {
            if at > now {
                return;
            }
            self.repeats.pop();
            let Some(leg) = self.legs.get(id) else {
                continue;
            };
            let (key, flow, up) = (leg.cache_key, leg.flow, leg.path.reversed());
            // Repaired bytes are in the cache by now. Only the missing ones are requested again.
            for m in self.cache.missing(key, Range { start, end }) {
                self.repair(now, id, up, flow, m, round);
            }
        }
    }

    /// Sends the rate upstream when no Interest has carried it for a hopRTT and it has changed by
    /// more than an eighth. Otherwise a flow whose last Interest requested a low rate would stay
    /// at that rate.
    pub(super) fn send_rate(&mut self, now: Nanos, id: SlotId, up: Path) {
        if !self.params.hop_by_hop {
            return;
        }
        let Some(leg) = self.legs.get(id) else { return };
        let hop = leg.cc.assumed_hop_rtt_ns(&self.params);
        if (now.saturating_sub(leg.last_up) as f64) < hop {
            return;
        }
        let rate = leg
            .cc
            .rate_bps(Some((leg.queue.bytes(), leg.down_rate)), &self.params);
        // An empty range at the end of the requested bytes: it requests nothing.
        if rate.abs_diff(leg.last_up_rate) > leg.last_up_rate / 8 {
            let at = leg.requested_end;
            let hop_limit = leg.hop_limit;
            let ask = Ask {
                flow: leg.flow,
                range: Range { start: at, end: at },
                rtx: false,
                fresh: false,
                leg: id,
            };
            leg.last_up = now;
            self.ask(up, hop_limit, ask);
        }
    }
}
