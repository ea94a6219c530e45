//! Sending of due frames.

use constel_link::{Delivery, Nanos, PortId};

use super::data_path::DataPath;
use super::gro::Joined;
use super::gso_out::Form;
use super::layout::{ADDRESSES, FLAG_CSUM, SlotRef, TAG};
use super::passed::Window;
use super::stalls::STALL_NS;
use super::tx_batch::{Known, Sending, TxBatch};
use super::xsk::Checksum;
use crate::clock::mono_ns;

/// Number of frames sent before checking for incoming ones.
const FRAMES_PER_TURN: usize = 64;
/// Number of frames, or super-frames, sent at a time if several edges have more due frames than are sent. A frame that
/// comes in and is due at once waits for at most one such batch. With a single such edge the limit is
/// [`FRAMES_PER_TURN`].
const TX_BATCH: usize = 16;
/// Edges that are behind may send for this long, even if other frames become due before: batches of a few frames would
/// cost a busy host a fifth of its capacity.
const BEHIND_NS: Nanos = 60_000;
/// All edges together send for this long before checking for incoming frames.
const TURN_NS: Nanos = 200_000;
/// Upper limit of the measured time of one sending, so that a stall of the thread does not distort it.
const SENDING_MAX_NS: Nanos = 50_000;
/// Number of attempts to pass a batch to the trunk before doing other work.
const TRUNK_TRIES: u32 = 1000;
/// Number of frames forwarded for nodes without a stack that count as one sending: they need no system call.
const PASSED_AS_ONE: usize = 8;

/// Result of taking frames out of the table.
struct Filled {
    /// Whether there may be more.
    more: bool,
    /// Number of frames that were forwarded for nodes without a stack.
    passed_on: usize,
}

impl DataPath {
    /// Sends up to [`FRAMES_PER_TURN`] due frames, batch by batch, reading the clock for each batch. Returns whether
    /// any was sent.
    pub(super) fn send_due(&mut self, mut now: Nanos) -> bool {
        let mut left = FRAMES_PER_TURN;
        let mut busy = false;
        let mut batch = std::mem::take(&mut self.state.batch);
        let end = now + TURN_NS;
        while left > 0 && now < end {
            let at_once = if self.table.edges_behind() > 1 {
                TX_BATCH.min(left)
            } else {
                left
            };
            // As many as fit before the end of the turn, by the recent cost of one sending.
            let in_time = (end - now) / self.state.sending_ns.max(1);
            let at_once = at_once.min(in_time as usize).max(1);
            let filled = self.fill(&mut batch, now, at_once, left);
            let sent_ns = self.send_batch(&batch);
            if sent_ns.is_none() && filled.passed_on == 0 {
                break;
            }
            busy = true;
            if !filled.more {
                break;
            }
            let done = batch.len() + filled.passed_on.div_ceil(PASSED_AS_ONE);
            left -= done.min(left);
            now = sent_ns.unwrap_or_else(mono_ns);
        }
        self.state.batch = batch;
        busy
    }

    /// Sends a batch of due frames of edges that are not behind.
    pub(super) fn send_punctual(&mut self, now: Nanos) {
        let mut batch = std::mem::take(&mut self.state.batch);
        batch.clear();
        let mut passed_on = 0;
        while batch.sendings() + passed_on / PASSED_AS_ONE < TX_BATCH
            && (self.space() as usize) > batch.len()
            && let Some(delivery) = self.table.pop_punctual(now, &mut self.pool)
        {
            match self.reached(&delivery) {
                Some(member) => passed_on += self.pass_on(member, delivery),
                None => {
                    self.add(&mut batch, delivery);
                }
            }
        }
        self.send_batch(&batch);
        self.state.batch = batch;
    }

