//! The data source: answers Interests at the rate that the next node requests.

use super::params::{ParamError, Params};
use super::schedule::Schedule;
use super::table::{FlowTable, SlotId};
use super::timing::TimingChoice;
use super::{Path, RangeSet, TokenBucket};
use crate::Nanos;
use crate::wire::{DATA_HEADER_MAX, DataHeader, Interest, META_BASE, Packet, Range};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;

/// The part of a flow that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Available {
    /// Bytes `[0, end)` can be read, except those that a live source has dropped.
    pub end: u64,
    /// `end` is the end of the flow.
    pub finished: bool,
}

/// The source of a flow's bytes. The state machine calls it; it must not block for long.
pub trait Source: Send {
    /// Returns the part that exists now.
    fn available(&self) -> Available;
    /// Fills `buf` with the bytes at `offset`; `false` when they are not available.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> bool;
    /// The [metadata record](super::Meta), once the flow is finished.
    fn meta(&self) -> Option<Vec<u8>>;
}

/// Counters of a Producer since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct ProducerStats {
    /// Interests accepted.
    pub interests: u64,
    /// Data packets sent.
    pub data_packets: u64,
    /// Payload bytes sent.
    pub data_bytes: u64,
    /// Payload bytes of these that answered a repair request.
    pub rtx_bytes: u64,
    /// Datagrams that were not LEOTP or not for a Producer.
    pub bad_packets: u64,
    /// Interests for flows not served here.
    pub unknown_flow: u64,
    /// Interests cut short because they requested more than the amplification bound.
    pub cut: u64,
    /// Interests refused because a bound of memory was reached.
    pub refused: u64,
    /// Bytes that the source could not provide.
    pub source_failures: u64,
}

/// Largest number of waiting requests per flow and Consumer.
const MAX_WAITING: usize = 65_536;
/// Largest number of requests for future bytes that a request for earlier bytes may overtake: a
/// Consumer's window has no more.
const LOOK_BACK: usize = 1024;

struct Request {
    range: Range,
    rtx: bool,
    since: Nanos,
}

struct Leg {
    key: (u64, Path),
    repairs: VecDeque<Request>,
    fifo: VecDeque<Request>,
    waiting: RangeSet,
    bucket: TokenBucket,
    owd: Option<(i64, u16)>,
    timing: TimingChoice,
    planned: Option<Nanos>,
}

impl Leg {
    fn new(key: (u64, Path), p: &Params) -> Self {
        Self {
            key,
            repairs: VecDeque::new(),
            fifo: VecDeque::new(),
            waiting: RangeSet::new(),
            bucket: TokenBucket::new(
                crate::wire::MIN_RATE_BPS,
                p.burst_ns,
                2 * u64::from(p.segment_bytes),
            ),
            owd: None,
            timing: TimingChoice::default(),
            planned: None,
        }
    }

    /// Queues the announcement of the flow's end at byte `end`.
    fn say_end(&mut self, now: Nanos, end: u64) {
        let range = Range { start: end, end };
        // Many Interests beyond the end get one answer. The search is bounded.
        if !self.fifo.iter().rev().take(64).any(|r| r.range == range) {
            self.fifo.push_back(Request {
                range,
                rtx: false,
                since: now,
            });
        }
    }
}

