//! Changes of an edge while frames are inside.

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
    /// Starts a further life of an edge whose last frames are still on the delay line. These frames arrive first, and
    /// the random generators start again.
    pub(crate) fn reborn(&mut self, impairment: Impairment, rng: Rng) {
        debug_assert!(self.queue.is_empty(), "close() emptied the queue");
        self.impairment = impairment;
        self.origin = rng.clone();
        self.rng = rng;
        self.laws = None;
        self.aqm = None;
    }

    /// Replaces the effects on top of the impairment, from `now` on.
    ///
    /// Frames in flight keep their arrival time and marks. Frames that wait for service are subject to the new laws. A
    /// law that has not changed keeps its state.
    pub fn set_effects(
        &mut self,
        now: Nanos,
        effects: Option<Arc<Effects>>,
        out: &mut impl FnMut(F, DropCause),
    ) {
        self.advance(now, out);
        let left = self.left(now);
        // The effects are applied to the plan's impairment, not to the result of the previous effects.
        let base = match &self.laws {
            Some(laws) => laws.base,
            None => self.impairment,
        };
        match (&mut self.laws, effects) {
            (Some(laws), Some(set)) => laws.change(set, &self.origin),
            (laws, set) => {
                *laws = set.map(|set| Box::new(Laws::new(set, &self.origin, self.ends, base)))
            }
        }
        self.go_by(now, &base, left, out);
        self.fit_discipline(now);
        if self.is_down() {
            self.drop_waiting(out);
        }
    }

    /// Sets up the queue discipline that the effects require. Waiting frames stay.
    fn fit_discipline(&mut self, now: Nanos) {
        let wanted = self.laws.as_ref().and_then(|laws| laws.set.discipline);
        let wanted = wanted.unwrap_or(Discipline::DropTail);
        let present = self.aqm.as_ref().map(|aqm| *aqm.discipline());
        if wanted == present.unwrap_or(Discipline::DropTail) {
            return;
        }
        let old = self.aqm.take();
        self.aqm = Aqm::new(wanted, self.origin.stream(DISCIPLINE), now).map(Box::new);
        // The frame in service is at the head of the plain queue and stays there under every discipline.
        let in_service = usize::from(self.service.is_some());
        let waiting: Vec<Packet<F>> = match old {
            Some(mut old) => old.drain(),
            None => {
                let plain = self.queue.drain(in_service..);
                let packets = plain.map(|w| Packet {
                    // The plain queue does not record arrival times. For the discipline the frames arrive now.
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

    /// Changes the impairment, from `now` on. Frames in flight keep their arrival time. The rest of the frame in
    /// service is sent at the new rate. Frames in the queue stay even if the new limit is smaller.
    pub fn reconfigure(
        &mut self,
        now: Nanos,
        new: &Impairment,
        out: &mut impl FnMut(F, DropCause),
    ) {
        self.advance(now, out);
        // The remaining bits are computed with the old rate, before the impairment changes.
        let left = self.left(now);
        self.go_by(now, new, left, out);
    }

    /// Returns whether this impairment can replace the present one by a plain assignment: no frame is in service, and
    /// there are neither old nor new effects. Then no frame becomes due at another time either.
    pub(crate) fn takes_plainly(&self, new: &Impairment) -> bool {
        self.service.is_none()
            && self.laws.is_none()
            && self.aqm.is_none()
            && self.impairment.profile == new.profile
    }

    /// Does the same as [`Edge::reconfigure`], if [`Edge::takes_plainly`] holds.
    pub(crate) fn take_plainly(&mut self, new: &Impairment) {
        self.impairment = *new;
    }

    /// Returns the remaining work at `now` for the frame in service.
    fn left(&self, now: Nanos) -> Option<u128> {
        let (end, supply) = self.service.zip(self.supply())?;
        Some(supply.left(now, end))
    }

    /// Applies another impairment and serves the rest, `left`, at the new rate.
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
        // The new impairment has no rate: service takes no time, so all waiting frames leave at once, in order.
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

    /// Removes the edge at `now`. Frames in service or waiting are passed to `out` and counted as removed (or as lost,
    /// if their service ended before). Frames on the delay line still arrive.
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

    /// Takes every frame out, wherever it is (the lab ends). The frames are not counted.
    pub fn clear(&mut self, out: &mut impl FnMut(F)) {
        self.clear_waiting(&mut |frame, _| out(frame));
        self.line.drain(..).for_each(|r| out(r.frame));
        let apart = std::mem::take(&mut self.apart);
        apart.into_values().for_each(|r| out(r.frame));
    }
}
