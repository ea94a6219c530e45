//! Per-flow state of a Midnode, one *leg* per (flow, Consumer, Producer), and
//! the table of legs with its bounds.

use super::cc::HopCc;
use super::holes::HoleTracker;
use super::params::Params;
use super::sendq::Queued;
use super::timing::TimingChoice;
use super::{Path, RangeSet, SendQueue, TokenBucket};
use crate::Nanos;
use crate::wire::{DataHeader, Range};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

/// State of one Consumer's share of a flow.
pub(crate) struct Leg {
    pub(crate) flow: u64,
    /// Path of its Data, Producer to Consumer.
    pub(crate) path: Path,
    /// Name of the flow in the cache.
    pub(crate) cache_key: u64,
    // As Requester toward the Producer.
    pub(crate) cc: HopCc,
    pub(crate) holes: HoleTracker,
    pub(crate) requested_end: u64,
    /// Bytes below `requested_end` that no Interest through this node has asked
    /// for: they went another way, and their absence is no loss.
    pub(crate) unasked: RangeSet,
    /// Bytes asked for here although no Interest for them has come (`interest_holes`).
    pub(crate) asked_ahead: RangeSet,
    /// How many of them, and how many have been asked for by Interests that came.
    pub(crate) ahead_bytes: u64,
    pub(crate) asked_bytes: u64,
    /// Repairs on their way: start -> (end, asked at). Kept with `shr_repeats`.
    pub(crate) repairing: BTreeMap<u64, (u64, Nanos)>,
    pub(crate) last_up: Nanos,
    pub(crate) last_up_rate: u64,
    // As Responder toward the Consumer.
    pub(crate) queue: SendQueue,
    pub(crate) bucket: TokenBucket,
    pub(crate) down_rate: u64,
    /// One-way delay of the latest Interest, and its tag.
    pub(crate) owd: Option<(i64, u16)>,
    pub(crate) timing: TimingChoice,
    /// Our own tag toward the Producer.
    pub(crate) tag: u16,
    pub(crate) planned: Option<Nanos>,
    pub(crate) seen: Nanos,
}

/// Bytes a young flow may have asked for ahead of its Interests.
const FREE_AHEAD: u64 = 8192;
/// Stretches of a flow that went another way, remembered per leg.
const MAX_UNASKED: usize = 256;

impl Leg {
    /// Nothing of the flow has passed for as long as a Consumer waits at least before it
    /// asks again: what was on its way here has been asked for on another way since, and
    /// its absence is no loss.
    pub(crate) fn back_on_the_path(&mut self, p: &Params) {
        self.holes = HoleTracker::new(p.hole_threshold, p.max_hole_bytes);
        self.requested_end = 0;
        (self.unasked, self.asked_ahead) = (RangeSet::new(), RangeSet::new());
        self.repairing.clear();
    }

    /// Notes that `r` is being asked for through this node.
    /// A leap of at most `lost` bytes is Interests lost on their way here: their
    /// bytes will be missed, and asking for them is a repair.
    pub(crate) fn note_asked(&mut self, r: Range, lost: u64) {
        if self.requested_end > 0 && r.start > self.requested_end.saturating_add(lost) {
            self.unasked.insert(Range {
                start: self.requested_end,
                end: r.start,
            });
            if self.unasked.count() > MAX_UNASKED {
                let first = self.unasked.iter().next();
                if let Some(first) = first {
                    self.unasked.remove(first);
                }
            }
        } else {
            self.unasked.remove(r);
        }
        self.requested_end = self.requested_end.max(r.end);
    }

    /// What was skipped before `r` and is to be asked for on the spot, given that
    /// a leap of at most `lost` bytes is Interests lost on their way here. No more
    /// than a quarter of what Interests have paid for: leaps must not amplify.
    pub(crate) fn skipped(&mut self, r: Range, lost: u64) -> Option<Range> {
        let gap = Range {
            start: self.requested_end,
            end: r.start,
        };
        self.asked_bytes += r.len();
        if self.requested_end == 0 || gap.start >= gap.end || gap.len() > lost {
            return None;
        }
        if self.ahead_bytes + gap.len() > self.asked_bytes / 4 + FREE_AHEAD {
            return None;
        }
        self.ahead_bytes += gap.len();
        if self.asked_ahead.count() > MAX_UNASKED {
            self.asked_ahead = RangeSet::new();
        }
        self.asked_ahead.insert(gap);
        Some(gap)
    }

    /// Writes a packet of the sending buffer that leaves now.
    pub(crate) fn emit(&mut self, q: &Queued, now: Nanos, p: &Params, out: &mut Vec<u8>) {
        let waited = (q.since, q.queued_us);
        let header = DataHeader {
            flow: self.flow,
            range: q.range,
            timing: self.timing.of(now, self.owd, waited, q.timed, p),
            fin: q.fin,
            rtx: q.rtx,
        };
        match &q.payload {
            Some(p) => header.encode_data(p, out),
            None => header.encode_vph(out),
        }
    }

