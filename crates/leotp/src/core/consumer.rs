//! The data sink: asks for a flow, repairs what is lost, delivers in order.

use super::cc::{CcState, HopCc};
use super::holes::HoleTracker;
use super::meta::{META_LEN, Meta};
use super::params::{ParamError, Params};
use super::rtt::Rto;
use super::window::Window;
use super::{Path, RangeSet};
use crate::Nanos;
use crate::wire::{DataHeader, Interest, MAX_QUEUED_US, META_BASE, Packet, Range};
use std::collections::{BTreeMap, VecDeque};
use thiserror::Error;

mod repair;

/// Why a flow cannot be delivered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlowError {
    /// An Interest has timed out more often than `max_retries`.
    #[error("no answer for byte {0} after {1} attempts")]
    Unanswered(u64, u32),
    /// Two packets name different ends of the flow, or bytes beyond its end.
    #[error("the flow's end is byte {0} in one packet and {1} in another")]
    EndMoved(u64, u64),
    /// The metadata record is not one.
    #[error("the flow's metadata record is malformed")]
    BadMeta,
    /// The delivered bytes are not the Producer's.
    #[error("the delivered bytes do not match the producer's digest")]
    Digest,
    /// The start asked for lies beyond the flow's end.
    #[error("start {0} lies beyond the flow's end {1}")]
    StartBeyondEnd(u64, u64),
}

/// What a Consumer has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct ConsumerStats {
    /// Interests sent, repairs included.
    pub interests: u64,
    /// Data packets received.
    pub data_packets: u64,
    /// New bytes received.
    pub new_bytes: u64,
    /// Bytes received more than once.
    pub duplicate_bytes: u64,
    /// Void Packet Headers received.
    pub vphs: u64,
    /// Interests repeated after a timeout (TR).
    pub timeouts: u64,
    /// Interests for holes seen here (SHR).
    pub repairs: u64,
    /// Datagrams that were not LEOTP or not for this flow.
    pub bad_packets: u64,
}

/// What a Consumer knows at a moment.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ConsumerState {
    /// Flow id.
    pub flow: u64,
    /// The hop upstream.
    pub upstream: CcState,
    /// Rate last asked for, bit/s.
    pub asked_bps: u64,
    /// Bytes of Interests it may keep out.
    pub window_bytes: u64,
    /// Bytes of Interests that are out.
    pub outstanding_bytes: u64,
    /// Bytes delivered in order, counted from byte 0.
    pub delivered_bytes: u64,
    /// End-to-end smoothed round-trip time including waits at nodes, ns; 0: none yet.
    pub srtt_ns: f64,
}

struct Pending {
    end: u64,
    /// Start of the running timeout.
    sent: Nanos,
    /// When it was first asked for.
    first: Nanos,
    tries: u32,
    /// Own repair to be repeated at this time (`shr_repeats`), and its round.
    again: Option<(Nanos, u32)>,
}

/// Bytes asked for a second time, past all caches.
struct Fresh {
    range: Range,
    got: RangeSet,
    bytes: Vec<u8>,
    asked: Nanos,
    tries: u32,
}

