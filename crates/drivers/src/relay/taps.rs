//! Looks at frames in the relay's thread. As long as nobody looks they cost one comparison a frame.

use constel_link::{DropCause, Nanos, PortId};

use super::layout::{ADDRESSES, FLAG_CSUM, SlotRef, TAG};
use super::pool::{Pool, complete_checksum};
use crate::clock::mono_ns;
use crate::tap::{Sight, Tap, Tapped, Wanted};

/// The edge's port that the frame of a slot came to, and when.
#[derive(Clone, Copy, Debug)]
struct Entered {
    from: PortId,
    at_ns: Nanos,
}

/// Whoever looks at present.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    taps: Vec<Tap>,
    /// When frames came is kept although nobody looks.
    kept: bool,
    /// By slot; of GSO frames by their first.
    entered: Vec<Option<Entered>>,
}

impl Taps {
    /// Whether it is known when frames came.
    fn watched(&self) -> bool {
        self.kept || !self.taps.is_empty()
    }
}

impl Pool {
    /// Somebody looks from here on.
    pub(crate) fn add_tap(&mut self, tap: Tap) {
        if !self.taps.watched() {
            // What is left of earlier looks is not of the frames that are in the slots now.
            self.taps.entered.clear();
            self.taps.entered.resize(self.slots(), None);
        }
        self.taps.taps.push(tap);
    }

    /// From here on it is known of each frame when it came.
    pub(crate) fn keep_times(&mut self) {
        self.taps.entered.resize(self.slots(), None);
        self.taps.kept = true;
    }

    /// Somebody looks at more ports from here on.
    pub(crate) fn tap_also(&mut self, number: u64, more: Wanted) {
        let mut taps = self.taps.taps.iter_mut();
        if let Some(tap) = taps.find(|tap| tap.number() == number) {
            tap.want_also(more);
        }
    }

    /// A frame comes to the edges of a port.
    #[inline]
    pub(crate) fn enters(&mut self, at_ns: Nanos, from: PortId, frame: SlotRef) {
        if !self.taps.watched() {
            return;
        }
        if let Some(slot) = self.first_slot(frame) {
            self.taps.entered[slot as usize] = Some(Entered { from, at_ns });
        }
        self.show((at_ns, None), from, Sight::Enters, frame);
    }

    /// As [`Pool::enters`], of a frame that was shown elsewhere.
    pub(super) fn came(&mut self, at_ns: Nanos, from: PortId, frame: SlotRef) {
        if self.taps.watched()
            && let Some(slot) = self.first_slot(frame)
        {
            self.taps.entered[slot as usize] = Some(Entered { from, at_ns });
        }
    }

    /// A frame has come through an edge. When it came to it, where that is known.
    #[inline]
    pub(crate) fn leaves(&mut self, from: PortId, to: PortId, frame: SlotRef) -> Option<Nanos> {
        if !self.taps.watched() {
            return None;
        }
        let entered = self.entered(frame).map(|entered| entered.at_ns);
        if !self.taps.taps.is_empty() {
            self.show((mono_ns(), entered), from, Sight::Leaves(to), frame);
        }
        entered
    }

    /// A frame goes no further.
    #[inline]
    pub(super) fn dropped(&mut self, frame: SlotRef, cause: DropCause) {
        if self.taps.taps.is_empty() {
            return;
        }
        let entered = self.entered(frame);
        let owner = self
            .first_slot(frame)
            .and_then(|slot| self.wires.of_account(self.owner(slot)));
        if let Some(from) = entered.map(|entered| entered.from).or(owner) {
            let times = (mono_ns(), entered.map(|entered| entered.at_ns));
            self.show(times, from, Sight::Dropped(cause), frame);
        }
    }

    /// A copy is where the frame is that it is of.
    pub(super) fn same_way(&mut self, copy: u32, of: u32) {
        if self.taps.watched() {
            self.taps.entered[copy as usize] = self.taps.entered[of as usize];
        }
    }

    fn first_slot(&self, frame: SlotRef) -> Option<u32> {
        if frame.is_gso() {
            self.gso(frame)?.slots.first().copied()
        } else {
            Some(frame.slot)
        }
    }

    fn entered(&self, frame: SlotRef) -> Option<Entered> {
        self.taps.entered[self.first_slot(frame)? as usize]
    }

    fn show(
        &mut self,
        (at_ns, entered_ns): (Nanos, Option<Nanos>),
        from: PortId,
        sight: Sight,
        frame: SlotRef,
    ) {
        if !self.taps.taps.iter().any(|tap| tap.wants(from, sight)) {
            return;
        }
        let seen = Tapped {
            at_ns,
            entered_ns,
            from,
            sight,
            passage: frame.passage(),
            bytes: self.copy_of(frame),
        };
        let shown = |tap: &mut Tap| !tap.wants(from, sight) || tap.show(seen.clone());
        self.taps.taps.retain_mut(shown);
    }

    /// The frame as a receiver would get it.
    pub(super) fn copy_of(&mut self, frame: SlotRef) -> Vec<u8> {
        if let Some(gso) = self.gso(frame) {
            let mut bytes = Vec::with_capacity(gso.len as usize + TAG);
            for n in 0..gso.slots.len() {
                let (first, len) = self.piece(gso, n);
                // SAFETY: in bounds; the slot is ours since its descriptor was read, and nobody writes to it meanwhile.
                bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(first, len) });
            }
            if let (Some(tci), true) = (gso.vlan_tci, bytes.len() >= ADDRESSES) {
                let [high, low] = tci.to_be_bytes();
                bytes.splice(ADDRESSES..ADDRESSES, [0x81, 0x00, high, low]);
            }
            return bytes;
        }
        let (addresses, rest) = self.whole(frame);
        let mut bytes = Vec::with_capacity(ADDRESSES + rest.len());
        bytes.extend_from_slice(addresses);
        bytes.extend_from_slice(rest);
        if frame.flags & FLAG_CSUM != 0 {
            let start = usize::from(frame.csum_start);
            complete_checksum(&mut bytes, start, usize::from(frame.csum_offset));
        }
        bytes
    }
}
