//! Channels that several ports share. Frames wait, occupy the air and collide in a [`Medium`]; once received, they pass
//! over the edges to their destinations.

use std::collections::BTreeMap;

use constel_link::medium::{Counters, Event, Frame, Medium, Reception, Shared};
use constel_link::{CheckedUpdate, EdgeTable, Frames, Nanos, PortId, is_group, port_of_mac};

use super::layout::SlotRef;
use super::pool::Pool;
use crate::error::{DriverError, Result};

/// A frame that waits for the air, or is in it.
#[derive(Debug)]
struct OnAir {
    /// The frame, until its only receiver takes it.
    frame: Option<SlotRef>,
    destination: [u8; 6],
    /// Whether a port that it is addressed to received it, or could have.
    reached: bool,
}

#[derive(Debug)]
struct Channel {
    medium: Medium,
    ports: Vec<PortId>,
    frames: BTreeMap<u64, OnAir>,
    next_id: u64,
    /// Latest instant to which the medium was advanced.
    now_ns: Nanos,
    bit_error_ratio: f64,
}

/// The thread's state of all channels.
#[derive(Debug, Default)]
pub(crate) struct Air {
    channels: Vec<Channel>,
    /// Channel of each port, counted from 1, and place in it; ports beyond the end have no channel.
    of_port: Vec<(u32, u32)>,
    /// A buffer, kept to reuse its memory.
    events: Vec<Event>,
    /// Copies that could not be made because no slot was free.
    no_copy: u64,
}

impl Air {
    /// # Errors
    /// [`DriverError::Config`] for an invalid channel, and for a port that is on two.
    pub(crate) fn new(channels: &[Shared]) -> Result<Air> {
        let mut air = Air::default();
        for (number, shared) in (1..).zip(channels) {
            let medium = Medium::new(shared.spec.clone(), shared.ports.len());
            let medium =
                medium.map_err(|e| DriverError::Config(format!("channel {number}: {e}")))?;
            for (place, port) in (0..).zip(&shared.ports) {
                let at = port.0 as usize;
                if air.of_port.len() <= at {
                    air.of_port.resize(at + 1, (0, 0));
                }
                if air.of_port[at].0 != 0 {
                    let text = format!("port {port} is on two channels");
                    return Err(DriverError::Config(text));
                }
                air.of_port[at] = (number, place);
            }
            air.channels.push(Channel {
                medium,
                ports: shared.ports.clone(),
                frames: BTreeMap::new(),
                next_id: 0,
                now_ns: 0,
                bit_error_ratio: shared.bit_error_ratio,
            });
        }
        Ok(air)
    }

    /// Returns the number of a port's channel and its place there.
    fn place(&self, port: u32) -> Option<(usize, usize)> {
        let (channel, place) = *self.of_port.get(port as usize)?;
        Some(((channel as usize).checked_sub(1)?, place as usize))
    }

    /// Returns whether frames from this port go over the air.
    pub(crate) fn has(&self, port: u32) -> bool {
        self.place(port).is_some()
    }

    /// Handles a frame that a port on the air sends at `now`.
    pub(crate) fn send(
        &mut self,
        now: Nanos,
        from: PortId,
        destination: [u8; 6],
        frame: SlotRef,
        table: &mut EdgeTable<SlotRef>,
        pool: &mut Pool,
    ) {
        let Some((number, place)) = self.place(from.0) else {
            return;
        };
        // Events before `now` must be handled first, with the edges of that time, and no later ones.
        self.channels[number].advance(now, &mut self.events);
        self.handle(number, table, pool);
        let channel = &mut self.channels[number];
        let rate_bps = channel.rate_bps(place, destination, table);
        let id = channel.next_id;
        channel.next_id += 1;
        let sent = Frame {
            id,
            bytes: u32::from(frame.len),
            rate_bps,
        };
        match channel.medium.send(now.max(channel.now_ns), place, sent) {
            Ok(()) => {
                let on_air = OnAir {
                    frame: Some(frame),
                    destination,
                    reached: false,
                };
                channel.frames.insert(id, on_air);
            }
            // The medium counts the refusal.
            Err(_) => pool.give_frame(frame),
        }
    }

    /// Processes all events on the air due by `now`. Returns whether there were any.
    pub(crate) fn advance(
        &mut self,
        now: Nanos,
        table: &mut EdgeTable<SlotRef>,
        pool: &mut Pool,
    ) -> bool {
        let mut any = false;
        for number in 0..self.channels.len() {
            self.channels[number].advance(now, &mut self.events);
            any |= !self.events.is_empty();
            self.handle(number, table, pool);
        }
        any
    }

