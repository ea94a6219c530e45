//! Taps of frames in the relay's thread. Without a tap they cost one comparison per frame.

use constel_link::{DropCause, Nanos, PortId};

use super::layout::{ADDRESSES, FLAG_CSUM, SlotRef, TAG};
use super::pool::{Pool, complete_checksum};
use crate::clock::mono_ns;
use crate::tap::{Tap, TapFilter, TapPoint, Tapped};

/// The port whose edge a frame entered, and when, for the frame's slot.
#[derive(Clone, Copy, Debug)]
struct Entered {
    from: PortId,
    at_ns: Nanos,
}

/// The present taps.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    taps: Vec<Tap>,
    /// Whether entry times are recorded even without a tap.
    kept: bool,
    /// By slot; for a GSO frame by its first slot.
    entered: Vec<Option<Entered>>,
}

impl Taps {
    /// Returns whether entry times are recorded.
    fn watched(&self) -> bool {
        self.kept || !self.taps.is_empty()
    }
}

impl Pool {
    /// Adds a tap.
    pub(crate) fn add_tap(&mut self, tap: Tap) {
        if !self.taps.watched() {
            // Entries left by earlier taps do not belong to the frames that are in the slots now.
            self.taps.entered.clear();
            self.taps.entered.resize(self.slots(), None);
        }
        self.taps.taps.push(tap);
    }

    /// Records the entry time of each frame from here on.
    pub(crate) fn keep_times(&mut self) {
        self.taps.entered.resize(self.slots(), None);
        self.taps.kept = true;
    }

    /// Adds ports to a tap.
    pub(crate) fn tap_also(&mut self, number: u64, more: TapFilter) {
        let mut taps = self.taps.taps.iter_mut();
        if let Some(tap) = taps.find(|tap| tap.number() == number) {
            tap.want_also(more);
        }
    }

    /// Called when a frame enters the edges of a port.
    #[inline]
    pub(crate) fn enters(&mut self, at_ns: Nanos, from: PortId, frame: SlotRef) {
        if !self.taps.watched() {
            return;
        }
        if let Some(slot) = self.first_slot(frame) {
            self.taps.entered[slot as usize] = Some(Entered { from, at_ns });
        }
        self.show((at_ns, None), from, TapPoint::Enters, frame);
    }

    /// Does the same as [`Pool::enters`] for a frame that was reported on another thread.
    pub(super) fn came(&mut self, at_ns: Nanos, from: PortId, frame: SlotRef) {
        if self.taps.watched()
            && let Some(slot) = self.first_slot(frame)
        {
            self.taps.entered[slot as usize] = Some(Entered { from, at_ns });
        }
    }

    /// Called when a frame has passed an edge. Returns when it entered, if that is known.
    #[inline]
    pub(crate) fn leaves(&mut self, from: PortId, to: PortId, frame: SlotRef) -> Option<Nanos> {
        if !self.taps.watched() {
            return None;
        }
        let entered = self.entered(frame).map(|entered| entered.at_ns);
        if !self.taps.taps.is_empty() {
            self.show((mono_ns(), entered), from, TapPoint::Leaves(to), frame);
        }
        entered
    }

    /// Called when a frame is dropped.
    #[inline]
    pub(super) fn dropped(&mut self, frame: SlotRef, cause: DropCause) {
        if self.taps.taps.is_empty() {
            return;
        }
        let entered = self.entered(frame);
        let owner = self
            .first_slot(frame)
            .and_then(|slot| self.wires.of_account(self.owner(slot)));
        // Without a record of the entry, the port that the slot is charged to is the sender.
        if let Some(from) = entered.map(|entered| entered.from).or(owner) {
            let times = (mono_ns(), entered.map(|entered| entered.at_ns));
            self.show(times, from, TapPoint::Dropped(cause), frame);
        }
    }

    /// Records for a copy the entry of its original.
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
        sight: TapPoint,
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

    /// Returns the bytes of a frame as a receiver would get them.
    pub(super) fn copy_of(&mut self, frame: SlotRef) -> Vec<u8> {
        if let Some(gso) = self.gso(frame) {
            let mut bytes = Vec::with_capacity(gso.len as usize + TAG);
            for n in 0..gso.slots.len() {
                let (first, len) = self.piece(gso, n);
                // SAFETY: in bounds; the slot is ours since its descriptor was read, and is not written during the
                // copy.
                bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(first, len) });
            }
            // The kernel keeps the node's VLAN tag beside the bytes; a receiver gets it inside them.
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
        // Receivers get complete checksums; in the slot the kernel's partial one is still pending.
        if frame.flags & FLAG_CSUM != 0 {
            let start = usize::from(frame.csum_start);
            complete_checksum(&mut bytes, start, usize::from(frame.csum_offset));
        }
        bytes
    }
}
