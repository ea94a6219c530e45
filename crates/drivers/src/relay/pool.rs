//! Frame buffers and the rings between the capture program and the relay's thread.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use constel_link::packet::{self, Traits};
use constel_link::{DropCause, Frames, Nanos};

use super::layout::{
    ADDRESSES, Back, Cpu, Desc, FIRST_PORT, FLAG_CSUM, FLAG_VLAN, FRAME_MAX, REHEARSAL_SLOT,
    SLOT_BYTES, SlotRef, TAG,
};
use super::object::{Loaded, Sizes};

/// Slots handed to each CPU's free ring are topped up in lots of this many.
const REFILL_LOT: u32 = 32;

/// The free slots, and the frames in the others.
#[derive(Debug)]
pub(crate) struct Pool {
    loaded: Arc<Loaded>,
    free: Vec<u32>,
    /// Port that a slot in use belongs to.
    owners: Vec<u32>,
    /// What a port may hold in any case.
    share_min: u64,
    /// Slots kept back for the free rings: a flood takes them before its share is seen to shrink.
    reserve: usize,
}

/// Slots that every port may hold, however scarce they are.
const SHARE_MIN: RangeInclusive<u64> = 8..=64;

/// Add to what this thread alone writes.
fn add(to: &AtomicU64, more: i64) {
    let now = to.load(Ordering::Relaxed).wrapping_add_signed(more);
    to.store(now, Ordering::Relaxed);
}

impl Pool {
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    pub(crate) fn give(&mut self, slot: u32) {
        if slot == REHEARSAL_SLOT {
            return;
        }
        self.free.push(slot);
        let owner = self.owners[slot as usize];
        self.back(owner, 1);
    }

    /// This slot came in with a frame of this port, which must exist; its descriptor was read.
    pub(crate) fn own(&mut self, slot: u32, port: u32) {
        self.owners[slot as usize] = port;
        add(&self.back_of(port).descs, 1);
    }

    /// So many more slots of this port came back.
    fn back(&self, port: u32, slots: i64) {
        add(&self.back_of(port).slots, slots);
    }

    fn back_of(&self, port: u32) -> &Back {
        // SAFETY: `Back` is atomics, in a page-aligned mapping.
        unsafe { self.loaded.back.shared(port as usize * size_of::<Back>()) }
    }

    /// Slots the port holds, in the rings and in the table.
    fn held_by(&self, port: u32) -> u64 {
        let taken = self.loaded.port(port).taken.load(Ordering::Relaxed);
        taken.saturating_sub(self.back_of(port).slots.load(Ordering::Relaxed))
    }

    /// What a port may hold: in proportion to what is free besides the reserve, so that one port
    /// alone can have most of the slots and any number of flooding ports leave some.
    fn share(&self) -> u64 {
        let free = self.free.len().saturating_sub(self.reserve);
        (4 * free as u64).max(self.share_min)
    }

    /// Tell the capture program.
    fn publish_share(&self) {
        // SAFETY: a single u64 in a page-aligned mapping.
        let at: &AtomicU64 = unsafe { self.loaded.share.shared(0) };
        at.store(self.share(), Ordering::Relaxed);
    }

    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// A frame without its two addresses: a tag of the node's own, if any, EtherType, payload.
    fn behind_addresses(&mut self, frame: SlotRef) -> &mut [u8] {
        let len = usize::from(frame.len) - ADDRESSES;
        let at = frame.base() + frame.start() + ADDRESSES + TAG;
        let first = self.loaded.slots.ptr(at, len).cast::<u8>();
        // SAFETY: in bounds; the slot is ours since its descriptor was read, and nobody else has
        // a reference into it while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(first, len) }
    }

    /// The first bytes of a frame: its destination address.
    pub(crate) fn destination(&self, frame: SlotRef) -> [u8; 6] {
        let at = self
            .loaded
            .slots
            .ptr(frame.base() + frame.start(), 6)
            .cast::<[u8; 6]>();
        // SAFETY: in bounds; the slot is ours since its descriptor was read.
        unsafe { at.read() }
    }
}

impl Frames<SlotRef> for Pool {
    fn duplicate(&mut self, frame: &SlotRef) -> Option<SlotRef> {
        let owner = self.owners[frame.slot as usize];
        if self.held_by(owner) >= self.share() {
            return None;
        }
        let slot = self.take()?;
        self.owners[slot as usize] = owner;
        self.back(owner, -1);
        let copy = SlotRef { slot, ..*frame };
        let len = usize::from(frame.len) + TAG;
        let from = self.loaded.slots.ptr(frame.base() + frame.start(), len);
        let to = self.loaded.slots.ptr(copy.base() + copy.start(), len);
        // SAFETY: both in bounds and in different slots, both of which are ours.
        unsafe { to.copy_from_nonoverlapping(from, len) };
        Some(copy)
    }

