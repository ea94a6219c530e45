//! The rings between the capture program and a thread of the relay.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use constel_link::Nanos;

use super::gso_in::gso_of;
use super::layout::{Cpu, Desc, FLAG_GSO, FRAME_MAX, SlotRef, TAG};
use super::object::{Loaded, Sizes};
use super::pool::Pool;
use crate::ports::FIRST_PORT;

/// The free ring of a CPU is topped up in batches of this many slots.
const REFILL_BATCH: u32 = 32;

/// A captured frame, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured {
    pub(crate) ts_ns: Nanos,
    pub(crate) port: u32,
    pub(crate) frame: SlotRef,
}

#[derive(Clone, Copy, Debug)]
struct Side {
    /// Next descriptor to read.
    tail: u32,
    /// Descriptors before this one are complete.
    head: u32,
    /// Time stamp of the descriptor at `tail`, if there is one.
    next_ts: Nanos,
    /// Slots taken from the free ring since it was last topped up.
    owed: u32,
    free_head: u32,
    /// Slots taken from the free ring by the frames read so far.
    free_tail: u32,
}

/// The reading side of all CPUs' rings of a thread.
#[derive(Debug)]
pub(crate) struct Rings {
    loaded: Arc<Loaded>,
    sizes: Sizes,
    thread: usize,
    sides: Vec<Side>,
    /// Invalid descriptors: 0 unless memory was damaged.
    pub(crate) malformed: u64,
}

/// Sums of the capture side's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuSums {
    pub(crate) captured: u64,
    pub(crate) dropped_pool: u64,
    pub(crate) dropped_share: u64,
    pub(crate) dropped_ring: u64,
    pub(crate) dropped_gso: u64,
    pub(crate) dropped_size: u64,
    pub(crate) dropped_error: u64,
    pub(crate) trunk: u64,
    pub(crate) delivered: u64,
    pub(crate) foreign: u64,
    pub(crate) before_start: u64,
    pub(crate) warmed_up: u64,
}

/// Fills the free rings; the other slots form the pool.
pub(crate) fn set_up(
    loaded: &Arc<Loaded>,
    sizes: Sizes,
    per_cpu: u32,
    mut pool: Pool,
    thread: usize,
) -> (Rings, Pool) {
    let side = Side {
        tail: 0,
        head: 0,
        next_ts: Nanos::MAX,
        owed: per_cpu,
        free_head: 0,
        free_tail: 0,
    };
    let mut rings = Rings {
        loaded: loaded.clone(),
        sizes,
        thread,
        sides: vec![side; sizes.cpus as usize],
        malformed: 0,
    };
    // Frames come in as soon as there are slots, so the share must be written before.
    pool.publish_share();
    rings.refill(&mut pool, 0);
    pool.publish_share();
    (rings, pool)
}

impl Rings {
    /// Returns the place of one CPU's rings among those of all threads.
    fn place(&self, nr: usize) -> usize {
        self.thread * self.sizes.cpus as usize + nr
    }

    /// Returns the index of an entry of a CPU's ring.
    fn entry(&self, nr: usize, position: u32) -> usize {
        let ring = self.sizes.ring;
        self.place(nr) * ring as usize + (position & (ring - 1)) as usize
    }

    fn cpu(&self, nr: usize) -> &Cpu {
        // SAFETY: `Cpu` is atomics and padding, written by the BPF programs; elements are 8-byte
        // aligned in a page-aligned mapping.
        unsafe { self.loaded.cpus.shared(self.place(nr) * size_of::<Cpu>()) }
    }

    fn desc(&self, nr: usize, index: u32) -> Desc {
        let at = self.entry(nr, index);
        let at = self
            .loaded
            .descs
            .ptr(at * size_of::<Desc>(), size_of::<Desc>());
        // SAFETY: in bounds; between tail and head (read with Acquire) the program leaves it alone.
        unsafe { at.cast::<Desc>().read() }
    }

    /// Returns the slot in the free ring at a position that has been taken and not been refilled.
    fn free_slot(&self, nr: usize, position: u32) -> u32 {
        let at = self.entry(nr, position);
        // SAFETY: an array of u64 in a page-aligned mapping.
        let place: &AtomicU64 = unsafe { self.loaded.free.shared(at * 8) };
        place.load(Ordering::Relaxed) as u32
    }

    /// Reads the heads again. Frames stamped before the call are now visible, except one that a CPU is just about to
    /// publish.
    pub(crate) fn look(&mut self) {
        for nr in 0..self.sides.len() {
            let head = self.cpu(nr).desc_head.load(Ordering::Acquire);
            let side = self.sides[nr];
            if head != side.head {
                if side.tail == side.head {
                    self.sides[nr].next_ts = self.desc(nr, side.tail).ts_ns;
                }
                self.sides[nr].head = head;
            }
        }
    }

