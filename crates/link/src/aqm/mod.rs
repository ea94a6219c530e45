//! Queues with a discipline other than drop-tail: one per edge, boxed, and only where a scenario asks for one.
//!
//! RED, PIE and DRD decide when a frame arrives; CoDel, FQ-CoDel and marking by a threshold decide when one is taken.
//! They depend only on virtual time, so that they are exact to the event. Random numbers come from the edge's own seed.

mod codel;
mod drd;
mod fq;
mod pie;
mod red;

use std::collections::VecDeque;

use codel::Codel;
use fq::FlowQueues;
use pie::Pie;
use red::Red;

use crate::discipline::Discipline;
use crate::packet::Traits;
use crate::rng::Rng;
use crate::types::{DropCause, Nanos};

/// A waiting frame, with the properties that disciplines use.
#[derive(Clone, Debug)]
pub(crate) struct Packet<F> {
    pub(crate) arrived_ns: Nanos,
    pub(crate) len_bytes: u32,
    pub(crate) traits: Traits,
    /// Whether a discipline has marked it already.
    pub(crate) ce: bool,
    pub(crate) frame: F,
}

/// Limits of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) bytes: u64,
    pub(crate) frames: u64,
}

impl Limit {
    /// No limit, for a frame that goes into service at once.
    pub(crate) const NONE: Limit = Limit {
        bytes: u64::MAX,
        frames: u64::MAX,
    };
}

/// Decision of a discipline about an arriving frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Take,
    Mark,
    Drop,
}

/// A first-in-first-out queue.
#[derive(Clone, Debug)]
struct Fifo<F> {
    frames: VecDeque<Packet<F>>,
    bytes: u64,
}

impl<F> Fifo<F> {
    fn new() -> Fifo<F> {
        Fifo {
            frames: VecDeque::new(),
            bytes: 0,
        }
    }

    fn push(&mut self, packet: Packet<F>) {
        self.bytes += u64::from(packet.len_bytes);
        self.frames.push_back(packet);
    }

    fn pop(&mut self) -> Option<Packet<F>> {
        let packet = self.frames.pop_front()?;
        self.bytes -= u64::from(packet.len_bytes);
        Some(packet)
    }

    fn has_room(&self, len_bytes: u32, limit: Limit) -> bool {
        self.bytes.saturating_add(u64::from(len_bytes)) <= limit.bytes
            && (self.frames.len() as u64) < limit.frames
    }
}

/// A queue under a discipline.
#[derive(Clone, Debug)]
pub(crate) struct Aqm<F> {
    discipline: Discipline,
    rng: Rng,
    waiting: Waiting<F>,
    state: State,
}

#[derive(Clone, Debug)]
enum Waiting<F> {
    One(Fifo<F>),
    Flows(FlowQueues<F>),
}

#[derive(Clone, Debug)]
enum State {
    /// For disciplines without state.
    Nothing,
    Codel(Codel),
    Red(Red),
    Pie(Pie),
}

impl<F> Aqm<F> {
    /// An empty queue. `None` for drop-tail, which needs none of this.
    pub(crate) fn new(discipline: Discipline, mut rng: Rng, now: Nanos) -> Option<Aqm<F>> {
        let fifo = || Waiting::One(Fifo::new());
        let (waiting, state) = match discipline {
            Discipline::DropTail => return None,
            Discipline::Codel(_) => (fifo(), State::Codel(Codel::default())),
            Discipline::FqCodel { .. } => {
                // From the seed of the lab, so that the same flows share a queue in each run.
                let perturbation = rng.next_u64();
                let queues = FlowQueues::new(perturbation);
                (Waiting::Flows(queues), State::Nothing)
            }
            Discipline::Red(_) => (fifo(), State::Red(Red::new())),
            Discipline::Pie(params) => (fifo(), State::Pie(Pie::new(&params, now))),
            Discipline::Drd { .. } | Discipline::CeThreshold { .. } => (fifo(), State::Nothing),
        };
        Some(Aqm {
            discipline,
            rng,
            waiting,
            state,
        })
    }

    pub(crate) fn discipline(&self) -> &Discipline {
        &self.discipline
    }