    fn discard(&mut self, frame: SlotRef, _: DropCause) {
        self.give(frame.slot);
    }

    fn flip_bit(&mut self, frame: &mut SlotRef, draw: u64) {
        let bytes = self.behind_addresses(*frame);
        // Left to the receiver, the checksum would be taken for good: it comes before the damage.
        if frame.flags & FLAG_CSUM != 0 {
            let skipped = ADDRESSES as u16;
            let start = usize::from(frame.csum_start.saturating_sub(skipped));
            complete_checksum(bytes, start, usize::from(frame.csum_offset));
            frame.flags &= !FLAG_CSUM;
        }
        let own = if frame.flags & FLAG_VLAN != 0 { TAG } else { 0 };
        flip(&mut bytes[own + size_of::<u16>()..], draw);
    }

    fn traits(&mut self, frame: &SlotRef) -> Traits {
        packet::traits(self.behind_addresses(*frame))
    }

    fn mark_ce(&mut self, frame: &mut SlotRef) {
        packet::mark_ce(self.behind_addresses(*frame));
    }
}

/// Finish a partial checksum as the kernel does: the field holds the pseudo-header's sum.
fn complete_checksum(bytes: &mut [u8], start: usize, offset: usize) {
    let field = start + offset;
    if start > bytes.len() || field + 2 > bytes.len() {
        return;
    }
    let mut sum = 0u32;
    for pair in bytes[start..].chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // 0 would mean "no checksum" to UDP; both stand for the same number.
    let check = match !(sum as u16) {
        0 => 0xffff,
        check => check,
    };
    bytes[field..field + 2].copy_from_slice(&check.to_be_bytes());
}

/// Flip bit `draw` modulo the bits there are.
fn flip(bytes: &mut [u8], draw: u64) {
    if let Some(bits) = std::num::NonZeroU64::new(bytes.len() as u64 * 8) {
        let bit = draw % bits;
        bytes[(bit / 8) as usize] ^= 0x80 >> (bit % 8);
    }
}

/// A captured frame, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured {
    pub(crate) ts_ns: Nanos,
    pub(crate) port: u32,
    pub(crate) frame: SlotRef,
}

#[derive(Clone, Copy, Debug)]
struct Side {
    /// Next descriptor to read.
    tail: u32,
    /// Descriptors before this one are complete.
    head: u32,
    /// Time stamp of the descriptor at `tail`, when there is one.
    next_ts: Nanos,
    /// Slots taken from the free ring since it was last topped up.
    owed: u32,
    free_head: u32,
}

/// The reading side of all CPUs' rings.
#[derive(Debug)]
pub(crate) struct Rings {
    loaded: Arc<Loaded>,
    sizes: Sizes,
    sides: Vec<Side>,
    /// Descriptors that make no sense: never, unless memory was damaged.
    pub(crate) malformed: u64,
}

/// Sums of the capture side's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuSums {
    pub(crate) captured: u64,
    pub(crate) dropped_pool: u64,
    pub(crate) dropped_share: u64,
    pub(crate) dropped_ring: u64,
    pub(crate) dropped_gso: u64,
    pub(crate) dropped_size: u64,
    pub(crate) dropped_error: u64,
    pub(crate) trunk: u64,
    pub(crate) delivered: u64,
    pub(crate) foreign: u64,
    pub(crate) before_start: u64,
    pub(crate) rehearsed: u64,
}

/// What a port may hold in any case, so that all of them can at once.
fn share_min(sizes: Sizes) -> u64 {
    let fair = u64::from(sizes.slots / 2 / sizes.ports.max(1));
    fair.clamp(*SHARE_MIN.start(), *SHARE_MIN.end())
}

/// Fill the free rings; the rest of the slots is the pool.
pub(crate) fn set_up(loaded: &Arc<Loaded>, sizes: Sizes, per_cpu: u32) -> (Rings, Pool) {
    let mut pool = Pool {
        loaded: loaded.clone(),
        free: (0..sizes.slots)
            .rev()
            .filter(|&slot| slot != REHEARSAL_SLOT)
            .collect(),
        owners: vec![0; sizes.slots as usize],
        share_min: share_min(sizes),
        reserve: (per_cpu * sizes.cpus / 4) as usize,
    };
    let side = Side {
        tail: 0,
        head: 0,
        next_ts: Nanos::MAX,
        owed: per_cpu,
        free_head: 0,
    };
    let mut rings = Rings {
        loaded: loaded.clone(),
        sizes,
        sides: vec![side; sizes.cpus as usize],
        malformed: 0,
    };
    // Frames come in as soon as there are slots, and must find their share by then.
    pool.publish_share();
    rings.refill(&mut pool, 0);
    pool.publish_share();
    (rings, pool)
}

