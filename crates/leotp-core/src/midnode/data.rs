//! What a Midnode does with Data and Void Packet Headers: measure, look for holes,
//! cache, and queue for the next node.

use super::{Control, Midnode};
use crate::Nanos;
use crate::sendq::Queued;
use crate::wire::{DataHeader, MAX_QUEUED_US, Range};
use crate::{Path, RangeSet};

impl Midnode {
    /// Data, or a VPH when there is no payload.
    pub(super) fn on_data(
        &mut self,
        now: Nanos,
        path: Path,
        h: &DataHeader,
        payload: Option<&[u8]>,
        bytes: &[u8],
    ) {
        let Some(id) = self.legs.find(h.flow, path) else {
            return self.pass(path, bytes);
        };
        let room = self.legs.room(path.dst.ip(), &self.params);
        let Some((leg, shared)) = self.legs.with_shared(id) else {
            return;
        };
        let meta = h.range.is_meta();
        if !meta && h.range.end > leg.requested_end && !h.range.is_empty() {
            // Nobody asked through us: not for our cache, not for our hole count.
            return self.pass(path, bytes);
        }
        leg.seen = now;
        self.stats.data_in += u64::from(payload.is_some());
        if self.params.hop_by_hop {
            leg.cc.on_data(
                now,
                bytes.len() as u64,
                h.timing.and_then(|t| t.measured(leg.tag)),
                &self.params,
            );
        }
        if h.fin {
            shared.fin = Some(h.range.end);
        }
        let mut waiters = Vec::new();
        if payload.is_some() {
            waiters = shared.arrived(h.range);
            waiters.retain(|w| *w != id);
        }
        let mut opened = Vec::new();
        let mut lost = Vec::new();
        if self.params.shr && !meta && !h.range.is_empty() {
            let (cache, key, unasked) = (&self.cache, leg.cache_key, &leg.unasked);
            let seen = leg.holes.on_packet(h.range, |gap| {
                RangeSet::between(gap, cache.missing(key, gap))
                    .iter()
                    .chain(shared.awaited_by_others(id, gap))
                    .chain(unasked.iter())
                    .collect()
            });
            if let (false, Some(last)) = (leg.unasked.is_empty(), leg.holes.last_byte()) {
                leg.unasked.remove(Range {
                    start: 0,
                    end: last,
                });
            }
            (opened, lost) = (seen.opened, seen.lost);
            for hole in &lost {
                leg.cc.on_lost(self.params.wire_bytes(*hole), &self.params);
            }
        }
        if let Some(p) = payload {
            leg.repairing.remove(&h.range.start);
            self.cache.store(leg.cache_key, h.range.start, p);
        }
        // What the next node must not take for its own loss goes first (Fig. 8b).
        for range in opened {
            self.stats.vph_made += 1;
            let q = Queued {
                range,
                payload: None,
                fin: false,
                rtx: false,
                queued_us: 0,
                timed: true,
                since: now,
            };
            leg.queue.push(q, room);
        }
        // What came without timing has waited nobody knows how long.
        let queued_us = h.timing.map_or(MAX_QUEUED_US, |t| t.queued_us);
        let whole = Queued {
            range: h.range,
            payload: payload.map(Into::into),
            fin: h.fin,
            rtx: h.rtx,
            queued_us,
            timed: h.timing.is_some(),
            since: now,
        };
        if !(payload.is_some() && !h.range.is_empty() && leg.queue.holds(h.range)) {
            if !self.params.hop_by_hop && payload.is_some() {
                // Ablation: forwarded untouched, so that the endpoints measure
                // the whole path; order with our VPH is kept by the control queue.
                while let Some(v) = leg.queue.pop() {
                    let mut out = Vec::new();
                    leg.emit(&v, now, &self.params, &mut out);
                    self.control.push_back((path, Control::Raw(out)));
                }
                self.control.push_back((path, Control::Raw(bytes.to_vec())));
                self.stats.data_out += 1;
            } else if !leg.queue.push(whole, room) {
                self.stats.dropped += 1;
            }
        }
        let up = path.reversed();
        for hole in lost {
            self.repair(now, id, up, h.flow, hole, 0);
        }
        for w in waiters {
            if let Some(l) = self.legs.get(w) {
                let q = Queued {
                    range: h.range,
                    payload: payload.map(Into::into),
                    fin: h.fin,
                    rtx: false,
                    queued_us,
                    timed: h.timing.is_some(),
                    since: now,
                };
                if !l.queue.holds(h.range) && !l.queue.push(q, self.params.send_buffer_bytes) {
                    self.stats.dropped += 1;
                }
            }
            self.plan(now, w);
        }
        self.tell_rate(now, id, up);
        self.plan(now, id);
    }
}
