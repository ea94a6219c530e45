//! The memory shared with `bpf/relay.bpf.c`, mirrored field by field.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::ports::FIRST_PORT;

/// Bytes per slot: one frame with its head room.
pub(crate) const SLOT_BYTES: usize = 2048;
/// log2 of [`SLOT_BYTES`].
pub(crate) const SLOT_SHIFT: u32 = 11;
/// Where the EtherType stands in a slot when the frame carries no tag of the node's own.
pub(crate) const TYPE_AT: usize = 48;
/// Both Ethernet addresses.
pub(crate) const ADDRESSES: usize = 12;
/// A VLAN tag.
pub(crate) const TAG: usize = 4;
/// Largest frame a slot can hold, without a tag (Ethernet header included).
pub(crate) const FRAME_MAX: usize = ADDRESSES + SLOT_BYTES - TYPE_AT;

const _: () = assert!(
    constel_link::DriverKind::Relay.capabilities().mtu_max_bytes as usize + ADDRESSES + 2
        == FRAME_MAX
);

/// The checksum is partial: `csum_start` and `csum_offset` hold.
pub(crate) const FLAG_CSUM: u16 = 1;
/// The frame has a VLAN tag of the node's own.
pub(crate) const FLAG_VLAN: u16 = 2;
/// A GSO frame; see [`super::gso`].
pub(crate) const FLAG_GSO: u16 = 4;
/// Not one that a node passed on, or sent in answer to a frame that it was handed.
pub(crate) const FLAG_NEW: u16 = 8;
/// A GSO frame that its port was charged for by the frames it may be cut up into.
pub(crate) const FLAG_BY_FRAMES: u16 = 16;
/// A frame of an interface of the host that was steered: the upper byte has the interface it came in at and, in its lower
/// half, the one it goes out on. Copies keep it.
pub(crate) const FLAG_STEERED: u16 = 32;
/// Interfaces of the host that frames can be steered between.
pub(crate) const STEERED_MAX: usize = 16;
/// Where a piece of a GSO frame stands in its slot, and how long it is at most.
pub(crate) const PIECE_AT: usize = 64;
pub(crate) const PIECE: usize = SLOT_BYTES - PIECE_AT;
pub(crate) const PIECES_MAX: usize = 34;

/// The slot that holds the warm-up packet; it is never in the pool.
pub(crate) const WARM_UP_SLOT: u32 = 0;

/// Host ends per shard namespace: beyond that the kernel's table of device indexes (256 buckets
/// per namespace) makes every frame dearer.
pub(crate) const SHARD_PORTS: u32 = 400;
/// Index of the first uplink in the trunk namespace.
pub(crate) const FIRST_UPLINK: u32 = 100;
/// Index of the warm-up node's host end, in the first shard.
pub(crate) const WARM_UP_END: u32 = FIRST_PORT - 1;
/// Threads that the relay can have.
pub(crate) const THREADS_MAX: usize = 8;
/// The tag has 16 bits.
pub(crate) const PORTS_MAX: u32 = 1 << 16;

/// A captured frame.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Desc {
    pub(crate) ts_ns: u64,
    pub(crate) slot: u32,
    pub(crate) ifindex: u32,
    pub(crate) len: u16,
    pub(crate) flags: u16,
    pub(crate) csum_start: u16,
    pub(crate) csum_offset: u16,
    /// Of a GSO frame, bytes; `len` is the number of its pieces then.
    pub(crate) gso_len: u32,
    pub(crate) segment: u16,
    /// The tag of the node's own, of a GSO frame that has one.
    pub(crate) vlan_tci: u16,
}

/// State of the rings of one thread and CPU.
#[repr(C)]
pub(crate) struct Cpu {
    pub(crate) desc_head: AtomicU32,
    pub(crate) free_tail: AtomicU32,
    pub(crate) captured: AtomicU64,
    pub(crate) dropped_pool: AtomicU64,
    pub(crate) dropped_ring: AtomicU64,
    pub(crate) dropped_gso: AtomicU64,
    pub(crate) dropped_size: AtomicU64,
    pub(crate) dropped_error: AtomicU64,
    pub(crate) trunk: AtomicU64,
    pub(crate) delivered: AtomicU64,
    pub(crate) foreign: AtomicU64,
    pub(crate) before_start: AtomicU64,
    pub(crate) dropped_share: AtomicU64,
    pub(crate) warmed_up: AtomicU64,
    pad0: [u8; 24],
    pub(crate) desc_tail: AtomicU32,
    pub(crate) free_head: AtomicU32,
    pad1: [u8; 56],
}

