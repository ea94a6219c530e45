//! A Midnode's processing of Data and Void Packet Headers: it measures the hop, looks for holes,
//! caches, and queues for the next node.

use super::{Control, Midnode, Passing};
use crate::RangeSet;
use crate::holes::Seen;
use crate::sendq::Queued;
use crate::table::SlotId;
use crate::wire::{DataHeader, MAX_QUEUED_US, Range};
use std::collections::BTreeMap;

impl Midnode {
    /// Handles Data, or a VPH when there is no payload.
    pub(super) fn on_data(&mut self, p: Passing<'_>, h: &DataHeader, payload: Option<&[u8]>) {
        let Some(id) = self.legs.find(h.flow, p.path) else {
            return self.pass(p);
        };
        let Some(leg) = self.legs.get(id) else { return };
        if !h.range.is_meta() && h.range.end > leg.requested_end && !h.range.is_empty() {
            // No Interest through this node has requested these bytes: they belong neither in the
            // cache nor in hole detection.
            return self.pass(p);
        }
        self.legs.touch(id, p.now);
        self.stats.data_in += u64::from(payload.is_some());
        let (Seen { opened, lost }, waiters) = self.measure(p, id, h, payload.is_some());
        let room = self.legs.room(p.path.dst.ip(), &self.params);
        if let (Some(bytes), Some(leg)) = (payload, self.legs.get(id)) {
            // The repair that was in progress is answered. The bytes go to the cache while they
            // are forwarded (section III.A), so that the next node's repairs need only one hop.
            leg.repairing.remove(&h.range.start);
            self.cache.store(leg.cache_key, h.range.start, bytes);
        }
        // The VPH goes first, so that the next node does not see a loss of its own (Fig. 8b).
        self.announce(p, id, opened, room);
        self.forward(p, id, h, payload, room);
        let up = p.path.reversed();
        // Algorithm 1, line 14: an Interest for each hole that has been skipped more than N
        // times.
        for hole in lost {
            self.repair(p.now, id, up, h.flow, hole, 0);
        }
        if let Some(payload) = payload {
            self.share(p, h, payload, &waiters);
        }
        self.send_rate(p.now, id, up);
        self.plan(p.now, id);
    }

    /// Queues the parts of a packet that other legs wait for: to each the bytes that it has
    /// requested.
    fn share(
        &mut self,
        p: Passing<'_>,
        h: &DataHeader,
        payload: &[u8],
        waiters: &BTreeMap<SlotId, RangeSet>,
    ) {
        for (waiter, wanted) in waiters {
            let Some(consumer) = self.legs.get(*waiter).map(|leg| leg.path.dst.ip()) else {
                continue;
            };
            let room = self.legs.room(consumer, &self.params);
            for part in wanted.iter() {
                let from = (part.start - h.range.start) as usize;
                let Some(bytes) = payload.get(from..from + part.len() as usize) else {
                    continue;
                };
                let own = DataHeader {
                    range: part,
                    // The end of the flow is valid only in the part that reaches it.
                    fin: h.fin && part.end == h.range.end,
                    rtx: false,
                    ..*h
                };
                let Some(leg) = self.legs.get(*waiter) else {
                    continue;
                };
                // Bytes that wait already are not queued twice.
                if !leg.queue.holds(part) && !leg.queue.push(queued(p, &own, Some(bytes)), room) {
                    self.stats.dropped += 1;
                }
            }
            self.plan(p.now, *waiter);
        }
    }

