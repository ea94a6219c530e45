//! GSO frames in slots: stored as they are, or cut up into frames.

use super::gso::{self, GsoFrame, Headers, TCP_CHECK, UDP_CHECK};
use super::layout::{
    ADDRESSES, Desc, FLAG_BY_FRAMES, FLAG_CSUM, FLAG_NEW, FLAG_VLAN, FRAME_MAX, PIECE, PIECE_AT,
    PIECES_MAX, SLOT_SHIFT, SlotRef, TAG,
};
use super::pool::Pool;

/// The stored GSO frames, by number.
#[derive(Debug, Default)]
pub(super) struct GsoStore {
    held: Vec<Option<GsoFrame>>,
    free: Vec<u32>,
    /// A GSO frame in one piece, while it is cut up.
    scratch: Vec<u8>,
}

/// Frames of a GSO frame that were lost when it was cut up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// No slot was free, or the headers were not valid.
    pub(crate) no_slot: u64,
    /// The port would have held more than its share.
    pub(crate) over_share: u64,
}

/// Returns the GSO frame of this descriptor, in these slots; `None` when the descriptor is not valid.
pub(super) fn gso_of(desc: &Desc, slots: Vec<u32>, slots_max: u32) -> Option<GsoFrame> {
    let room = slots.len() * PIECE;
    let len = desc.gso_len as usize;
    // All pieces except the last are full.
    let fits = (1..=PIECES_MAX).contains(&slots.len()) && len <= room && len > room - PIECE;
    let known = slots.iter().all(|&slot| slot < slots_max);
    (fits && known).then_some(GsoFrame {
        slots,
        len: desc.gso_len,
        segment: desc.segment,
        udp: desc.csum_offset == UDP_CHECK,
        csum_start: desc.csum_start,
        vlan_tci: (desc.flags & FLAG_VLAN != 0).then_some(desc.vlan_tci),
    })
}

impl Pool {
    /// Frees the slots of a frame or of a GSO frame.
    pub(crate) fn give_frame(&mut self, frame: SlotRef) {
        if !frame.is_gso() {
            self.give(frame.slot);
        } else if let Some(gso) = self.gso.held[frame.slot as usize].take() {
            self.gso.free.push(frame.slot);
            gso.slots.iter().for_each(|&slot| self.give(slot));
        }
    }

    /// Stores a GSO frame that came in at this port, with its flags.
    pub(super) fn add_gso(&mut self, gso: GsoFrame, port: u32, flags: u16) -> SlotRef {
        gso.slots.iter().for_each(|&slot| self.own(slot, port));
        if flags & FLAG_BY_FRAMES != 0 {
            // The program has charged a slot for each frame that it may be cut up into, but has used one for each
            // piece.
            let slots = gso.slots.len() as u32;
            self.uncharge(port, gso.frames_max().saturating_sub(slots));
        }
        self.keep_gso(gso, flags)
    }

    /// Stores a GSO frame of this port that another thread has captured.
    pub(super) fn adopt_gso(&mut self, gso: GsoFrame, port: u32, flags: u16) -> SlotRef {
        gso.slots.iter().for_each(|&slot| self.adopt(slot, port));
        self.keep_gso(gso, flags)
    }

    /// Takes a GSO frame out for another thread.
    pub(super) fn hand_out_gso(&mut self, frame: SlotRef) -> Option<GsoFrame> {
        let gso = self.gso.held.get_mut(frame.slot as usize)?.take()?;
        self.gso.free.push(frame.slot);
        Some(gso)
    }

    fn keep_gso(&mut self, gso: GsoFrame, flags: u16) -> SlotRef {
        let number = self.gso.free.pop().unwrap_or_else(|| {
            self.gso.held.push(None);
            self.gso.held.len() as u32 - 1
        });
        self.gso.held[number as usize] = Some(gso);
        SlotRef::gso(number, flags)
    }

    /// Returns the GSO frame of a reference, if it refers to one.
    pub(crate) fn gso(&self, frame: SlotRef) -> Option<&GsoFrame> {
        let held = frame.is_gso().then_some(&self.gso.held)?;
        held.get(frame.slot as usize)?.as_ref()
    }

    /// Returns the address and length of one piece of a GSO frame.
    pub(super) fn piece(&self, gso: &GsoFrame, n: usize) -> (*mut u8, usize) {
        let len = (gso.len as usize).saturating_sub(n * PIECE).min(PIECE);
        let at = ((gso.slots[n] as usize) << SLOT_SHIFT) + PIECE_AT;
        (self.loaded.slots.ptr(at, len), len)
    }

