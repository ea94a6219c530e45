//! One edge: service, the queue in front of it, the delay line behind it.
//!
//! Service is exact to the event but advanced lazily: an edge has one timer, the instant at which
//! its next frame comes out of the delay line, and finished services are worked off when that
//! fires or a frame arrives. A frame moves once from the queue to the line, so the cost per frame
//! is constant.

mod change;
mod service;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;

use crate::aqm::{Aqm, Limit, Packet};
use crate::counters::EdgeCounters;
use crate::effects::Effects;
use crate::laws::{Fate, Laws, Marks};
use crate::packet::Traits;
use crate::rng::Rng;
use crate::supply::Point;
use crate::types::{DropCause, Impairment, Loss, Nanos};

/// A frame that came out of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released<F> {
    /// Instant at which the frame reaches the far port.
    pub due_ns: Nanos,
    /// Its length.
    pub len_bytes: u32,
    /// What else happens to it now.
    pub marks: Marks,
    /// The frame.
    pub frame: F,
}

/// A frame an edge did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<F> {
    /// The frame.
    pub frame: F,
    /// Why.
    pub cause: DropCause,
}

#[derive(Clone, Debug)]
struct Waiting<F> {
    len_bytes: u32,
    /// The queue discipline marked it.
    congestion: bool,
    frame: F,
}

impl<F> From<Packet<F>> for Waiting<F> {
    fn from(packet: Packet<F>) -> Waiting<F> {
        Waiting {
            len_bytes: packet.len_bytes,
            congestion: packet.ce,
            frame: packet.frame,
        }
    }
}

/// A directed edge carrying frames of type `F` (a buffer handle, or anything in a simulation).
///
/// Times given to one edge should not run backwards; an arrival slightly older than what was
/// already worked off is served as soon as the server is free and never overtakes.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Edge<F> {
    // Up to `origin`: all that a plain update looks at or changes, side by side.
    /// End of the service under way.
    service: Option<Point>,
    /// As the plan has it, but for what the effects replace.
    impairment: Impairment,
    /// Effects at work, if any; they know the impairment that they replace something of.
    laws: Option<Box<Laws>>,
    /// Where the others wait if not first in, first out.
    aqm: Option<Box<Aqm<F>>>,
    /// As it was when this life began: the laws' generators come from it.
    origin: Rng,
    rng: Rng,
    /// Frames not yet served; the first one is in service when `service` is set. Under a
    /// discipline it is the only one here.
    queue: VecDeque<Waiting<F>>,
    /// Bytes waiting here, without the frame in service.
    queue_bytes: u64,
    line: VecDeque<Released<F>>,
    last_due_ns: Nanos,
    /// When the last service ended that no other followed.
    free_from_ns: Nanos,
    /// Frames out of the order of the others, held back or with a delay of their own: by when they are due, then by when they
    /// came here.
    apart: BTreeMap<(Nanos, u64), Released<F>>,
    /// Frames that came there.
    set_apart: u64,
    counters: EdgeCounters,
    /// Frames come out so much before they are due.
    ahead_ns: Nanos,
}

impl<F> Edge<F> {
    /// How many of its first bytes a plain update looks at.
    pub(crate) const UPDATED_BYTES: usize = std::mem::offset_of!(Edge<F>, origin);

    /// A new, empty edge `from -> to`. What it draws depends only on the lab's seed, the two port
    /// numbers and `life` (how many times this edge has existed before).
    #[must_use]
    pub fn new(impairment: Impairment, lab_seed: u64, from: u32, to: u32, life: u32) -> Edge<F> {
        let rng = Rng::for_edge(lab_seed, from, to, life);
        Edge {
            impairment,
            laws: None,
            origin: rng.clone(),
            rng,
            queue: VecDeque::new(),
            queue_bytes: 0,
            aqm: None,
            service: None,
            line: VecDeque::new(),
            last_due_ns: 0,
            free_from_ns: 0,
            apart: BTreeMap::new(),
            set_apart: 0,
            counters: EdgeCounters::default(),
            ahead_ns: 0,
        }
    }