    /// Notes a repair asked for at `now`; `false` when the same bytes were asked
    /// for less than a hopRTT ago, so that the repeats of several
    /// nodes do not multiply on their way up.
    pub(crate) fn note_repair(&mut self, now: Nanos, r: Range, params: &Params) -> bool {
        let patience = self.cc.assumed_hop_rtt_ns(params) as Nanos;
        if let Some((_, &(end, at))) = self.repairing.range(..=r.start).next_back()
            && end >= r.end
            && now.saturating_sub(at) < patience
        {
            return false;
        }
        if self.repairing.len().is_multiple_of(64) {
            self.repairing
                .retain(|_, (_, at)| now.saturating_sub(*at) < patience);
        }
        if self.repairing.len() >= 1024 {
            self.repairing.pop_first();
        }
        self.repairing.insert(r.start, (r.end, now));
        true
    }
}

/// An Interest on its way upstream, and who waits for the answer (section VII,
/// Multicast). Kept only for flows with more than one Consumer.
pub(crate) struct Pending {
    pub(crate) end: u64,
    pub(crate) owner: u32,
    pub(crate) at: Nanos,
    pub(crate) waiters: Vec<u32>,
}

/// What Consumers of one flow share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) legs: Vec<u32>,
    pub(crate) pending: BTreeMap<u64, Pending>,
    pub(crate) fin: Option<u64>,
}

/// Entries of the aggregation table per flow.
const MAX_PENDING: usize = 16_384;

impl Shared {
    /// Joins `leg` to an Interest already on its way for all of `r`, sent for
    /// another leg not longer than `ttl` ago.
    pub(crate) fn join(&mut self, now: Nanos, ttl: Nanos, leg: u32, r: Range) -> bool {
        match self.pending.range_mut(..=r.start).next_back() {
            Some((_, p)) if p.end >= r.end && p.owner != leg && now.saturating_sub(p.at) <= ttl => {
                if !p.waiters.contains(&leg) {
                    p.waiters.push(leg);
                }
                true
            }
            _ => false,
        }
    }

    /// Notes an Interest sent for `leg`.
    pub(crate) fn sent(&mut self, now: Nanos, ttl: Nanos, leg: u32, r: Range) {
        if self.legs.len() < 2 {
            return;
        }
        if self.pending.len() >= MAX_PENDING {
            self.pending.retain(|_, p| now.saturating_sub(p.at) <= ttl);
            if self.pending.len() >= MAX_PENDING {
                return;
            }
        }
        let waiters = self
            .pending
            .remove(&r.start)
            .map_or_else(Vec::new, |p| p.waiters);
        self.pending.insert(
            r.start,
            Pending {
                end: r.end,
                owner: leg,
                at: now,
                waiters,
            },
        );
    }

    /// Legs that wait for bytes of `r`, which have now arrived.
    pub(crate) fn arrived(&mut self, r: Range) -> Vec<u32> {
        let mut out = Vec::new();
        let touched: Vec<u64> = self
            .pending
            .range(..r.end)
            .rev()
            .take_while(|(_, p)| p.end > r.start)
            .map(|(&s, _)| s)
            .collect();
        for s in touched {
            if let Some(p) = self.pending.get(&s) {
                for &w in &p.waiters {
                    if !out.contains(&w) {
                        out.push(w);
                    }
                }
                if p.end <= r.end {
                    self.pending.remove(&s);
                }
            }
        }
        out
    }

    /// Parts of `r` awaited on behalf of legs other than `leg`.
    pub(crate) fn awaited_by_others(&self, leg: u32, r: Range) -> Vec<Range> {
        let hit = self
            .pending
            .range(..r.end)
            .rev()
            .take_while(|(_, p)| p.end > r.start);
        hit.filter(|(_, p)| p.owner != leg)
            .map(|(&start, p)| Range { start, end: p.end })
            .collect()
    }
}

/// All legs of a node.
#[derive(Default)]
pub(crate) struct Legs {
    slots: Vec<Option<Box<Leg>>>,
    free: Vec<u32>,
    index: HashMap<(u64, Path), u32>,
    shared: HashMap<(u64, SocketAddr), Shared>,
    per_peer: HashMap<IpAddr, u32>,
}

