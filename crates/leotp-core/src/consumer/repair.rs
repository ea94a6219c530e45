//! A Consumer's reaction to missing bytes: holes, timeouts, forgeries.

use super::{Consumer, FlowError, Fresh, Pending};
use crate::Nanos;
use crate::RangeSet;
use crate::wire::{META_BASE, Range};

impl Consumer {
    pub(super) fn repair(&mut self, now: Nanos, hole: Range) {
        // SHR (Algorithm 1, line 14): one Interest per missing piece. Parts that have arrived in
        // the meantime are left out.
        let step = self.params.interest_bytes();
        for m in self.received.missing(Range {
            start: hole.start.max(self.delivered),
            end: hole.end.max(self.delivered),
        }) {
            let mut at = m.start;
            while at < m.end {
                let r = Range {
                    start: at,
                    end: m.end.min(at + step),
                };
                at = r.end;
                self.out.push_back((r, true, false));
                self.stats.repairs += 1;
            }
        }
        // Beyond the paper: SHR "does not keep track" of repairs, so a lost one waits for the
        // RTO. A hole of many packets is a cut path, which a repetition cannot help.
        let again = self.again_at(now, 0).filter(|_| self.params.is_loss(hole));
        for p in self.overlapping(hole) {
            // A repair in progress restarts the timeout, as a VPH does (section III.B).
            p.sent = now;
            p.again = again;
        }
    }

    /// Returns the time that a repair announced from upstream may take before this node requests
    /// the bytes as well (`shr_repeats` only).
    pub(super) fn watch_ns(&self) -> Nanos {
        let hop = self.cc.assumed_hop_rtt_ns(&self.params);
        (1.5 * hop) as Nanos
    }

    pub(super) fn again_at(&self, now: Nanos, round: u32) -> Option<(Nanos, u32)> {
        if round >= self.params.shr_repeats {
            return None;
        }
        let hop = self.cc.assumed_hop_rtt_ns(&self.params);
        // Many repairs at once are queued behind each other on their way downstream. `drain` is the
        // time to send all of them at this hop's throughput (at least 100 kbit/s).
        let under_way = self.pending.values().filter(|p| p.again.is_some()).count() as f64;
        let bits = under_way * 8.0 * self.params.interest_bytes() as f64;
        let drain = bits * 1e9 / self.cc.throughput_bps().max(1e5);
        // 1.5 hopRTT as in `watch_ns`, at most 2 s for the queue, and 1 ms of slack.
        Some((
            now + (1.5 * hop + drain.min(2e9)) as Nanos + 1_000_000,
            round + 1,
        ))
    }

    /// See `Midnode::send_rate`: the rate of the last Interest must not stay in force.
    pub(super) fn send_rate(&mut self, now: Nanos) {
        let Some(hop) = self.cc.hop_rtt_ns() else {
            return;
        };
        if !self.out.is_empty()
            || self.pending.is_empty()
            || (now.saturating_sub(self.last_up) as f64) < hop
        {
            return;
        }
        // An Interest without bytes carries the new rate; small changes are not worth a packet.
        let rate = self.cc.rate_bps(None, &self.params);
        if rate.abs_diff(self.last_rate) > self.last_rate / 8 {
            self.out.push_back((
                Range {
                    start: self.next_request,
                    end: self.next_request,
                },
                false,
                false,
            ));
        }
    }