    /// Takes frames due by `now` out of the table, limited by the number of sendings and of frames. A frame that has
    /// reached a node without a stack is forwarded at once, and counts for little.
    fn fill(&mut self, batch: &mut TxBatch, now: Nanos, sendings: usize, frames: usize) -> Filled {
        batch.clear();
        // Set once no more frames are due on edges that are not behind.
        let mut end = None;
        let mut passed_on = 0;
        let filled = |more, passed_on| Filled { more, passed_on };
        loop {
            let passed = passed_on / PASSED_AS_ONE;
            if batch.sendings() + passed >= sendings || batch.len() + passed >= frames {
                return filled(true, passed_on);
            }
            if self.space() as usize <= batch.len() {
                return filled(false, passed_on);
            }
            let delivery = match end {
                Some(end) if batch.sendings() + passed >= end => return filled(true, passed_on),
                Some(_) => self.table.pop_behind(now, &mut self.pool),
                None => {
                    let punctual = self.table.pop_punctual(now, &mut self.pool);
                    if punctual.is_none() {
                        end = Some(batch.sendings() + passed + self.before_next(now));
                        continue;
                    }
                    punctual
                }
            };
            let Some(delivery) = delivery else {
                return filled(false, passed_on);
            };
            if let Some(member) = self.reached(&delivery) {
                passed_on += self.pass_on(member, delivery);
            } else if self.add(batch, delivery) {
                // A GSO frame takes long to send, so the batch ends here and the clock is read again.
                return filled(false, passed_on);
            }
        }
    }

    /// Returns the number of the node that a frame has reached, if that node is local and has no stack.
    #[inline]
    fn reached(&self, delivery: &Delivery<SlotRef>) -> Option<u32> {
        let member = self.transit.reached(delivery)?;
        (!self.far.has(delivery.to)).then_some(member)
    }

    /// Adds a frame to the batch. Returns true if it is a GSO frame.
    fn add(&mut self, batch: &mut TxBatch, delivery: Delivery<SlotRef>) -> bool {
        let class = self.state.class_of.get(delivery.from.0 as usize);
        let class = class.copied().unwrap_or(0);
        if self.far.has(delivery.to) {
            // The frame is not at its port yet: the machine of that port records when it arrives.
            let known = Known {
                class,
                ..Known::default()
            };
            batch.push(delivery, known, None);
            return delivery.frame.is_gso();
        }
        let here = self.externals.out_of(delivery.to, delivery.frame);
        let join = self.gro && here.is_none();
        let segment = join.then(|| self.pool.segment(delivery.frame));
        let entered = self.pool.leaves(delivery.from, delivery.to, delivery.frame);
        let marks = self
            .passed
            .as_ref()
            .filter(|_| here.is_none() && !delivery.frame.is_gso());
        let mark = marks.and_then(|passed| {
            let (_, bytes) = self.pool.whole(delivery.frame);
            passed.mark(delivery.to, bytes)
        });
        let known = Known {
            class,
            entered,
            mark,
        };
        batch.push(delivery, known, segment.flatten());
        delivery.frame.is_gso()
    }

    /// Returns how many sendings, at least one, fit before a frame is due on an edge that is not behind. Edges that are
    /// behind are late already, and must not delay others.
    fn before_next(&mut self, now: Nanos) -> usize {
        let next = self.table.next_punctual().unwrap_or(Nanos::MAX);
        let left = next.saturating_sub(now).max(BEHIND_NS);
        (left / self.state.sending_ns.max(1)).max(1) as usize
    }

    /// Sends the batch. Returns the time when that was done, if there was any frame.
    fn send_batch(&mut self, batch: &TxBatch) -> Option<Nanos> {
        if batch.len() == 0 && self.pending() == 0 {
            return None;
        }
        let before = mono_ns();
        for place in 0..batch.len() {
            match batch.sending(place) {
                Sending::Alone(delivery) if self.far.has(delivery.to) => self.carry(delivery),
                Sending::Alone(delivery) if delivery.frame.is_gso() => self.send_gso(delivery),
                Sending::Alone(delivery) => self.queue(delivery),
                Sending::Joined(joined, delivery) => {
                    self.send_joined(joined, delivery, batch.joined_at(place));
                }
                Sending::Done => {}
            }
        }
        self.far.flush();
        if self.pending() > 0 {
            self.flush();
        }
        let after = mono_ns();
        self.state.warm_up.sent(after);
        self.state.frames(after);
        self.record_lateness(batch, before, after);
        Some(after)
    }

