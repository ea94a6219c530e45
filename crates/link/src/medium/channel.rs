//! The channel: which port sends when, and which frames each receiver gets.

use std::collections::BTreeMap;

use crate::medium::agenda::{Agenda, Due};
use crate::medium::port::{Arrival, Counters, Port, Refused};
use crate::medium::spec::{Access, Frame, Reception, ReceptionLoss, Spec, SpecError};

/// Event in the life of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A port began to send it.
    Sent {
        /// The sender.
        from: usize,
        /// The frame's id.
        id: u64,
        /// The instant.
        at_ns: u64,
        /// When its last bit leaves the sender.
        until_ns: u64,
    },
    /// A receiver has received all of it.
    Heard {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// The frame's id.
        id: u64,
        /// The instant.
        at_ns: u64,
    },
    /// A receiver did not receive it.
    Lost {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// The frame's id.
        id: u64,
        /// When its last bit arrived.
        at_ns: u64,
        /// The reason.
        why: ReceptionLoss,
    },
    /// It has left its sender and has ended at all receivers: no further event follows.
    Done {
        /// The sender.
        from: usize,
        /// The frame's id.
        id: u64,
        /// The instant.
        at_ns: u64,
    },
}

/// A frame in the air.
#[derive(Debug)]
struct Flight {
    from: usize,
    frame: Frame,
    /// Number of receivers at which it has not ended, plus one while it has not left its sender.
    left: usize,
}

/// A channel and its ports, numbered from 0.
#[derive(Debug)]
pub struct Medium {
    spec: Spec,
    ports: Vec<Port>,
    /// Receivers of each port, and how each hears it.
    hearers: Vec<BTreeMap<usize, Reception>>,
    agenda: Agenda,
    flights: BTreeMap<u64, (Flight, BTreeMap<usize, Reception>)>,
    next_number: u64,
}

impl Medium {
    /// Returns a channel of `ports` ports that do not hear each other yet.
    ///
    /// # Errors
    /// A specification that is not valid.
    pub fn new(spec: Spec, ports: usize) -> Result<Self, SpecError> {
        spec.check(ports)?;
        Ok(Self {
            ports: (0..ports).map(|n| Port::new(spec.seed, n)).collect(),
            hearers: vec![BTreeMap::new(); ports],
            agenda: Agenda::default(),
            flights: BTreeMap::new(),
            next_number: 0,
            spec,
        })
    }

    /// Returns the channel's specification.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Sets how `to` hears `from` from now on; `None`: not at all. Frames in the air are not affected.
    ///
    /// # Panics
    /// When there is no such port.
    pub fn hear(&mut self, from: usize, to: usize, hearing: Option<Reception>) {
        assert!(to < self.ports.len() && from != to, "no such pair of ports");
        match hearing {
            Some(hearing) => self.hearers[from].insert(to, hearing),
            None => self.hearers[from].remove(&to),
        };
    }

    /// Returns how `to` hears `from`, if it does.
    ///
    /// # Panics
    /// When there is no such port.
    #[must_use]
    pub fn hearing(&self, from: usize, to: usize) -> Option<&Reception> {
        self.hearers[from].get(&to)
    }

    /// Puts a frame into a port's queue at `now_ns`, which must not be before the last instant passed to
    /// [`Medium::advance`].
    ///
    /// # Errors
    /// When the queue is full, or the frame could never be sent. The refusal is counted.
    ///
    /// # Panics
    /// When there is no such port.
    pub fn send(&mut self, now_ns: u64, port: usize, frame: Frame) -> Result<(), Refused> {
        let airtime_ns = self.spec.airtime_ns(&frame);
        let own = &mut self.ports[port];
        // A frame that fits no slot of the port would block its queue for ever.
        if let Access::Tdma { slot_ns, order } = &self.spec.access
            && (airtime_ns.saturating_add(self.spec.guard_ns) > *slot_ns || !order.contains(&port))
        {
            own.counters.refused_long += 1;
            return Err(Refused::Long);
        }
        let bytes = own.queued_bytes + u64::from(frame.bytes);
        if bytes > self.spec.queue_bytes {
            own.counters.refused_full += 1;
            return Err(Refused::Full);
        }
        own.queued_bytes = bytes;
        own.queue.push_back(frame);
        if own.queue.len() == 1 {
            self.decide(port, now_ns);
        }
        Ok(())
    }