    /// Returns the instant of the next event.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.channels
            .iter()
            .filter_map(|c| c.medium.next_ns())
            .min()
    }

    /// Passes received frames over their edges, and frees frames that have ended.
    fn handle(&mut self, number: usize, table: &mut EdgeTable<SlotRef>, pool: &mut Pool) {
        let channel = &mut self.channels[number];
        for event in self.events.drain(..) {
            match event {
                Event::Sent { .. } => {}
                Event::Heard {
                    from,
                    to,
                    id,
                    at_ns,
                } => {
                    let Some(on_air) = channel.frames.get_mut(&id) else {
                        continue;
                    };
                    let ends = (channel.ports[from], channel.ports[to]);
                    let hearing = channel.medium.hearing(from, to);
                    // The medium reports the end of reception. The edge applies the delay itself, to the nanosecond, so
                    // it is subtracted here.
                    let left_ns = at_ns.saturating_sub(hearing.map_or(0, |h| h.delay_ns));
                    if let Some(frame) = on_air.for_port(ends.1, pool, &mut self.no_copy) {
                        let len = u32::from(frame.len);
                        table.pass(left_ns, ends, len, frame, pool);
                    }
                }
                Event::Lost { to, id, .. } => {
                    // A frame that its port could have received is not one without an edge.
                    if let Some(on_air) = channel.frames.get_mut(&id) {
                        on_air.reached |= on_air.is_for(channel.ports[to]);
                    }
                }
                Event::Done { from, id, .. } => {
                    let Some(on_air) = channel.frames.remove(&id) else {
                        continue;
                    };
                    if let Some(frame) = on_air.frame {
                        if on_air.reached {
                            pool.give_frame(frame);
                        } else {
                            table.no_way(channel.ports[from], frame, pool);
                        }
                    }
                }
            }
        }
    }

    /// Updates which ports hear each other after an update, from the present edges.
    pub(crate) fn updated(
        &mut self,
        now: Nanos,
        update: &CheckedUpdate,
        table: &EdgeTable<SlotRef>,
    ) {
        if self.channels.is_empty() {
            return;
        }
        for change in update.changes() {
            let (from, to) = change.edge();
            let Some((number, from_place)) = self.place(from.0) else {
                continue;
            };
            if let Some((other, to_place)) = self.place(to.0)
                && other == number
            {
                let channel = &mut self.channels[number];
                let hearing = channel.hearing(now, (from, to), table);
                channel.medium.hear(from_place, to_place, hearing);
            }
        }
    }

    /// Updates the reception of all pairs of ports, after effects were changed.
    pub(crate) fn looked_over(&mut self, now: Nanos, table: &EdgeTable<SlotRef>) {
        for channel in &mut self.channels {
            let places = 0..channel.ports.len();
            for from in places.clone() {
                for to in places.clone().filter(|to| *to != from) {
                    let ends = (channel.ports[from], channel.ports[to]);
                    let hearing = channel.hearing(now, ends, table);
                    channel.medium.hear(from, to, hearing);
                }
            }
        }
    }

    /// Returns the number of copies that could not be made because no slot was free.
    pub(crate) fn no_copy(&self) -> u64 {
        self.no_copy
    }

    /// Returns the counters of the ports of each channel.
    pub(crate) fn counters(&self) -> Vec<Vec<Counters>> {
        let of = |channel: &Channel| {
            let places = 0..channel.ports.len();
            places.map(|place| channel.medium.counters(place)).collect()
        };
        self.channels.iter().map(of).collect()
    }
}

impl Channel {
    fn advance(&mut self, now: Nanos, events: &mut Vec<Event>) {
        self.now_ns = self.now_ns.max(now);
        self.medium.advance(now, events);
    }

    /// Returns the reception of one port at another by the edge between them: its present delay, and the channel's
    /// noise. All other loss is applied by the edge.
    fn hearing(
        &self,
        now: Nanos,
        (from, to): (PortId, PortId),
        table: &EdgeTable<SlotRef>,
    ) -> Option<Reception> {
        let impairment = table.carries(from, to)?;
        Some(Reception {
            delay_ns: impairment.delay.at(now),
            loss_ratio: 0.0,
            bit_error_ratio: self.bit_error_ratio,
        })
    }

    /// Returns the rate of a frame: that of its edge, and for a group the lowest of all edges, so that all ports in
    /// range can decode it.
    fn rate_bps(
        &self,
        from: usize,
        destination: [u8; 6],
        table: &EdgeTable<SlotRef>,
    ) -> Option<u64> {
        let port = self.ports[from];
        let of = |to: PortId| Some(table.carries(port, to)?.rate_bps?.get());
        if is_group(destination) {
            self.ports.iter().filter_map(|to| of(*to)).min()
        } else {
            port_of_mac(destination).and_then(of)
        }
    }
}

impl OnAir {
    fn is_for(&self, port: PortId) -> bool {
        is_group(self.destination) || port_of_mac(self.destination) == Some(port)
    }

    /// Returns the frame for a port that has received it, if it is addressed to that port.
    fn for_port(&mut self, port: PortId, pool: &mut Pool, no_copy: &mut u64) -> Option<SlotRef> {
        if !self.is_for(port) {
            return None;
        }
        self.reached = true;
        if is_group(self.destination) {
            // The frame itself stays here for further receivers, until it has ended at all of them.
            let copy = pool.duplicate(self.frame.as_ref()?);
            *no_copy += u64::from(copy.is_none());
            copy
        } else {
            self.frame.take()
        }
    }
}
