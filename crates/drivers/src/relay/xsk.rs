//! The path back into the kernel: an AF_XDP socket in copy mode that only sends.
//!
//! The frames stay where the capture program put them: the slot memory is the socket's UMEM. In copy mode `sendto`
//! copies a frame into an skb, so a slot is free as soon as the kernel has moved past its descriptor.
//!
//! The frames of a call go to the processor's queue of received frames (`netdev_max_backlog`). If that is full, the
//! kernel has consumed the descriptor, drops its copy, ends the call and returns `EBUSY`: the frame is put back as the
//! next one.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::layout::{SLOT_BYTES, SLOT_SHIFT};
use crate::bpf::Mapped;
use crate::error::{DriverError, Result};

/// Descriptors in the TX ring, far more than a batch.
const TX_RING: u32 = 2048;
/// Completions: one per skb, until its receiver has freed it.
const COMPLETION_RING: u32 = 8192;
/// Frames the kernel may send per call.
const TX_BUDGET: u32 = 256;
const SEND_BUFFER_BYTES: i32 = 256 << 20;

const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
const XDP_UMEM_TX_METADATA_LEN: u32 = 1 << 2;
const XDP_TX_METADATA: u32 = 1 << 1;
const XDP_TXMD_FLAGS_CHECKSUM: u64 = 1 << 1;
/// `struct xsk_tx_metadata`.
pub(crate) const METADATA_BYTES: usize = 24;

/// `struct xdp_umem_reg` as of Linux 6.8.
#[repr(C)]
struct UmemReg {
    addr: u64,
    len: u64,
    chunk_size: u32,
    headroom: u32,
    flags: u32,
    tx_metadata_len: u32,
}

/// A partial checksum to be completed: offsets from the first byte sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checksum {
    pub(crate) start: u16,
    pub(crate) offset: u16,
}

#[derive(Debug)]
struct Ring {
    memory: Mapped,
    producer: usize,
    consumer: usize,
    descs: usize,
}

impl Ring {
    fn new(
        what: &str,
        fd: &OwnedFd,
        at: &libc::xdp_ring_offset,
        size: usize,
        pg: u64,
    ) -> Result<Ring> {
        let len = at.desc as usize + size;
        Ok(Ring {
            memory: Mapped::new(what, fd.as_fd(), len, pg as i64, true)?,
            producer: at.producer as usize,
            consumer: at.consumer as usize,
            descs: at.desc as usize,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: the kernel says there is a u32 index at this offset.
        unsafe { self.memory.shared(self.producer) }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.memory.shared(self.consumer) }
    }
}

/// The sending socket.
#[derive(Debug)]
pub(crate) struct Xsk {
    fd: OwnedFd,
    tx: Ring,
    completions: Ring,
    /// Next descriptor to write; published to the kernel by `kick`.
    head: u32,
    /// Descriptors up to here were returned to the caller.
    reclaimed: u32,
    /// The kernel has consumed the descriptors up to here. Its own index in the ring lags after a call that sent no
    /// frame.
    consumed: u32,
    /// Number of frames that were put back.
    refused: u64,
    /// Number of frames that were refused and not put back.
    lost: u64,
}

/// Sets the frame memory, rings and buffers of a socket.
fn configure(fd: &OwnedFd, slots: &Mapped) -> Result<()> {
    let umem = UmemReg {
        addr: slots.ptr(0, 0) as u64,
        len: slots.len() as u64,
        chunk_size: SLOT_BYTES as u32,
        headroom: 0,
        flags: XDP_UMEM_TX_METADATA_LEN,
        tx_metadata_len: METADATA_BYTES as u32,
    };
    set(
        fd,
        "register the frame memory",
        libc::SOL_XDP,
        libc::XDP_UMEM_REG,
        &umem,
    )?;
    // The kernel refuses to bind a socket without a fill ring, although nothing is received here.
    set(
        fd,
        "make the fill ring",
        libc::SOL_XDP,
        libc::XDP_UMEM_FILL_RING,
        &64u32,
    )?;
    let ring = libc::XDP_UMEM_COMPLETION_RING;
    set(
        fd,
        "make the completion ring",
        libc::SOL_XDP,
        ring,
        &COMPLETION_RING,
    )?;
    set(
        fd,
        "make the TX ring",
        libc::SOL_XDP,
        libc::XDP_TX_RING,
        &TX_RING,
    )?;
    match set(
        fd,
        "raise the AF_XDP budget",
        libc::SOL_XDP,
        XDP_MAX_TX_SKB_BUDGET,
        &TX_BUDGET,
    ) {
        // This kernel sends 32 frames per call regardless, so it is called more often.
        Err(DriverError::Os { source, .. }) if source.raw_os_error() == Some(libc::ENOPROTOOPT) => {
        }
        result => result?,
    }
    let force = libc::SO_SNDBUFFORCE;
    set(
        fd,
        "raise the send buffer",
        libc::SOL_SOCKET,
        force,
        &SEND_BUFFER_BYTES,
    )?;
    Ok(())
}

/// Returns the offsets of the rings' parts in their mappings.
fn ring_offsets(fd: &OwnedFd) -> Result<libc::xdp_mmap_offsets> {
    // SAFETY: plain old data.
    let mut at: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
    // SAFETY: pointer and length describe `at`.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_MMAP_OFFSETS,
            (&raw mut at).cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(DriverError::last_os("ask for the AF_XDP ring layout"));
    }
    Ok(at)
}