    /// Returns the instant of the next event.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.agenda.next_ns()
    }

    /// Processes all events due by `now_ns` and appends them to `events` in order.
    pub fn advance(&mut self, now_ns: u64, events: &mut Vec<Event>) {
        while let Some((at_ns, due)) = self.agenda.take(now_ns) {
            match due {
                Due::Ends { receiver, number } => self.ends(at_ns, receiver, number, events),
                Due::Left { port, number } => {
                    self.ended_somewhere(at_ns, number, events);
                    let own = &mut self.ports[port];
                    own.sending_until_ns = None;
                    own.guard_until_ns = at_ns + self.spec.guard_ns;
                    self.perhaps_quiet(port, at_ns);
                }
                Due::MaySend { port, decision } => {
                    if self.ports[port].decision == decision {
                        self.transmit(at_ns, port, events);
                    }
                }
                Due::Reaches { receiver, number } => self.reaches(at_ns, receiver, number),
            }
        }
    }

    /// Returns the counters of a port.
    ///
    /// # Panics
    /// When there is no such port.
    #[must_use]
    pub fn counters(&self, port: usize) -> Counters {
        self.ports[port].counters
    }

    /// Returns the bytes in a port's queue.
    ///
    /// # Panics
    /// When there is no such port.
    #[must_use]
    pub fn queued_bytes(&self, port: usize) -> u64 {
        self.ports[port].queued_bytes
    }

    /// Computes when a port with a queued frame may send it, unless that is decided already or depends on a frame being
    /// received.
    fn decide(&mut self, port: usize, now_ns: u64) {
        let own = &mut self.ports[port];
        let Some(frame) = own.queue.front() else {
            return;
        };
        if own.sending_until_ns.is_some() || own.decided {
            return;
        }
        let free_ns = now_ns.max(own.guard_until_ns);
        let at_ns = match &self.spec.access {
            Access::Aloha => free_ns,
            Access::SlottedAloha { slot_ns } => free_ns.next_multiple_of(*slot_ns),
            Access::Tdma { slot_ns, order } => {
                let needs_ns = self.spec.airtime_ns(frame) + self.spec.guard_ns;
                tdma_start_ns(free_ns, port, needs_ns, *slot_ns, order)
            }
            Access::Csma { slot_ns, window } => {
                // The backoff is drawn once per frame and survives interruptions, as in IEEE 802.11.
                if own.backoff.is_none() {
                    own.backoff = Some((own.rng.next_u64() % u64::from(*window)) as u32);
                }
                // The port is busy: the countdown starts when the last arrival ends (`perhaps_quiet`).
                if !own.arrivals.is_empty() {
                    return;
                }
                let quiet_ns = own.quiet_since_ns + self.spec.guard_ns;
                let from_ns = quiet_ns.max(now_ns);
                own.counts_from_ns = Some(from_ns);
                from_ns + u64::from(own.backoff.unwrap_or(0)) * slot_ns
            }
        };
        own.decided = true;
        let decision = own.decision;
        self.agenda.add(at_ns, Due::MaySend { port, decision });
    }

    fn transmit(&mut self, at_ns: u64, port: usize, events: &mut Vec<Event>) {
        let own = &mut self.ports[port];
        let Some(frame) = own.queue.pop_front() else {
            return;
        };
        own.queued_bytes -= u64::from(frame.bytes);
        own.backoff = None;
        own.counts_from_ns = None;
        own.undecide();
        let airtime_ns = self.spec.airtime_ns(&frame);
        let until_ns = at_ns + airtime_ns;
        own.sending_until_ns = Some(until_ns);
        own.counters.sent += 1;
        own.counters.airtime_ns += airtime_ns;
        // A port is deaf while it sends: all frames that are arriving are lost here.
        for arrival in &mut own.arrivals {
            arrival.spoiled.get_or_insert(ReceptionLoss::Deaf);
        }
        let number = self.next_number;
        self.next_number += 1;
        self.agenda.add(until_ns, Due::Left { port, number });
        // A frame in the air keeps the receivers of the moment it was sent, even if `hear` changes them.
        let hearers = self.hearers[port].clone();
        for (receiver, hearing) in &hearers {
            let (receiver, delay_ns) = (*receiver, hearing.delay_ns);
            self.agenda
                .add(at_ns + delay_ns, Due::Reaches { receiver, number });
            self.agenda
                .add(until_ns + delay_ns, Due::Ends { receiver, number });
        }
        let flight = Flight {
            from: port,
            frame,
            left: hearers.len() + 1,
        };
        self.flights.insert(number, (flight, hearers));
        events.push(Event::Sent {
            from: port,
            id: frame.id,
            at_ns,
            until_ns,
        });
    }

    fn reaches(&mut self, at_ns: u64, receiver: usize, number: u64) {
        let own = &mut self.ports[receiver];
        let mut spoiled = own
            .sending_until_ns
            .is_some()
            .then_some(ReceptionLoss::Deaf);
        // Overlapping frames spoil each other at this receiver. The first reason recorded for a frame stays.
        if !own.arrivals.is_empty() {
            spoiled.get_or_insert(ReceptionLoss::Collision);
        }
        for other in &mut own.arrivals {
            other.spoiled.get_or_insert(ReceptionLoss::Collision);
        }
        own.arrivals.push(Arrival { number, spoiled });
        // The countdown pauses. If it had begun, the busy period that starts now counts as one of its slots.
        if let (Access::Csma { slot_ns, .. }, Some(from_ns)) =
            (&self.spec.access, own.counts_from_ns.take())
        {
            own.undecide();
            if let (Some(left), Some(counted_ns)) = (&mut own.backoff, at_ns.checked_sub(from_ns)) {
                let slots = u32::try_from(counted_ns / slot_ns + 1).unwrap_or(u32::MAX);
                *left = left.saturating_sub(slots);
            }
        }
    }

    fn ends(&mut self, at_ns: u64, receiver: usize, number: u64, events: &mut Vec<Event>) {
        let Some((flight, hearers)) = self.flights.get(&number) else {
            return;
        };
        let (from, frame) = (flight.from, flight.frame);
        let hearing = hearers[&receiver];
        let own = &mut self.ports[receiver];
        let Some(place) = own.arrivals.iter().position(|a| a.number == number) else {
            return;
        };
        // The order of the arrivals has no effect, so the last one may take the free place.
        let arrival = own.arrivals.swap_remove(place);
        let noise = hearing.loss_of(frame.bytes);
        // The noise is drawn for spoiled frames too, so that a collision does not shift the port's later draws.
        let noisy = noise > 0.0 && own.rng.chance(noise);
        let (to, id) = (receiver, frame.id);
        events.push(
            match arrival.spoiled.or(noisy.then_some(ReceptionLoss::Noise)) {
                Some(why) => {
                    own.counters.lost(why);
                    Event::Lost {
                        from,
                        to,
                        id,
                        at_ns,
                        why,
                    }
                }
                None => {
                    own.counters.heard += 1;
                    Event::Heard {
                        from,
                        to,
                        id,
                        at_ns,
                    }
                }
            },
        );
        self.ended_somewhere(at_ns, number, events);
        self.perhaps_quiet(receiver, at_ns);
    }

    /// Records that a frame has ended at one receiver, or has left its sender.
    fn ended_somewhere(&mut self, at_ns: u64, number: u64, events: &mut Vec<Event>) {
        let Some((flight, _)) = self.flights.get_mut(&number) else {
            return;
        };
        flight.left -= 1;
        if flight.left == 0 {
            let (from, id) = (flight.from, flight.frame.id);
            self.flights.remove(&number);
            events.push(Event::Done { from, id, at_ns });
        }
    }

    /// Called after a frame has ended at a port, or has left it.
    fn perhaps_quiet(&mut self, port: usize, at_ns: u64) {
        let own = &mut self.ports[port];
        if !own.is_busy() {
            own.quiet_since_ns = at_ns;
        }
        self.decide(port, at_ns);
    }
}

/// Returns the first instant from `from_ns` on at which `needs_ns` fit in a slot of the port.
fn tdma_start_ns(from_ns: u64, port: usize, needs_ns: u64, slot_ns: u64, order: &[usize]) -> u64 {
    // The loop ends: `send` refuses frames that do not fit in a slot and ports without slots.
    let mut slot = from_ns / slot_ns;
    loop {
        if order[(slot % order.len() as u64) as usize] == port {
            let start_ns = from_ns.max(slot * slot_ns);
            if start_ns + needs_ns <= (slot + 1) * slot_ns {
                return start_ns;
            }
        }
        slot += 1;
    }
}
