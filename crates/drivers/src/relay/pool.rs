//! Frame buffers: slots, their owners, and operations on the frames in them.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use constel_link::packet::{self, Traits};
use constel_link::{DropCause, Frames};

use super::gro::{HEADERS_MAX, Segment};
use super::gso::TCP_CHECK;
use super::gso_in::GsoStore;
use super::homes::Homes;
use super::layout::{
    ADDRESSES, FLAG_CSUM, FLAG_NEW, FLAG_VLAN, FRAME_MAX, SLOT_BYTES, SlotRef, TAG, WARM_UP_SLOT,
};
use super::object::{Loaded, Sizes};
use super::taps::Taps;
use super::wire::Wires;

/// The free slots, and the frames in the others.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(super) loaded: Arc<Loaded>,
    pub(super) wires: Arc<Wires>,
    free: Vec<u32>,
    /// Range of this thread's own slots, and the rings on which others' slots are returned.
    pub(super) homes: Homes,
    /// Port that a slot in use is charged to, by its number among those that are interfaces.
    owners: Vec<u32>,
    pub(super) gso: GsoStore,
    pub(super) taps: Taps,
    /// Number of slots that a port may hold in any case.
    share_min: u64,
    /// Slots reserved for the free rings: a flood takes them before the program reads the smaller share.
    reserve: usize,
}

/// Bounds of the number of slots that every port may hold, however scarce they are. Within the bounds it is as many as
/// all ports can have at once.
const SHARE_MIN: RangeInclusive<u64> = 8..=64;

impl Pool {
    /// Creates a pool of a thread's own slots; `per_cpu` of them are about to go into each CPU's free ring.
    pub(crate) fn new(
        loaded: &Arc<Loaded>,
        sizes: Sizes,
        per_cpu: u32,
        wires: &Arc<Wires>,
        homes: Homes,
    ) -> Pool {
        let fair = u64::from(sizes.slots / 2 / sizes.ports.max(1));
        Pool {
            loaded: loaded.clone(),
            wires: wires.clone(),
            free: homes
                .own()
                .rev()
                .filter(|&slot| slot != WARM_UP_SLOT)
                .collect(),
            homes,
            owners: vec![0; sizes.slots as usize],
            gso: GsoStore::default(),
            taps: Taps::default(),
            share_min: fair.clamp(*SHARE_MIN.start(), *SHARE_MIN.end()),
            reserve: (per_cpu * sizes.cpus / 4) as usize,
        }
    }