    /// Enqueues an arriving frame that may wait within `limit`. The link serves `rate_bps` on average. To make room,
    /// other frames may be dropped to `out`.
    pub(crate) fn enqueue(
        &mut self,
        now: Nanos,
        mut packet: Packet<F>,
        limit: Limit,
        rate_bps: u64,
        out: &mut impl FnMut(F, DropCause),
    ) -> Result<(), (F, DropCause)> {
        let fifo = match (&mut self.waiting, &self.discipline) {
            (Waiting::One(fifo), _) => fifo,
            (
                Waiting::Flows(queues),
                Discipline::FqCodel {
                    flows,
                    quantum_bytes,
                    ..
                },
            ) => {
                queues.push(packet, *flows, *quantum_bytes);
                // FQ-CoDel accepts the packet first and then drops from the longest queue (RFC 8290, section 4.1), so
                // the flow that fills the queue loses, and not the one that arrives.
                queues.make_room(limit, out);
                return Ok(());
            }
            // Unreachable: `new` creates flow queues for FQ-CoDel only. The frame is returned rather than lost.
            (Waiting::Flows(_), _) => return Err((packet.frame, DropCause::Queue)),
        };
        // The room is computed before the discipline decides, because PIE resets its accumulator when the queue
        // overflows.
        let room = fifo.has_room(packet.len_bytes, limit);
        let verdict = match (&self.discipline, &mut self.state) {
            (Discipline::Red(params), State::Red(red)) => {
                red.arrival(params, now, fifo.bytes, rate_bps, &mut self.rng)
            }
            (Discipline::Pie(params), State::Pie(pie)) => {
                pie.arrival(params, fifo.bytes, room, &mut self.rng)
            }
            (
                Discipline::Drd {
                    min_frames,
                    max_frames,
                    ecn,
                },
                _,
            ) => {
                let waiting = fifo.frames.len() as u64;
                drd::arrival((*min_frames, *max_frames), *ecn, waiting, &mut self.rng)
            }
            _ => Verdict::Take,
        };
        // A frame that does not support ECN is dropped where others are marked (RFC 3168, section 5).
        let can_mark = verdict == Verdict::Mark && packet.traits.ecn_capable;
        if verdict == Verdict::Drop || (verdict == Verdict::Mark && !can_mark) {
            return Err((packet.frame, DropCause::Aqm));
        }
        // After the discipline: RED, PIE and DRD must see each arrival, also those that find a full queue.
        if !room {
            return Err((packet.frame, DropCause::Queue));
        }
        packet.ce |= can_mark;
        fifo.push(packet);
        Ok(())
    }

    /// Takes the next frame to be served, at `now`.
    pub(crate) fn dequeue(
        &mut self,
        now: Nanos,
        out: &mut impl FnMut(F, DropCause),
    ) -> Option<Packet<F>> {
        let fifo = match (&mut self.waiting, &self.discipline) {
            (Waiting::One(fifo), _) => fifo,
            (
                Waiting::Flows(queues),
                Discipline::FqCodel {
                    codel,
                    quantum_bytes,
                    ..
                },
            ) => {
                return queues.pop(now, codel, *quantum_bytes, out);
            }
            (Waiting::Flows(_), _) => return None,
        };
        match (&self.discipline, &mut self.state) {
            (Discipline::Codel(params), State::Codel(codel)) => {
                codel.dequeue(params, now, fifo, &mut |f| out(f, DropCause::Aqm))
            }
            (_, State::Red(red)) => {
                let packet = fifo.pop();
                if packet.is_none() {
                    // RED lets its average decay during idle time, so it must learn when the queue ran empty.
                    red.idle_from(now);
                }
                packet
            }
            (_, State::Pie(pie)) => {
                let packet = fifo.pop();
                pie.departure(
                    now,
                    packet.as_ref().map(|p| p.arrived_ns),
                    fifo.frames.is_empty(),
                );
                packet
            }
            (Discipline::CeThreshold { above_ns }, _) => {
                let mut packet = fifo.pop()?;
                let waited_ns = now.saturating_sub(packet.arrived_ns);
                packet.ce |= waited_ns > *above_ns && packet.traits.ecn_capable;
                Some(packet)
            }
            _ => fifo.pop(),
        }
    }

    /// Advances the discipline's clock to `now`, inclusive. Only PIE acts by the clock.
    pub(crate) fn tick(&mut self, now: Nanos) {
        if let (Discipline::Pie(params), State::Pie(pie)) = (&self.discipline, &mut self.state) {
            pie.tick(params, now);
        }
    }

    /// Bytes in the queue.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.waiting {
            Waiting::One(fifo) => fifo.bytes,
            Waiting::Flows(queues) => queues.bytes(),
        }
    }

    /// Frames in the queue.
    pub(crate) fn len(&self) -> usize {
        match &self.waiting {
            Waiting::One(fifo) => fifo.frames.len(),
            Waiting::Flows(queues) => queues.len(),
        }
    }

    /// Takes all frames out, in order of arrival.
    pub(crate) fn drain(&mut self) -> Vec<Packet<F>> {
        match &mut self.waiting {
            Waiting::One(fifo) => {
                fifo.bytes = 0;
                fifo.frames.drain(..).collect()
            }
            Waiting::Flows(queues) => queues.drain(),
        }
    }

    /// Puts back a frame that was waiting before, without asking the discipline.
    pub(crate) fn put_back(&mut self, packet: Packet<F>) {
        match (&mut self.waiting, &self.discipline) {
            (
                Waiting::Flows(queues),
                Discipline::FqCodel {
                    flows,
                    quantum_bytes,
                    ..
                },
            ) => {
                queues.push(packet, *flows, *quantum_bytes);
            }
            (Waiting::One(fifo), _) => fifo.push(packet),
            // Flow queues exist with FQ-CoDel only.
            (Waiting::Flows(_), _) => {}
        }
    }
}
