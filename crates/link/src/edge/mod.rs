//! One edge: service, the queue in front of it, the delay line behind it.
//!
//! Service is exact to the event but advanced lazily. An edge has one timer, the instant at which its next frame comes
//! out of the delay line. When it fires or a frame arrives, all finished services are processed. A frame moves once
//! from the queue to the line, so the cost per frame is constant.

mod change;
mod service;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;

use crate::aqm::{Aqm, Limit, Packet};
use crate::counters::EdgeCounters;
use crate::effects::Effects;
use crate::laws::{Ends, Fate, Laws, Marks};
use crate::packet::Traits;
use crate::rng::Rng;
use crate::supply::Point;
use crate::types::{DropCause, Impairment, Loss, Nanos, PortId};

/// A frame that came out of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released<F> {
    /// Instant at which the frame reaches the far port.
    pub due_ns: Nanos,
    /// Length of the frame.
    pub len_bytes: u32,
    /// Other effects that apply to the frame now.
    pub marks: Marks,
    /// The frame.
    pub frame: F,
}

/// A frame that an edge did not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<F> {
    /// The frame.
    pub frame: F,
    /// Cause of the drop.
    pub cause: DropCause,
}

#[derive(Clone, Debug)]
struct Waiting<F> {
    len_bytes: u32,
    /// Whether the queue discipline marked the frame.
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
/// Instants passed to one edge should not run backwards. A frame that arrives slightly before an instant already
/// processed is served as soon as the server is free and never overtakes.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Edge<F> {
    // The fields up to `origin` are all that a plain update reads or writes, and are adjacent in memory.
    /// End of the service in progress.
    service: Option<Point>,
    /// The plan's impairment, with the fields that effects replace.
    impairment: Impairment,
    /// Active effects, if any. They keep the impairment that they are applied to.
    laws: Option<Box<Laws>>,
    /// Queue of the other waiting frames if a discipline other than drop-tail is set.
    aqm: Option<Box<Aqm<F>>>,
    /// State of the generator at the beginning of this life: the laws' generators are derived from it.
    origin: Rng,
    ends: Ends,
    rng: Rng,
    /// Frames not yet served. The first one is in service when `service` is set. Under a discipline only that frame is
    /// here.
    queue: VecDeque<Waiting<F>>,
    /// Bytes in `queue`, without the frame in service.
    queue_bytes: u64,
    line: VecDeque<Released<F>>,
    last_due_ns: Nanos,
    /// End of the last service that was followed by an idle server.
    free_from_ns: Nanos,
    /// Frames outside the order of the line, held back or with a delay of their own. The key is the due time and then
    /// the number of insertion.
    apart: BTreeMap<(Nanos, u64), Released<F>>,
    /// Number of frames inserted into `apart`.
    set_apart: u64,
    counters: EdgeCounters,
    /// Frames come out this long before they are due.
    ahead_ns: Nanos,
}

impl<F> Edge<F> {
    /// Number of first bytes that a plain update accesses.
    pub(crate) const UPDATED_BYTES: usize = std::mem::offset_of!(Edge<F>, origin);

