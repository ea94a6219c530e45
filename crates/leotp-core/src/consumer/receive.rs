//! A Consumer's processing of Data and Void Packet Headers: it puts bytes in order, settles
//! Interests, and checks the digest.

use super::{Consumer, FlowError, Pending};
use crate::Nanos;
use crate::meta::{META_LEN, Meta};
use crate::wire::{
    DATA_HEADER_MAX, DataHeader, INTEREST_LEN, MAX_QUEUED_US, META_BASE, Packet, Range,
};
use crate::{Path, RangeSet};

/// The number of packets, of this flow or others, that may be before an answer at one time and
/// not at another.
const OTHERS_AHEAD: f64 = 4.0;
/// Delivered bytes are hashed when there are this many.
const HASH_BYTES: usize = 64 << 10;

impl Consumer {
    /// Handles one datagram.
    pub fn handle_datagram(&mut self, now: Nanos, path: Path, bytes: &[u8]) {
        let parsed = Packet::parse(bytes);
        let (h, payload) = match &parsed {
            Ok(Packet::Data(h, p)) => (h, Some(*p)),
            Ok(Packet::Vph(h)) => (h, None),
            _ => {
                self.stats.bad_packets += 1;
                return;
            }
        };
        // The record has addresses beyond every flow (`META_BASE`), so it takes no part in hole
        // detection and in the end of the flow.
        let meta = h.range.is_meta();
        // Bytes that were never requested are not accepted, except Data that announces the flow's
        // end.
        let beyond = !meta && h.range.end > self.next_request && !(h.fin && payload.is_some());
        if h.flow != self.flow || path != self.up.reversed() || beyond || self.error.is_some() {
            self.stats.bad_packets += 1;
            return;
        }
        self.notice(now);
        // VPHs measure the hop too: they may carry the Responder's clock.
        self.cc.on_data(
            now,
            bytes.len() as u64,
            h.timing.and_then(|t| t.measured(self.tag)),
            &self.params,
        );
        // Algorithm 1. Bytes that are already here cannot be lost.
        if self.params.shr && !meta && !h.range.is_empty() {
            let received = &self.received;
            let seen = self.holes.on_packet(h.range, |gap| {
                RangeSet::between(gap, received.missing(gap))
                    .iter()
                    .collect()
            });
            for hole in seen.lost {
                // The hop has carried these bytes to the point of loss (equation 6 with
                // `lost_is_carried`).
                self.cc.on_lost(self.params.wire_bytes(hole), &self.params);
                self.repair(now, hole);
            }
        }
        match payload {
            Some(p) => {
                self.stats.data_packets += 1;
                if meta {
                    self.on_meta(now, h, p)
                } else {
                    self.on_bytes(now, h, p)
                }
            }
            None => {
                self.stats.vphs += 1;
                // "It will reset the timestamp of the corresponding Interest" (section III.B):
                // the node that sent the VPH repairs the hole, and a timeout must not come before
                // the repaired Data.
                let watch = self
                    .again_at(now + self.watch_ns(), 0)
                    .filter(|_| self.params.is_loss(h.range));
                for p in self.overlapping(h.range) {
                    p.sent = now;
                    if p.again.is_none() {
                        p.again = watch;
                    }
                }
            }
        }
        // Arrived bytes make room in the window, and may have changed the rate.
        self.ask(now);
        self.send_rate(now);
    }

    pub(super) fn overlapping(&mut self, r: Range) -> impl Iterator<Item = &mut Pending> {
        // Pending Interests do not overlap, so the walk back from `r.end` may stop at the first
        // one that ends before `r`.
        self.pending
            .range_mut(..r.end)
            .rev()
            .take_while(move |(_, p)| p.end > r.start)
            .map(|(_, p)| p)
    }

    fn on_meta(&mut self, now: Nanos, h: &DataHeader, payload: &[u8]) {
        let Some(to) = self
            .meta_bytes
            .get_mut((h.range.start - META_BASE) as usize..)
            .and_then(|b| b.get_mut(..payload.len()))
        else {
            self.stats.bad_packets += 1;
            return;
        };
        to.copy_from_slice(payload);
        self.received.insert(h.range);
        if self.meta.is_none()
            && self.received.contains(Range {
                start: META_BASE,
                end: META_BASE + META_LEN,
            })
        {
            // The first record's round trip is one of small packets; a full packet takes longer
            // on a slow link, and the first timeout allows for that.
            if let Some(p) = self.pending.remove(&META_BASE)
                && !h.rtx
            {
                let small = INTEREST_LEN as u64 + DATA_HEADER_MAX as u64 + META_LEN;
                let full = self.params.interest_bytes() + DATA_HEADER_MAX as u64;
                let times = (full as f64 / small as f64).max(1.0);
                self.rto
                    .on_small_packets(now.saturating_sub(p.first), times);
            }
            match Meta::decode(&self.meta_bytes) {
                Some(m) => {
                    self.meta = Some(m);
                    self.on_end(m.length);
                }
                None => self.fail(FlowError::BadMeta),
            }
            self.check_digest();
        }
    }

