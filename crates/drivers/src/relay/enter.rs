//! Entry of a frame into its edges: here, in another thread of the relay, or behind a node without a stack.

use constel_link::transit::{NeighbourRoute as Hop, Verdict};
use constel_link::{Delivery, DropCause, Frames, Nanos, PortId, mac_of};

use super::across::{Across, Edge, Handed, Item};
use super::data_path::{DataPath, INTAKES_PER_TURN};
use super::intake::INTAKE;
use super::layout::{FLAG_NEW, SlotRef};
use super::ways::EdgeChoice;
use crate::clock::mono_ns;

const GROUP: [u8; 6] = [0xff; 6];

impl DataPath {
    /// Passes a frame to the edges of its port. Returns the number of frames to which the work amounts.
    #[inline]
    pub(super) fn enter(
        &mut self,
        ts_ns: Nanos,
        from: PortId,
        destination: [u8; 6],
        frame: SlotRef,
    ) -> usize {
        if self.across.is_some() {
            self.enter_anywhere(ts_ns, from, destination, frame)
        } else {
            self.enter_here(ts_ns, from, destination, frame)
        }
    }

    /// Does the same if all edges belong to this thread.
    #[inline(always)]
    fn enter_here(
        &mut self,
        ts_ns: Nanos,
        from: PortId,
        destination: [u8; 6],
        frame: SlotRef,
    ) -> usize {
        if frame.is_gso() {
            return self.take_gso(ts_ns, from, destination, frame);
        }
        let len = u32::from(frame.len);
        self.pool.enters(ts_ns, from, frame);
        self.table
            .arrive(ts_ns, from, destination, len, frame, &mut self.pool)
    }

    #[inline(never)]
    fn enter_anywhere(
        &mut self,
        ts_ns: Nanos,
        from: PortId,
        destination: [u8; 6],
        frame: SlotRef,
    ) -> usize {
        let Some(across) = &mut self.across else {
            return 1;
        };
        match across.ways.of(from, destination) {
            EdgeChoice::One(to) => {
                // The table of an edge is on the thread of its destination.
                let owner = across.owners.of(to);
                if owner == across.me {
                    self.enter_here(ts_ns, from, destination, frame)
                } else {
                    self.hand_over(owner, ts_ns, (from, Some(to)), frame);
                    1
                }
            }
            EdgeChoice::All => self.each_frame(frame, |relay, frame| {
                relay.enter_all(ts_ns, from, frame);
            }),
            EdgeChoice::None => {
                self.pool.enters(ts_ns, from, frame);
                self.table.no_way(from, frame, &mut self.pool);
                1
            }
        }
    }

    /// Passes on a frame for all edges of its port: each thread that has some of them gets a copy.
    fn enter_all(&mut self, ts_ns: Nanos, from: PortId, frame: SlotRef) {
        let Some(across) = &self.across else {
            return;
        };
        let (me, counts) = (across.me, across.spread(from));
        self.pool.enters(ts_ns, from, frame);
        let others = |thread: &usize| *thread != me && counts[*thread] > 0;
        let here = counts[me] > 0;
        let mut others: Vec<usize> = (0..counts.len()).filter(others).collect();
        // One receiver gets the frame itself instead of a copy.
        let last = if here { None } else { others.pop() };
        for thread in others {
            match self.pool.duplicate(&frame) {
                Some(copy) => self.hand_over(thread, ts_ns, (from, None), copy),
                // The copy would have taken all edges of that thread.
                None => self.state.no_slot += u64::from(counts[thread]),
            }
        }
        if let Some(thread) = last {
            self.hand_over(thread, ts_ns, (from, None), frame);
        } else {
            let len = u32::from(frame.len);
            self.table
                .arrive(ts_ns, from, GROUP, len, frame, &mut self.pool);
        }
    }

    /// Passes a frame to the thread that has the edge. The frame is refused if there is no room.
    fn hand_over(&mut self, thread: usize, ts_ns: Nanos, edge: Edge, frame: SlotRef) {
        let Some(across) = &mut self.across else {
            return;
        };
        let (from, to) = edge;
        if !across.has_room(thread, from) {
            let gso = self.pool.gso(frame).map(|gso| u64::from(gso.len));
            across.refuse(thread, edge, gso.unwrap_or(frame.len.into()));
            // A frame for all edges was recorded by `enter_all` before.
            if to.is_some() {
                self.pool.enters(ts_ns, from, frame);
            }
            // The counts of the edge are on the other thread, which gets them with `refuse`.
            self.pool.discard(frame, DropCause::Overload);
            return;
        }
        let handed = |owner| Handed {
            ts_ns,
            from,
            to,
            owner,
            frame,
        };
        let item = if frame.is_gso() {
            let Some(gso) = self.pool.hand_out_gso(frame) else {
                return;
            };
            let owner = self.pool.owner(gso.slots[0]);
            gso.slots.iter().for_each(|&slot| self.pool.hand_out(slot));
            Item::Gso(handed(owner), Box::new(gso))
        } else {
            let owner = self.pool.owner(frame.slot);
            self.pool.hand_out(frame.slot);
            Item::Frame(handed(owner))
        };
        across.hand_over(thread, from, item);
    }