/// Producer of any number of flows to any number of Consumers.
///
/// ```text
///  Interest --> amplification, memory bounds --> [waiting requests] --tokens--> Data
///                     | rate                          ^ same bytes asked twice:
///                     +--> token bucket               | answered once
/// ```
pub struct Producer {
    params: Params,
    flows: HashMap<u64, Box<dyn Source>>,
    legs: FlowTable<Leg>,
    /// For live flows, the legs that wait for future bytes.
    stalled: HashMap<u64, BTreeSet<SlotId>>,
    schedule: Schedule,
    next_sweep: Nanos,
    scratch: Vec<u8>,
    stats: ProducerStats,
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer")
            .field("flows", &self.flows.len())
            .field("legs", &self.legs.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl Producer {
    /// Creates a Producer without flows.
    ///
    /// # Errors
    /// Invalid parameters.
    pub fn new(params: Params) -> Result<Self, ParamError> {
        params.validate()?;
        Ok(Self {
            legs: FlowTable::new(&params),
            params,
            flows: HashMap::new(),
            stalled: HashMap::new(),
            schedule: Schedule::default(),
            next_sweep: 0,
            scratch: Vec::new(),
            stats: ProducerStats::default(),
        })
    }

    /// Serves `source` as `flow`, and replaces the source that was served under that id.
    pub fn publish(&mut self, flow: u64, source: Box<dyn Source>) {
        self.flows.insert(flow, source);
    }

    /// Stops serving `flow`.
    pub fn withdraw(&mut self, flow: u64) {
        self.flows.remove(&flow);
        self.stalled.remove(&flow);
    }

    /// Returns the counters.
    pub const fn stats(&self) -> ProducerStats {
        self.stats
    }

    /// Consumers' flows with state.
    pub fn legs(&self) -> usize {
        self.legs.len()
    }

    /// Notifies the Producer that a live source has more bytes or has finished.
    pub fn on_available(&mut self, now: Nanos, flow: u64) {
        for id in self.stalled.remove(&flow).unwrap_or_default() {
            self.plan(now, id);
        }
    }

    /// Handles one datagram that arrived on `path`.
    pub fn handle_datagram(&mut self, now: Nanos, path: Path, bytes: &[u8]) {
        self.sweep(now);
        match Packet::parse(bytes) {
            Ok(Packet::Interest(i)) => self.on_interest(now, path, &i, bytes.len()),
            _ => self.stats.bad_packets += 1,
        }
    }

    fn on_interest(&mut self, now: Nanos, path: Path, i: &Interest, wire_len: usize) {
        let Some(source) = self.flows.get(&i.flow) else {
            self.stats.unknown_flow += 1;
            return;
        };
        let avail = source.available();
        let Some(id) = self.leg_for(now, (i.flow, path.reversed())) else {
            self.stats.refused += 1;
            return;
        };
        self.stats.interests += 1;
        self.legs.touch(id, now);
        // The bound applies before anything is queued, so an Interest cannot fill memory either.
        let (range, cut) = self.within_bound(i.range, wire_len);
        self.stats.cut += u64::from(cut);
        let share = self
            .legs
            .quota()
            .share(path.src.ip(), self.params.peer_buffer_bytes);
        // A request stands for about 256 bytes of the Consumer's share of memory.
        let most = usize::try_from(share / 256).unwrap_or(usize::MAX);
        let Some(leg) = self.legs.get_mut(id) else {
            return;
        };
        if !i.bare {
            // The first half of hopRTT, the Interest's OWD (section III.C).
            leg.owd = Some((now.wrapping_sub(i.timestamp) as i64, i.tag));
            leg.bucket.set_requested_rate(now, i.rate_bps);
            (leg.timing.sparse, leg.timing.rate_bps) = (i.sparse, i.rate_bps);
        }
        let mut range = range;
        // The record may be requested at any time, but has a fixed length.
        if range.is_meta() {
            range.end = range.end.min(META_BASE + super::META_LEN);
        } else if avail.finished
            && (range.end > avail.end || range.start == avail.end)
            && !i.range.is_empty()
        {
            // Beyond the end: announce the end instead.
            range.end = range.end.min(avail.end);
            if range.start >= range.end {
                leg.say_end(now, avail.end);
            }
        }
        if range.start < range.end {
            // Bytes that are requested twice are answered once.
            for m in leg.waiting.missing(range) {
                if leg.fifo.len() + leg.repairs.len() >= most.clamp(64, MAX_WAITING) {
                    self.stats.refused += 1;
                    break;
                }
                leg.waiting.insert(m);
                // A request for future bytes must not block repairs of existing ones.
                let urgent = i.rtx && m.start < avail.end;
                let lane = if urgent {
                    &mut leg.repairs
                } else {
                    &mut leg.fifo
                };
                // Nor may it block earlier bytes: Interests overtake each other, and are
                // repeated.
                let before = |r: &Request| r.range.start <= m.start || r.range.start < avail.end;
                let behind = lane.iter().rev().take(LOOK_BACK).take_while(|r| !before(r));
                let at = lane.len() - behind.count();
                let request = Request {
                    range: m,
                    rtx: i.rtx,
                    since: now,
                };
                lane.insert(at, request);
            }
        }
        self.plan(now, id);
    }

    /// Returns the part of `range` that an Interest of `wire_len` bytes may be answered with, so
    /// that no answer exceeds the amplification factor. Also, whether it is shorter than `range`.
    fn within_bound(&self, range: Range, wire_len: usize) -> (Range, bool) {
        let segment = u64::from(self.params.segment_bytes);
        let budget = wire_len as u64 * u64::from(self.params.max_amplification);
        let header = DATA_HEADER_MAX as u64;
        // Each packet of the answer has a header. The last one may be shorter than a segment.
        let whole = budget / (segment + header) * segment;
        let most = whole + (budget % (segment + header)).saturating_sub(header);
        let cut = range.len() > most;
        let end = if cut { range.start + most } else { range.end };
        (Range { end, ..range }, cut)
    }

    fn leg_for(&mut self, now: Nanos, key: (u64, Path)) -> Option<SlotId> {
        if let Some(id) = self.legs.find(&key) {
            return Some(id);
        }
        if !self.legs.admits(&key) {
            return None;
        }
        if let Some(idlest) = self.legs.idlest_if_full() {
            self.drop_leg(idlest);
        }
        Some(self.legs.add(now, key, Leg::new(key, &self.params)))
    }

    fn drop_leg(&mut self, id: SlotId) {
        let Some(leg) = self.legs.remove(id) else {
            return;
        };
        let flow = leg.key.0;
        if let Some(stalled) = self.stalled.get_mut(&flow) {
            stalled.remove(&id);
            if stalled.is_empty() {
                self.stalled.remove(&flow);
            }
        }
    }

    fn sweep(&mut self, now: Nanos) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + (self.params.flow_expiry_ns / 4).max(1);
        let before = now.saturating_sub(self.params.flow_expiry_ns);
        while let Some(id) = self.legs.idle_since(before) {
            self.drop_leg(id);
        }
    }

    fn plan(&mut self, now: Nanos, id: SlotId) {
        let Some(leg) = self.legs.get_mut(id) else {
            return;
        };
        if leg.fifo.is_empty() && leg.repairs.is_empty() {
            return;
        }
        let at = leg.bucket.ready_at(now);
        leg.planned = self.schedule.plan(id, at, leg.planned);
    }

    /// Returns the time of the next datagram, as far as is known now.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.schedule.next()
    }