    fn on_end(&mut self, end: u64) {
        // A Producer cannot change a flow's length: two ends mean a forged packet or another flow
        // with this id.
        match self.fin {
            Some(f) if f != end => return self.fail(FlowError::EndMoved(f, end)),
            Some(_) => return,
            None => {}
        }
        if self.start > end {
            return self.fail(FlowError::StartBeyondEnd(self.start, end));
        }
        // Bytes beyond the end have arrived already: one of the two packets is forged.
        let highest = self
            .received
            .iter()
            .filter(|r| !r.is_meta())
            .last()
            .map_or(self.delivered, |r| r.end);
        if highest > end {
            return self.fail(FlowError::EndMoved(end, highest));
        }
        self.fin = Some(end);
        self.next_request = self.next_request.min(end.max(self.start));
        // No bytes beyond the end will come, so their Interests are dropped from the window.
        let tail: Vec<u64> = self
            .pending
            .range(end..META_BASE)
            .map(|(&s, _)| s)
            .collect();
        for s in tail {
            if let Some(p) = self.pending.remove(&s) {
                self.asked_bytes -= p.end - s;
            }
        }
        // The last Interest may reach over the end; its rest is never answered.
        if let Some((_, p)) = self.pending.range_mut(..end).next_back()
            && p.end > end
        {
            self.asked_bytes -= p.end - end;
            p.end = end;
        }
    }

    fn on_bytes(&mut self, now: Nanos, h: &DataHeader, payload: &[u8]) {
        if h.fin {
            let known = self.fin.is_some();
            self.on_end(h.range.end);
            if !known && self.meta.is_none() && self.error.is_none() {
                // A live flow has its record only after its end.
                self.ask_meta(now);
            }
        }
        if self.fin.is_some_and(|f| h.range.end > f) {
            return self.fail(FlowError::EndMoved(self.fin.unwrap_or(0), h.range.end));
        }
        if self.error.is_some() {
            return;
        }
        if let Some(f) = &mut self.fresh {
            // These bytes were requested as repairs (rtx), so only repairs can be the answers.
            if h.rtx && f.range.overlaps(&h.range) {
                let r = Range {
                    start: f.range.start.max(h.range.start),
                    end: f.range.end.min(h.range.end),
                };
                let (to, from) = (
                    (r.start - f.range.start) as usize,
                    (r.start - h.range.start) as usize,
                );
                let n = r.len() as usize;
                f.bytes[to..to + n].copy_from_slice(&payload[from..from + n]);
                f.got.insert(r);
            }
        }
        let mut fresh = 0;
        let from = Range {
            start: h.range.start.max(self.delivered),
            end: h.range.end.max(self.delivered),
        };
        if from.start == self.delivered && self.store.is_empty() && !from.is_empty() {
            // The common case: the bytes are in order.
            fresh = from.len();
            self.deliver(payload[(from.start - h.range.start) as usize..].to_vec());
        } else {
            // Only the missing parts are stored, so no byte is kept or counted twice.
            for m in self.received.missing(from) {
                let a = (m.start - h.range.start) as usize;
                self.store
                    .insert(m.start, payload[a..a + m.len() as usize].to_vec());
                self.received.insert(m);
                fresh += m.len();
            }
            // The stored parts that follow without a gap can be delivered now.
            while let Some(e) = self.store.first_entry() {
                if *e.key() != self.delivered {
                    break;
                }
                let b = e.remove();
                self.received.remove(Range {
                    start: self.delivered,
                    end: self.delivered + b.len() as u64,
                });
                self.deliver(b);
            }
        }
        self.stats.new_bytes += fresh;
        self.stats.duplicate_bytes += h.range.len() - fresh;
        // The window follows new bytes only: duplicates are no progress of the path.
        self.window.on_bytes(now, fresh, self.rto.srtt_ns());
        self.settle(now, h);
        let rate = self.window.rate();
        if rate > 0.0 {
            // The timeout must not be shorter than the time by which other packets can delay an
            // answer (RFC 6298's G).
            let some = OTHERS_AHEAD * f64::from(self.params.segment_bytes);
            self.rto.set_granularity(some / rate);
        }
        self.check_digest();
    }

    fn deliver(&mut self, b: Vec<u8>) {
        if self.hasher.is_some() {
            self.unhashed.extend_from_slice(&b);
            if self.unhashed.len() >= HASH_BYTES {
                self.hash();
            }
        }
        self.delivered += b.len() as u64;
        self.ready.push_back(b);
    }

    fn hash(&mut self) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&self.unhashed);
        }
        self.unhashed.clear();
    }

    /// Closes Interests whose bytes have arrived.
    fn settle(&mut self, now: Nanos, h: &DataHeader) {
        let done: Vec<u64> = {
            let (received, delivered) = (&self.received, self.delivered);
            let hit = self
                .pending
                .range(..h.range.end)
                .rev()
                .take_while(|(_, p)| p.end > h.range.start);
            hit.filter(|(s, p)| {
                p.end <= delivered
                    || received.contains(Range {
                        start: (**s).max(delivered),
                        end: p.end,
                    })
            })
            .map(|(&s, _)| s)
            .collect()
        };
        for s in done {
            if let Some(p) = self.pending.remove(&s) {
                self.asked_bytes -= p.end - s;
                // Karn's algorithm excludes ambiguous samples. The answer states whether it is
                // for a repeated Interest; if not, it is for the first, even if this Consumer has
                // repeated it since.
                if !h.rtx && s < META_BASE {
                    let rtt = now.saturating_sub(p.first);
                    self.rto.on_sample(rtt);
                    // An unknown wait, or one too long for the field, would count as distance,
                    // and the window would grow by its own queue.
                    if let Some(t) = h.timing.filter(|t| t.queued_us < MAX_QUEUED_US) {
                        // The wait at nodes is part of the timeout's round trip, but not of the
                        // path's.
                        let waited = u64::from(t.queued_us) * 1000;
                        self.window
                            .on_rtt(now, rtt.saturating_sub(waited).max(1000), &self.params);
                    }
                }
            }
        }
    }

    fn check_digest(&mut self) {
        if self.fin != Some(self.delivered) {
            return;
        }
        self.hash();
        if let (Some(hasher), Some(m)) = (&self.hasher, &self.meta)
            && hasher.finalize().as_bytes() != &m.digest
        {
            self.fail(FlowError::Digest);
        }
    }
}
