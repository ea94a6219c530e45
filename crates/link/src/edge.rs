//! One edge: service, the queue in front of it, the delay line behind it.
//!
//! Service is exact to the event but advanced lazily: an edge has one timer, the instant at which
//! its next frame comes out of the delay line, and finished services are worked off when that
//! fires or a frame arrives. A frame moves once from the queue to the line, so the cost per frame
//! is constant.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::counters::EdgeCounters;
use crate::effects::Effects;
use crate::laws::{Fate, Laws, Marks};
use crate::rng::Rng;
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
    frame: F,
}

/// End of the service under way: `end_ns + rem / rate`, with `rem < rate`. The fraction is carried
/// from frame to frame of a busy period, so the rate is exact in the long run.
#[derive(Clone, Copy, Debug)]
struct Service {
    end_ns: Nanos,
    rem: u64,
}

impl Service {
    /// Start serving at `start_ns + rem / rate`.
    fn begin(start_ns: Nanos, rem: u64, len_bytes: u32, rate: u64) -> Service {
        let work = u128::from(len_bytes) * 8_000_000_000 + u128::from(rem);
        Service::from_work(start_ns, work, rate)
    }

    fn from_work(start_ns: Nanos, work: u128, rate: u64) -> Service {
        let rate = u128::from(rate);
        let whole = u64::try_from(work / rate).unwrap_or(u64::MAX);
        Service {
            end_ns: start_ns.saturating_add(whole),
            rem: (work % rate) as u64,
        }
    }

    /// First whole nanosecond at which the frame is completely served: never early.
    fn done_ns(self) -> Nanos {
        self.end_ns.saturating_add(u64::from(self.rem > 0))
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
    /// Frames not yet served; the first one is in service when `service` is set.
    queue: VecDeque<Waiting<F>>,
    /// Bytes waiting, without the frame in service.
    queue_bytes: u64,
    service: Option<Service>,
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
        self.advance(now, &mut |frame| out(frame, DropCause::Loss));
        match (&mut self.laws, effects) {
            (Some(laws), Some(set)) => laws.change(set, &self.origin),
            (laws, set) => *laws = set.map(|set| Box::new(Laws::new(set, &self.origin))),
        }
        let base = self.base;
        self.reconfigure(now, &base, &mut |frame| out(frame, DropCause::Loss));
        if self.is_down() {
            self.drop_waiting(out);
        }
    }

    fn is_down(&self) -> bool {
        self.laws
            .as_ref()
            .is_some_and(|laws| laws.set.down == Some(true))
    }

    /// A frame reaches the near end at `now`. `lost` gets frames that earlier service ends turned
    /// out to lose.
    ///
    /// # Errors
    /// The frame itself, when the edge is not up yet or its queue is full.
    pub fn arrive(
        &mut self,
        now: Nanos,
        frame: F,
        len_bytes: u32,
        lost: &mut impl FnMut(F),
    ) -> Result<(), Refused<F>> {
        self.advance(now, lost);
        self.counters.offered += 1;
        self.counters.offered_bytes += u64::from(len_bytes);
        if now < self.impairment.up_from_ns || self.is_down() {
            self.counters.dropped_outage += 1;
            return Err(Refused {
                frame,
                cause: DropCause::Outage,
            });
        }
        let Some(rate) = self.impairment.rate_bps else {
            self.served(now, Waiting { len_bytes, frame }, lost);
            return Ok(());
        };
        if self.service.is_none() {
            let work = self.on_link(len_bytes);
            self.service = Some(Service::begin(now, 0, work, rate.get()));
        } else if self.is_full(len_bytes) {
            self.counters.dropped_queue += 1;
            return Err(Refused {
                frame,
                cause: DropCause::Queue,
            });
        } else {
            self.queue_bytes += u64::from(len_bytes);
        }
        self.queue.push_back(Waiting { len_bytes, frame });
        Ok(())
    }

    /// What the frame takes of the rate.
    fn on_link(&self, len_bytes: u32) -> u32 {
        let overhead = self.laws.as_ref().and_then(|l| l.set.overhead_bytes);
        len_bytes.saturating_add(overhead.unwrap_or(0))
    }