    /// Returns the number of frames that can be queued, whichever socket they take.
    fn space(&self) -> u32 {
        self.xsk.space().min(self.externals.space())
    }

    /// Returns the number of queued frames that the kernel has not taken yet.
    pub(super) fn pending(&self) -> u32 {
        self.xsk.pending() + self.externals.pending()
    }

    /// Sends a batch of due frames that came from far ports. Returns whether there were any.
    pub(super) fn send_arrived(&mut self, now: Nanos) -> bool {
        if self.far.next_due().is_none_or(|due_ns| due_ns > now) {
            return false;
        }
        let mut batch = std::mem::take(&mut self.state.batch);
        batch.clear();
        let mut passed_on = 0;
        while batch.sendings() + passed_on / PASSED_AS_ONE < TX_BATCH
            && (self.space() as usize) > batch.len()
            && let Some(delivery) = self.far.pop_due(now)
        {
            match self.reached(&delivery) {
                Some(member) => passed_on += self.pass_on(member, delivery),
                None => {
                    self.add(&mut batch, delivery);
                }
            }
        }
        let sent = self.send_batch(&batch);
        self.state.batch = batch;
        sent.is_some() || passed_on > 0
    }

    /// Passes a frame to the carrier for its far port; a GSO frame is cut up first.
    fn carry(&mut self, delivery: Delivery<SlotRef>) {
        let edge = (delivery.from, delivery.to);
        self.each_frame(delivery.frame, |relay, frame| {
            let bytes = relay.pool.copy_of(frame);
            relay.far.carry(edge, delivery.due_ns, &bytes);
            relay.pool.give_frame(frame);
        });
    }

    /// Writes the relay's tag and queues the frame on AF_XDP.
    fn queue(&mut self, delivery: Delivery<SlotRef>) {
        let frame = delivery.frame;
        if let Some(out) = self.externals.out_of(delivery.to, frame) {
            self.externals
                .queue(out, &self.loaded.slots, frame, &mut self.pool);
            return;
        }
        let at = frame.base() + frame.start();
        let place = self.loaded.slots.ptr(at + ADDRESSES, TAG);
        let tag = self.tag_for(delivery.to);
        // SAFETY: in bounds; the slot is ours until its descriptor is published.
        unsafe { place.copy_from_nonoverlapping(tag.as_ptr(), TAG) };
        let csum = (frame.flags & FLAG_CSUM != 0).then(|| Checksum {
            start: frame.csum_start + TAG as u16,
            offset: frame.csum_offset,
        });
        self.xsk.queue(
            &self.loaded.slots,
            at,
            u32::from(frame.len) + TAG as u32,
            csum,
        );
    }

    fn send_gso(&mut self, delivery: Delivery<SlotRef>) {
        self.send_queued_first();
        let pool = &self.pool;
        let gso = pool.gso(delivery.frame);
        let sent = gso.and_then(|gso| {
            let headers = pool.gso_headers(gso)?;
            let form = Form {
                ipv4: headers.ipv4,
                cwr: headers.cwr,
                headers: headers.len,
                segment: gso.segment,
                csum_start: gso.csum_start,
            };
            let (first, len) = pool.piece(gso, 0);
            // SAFETY: the first piece holds the headers, so what is behind the addresses is in it, too.
            let behind = unsafe { (first.add(ADDRESSES), len - ADDRESSES) };
            let rest = (1..gso.slots.len()).map(|n| pool.piece(gso, n));
            let parts = std::iter::once(behind).chain(rest);
            // SAFETY: as above; the slot is ours.
            let addresses = unsafe { first.cast::<[u8; ADDRESSES]>().read() };
            let tag = self.tag_for(delivery.to);
            Some(self.gso_out.send(form, addresses, tag, parts))
        });
        self.count_super_frame(sent.is_some_and(|sent| sent.is_ok()));
        self.pool.give_frame(delivery.frame);
    }

