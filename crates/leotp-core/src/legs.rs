//! Per-flow state of a Midnode, one *leg* per (flow, Consumer, Producer), and
//! the table of legs with its bounds.

use super::cc::HopCc;
use super::holes::HoleTracker;
use super::params::Params;
use super::sendq::{HopLimit, Queued};
use super::shared::Shared;
use super::table::{FlowTable, SlotId};
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
    /// Bytes below `requested_end` that no Interest through this node has requested: they used
    /// another path, and their absence is no loss.
    pub(crate) unasked: RangeSet,
    /// Bytes requested here although no Interest for them has arrived (`interest_holes`).
    pub(crate) asked_ahead: RangeSet,
    /// The number of these bytes, and of the bytes requested by Interests that arrived.
    pub(crate) ahead_bytes: u64,
    pub(crate) asked_bytes: u64,
    /// Repairs in progress: start -> (end, time of the request). Kept with `shr_repeats`.
    pub(crate) repairing: BTreeMap<u64, (u64, Nanos)>,
    /// Repairs noted since the answered ones among them were last removed.
    noted: u32,
    pub(crate) last_up: Nanos,
    pub(crate) last_up_rate: u64,
    // As Responder toward the Consumer.
    pub(crate) queue: SendQueue,
    pub(crate) bucket: TokenBucket,
    pub(crate) down_rate: u64,
    /// One-way delay of the latest Interest, and its tag.
    pub(crate) owd: Option<(i64, u16)>,
    /// Hop limit of this node's own requests: the latest Interest's, one less.
    pub(crate) hop_limit: HopLimit,
    pub(crate) timing: TimingChoice,
    /// Our own tag toward the Producer.
    pub(crate) tag: u16,
    pub(crate) planned: Option<Nanos>,
}

/// Bytes that a young flow may have requested ahead of its Interests.
const FREE_AHEAD: u64 = 8192;
/// Ranges of a flow that used another path, remembered per leg.
const MAX_UNASKED: usize = 256;

impl Leg {
    fn new(now: Nanos, flow: u64, path: Path, p: &Params) -> Self {
        Self {
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
            noted: 0,
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
            hop_limit: None,
            timing: TimingChoice::default(),
            tag: super::clock_tag(now, flow ^ u64::from(path.dst.port())),
            planned: None,
        }
    }

    /// Resets hole detection after a silence as long as a Consumer's shortest wait before it
    /// repeats an Interest: the bytes on their way here have been requested on another path
    /// since, and their absence is no loss.
    pub(crate) fn back_on_the_path(&mut self, p: &Params) {
        self.holes = HoleTracker::new(p.hole_threshold, p.max_hole_bytes);
        self.requested_end = 0;
        (self.unasked, self.asked_ahead) = (RangeSet::new(), RangeSet::new());
        self.repairing.clear();
    }

    /// Notes that `r` is being requested through this node. A jump of at most `lost` bytes means
    /// that Interests were lost on their way here: their bytes will be missed, and requesting
    /// them is a repair.
    pub(crate) fn note_asked(&mut self, r: Range, lost: u64) {
        // A longer jump: the flow used another path for the bytes in between.
        if self.requested_end > 0 && r.start > self.requested_end.saturating_add(lost) {
            self.unasked.insert(Range {
                start: self.requested_end,
                end: r.start,
            });
            // Bounded memory: the lowest range is forgotten, and its bytes would then count as
            // lost.
            if self.unasked.count() > MAX_UNASKED {
                let first = self.unasked.iter().next();
                if let Some(first) = first {
                    self.unasked.remove(first);
                }
            }
        } else {
            // The bytes are requested here after all, so they can be lost here.
            self.unasked.remove(r);
        }
        self.requested_end = self.requested_end.max(r.end);
    }

    /// Returns the bytes skipped before `r` that must be requested at once, if a jump of at most
    /// `lost` bytes means that Interests were lost on their way here. At most a quarter of the
    /// bytes that Interests have paid for: jumps must not amplify.
    pub(crate) fn skipped(&mut self, r: Range, lost: u64) -> Option<Range> {
        let gap = Range {
            start: self.requested_end,
            end: r.start,
        };
        self.asked_bytes += r.len();
        if self.requested_end == 0 || gap.start >= gap.end || gap.len() > lost {
            return None;
        }
        // Interests pay for what they request; forged jumps could otherwise cause unbounded
        // requests.
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

    /// Notes a repair requested at `now`; `false` when the same bytes were requested less than a
    /// hopRTT ago, so that the repeats of several nodes do not multiply on their way upstream.
    pub(crate) fn note_repair(&mut self, now: Nanos, r: Range, params: &Params) -> bool {
        // An answer takes a hopRTT; until then a repetition is pointless.
        let patience = self.cc.assumed_hop_rtt_ns(params) as Nanos;
        if let Some((_, &(end, at))) = self.repairing.range(..=r.start).next_back()
            && end >= r.end
            && now.saturating_sub(at) < patience
        {
            return false;
        }
        self.noted += 1;
        // Removing old ones takes one pass, so it is done only after as many new entries.
        if self.noted as usize > self.repairing.len().max(64) {
            self.noted = 0;
            self.repairing
                .retain(|_, (_, at)| now.saturating_sub(*at) < patience);
        }
        // Memory is bounded; a forgotten repair is at worst requested once more.
        if self.repairing.len() >= 1024 {
            self.repairing.pop_first();
        }
        self.repairing.insert(r.start, (r.end, now));
        true
    }
}

/// All legs of a node.
pub(crate) struct Legs {
    table: FlowTable<Box<Leg>>,
    shared: HashMap<(u64, SocketAddr), Shared>,
}

impl Legs {
    pub(crate) fn new(p: &Params) -> Self {
        Self {
            table: FlowTable::new(p),
            shared: HashMap::new(),
        }
    }