/// What the capture program counts of a port.
#[repr(C)]
pub(crate) struct Port {
    /// Slots taken, ever.
    pub(crate) taken: AtomicU64,
    pub(crate) dropped_share: AtomicU64,
}

/// What the relay's thread has done with of a port.
#[repr(C)]
pub(crate) struct Back {
    /// Slots that came back, ever.
    pub(crate) slots: AtomicU64,
    /// Descriptors read, ever.
    pub(crate) descs: AtomicU64,
    /// Not 0 once a GSO frame of the port had to be cut up.
    pub(crate) cut_up: AtomicU64,
    /// Which thread the port's node is of.
    pub(crate) thread: AtomicU64,
}

/// What a thread of the relay tells the capture program, for all ports of its nodes.
#[repr(C)]
pub(crate) struct Told {
    /// Slots that a port may hold at present.
    pub(crate) share: AtomicU64,
    /// The thread's own number: what is sent while it runs, its deliveries brought about.
    pub(crate) thread: AtomicU64,
    /// Not 0 while it sleeps or is about to: whoever sets it to 0 wakes it.
    pub(crate) asleep: AtomicU64,
    pad: [u64; 5],
}

const _: () = assert!(size_of::<Told>() == 64);
const _: () = assert!(size_of::<Desc>() == 32 && size_of::<Port>() == 16);
const _: () = assert!(size_of::<Back>() == 32);
const _: () = assert!(size_of::<Cpu>() == 192 && offset_of!(Cpu, desc_tail) == 128);
const _: () = assert!(1 << SLOT_SHIFT == SLOT_BYTES);
const _: () = assert!(FIRST_UPLINK + PORTS_MAX.div_ceil(SHARD_PORTS) < WARM_UP_END);

/// A frame in a slot, or a GSO frame by its number: what travels through the edge table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotRef {
    pub(crate) slot: u32,
    pub(crate) len: u16,
    pub(crate) flags: u16,
    pub(crate) csum_start: u16,
    pub(crate) csum_offset: u16,
}

impl SlotRef {
    /// The number of a GSO frame, which is new or not.
    pub(crate) fn gso(number: u32, new: u16) -> SlotRef {
        SlotRef {
            slot: number,
            len: 0,
            flags: FLAG_GSO | (new & FLAG_NEW),
            csum_start: 0,
            csum_offset: 0,
        }
    }

    pub(crate) fn is_gso(self) -> bool {
        self.flags & FLAG_GSO != 0
    }

    pub(crate) fn is_new(self) -> bool {
        self.flags & FLAG_NEW != 0
    }

    /// Steered from one interface of the host to another; to itself: to all others.
    pub(crate) fn steered(self, from: u8, to: u8) -> SlotRef {
        let way = u16::from((from << 4) | (to & 15));
        SlotRef {
            flags: (self.flags & 0xff) | FLAG_STEERED | (way << 8),
            ..self
        }
    }

    /// The interfaces of the host that it came in at and goes out on, if it was steered.
    pub(crate) fn passage(self) -> Option<(u8, u8)> {
        let way = self.flags >> 8;
        (self.flags & FLAG_STEERED != 0).then_some(((way >> 4) as u8, (way & 15) as u8))
    }

    /// Where the frame's first byte stands in its slot.
    pub(crate) fn start(self) -> usize {
        let own = if self.flags & FLAG_VLAN != 0 { TAG } else { 0 };
        TYPE_AT - ADDRESSES - TAG - own
    }

    /// Offset of the slot in the slot memory.
    pub(crate) fn base(self) -> usize {
        (self.slot as usize) << SLOT_SHIFT
    }
}
