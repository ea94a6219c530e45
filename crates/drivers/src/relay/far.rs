//! Ports whose nodes are not here: edges to them end at something else, which takes frames on; what comes from them is handed to
//! ports that are here, each frame at its instant.
//!
//! An edge is served where its frames are sent. A frame for a far port comes out of the table ahead of its time, so that the way
//! there is hidden in the edge's own delay; over there it waits until it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use constel_link::{Delivery, Nanos, PortId};

use super::layout::{ADDRESSES, FLAG_VLAN, FRAME_MAX, SlotRef, TAG};
use super::pool::Pool;
use crate::clock::mono_ns;

/// Ethernet addresses and a type: what every frame has.
const FRAME_MIN: usize = ADDRESSES + 2;

/// Takes frames to ports whose nodes are not here. Called by the relay's thread, which must not wait.
pub trait Carry: Send {
    /// A frame has passed the edge, and is due over there at `due_ns` (`CLOCK_MONOTONIC`), which is later than now by the head
    /// start, if the edge is that long. Its checksums are complete.
    fn carry(&mut self, edge: (PortId, PortId), due_ns: Nanos, frame: &[u8]);

    /// All frames of this turn were carried: what was kept, so that many go at once, goes now.
    fn flush(&mut self);
}

/// Ports whose nodes are not here, and what takes frames there.
pub struct FarPorts {
    /// The ports.
    pub ports: Vec<PortId>,
    /// Their frames come out of the table so much before they are due.
    pub ahead_ns: Nanos,
    /// Has them from there on.
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

/// A frame that came from a far port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The far port.
    pub from: PortId,
    /// The port here.
    pub to: PortId,
    /// When it is due there (`CLOCK_MONOTONIC`); at once, if that is past.
    pub due_ns: Nanos,
    /// The frame, with its Ethernet header.
    pub frame: Vec<u8>,
}

/// A frame that waits for its instant; those of one instant are in the order in which they came.
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

/// Which ports' nodes are not here. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FarSet {
    /// By port; beyond the end: it is here.
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

    /// The nodes of these ports are here from now on.
    pub(crate) fn come_home(&self, ports: &[PortId]) {
        for port in ports {
            if let Some(is_far) = self.is_far.get(port.0 as usize) {
                is_far.store(false, Ordering::Relaxed);
            }
        }
    }
}

/// The thread's side.
#[derive(Default)]
pub(crate) struct Far {
    ports: FarSet,
    carry: Option<Box<dyn Carry>>,
    held: BinaryHeap<Reverse<Held>>,
    /// Frames that have come, ever.
    came: u64,
    /// Frames that came and for which there was no slot.
    pub(super) no_slot: u64,
    /// What came and cannot be a frame.
    pub(super) bad_size: u64,
}

impl Far {
    /// `ports` are those that `far` is for, where there are some.
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

    /// The nodes of these ports are here from now on.
    pub(crate) fn come_home(&self, ports: &[PortId]) {
        self.ports.come_home(ports);
    }

    /// Whether this port's node is not here.
    #[inline]
    pub(crate) fn has(&self, port: PortId) -> bool {
        self.ports.has(port)
    }

    /// A frame goes to a far port.
    pub(crate) fn carry(&mut self, edge: (PortId, PortId), due_ns: Nanos, frame: &[u8]) {
        if let Some(carry) = &mut self.carry {
            carry.carry(edge, due_ns, frame);
        }
    }

    /// Nothing more goes to far ports in this turn.
    pub(crate) fn flush(&mut self) {
        if let Some(carry) = &mut self.carry {
            carry.flush();
        }
    }

    /// Keep a frame that came from a far port until it is due.
    pub(crate) fn take(&mut self, arrival: &Arrival, pool: &mut Pool) {
        let bytes = &arrival.frame[..];
        let tagged = bytes.len() >= FRAME_MIN && bytes[ADDRESSES..FRAME_MIN] == [0x81, 0x00];
        let (flags, own) = if tagged { (FLAG_VLAN, TAG) } else { (0, 0) };
        if !(FRAME_MIN + own..=FRAME_MAX + own).contains(&bytes.len()) {
            self.bad_size += 1;
            return;
        }
        // Whoever floods us from afar does not take all room from those who are here.
        let room = self.held.len() < pool.slots() / 4;
        let Some(slot) = room.then(|| pool.take()).flatten() else {
            self.no_slot += 1;
            return;
        };
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
        self.came += 1;
        self.held.push(Reverse(Held {
            at: (arrival.due_ns, self.came),
            edge: (arrival.from, arrival.to),
            frame,
        }));
    }

    /// When the next of them is due.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        self.held.peek().map(|Reverse(held)| held.at.0)
    }

    /// The next one that is due by `now`.
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
