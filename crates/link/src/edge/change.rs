//! What an edge does changes while frames are inside.

use std::sync::Arc;

use super::Edge;
use crate::aqm::{Aqm, Packet};
use crate::counters::EdgeCounters;
use crate::discipline::Discipline;
use crate::effects::Effects;
use crate::laws::{DISCIPLINE, Laws};
use crate::packet::Traits;
use crate::rng::Rng;
use crate::types::{DropCause, Impairment, Nanos};

impl<F> Edge<F> {
    /// Start a further life of an edge whose last frames are still on the delay line: they arrive
    /// first, and random draws start afresh.
    pub(crate) fn reborn(&mut self, impairment: Impairment, rng: Rng) {
        debug_assert!(self.queue.is_empty(), "close() emptied the queue");
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
        let base = match &self.laws {
            Some(laws) => laws.base,
            None => self.impairment,
        };
        match (&mut self.laws, effects) {
            (Some(laws), Some(set)) => laws.change(set, &self.origin),
            (laws, set) => *laws = set.map(|set| Box::new(Laws::new(set, &self.origin, base))),
        }
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

    /// Whether having this impairment instead of the present one comes to no more than writing it down: nothing is in
    /// service, and there are no effects, of old or of new, on top of it. Then no frame is due at another time either.
    pub(crate) fn takes_plainly(&self, new: &Impairment) -> bool {
        self.service.is_none()
            && self.laws.is_none()
            && self.aqm.is_none()
            && self.impairment.profile == new.profile
    }

    /// [`Edge::reconfigure`] where [`Edge::takes_plainly`].
    pub(crate) fn take_plainly(&mut self, new: &Impairment) {
        self.impairment = *new;
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
        self.impairment = match &mut self.laws {
            Some(laws) => {
                laws.base = *new;
                laws.set.over(new)
            }
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
        let apart = std::mem::take(&mut self.apart);
        apart.into_values().for_each(|r| out(r.frame));
    }
}