    /// From here on frames come out so much before they are due, and no earlier than they have been served: whoever takes them has
    /// a way of its own to their port, and keeps them until [`Released::due_ns`].
    pub fn come_out_ahead(&mut self, ahead_ns: Nanos) {
        self.ahead_ns = ahead_ns;
    }

    /// Whether many frames may be given as one of `len_bytes`: no law acts on single frames, the
    /// service of them all takes no longer than `within_ns`, and the queue holds several such.
    #[must_use]
    pub fn takes_gso(&self, len_bytes: u32, within_ns: Nanos) -> bool {
        let quick = self.impairment.rate_bps.is_none_or(|rate| {
            let bit_ns = u128::from(len_bytes) * 8 * 1_000_000_000;
            bit_ns <= u128::from(within_ns) * u128::from(rate.get())
                && u64::from(len_bytes) * 4 <= self.impairment.queue.bytes
        });
        quick && self.laws.is_none() && self.impairment.loss == Loss::None
    }

    /// Whether its effects have it fail.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.laws
            .as_ref()
            .is_some_and(|laws| laws.set.down == Some(true))
    }

    /// Whether [`Edge::arrive_as`] makes a difference: the queue discipline goes by what frames are.
    #[must_use]
    pub fn wants_traits(&self) -> bool {
        self.aqm.is_some()
    }

    /// As [`Edge::arrive_as`], of a frame that nothing is known of.
    ///
    /// # Errors
    /// As there.
    pub fn arrive(
        &mut self,
        now: Nanos,
        frame: F,
        len_bytes: u32,
        out: &mut impl FnMut(F, DropCause),
    ) -> Result<(), Refused<F>> {
        self.arrive_as(now, frame, len_bytes, Traits::default(), out)
    }

    /// A frame reaches the near end at `now`. `out` gets frames that were taken earlier and go
    /// now: those that earlier service ends turned out to lose, and those that the queue
    /// discipline drops.
    ///
    /// # Errors
    /// The frame itself, when the edge is not up yet, its queue is full or its discipline does not
    /// take it.
    pub fn arrive_as(
        &mut self,
        now: Nanos,
        frame: F,
        len_bytes: u32,
        traits: Traits,
        out: &mut impl FnMut(F, DropCause),
    ) -> Result<(), Refused<F>> {
        self.advance(now, out);
        self.counters.offered += 1;
        self.counters.offered_bytes += u64::from(len_bytes);
        let refused = if now < self.impairment.up_from_ns || self.is_down() {
            Some((frame, DropCause::Outage))
        } else if self.impairment.rate_bps.is_none() {
            let waiting = Waiting {
                len_bytes,
                congestion: false,
                frame,
            };
            self.served(now, waiting, out);
            None
        } else if self.aqm.is_some() {
            self.arrive_at_aqm(now, frame, len_bytes, traits, out)
        } else if self.service.is_some() && self.is_full(len_bytes) {
            Some((frame, DropCause::Queue))
        } else {
            let waiting = Waiting {
                len_bytes,
                congestion: false,
                frame,
            };
            self.queue.push_back(waiting);
            self.queue_bytes += u64::from(len_bytes);
            if self.service.is_none() {
                self.serve_next(None, now.max(self.free_from_ns), out);
            }
            None
        };
        let Some((frame, cause)) = refused else {
            return Ok(());
        };
        self.counters.count_drop(cause);
        Err(Refused { frame, cause })
    }

    /// A frame that something else has served, a channel that several ports share: its last bit left the near end at `left_ns`. Loss,
    /// delay and what else the edge does follow.
    ///
    /// # Errors
    /// The frame itself, when the edge is not up.
    pub fn pass(
        &mut self,
        left_ns: Nanos,
        frame: F,
        len_bytes: u32,
        out: &mut impl FnMut(F, DropCause),
    ) -> Result<(), Refused<F>> {
        self.counters.offered += 1;
        self.counters.offered_bytes += u64::from(len_bytes);
        if left_ns < self.impairment.up_from_ns || self.is_down() {
            let cause = DropCause::Outage;
            self.counters.count_drop(cause);
            return Err(Refused { frame, cause });
        }
        let waiting = Waiting {
            len_bytes,
            congestion: false,
            frame,
        };
        self.served(left_ns, waiting, out);
        Ok(())
    }

    fn arrive_at_aqm(
        &mut self,
        now: Nanos,
        frame: F,
        len_bytes: u32,
        traits: Traits,
        out: &mut impl FnMut(F, DropCause),
    ) -> Option<(F, DropCause)> {
        let (idle, limit) = (self.service.is_none(), self.limit());
        let rate_bps = self.impairment.rate_bps.map_or(1, NonZeroU64::get);
        let aqm = self.aqm.as_mut()?;
        let packet = Packet {
            arrived_ns: now,
            len_bytes,
            traits,
            ce: false,
            frame,
        };
        let limit = if idle { Limit::NONE } else { limit };
        let counters = &mut self.counters;
        let result = aqm.enqueue(now, packet, limit, rate_bps, &mut |frame, cause| {
            counters.count_drop(cause);
            out(frame, cause);
        });
        if idle && result.is_ok() {
            self.serve_next(None, now.max(self.free_from_ns), out);
        }
        result.err()
    }

    /// The last bit left the near end at `end_ns`: lost, or on its way.
    fn served(&mut self, end_ns: Nanos, waiting: Waiting<F>, out: &mut impl FnMut(F, DropCause)) {
        let Waiting {
            len_bytes,
            congestion,
            frame,
        } = waiting;
        let taken = match self.laws.as_mut().and_then(|laws| laws.loses(len_bytes)) {
            Some(taken) => taken,
            None => match self.impairment.loss {
                Loss::None => false,
                Loss::Bernoulli { loss_ratio } => self.rng.chance(loss_ratio),
            },
        };
        if taken {
            self.counters.dropped_loss += 1;
            out(frame, DropCause::Loss);
            return;
        }
        let delay = &self.impairment.delay;
        let fate = match &mut self.laws {
            Some(laws) => laws.fate(end_ns, delay),
            None => Fate {
                delay_ns: delay.at(end_ns),
                held_back_ns: None,
                overtakes: false,
                marks: Marks::default(),
            },
        };
        let at_ns = end_ns.saturating_add(fate.delay_ns);
        let apart_ns = match fate.held_back_ns {
            Some(extent_ns) => Some(at_ns.max(self.last_due_ns).saturating_add(extent_ns)),
            None => fate.overtakes.then_some(at_ns),
        };
        // A shrinking delay never lets a frame overtake the one before it.
        let due_ns = apart_ns.unwrap_or_else(|| at_ns.max(self.last_due_ns));
        let released = Released {
            due_ns,
            len_bytes,
            marks: Marks {
                congestion,
                ..fate.marks
            },
            frame,
        };
        if apart_ns.is_some() {
            self.set_apart += 1;
            self.apart.insert((due_ns, self.set_apart), released);
        } else {
            self.last_due_ns = due_ns;
            self.line.push_back(released);
        }
    }

    /// When the frame served at `end_ns` can come out at the earliest.
    fn due_after(&self, end_ns: Nanos) -> Nanos {
        let draws = |laws: &Laws| laws.set.jitter.is_some() || laws.set.reorder.is_some();
        if self.laws.as_ref().is_some_and(|laws| draws(laws)) {
            // Not known before it is drawn.
            return end_ns;
        }
        end_ns
            .saturating_add(self.impairment.delay.at(end_ns))
            .max(self.last_due_ns)
    }

    /// When to call [`Edge::pop_due`] next. With nothing on the delay line this is when the frame
    /// in service may come out, if it is not lost: a call may then find nothing.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        let apart = self.apart.first_key_value();
        let apart = apart.map(|(_, r)| self.comes_out_ns(r));
        let next = match self.line.front() {
            Some(head) => Some(self.comes_out_ns(head)),
            None => {
                let service = self.service.zip(self.supply());
                service.map(|(end, supply)| {
                    let done_ns = supply.done_ns(end);
                    let due_ns = self.due_after(done_ns);
                    due_ns.saturating_sub(self.ahead_ns).max(done_ns)
                })
            }
        };
        match (next, apart) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (next, apart) => next.or(apart),
        }
    }

    /// When a frame that has been served comes out.
    fn comes_out_ns(&self, released: &Released<F>) -> Nanos {
        released.due_ns.saturating_sub(self.ahead_ns)
    }

    /// The next frame that comes out by `now`, in the order of arrival but for frames held back.
    pub fn pop_due(
        &mut self,
        now: Nanos,
        out: &mut impl FnMut(F, DropCause),
    ) -> Option<Released<F>> {
        self.advance(now, out);
        let ahead_ns = self.ahead_ns;
        if self.next_out()?.due_ns.saturating_sub(ahead_ns) > now {
            return None;
        }
        let released = self.take_next()?;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += u64::from(released.len_bytes);
        self.counters.corrupted += u64::from(released.marks.corrupt.is_some());
        self.counters.marked += u64::from(released.marks.congestion);
        Some(released)
    }

    /// The next frame to come out, of those whose service has been worked off.
    pub(crate) fn next_out(&self) -> Option<&Released<F>> {
        match self.is_apart_next() {
            true => self.apart.first_key_value().map(|(_, next)| next),
            false => self.line.front(),
        }
    }

    /// Whether that is one of those out of order.
    fn is_apart_next(&self) -> bool {
        let in_line = self.line.front().map_or(Nanos::MAX, |r| r.due_ns);
        let apart = self.apart.first_key_value();
        apart.is_some_and(|((due_ns, _), _)| *due_ns < in_line)
    }

    fn take_next(&mut self) -> Option<Released<F>> {
        match self.is_apart_next() {
            true => self.apart.pop_first().map(|(_, next)| next),
            false => self.line.pop_front(),
        }
    }

    /// That frame does not come out: the host is too far behind.
    pub(crate) fn give_up(&mut self) -> Option<F> {
        let released = self.take_next()?;
        self.counters.count_drop(DropCause::Overload);
        Some(released.frame)
    }

    /// A second copy of a frame just taken out, to be taken out next; `None`: there was no room
    /// for one.
    pub(crate) fn again(&mut self, copy: Option<Released<F>>) {
        self.counters.duplicated += 1;
        match copy {
            Some(copy) => self.line.push_front(copy),
            None => self.counters.count_drop(DropCause::NoBuffer),
        }
    }

    /// The effects in force.
    #[must_use]
    pub fn effects(&self) -> Option<&Effects> {
        self.laws.as_ref().map(|laws| &*laws.set)
    }

    /// What the edge does, with what its effects replace.
    #[must_use]
    pub fn impairment(&self) -> &Impairment {
        &self.impairment
    }

    pub(crate) fn profile(&self) -> u16 {
        self.impairment.profile
    }

    /// What it did so far.
    #[must_use]
    pub fn counters(&self) -> &EdgeCounters {
        &self.counters
    }

    pub(crate) fn counters_mut(&mut self) -> &mut EdgeCounters {
        &mut self.counters
    }

    /// Frames inside: waiting, in service or in flight.
    #[must_use]
    pub fn held(&self) -> usize {
        let in_aqm = self.aqm.as_ref().map_or(0, |aqm| aqm.len());
        self.queue.len() + in_aqm + self.line.len() + self.apart.len()
    }

    /// Bytes waiting for service as of the last call, without the frame in service.
    #[must_use]
    pub fn queue_bytes(&self) -> u64 {
        self.queue_bytes + self.aqm.as_ref().map_or(0, |aqm| aqm.bytes())
    }
}
