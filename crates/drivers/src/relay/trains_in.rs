//! Trains in slots: kept whole, or cut up into frames.

use super::layout::{
    ADDRESSES, Desc, FLAG_CSUM, FLAG_VLAN, FRAME_MAX, PIECE, PIECE_AT, PIECES_MAX, SLOT_SHIFT,
    SlotRef, TAG,
};
use super::pool::Pool;
use super::trains::{self, Headers, TCP_CHECK, Train};

/// The trains that are inside, by number.
#[derive(Debug, Default)]
pub(super) struct TrainStore {
    held: Vec<Option<Train>>,
    free: Vec<u32>,
    /// A train in one piece, while it is cut up.
    scratch: Vec<u8>,
}

/// The train of this descriptor, in these slots. `None` when it makes no sense.
pub(super) fn train_of(desc: &Desc, slots: Vec<u32>, slots_max: u32) -> Option<Train> {
    let room = slots.len() * PIECE;
    let len = desc.train_len as usize;
    let fits = (1..=PIECES_MAX).contains(&slots.len()) && len <= room && len > room - PIECE;
    let known = slots.iter().all(|&slot| slot < slots_max);
    (fits && known).then_some(Train {
        slots,
        len: desc.train_len,
        segment: desc.segment,
        csum_start: desc.csum_start,
        vlan_tci: (desc.flags & FLAG_VLAN != 0).then_some(desc.vlan_tci),
    })
}

impl Pool {
    /// The slots of a frame or of a train are free again.
    pub(crate) fn give_frame(&mut self, frame: SlotRef) {
        if !frame.is_train() {
            self.give(frame.slot);
        } else if let Some(train) = self.trains.held[frame.slot as usize].take() {
            self.trains.free.push(frame.slot);
            train.slots.iter().for_each(|&slot| self.give(slot));
        }
    }

    /// Note a train that came in at this port.
    pub(super) fn add_train(&mut self, train: Train, port: u32) -> SlotRef {
        train.slots.iter().for_each(|&slot| self.own(slot, port));
        let number = self.trains.free.pop().unwrap_or_else(|| {
            self.trains.held.push(None);
            self.trains.held.len() as u32 - 1
        });
        self.trains.held[number as usize] = Some(train);
        SlotRef::train(number)
    }

    /// The train behind a reference, if it is one to a train.
    pub(crate) fn train(&self, frame: SlotRef) -> Option<&Train> {
        let held = frame.is_train().then_some(&self.trains.held)?;
        held.get(frame.slot as usize)?.as_ref()
    }

    /// One piece of a train: where it stands, and how long it is.
    pub(super) fn piece(&self, train: &Train, n: usize) -> (*mut u8, usize) {
        let len = (train.len as usize).saturating_sub(n * PIECE).min(PIECE);
        let at = ((train.slots[n] as usize) << SLOT_SHIFT) + PIECE_AT;
        (self.loaded.slots.ptr(at, len), len)
    }

    /// The headers of a train, all of which stand in its first piece. `None` when they are none.
    pub(super) fn train_headers(&self, train: &Train) -> Option<Headers> {
        let (at, len) = self.piece(train, 0);
        // SAFETY: in bounds; the slot is ours since its descriptor was read.
        let start = unsafe { std::slice::from_raw_parts(at, len) };
        trains::headers(start, usize::from(train.csum_start))
    }

    /// Cut a train up into frames, each in a slot of its own, in order, and free it. Gives the
    /// number of frames that got lost: there was no slot, or no sense in them.
    pub(crate) fn cut_up(&mut self, frame: SlotRef, frames: &mut Vec<SlotRef>) -> u64 {
        frames.clear();
        let Some(train) = self.train(frame).cloned() else {
            return 0;
        };
        let port = self.owner(train.slots[0]);
        let mut bytes = std::mem::take(&mut self.trains.scratch);
        bytes.clear();
        for n in 0..train.slots.len() {
            let (at, len) = self.piece(&train, n);
            // SAFETY: in bounds; the slot is ours since its descriptor was read.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(at, len) });
        }
        self.give_frame(frame);
        let lost = self.cut_bytes(&bytes, &train, port, frames);
        self.trains.scratch = bytes;
        lost
    }

    fn cut_bytes(
        &mut self,
        bytes: &[u8],
        train: &Train,
        port: u32,
        frames: &mut Vec<SlotRef>,
    ) -> u64 {
        let tcp_at = usize::from(train.csum_start);
        let segment = usize::from(train.segment).max(1);
        let headers = trains::headers(bytes, tcp_at).filter(|h| h.len + segment <= FRAME_MAX);
        let Some(headers) = headers else {
            return 1;
        };
        let (flags, own) = match train.vlan_tci {
            Some(_) => (FLAG_CSUM | FLAG_VLAN, TAG),
            None => (FLAG_CSUM, 0),
        };
        let mut lost = 0;
        let mut out = [0; FRAME_MAX];
        for n in 0..trains::frames(bytes.len(), headers.len, segment) {
            let Some(slot) = self.take() else {
                lost += 1;
                continue;
            };
            self.own_more(slot, port);
            let len = trains::cut(bytes, headers, tcp_at, segment, n, &mut out);
            let frame = SlotRef {
                slot,
                len: (len + own) as u16,
                flags,
                csum_start: train.csum_start + own as u16,
                csum_offset: TCP_CHECK,
            };
            let start = frame.base() + frame.start();
            let addresses = self.loaded.slots.ptr(start, ADDRESSES);
            // Behind them is room for the relay's tag; then the frame's own, and the rest.
            let mut at = start + ADDRESSES + TAG;
            if let Some(tci) = train.vlan_tci {
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