impl Legs {
    pub(crate) fn find(&self, flow: u64, path: Path) -> Option<u32> {
        self.index.get(&(flow, path)).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Leg> {
        self.slots.iter().filter_map(|l| l.as_deref())
    }

    pub(crate) fn get(&mut self, id: u32) -> Option<&mut Leg> {
        self.slots.get_mut(id as usize)?.as_deref_mut()
    }

    /// A leg and what its flow shares.
    pub(crate) fn with_shared(&mut self, id: u32) -> Option<(&mut Leg, &mut Shared)> {
        let leg = self.slots.get_mut(id as usize)?.as_deref_mut()?;
        let shared = self.shared.get_mut(&(leg.flow, leg.path.src))?;
        Some((leg, shared))
    }

    /// Bytes the sending buffer of a flow to `consumer` may hold: its own bound,
    /// or its share of what all flows of that address may hold together.
    pub(crate) fn room(&self, consumer: IpAddr, p: &Params) -> u64 {
        let n = self.per_peer.get(&consumer).copied().unwrap_or(1).max(1);
        let share = p.peer_buffer_bytes / u64::from(n);
        share.clamp(
            2 * u64::from(p.segment_bytes),
            p.send_buffer_bytes.max(2 * u64::from(p.segment_bytes)),
        )
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// The leg whose Data goes along `path`; a new one if need be and allowed.
    pub(crate) fn find_or_add(
        &mut self,
        now: Nanos,
        flow: u64,
        path: Path,
        p: &Params,
    ) -> Option<u32> {
        if let Some(id) = self.find(flow, path) {
            return Some(id);
        }
        let peer = path.dst.ip();
        if self
            .per_peer
            .get(&peer)
            .is_some_and(|n| *n >= p.max_flows_per_peer)
        {
            return None;
        }
        if self.index.len() >= p.max_flows as usize {
            let idlest = self
                .slots
                .iter()
                .enumerate()
                .filter_map(|(i, l)| l.as_ref().map(|l| (l.seen, i as u32)))
                .min()?
                .1;
            self.remove(idlest);
        }
        let leg = Box::new(Leg {
            flow,
            path,
            cache_key: cache_key(flow, path.src),
            cc: HopCc::new(p),
            holes: HoleTracker::new(p.hole_threshold, p.max_hole_bytes),
            requested_end: 0,
            unasked: RangeSet::new(),
            asked_ahead: RangeSet::new(),
            ahead_bytes: 0,
            asked_bytes: 0,
            repairing: BTreeMap::new(),
            last_up: 0,
            last_up_rate: 0,
            queue: SendQueue::default(),
            bucket: TokenBucket::new(
                crate::wire::MIN_RATE_BPS,
                p.burst_ns,
                2 * u64::from(p.segment_bytes),
            ),
            down_rate: crate::wire::MIN_RATE_BPS,
            owd: None,
            timing: TimingChoice::default(),
            tag: super::clock_tag(now, flow ^ u64::from(path.dst.port())),
            planned: None,
            seen: now,
        });
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[id as usize] = Some(leg);
        self.index.insert((flow, path), id);
        self.shared
            .entry((flow, path.src))
            .or_default()
            .legs
            .push(id);
        *self.per_peer.entry(peer).or_insert(0) += 1;
        Some(id)
    }

    pub(crate) fn remove(&mut self, id: u32) {
        let Some(leg) = self.slots[id as usize].take() else {
            return;
        };
        self.index.remove(&(leg.flow, leg.path));
        self.free.push(id);
        if let Some(s) = self.shared.get_mut(&(leg.flow, leg.path.src)) {
            s.legs.retain(|l| *l != id);
            for p in s.pending.values_mut() {
                p.waiters.retain(|l| *l != id);
            }
            if s.legs.is_empty() {
                self.shared.remove(&(leg.flow, leg.path.src));
            }
        }
        let peer = leg.path.dst.ip();
        if let Some(n) = self.per_peer.get_mut(&peer) {
            *n -= 1;
            if *n == 0 {
                self.per_peer.remove(&peer);
            }
        }
    }

    /// Forgets legs not seen since `before`.
    pub(crate) fn expire(&mut self, before: Nanos) {
        for id in 0..self.slots.len() as u32 {
            if self.slots[id as usize]
                .as_ref()
                .is_some_and(|l| l.seen < before)
            {
                self.remove(id);
            }
        }
    }
}

/// A flow's name in the cache. The Producer's address is part of it, so data
/// from one Producer never answers for another's flow of the same id.
fn cache_key(flow: u64, producer: SocketAddr) -> u64 {
    let mut h = blake3::Hasher::new();
    h.update(&flow.to_be_bytes());
    match producer.ip() {
        IpAddr::V4(a) => h.update(&a.octets()),
        IpAddr::V6(a) => h.update(&a.octets()),
    };
    h.update(&producer.port().to_be_bytes());
    let mut out = [0; 8];
    out.copy_from_slice(&h.finalize().as_bytes()[..8]);
    u64::from_be_bytes(out)
}