    /// Sends frames that are due together as one super-frame.
    fn send_joined(
        &mut self,
        joined: &Joined,
        delivery: Delivery<SlotRef>,
        frames: impl Iterator<Item = SlotRef> + Clone,
    ) {
        self.send_queued_first();
        let (mut headers, len) = joined.headers();
        let (addresses, behind) = headers.split_at_mut(ADDRESSES);
        let addresses = std::array::from_fn(|n| addresses[n]);
        let behind = (behind.as_mut_ptr(), len - ADDRESSES);
        let payload = |frame: SlotRef| {
            let payload = usize::from(frame.len) - len;
            self.pool.last_bytes(frame, payload)
        };
        let parts = std::iter::once(behind).chain(frames.clone().map(payload));
        let tag = self.tag_for(delivery.to);
        let sent = self.gso_out.send(joined.form(), addresses, tag, parts);
        self.count_super_frame(sent.is_ok());
        for frame in frames {
            self.state.joined += 1;
            self.pool.give_frame(frame);
        }
    }

    /// Sends the queued frames first, so that no super-frame overtakes them.
    fn send_queued_first(&mut self) {
        if self.xsk.pending() > 0 {
            self.flush();
        }
    }

    fn count_super_frame(&mut self, sent: bool) {
        if sent {
            self.state.taken += 1;
        } else {
            self.state.gso_refused += 1;
        }
    }

    /// Makes the kernel take the queued frames. Frames that it does not take stay queued for the next turn: the kernel
    /// may have read the descriptors already, so they cannot be withdrawn.
    pub(super) fn flush(&mut self) {
        self.externals.flush(&mut self.pool);
        if self.xsk.pending() == 0 {
            return;
        }
        for tries in 1..=TRUNK_TRIES {
            let pool = &mut self.pool;
            // After that many attempts the reason cannot be a lack of room.
            let again = tries < TRUNK_TRIES;
            match self.xsk.kick(again, |slot| pool.give(slot)) {
                Ok(taken) => self.state.taken += u64::from(taken),
                // The trunk is gone or down: no frame can be delivered any more.
                Err(_) => break,
            }
            if self.xsk.pending() == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        self.state.trunk_stalls += 1;
    }

    /// Records the lateness of a batch. The kernel sends one frame after the other, so their times are spread evenly
    /// over the duration of the batch.
    fn record_lateness(&mut self, batch: &TxBatch, before: Nanos, after: Nanos) {
        let n = batch.len() as u64;
        if n > 0 {
            let each = (after - before) / batch.sendings().max(1) as u64;
            let before = self.state.sending_ns;
            // A rise is taken at once, a fall slowly: some frames take a node ten times as long as others, and an
            // underestimate makes frames late.
            let each = each.min(SENDING_MAX_NS);
            self.state.sending_ns = each.max((before * 15 + each) / 16);
        }
        let window = Window {
            from_ns: before,
            until_ns: after,
        };
        for (i, (delivery, known)) in batch.frames().enumerate() {
            let (to, due) = (delivery.to, delivery.due_ns);
            if let (Some(passed), Some(mark)) = (&mut self.passed, known.mark) {
                passed.gave(mark, due, window);
            }
            if self.far.has(to) {
                // The machine that delivers the frame records its lateness.
                continue;
            }
            let sent = before + (after - before) * (i as u64 + 1) / n;
            self.state.early += u64::from(before < due);
            let late = sent.saturating_sub(due);
            self.state.lateness.record(late);
            self.state.last_late_ns = late;
            self.state.late.note(to, due, sent);
            if let Some(came) = known.entered {
                self.externals.times.note(delivery.from, (came, due, sent));
            }
            // Short delays are not compared with stalls: only periods of at least STALL_NS are recorded as stalls.
            let others = if late < STALL_NS {
                0
            } else {
                self.state.stalls.within(due, sent)
            };
            let own = late.saturating_sub(others);
            self.state.own_lateness.record(own);
            if let Some(class) = self.state.classes.get_mut(usize::from(known.class)) {
                class.lateness.record(late);
                class.own_lateness.record(own);
            }
        }
    }

    /// Returns the tag that names the port of a frame, by its number among those that are interfaces.
    fn tag_for(&self, to: PortId) -> [u8; TAG] {
        let [_, _, high, low] = self.wires.of(to).unwrap_or(to.0).to_be_bytes();
        [0x81, 0x00, high, low]
    }
}
