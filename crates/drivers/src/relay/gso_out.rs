//! Sending of GSO frames: by a packet socket that accepts super-frames, on the same trunk as AF_XDP.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::gso::TCP_CHECK;
use super::layout::{ADDRESSES, PIECES_MAX, TAG};
use super::xsk::set;
use crate::error::{DriverError, Result};

const PACKET_VNET_HDR: i32 = 15;
const PACKET_QDISC_BYPASS: i32 = 20;
const SEND_BUFFER_BYTES: i32 = 64 << 20;
/// `struct virtio_net_hdr`.
const VNET_BYTES: usize = 10;
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;

/// The socket.
#[derive(Debug)]
pub(crate) struct GsoSender {
    fd: OwnedFd,
}

impl GsoSender {
    /// Creates a socket that sends on `ifindex` of the *calling thread's namespace* and receives no frames.
    pub(crate) fn new(ifindex: u32) -> Result<GsoSender> {
        // SAFETY: plain system call; the result is checked.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(DriverError::last_os("open a packet socket"));
        }
        // SAFETY: a fresh descriptor that has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        for (what, level, option, value) in [
            (
                "have a packet socket take super-frames",
                libc::SOL_PACKET,
                PACKET_VNET_HDR,
                1,
            ),
            (
                "have a packet socket send at once",
                libc::SOL_PACKET,
                PACKET_QDISC_BYPASS,
                1,
            ),
            (
                "raise a packet socket's buffer",
                libc::SOL_SOCKET,
                libc::SO_SNDBUFFORCE,
                SEND_BUFFER_BYTES,
            ),
        ] {
            set(&fd, what, level, option, &value)?;
        }
        // Protocol 0 in `socket` and here: the socket receives no frames, so it needs no memory for them.
        // SAFETY: plain old data.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = ifindex as i32;
        // SAFETY: pointer and length describe `address`.
        let result = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if result < 0 {
            return Err(DriverError::last_os("bind a packet socket to the trunk"));
        }
        Ok(GsoSender { fd })
    }

    /// Sends a super-frame with the relay's tag. The first of `parts` begins behind the addresses.
    pub(crate) fn send(
        &self,
        form: Form,
        addresses: [u8; ADDRESSES],
        tag: [u8; TAG],
        parts: impl Iterator<Item = (*mut u8, usize)>,
    ) -> io::Result<()> {
        let mut kind = if form.ipv4 { GSO_TCPV4 } else { GSO_TCPV6 };
        // The flag informs the kernel that CWR is set, which only the first frame keeps.
        if form.cwr {
            kind |= GSO_ECN;
        }
        let mut start = [0u8; VNET_BYTES + ADDRESSES + TAG];
        // `struct virtio_net_hdr`: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset. The relay's tag shifts
        // all offsets.
        start[0] = NEEDS_CSUM;
        start[1] = kind;
        let fields = [
            (form.headers + TAG) as u16,
            form.segment,
            form.csum_start + TAG as u16,
            TCP_CHECK,
        ];
        for (n, field) in fields.into_iter().enumerate() {
            start[2 + 2 * n..4 + 2 * n].copy_from_slice(&field.to_ne_bytes());
        }
        start[VNET_BYTES..VNET_BYTES + ADDRESSES].copy_from_slice(&addresses);
        start[VNET_BYTES + ADDRESSES..].copy_from_slice(&tag);
        let none = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut vectors = [none; 1 + PARTS_MAX];
        let start = (start.as_mut_ptr(), start.len());
        let mut count = 0;
        for ((at, len), vector) in std::iter::once(start).chain(parts).zip(&mut vectors) {
            *vector = libc::iovec {
                iov_base: at.cast(),
                iov_len: len,
            };
            count += 1;
        }
        // SAFETY: plain old data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = count;
        let fd = self.fd.as_raw_fd();
        // SAFETY: all parts are valid for reading through the call.
        let sent = unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_DONTWAIT) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// Fields that the kernel needs to cut a super-frame up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) ipv4: bool,
    /// Whether the first frame reports that the congestion window was reduced.
    pub(crate) cwr: bool,
    /// Length of all headers.
    pub(crate) headers: usize,
    /// Payload of each frame except the last.
    pub(crate) segment: u16,
    /// Offset of TCP's header.
    pub(crate) csum_start: u16,
}

/// Largest number of parts of a super-frame.
pub(crate) const PARTS_MAX: usize = 66;
const _: () = assert!(PARTS_MAX >= PIECES_MAX);