impl Rings {
    fn cpu(&self, nr: usize) -> &Cpu {
        // SAFETY: `Cpu` is atomics and padding, written by the BPF programs; elements are 8-byte
        // aligned in a page-aligned mapping.
        unsafe { self.loaded.cpus.shared(nr * size_of::<Cpu>()) }
    }

    fn desc(&self, nr: usize, index: u32) -> Desc {
        let at = nr * self.sizes.ring as usize + (index & (self.sizes.ring - 1)) as usize;
        let at = self
            .loaded
            .descs
            .ptr(at * size_of::<Desc>(), size_of::<Desc>());
        // SAFETY: in bounds; between tail and head (read with Acquire) the program leaves it alone.
        unsafe { at.cast::<Desc>().read() }
    }

    /// Look at the heads again. Frames stamped before the call are now visible, except one that a
    /// CPU is just about to publish.
    pub(crate) fn look(&mut self) {
        for nr in 0..self.sides.len() {
            let head = self.cpu(nr).desc_head.load(Ordering::Acquire);
            let side = self.sides[nr];
            if head != side.head {
                if side.tail == side.head {
                    self.sides[nr].next_ts = self.desc(nr, side.tail).ts_ns;
                }
                self.sides[nr].head = head;
            }
        }
    }

    /// The oldest frame seen by the last `look`, if it arrived by `until`.
    pub(crate) fn next(&mut self, until: Nanos) -> Option<Captured> {
        loop {
            let (nr, ts) = self
                .sides
                .iter()
                .enumerate()
                .map(|(nr, side)| (nr, side.next_ts))
                .min_by_key(|&(_, ts)| ts)?;
            if ts > until || ts == Nanos::MAX {
                return None;
            }
            let tail = self.sides[nr].tail;
            let desc = self.desc(nr, tail);
            let tail = tail.wrapping_add(1);
            let more = tail != self.sides[nr].head;
            let next_ts = if more {
                self.desc(nr, tail).ts_ns
            } else {
                Nanos::MAX
            };
            let side = &mut self.sides[nr];
            side.tail = tail;
            side.next_ts = next_ts;
            side.owed += 1;
            let fits = usize::from(desc.len) <= FRAME_MAX + TAG;
            let port = desc.ifindex.wrapping_sub(FIRST_PORT);
            if desc.slot >= self.sizes.slots || port >= self.sizes.ports || !fits {
                self.malformed += 1;
                continue;
            }
            let frame = SlotRef {
                slot: desc.slot,
                len: desc.len,
                flags: desc.flags,
                csum_start: desc.csum_start,
                csum_offset: desc.csum_offset,
            };
            return Some(Captured {
                ts_ns: desc.ts_ns,
                port,
                frame,
            });
        }
    }