    /// Returns the headers of a GSO frame, all of which are in its first piece; `None` when they are not valid.
    pub(super) fn gso_headers(&self, gso: &GsoFrame) -> Option<Headers> {
        let (at, len) = self.piece(gso, 0);
        // SAFETY: in bounds; the slot is ours since its descriptor was read.
        let start = unsafe { std::slice::from_raw_parts(at, len) };
        gso::headers(start, usize::from(gso.csum_start), gso.udp)
    }

    /// Cuts a GSO frame up into frames, each in a slot of its own, in order, and frees it. It is cut up completely, or
    /// not at all if its port may not have enough slots.
    pub(crate) fn cut_up(&mut self, frame: SlotRef, frames: &mut Vec<SlotRef>) -> Lost {
        frames.clear();
        let Some(gso) = self.gso(frame).cloned() else {
            return Lost::default();
        };
        let port = self.owner(gso.slots[0]);
        // From here on the program charges this port by the frame.
        self.cuts_up(port);
        let segment = usize::from(gso.segment).max(1);
        let headers = self.gso_headers(&gso);
        let headers = headers.filter(|h| h.fit(segment));
        let mut lost = Lost::default();
        let Some(headers) = headers else {
            self.give_frame(frame);
            lost.no_slot = 1;
            return lost;
        };
        // Before any byte is copied: a refused frame must cost next to nothing.
        let count = gso::frames(gso.len as usize, headers.len, segment);
        if !self.may_take(port, count.saturating_sub(gso.slots.len())) {
            self.give_frame(frame);
            lost.over_share = count as u64;
            self.count_over_share(port, lost.over_share);
            return lost;
        }
        let mut bytes = std::mem::take(&mut self.gso.scratch);
        bytes.clear();
        for n in 0..gso.slots.len() {
            let (at, len) = self.piece(&gso, n);
            // SAFETY: in bounds; the slot is ours since its descriptor was read.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(at, len) });
        }
        self.give_frame(frame);
        let owner = (port, frame.flags & FLAG_NEW);
        lost.no_slot = self.cut_bytes(&bytes, &gso, headers, owner, frames);
        self.gso.scratch = bytes;
        lost
    }

    /// Copies the frames into slots. Returns the number of frames for which no slot was free.
    fn cut_bytes(
        &mut self,
        bytes: &[u8],
        gso: &GsoFrame,
        headers: Headers,
        (port, new): (u32, u16),
        frames: &mut Vec<SlotRef>,
    ) -> u64 {
        let at_l4 = usize::from(gso.csum_start);
        let segment = usize::from(gso.segment).max(1);
        let (flags, own) = match gso.vlan_tci {
            Some(_) => (FLAG_CSUM | FLAG_VLAN | new, TAG),
            None => (FLAG_CSUM | new, 0),
        };
        let mut lost = 0;
        let mut out = [0; FRAME_MAX];
        for n in 0..gso::frames(bytes.len(), headers.len, segment) {
            let Some(slot) = self.take() else {
                lost += 1;
                continue;
            };
            self.own_more(slot, port);
            let len = gso::cut(bytes, headers, at_l4, segment, n, &mut out);
            let frame = SlotRef {
                slot,
                len: (len + own) as u16,
                flags,
                csum_start: gso.csum_start + own as u16,
                csum_offset: if gso.udp { UDP_CHECK } else { TCP_CHECK },
            };
            let start = frame.base() + frame.start();
            let addresses = self.loaded.slots.ptr(start, ADDRESSES);
            // Behind the addresses there is room for the relay's tag; then the node's own tag follows, and the rest.
            let mut at = start + ADDRESSES + TAG;
            if let Some(tci) = gso.vlan_tci {
                let [high, low] = tci.to_be_bytes();
                let tag = self.loaded.slots.ptr(at, TAG);
                // SAFETY: in bounds of a slot that is ours.
                unsafe { tag.copy_from_nonoverlapping([0x81, 0x00, high, low].as_ptr(), TAG) };
                at += TAG;
            }
            let rest = self.loaded.slots.ptr(at, len - ADDRESSES);
            // SAFETY: both in bounds of a slot that is ours.
            unsafe {
                addresses.copy_from_nonoverlapping(out.as_ptr(), ADDRESSES);
                rest.copy_from_nonoverlapping(out[ADDRESSES..].as_ptr(), len - ADDRESSES);
            }
            frames.push(frame);
        }
        lost
    }
}