    /// Appends the next datagram due at `now` to `out` and returns its path.
    pub fn poll_transmit(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Path> {
        while let Some((at, id)) = self.schedule.pop_due(now) {
            let Some(leg) = self.legs.get_mut(id) else {
                continue;
            };
            // A stale entry of the schedule.
            if leg.planned != Some(at) {
                continue;
            }
            leg.planned = None;
            // The rate may have been lowered since the plan was made (Fig. 9, Rate Limiter).
            if leg.bucket.ready_at(now) > now {
                self.plan(now, id);
                continue;
            }
            if let Some(path) = self.send_one(now, id, out) {
                self.plan(now, id);
                return Some(path);
            }
        }
        None
    }

    fn send_one(&mut self, now: Nanos, id: SlotId, out: &mut Vec<u8>) -> Option<Path> {
        let segment = u64::from(self.params.segment_bytes);
        let leg = self.legs.get_mut(id)?;
        let (flow, path) = leg.key;
        let source = self.flows.get_mut(&flow)?;
        let avail = source.available();
        loop {
            // Repairs go first: a Consumer's delivery in order waits for them.
            let from_repairs = !leg.repairs.is_empty();
            let lane = if from_repairs {
                &mut leg.repairs
            } else {
                &mut leg.fifo
            };
            let req = lane.front_mut()?;
            let mut r = Range {
                start: req.range.start,
                end: req.range.end.min(req.range.start + segment),
            };
            let (rtx, since) = (req.rtx, req.since);
            if r.is_meta() {
                lane.pop_front();
                leg.waiting.remove(r);
                // Not finished: the Consumer repeats the request when it knows the end.
                let Some(meta) = source.meta() else { continue };
                let part =
                    meta.get((r.start - META_BASE) as usize..(r.end - META_BASE) as usize)?;
                self.scratch.clear();
                self.scratch.extend_from_slice(part);
            } else {
                r.end = r.end.min(avail.end);
                if r.start >= avail.end && !avail.finished {
                    // A live flow: wait for `on_available`.
                    self.stalled.entry(flow).or_default().insert(id);
                    return None;
                }
                // The request lies beyond an end that was set after it was queued.
                if r.end < r.start {
                    let gone = lane.pop_front()?;
                    leg.waiting.remove(gone.range);
                    continue;
                }
                // The request keeps its rest, which is sent when the next tokens arrive.
                req.range.start = r.end;
                leg.waiting.remove(r);
                if req.range.is_empty() || (avail.finished && r.end == avail.end) {
                    let rest = lane.pop_front()?;
                    leg.waiting.remove(rest.range);
                }
                self.scratch.resize(r.len() as usize, 0);
                if !r.is_empty() && !source.read_at(r.start, &mut self.scratch) {
                    // The source cannot provide these bytes, for example because a live source
                    // has dropped them: they stay unanswered.
                    self.stats.source_failures += r.len();
                    continue;
                }
            }
            let header = DataHeader {
                flow,
                range: r,
                // Timing with no earlier waits: this is the first node of the Data's path. The
                // wait here counts, so that the Consumer's window does not count it as distance.
                timing: leg.timing.of(now, leg.owd, (since, 0), false, &self.params),
                fin: avail.finished && !r.is_meta() && r.end == avail.end,
                rtx,
            };
            let before = out.len();
            header.encode_data(&self.scratch, out);
            // Headers count too: the rate is in bits on the wire.
            leg.bucket.take(now, (out.len() - before) as u64);
            self.stats.data_packets += 1;
            self.stats.data_bytes += r.len();
            if rtx {
                self.stats.rtx_bytes += r.len();
            }
            return Some(path);
        }
    }

    /// Returns the Consumers' addresses, for tests and reports.
    pub fn peers(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.legs.keys().map(|(_, p)| p.dst)
    }
}

#[cfg(test)]
mod tests;
