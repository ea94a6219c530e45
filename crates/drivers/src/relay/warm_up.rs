//! Warming of the path from the relay through a node, shortly before a frame needs it.
//!
//! After a pause the kernel's code and data for sending and forwarding are no longer in the caches: a frame takes 20 to
//! 40 us longer than the frames directly after it. The thread spins before a frame is due anyway, so it sends a packet
//! of its own through a node of its own ([`super::warm_up_node`]), which warms the path.

use constel_link::Nanos;
use constel_link::packet::{fold, words_sum};

use super::layout::{ADDRESSES, SLOT_SHIFT, TAG, TYPE_AT, WARM_UP_SLOT};
use super::warm_up_node;
use super::xsk::Xsk;
use crate::bpf::Mapped;

/// Shorter pauses need no warm-up: frequent frames keep most of the path warm, and warm-up packets would take more than
/// a tenth of a processor.
const PAUSE_NS: Nanos = 500_000;
/// Duration of a warm-up packet on a cold path.
const LENGTH_NS: Nanos = 55_000;
/// If less time than this is left, a warm-up would delay the frame.
const LEFT_NS: Nanos = 30_000;

const FRAME_BYTES: usize = 64;

/// Returns an IPv4 packet for the warm-up node to forward, with the tag of warm-up packets.
fn frame() -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..6].copy_from_slice(&warm_up_node::MAC);
    frame[6] = 0x02;
    frame[12..18].copy_from_slice(&[0x88, 0xa8, 0, 0, 0x08, 0x00]);
    let ip = &mut frame[18..38];
    // Version and header length, total length 46 (the header and 26 zero bytes), TTL 64, protocol 253 (RFC 3692).
    ip[0] = 0x45;
    ip[3] = 46;
    ip[8] = 64;
    ip[9] = 253;
    ip[12..16].copy_from_slice(&warm_up_node::FROM.octets());
    ip[16..20].copy_from_slice(&warm_up_node::BEYOND.octets());
    let check = !fold(words_sum(ip));
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    frame
}

/// Record of when the path was last used.
#[derive(Debug, Default)]
pub(crate) struct WarmUp {
    last_ns: Nanos,
    count: u64,
}

impl WarmUp {
    /// Returns the time that a warm-up takes before a frame due at `due`; 0 if none is needed.
    pub(crate) fn time(&self, due: Nanos) -> Nanos {
        if due.saturating_sub(self.last_ns) > PAUSE_NS {
            LENGTH_NS
        } else {
            0
        }
    }

    /// Returns whether to send a warm-up packet before a frame due at `due`, if there is no other work until then.
    pub(crate) fn worth_it(&self, now: Nanos, due: Nanos) -> bool {
        self.time(due) > 0 && due.saturating_sub(now) > LEFT_NS
    }

    /// Records that frames were sent.
    pub(crate) fn sent(&mut self, now: Nanos) {
        self.last_ns = now;
    }

    /// Records that another thread sent frames on the same processor.
    pub(crate) fn sent_by(&mut self, other: &WarmUp) {
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    /// Records that a warm-up packet was sent.
    pub(crate) fn done(&mut self, now: Nanos) {
        self.last_ns = now;
        self.count += 1;
    }

    /// Returns the number of warm-up packets so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// Offset of the frame in its slot, as for all frames: AF_XDP needs room for its metadata before it.
const AT: usize = ((WARM_UP_SLOT as usize) << SLOT_SHIFT) + TYPE_AT - ADDRESSES - TAG;

/// Writes the warm-up packet once: sending copies it.
pub(crate) fn prepare(slots: &Mapped) {
    let frame = frame();
    let place = slots.ptr(AT, FRAME_BYTES);
    // SAFETY: in bounds; the slot is the warm-up packet's alone.
    unsafe { place.copy_from_nonoverlapping(frame.as_ptr(), FRAME_BYTES) };
}

/// Queues the warm-up packet.
pub(crate) fn queue(xsk: &mut Xsk, slots: &Mapped) {
    xsk.queue(slots, AT, FRAME_BYTES as u32, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_pause_and_with_time_left() {
        let mut warm_up = WarmUp::default();
        warm_up.sent(1_000_000);
        let soon = 1_000_000 + PAUSE_NS;
        assert_eq!(warm_up.time(soon), 0, "warm");
        assert!(!warm_up.worth_it(soon - 2 * LEFT_NS, soon));
        let late = soon + 1;
        assert_eq!(warm_up.time(late), LENGTH_NS);
        assert!(!warm_up.worth_it(late - LEFT_NS, late), "too late");
        assert!(warm_up.worth_it(late - 2 * LEFT_NS, late));
        warm_up.done(late - LEFT_NS);
        assert!(!warm_up.worth_it(late - LEFT_NS, late), "once");
        assert_eq!(warm_up.count(), 1);
    }
}
