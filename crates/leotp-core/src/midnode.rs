//! The node in between: cache, loss repair and congestion control of one hop
//! (section III.A, Fig. 7). It keeps nothing that a flow cannot do without.

use super::legs::Legs;
use super::params::{ParamError, Params};
use super::schedule::Schedule;
use super::sendq::HopLimit;
use super::table::SlotId;
use super::{BlockStore, Cache, CacheStats, Path};
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
    /// Datagrams dropped because their TTL or hop limit was used up.
    pub expired: u64,
}

/// A datagram that passes by.
#[derive(Clone, Copy)]
struct Passing<'a> {
    now: Nanos,
    path: Path,
    /// What it leaves with.
    hop_limit: HopLimit,
    bytes: &'a [u8],
}

/// An Interest to be sent upstream.
#[derive(Clone, Copy)]
struct Ask {
    flow: u64,
    range: Range,
    rtx: bool,
    fresh: bool,
    leg: SlotId,
}

/// What leaves before all Data.
enum Control {
    Interest(Ask),
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
    control: VecDeque<(Path, HopLimit, Control)>,
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
type Repeat = (Nanos, SlotId, u64, u64, u32);

/// Repairs under watch at once; beyond, the Consumer's timeout is the watch.
const MAX_REPEATS: usize = 65_536;
/// Packets waiting to be passed on; beyond, they are dropped as a full queue would.
const MAX_CONTROL: usize = 65_536;

impl Midnode {
    /// A Midnode without flows.
    ///
    /// # Errors
    /// Parameters that cannot work.
    pub fn new(params: Params) -> Result<Self, ParamError> {
        params.validate()?;
        let cache = Cache::new(params.cache_bytes);
        Ok(Self::with_cache(params, cache))
    }

    /// A Midnode whose cache has a second place for what memory has no room for.
    ///
    /// # Errors
    /// Parameters that cannot work.
    pub fn with_store(params: Params, store: Box<dyn BlockStore>) -> Result<Self, ParamError> {
        params.validate()?;
        let cache = Cache::new(params.cache_bytes).with_store(store);
        Ok(Self::with_cache(params, cache))
    }

    fn with_cache(params: Params, cache: Cache) -> Self {
        Self {
            legs: Legs::new(&params),
            params,
            cache,
            schedule: Schedule::default(),
            control: VecDeque::new(),
            repeats: BinaryHeap::new(),
            next_sweep: 0,
            stats: MidnodeStats::default(),
        }
    }

    /// Hands what the cache has in memory to its store.
    pub fn flush_cache(&mut self) {
        self.cache.flush();
    }

    /// What has passed so far, and what was done about it.
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

    /// Takes one datagram that passes by on `path`, whose TTL is not known: what it
    /// makes this node send leaves with the system's own.
    pub fn handle_datagram(&mut self, now: Nanos, path: Path, bytes: &[u8]) {
        self.handle_forwarded(now, path, None, bytes);
    }

    /// Takes one datagram that passes by on `path` with this TTL or hop limit. As at any
    /// router, what passes leaves with one less, and what has none left goes no
    /// further: packets in a routing loop die. What a Midnode asks for by itself has the
    /// hop limit of the flow's latest Interest; Data from its cache begins here.
    pub fn handle_forwarded(&mut self, now: Nanos, path: Path, came: HopLimit, bytes: &[u8]) {
        if now >= self.next_sweep {
            self.next_sweep = now + (self.params.flow_expiry_ns / 4).max(1);
            self.legs
                .expire(now.saturating_sub(self.params.flow_expiry_ns));
        }
        let hop_limit = match came {
            Some(0 | 1) => {
                self.stats.expired += 1;
                return;
            }
            Some(n) => Some(n - 1),
            None => None,
        };
        let passing = Passing {
            now,
            path,
            hop_limit,
            bytes,
        };
        match Packet::parse(bytes) {
            Ok(Packet::Interest(i)) => self.on_interest(passing, &i),
            Ok(Packet::Data(h, payload)) => self.on_data(passing, &h, Some(payload)),
            Ok(Packet::Vph(h)) => self.on_data(passing, &h, None),
            // Not ours to judge: a router passes packets on.
            Err(_) => self.pass(passing),
        }
    }

    fn pass(&mut self, p: Passing<'_>) {
        if self.control.len() < MAX_CONTROL {
            self.stats.passed += 1;
            let raw = Control::Raw(p.bytes.to_vec());
            self.control.push_back((p.path, p.hop_limit, raw));
        } else {
            self.stats.dropped += 1;
        }
    }

    /// Sends an Interest of a leg's flow up, unless too much waits already.
    fn ask(&mut self, up: Path, hop_limit: HopLimit, ask: Ask) -> bool {
        let room = self.control.len() < MAX_CONTROL;
        if room {
            self.control
                .push_back((up, hop_limit, Control::Interest(ask)));
        }
        room
    }

    fn plan(&mut self, now: Nanos, id: SlotId) {
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
        self.poll_forward(now, out).map(|(path, _)| path)
    }

    /// As [`Self::poll_transmit`], with the TTL or hop limit that the datagram must have.
    pub fn poll_forward(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<(Path, HopLimit)> {
        self.run_repeats(now);
        if let Some((path, hop_limit, c)) = self.control.pop_front() {
            match c {
                Control::Raw(b) => out.extend_from_slice(&b),
                Control::Interest(ask) => self.emit_interest(now, ask, out),
            }
            return Some((path, hop_limit));
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
            return Some((path, q.hop_limit));
        }
        None
    }

    /// Writes an Interest that leaves now, with the rate of now.
    fn emit_interest(&mut self, now: Nanos, ask: Ask, out: &mut Vec<u8>) {
        let (rate_bps, tag) = match self.legs.get(ask.leg) {
            Some(l) => {
                let downstream = (l.queue.bytes(), l.down_rate);
                let rate = l.cc.rate_bps(Some(downstream), &self.params);
                (l.last_up, l.last_up_rate) = (now, rate);
                (rate, l.tag)
            }
            None => (crate::wire::MIN_RATE_BPS, 0),
        };
        self.stats.interests_out += 1;
        Interest {
            flow: ask.flow,
            range: ask.range,
            timestamp: now,
            rate_bps,
            rtx: ask.rtx,
            fresh: ask.fresh,
            bare: !self.params.hop_by_hop,
            sparse: self.params.timing_every > 1,
            tag,
            padding: self.params.padding_for(ask.range.len()),
        }
        .encode(out);
    }
}