/// Binds the socket to this interface of the calling thread's namespace, in copy mode.
fn bind(fd: &OwnedFd, ifindex: u32) -> Result<()> {
    // SAFETY: plain old data.
    let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
    address.sxdp_family = libc::AF_XDP as u16;
    address.sxdp_flags = libc::XDP_COPY;
    address.sxdp_ifindex = ifindex;
    // SAFETY: pointer and length describe `address`.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
        )
    };
    if result < 0 {
        let error = DriverError::last_os("bind the AF_XDP socket to the interface");
        return Err(match error {
            DriverError::Os { source, .. } if source.raw_os_error() == Some(libc::EBUSY) => {
                DriverError::InUse { ifindex }
            }
            other => other,
        });
    }
    Ok(())
}

/// Address of a descriptor whose frame was put back.
const PUT_BACK: u64 = u64::MAX;

impl Xsk {
    /// Creates a socket on `ifindex` of the *calling thread's namespace*, with the slots as UMEM.
    pub(crate) fn new(slots: &Mapped, ifindex: u32) -> Result<Xsk> {
        // SAFETY: plain system call; the result is checked.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(DriverError::last_os("open an AF_XDP socket"));
        }
        // SAFETY: a fresh descriptor that has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        configure(&fd, slots)?;

        let at = ring_offsets(&fd)?;
        let size = TX_RING as usize * size_of::<libc::xdp_desc>();
        let tx = Ring::new("TX ring", &fd, &at.tx, size, libc::XDP_PGOFF_TX_RING as u64)?;
        let size = COMPLETION_RING as usize * size_of::<u64>();
        let offset = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
        let completions = Ring::new("completion ring", &fd, &at.cr, size, offset)?;