    /// Returns a new, empty edge `from -> to`. Its random numbers depend only on the lab's seed, the two port numbers
    /// and `life` (how many times this edge has existed before).
    #[must_use]
    pub fn new(impairment: Impairment, lab_seed: u64, from: u32, to: u32, life: u32) -> Edge<F> {
        let rng = Rng::for_edge(lab_seed, from, to, life);
        Edge {
            impairment,
            laws: None,
            origin: rng.clone(),
            ends: Ends {
                lab_seed,
                from: PortId(from),
                to: PortId(to),
            },
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

    /// Makes frames come out `ahead_ns` before they are due from here on, but not before they have been served. The
    /// caller has its own path to the port and keeps the frames until [`Released::due_ns`].
    pub fn come_out_ahead(&mut self, ahead_ns: Nanos) {
        self.ahead_ns = ahead_ns;
    }

    /// Returns whether many frames may be passed as one GSO frame of `len_bytes`: no law acts on single frames, the
    /// service of all takes at most `within_ns`, and the queue holds several such frames.
    #[must_use]
    pub fn takes_gso(&self, len_bytes: u32, within_ns: Nanos) -> bool {
        // A GSO frame is up to 64 KiB in one piece. On a slow edge the first segment would arrive only after the
        // service of all.
        let quick = self.impairment.rate_bps.is_none_or(|rate| {
            // bits / rate <= within, multiplied out so that nothing is rounded. At least four GSO frames must fit the
            // queue.
            let bit_ns = u128::from(len_bytes) * 8 * 1_000_000_000;
            bit_ns <= u128::from(within_ns) * u128::from(rate.get())
                && u64::from(len_bytes) * 4 <= self.impairment.queue.bytes
        });
        // Laws decide frame by frame, so a GSO frame must be cut up for them.
        quick && self.laws.is_none() && self.impairment.loss == Loss::None
    }

    /// Returns whether its effects make the edge fail.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.laws
            .as_ref()
            .is_some_and(|laws| laws.set.down == Some(true))
    }

    /// Returns whether [`Edge::arrive_as`] needs the frame's traits: a queue discipline uses them.
    #[must_use]
    pub fn wants_traits(&self) -> bool {
        self.aqm.is_some()
    }

    /// Passes a frame without known traits to [`Edge::arrive_as`].
    ///
    /// # Errors
    /// As [`Edge::arrive_as`].
    pub fn arrive(
        &mut self,
        now: Nanos,
        frame: F,
        len_bytes: u32,
        out: &mut impl FnMut(F, DropCause),
    ) -> Result<(), Refused<F>> {
        self.arrive_as(now, frame, len_bytes, Traits::default(), out)
    }

    /// Handles a frame that reaches the near end at `now`. `out` gets frames accepted earlier that are dropped now: by
    /// the loss law at service ends processed here, or by the queue discipline.
    ///
    /// # Errors
    /// The frame itself, when the edge is not up yet, its queue is full or its discipline drops the frame.
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
        // Without a rate, service takes no time, so no frame ever waits.
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
        // The frame in service has left the queue, so an idle edge accepts a frame of any size.
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
            // The service starts where the last one ended if the frame is stamped slightly before that instant: it must
            // not overlap the previous frame.
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

    /// Handles a frame that was served elsewhere, by a channel that several ports share. Its last bit left the near end
    /// at `left_ns`. Loss, delay and all other effects of the edge follow.
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
        // RED needs the rate to convert idle time into packets; an edge without a rate has no discipline, so the 1 is
        // never used.
        let rate_bps = self.impairment.rate_bps.map_or(1, NonZeroU64::get);
        let aqm = self.aqm.as_mut()?;
        let packet = Packet {
            arrived_ns: now,
            len_bytes,
            traits,
            ce: false,
            frame,
        };
        // As with drop-tail, the frame in service does not count: an idle link accepts every frame.
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

    /// Handles the end of a service: the last bit left the near end at `end_ns`. The frame is lost, or enters the delay
    /// line.
    fn served(&mut self, end_ns: Nanos, waiting: Waiting<F>, out: &mut impl FnMut(F, DropCause)) {
        let Waiting {
            len_bytes,
            congestion,
            frame,
        } = waiting;
        // A loss law of the effects replaces the plan's loss. Both draw after service, because a lost frame has used
        // its air time.
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
        // Turns, grants and gaps come before the flight, so the delay of geometry is that of the later instant.
        let leaves = match &mut self.laws {
            Some(laws) => laws.leaves(end_ns),
            None => Some(end_ns),
        };
        let Some(end_ns) = leaves else {
            self.counters.dropped_loss += 1;
            out(frame, DropCause::Loss);
            return;
        };
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
        // Frames held back arrive after the frames of the line by then, so that later frames can overtake them.
        let apart_ns = match fate.held_back_ns {
            Some(extent_ns) => Some(at_ns.max(self.last_due_ns).saturating_add(extent_ns)),
            None => fate.overtakes.then_some(at_ns),
        };
        // If the delay shrinks or jitter is small, the frame still does not overtake the one before it.
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
        // Sorted by instant and arrival. The line needs no sorting, because the due times of its frames never fall.
        if apart_ns.is_some() {
            self.set_apart += 1;
            self.apart.insert((due_ns, self.set_apart), released);
        } else {
            self.last_due_ns = due_ns;
            self.line.push_back(released);
        }
    }

    /// Returns the earliest instant at which the frame served at `end_ns` can come out.
    fn due_after(&self, end_ns: Nanos) -> Nanos {
        let draws = |laws: &Laws| {
            let set = &laws.set;
            set.jitter.is_some() || set.reorder.is_some() || set.access.is_some()
        };
        if self.laws.as_ref().is_some_and(|laws| draws(laws)) {
            // Jitter, reordering and access are drawn at the end of service, so only that instant is a safe lower bound.
            return end_ns;
        }
        end_ns
            .saturating_add(self.impairment.delay.at(end_ns))
            .max(self.last_due_ns)
    }

    /// Returns when to call [`Edge::pop_due`] next. If the delay line is empty, this is the instant at which the frame
    /// in service comes out unless it is lost, so a call may return no frame.
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
                    // A frame cannot come out before its service ends, however far ahead of its due time it may leave.
                    due_ns.saturating_sub(self.ahead_ns).max(done_ns)
                })
            }
        };
        match (next, apart) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (next, apart) => next.or(apart),
        }
    }

    /// Returns the instant at which a served frame comes out.
    fn comes_out_ns(&self, released: &Released<F>) -> Nanos {
        released.due_ns.saturating_sub(self.ahead_ns)
    }

    /// Returns the next frame that comes out by `now`, in the order of arrival except for frames held back.
    pub fn pop_due(
        &mut self,
        now: Nanos,
        out: &mut impl FnMut(F, DropCause),
    ) -> Option<Released<F>> {
        self.advance(now, out);
        let ahead_ns = self.ahead_ns;
        // Frames of edges to other machines leave early by the head start, so that they arrive before they are due.
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

    /// Returns the next frame to come out, of those whose service has been processed.
    pub(crate) fn next_out(&self) -> Option<&Released<F>> {
        match self.is_apart_next() {
            true => self.apart.first_key_value().map(|(_, next)| next),
            false => self.line.front(),
        }
    }

    /// Returns whether that frame is one of those out of order.
    fn is_apart_next(&self) -> bool {
        let in_line = self.line.front().map_or(Nanos::MAX, |r| r.due_ns);
        let apart = self.apart.first_key_value();
        // If both are due at the same instant, the frame of the line comes first.
        apart.is_some_and(|((due_ns, _), _)| *due_ns < in_line)
    }

    fn take_next(&mut self) -> Option<Released<F>> {
        match self.is_apart_next() {
            true => self.apart.pop_first().map(|(_, next)| next),
            false => self.line.pop_front(),
        }
    }

    /// Drops that frame because the host is too far behind.
    pub(crate) fn give_up(&mut self) -> Option<F> {
        let released = self.take_next()?;
        self.counters.count_drop(DropCause::Overload);
        Some(released.frame)
    }

    /// Puts back a second copy of the frame just taken out, which comes out next. `None`: there was no buffer for a
    /// copy.
    pub(crate) fn again(&mut self, copy: Option<Released<F>>) {
        self.counters.duplicated += 1;
        match copy {
            Some(copy) => self.line.push_front(copy),
            None => self.counters.count_drop(DropCause::NoBuffer),
        }
    }

    /// Returns the active effects.
    #[must_use]
    pub fn effects(&self) -> Option<&Effects> {
        self.laws.as_ref().map(|laws| &*laws.set)
    }

    /// Returns the impairment, with the fields that its effects replace.
    #[must_use]
    pub fn impairment(&self) -> &Impairment {
        &self.impairment
    }

    pub(crate) fn profile(&self) -> u16 {
        self.impairment.profile
    }

    /// Returns the edge's counters.
    #[must_use]
    pub fn counters(&self) -> &EdgeCounters {
        &self.counters
    }

    pub(crate) fn counters_mut(&mut self) -> &mut EdgeCounters {
        &mut self.counters
    }

    /// Returns the number of frames inside: waiting, in service or in flight.
    #[must_use]
    pub fn held(&self) -> usize {
        let in_aqm = self.aqm.as_ref().map_or(0, |aqm| aqm.len());
        self.queue.len() + in_aqm + self.line.len() + self.apart.len()
    }

    /// Returns the bytes waiting for service as of the last call, without the frame in service.
    #[must_use]
    pub fn queue_bytes(&self) -> u64 {
        self.queue_bytes + self.aqm.as_ref().map_or(0, |aqm| aqm.bytes())
    }
}