    /// Timeout Retransmission: "periodically checks all the unsatisfied Interests".
    pub(super) fn scan(&mut self, now: Nanos) {
        let heard = std::mem::take(&mut self.heard);
        self.next_scan = now + self.scan_every_ns();
        // The forged bytes of `refetch` have a timeout of their own, with the same back-off.
        let again_fresh = match &mut self.fresh {
            Some(f) if now.saturating_sub(f.asked) >= self.rto.timeout_ns(f.tries) => {
                (f.asked, f.tries) = (now, f.tries + 1);
                true
            }
            _ => false,
        };
        if again_fresh {
            self.ask_fresh();
        }
        let mut dead = None;
        let mut again = Vec::new();
        let ending = self.fin.is_some();
        // No byte has arrived yet: on a slow path one packet takes longer than the first timeout,
        // and the others wait behind it. Only the first Interest is repeated.
        let waits = self.rto.srtt_ns().is_none() && self.stats.new_bytes + self.stats.vphs == 0;
        let first = self.pending.keys().next().copied().unwrap_or(META_BASE);
        let next = self.again_at(now, 0).map_or(now, |a| a.0);
        for (&start, p) in &mut self.pending {
            // Repeated repairs have a short interval of their own; the RTO takes over when their
            // rounds are used up.
            if let Some((at, round)) = p.again {
                if at <= now {
                    p.again = (round < self.params.shr_repeats).then_some((next, round + 1));
                    p.sent = now;
                    self.stats.repairs += 1;
                    again.push((Range { start, end: p.end }, true));
                }
                continue;
            }
            if now.saturating_sub(p.sent) < self.rto.timeout_ns(p.tries)
                || waits && start != first && start < META_BASE
            {
                continue;
            }
            // The RTO of this Interest grows by `rto_backoff` per try (section III.B: 1.5).
            p.tries += 1;
            p.sent = now;
            self.stats.timeouts += 1;
            // A live flow has no record yet; that is no failure.
            if self.params.max_retries > 0
                && p.tries > self.params.max_retries
                && (start < META_BASE || ending)
            {
                dead.get_or_insert((start, p.tries));
            }
            again.push((Range { start, end: p.end }, true));
        }
        // No event has occurred since the last scan, so no timeout can become due before `due`.
        if let (false, Some(due)) = (heard, self.stands_still(waits.then_some(first))) {
            self.next_scan = self.next_scan.max(due);
        }
        if let Some((start, tries)) = dead {
            return self.fail(FlowError::Unanswered(start, tries));
        }
        for (r, rtx) in again {
            // Bytes that have arrived in part are not requested again.
            for m in self.received.missing(r) {
                let m = Range {
                    start: m.start.max(self.delivered),
                    ..m
                };
                if m.start < m.end {
                    self.out.push_back((m, rtx, false));
                }
            }
        }
    }

    pub(super) fn scan_every_ns(&self) -> Nanos {
        // A timeout is detected late by at most this: a sixteenth of the RTO, within 1 to 20 ms.
        (self.rto.timeout_ns(0) / 16).clamp(1_000_000, 20_000_000)
    }

    /// Returns the next timeout of a flow without events, such as one of a server that sends
    /// nothing: all Interests have been repeated already, or `only` one of them must be. There
    /// are many such flows, and a gateway would otherwise spend its time on scanning them.
    fn stands_still(&self, only: Option<u64>) -> Option<Nanos> {
        if self.fresh.is_some() {
            return None;
        }
        let asked = |(start, _): &(&u64, &Pending)| only.is_none_or(|only| **start == only);
        let due = |(_, p): (&u64, &Pending)| {
            let still = p.tries > 0 && p.again.is_none();
            still.then(|| p.sent + self.rto.timeout_ns(p.tries))
        };
        let all: Option<Vec<Nanos>> = self.pending.iter().filter(asked).map(due).collect();
        all?.into_iter().min()
    }

    /// Requests bytes again that were already delivered, past all caches, because they were
    /// forged. One range at a time; a new one replaces the old.
    pub fn refetch(&mut self, now: Nanos, range: Range) {
        let bytes = vec![0; range.len() as usize];
        self.fresh = Some(Fresh {
            range,
            got: RangeSet::new(),
            bytes,
            asked: now,
            tries: 0,
        });
        self.notice(now);
        self.ask_fresh();
    }

    pub(super) fn ask_fresh(&mut self) {
        let step = self.params.interest_bytes();
        let Some(f) = &self.fresh else { return };
        for m in f.got.missing(f.range) {
            let mut at = m.start;
            while at < m.end {
                let r = Range {
                    start: at,
                    end: m.end.min(at + step),
                };
                at = r.end;
                self.out.push_back((r, true, true));
            }
        }
    }

    /// Returns the bytes of [`Self::refetch`], once all have arrived.
    pub fn take_fresh(&mut self) -> Option<Vec<u8>> {
        let done = self.fresh.as_ref().is_some_and(|f| f.got.contains(f.range));
        if done {
            self.fresh.take().map(|f| f.bytes)
        } else {
            None
        }
    }
}