    pub(crate) fn find(&self, flow: u64, path: Path) -> Option<SlotId> {
        self.table.find(&(flow, path))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Leg> {
        self.table.iter().map(|l| &**l)
    }

    pub(crate) fn get(&mut self, id: SlotId) -> Option<&mut Leg> {
        self.table.get_mut(id).map(|l| &mut **l)
    }

    /// Returns a leg and the state that its flow's legs share.
    pub(crate) fn with_shared(&mut self, id: SlotId) -> Option<(&mut Leg, &mut Shared)> {
        let leg = self.table.get_mut(id)?;
        let shared = self.shared.get_mut(&(leg.flow, leg.path.src))?;
        Some((leg, shared))
    }

    /// Notes that a packet of the leg passes; returns the time of the previous one.
    pub(crate) fn touch(&mut self, id: SlotId, now: Nanos) -> Option<Nanos> {
        self.table.touch(id, now)
    }

    /// Returns the bytes that the sending buffer of a flow to `consumer` may hold: its own bound,
    /// or its share of the bound for all flows of that address, or IPv6 /64.
    pub(crate) fn room(&self, consumer: IpAddr, p: &Params) -> u64 {
        let share = self.table.quota().share(consumer, p.peer_buffer_bytes);
        // Two segments must always fit, or the flow could not send at all.
        share.clamp(
            2 * u64::from(p.segment_bytes),
            p.send_buffer_bytes.max(2 * u64::from(p.segment_bytes)),
        )
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the leg whose Data uses `path`; adds one if necessary and allowed.
    pub(crate) fn find_or_add(
        &mut self,
        now: Nanos,
        flow: u64,
        path: Path,
        p: &Params,
    ) -> Option<SlotId> {
        let key = (flow, path);
        if let Some(id) = self.table.find(&key) {
            return Some(id);
        }
        if !self.table.admits(&key) {
            return None;
        }
        // A full table drops the leg that was idle for longest, whose state can be rebuilt
        // (section VII).
        if let Some(idlest) = self.table.idlest_if_full() {
            self.remove(idlest);
        }
        self.shared.entry((flow, path.src)).or_default().legs += 1;
        let leg = Box::new(Leg::new(now, flow, path, p));
        Some(self.table.add(now, key, leg))
    }

    fn remove(&mut self, id: SlotId) {
        let Some(leg) = self.table.remove(id) else {
            return;
        };
        let key = (leg.flow, leg.path.src);
        if let Some(s) = self.shared.get_mut(&key) {
            s.legs -= 1;
            if s.legs == 0 {
                self.shared.remove(&key);
            }
        }
    }

    /// Forgets legs not seen since `before`.
    pub(crate) fn expire(&mut self, before: Nanos) {
        while let Some(id) = self.table.idle_since(before) {
            self.remove(id);
        }
    }
}

/// Returns a flow's name in the cache. It includes the Producer's address, so that data of one
/// Producer never answers for another's flow of the same id.
fn cache_key(flow: u64, producer: SocketAddr) -> u64 {
    let mut h = blake3::Hasher::new();
    h.update(&flow.to_be_bytes());
    match producer.ip() {
        IpAddr::V4(a) => h.update(&a.octets()),
        IpAddr::V6(a) => h.update(&a.octets()),
    };
    h.update(&producer.port().to_be_bytes());
    // 64 bits of a hash: collisions are improbable, and a flow's digest finds them.
    let mut out = [0; 8];
    out.copy_from_slice(&h.finalize().as_bytes()[..8]);
    u64::from_be_bytes(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many Consumers of one flow: the shared state must not be walked either.
    #[test]
    fn newcomers_to_a_full_node_cost_one_look_each() {
        let p = Params {
            max_flows: 4096,
            ..Params::default()
        };
        let (mut legs, n) = (Legs::new(&p), 8 * p.max_flows);
        for i in 0..n {
            let path = Path {
                src: ([10, 255, 0, 1], 5047).into(),
                dst: (i.to_be_bytes(), 1).into(),
            };
            assert!(legs.find_or_add(u64::from(i), 7, path, &p).is_some());
        }
        assert_eq!(legs.len(), p.max_flows as usize);
        assert_eq!(
            legs.shared[&(7, ([10, 255, 0, 1], 5047).into())].legs,
            p.max_flows
        );
        assert!(legs.table.looked_at <= u64::from(n));
        legs.expire(u64::from(n));
        assert!(legs.len() == 0 && legs.shared.is_empty());
    }
}
