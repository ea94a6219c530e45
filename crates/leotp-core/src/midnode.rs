//! The node in between: cache, loss repair and congestion control of one hop (section III.A, Fig.
//! 7). A flow survives when a Midnode loses all its state.

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

/// Counters of a Midnode since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct MidnodeStats {
    /// Interests taken from downstream.
    pub interests_in: u64,
    /// Interests passed upstream, repairs of our own included.
    pub interests_out: u64,
    /// Interests of this node for holes (SHR).
    pub repairs: u64,
    /// Interests for bytes that the Interests from downstream had skipped.
    pub asked_ahead: u64,
    /// Interests answered, in whole or part, from the cache.
    pub cache_hits: u64,
    /// Interests that joined one already sent (multicast).
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
    /// Packets passed on unchanged: not LEOTP, or of a flow without state.
    pub passed: u64,
    /// Interests cut short because of the amplification bound.
    pub cut: u64,
    /// Datagrams dropped because their TTL or hop limit was used up.
    pub expired: u64,
}

/// A datagram that passes this node.
#[derive(Clone, Copy)]
struct Passing<'a> {
    now: Nanos,
    path: Path,
    /// The hop limit with which it leaves.
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

/// A packet that leaves before all Data.
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

/// An own repair to be checked again: (time, leg, start, end, round).
type Repeat = (Nanos, SlotId, u64, u64, u32);

/// The largest number of repairs that are checked again; for others the Consumer's timeout does
/// that.
const MAX_REPEATS: usize = 65_536;
/// The largest number of packets waiting to be passed on; others are dropped as by a full queue.
const MAX_CONTROL: usize = 65_536;

impl Midnode {
    /// Creates a Midnode without flows.
    ///
    /// # Errors
    /// Invalid parameters.
    pub fn new(params: Params) -> Result<Self, ParamError> {
        params.validate()?;
        let cache = Cache::new(params.cache_bytes);
        Ok(Self::with_cache(params, cache))
    }

    /// Creates a Midnode whose cache has a second place for blocks that do not fit in memory.
    ///
    /// # Errors
    /// Invalid parameters.
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

    /// Puts all blocks of the cache into its store.
    pub fn flush_cache(&mut self) {
        self.cache.flush();
    }

    /// Returns the counters.
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

    /// Returns BL of a flow, byte (equation 9); `path` is that of its Data.
    pub fn buffered_bytes(&mut self, flow: u64, path: Path) -> u64 {
        let id = self.legs.find(flow, path);
        id.and_then(|id| self.legs.get(id))
            .map_or(0, |l| l.queue.bytes())
    }

    /// Handles a datagram that passes on `path` and whose TTL is not known: the packets that this
    /// node sends in reaction have the system's default.
    pub fn handle_datagram(&mut self, now: Nanos, path: Path, bytes: &[u8]) {
        self.handle_forwarded(now, path, None, bytes);
    }

    /// Handles a datagram that passes on `path` with this TTL or hop limit. As at any router, a
    /// passing datagram leaves with one less, and one that has none left is dropped: packets in a
    /// routing loop die. A Midnode's own requests have the hop limit of the flow's latest
    /// Interest; Data from its cache begins here.
    pub fn handle_forwarded(&mut self, now: Nanos, path: Path, came: HopLimit, bytes: &[u8]) {
        // A Midnode keeps no connections (section III.A): the state of a flow that is silent for
        // `flow_expiry_ns` is dropped. Four sweeps per period bound the delay.
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
            // Not LEOTP: a router passes packets on.
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

    /// Queues an Interest of a leg's flow to be sent upstream, unless too many wait already.
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
        // A header is too short to wait for tokens.
        let free = leg.queue.peek_is_vph() || !self.params.hop_by_hop;
        let at = if free { now } else { leg.bucket.ready_at(now) };
        let planned = leg.planned;
        // The schedule keeps one valid entry per leg; older entries are skipped when they are
        // due.
        let new = self.schedule.plan(id, at, planned);
        if let Some(leg) = self.legs.get(id) {
            leg.planned = new;
        }
    }

    /// Returns the time to come back.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        // Interests and passed packets are not paced, so they are due at once.
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
        // Repairs that were not answered are queued as Interests first.
        self.run_repeats(now);
        // The Rate Limiter of Fig. 9 is for Data only: Interests and passed packets leave at
        // once.
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
            // A stale entry: the leg has been planned for another time since.
            if leg.planned != Some(at) {
                continue;
            }
            leg.planned = None;
            // Fig. 9: the Rate Limiter paces Data. The rate may have fallen since the plan was
            // made.
            if !leg.queue.peek_is_vph() && hop_by_hop && leg.bucket.ready_at(now) > now {
                self.plan(now, id);
                continue;
            }
            let Some(q) = leg.queue.pop() else { continue };
            let path = leg.path;
            let before = out.len();
            leg.emit(&q, now, &self.params, out);
            // Headers count too: the rate is in bits on the wire.
            leg.bucket.take(now, (out.len() - before) as u64);
            self.stats.data_out += u64::from(q.payload.is_some());
            self.stats.bytes_out += q.payload.map_or(0, |p| p.len() as u64);
            self.plan(now, id);
            return Some((path, q.hop_limit));
        }
        None
    }

    /// Writes an Interest that leaves now, with the present rate.
    fn emit_interest(&mut self, now: Nanos, ask: Ask, out: &mut Vec<u8>) {
        let (rate_bps, tag) = match self.legs.get(ask.leg) {
            Some(l) => {
                // Equations 9 and 10: BL is this node's sending buffer, Rate_nextHop the rate
                // that the next node downstream has requested.
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
