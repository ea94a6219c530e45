//! Nodes without a stack. The relay decides about a frame that reaches one, and the frame enters its next edge at the
//! same instant at which it reached the node.
//!
//! The time for that delays no frame as long as the thread keeps up: the lateness of a frame at its last hop is its
//! total lateness.

use std::sync::Arc;

use constel_link::Delivery;
use constel_link::transit::{Cause, Limit, Packet, Table, Verdict, decide};
use serde::Serialize;

use super::gso;
use super::layout::{ADDRESSES, FRAME_MAX, SlotRef};
use super::pool::Pool;

/// Counters of packets at nodes without a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransitCounts {
    /// Forwarded packets. A super-frame counts as one.
    pub forwarded: u64,
    /// Answered packets: pings, and packets whose senders got an ICMP error.
    pub answered: u64,
    /// Dropped packets, by [`Cause::ALL`].
    pub dropped: [u64; Cause::ALL.len()],
}

impl TransitCounts {
    /// Returns the number of packets dropped for one cause.
    #[must_use]
    pub fn dropped_for(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    fn count(&mut self, verdict: Verdict) {
        let cause = match verdict {
            Verdict::Forward(_) => {
                self.forwarded += 1;
                None
            }
            Verdict::Answer(_, cause) => {
                self.answered += 1;
                cause
            }
            Verdict::Drop(cause) => Some(cause),
        };
        if let Some(cause) = cause {
            self.dropped[cause as usize] += 1;
        }
    }
}

/// The thread's state of nodes without a stack.
#[derive(Debug, Default)]
pub(crate) struct Transit {
    table: Option<Arc<Table>>,
    limits: Vec<Limit>,
    counts: Vec<TransitCounts>,
    sums: TransitCounts,
    /// Buffer of an answer, kept to reuse its memory.
    pub(super) answer: Vec<u8>,
    /// Answers that could not be sent because no slot was free.
    pub(super) no_slot: u64,
}

impl Transit {
    pub(crate) fn new(table: Option<Arc<Table>>) -> Transit {
        let members = table.as_ref().map_or(0, |table| table.members());
        Transit {
            table,
            limits: vec![Limit::default(); members],
            counts: vec![TransitCounts::default(); members],
            ..Transit::default()
        }
    }

    /// Returns the number of the node that a frame has reached, if that node has no stack.
    #[inline]
    pub(crate) fn reached(&self, delivery: &Delivery<SlotRef>) -> Option<u32> {
        self.table.as_ref()?.member_of(delivery.to)
    }

    /// Returns the sums over all nodes.
    pub(super) fn sums(&self) -> Option<TransitCounts> {
        self.table.as_ref().map(|_| self.sums)
    }

    /// Returns the counters of at most `most` nodes, from number `first` on.
    pub(super) fn counts(&self, first: u32, most: usize) -> Vec<TransitCounts> {
        let counts = self.counts.iter().skip(first as usize);
        counts.take(most).copied().collect()
    }

    /// Decides about a frame that has reached this node, and counts it. The [answer](Transit::answer) has the bytes of one.
    pub(super) fn decide(
        &mut self,
        member: u32,
        delivery: &Delivery<SlotRef>,
        pool: &mut Pool,
    ) -> Verdict {
        let verdict = self.judge(member, delivery, pool);
        self.sums.count(verdict);
        if let Some(counts) = self.counts.get_mut(member as usize) {
            counts.count(verdict);
        }
        verdict
    }

    fn judge(&mut self, member: u32, delivery: &Delivery<SlotRef>, pool: &mut Pool) -> Verdict {
        let nothing = Verdict::Drop(Cause::NotIp);
        let (Some(table), Some(limit)) = (&self.table, self.limits.get_mut(member as usize)) else {
            return nothing;
        };
        // The rate limit counts in the frames' own time, so that late processing does not change how many errors are
        // sent.
        let mut seat = table.seat(member, limit, delivery.due_ns);
        let Some(seen) = pool.packet(delivery.frame) else {
            return nothing;
        };
        let packet = Packet {
            port: delivery.to,
            from: delivery.from,
            destination: seen.destination,
            bytes: seen.bytes,
            len: seen.len,
            longest: seen.longest,
        };
        decide(&mut seat, packet, &mut self.answer)
    }
}

/// A frame as nodes without a stack read it.
struct Seen<'p> {
    destination: [u8; 6],
    /// Bytes from the EtherType on; for a super-frame those of its first piece.
    bytes: &'p mut [u8],
    /// Total length of these.
    len: usize,
    /// Length of the longest packet in it, without the EtherType.
    longest: usize,
}

impl Pool {
    /// Returns the parts of a frame that a node without a stack reads; `None` for a frame whose VLAN tag is not in its
    /// bytes.
    fn packet(&mut self, frame: SlotRef) -> Option<Seen<'_>> {
        if !frame.is_gso() {
            let (addresses, bytes) = self.whole(frame);
            return Some(Seen {
                destination: std::array::from_fn(|n| addresses[n]),
                len: bytes.len(),
                longest: bytes.len().saturating_sub(gso::IP - gso::TYPE),
                bytes,
            });
        }
        let gso = self.gso(frame).filter(|gso| gso.vlan_tci.is_none())?;
        let headers = self.gso_headers(gso)?;
        let (len, segment) = (gso.len as usize, usize::from(gso.segment));
        let (first, there) = self.piece(gso, 0);
        // SAFETY: in bounds; the slot is ours since its descriptor was read, and no other reference into it exists
        // while `self` is borrowed.
        let piece = unsafe { std::slice::from_raw_parts_mut(first, there) };
        let (addresses, bytes) = piece.split_at_mut_checked(ADDRESSES)?;
        Some(Seen {
            destination: std::array::from_fn(|n| addresses[n]),
            bytes,
            len: len - ADDRESSES,
            longest: (headers.len + segment).min(len) - gso::IP,
        })
    }

    /// Writes other Ethernet addresses into a frame.
    pub(super) fn readdress(&mut self, frame: SlotRef, addresses: [u8; ADDRESSES]) {
        let place = match self.gso(frame) {
            Some(gso) => self.piece(gso, 0).0,
            None => self
                .loaded
                .slots
                .ptr(frame.base() + frame.start(), ADDRESSES),
        };
        // SAFETY: in bounds, of a slot that is ours since its descriptor was read.
        unsafe { place.copy_from_nonoverlapping(addresses.as_ptr(), ADDRESSES) };
    }

    /// Replaces a frame that ends here by a frame with other bytes. Returns `None` when no slot is free for it.
    pub(super) fn replace(
        &mut self,
        frame: SlotRef,
        addresses: [u8; ADDRESSES],
        bytes: &[u8],
    ) -> Option<SlotRef> {
        let slot = match self.gso(frame).map(|gso| gso.slots[0]) {
            None => frame.slot,
            Some(first) => {
                let owner = self.owner(first);
                // All slots of the super-frame are freed first, because the answer needs only one.
                self.give_frame(frame);
                let slot = self.take()?;
                self.own_more(slot, owner);
                slot
            }
        };
        if ADDRESSES + bytes.len() > FRAME_MAX {
            self.give(slot);
            return None;
        }
        let answer = SlotRef {
            slot,
            len: (ADDRESSES + bytes.len()) as u16,
            flags: 0,
            csum_start: 0,
            csum_offset: 0,
        };
        let (own, rest) = self.whole(answer);
        *own = addresses;
        rest.copy_from_slice(bytes);
        Some(answer)
    }
}
