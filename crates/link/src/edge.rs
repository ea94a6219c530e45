//! One edge: service, the queue in front of it, the delay line behind it.
//!
//! Service is exact to the event but advanced lazily: an edge has one timer, the instant at which
//! its next frame comes out of the delay line, and finished services are worked off when that
//! fires or a frame arrives. A frame moves once from the queue to the line, so the cost per frame
//! is constant.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::aqm::{Aqm, Limit, Packet};
use crate::counters::EdgeCounters;
use crate::discipline::Discipline;
use crate::effects::Effects;
use crate::laws::{DISCIPLINE, Fate, Laws, Marks};
use crate::packet::Traits;
use crate::rng::Rng;
use crate::supply::{Point, Supply, work_of};
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
pub struct Edge<F> {
    /// With what the effects replace.
    impairment: Impairment,
    /// As the plan has it.
    base: Impairment,
    laws: Option<Box<Laws>>,
    /// As it was when this life began: the laws' generators come from it.
    origin: Rng,
    rng: Rng,
    /// Frames not yet served; the first one is in service when `service` is set. Under a
    /// discipline it is the only one here.
    queue: VecDeque<Waiting<F>>,
    /// Bytes waiting here, without the frame in service.
    queue_bytes: u64,
    /// Where the others wait if not first in, first out.
    aqm: Option<Box<Aqm<F>>>,
    /// End of the service under way.
    service: Option<Point>,
    line: VecDeque<Released<F>>,
    last_due_ns: Nanos,
    /// Frames held back, out of the order of the others; in order among themselves.
    late: VecDeque<Released<F>>,
    counters: EdgeCounters,
}

impl<F> Edge<F> {
    /// A new, empty edge `from -> to`. What it draws depends only on the lab's seed, the two port
    /// numbers and `life` (how many times this edge has existed before).
    #[must_use]
    pub fn new(impairment: Impairment, lab_seed: u64, from: u32, to: u32, life: u32) -> Edge<F> {
        let rng = Rng::for_edge(lab_seed, from, to, life);
        Edge {
            impairment,
            base: impairment,
            laws: None,
            origin: rng.clone(),
            rng,
            queue: VecDeque::new(),
            queue_bytes: 0,
            aqm: None,
            service: None,
            line: VecDeque::new(),
            last_due_ns: 0,
            late: VecDeque::new(),
            counters: EdgeCounters::default(),
        }
    }

    /// Start a further life of an edge whose last frames are still on the delay line: they arrive
    /// first, and random draws start afresh.
    pub(crate) fn reborn(&mut self, impairment: Impairment, rng: Rng) {
        debug_assert!(self.queue.is_empty(), "close() emptied the queue");
        self.base = impairment;
        self.impairment = impairment;
        self.origin = rng.clone();
        self.rng = rng;
        self.laws = None;
        self.aqm = None;
    }

    /// Have these effects on top of the impairment, from `now` on, instead of those before.
    ///
    /// What is in flight keeps its time and its marks; frames waiting for service come under the
    /// new laws. A law that is the same as before goes on where it stands.
    pub fn set_effects(
        &mut self,
        now: Nanos,
        effects: Option<Arc<Effects>>,
        out: &mut impl FnMut(F, DropCause),
    ) {
        self.advance(now, out);
        let left = self.left(now);
        match (&mut self.laws, effects) {
            (Some(laws), Some(set)) => laws.change(set, &self.origin),
            (laws, set) => *laws = set.map(|set| Box::new(Laws::new(set, &self.origin))),
        }
        let base = self.base;
        self.go_by(now, &base, left, out);
        self.fit_discipline(now);
        if self.is_down() {
            self.drop_waiting(out);
        }
    }

    /// Have the queue that the effects ask for; frames that wait stay.
    fn fit_discipline(&mut self, now: Nanos) {
        let wanted = self.laws.as_ref().and_then(|laws| laws.set.discipline);
        let wanted = wanted.unwrap_or(Discipline::DropTail);
        let present = self.aqm.as_ref().map(|aqm| *aqm.discipline());
        if wanted == present.unwrap_or(Discipline::DropTail) {
            return;
        }
        let old = self.aqm.take();
        self.aqm = Aqm::new(wanted, self.origin.stream(DISCIPLINE), now).map(Box::new);
        let in_service = usize::from(self.service.is_some());
        let waiting: Vec<Packet<F>> = match old {
            Some(mut old) => old.drain(),
            None => {
                let plain = self.queue.drain(in_service..);
                let packets = plain.map(|w| Packet {
                    arrived_ns: now,
                    len_bytes: w.len_bytes,
                    traits: Traits::default(),
                    ce: w.congestion,
                    frame: w.frame,
                });
                packets.collect()
            }
        };
        self.queue_bytes = 0;
        for packet in waiting {
            match &mut self.aqm {
                Some(aqm) => aqm.put_back(packet),
                None => {
                    self.queue_bytes += u64::from(packet.len_bytes);
                    self.queue.push_back(packet.into());
                }
            }
        }
    }

