//! Socket functions that the standard library does not have. Unsafe code of `transfer` is only here.
#![allow(unsafe_code, reason = "socket options that no safe wrapper has")]

use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;

/// Waits until `fd` can be written, for at most `limit`; false when it cannot.
pub(crate) fn wait_writable(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    wait(fd, PollFlags::OUT, limit)
}

/// Waits until `fd` can be read, for at most `limit`; false when it cannot.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    wait(fd, PollFlags::IN, limit)
}

fn wait(fd: BorrowedFd<'_>, flags: PollFlags, limit: Duration) -> bool {
    let limit = rustix::time::Timespec::try_from(limit).ok();
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    // A signal makes the wait shorter; the caller then checks its condition again.
    poll(&mut fds, limit.as_ref()).is_ok_and(|n| n > 0)
}

/// Sets an option that is a 32-bit number.
fn set_u32(socket: BorrowedFd<'_>, level: i32, name: i32, value: u32) -> io::Result<()> {
    let value: *const u32 = &raw const value;
    // SAFETY: the pointer and the length describe a u32 that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.cast(),
            size_of::<u32>() as u32,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets `TCP_NOTSENT_LOWAT`: at most about this many bytes wait in the socket for their first sending.
pub(crate) fn keep_unsent_below(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
    set_u32(stream.as_fd(), level, name, bytes)
}

/// Requests this buffer size in both directions; without CAP_NET_ADMIN the system's limit applies.
pub(crate) fn enlarge_buffers(socket: &UdpSocket, bytes: u32) -> io::Result<()> {
    let set = |name| set_u32(socket.as_fd(), libc::SOL_SOCKET, name, bytes);
    set(libc::SO_RCVBUFFORCE).or_else(|_| set(libc::SO_RCVBUF))?;
    set(libc::SO_SNDBUFFORCE).or_else(|_| set(libc::SO_SNDBUF))
}

/// Part of the kernel's `struct tcp_info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct TcpInfo {
    /// Payload bytes sent, with retransmissions.
    pub(crate) bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub(crate) bytes_retrans: u64,
    /// Payload bytes that the other end has acknowledged.
    pub(crate) bytes_acked: u64,
    /// Segments with payload.
    pub(crate) data_segs_out: u32,
    /// Smoothed round trip, microseconds.
    pub(crate) rtt_us: u32,
    /// Smallest round trip, microseconds.
    pub(crate) min_rtt_us: u32,
    /// Congestion window, segments.
    pub(crate) cwnd: u32,
}

impl TcpInfo {
    /// The length of `struct tcp_info` up to `tcpi_bytes_retrans`, which Linux has since 4.19.
    const BYTES: usize = 216;

    pub(crate) fn of(stream: &TcpStream) -> io::Result<Self> {
        let mut raw = [0u8; Self::BYTES];
        let mut len = Self::BYTES as u32;
        // SAFETY: the kernel writes at most `len` bytes to `raw`, which has as many.
        let result = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                raw.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        if (len as usize) < Self::BYTES {
            return Err(io::Error::other("this kernel's TCP_INFO is too old"));
        }
        // Offsets in `struct tcp_info` of linux/tcp.h, an ABI that only grows.
        let u32_at =
            |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let u64_at = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&raw[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        Ok(Self {
            rtt_us: u32_at(68),
            cwnd: u32_at(80),
            bytes_acked: u64_at(120),
            min_rtt_us: u32_at(148),
            data_segs_out: u32_at(156),
            bytes_sent: u64_at(200),
            bytes_retrans: u64_at(208),
        })
    }
}
