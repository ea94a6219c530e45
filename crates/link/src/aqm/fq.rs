//! Flow Queue CoDel, RFC 8290: flows hashed to queues, each with a CoDel of its own, served by
//! deficit round robin, new ones first.
//!
//! CoDel's "less than a frame waits" is asked of the flow's own queue. Queues exist from their first
//! frame on; their CoDel state stays, as if all queues had always been there.

use std::collections::{BTreeMap, VecDeque};

use super::codel::Codel;
use super::{Fifo, Limit, Packet};
use crate::discipline::CodelParams;
use crate::types::{DropCause, Nanos};

/// Frames dropped at once at most, when there is no room (section 4.1).
const MOST_AT_ONCE: usize = 64;

#[derive(Clone, Debug)]
struct Flow<F> {
    queue: Fifo<F>,
    codel: Codel,
    /// Bytes it may send in this round.
    credit: i64,
    /// It is on one of the two lists.
    listed: bool,
}

/// The queues of one edge.
#[derive(Clone, Debug)]
pub(super) struct FlowQueues<F> {
    perturbation: u64,
    flows: BTreeMap<u32, Flow<F>>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    bytes: u64,
    len: usize,
}

impl<F> FlowQueues<F> {
    pub(super) fn new(perturbation: u64) -> FlowQueues<F> {
        FlowQueues {
            perturbation,
            flows: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            len: 0,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Section 4.1.
    pub(super) fn push(&mut self, packet: Packet<F>, flows: u32, quantum_bytes: u32) {
        let mixed = u128::from(packet.traits.flow ^ self.perturbation)
            * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        let hash = (mixed >> 64) as u64 ^ mixed as u64;
        let number = (hash % u64::from(flows)) as u32;
        self.bytes += u64::from(packet.len_bytes);
        self.len += 1;
        let flow = self.flows.entry(number).or_insert_with(|| Flow {
            queue: Fifo::new(),
            codel: Codel::default(),
            credit: 0,
            listed: false,
        });
        flow.queue.push(packet);
        if !flow.listed {
            flow.listed = true;
            flow.credit = i64::from(quantum_bytes);
            self.new.push_back(number);
        }
    }

    /// Drop from the heads of the longest queues, half a queue at a time, until the limit holds.
    pub(super) fn make_room(&mut self, limit: Limit, out: &mut impl FnMut(F, DropCause)) {
        while self.bytes > limit.bytes || self.len as u64 > limit.frames {
            // Of equally long queues the first.
            let longest = self
                .flows
                .iter_mut()
                .rev()
                .max_by_key(|(_, f)| f.queue.bytes);
            let Some((_, flow)) = longest else { return };
            let half = (flow.queue.frames.len() / 2).clamp(1, MOST_AT_ONCE);
            for _ in 0..half {
                if let Some(packet) = flow.queue.pop() {
                    self.bytes -= u64::from(packet.len_bytes);
                    self.len -= 1;
                    out(packet.frame, DropCause::Queue);
                }
            }
        }
    }

    /// Section 4.2.
    pub(super) fn pop(
        &mut self,
        now: Nanos,
        params: &CodelParams,
        quantum_bytes: u32,
        out: &mut impl FnMut(F, DropCause),
    ) -> Option<Packet<F>> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            let flow = self.flows.get_mut(&number)?;
            if flow.credit <= 0 {
                flow.credit += i64::from(quantum_bytes);
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            let (bytes, len) = (flow.queue.bytes, flow.queue.frames.len());
            let packet = flow
                .codel
                .dequeue(params, now, &mut flow.queue, &mut |frame| {
                    out(frame, DropCause::Aqm);
                });
            self.bytes -= bytes - flow.queue.bytes;
            self.len -= len - flow.queue.frames.len();
            if let Some(packet) = packet {
                flow.credit -= i64::from(packet.len_bytes);
                return Some(packet);
            }
            list.pop_front();
            if is_new {
                // So that a flow cannot stay new by pausing.
                self.old.push_back(number);
            } else {
                flow.listed = false;
            }
        }
    }

    pub(super) fn drain(&mut self) -> Vec<Packet<F>> {
        let mut all: Vec<Packet<F>> = Vec::with_capacity(self.len);
        for flow in self.flows.values_mut() {
            all.extend(flow.queue.frames.drain(..));
        }
        all.sort_by_key(|packet| packet.arrived_ns);
        self.flows.clear();
        self.new.clear();
        self.old.clear();
        (self.bytes, self.len) = (0, 0);
        all
    }
}