    /// Whether many frames may be given as one of `len_bytes`: no law acts on single frames, the
    /// service of them all takes no longer than `within_ns`, and the queue holds several such.
    #[must_use]
    pub fn takes_trains(&self, len_bytes: u32, within_ns: Nanos) -> bool {
        let quick = self.impairment.rate_bps.is_none_or(|rate| {
            let bit_ns = u128::from(len_bytes) * 8 * 1_000_000_000;
            bit_ns <= u128::from(within_ns) * u128::from(rate.get())
                && u64::from(len_bytes) * 4 <= self.impairment.queue.bytes
        });
        quick && self.laws.is_none() && self.impairment.loss == Loss::None
    }

    fn is_down(&self) -> bool {
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
                self.serve_next(None, now, out);
            }
            None
        };
        let Some((frame, cause)) = refused else {
            return Ok(());
        };
        self.counters.count_drop(cause);
        Err(Refused { frame, cause })
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
            self.serve_next(None, now, out);
        }
        result.err()
    }

    /// What serves, where a rate does.
    fn supply(&self) -> Option<Supply<'_>> {
        let law = self.laws.as_ref().and_then(|l| l.set.rate_law.as_ref());
        match law {
            Some(law) => Some(Supply::Law(law)),
            None => self.impairment.rate_bps.map(Supply::Constant),
        }
    }

    /// What the frame takes of the rate.
    fn on_link(&self, len_bytes: u32) -> u128 {
        let overhead = self.laws.as_ref().and_then(|l| l.set.overhead_bytes);
        work_of(len_bytes.saturating_add(overhead.unwrap_or(0)))
    }

    fn limit(&self) -> Limit {
        let frames = self.laws.as_ref().and_then(|l| l.set.queue_frames);
        Limit {
            bytes: self.impairment.queue.bytes,
            frames: frames.unwrap_or(u64::MAX),
        }
    }

    fn is_full(&self, len_bytes: u32) -> bool {
        let limit = self.limit();
        // The first in the queue is in service.
        self.queue_bytes + u64::from(len_bytes) > limit.bytes
            || self.queue.len() as u64 > limit.frames
    }

    /// Begin to serve the frame whose turn it is: where the one before ended, or at `now`.
    fn serve_next(&mut self, after: Option<Point>, now: Nanos, out: &mut impl FnMut(F, DropCause)) {
        self.service = None;
        let counters = &mut self.counters;
        if let Some(aqm) = &mut self.aqm {
            let next = aqm.dequeue(now, &mut |frame, cause| {
                counters.count_drop(cause);
                out(frame, cause);
            });
            self.queue.extend(next.map(Waiting::from));
        } else if let Some(next) = self.queue.front() {
            self.queue_bytes -= u64::from(next.len_bytes);
        }
        if let (Some(next), Some(supply)) = (self.queue.front(), self.supply()) {
            let from = after.unwrap_or_else(|| supply.fresh(now));
            self.service = Some(supply.finish(from, self.on_link(next.len_bytes)));
        }
    }

    /// Work off every service that ends by `now`.
    pub fn advance(&mut self, now: Nanos, out: &mut impl FnMut(F, DropCause)) {
        while let (Some(end), Some(supply)) = (self.service, self.supply()) {
            let done_ns = supply.done_ns(end);
            if done_ns > now {
                break;
            }
            if let Some(aqm) = &mut self.aqm {
                // What the clock does at the very instant comes after what services do.
                aqm.tick(done_ns.saturating_sub(1));
            }
            let Some(frame) = self.queue.pop_front() else {
                break;
            };
            self.serve_next(Some(end), done_ns, out);
            self.served(done_ns, frame, out);
        }
        if let Some(aqm) = &mut self.aqm {
            aqm.tick(now);
        }
    }

    /// The last bit left the near end at `end_ns`: lost, or on its way.
    fn served(&mut self, end_ns: Nanos, waiting: Waiting<F>, out: &mut impl FnMut(F, DropCause)) {
        let Waiting {
            len_bytes,
            congestion,
            frame,
        } = waiting;
        let taken = match self.laws.as_mut().and_then(|laws| laws.loses()) {
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
                marks: Marks::default(),
            },
        };
        let at_ns = end_ns.saturating_add(fate.delay_ns);
        let (line, due_ns) = match fate.held_back_ns {
            Some(extent_ns) => {
                let due_ns = at_ns.max(self.last_due_ns).saturating_add(extent_ns);
                let before = self.late.back().map_or(0, |r| r.due_ns);
                (&mut self.late, due_ns.max(before))
            }
            // A shrinking delay never lets a frame overtake the one before it.
            None => {
                self.last_due_ns = at_ns.max(self.last_due_ns);
                (&mut self.line, self.last_due_ns)
            }
        };
        line.push_back(Released {
            due_ns,
            len_bytes,
            marks: Marks {
                congestion,
                ..fate.marks
            },
            frame,
        });
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
        let late = self.late.front().map(|r| r.due_ns);
        let next = match self.line.front() {
            Some(head) => Some(head.due_ns),
            None => {
                let service = self.service.zip(self.supply());
                service.map(|(end, supply)| self.due_after(supply.done_ns(end)))
            }
        };
        match (next, late) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (next, late) => next.or(late),
        }
    }

    /// The next frame due by `now`, in the order of arrival but for frames held back.
    pub fn pop_due(
        &mut self,
        now: Nanos,
        out: &mut impl FnMut(F, DropCause),
    ) -> Option<Released<F>> {
        self.advance(now, out);
        let due = |line: &VecDeque<Released<F>>| line.front().map_or(Nanos::MAX, |r| r.due_ns);
        let line = if due(&self.late) < due(&self.line) {
            &mut self.late
        } else {
            &mut self.line
        };
        if line.front()?.due_ns > now {
            return None;
        }
        let released = line.pop_front()?;
        self.counters.delivered += 1;
        self.counters.delivered_bytes += u64::from(released.len_bytes);
        self.counters.corrupted += u64::from(released.marks.corrupt.is_some());
        self.counters.marked += u64::from(released.marks.congestion);
        Some(released)
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

    /// Change what the edge does, from `now` on. Frames in flight keep their time; the frame in
    /// service gets the new rate for what is left of it; frames in the queue stay even when the
    /// new limit is smaller.
    pub fn reconfigure(
        &mut self,
        now: Nanos,
        new: &Impairment,
        out: &mut impl FnMut(F, DropCause),
    ) {
        self.advance(now, out);
        let left = self.left(now);
        self.go_by(now, new, left, out);
    }

    /// What is left at `now` of the frame in service.
    fn left(&self, now: Nanos) -> Option<u128> {
        let (end, supply) = self.service.zip(self.supply())?;
        Some(supply.left(now, end))
    }

    /// Go by another impairment, and serve what is `left` by the rate of now.
    fn go_by(
        &mut self,
        now: Nanos,
        new: &Impairment,
        left: Option<u128>,
        out: &mut impl FnMut(F, DropCause),
    ) {
        self.base = *new;
        self.impairment = match &self.laws {
            Some(laws) => laws.set.over(new),
            None => *new,
        };
        let Some(left) = left else { return };
        if let Some(supply) = self.supply() {
            self.service = Some(supply.finish(supply.fresh(now), left));
            return;
        }
        self.service = None;
        self.queue_bytes = 0;
        while let Some(frame) = self.queue.pop_front() {
            self.served(now, frame, out);
        }
        let rest = self.aqm.as_mut().map(|aqm| aqm.drain());
        for packet in rest.into_iter().flatten() {
            self.served(now, packet.into(), out);
        }
    }

    /// The edge goes away at `now`: frames in service or waiting are handed to `out` and counted
    /// as removed (or as lost, if their service ended before); frames on the delay line still
    /// arrive.
    pub fn close(&mut self, now: Nanos, out: &mut impl FnMut(F, DropCause)) {
        self.advance(now, out);
        self.drop_waiting(out);
    }

    fn drop_waiting(&mut self, out: &mut impl FnMut(F, DropCause)) {
        self.clear_waiting(&mut |frame, counters| {
            counters.dropped_removed += 1;
            out(frame, DropCause::Removed);
        });
    }

    fn clear_waiting(&mut self, out: &mut impl FnMut(F, &mut EdgeCounters)) {
        self.service = None;
        self.queue_bytes = 0;
        for waiting in self.queue.drain(..) {
            out(waiting.frame, &mut self.counters);
        }
        for packet in self.aqm.iter_mut().flat_map(|aqm| aqm.drain()) {
            out(packet.frame, &mut self.counters);
        }
    }

    /// Take every frame out, wherever it is (the lab goes down). Not counted.
    pub fn clear(&mut self, out: &mut impl FnMut(F)) {
        self.clear_waiting(&mut |frame, _| out(frame));
        self.line.drain(..).for_each(|r| out(r.frame));
        self.late.drain(..).for_each(|r| out(r.frame));
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
        self.base.profile
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
        self.queue.len() + in_aqm + self.line.len() + self.late.len()
    }

    /// Bytes waiting for service as of the last call, without the frame in service.
    #[must_use]
    pub fn queue_bytes(&self) -> u64 {
        self.queue_bytes + self.aqm.as_ref().map_or(0, |aqm| aqm.bytes())
    }
}