    /// Returns the number of slots, free or not.
    pub(super) fn slots(&self) -> usize {
        self.owners.len()
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    pub(crate) fn give(&mut self, slot: u32) {
        if slot == WARM_UP_SLOT || !self.homes.is_own_or_return(slot) {
            return;
        }
        self.free.push(slot);
        let owner = self.owners[slot as usize];
        self.back(owner, 1);
    }

    /// Takes back the slots that other threads have returned.
    pub(crate) fn collect_returned(&mut self) {
        while let Some(slot) = self.homes.returned() {
            self.give(slot);
        }
    }

    /// Takes over a slot with a frame of this port that another thread captured.
    pub(super) fn adopt(&mut self, slot: u32, port: u32) {
        self.owners[slot as usize] = port;
        self.homes.comes(slot);
    }

    /// Records that another thread has this slot from here on.
    pub(super) fn hand_out(&mut self, slot: u32) {
        self.homes.goes(slot);
    }

    /// Records that this slot came in with a frame of this port, which must exist; its descriptor was read.
    pub(crate) fn own(&mut self, slot: u32, port: u32) {
        self.owners[slot as usize] = port;
        self.add(&self.loaded.back(port).descs, 1);
    }

    /// Records that this slot holds a frame that the relay made of others of this port.
    pub(super) fn own_more(&mut self, slot: u32, port: u32) {
        self.owners[slot as usize] = port;
        self.back(port, -1);
    }

    pub(super) fn owner(&self, slot: u32) -> u32 {
        self.owners[slot as usize]
    }

    /// Counts slots of this port that came back.
    fn back(&self, port: u32, slots: i64) {
        self.add(&self.loaded.back(port).slots, slots);
    }

    /// Adds to a counter that only relay threads write.
    fn add(&self, to: &AtomicU64, more: i64) {
        // A plain load and store is cheaper than an atomic addition, and sufficient with one writer.
        if self.homes.is_alone() {
            let now = to.load(Ordering::Relaxed).wrapping_add_signed(more);
            to.store(now, Ordering::Relaxed);
        } else {
            to.fetch_add(more.cast_unsigned(), Ordering::Relaxed);
        }
    }

    /// Returns the number of slots that the port holds, in the rings and in the table.
    fn held_by(&self, port: u32) -> u64 {
        let taken = self.loaded.port(port).taken.load(Ordering::Relaxed);
        // Other threads change both counters between the two loads, so the difference may be below zero for a moment.
        taken.saturating_sub(self.loaded.back(port).slots.load(Ordering::Relaxed))
    }

    /// Reverses a part of the capture program's charge to this port for a frame that needed fewer slots.
    pub(super) fn uncharge(&self, port: u32, slots: u32) {
        self.add(&self.loaded.back(port).descs, i64::from(slots));
        self.back(port, i64::from(slots));
    }

    /// Makes the capture program charge super-frames of this port by the frame from here on.
    pub(super) fn cuts_up(&self, port: u32) {
        self.loaded.back(port).cut_up.store(1, Ordering::Relaxed);
    }

    /// Returns the number of slots that a port may hold. It is proportional to the number of free slots without the
    /// reserve, so that a single port can have most slots, and any number of flooding ports leave some.
    fn share(&self) -> u64 {
        self.share_of(self.free.len())
    }

    fn share_of(&self, free: usize) -> u64 {
        let free = free.saturating_sub(self.reserve);
        // In balance n flooding ports hold 4 times the free slots each, so that one slot of 4 n + 1 stays free.
        (4 * free as u64).max(self.share_min)
    }

    /// Returns whether the port may take `slots` more at once. Its share is computed from the slots that remain
    /// free.
    pub(super) fn may_take(&self, port: u32, slots: usize) -> bool {
        let left = self.free.len().checked_sub(slots);
        left.is_some_and(|left| self.held_by(port) + slots as u64 <= self.share_of(left))
    }

    /// Counts frames of this port that were dropped because it held its share.
    pub(super) fn count_over_share(&self, port: u32, frames: u64) {
        let counts = self.loaded.port(port);
        counts.dropped_share.fetch_add(frames, Ordering::Relaxed);
    }

    /// Writes the share for the capture program.
    pub(super) fn publish_share(&self) {
        let told = self.loaded.told(self.homes.thread());
        told.share.store(self.share(), Ordering::Relaxed);
    }

    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns a frame without its two addresses: the VLAN tag set by the node, if any, EtherType, payload.
    fn behind_addresses(&mut self, frame: SlotRef) -> &mut [u8] {
        let len = usize::from(frame.len) - ADDRESSES;
        let at = frame.base() + frame.start() + ADDRESSES + TAG;
        let first = self.loaded.slots.ptr(at, len).cast::<u8>();
        // SAFETY: in bounds; the slot is ours since its descriptor was read, and no other reference into it exists
        // while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(first, len) }
    }

    /// Returns a frame in two parts: its two addresses, and the bytes behind them.
    pub(super) fn whole(&mut self, frame: SlotRef) -> (&mut [u8; ADDRESSES], &mut [u8]) {
        let at = frame.base() + frame.start();
        let addresses = self.loaded.slots.ptr(at, ADDRESSES);
        let len = usize::from(frame.len) - ADDRESSES;
        let rest = self.loaded.slots.ptr(at + ADDRESSES + TAG, len);
        // SAFETY: in bounds and apart from each other; the slot is ours since its descriptor was read, and no other
        // reference into it exists while `self` is borrowed.
        unsafe {
            (
                &mut *addresses.cast::<[u8; ADDRESSES]>(),
                std::slice::from_raw_parts_mut(rest, len),
            )
        }
    }

    /// Returns the headers of a frame that may be joined with others.
    pub(super) fn segment(&self, frame: SlotRef) -> Option<Segment> {
        // Only plain frames whose TCP checksum is still partial, as the kernel expects it in a super-frame.
        if frame.flags & !FLAG_NEW != FLAG_CSUM || frame.csum_offset != TCP_CHECK {
            return None;
        }
        let mut start = [0; HEADERS_MAX];
        let len = usize::from(frame.len);
        let rest = len.min(HEADERS_MAX) - ADDRESSES;
        let first = self
            .loaded
            .slots
            .ptr(frame.base() + frame.start(), ADDRESSES + TAG + rest);
        // SAFETY: in bounds, and the slot is ours since its descriptor was read; `start` is long enough.
        unsafe {
            let to = start.as_mut_ptr();
            to.copy_from_nonoverlapping(first, ADDRESSES);
            let behind = first.add(ADDRESSES + TAG);
            to.add(ADDRESSES).copy_from_nonoverlapping(behind, rest);
        }
        Segment::read(&start, len, usize::from(frame.csum_start))
    }

    /// Returns the address of the last `len` bytes of a frame.
    pub(super) fn last_bytes(&self, frame: SlotRef, len: usize) -> (*mut u8, usize) {
        let end = frame.base() + frame.start() + TAG + usize::from(frame.len);
        (self.loaded.slots.ptr(end - len, len), len)
    }

    /// Returns the first bytes of a frame, its destination address.
    pub(crate) fn destination(&self, frame: SlotRef) -> [u8; 6] {
        self.addresses(frame)[0]
    }

    /// Returns the source address in a frame.
    pub(crate) fn source(&self, frame: SlotRef) -> [u8; 6] {
        self.addresses(frame)[1]
    }

    /// Returns the two addresses at the start of a frame.
    #[inline]
    fn addresses(&self, frame: SlotRef) -> [[u8; 6]; 2] {
        let at = match self.gso(frame) {
            Some(gso) => self.piece(gso, 0).0,
            None => self.loaded.slots.ptr(frame.base() + frame.start(), 12),
        };
        let at = at.cast::<[[u8; 6]; 2]>();
        // SAFETY: in bounds, for a frame has an Ethernet header; the slot is ours since its descriptor was read.
        unsafe { at.read() }
    }
}

impl Frames<SlotRef> for Pool {
    fn duplicate(&mut self, frame: &SlotRef) -> Option<SlotRef> {
        // GSO frames take no edge that makes copies.
        if frame.is_gso() {
            return None;
        }
        let owner = self.owners[frame.slot as usize];
        // A flooding port must not multiply its slots by multicast frames.
        if self.held_by(owner) >= self.share() {
            return None;
        }
        let slot = self.take()?;
        self.own_more(slot, owner);
        let copy = SlotRef { slot, ..*frame };
        let len = usize::from(frame.len) + TAG;
        let from = self.loaded.slots.ptr(frame.base() + frame.start(), len);
        let to = self.loaded.slots.ptr(copy.base() + copy.start(), len);
        // SAFETY: both in bounds and in different slots, both of which are ours.
        unsafe { to.copy_from_nonoverlapping(from, len) };
        self.same_way(slot, frame.slot);
        Some(copy)
    }

