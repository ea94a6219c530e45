//! Flow Queue CoDel, RFC 8290: flows are hashed to queues, each with its own CoDel state. Queues are served by deficit
//! round robin, new queues first.
//!
//! CoDel's condition "less than a frame waits" applies to the flow's own queue. Queues exist from their first frame on
//! and keep their CoDel state, as if all queues had always existed.

use std::collections::{BTreeMap, VecDeque};

use super::codel::Codel;
use super::{Fifo, Limit, Packet};
use crate::discipline::CodelParams;
use crate::types::{DropCause, Nanos};

/// Most frames dropped at once when there is no room (section 4.1).
const MOST_AT_ONCE: usize = 64;

#[derive(Clone, Debug)]
struct Flow<F> {
    queue: Fifo<F>,
    codel: Codel,
    /// Bytes that the queue may still send in this round.
    credit: i64,
    /// Whether the queue is on one of the two lists.
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

    /// Enqueues a frame (section 4.1).
    pub(super) fn push(&mut self, packet: Packet<F>, flows: u32, quantum_bytes: u32) {
        // The edge's own random number enters the hash, so that no choice of addresses collides in every lab (section
        // 4.1.1 asks for a random perturbation). The 128-bit product mixes the high bits into the low ones, which `%`
        // uses.
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

    /// Drops from the head of the longest queue, half a queue at a time, until the limit holds.
    pub(super) fn make_room(&mut self, limit: Limit, out: &mut impl FnMut(F, DropCause)) {
        while self.bytes > limit.bytes || self.len as u64 > limit.frames {
            // Among queues of equal length take the first: `max_by_key` returns the last maximum, and the order is
            // reversed.
            let longest = self
                .flows
                .iter_mut()
                .rev()
                .max_by_key(|(_, f)| f.queue.bytes);
            let Some((_, flow)) = longest else { return };
            // Dropping half a queue makes the search for the longest queue rare, even if an unresponsive flow overloads
            // the link.
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

    /// Dequeues a frame (section 4.2).
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
            // A queue without credit gets its quantum and waits for its turn among the old queues.
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
            // CoDel may have dropped several frames before it returned one: account for all of them.
            self.bytes -= bytes - flow.queue.bytes;
            self.len -= len - flow.queue.frames.len();
            if let Some(packet) = packet {
                // The credit may become negative: the frame is sent whole, and the queue waits for more rounds.
                flow.credit -= i64::from(packet.len_bytes);
                return Some(packet);
            }
            list.pop_front();
            if is_new {
                // A queue that empties while it is new goes to the old queues first, so that a flow cannot stay new by
                // pausing.
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
        // `sort_by_key` is stable: frames of one flow that arrived at the same instant keep their order.
        all.sort_by_key(|packet| packet.arrived_ns);
        self.flows.clear();
        self.new.clear();
        self.old.clear();
        (self.bytes, self.len) = (0, 0);
        all
    }
}
