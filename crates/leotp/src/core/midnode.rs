//! The node in between: cache, loss repair and congestion control of one hop
//! (section III.A, Fig. 7). It keeps nothing that a flow cannot do without.

use super::legs::Legs;
use super::params::{ParamError, Params};
use super::schedule::Schedule;
use super::sendq::Queued;
use super::{Cache, CacheStats, Path};
use crate::Nanos;
use crate::wire::{DataHeader, HEADER_LEN, Interest, Packet, Range};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

mod repair;

/// What a Midnode has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct MidnodeStats {
    /// Interests taken from downstream.
    pub interests_in: u64,
    /// Interests passed upstream, repairs of our own included.
    pub interests_out: u64,
    /// Interests of our own for holes (SHR).
    pub repairs: u64,
    /// Interests for bytes that the Interests from downstream had skipped.
    pub asked_ahead: u64,
    /// Interests answered, in whole or part, from the cache.
    pub cache_hits: u64,
    /// Interests that joined one already on its way (multicast).
    pub aggregated: u64,
    /// Data packets taken from upstream.
    pub data_in: u64,
    /// Data packets sent downstream.
    pub data_out: u64,
    /// Payload bytes sent downstream.
    pub bytes_out: u64,
    /// Void Packet Headers made here.
    pub vph_made: u64,
    /// Packets dropped because a sending buffer was full.
    pub dropped: u64,
    /// Packets passed on untouched: not LEOTP, or of a flow without state.
    pub passed: u64,
    /// Interests cut short because of the amplification bound.
    pub cut: u64,
}

enum Control {
    Interest {
        flow: u64,
        range: Range,
        rtx: bool,
        fresh: bool,
        leg: u32,
    },
    Raw(Vec<u8>),
}

/// A transparent intermediate node.
///
/// ```text
///            Interest                                Data / VPH
///  down ---> [cache] --miss--> [aggregation] ---> up ---> [hole detection]
///    ^         | hit                                         | VPH | Interest for the hole
///    |         v                                             v     v
///    +--- [sending buffer, token bucket] <--- [cache] <------+     up
/// ```
pub struct Midnode {
    params: Params,
    cache: Cache,
    legs: Legs,
    schedule: Schedule,
    control: VecDeque<(Path, Control)>,
    repeats: BinaryHeap<Reverse<Repeat>>,
    next_sweep: Nanos,
    stats: MidnodeStats,
}

