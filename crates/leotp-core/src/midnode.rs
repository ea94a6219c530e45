//! The node in between: cache, loss repair and congestion control of one hop
//! (section III.A, Fig. 7). It keeps nothing that a flow cannot do without.

use super::legs::Legs;
use super::params::{ParamError, Params};
use super::schedule::Schedule;
use super::{Cache, CacheStats, Path};
use crate::Nanos;
use crate::wire::{Interest, Packet, Range};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

mod data;
mod interest;
mod repair;
mod state;

pub use state::FlowState;

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
                        sparse: self.params.timing_every > 1,
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
            leg.emit(&q, now, &self.params, out);
            leg.bucket.take(now, (out.len() - before) as u64);
            self.stats.data_out += u64::from(q.payload.is_some());
            self.stats.bytes_out += q.payload.map_or(0, |p| p.len() as u64);
            self.plan(now, id);
            return Some(path);
        }
        None
    }
}
