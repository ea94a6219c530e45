//! Sending trains: by a packet socket that takes super-frames, on the same trunk as AF_XDP.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::error::{RelayError, Result};
use super::layout::{ADDRESSES, PIECES_MAX, TAG};
use super::pool::Pool;
use super::trains::{Headers, TCP_CHECK, Train};
use super::xsk::set;

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
pub(crate) struct TrainsOut {
    fd: OwnedFd,
}

impl TrainsOut {
    /// A socket that sends on `ifindex` of the *calling thread's namespace* and receives nothing.
    pub(crate) fn new(ifindex: u32) -> Result<TrainsOut> {
        // SAFETY: plain system call; the result is checked.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(RelayError::last_os("open a packet socket"));
        }
        // SAFETY: a fresh descriptor that nobody else owns.
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
            return Err(RelayError::last_os("bind a packet socket to the trunk"));
        }
        Ok(TrainsOut { fd })
    }

    /// Send a train with the relay's tag.
    pub(crate) fn send(
        &self,
        pool: &Pool,
        train: &Train,
        headers: Headers,
        tag: [u8; TAG],
    ) -> io::Result<()> {
        let mut kind = if headers.ipv4 { GSO_TCPV4 } else { GSO_TCPV6 };
        if headers.cwr {
            kind |= GSO_ECN;
        }
        let mut start = [0u8; VNET_BYTES + ADDRESSES + TAG];
        start[0] = NEEDS_CSUM;
        start[1] = kind;
        let fields = [
            (headers.len + TAG) as u16,
            train.segment,
            train.csum_start + TAG as u16,
            TCP_CHECK,
        ];
        for (n, field) in fields.into_iter().enumerate() {
            start[2 + 2 * n..4 + 2 * n].copy_from_slice(&field.to_ne_bytes());
        }
        let (first, first_len) = pool.piece(train, 0);
        // SAFETY: the first piece holds the headers; its slot is ours.
        let addresses = unsafe { std::slice::from_raw_parts(first, ADDRESSES) };
        start[VNET_BYTES..VNET_BYTES + ADDRESSES].copy_from_slice(addresses);
        start[VNET_BYTES + ADDRESSES..].copy_from_slice(&tag);
        let none = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut parts = [none; 1 + PIECES_MAX];
        parts[0] = libc::iovec {
            iov_base: start.as_mut_ptr().cast(),
            iov_len: start.len(),
        };
        // SAFETY: still inside of the first piece.
        let behind = unsafe { first.add(ADDRESSES) };
        parts[1] = libc::iovec {
            iov_base: behind.cast(),
            iov_len: first_len - ADDRESSES,
        };
        for n in 1..train.slots.len() {
            let (at, len) = pool.piece(train, n);
            parts[1 + n] = libc::iovec {
                iov_base: at.cast(),
                iov_len: len,
            };
        }
        // SAFETY: plain old data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = 1 + train.slots.len();
        let fd = self.fd.as_raw_fd();
        // SAFETY: all parts are valid for reading through the call.
        let sent = unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_DONTWAIT) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