    /// Returns the oldest frame seen by the last `look`, if it arrived by `until`. Its slots are then charged to its
    /// port.
    pub(crate) fn next(&mut self, until: Nanos, pool: &mut Pool) -> Option<Captured> {
        loop {
            // Merge of the CPUs' rings by time stamp. There are few CPUs, so a linear search beats a heap.
            let (nr, ts) = self
                .sides
                .iter()
                .enumerate()
                .map(|(nr, side)| (nr, side.next_ts))
                .min_by_key(|&(_, ts)| ts)?;
            if ts > until || ts == Nanos::MAX {
                return None;
            }
            let tail = self.sides[nr].tail;
            let desc = self.desc(nr, tail);
            let tail = tail.wrapping_add(1);
            let more = tail != self.sides[nr].head;
            let next_ts = if more {
                self.desc(nr, tail).ts_ns
            } else {
                Nanos::MAX
            };
            let side = &mut self.sides[nr];
            side.tail = tail;
            side.next_ts = next_ts;
            // The program took these slots from the free ring in order; a GSO frame takes one per piece.
            let is_gso = desc.flags & FLAG_GSO != 0;
            let slots = if is_gso { u32::from(desc.len) } else { 1 };
            let free_tail = side.free_tail;
            side.free_tail = free_tail.wrapping_add(slots);
            side.owed += slots;
            let port = desc.ifindex.wrapping_sub(FIRST_PORT);
            let frame = if is_gso {
                let slots = (0..slots).map(|n| self.free_slot(nr, free_tail.wrapping_add(n)));
                gso_of(&desc, slots.collect(), self.sizes.slots)
                    .filter(|_| port < self.sizes.ports)
                    .map(|gso| pool.add_gso(gso, port, desc.flags))
            } else {
                // The descriptor is in memory that programs in the kernel write, so every index is checked before use.
                let fits = usize::from(desc.len) <= FRAME_MAX + TAG;
                let makes_sense = desc.slot < self.sizes.slots && port < self.sizes.ports && fits;
                makes_sense.then(|| {
                    pool.own(desc.slot, port);
                    SlotRef {
                        slot: desc.slot,
                        len: desc.len,
                        flags: desc.flags,
                        csum_start: desc.csum_start,
                        csum_offset: desc.csum_offset,
                    }
                })
            };
            let Some(frame) = frame else {
                self.malformed += 1;
                continue;
            };
            return Some(Captured {
                ts_ns: desc.ts_ns,
                port,
                frame,
            });
        }
    }

    /// Returns when the oldest frame seen by the last `look` arrived.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        let oldest = self.sides.iter().map(|side| side.next_ts).min();
        oldest.filter(|&ts| ts != Nanos::MAX)
    }

    /// Returns whether the last `look` saw frames that were not taken yet.
    pub(crate) fn has_frames(&self) -> bool {
        self.sides.iter().any(|side| side.tail != side.head)
    }

    /// Returns the descriptors read so far to the program, and replaces the slots that came with them.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        for nr in 0..self.sides.len() {
            let tail = self.sides[nr].tail;
            let shared = &self.cpu(nr).desc_tail;
            if shared.load(Ordering::Relaxed) != tail {
                shared.store(tail, Ordering::Release);
            }
        }
        self.refill(pool, REFILL_BATCH);
        pool.publish_share();
    }

    /// Returns the number of frames seen by the last `look` and not taken yet.
    pub(crate) fn waiting(&self) -> u32 {
        let waiting = |side: &Side| side.head.wrapping_sub(side.tail);
        self.sides.iter().map(waiting).sum()
    }

    /// Tops up every free ring that lacks `batch` slots or more.
    fn refill(&mut self, pool: &mut Pool, batch: u32) {
        for nr in 0..self.sides.len() {
            if self.sides[nr].owed < batch.max(1) || pool.free() == 0 {
                continue;
            }
            let mut head = self.sides[nr].free_head;
            let mut owed = self.sides[nr].owed;
            while owed > 0
                && let Some(slot) = pool.take()
            {
                let at = self.entry(nr, head);
                // SAFETY: an array of u64; the program does not read it before `free_head` moves.
                let place: &AtomicU64 = unsafe { self.loaded.free.shared(at * 8) };
                place.store(u64::from(slot), Ordering::Relaxed);
                head = head.wrapping_add(1);
                owed -= 1;
            }
            self.sides[nr].free_head = head;
            self.sides[nr].owed = owed;
            self.cpu(nr).free_head.store(head, Ordering::Release);
        }
    }

    /// Announces that the thread is about to sleep. Returns true if a frame came in before the announcement was
    /// visible; otherwise the next frame wakes the ring buffer.
    pub(crate) fn fall_asleep(&mut self) -> bool {
        let told = self.loaded.told(self.thread);
        told.asleep.store(1, Ordering::Relaxed);
        // The flag must be visible before the heads are read. The program does it in the reverse order: it publishes
        // the head, then reads the flag.
        fence(Ordering::SeqCst);
        self.look();
        self.has_frames()
    }

    /// Announces that the thread is awake: frames need not wake it.
    pub(crate) fn wake_up(&self) {
        let told = self.loaded.told(self.thread);
        told.asleep.store(0, Ordering::Relaxed);
        self.loaded.drain_wakes(self.thread);
    }

    /// Returns the number of slots in the free rings.
    pub(crate) fn handed_out(&self) -> usize {
        (0..self.sides.len())
            .map(|nr| {
                let taken = self.cpu(nr).free_tail.load(Ordering::Relaxed);
                self.sides[nr].free_head.wrapping_sub(taken) as usize
            })
            .sum()
    }

    /// Returns the sums over all CPUs.
    pub(crate) fn sums(&self) -> CpuSums {
        let mut sums = CpuSums::default();
        for nr in 0..self.sides.len() {
            let cpu = self.cpu(nr);
            let get = |v: &AtomicU64| v.load(Ordering::Relaxed);
            sums.captured += get(&cpu.captured);
            sums.dropped_pool += get(&cpu.dropped_pool);
            sums.dropped_share += get(&cpu.dropped_share);
            sums.dropped_ring += get(&cpu.dropped_ring);
            sums.dropped_gso += get(&cpu.dropped_gso);
            sums.dropped_size += get(&cpu.dropped_size);
            sums.dropped_error += get(&cpu.dropped_error);
            sums.trunk += get(&cpu.trunk);
            sums.delivered += get(&cpu.delivered);
            sums.foreign += get(&cpu.foreign);
            sums.warmed_up += get(&cpu.warmed_up);
            sums.before_start += get(&cpu.before_start);
        }
        sums
    }
}