    fn discard(&mut self, frame: SlotRef, cause: DropCause) {
        self.dropped(frame, cause);
        self.give_frame(frame);
    }

    fn flip_bit(&mut self, frame: &mut SlotRef, draw: u64) {
        // GSO frames take no edge with corruption either.
        if frame.is_gso() {
            return;
        }
        let bytes = self.behind_addresses(*frame);
        // The receiver would compute a correct checksum over the damaged bytes, so the checksum is completed before the
        // bit is flipped.
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
        // GSO frames take no edge with a queue discipline either.
        if frame.is_gso() {
            return Traits::default();
        }
        packet::traits(self.behind_addresses(*frame))
    }

    fn mark_ce(&mut self, frame: &mut SlotRef) {
        if frame.is_gso() {
            return;
        }
        packet::mark_ce(self.behind_addresses(*frame));
    }

    fn is_new(&self, frame: &SlotRef) -> bool {
        frame.is_new()
    }
}

/// Completes a partial checksum as the kernel does: the field holds the pseudo-header's sum.
pub(super) fn complete_checksum(bytes: &mut [u8], start: usize, offset: usize) {
    let field = start + offset;
    if start > bytes.len() || field + 2 > bytes.len() {
        return;
    }
    // UDP reads 0 as "no checksum". In one's complement 0xffff represents the same number.
    let check = match !packet::fold(packet::words_sum(&bytes[start..])) {
        0 => 0xffff,
        check => check,
    };
    bytes[field..field + 2].copy_from_slice(&check.to_be_bytes());
}

/// Flips bit `draw` modulo the number of bits.
fn flip(bytes: &mut [u8], draw: u64) {
    if let Some(bits) = std::num::NonZeroU64::new(bytes.len() as u64 * 8) {
        let bit = draw % bits;
        bytes[(bit / 8) as usize] ^= 0x80 >> (bit % 8);
    }
}

const _: () = assert!(SLOT_BYTES > FRAME_MAX + TAG);

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