impl std::fmt::Debug for Midnode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Midnode")
            .field("legs", &self.legs.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// An own repair to look at again: (time, leg, start, end, round).
type Repeat = (Nanos, u32, u64, u64, u32);

/// Repairs under watch at once; beyond, the Consumer's timeout is the watch.
const MAX_REPEATS: usize = 65_536;
/// Packets waiting to be passed on; beyond, they are dropped as a full queue would.
const MAX_CONTROL: usize = 65_536;

impl Midnode {
    /// A Midnode without flows.
    pub fn new(params: Params) -> Result<Self, ParamError> {
        params.validate()?;
        let cache = Cache::new(params.cache_bytes);
        Ok(Self {
            params,
            cache,
            legs: Legs::default(),
            schedule: Schedule::default(),
            control: VecDeque::new(),
            repeats: BinaryHeap::new(),
            next_sweep: 0,
            stats: MidnodeStats::default(),
        })
    }

    /// Counters.
    pub const fn stats(&self) -> MidnodeStats {
        self.stats
    }

    /// The cache's counters.
    pub const fn cache_stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Flows with state.
    pub fn flows(&self) -> usize {
        self.legs.len()
    }

    /// BL of a flow, byte (equation 9); `path` is its Data's.
    pub fn buffered_bytes(&mut self, flow: u64, path: Path) -> u64 {
        let id = self.legs.find(flow, path);
        id.and_then(|id| self.legs.get(id))
            .map_or(0, |l| l.queue.bytes())
    }

    /// One line about a flow, for people.
    pub fn describe(&mut self, flow: u64, path: Path) -> String {
        let id = self.legs.find(flow, path);
        let Some(l) = id.and_then(|id| self.legs.get(id)) else {
            return String::from("no state");
        };
        let ms = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e6;
        format!(
            "buffer {} B in {} packets, {:?} cwnd {:.0} B hopRTT {:.1} ms min {:.1} ms throughput {:.2} Mbit/s, asks {:.2}, sends at {:.2} Mbit/s, {} holes",
            l.queue.bytes(),
            l.queue.len(),
            l.cc.phase(),
            l.cc.cwnd_bytes(),
            ms(l.cc.hop_rtt_ns()),
            ms(l.cc.hop_rtt_min_ns()),
            l.cc.throughput_bps() / 1e6,
            l.last_up_rate as f64 / 1e6,
            l.bucket.rate_bps() as f64 / 1e6,
            l.holes.open_holes()
        )
    }

    /// Takes one datagram that passes by on `path`.
    pub fn handle_datagram(&mut self, now: Nanos, path: Path, bytes: &[u8]) {
        if now >= self.next_sweep {
            self.next_sweep = now + (self.params.flow_expiry_ns / 4).max(1);
            self.legs
                .expire(now.saturating_sub(self.params.flow_expiry_ns));
        }
        match Packet::parse(bytes) {
            Ok(Packet::Interest(i)) => self.on_interest(now, path, &i, bytes),
            Ok(Packet::Data(h, payload)) => self.on_data(now, path, &h, Some(payload), bytes),
            Ok(Packet::Vph(h)) => self.on_data(now, path, &h, None, bytes),
            // Not ours to judge: a router passes packets on.
            Err(_) => self.pass(path, bytes),
        }
    }

    fn pass(&mut self, path: Path, bytes: &[u8]) {
        if self.control.len() < MAX_CONTROL {
            self.stats.passed += 1;
            self.control.push_back((path, Control::Raw(bytes.to_vec())));
        } else {
            self.stats.dropped += 1;
        }
    }

    fn on_interest(&mut self, now: Nanos, path: Path, i: &Interest, bytes: &[u8]) {
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
        leg.seen = now;
        if self.params.hop_by_hop && !i.bare {
            leg.owd = Some((now.wrapping_sub(i.timestamp) as i64, i.tag));
            leg.bucket.set_rate(now, i.rate_bps);
            leg.down_rate = i.rate_bps;
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
                spent += n + HEADER_LEN as u64;
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
            if i.rtx && self.params.shr_repeats > 0 {
                let patience = leg
                    .cc
                    .hop_rtt_ns()
                    .unwrap_or(self.params.initial_hop_rtt_ns as f64)
                    as Nanos;
                if !leg.note_repair(now, r, patience) {
                    self.stats.aggregated += 1;
                    continue;
                }
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

    /// Data, or a VPH when there is no payload.
    fn on_data(
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
                h.timestamp,
                // Measured for another node's Interest, it is about another clock.
                h.interest_owd.filter(|_| h.tag == leg.tag),
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
                let mut known = super::RangeSet::new();
                known.insert(gap);
                for m in cache.missing(key, gap) {
                    known.remove(m);
                }
                known
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
                since: now,
            };
            leg.queue.push(q, room);
        }
        let whole = Queued {
            range: h.range,
            payload: payload.map(Into::into),
            fin: h.fin,
            rtx: h.rtx,
            queued_us: h.queued_us,
            since: now,
        };
        if !(payload.is_some() && !h.range.is_empty() && leg.queue.holds(h.range)) {
            if !self.params.hop_by_hop && payload.is_some() {
                // Ablation: forwarded untouched, so that the endpoints measure
                // the whole path; order with our VPH is kept by the control queue.
                while let Some(v) = leg.queue.pop() {
                    let mut out = Vec::new();
                    emit(leg.flow, &v, now, None, &mut out);
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
                    queued_us: h.queued_us,
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

    fn plan(&mut self, now: Nanos, id: u32) {
        let Some(leg) = self.legs.get(id) else { return };
        if leg.queue.is_empty() {
            return;
        }
        // A header costs nothing worth waiting for.
        let free = leg.queue.peek_is_vph() || !self.params.hop_by_hop;
        let at = if free { now } else { leg.bucket.ready_at(now) };
        let planned = leg.planned;
        let new = self.schedule.plan(id, at, planned);
        if let Some(leg) = self.legs.get(id) {
            leg.planned = new;
        }
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        if !self.control.is_empty() {
            return Some(0);
        }
        let repeat = self.repeats.peek().map(|Reverse(r)| r.0);
        [self.schedule.next(), repeat].into_iter().flatten().min()
    }

    /// Appends the next datagram due at `now` to `out` and returns its path.
    pub fn poll_transmit(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Path> {
        self.run_repeats(now);
        if let Some((path, c)) = self.control.pop_front() {
            match c {
                Control::Raw(b) => out.extend_from_slice(&b),
                Control::Interest {
                    flow,
                    range,
                    rtx,
                    fresh,
                    leg,
                } => {
                    let bare = !self.params.hop_by_hop;
                    let (rate, tag) = match self.legs.get(leg) {
                        Some(l) => {
                            let rate =
                                l.cc.rate_bps(Some((l.queue.bytes(), l.down_rate)), &self.params);
                            (l.last_up, l.last_up_rate) = (now, rate);
                            (rate, l.tag)
                        }
                        None => (crate::wire::MIN_RATE_BPS, 0),
                    };
                    self.stats.interests_out += 1;
                    let padding = self.params.padding_for(range.len());
                    Interest {
                        flow,
                        range,
                        timestamp: now,
                        rate_bps: rate,
                        rtx,
                        fresh,
                        bare,
                        tag,
                        padding,
                    }
                    .encode(out);
                }
            }
            return Some(path);
        }
        while let Some((at, id)) = self.schedule.pop_due(now) {
            let hop_by_hop = self.params.hop_by_hop;
            let Some(leg) = self.legs.get(id) else {
                continue;
            };
            if leg.planned != Some(at) {
                continue;
            }
            leg.planned = None;
            if !leg.queue.peek_is_vph() && hop_by_hop && leg.bucket.ready_at(now) > now {
                self.plan(now, id);
                continue;
            }
            let Some(q) = leg.queue.pop() else { continue };
            let path = leg.path;
            let before = out.len();
            emit(leg.flow, &q, now, leg.owd, out);
            leg.bucket.take(now, (out.len() - before) as u64);
            self.stats.data_out += u64::from(q.payload.is_some());
            self.stats.bytes_out += q.payload.map_or(0, |p| p.len() as u64);
            self.plan(now, id);
            return Some(path);
        }
        None
    }
}

fn emit(flow: u64, q: &Queued, now: Nanos, owd: Option<(i64, u16)>, out: &mut Vec<u8>) {
    let waited = u32::try_from(now.saturating_sub(q.since) / 1000).unwrap_or(u32::MAX);
    let h = DataHeader {
        flow,
        range: q.range,
        timestamp: now,
        interest_owd: owd.map(|o| o.0),
        tag: owd.map_or(0, |o| o.1),
        queued_us: q.queued_us.saturating_add(waited),
        fin: q.fin,
        rtx: q.rtx,
    };
    match &q.payload {
        Some(p) => h.encode_data(p, out),
        None => h.encode_vph(out),
    }
}
