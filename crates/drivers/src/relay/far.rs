//! Ports whose nodes are on another machine. A frame for such a port is passed to a carrier that brings it there;
//! frames that arrive from such ports are delivered to local ports, each at its instant.
//!
//! An edge is served on the machine where its frames are sent. A frame for a far port leaves the table before it is
//! due, so that the edge's delay covers the transfer between the machines; there it waits until it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use constel_link::{Delivery, Nanos, PortId};

use super::layout::{ADDRESSES, FLAG_VLAN, FRAME_MAX, SlotRef, TAG};
use super::pool::Pool;
use crate::clock::mono_ns;

/// Ethernet addresses and a type, which every frame has.
const FRAME_MIN: usize = ADDRESSES + 2;

/// Takes frames to ports whose nodes are on another machine. Called by the relay's thread, so it must not block.
pub trait Carry: Send {
    /// Takes a frame that has passed the edge, and is due at the far port at `due_ns` (`CLOCK_MONOTONIC`). That is
    /// later than now by the head start, if the edge's delay is that long. The frame's checksums are complete.
    fn carry(&mut self, edge: (PortId, PortId), due_ns: Nanos, frame: &[u8]);

    /// Sends the frames that were kept for a batch; called after all frames of a turn.
    fn flush(&mut self);
}

/// Ports whose nodes are on another machine, and the carrier of their frames.
pub struct FarPorts {
    /// The ports.
    pub ports: Vec<PortId>,
    /// How long before they are due their frames leave the table.
    pub ahead_ns: Nanos,
    /// The carrier.
    pub carry: Box<dyn Carry>,
}

impl fmt::Debug for FarPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarPorts")
            .field("ports", &self.ports)
            .field("ahead_ns", &self.ahead_ns)
            .finish_non_exhaustive()
    }
}

/// A frame that arrived from a far port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The far port.
    pub from: PortId,
    /// The local port.
    pub to: PortId,
    /// Instant at which it is due there (`CLOCK_MONOTONIC`); if that is past, it is due at once.
    pub due_ns: Nanos,
    /// The frame, with its Ethernet header.
    pub frame: Vec<u8>,
}

/// A frame that waits for its instant; frames of one instant stay in the order of arrival.
#[derive(Debug)]
struct Held {
    at: (Nanos, u64),
    edge: (PortId, PortId),
    frame: SlotRef,
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// Ports whose nodes are on another machine. Clones share the set.
#[derive(Clone, Debug, Default)]
pub(crate) struct FarSet {
    /// By port; ports beyond the end are local.
    is_far: Arc<[AtomicBool]>,
}

impl FarSet {
    pub(crate) fn new(ports: &[PortId]) -> FarSet {
        let count = ports.iter().map(|port| port.0 as usize + 1).max();
        let mut is_far = vec![false; count.unwrap_or(0)];
        for port in ports {
            is_far[port.0 as usize] = true;
        }
        FarSet {
            is_far: is_far.into_iter().map(AtomicBool::new).collect(),
        }
    }

    #[inline]
    pub(crate) fn has(&self, port: PortId) -> bool {
        let is_far = self.is_far.get(port.0 as usize);
        is_far.is_some_and(|is_far| is_far.load(Ordering::Relaxed))
    }

    /// Marks these ports as local from now on.
    pub(crate) fn come_home(&self, ports: &[PortId]) {
        for port in ports {
            if let Some(is_far) = self.is_far.get(port.0 as usize) {
                is_far.store(false, Ordering::Relaxed);
            }
        }
    }
}

/// The thread's state of far ports.
#[derive(Default)]
pub(crate) struct Far {
    ports: FarSet,
    carry: Option<Box<dyn Carry>>,
    held: BinaryHeap<Reverse<Held>>,
    /// Number of frames that have arrived so far.
    came: u64,
    /// Frames that arrived when no slot was free.
    pub(super) no_slot: u64,
    /// Frames of an impossible size.
    pub(super) bad_size: u64,
}

impl Far {
    /// Creates the state; `ports` are those of `far`, if there are any.
    pub(crate) fn new(far: Option<FarPorts>, ports: FarSet) -> Far {
        let Some(far) = far else {
            return Far::default();
        };
        Far {
            ports,
            carry: Some(far.carry),
            ..Far::default()
        }
    }

    /// Marks these ports as local from now on.
    pub(crate) fn come_home(&self, ports: &[PortId]) {
        self.ports.come_home(ports);
    }

    /// Returns whether this port's node is on another machine.
    #[inline]
    pub(crate) fn has(&self, port: PortId) -> bool {
        self.ports.has(port)
    }

    /// Passes a frame for a far port to the carrier.
    pub(crate) fn carry(&mut self, edge: (PortId, PortId), due_ns: Nanos, frame: &[u8]) {
        if let Some(carry) = &mut self.carry {
            carry.carry(edge, due_ns, frame);
        }
    }

    /// Ends the frames for far ports of this turn.
    pub(crate) fn flush(&mut self) {
        if let Some(carry) = &mut self.carry {
            carry.flush();
        }
    }

    /// Keeps a frame that arrived from a far port until it is due.
    pub(crate) fn take(&mut self, arrival: &Arrival, pool: &mut Pool) {
        let bytes = &arrival.frame[..];
        // A VLAN tag (IEEE 802.1Q) makes a frame longer than the MTU allows, so its four bytes are not counted.
        let tagged = bytes.len() >= FRAME_MIN && bytes[ADDRESSES..FRAME_MIN] == [0x81, 0x00];
        let (flags, own) = if tagged { (FLAG_VLAN, TAG) } else { (0, 0) };
        if !(FRAME_MIN + own..=FRAME_MAX + own).contains(&bytes.len()) {
            self.bad_size += 1;
            return;
        }
        // A quarter of the slots at most, so that a flood from another machine leaves room for local nodes.
        let room = self.held.len() < pool.slots() / 4;
        let Some(slot) = room.then(|| pool.take()).flatten() else {
            self.no_slot += 1;
            return;
        };
        // The far port is charged for the slot, so that its flood costs its own share of the pool.
        pool.own_more(slot, pool.wires.account(arrival.from));
        let frame = SlotRef {
            slot,
            len: bytes.len() as u16,
            flags,
            csum_start: 0,
            csum_offset: 0,
        };
        let (addresses, rest) = pool.whole(frame);
        addresses.copy_from_slice(&bytes[..ADDRESSES]);
        rest.copy_from_slice(&bytes[ADDRESSES..]);
        pool.enters(mono_ns(), arrival.from, frame);
        // The heap is not stable: the number keeps frames of one instant in the order of their arrival.
        self.came += 1;
        self.held.push(Reverse(Held {
            at: (arrival.due_ns, self.came),
            edge: (arrival.from, arrival.to),
            frame,
        }));
    }

    /// Returns when the next frame is due.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        self.held.peek().map(|Reverse(held)| held.at.0)
    }

    /// Returns the next frame due by `now`.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<Delivery<SlotRef>> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse(held) = self.held.pop()?;
        Some(Delivery {
            from: held.edge.0,
            to: held.edge.1,
            due_ns: held.at.0,
            len_bytes: u32::from(held.frame.len),
            frame: held.frame,
        })
    }
}