/// Consumer of one flow.
///
/// ```text
///   window open           Data                      all bytes, digest equal
///  -----------> [asked] --------> [received] ... --------------------------> Done
///                | ^  RTO: ask again, RTO x 1.5
///                | +-- hole: ask again at once (SHR)
///                +---- VPH: reset timestamp           conflict, digest, retries: Failed
/// ```
pub struct Consumer {
    params: Params,
    flow: u64,
    up: Path,
    cc: HopCc,
    holes: HoleTracker,
    rto: Rto,
    window: Window,
    start: u64,
    next_request: u64,
    delivered: u64,
    read: u64,
    fin: Option<u64>,
    pending: BTreeMap<u64, Pending>,
    asked_bytes: u64,
    received: RangeSet,
    store: BTreeMap<u64, Vec<u8>>,
    ready: VecDeque<Vec<u8>>,
    hasher: Option<blake3::Hasher>,
    meta_bytes: [u8; META_LEN as usize],
    meta: Option<Meta>,
    out: VecDeque<(Range, bool, bool)>,
    fresh: Option<Fresh>,
    tag: u16,
    last_up: Nanos,
    last_rate: u64,
    next_scan: Nanos,
    error: Option<FlowError>,
    stats: ConsumerStats,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("flow", &self.flow)
            .field("delivered", &self.delivered)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl Consumer {
    /// A Consumer of `flow` that sends its Interests along `up`. `prefix` is a
    /// hasher that has seen the bytes `[0, start)` when a transfer is resumed;
    /// without it only a transfer from byte 0 is checked against the digest.
    pub fn new(
        params: Params,
        flow: u64,
        up: Path,
        start: u64,
        prefix: Option<blake3::Hasher>,
    ) -> Result<Self, ParamError> {
        params.validate()?;
        let hasher = prefix.or_else(|| (start == 0).then(blake3::Hasher::new));
        let mut holes = HoleTracker::new(params.hole_threshold, params.max_hole_bytes);
        holes.expect(start);
        let mut c = Self {
            cc: HopCc::new(&params),
            holes,
            rto: Rto::new(params.rto_min_ns, params.rto_max_ns, params.rto_backoff),
            window: Window::new(),
            params,
            flow,
            up,
            start,
            next_request: start,
            delivered: start,
            read: start,
            fin: None,
            pending: BTreeMap::new(),
            asked_bytes: 0,
            received: RangeSet::new(),
            store: BTreeMap::new(),
            ready: VecDeque::new(),
            hasher,
            meta_bytes: [0; META_LEN as usize],
            meta: None,
            out: VecDeque::new(),
            fresh: None,
            tag: 0,
            last_up: 0,
            last_rate: 0,
            next_scan: 0,
            error: None,
            stats: ConsumerStats::default(),
        };
        c.ask_meta(0);
        Ok(c)
    }

    fn ask_meta(&mut self, now: Nanos) {
        let r = Range {
            start: META_BASE,
            end: META_BASE + META_LEN,
        };
        self.pending.insert(
            r.start,
            Pending {
                end: r.end,
                sent: now,
                tries: 0,
                first: now,
                again: None,
            },
        );
        self.out.push_back((r, false, false));
    }

    /// Counters.
    pub const fn stats(&self) -> ConsumerStats {
        self.stats
    }

    /// What it knows at this moment, for reports.
    pub fn state(&self) -> ConsumerState {
        ConsumerState {
            flow: self.flow,
            upstream: self.cc.state(),
            asked_bps: self.last_rate,
            window_bytes: self.window.bytes(&self.params),
            outstanding_bytes: self.asked_bytes,
            delivered_bytes: self.delivered,
            srtt_ns: self.rto.srtt_ns().unwrap_or(0.0),
        }
    }

    /// This hop's congestion control, for reports.
    pub const fn cc(&self) -> &HopCc {
        &self.cc
    }

    /// End-to-end smoothed round-trip time including waits at nodes, ns.
    pub fn srtt_ns(&self) -> Option<f64> {
        self.rto.srtt_ns()
    }

    /// The flow's length and digest, once known.
    pub const fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    /// The flow's length, once known.
    pub fn total(&self) -> Option<u64> {
        self.fin.or_else(|| self.meta.as_ref().map(|m| m.length))
    }

    /// Bytes of the flow delivered in order so far, counted from byte 0.
    pub const fn position(&self) -> u64 {
        self.delivered
    }

    /// Why the flow failed, if it did.
    pub const fn error(&self) -> Option<&FlowError> {
        self.error.as_ref()
    }

    /// Whether every byte has been received and checked. Bytes may still wait
    /// to be [read](Self::read).
    pub fn is_done(&self) -> bool {
        self.error.is_none()
            && self.fin == Some(self.delivered)
            && (self.meta.is_some() || self.hasher.is_none() && self.start != 0)
    }

    /// Whether bytes wait to be [read](Self::read).
    pub fn has_unread(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Next bytes in order, if any.
    pub fn read(&mut self) -> Option<Vec<u8>> {
        let b = self.ready.pop_front()?;
        self.read += b.len() as u64;
        Some(b)
    }

    /// Leaves the check of the bytes to the caller, who has a better one than
    /// the digest ([`crate::seal`]).
    pub fn without_digest(&mut self) {
        self.hasher = None;
    }

    /// Path of the Interests.
    pub const fn path(&self) -> Path {
        self.up
    }

    fn fail(&mut self, e: FlowError) {
        self.error.get_or_insert(e);
        self.pending.clear();
        self.out.clear();
    }

    /// Takes one datagram.
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
        let meta = h.range.is_meta();
        let beyond = !meta && h.range.end > self.next_request && !(h.fin && payload.is_some());
        if h.flow != self.flow || path != self.up.reversed() || beyond || self.error.is_some() {
            self.stats.bad_packets += 1;
            return;
        }
        self.cc.on_data(
            now,
            bytes.len() as u64,
            h.timestamp,
            // Measured for another node's Interest, it is about another clock.
            h.interest_owd.filter(|_| h.tag == self.tag),
            &self.params,
        );
        if self.params.shr && !meta && !h.range.is_empty() {
            let received = &self.received;
            let seen = self.holes.on_packet(h.range, |gap| {
                let mut known = RangeSet::new();
                known.insert(gap);
                for m in received.missing(gap) {
                    known.remove(m);
                }
                known.iter().collect()
            });
            for hole in seen.lost {
                self.cc.on_lost(self.params.wire_bytes(hole), &self.params);
                self.repair(now, hole);
            }
        }
        match payload {
            Some(p) => {
                self.stats.data_packets += 1;
                if meta {
                    self.on_meta(h, p)
                } else {
                    self.on_bytes(now, h, p)
                }
            }
            None => {
                self.stats.vphs += 1;
                // "It will reset the timestamp of the corresponding Interest."
                let watch = self.again_at(now + self.watch_ns(), 0);
                for p in self.overlapping(h.range) {
                    p.sent = now;
                    if p.again.is_none() {
                        p.again = watch;
                    }
                }
            }
        }
        self.ask(now);
        self.tell_rate(now);
    }

    fn overlapping(&mut self, r: Range) -> impl Iterator<Item = &mut Pending> {
        self.pending
            .range_mut(..r.end)
            .rev()
            .take_while(move |(_, p)| p.end > r.start)
            .map(|(_, p)| p)
    }

    fn on_meta(&mut self, h: &DataHeader, payload: &[u8]) {
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
            self.pending.remove(&META_BASE);
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
        match self.fin {
            Some(f) if f != end => return self.fail(FlowError::EndMoved(f, end)),
            Some(_) => return,
            None => {}
        }
        if self.start > end {
            return self.fail(FlowError::StartBeyondEnd(self.start, end));
        }
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
        // Nothing beyond the end will come.
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
                // A live flow's record exists only now.
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
            // Only answers to repeated Interests can be answers to these.
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
            // In order, the common case.
            fresh = from.len();
            self.deliver(payload[(from.start - h.range.start) as usize..].to_vec());
        } else {
            for m in self.received.missing(from) {
                let a = (m.start - h.range.start) as usize;
                self.store
                    .insert(m.start, payload[a..a + m.len() as usize].to_vec());
                self.received.insert(m);
                fresh += m.len();
            }
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
        self.window.on_bytes(now, fresh, self.rto.srtt_ns());
        self.settle(now, h);
        self.check_digest();
    }

    fn deliver(&mut self, b: Vec<u8>) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&b);
        }
        self.delivered += b.len() as u64;
        self.ready.push_back(b);
    }

    /// Closes Interests whose bytes have come.
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
                // Karn's rule asks for samples without ambiguity. The answer says
                // whether it is to a repeated Interest; if not, it is to the first,
                // even when we have grown impatient since.
                if !h.rtx && s < META_BASE {
                    let rtt = now.saturating_sub(p.first);
                    self.rto.on_sample(rtt);
                    // A wait too long for the field would pass for distance, and the
                    // window would feed on itself.
                    if h.queued_us < MAX_QUEUED_US {
                        let waited = u64::from(h.queued_us) * 1000;
                        self.window
                            .on_rtt(now, rtt.saturating_sub(waited).max(1000));
                    }
                }
            }
        }
    }

    fn check_digest(&mut self) {
        if self.fin != Some(self.delivered) {
            return;
        }
        if let (Some(hasher), Some(m)) = (&self.hasher, &self.meta)
            && hasher.finalize().as_bytes() != &m.digest
        {
            self.fail(FlowError::Digest);
        }
    }

    /// Asks for more of the flow while the window and the buffer allow.
    fn ask(&mut self, now: Nanos) {
        if self.error.is_some() {
            return;
        }
        let window = self
            .window
            .bytes(&self.params)
            .max(self.params.interest_bytes());
        let limit = self
            .fin
            .unwrap_or(META_BASE)
            .min(self.read.saturating_add(self.params.recv_buffer_bytes));
        while self.next_request < limit && self.asked_bytes < window {
            let r = Range {
                start: self.next_request,
                end: limit.min(self.next_request + self.params.interest_bytes()),
            };
            self.next_request = r.end;
            self.asked_bytes += r.len();
            self.pending.insert(
                r.start,
                Pending {
                    end: r.end,
                    sent: now,
                    tries: 0,
                    first: now,
                    again: None,
                },
            );
            self.out.push_back((r, false, false));
        }
    }

    /// When to come back although no datagram has come.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        if self.error.is_some()
            || self.pending.is_empty() && self.out.is_empty() && self.fresh.is_none()
        {
            return None;
        }
        Some(if self.out.is_empty() {
            self.next_scan
        } else {
            0
        })
    }

    /// Appends the next datagram to `out` and returns its path.
    pub fn poll_transmit(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Path> {
        if self.error.is_some() {
            return None;
        }
        if now >= self.next_scan && self.out.is_empty() {
            self.scan(now);
        }
        if self.out.is_empty() {
            self.ask(now);
        }
        if self.stats.interests == 0 {
            self.tag = super::clock_tag(now, self.flow ^ u64::from(self.up.src.port()));
        }
        let (range, rtx, fresh) = self.out.pop_front()?;
        if range.is_meta()
            && let Some(p) = self.pending.get_mut(&META_BASE)
        {
            p.sent = now;
        }
        let rate = self.cc.rate_bps(None, &self.params);
        (self.last_up, self.last_rate) = (now, rate);
        self.stats.interests += 1;
        let padding = self.params.padding_for(range.len());
        Interest {
            flow: self.flow,
            range,
            timestamp: now,
            rate_bps: rate,
            rtx,
            fresh,
            bare: false,
            tag: self.tag,
            padding,
        }
        .encode(out);
        Some(self.up)
    }
}