    fn is_full(&self, len_bytes: u32) -> bool {
        let frames = self.laws.as_ref().and_then(|l| l.set.queue_frames);
        // The first in the queue is in service.
        self.queue_bytes + u64::from(len_bytes) > self.impairment.queue.bytes
            || frames.is_some_and(|limit| self.queue.len() as u64 > limit)
    }

    /// Work off every service that ends by `now`.
    pub fn advance(&mut self, now: Nanos, lost: &mut impl FnMut(F)) {
        while let Some(service) = self.service {
            let done_ns = service.done_ns();
            if done_ns > now {
                return;
            }
            let Some(frame) = self.queue.pop_front() else {
                return;
            };
            self.service = match (self.queue.front(), self.impairment.rate_bps) {
                (Some(next), Some(rate)) => {
                    self.queue_bytes -= u64::from(next.len_bytes);
                    let (start, rem) = (service.end_ns, service.rem);
                    let work = self.on_link(next.len_bytes);
                    Some(Service::begin(start, rem, work, rate.get()))
                }
                _ => None,
            };
            self.served(done_ns, frame, lost);
        }
    }

    /// The last bit left the near end at `end_ns`: lost, or on its way.
    fn served(&mut self, end_ns: Nanos, waiting: Waiting<F>, lost: &mut impl FnMut(F)) {
        let Waiting { len_bytes, frame } = waiting;
        let taken = match self.laws.as_mut().and_then(|laws| laws.loses()) {
            Some(taken) => taken,
            None => match self.impairment.loss {
                Loss::None => false,
                Loss::Bernoulli { loss_ratio } => self.rng.chance(loss_ratio),
            },
        };
        if taken {
            self.counters.dropped_loss += 1;
            lost(frame);
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
            marks: fate.marks,
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
            None => self.service.map(|s| self.due_after(s.done_ns())),
        };
        match (next, late) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (next, late) => next.or(late),
        }
    }

    /// The next frame due by `now`, in the order of arrival but for frames held back.
    pub fn pop_due(&mut self, now: Nanos, lost: &mut impl FnMut(F)) -> Option<Released<F>> {
        self.advance(now, lost);
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
    pub fn reconfigure(&mut self, now: Nanos, new: &Impairment, lost: &mut impl FnMut(F)) {
        self.advance(now, lost);
        let old_rate = self.impairment.rate_bps;
        self.base = *new;
        self.impairment = match &self.laws {
            Some(laws) => laws.set.over(new),
            None => *new,
        };
        let Some(service) = self.service else { return };
        if old_rate == self.impairment.rate_bps {
            return;
        }
        match (old_rate, self.impairment.rate_bps) {
            (Some(old), Some(new)) => {
                let left = u128::from(service.end_ns.saturating_sub(now)) * u128::from(old.get())
                    + u128::from(service.rem);
                self.service = Some(Service::from_work(now, left, new.get()));
            }
            _ => {
                self.service = None;
                self.queue_bytes = 0;
                while let Some(frame) = self.queue.pop_front() {
                    self.served(now, frame, lost);
                }
            }
        }
    }

    /// The edge goes away at `now`: frames in service or waiting are handed to `out` and counted
    /// as removed (or as lost, if their service ended before); frames on the delay line still
    /// arrive.
    pub fn close(&mut self, now: Nanos, out: &mut impl FnMut(F, DropCause)) {
        self.advance(now, &mut |frame| out(frame, DropCause::Loss));
        self.drop_waiting(out);
    }

    fn drop_waiting(&mut self, out: &mut impl FnMut(F, DropCause)) {
        self.service = None;
        self.queue_bytes = 0;
        for waiting in self.queue.drain(..) {
            self.counters.dropped_removed += 1;
            out(waiting.frame, DropCause::Removed);
        }
    }

    /// Take every frame out, wherever it is (the lab goes down). Not counted.
    pub fn clear(&mut self, out: &mut impl FnMut(F)) {
        self.service = None;
        self.queue_bytes = 0;
        self.queue.drain(..).for_each(|w| out(w.frame));
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
        self.queue.len() + self.line.len() + self.late.len()
    }

    /// Bytes waiting for service as of the last call, without the frame in service.
    #[must_use]
    pub fn queue_bytes(&self) -> u64 {
        self.queue_bytes
    }
}