    /// When the oldest frame seen by the last `look` arrived.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        let oldest = self.sides.iter().map(|side| side.next_ts).min();
        oldest.filter(|&ts| ts != Nanos::MAX)
    }

    /// Whether the last `look` left frames behind.
    pub(crate) fn has_frames(&self) -> bool {
        self.sides.iter().any(|side| side.tail != side.head)
    }

    /// Give the descriptors read so far back, and replace the slots that came with them.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        for nr in 0..self.sides.len() {
            let tail = self.sides[nr].tail;
            let shared = &self.cpu(nr).desc_tail;
            if shared.load(Ordering::Relaxed) != tail {
                shared.store(tail, Ordering::Release);
            }
        }
        self.refill(pool, REFILL_LOT);
        pool.publish_share();
    }

    /// Frames seen by the last `look` and not taken yet.
    pub(crate) fn waiting(&self) -> u32 {
        let waiting = |side: &Side| side.head.wrapping_sub(side.tail);
        self.sides.iter().map(waiting).sum()
    }

    /// Top up every free ring that is short of `lot` slots or more.
    fn refill(&mut self, pool: &mut Pool, lot: u32) {
        for nr in 0..self.sides.len() {
            if self.sides[nr].owed < lot.max(1) || pool.free() == 0 {
                continue;
            }
            let mut head = self.sides[nr].free_head;
            let mut owed = self.sides[nr].owed;
            while owed > 0
                && let Some(slot) = pool.take()
            {
                let at = nr * self.sizes.ring as usize + (head & (self.sizes.ring - 1)) as usize;
                // SAFETY: an array of u64; the program does not read it before `free_head` moves.
                let place: &AtomicU64 = unsafe { self.loaded.free.shared(at * 8) };
                place.store(u64::from(slot), Ordering::Relaxed);
                head = head.wrapping_add(1);
                owed -= 1;
            }
            self.sides[nr].free_head = head;
            self.sides[nr].owed = owed;
            self.cpu(nr).free_head.store(head, Ordering::Release);
        }
    }

    /// Say that the thread is about to sleep. True when a frame came in meanwhile; if false, the
    /// next frame wakes the ring buffer.
    pub(crate) fn fall_asleep(&mut self) -> bool {
        self.asleep().store(1, Ordering::Relaxed);
        // The flag must be out before the heads are looked at; the program does it the other way
        // round.
        fence(Ordering::SeqCst);
        self.look();
        self.has_frames()
    }

    /// Awake again: no wake-ups needed.
    pub(crate) fn wake_up(&self) {
        self.asleep().store(0, Ordering::Relaxed);
        // Throw away what the wake-ups wrote.
        // SAFETY: both pages of a BPF ring buffer start with a position.
        let (consumer, producer): (&AtomicU64, &AtomicU64) = unsafe {
            (
                self.loaded.wake_consumer.shared(0),
                self.loaded.wake_producer.shared(0),
            )
        };
        let produced = producer.load(Ordering::Acquire);
        if consumer.load(Ordering::Relaxed) != produced {
            consumer.store(produced, Ordering::Release);
        }
    }

    fn asleep(&self) -> &AtomicU64 {
        // SAFETY: a single u64 in a page-aligned mapping.
        unsafe { self.loaded.asleep.shared(0) }
    }

    /// Slots waiting in the free rings.
    pub(crate) fn handed_out(&self) -> usize {
        (0..self.sides.len())
            .map(|nr| {
                let taken = self.cpu(nr).free_tail.load(Ordering::Relaxed);
                self.sides[nr].free_head.wrapping_sub(taken) as usize
            })
            .sum()
    }

    /// Sums over all CPUs.
    pub(crate) fn sums(&self) -> CpuSums {
        let mut sums = CpuSums::default();
        for nr in 0..self.sides.len() {
            let cpu = self.cpu(nr);
            let get = |v: &AtomicU64| v.load(Ordering::Relaxed);
            sums.captured += get(&cpu.captured);
            sums.dropped_pool += get(&cpu.dropped_pool);
            sums.dropped_share += get(&cpu.dropped_share);
            sums.dropped_ring += get(&cpu.dropped_ring);
            sums.dropped_gso += get(&cpu.dropped_gso);
            sums.dropped_size += get(&cpu.dropped_size);
            sums.dropped_error += get(&cpu.dropped_error);
            sums.trunk += get(&cpu.trunk);
            sums.delivered += get(&cpu.delivered);
            sums.foreign += get(&cpu.foreign);
            sums.rehearsed += get(&cpu.rehearsed);
            sums.before_start += get(&cpu.before_start);
        }
        sums
    }
}

const _: () = assert!(SLOT_BYTES > FRAME_MAX + TAG);
const _: () = assert!(size_of::<AtomicU32>() == 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_completed_as_by_hand() {
        // RFC 1071, section 3: 0001 f203 f4f5 f6f7 sum to ddf2; the field counts with what it
        // holds, here 0. Two bytes in front are not covered.
        let mut bytes = [9, 9, 0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7, 0, 0];
        complete_checksum(&mut bytes, 2, 8);
        assert_eq!(bytes[10..], [0x22, 0x0d]);
        // An odd byte at the end counts as the high one.
        let mut bytes = [0x12, 0x34, 0, 0, 0x56];
        complete_checksum(&mut bytes, 0, 2);
        assert_eq!(u16::from_be_bytes([bytes[2], bytes[3]]), !(0x1234 + 0x5600));
        let mut all = [0xff, 0xff, 0, 0];
        complete_checksum(&mut all, 0, 2);
        assert_eq!(all[2..], [0xff, 0xff], "never 0");
        let mut short = [1, 2, 3];
        complete_checksum(&mut short, 2, 6);
        assert_eq!(short, [1, 2, 3], "out of the frame: left alone");
    }

    #[test]
    fn exactly_one_bit_is_flipped() {
        let mut bytes = [0; 3];
        flip(&mut bytes, 24 * 1000 + 9);
        assert_eq!(bytes, [0, 0x40, 0]);
        flip(&mut [], 3);
    }
}