        bind(&fd, ifindex)?;
        Ok(Xsk {
            fd,
            tx,
            completions,
            head: 0,
            reclaimed: 0,
            consumed: 0,
            refused: 0,
            lost: 0,
        })
    }

    /// Returns the number of descriptors that can be queued now.
    pub(crate) fn space(&self) -> u32 {
        TX_RING - self.head.wrapping_sub(self.reclaimed)
    }

    /// Returns the number of queued frames that the kernel has not taken yet.
    pub(crate) fn pending(&self) -> u32 {
        self.head.wrapping_sub(self.consumed)
    }

    /// Queues `len` bytes at `offset` of the slot memory. The caller has checked [`Xsk::space`] and does not change the
    /// slot until it is returned.
    pub(crate) fn queue(
        &mut self,
        slots: &Mapped,
        offset: usize,
        len: u32,
        csum: Option<Checksum>,
    ) {
        let mut options = 0;
        if let Some(Checksum { start, offset: at }) = csum {
            // The metadata is directly in front of the frame.
            let metadata = slots.ptr(offset - METADATA_BYTES, METADATA_BYTES);
            let mut bytes = [0; METADATA_BYTES];
            bytes[..8].copy_from_slice(&XDP_TXMD_FLAGS_CHECKSUM.to_ne_bytes());
            bytes[8..10].copy_from_slice(&start.to_ne_bytes());
            bytes[10..12].copy_from_slice(&at.to_ne_bytes());
            // SAFETY: in bounds; the slot belongs to the caller until it is queued.
            unsafe { metadata.copy_from_nonoverlapping(bytes.as_ptr(), METADATA_BYTES) };
            options = XDP_TX_METADATA;
        }
        let desc = libc::xdp_desc {
            addr: offset as u64,
            len,
            options,
        };
        self.swap(self.head, desc);
        self.head = self.head.wrapping_add(1);
    }

    /// Writes a descriptor that belongs to us, and returns the previous one.
    fn swap(&mut self, index: u32, desc: libc::xdp_desc) -> libc::xdp_desc {
        let index = (index & (TX_RING - 1)) as usize;
        let size = size_of::<libc::xdp_desc>();
        let at = self.tx.memory.ptr(self.tx.descs + index * size, size);
        let at = at.cast::<libc::xdp_desc>();
        // SAFETY: in bounds. The kernel reads descriptors only during `sendto`, which this thread calls, and none that
        // it has consumed or that `producer` has not reached.
        unsafe {
            let before = at.read_unaligned();
            at.write_unaligned(desc);
            before
        }
    }

    /// Puts a frame that was consumed but not sent back before the unconsumed ones: each of them moves on by one place.
    fn put_back(&mut self, index: u32) {
        let gone = libc::xdp_desc {
            addr: PUT_BACK,
            len: 0,
            options: 0,
        };
        let mut moved = self.swap(index, gone);
        let mut next = index.wrapping_add(1);
        while next != self.head {
            moved = self.swap(next, moved);
            next = next.wrapping_add(1);
        }
        self.swap(next, moved);
        self.head = self.head.wrapping_add(1);
        self.refused += 1;
    }

    /// Returns how often the kernel refused a frame that was put back.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the number of frames that the kernel refused and that were not put back.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Gives up the queued frames because the interface is down. The kernel skips their descriptors as invalid once the
    /// interface is up again. Returns the number of frames.
    pub(crate) fn abandon(&mut self, mut freed: impl FnMut(u32)) -> u64 {
        let gone = libc::xdp_desc {
            addr: PUT_BACK,
            len: 0,
            options: 0,
        };
        let mut count = 0;
        while self.consumed != self.head {
            let desc = self.swap(self.consumed, gone);
            if desc.addr != PUT_BACK {
                freed((desc.addr >> SLOT_SHIFT) as u32);
                count += 1;
            }
            self.consumed = self.consumed.wrapping_add(1);
        }
        count
    }

    /// Makes the kernel send the queued frames. `freed` gets the slot numbers that it is done with. Returns the number
    /// of frames it took, which is less than queued if it is out of buffers or has refused a frame. A refused frame
    /// stays queued if `again`, otherwise it is lost.
    pub(crate) fn kick(&mut self, again: bool, mut freed: impl FnMut(u32)) -> io::Result<u32> {
        // Completions only report that an skb was freed, which does not matter in copy mode, but the ring must not fill
        // up.
        let done = self.completions.producer().load(Ordering::Acquire);
        self.completions.consumer().store(done, Ordering::Release);

        self.tx.producer().store(self.head, Ordering::Release);
        // SAFETY: no buffer is passed.
        let result = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        let error = (result < 0).then(io::Error::last_os_error);
        let taken = self.tx.consumer().load(Ordering::Acquire);
        let before = self.consumed;
        let sent_some = taken.wrapping_sub(before).cast_signed() > 0;
        if sent_some {
            self.consumed = taken;
        }
        if error.as_ref().and_then(io::Error::raw_os_error) == Some(libc::EBUSY) {
            // The refused frame is the last one consumed. A call that sent no other frame does not publish its
            // consumption.
            if !sent_some {
                self.consumed = before.wrapping_add(1);
            }
            if again && self.space() > 0 {
                self.put_back(self.consumed.wrapping_sub(1));
            } else {
                self.lost += 1;
            }
        }
        let count = self.reclaim(taken, &mut freed);
        match error.as_ref().and_then(io::Error::raw_os_error) {
            // Out of buffers or budget for the moment; the frames taken so far count.
            None | Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(count),
            _ => error.map_or(Ok(count), Err),
        }
    }

    /// Returns the slots of all descriptors before `end`, except those put back, to `freed`. Returns their number.
    fn reclaim(&mut self, end: u32, freed: &mut impl FnMut(u32)) -> u32 {
        let mut count = 0;
        while self.reclaimed != end {
            let index = (self.reclaimed & (TX_RING - 1)) as usize;
            let size = size_of::<libc::xdp_desc>();
            let at = self.tx.memory.ptr(self.tx.descs + index * size, size);
            // SAFETY: in bounds; written by `queue`, never changed by the kernel.
            let desc = unsafe { at.cast::<libc::xdp_desc>().read_unaligned() };
            if desc.addr != PUT_BACK {
                freed((desc.addr >> SLOT_SHIFT) as u32);
                count += 1;
            }
            self.reclaimed = self.reclaimed.wrapping_add(1);
        }
        count
    }

    /// Returns the number of descriptors that the kernel found malformed. It is not zero only if this program has an
    /// error.
    pub(crate) fn invalid_descs(&self) -> u64 {
        // SAFETY: plain old data.
        let mut stats: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::xdp_statistics>() as libc::socklen_t;
        // SAFETY: pointer and length describe `stats`.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_XDP,
                libc::XDP_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        };
        if result < 0 {
            0
        } else {
            stats.tx_invalid_descs
        }
    }
}

/// Sets a socket option.
pub(super) fn set<T>(fd: &OwnedFd, what: &str, level: i32, option: i32, value: &T) -> Result<()> {
    // SAFETY: pointer and length describe `value`.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result < 0 {
        Err(DriverError::last_os(what))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