    /// Takes the items that other threads sent for edges of this one. Returns whether there were any.
    pub(super) fn take_handed(&mut self) -> bool {
        if self.across.is_none() {
            return false;
        }
        let mut any = self.take_some();
        // A thread that fills a ring must not delay frames that are due on other edges, so those are sent between two
        // intakes.
        for _ in 0..INTAKES_PER_TURN {
            let long = self.across.as_deref().is_some_and(Across::is_long);
            if !long || !self.take_some() {
                break;
            }
            any = true;
            self.send_punctual(mono_ns());
        }
        if let Some(across) = &mut self.across {
            across.tell_refused();
            across.knock();
        }
        self.pool.collect_returned();
        any
    }

    fn take_some(&mut self) -> bool {
        let sources = self.across.as_deref().map_or(0, Across::sources);
        let mut any = false;
        for source in 0..sources {
            // Each source gets a share of the turn, so that no thread keeps the others waiting.
            let mut work = 0;
            while work < INTAKE
                && let Some(across) = &mut self.across
                && let Some(item) = across.next(source)
            {
                any = true;
                work += match item {
                    Item::Frame(handed) => {
                        self.pool.adopt(handed.frame.slot, handed.owner);
                        self.take_one(handed, handed.frame)
                    }
                    Item::Gso(handed, gso) => {
                        let flags = handed.frame.flags;
                        let frame = self.pool.adopt_gso(*gso, handed.owner, flags);
                        self.take_one(handed, frame)
                    }
                    Item::Refused((from, to), refused) => {
                        self.table
                            .turned_away(from, to, refused.frames, refused.bytes);
                        1
                    }
                    Item::Mark(can) => {
                        across.instants.mark(source, can);
                        1
                    }
                }
                .max(1);
            }
        }
        if any {
            self.state.frames(mono_ns());
        }
        any
    }

    /// Handles a frame that another thread captured.
    fn take_one(&mut self, handed: Handed, frame: SlotRef) -> usize {
        let Handed {
            ts_ns, from, to, ..
        } = handed;
        if let Some(across) = &self.across {
            across.took(from);
        }
        match to {
            Some(to) if self.table.has(from, to) => self.enter_here(ts_ns, from, mac_of(to), frame),
            // The edge was removed while the frame was in transit between the threads.
            Some(_) => {
                self.pool.enters(ts_ns, from, frame);
                self.table.no_way(from, frame, &mut self.pool);
                1
            }
            None => {
                self.pool.came(ts_ns, from, frame);
                let len = u32::from(frame.len);
                let (table, pool) = (&mut self.table, &mut self.pool);
                table.arrive(ts_ns, from, GROUP, len, frame, pool)
            }
        }
    }

    /// Handles a frame that has reached a node without a stack. Returns the number of frames to which the work amounts.
    pub(super) fn pass_on(&mut self, member: u32, delivery: Delivery<SlotRef>) -> usize {
        let Delivery {
            from,
            to,
            due_ns,
            frame,
            ..
        } = delivery;
        self.pool.leaves(from, to, frame);
        let verdict = self.transit.decide(member, &delivery, &mut self.pool);
        match verdict {
            Verdict::Forward(way) => {
                self.pool.readdress(frame, way.addresses());
                // Forwarding takes no time: the frame enters its next edge at the instant at which it was due here.
                self.go_on(due_ns, way, frame)
            }
            Verdict::Answer(way, _) => {
                let answer = std::mem::take(&mut self.transit.answer);
                match self.pool.replace(frame, way.addresses(), &answer) {
                    Some(frame) => {
                        self.go_on(due_ns, way, frame);
                    }
                    None => self.transit.no_slot += 1,
                }
                self.transit.answer = answer;
                1
            }
            Verdict::Drop(_) => {
                self.pool.give_frame(frame);
                1
            }
        }
    }

    fn go_on(&mut self, at_ns: Nanos, way: Hop, frame: SlotRef) -> usize {
        let destination = mac_of(way.far_port);
        // The host has processed the frame before: if the host does not keep up, new frames are dropped first.
        let frame = SlotRef {
            flags: frame.flags & !FLAG_NEW,
            ..frame
        };
        let is_gso = frame.is_gso();
        let work = self.enter(at_ns, way.port, destination, frame);
        if is_gso { work.max(1) } else { 1 }
    }
}
