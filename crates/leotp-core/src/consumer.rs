//! The data sink: requests a flow, repairs losses, delivers in order.

use super::cc::HopCc;
use super::holes::HoleTracker;
use super::meta::{META_LEN, Meta};
use super::params::{ParamError, Params};
use super::rtt::Rto;
use super::window::Window;
use super::{Path, RangeSet};
use crate::Nanos;
use crate::wire::{Interest, META_BASE, Range};
use std::collections::{BTreeMap, VecDeque};

mod receive;
mod repair;
mod report;

pub use report::{ConsumerState, ConsumerStats, FlowError};

struct Pending {
    end: u64,
    /// Start of the running timeout.
    sent: Nanos,
    /// The time of the first request.
    first: Nanos,
    tries: u32,
    /// Own repair to be repeated at this time (`shr_repeats`), and its round.
    again: Option<(Nanos, u32)>,
}

impl Pending {
    /// Creates the state of an Interest sent at `now`, for bytes up to `end`.
    fn new(now: Nanos, end: u64) -> Self {
        Self {
            end,
            sent: now,
            first: now,
            tries: 0,
            again: None,
        }
    }
}

/// Bytes that are requested a second time, past all caches.
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
    /// Delivered bytes that have not been hashed yet: with many chunks at a time the hasher is
    /// several times faster than with the one and a half of a packet.
    unhashed: Vec<u8>,
    meta_bytes: [u8; META_LEN as usize],
    meta: Option<Meta>,
    out: VecDeque<(Range, bool, bool)>,
    fresh: Option<Fresh>,
    freshness: Freshness,
    tag: u16,
    last_up: Nanos,
    last_rate: u64,
    next_scan: Nanos,
    /// Whether an event has occurred since the last scan.
    heard: bool,
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

/// The parts that a Consumer accepts from its Producer only.
///
/// Nodes on the path keep passing bytes, without an age, and some of them over restarts. The
/// record describes the flow's bytes. From the Producer it describes the present flow: bytes of
/// an older flow with the same id then fail the digest instead of being accepted as the new
/// flow's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Freshness {
    /// No part: record and bytes may come from any cache, even if the Producer is gone. They may
    /// be of an older flow.
    Any,
    /// The record. Bytes may come from any cache.
    #[default]
    Record,
    /// All parts. Nodes forget their bytes of the flow.
    All,
}

impl Consumer {
    /// Creates a Consumer of `flow` that sends its Interests along `up`. `prefix` is a hasher
    /// that has processed the bytes `[0, start)` when a transfer is resumed; without it only a
    /// transfer from byte 0 is checked against the digest.
    ///
    /// # Errors
    /// Invalid parameters.
    pub fn new(
        params: Params,
        flow: u64,
        up: Path,
        start: u64,
        prefix: Option<blake3::Hasher>,
    ) -> Result<Self, ParamError> {
        params.validate()?;
        // Bytes from the middle of a flow cannot be checked: the digest is of the whole flow.
        let hasher = prefix.or_else(|| (start == 0).then(blake3::Hasher::new));
        let mut holes = HoleTracker::new(params.hole_threshold, params.max_hole_bytes);
        // Without this a loss of the very first packets would not be seen as a hole.
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
            unhashed: Vec::new(),
            meta_bytes: [0; META_LEN as usize],
            meta: None,
            out: VecDeque::new(),
            fresh: None,
            freshness: Freshness::default(),
            tag: 0,
            last_up: 0,
            last_rate: 0,
            next_scan: 0,
            heard: true,
            error: None,
            stats: ConsumerStats::default(),
        };
        // The record is requested first: it has the flow's length and digest.
        c.ask_meta(0);
        Ok(c)
    }

    fn ask_meta(&mut self, now: Nanos) {
        let r = Range {
            start: META_BASE,
            end: META_BASE + META_LEN,
        };
        self.pending.insert(r.start, Pending::new(now, r.end));
        self.out.push_back((r, false, false));
    }

    /// Returns the counters.
    pub const fn stats(&self) -> ConsumerStats {
        self.stats
    }

    /// Returns the present state, for reports.
    pub fn state(&self) -> ConsumerState {
        ConsumerState {
            flow: self.flow,
            upstream: self.cc.state(),
            requested_bps: self.last_rate,
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

    /// Leaves the check of the bytes to the caller, for one that has a better check than the
    /// digest (`leotp::seal`).
    pub fn without_digest(&mut self) {
        (self.hasher, self.unhashed) = (None, Vec::new());
    }

    /// Sets the parts that the Producer itself must answer; default: [`Freshness::Record`].
    pub const fn set_freshness(&mut self, freshness: Freshness) {
        self.freshness = freshness;
    }

    /// Sets the path's round-trip time that others have measured ([`Rto::expect`]).
    pub fn expect_rtt(&mut self, rtt_ns: Nanos) {
        self.rto.expect(rtt_ns);
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

    /// Requests more of the flow while the window and the buffer allow.
    fn ask(&mut self, now: Nanos) {
        if self.error.is_some() {
            return;
        }
        // At least one Interest must fit, or the flow would stop.
        let window = self
            .window
            .bytes(&self.params)
            .max(self.params.interest_bytes());
        // An application that does not read stops the requests, and with them the Data: flow
        // control needs no message of its own.
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
            self.pending.insert(r.start, Pending::new(now, r.end));
            self.out.push_back((r, false, false));
            self.notice(now);
        }
    }

    /// Notes an event: timeouts are checked at short intervals again.
    fn notice(&mut self, now: Nanos) {
        self.heard = true;
        self.next_scan = self.next_scan.min(now + self.scan_every_ns());
    }

    /// The time to come back if no datagram arrives.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        // With nothing outstanding no timeout can occur.
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
        // Timeouts are scanned only when nothing is queued: their repairs go to the end of the
        // same queue.
        if now >= self.next_scan && self.out.is_empty() {
            self.scan(now);
        }
        if self.out.is_empty() {
            self.ask(now);
        }
        // The tag names this node's clock: a delay of another Requester's Interest on this path
        // must not be used.
        if self.stats.interests == 0 {
            self.tag = super::clock_tag(now, self.flow ^ u64::from(self.up.src.port()));
        }
        let (range, rtx, fresh) = self.out.pop_front()?;
        // The record's request may have waited in the queue; its timeout runs from now.
        if range.is_meta()
            && let Some(p) = self.pending.get_mut(&META_BASE)
        {
            p.sent = now;
        }
        let fresh = fresh
            || match self.freshness {
                Freshness::Any => false,
                Freshness::Record => range.is_meta(),
                Freshness::All => !range.is_empty(),
            };
        // Equation 10 alone: a Consumer has no next hop, so equation 9 does not apply. The rate
        // is piggybacked on every Interest (section III.C).
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
            sparse: self.params.timing_every > 1,
            tag: self.tag,
            padding,
        }
        .encode(out);
        Some(self.up)
    }
}
