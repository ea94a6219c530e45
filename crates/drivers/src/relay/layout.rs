//! The memory shared with `bpf/relay.bpf.c`, mirrored field by field.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::ports::FIRST_PORT;

/// Bytes per slot: one frame with its headroom.
pub(crate) const SLOT_BYTES: usize = 2048;
/// log2 of [`SLOT_BYTES`].
pub(crate) const SLOT_SHIFT: u32 = 11;
/// Offset of the EtherType in a slot if the frame has no VLAN tag set by the node.
pub(crate) const TYPE_AT: usize = 48;
/// Length of both Ethernet addresses.
pub(crate) const ADDRESSES: usize = 12;
/// Length of a VLAN tag.
pub(crate) const TAG: usize = 4;
/// Largest frame of a slot, without a tag (Ethernet header included).
pub(crate) const FRAME_MAX: usize = ADDRESSES + SLOT_BYTES - TYPE_AT;

// An MTU does not include the Ethernet header: addresses and EtherType.
const _: () = assert!(
    constel_link::DriverKind::Relay.capabilities().mtu_max_bytes as usize + ADDRESSES + 2
        == FRAME_MAX
);

/// The checksum is partial: `csum_start` and `csum_offset` are valid.
pub(crate) const FLAG_CSUM: u16 = 1;
/// The frame has a VLAN tag set by the node.
pub(crate) const FLAG_VLAN: u16 = 2;
/// A GSO frame; see [`super::gso`].
pub(crate) const FLAG_GSO: u16 = 4;
/// The frame was neither forwarded by a node nor sent in answer to a frame delivered to it.
pub(crate) const FLAG_NEW: u16 = 8;
/// A GSO frame for which its port was charged by the number of frames it may be cut up into.
pub(crate) const FLAG_BY_FRAMES: u16 = 16;
/// A steered frame of an interface of the host: the upper byte contains the interface at which it came in and, in its
/// lower half, the one on which it goes out. Copies keep it.
pub(crate) const FLAG_STEERED: u16 = 32;
/// Number of interfaces of the host that frames can be steered between.
pub(crate) const STEERED_MAX: usize = 16;
/// Offset of a piece of a GSO frame in its slot, and its largest length.
pub(crate) const PIECE_AT: usize = 64;
pub(crate) const PIECE: usize = SLOT_BYTES - PIECE_AT;
pub(crate) const PIECES_MAX: usize = 34;

/// The slot that holds the warm-up packet; it is never in the pool.
pub(crate) const WARM_UP_SLOT: u32 = 0;

/// Host ends per shard namespace: with more, the kernel's table of device indexes (256 buckets per namespace) makes
/// every frame more expensive.
pub(crate) const SHARD_PORTS: u32 = 400;
/// Index of the first uplink in the trunk namespace.
pub(crate) const FIRST_UPLINK: u32 = 100;
/// Index of the warm-up node's host end, in the first shard.
pub(crate) const WARM_UP_END: u32 = FIRST_PORT - 1;
/// Maximum number of the relay's threads.
pub(crate) const THREADS_MAX: usize = 8;
/// Maximum number of ports: the tag has 16 bits.
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
    /// Length of a GSO frame, bytes; `len` is then the number of its pieces.
    pub(crate) gso_len: u32,
    pub(crate) segment: u16,
    /// VLAN tag set by the node, if the GSO frame has one.
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
    // The BPF programs write the fields up to here, the relay's thread those from `desc_tail` on. The padding separates
    // their cache lines.
    pad0: [u8; 24],
    pub(crate) desc_tail: AtomicU32,
    pub(crate) free_head: AtomicU32,
    pad1: [u8; 56],
}

/// Counters of the capture program for a port.
#[repr(C)]
pub(crate) struct Port {
    /// Number of slots taken so far.
    pub(crate) taken: AtomicU64,
    pub(crate) dropped_share: AtomicU64,
}

/// State of a port that the relay's thread writes.
#[repr(C)]
pub(crate) struct Back {
    /// Number of slots returned so far.
    pub(crate) slots: AtomicU64,
    /// Number of descriptors read so far.
    pub(crate) descs: AtomicU64,
    /// Not 0 once a GSO frame of the port had to be cut up.
    pub(crate) cut_up: AtomicU64,
    /// The thread of the port's node.
    pub(crate) thread: AtomicU64,
}

/// Values that a relay thread writes for the capture program, for all ports of its nodes.
#[repr(C)]
pub(crate) struct ThreadValues {
    /// Number of slots that a port may hold at present.
    pub(crate) share: AtomicU64,
    /// The thread's own number: frames sent while it runs were caused by its deliveries.
    pub(crate) thread: AtomicU64,
    /// Not 0 while the thread sleeps or is about to; the program that sets it to 0 wakes the thread.
    pub(crate) asleep: AtomicU64,
    pad: [u64; 5],
}

const _: () = assert!(size_of::<ThreadValues>() == 64);
const _: () = assert!(size_of::<Desc>() == 32 && size_of::<Port>() == 16);
const _: () = assert!(size_of::<Back>() == 32);
const _: () = assert!(size_of::<Cpu>() == 192 && offset_of!(Cpu, desc_tail) == 128);
const _: () = assert!(1 << SLOT_SHIFT == SLOT_BYTES);
const _: () = assert!(FIRST_UPLINK + PORTS_MAX.div_ceil(SHARD_PORTS) < WARM_UP_END);

/// A frame in a slot, or a GSO frame by its number: the type that the edge table carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotRef {
    pub(crate) slot: u32,
    pub(crate) len: u16,
    pub(crate) flags: u16,
    pub(crate) csum_start: u16,
    pub(crate) csum_offset: u16,
}

impl SlotRef {
    /// Returns a reference to a GSO frame, with the flag of new frames.
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

    /// Returns the frame steered from one interface of the host to another; to itself: to all others.
    pub(crate) fn steered(self, from: u8, to: u8) -> SlotRef {
        // Four bits are enough for each number: there are at most 16 interfaces.
        let way = u16::from((from << 4) | (to & 15));
        SlotRef {
            flags: (self.flags & 0xff) | FLAG_STEERED | (way << 8),
            ..self
        }
    }

    /// Returns the interfaces of the host at which it came in and on which it goes out, if it was steered.
    pub(crate) fn passage(self) -> Option<(u8, u8)> {
        let way = self.flags >> 8;
        (self.flags & FLAG_STEERED != 0).then_some(((way >> 4) as u8, (way & 15) as u8))
    }

    /// Returns the offset of the frame's first byte in its slot.
    pub(crate) fn start(self) -> usize {
        // In front of the EtherType are the addresses, room for the relay's tag, and the node's own tag if there is
        // one.
        let own = if self.flags & FLAG_VLAN != 0 { TAG } else { 0 };
        TYPE_AT - ADDRESSES - TAG - own
    }

    /// Offset of the slot in the slot memory.
    pub(crate) fn base(self) -> usize {
        (self.slot as usize) << SLOT_SHIFT
    }
}