    /// Updates congestion control, and looks for holes before the packet. Also returns the other
    /// legs that wait for it.
    fn measure(
        &mut self,
        p: Passing<'_>,
        id: SlotId,
        h: &DataHeader,
        payload: bool,
    ) -> (Seen, BTreeMap<SlotId, RangeSet>) {
        let mut waiters = BTreeMap::new();
        let Some((leg, shared)) = self.legs.with_shared(id) else {
            return (Seen::default(), waiters);
        };
        if h.fin {
            shared.fin = Some(h.range.end);
        }
        if payload {
            // The leg itself gets the packet by `forward`, so it is not one of the waiters.
            waiters = shared.arrived(h.range);
            waiters.remove(&id);
        }
        // Section III.C: every packet counts as throughput (equation 6), and a timed one gives a
        // hopRTT sample.
        if self.params.hop_by_hop {
            leg.cc.on_data(
                p.now,
                p.bytes.len() as u64,
                h.timing.and_then(|t| t.measured(leg.tag)),
                &self.params,
            );
        }
        // The record has addresses beyond the flow, and an empty range says nothing about order.
        if !self.params.shr || h.range.is_meta() || h.range.is_empty() {
            return (Seen::default(), waiters);
        }
        let (cache, key, unasked) = (&self.cache, leg.cache_key, &leg.unasked);
        // Algorithm 1. These bytes are no loss although they are missing here: bytes in the
        // cache, bytes that another leg has requested, and bytes that were never requested
        // through this node.
        let seen = leg.holes.on_packet(h.range, |gap| {
            RangeSet::between(gap, cache.missing(key, gap))
                .iter()
                .chain(shared.awaited_by_others(id, gap))
                .chain(unasked.iter())
                .collect()
        });
        // Bytes before `lastByte` cannot open a hole any more.
        if let (false, Some(last)) = (leg.unasked.is_empty(), leg.holes.last_byte()) {
            leg.unasked.remove(Range {
                start: 0,
                end: last,
            });
        }
        // With `lost_is_carried` the hop has carried the lost bytes (equation 6).
        for hole in &seen.lost {
            leg.cc.on_lost(self.params.wire_bytes(*hole), &self.params);
        }
        (seen, waiters)
    }

    /// Queues Void Packet Headers for holes, downstream.
    fn announce(&mut self, p: Passing<'_>, id: SlotId, holes: Vec<Range>, room: u64) {
        let Some(leg) = self.legs.get(id) else { return };
        for range in holes {
            self.stats.vph_made += 1;
            let q = Queued {
                range,
                payload: None,
                fin: false,
                rtx: false,
                queued_us: 0,
                // A header made here always carries timing.
                timed: true,
                since: p.now,
                hop_limit: p.hop_limit,
            };
            leg.queue.push(q, room);
        }
    }

    /// Queues the packet itself, downstream, unless its bytes wait already.
    fn forward(
        &mut self,
        p: Passing<'_>,
        id: SlotId,
        h: &DataHeader,
        payload: Option<&[u8]>,
        room: u64,
    ) {
        let Some(leg) = self.legs.get(id) else { return };
        // These bytes have come twice, for example by a repair and a late original.
        if payload.is_some() && !h.range.is_empty() && leg.queue.holds(h.range) {
            return;
        }
        if self.params.hop_by_hop || payload.is_none() {
            if !leg.queue.push(queued(p, h, payload), room) {
                self.stats.dropped += 1;
            }
            return;
        }
        // Ablation: forwarded unchanged, so that the endpoints measure the whole path; the
        // control queue keeps the order with our VPH.
        while let Some(v) = leg.queue.pop() {
            let mut out = Vec::new();
            leg.emit(&v, p.now, &self.params, &mut out);
            self.control
                .push_back((p.path, v.hop_limit, Control::Raw(out)));
        }
        let whole = Control::Raw(p.bytes.to_vec());
        self.control.push_back((p.path, p.hop_limit, whole));
        self.stats.data_out += 1;
    }
}

/// Returns a packet for a sending buffer.
fn queued(p: Passing<'_>, h: &DataHeader, payload: Option<&[u8]>) -> Queued {
    Queued {
        range: h.range,
        payload: payload.map(Into::into),
        fin: h.fin,
        rtx: h.rtx,
        // The wait of a packet without timing is not known.
        queued_us: h.timing.map_or(MAX_QUEUED_US, |t| t.queued_us),
        timed: h.timing.is_some(),
        since: p.now,
        hop_limit: p.hop_limit,
    }
}
