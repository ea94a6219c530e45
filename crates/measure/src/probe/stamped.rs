//! A UDP socket whose datagrams have arrival timestamps. Unsafe code of `probe` is only here.
#![allow(
    unsafe_code,
    reason = "ancillary data with the kernel's stamp has no safe form in std or rustix"
)]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::time::{ClockId, clock_gettime};

/// The buffer for ancillary data: one timestamp.
const CONTROL: usize = 64;

/// The buffer for datagrams that wait, in bytes as the kernel counts them: about 5,000 small datagrams.
const RECEIVE_BYTES: usize = 4 << 20;

/// The difference between wall clock and monotonic clock may change by this much between two readings. A larger
/// change means that the wall clock was set.
const SLEWED_NS: i128 = 1_000_000;

/// A received datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Came {
    /// The length, bytes.
    pub(crate) length: usize,
    /// The sender's address.
    pub(crate) from: SocketAddr,
    /// The instant at which the kernel received it, `CLOCK_MONOTONIC`, nanoseconds.
    pub(crate) at_ns: u64,
}

/// The socket.
#[derive(Debug)]
pub(crate) struct Stamped {
    socket: UdpSocket,
    /// The wall clock minus the monotonic clock at the last reading.
    offset_ns: i128,
}

fn clock_ns(clock: ClockId) -> i128 {
    let now = clock_gettime(clock);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// Returns `CLOCK_MONOTONIC` and `CLOCK_REALTIME` of one instant, nanoseconds. A thread that is descheduled between
/// the two readings would compute a too early arrival, so the closest of several pairs of readings is used.
fn both_clocks_ns() -> (i128, i128) {
    const CLOSE_NS: i128 = 5_000;
    const READINGS: usize = 5;
    let mut closest = None;
    for _ in 0..READINGS {
        let before = clock_ns(ClockId::Monotonic);
        let real = clock_ns(ClockId::Realtime);
        let took = clock_ns(ClockId::Monotonic) - before;
        let reading = (took, before + took / 2, real);
        closest = closest.map_or(Some(reading), |known| Some(reading.min(known)));
        if took < CLOSE_NS {
            break;
        }
    }
    closest.map_or((0, 0), |(_, mono, real)| (mono, real))
}

/// Returns `CLOCK_MONOTONIC`, nanoseconds.
pub(crate) fn mono_ns() -> u64 {
    // Time since boot is never negative, and a `u64` of nanoseconds holds 584 years.
    clock_ns(ClockId::Monotonic) as u64
}

impl Stamped {
    /// Binds the socket and enables timestamps.
    pub(crate) fn bind(at: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(at)?;
        socket.set_nonblocking(true)?;
        let on: libc::c_int = 1;
        // SAFETY: the value is an int that outlives the call, and its length is stated.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        // Datagrams wait in this buffer while the program does not run: they are then late, and not lost. Without
        // CAP_NET_ADMIN the kernel's default size must do.
        let _ = set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES);
        let (mono, real) = both_clocks_ns();
        Ok(Self {
            socket,
            offset_ns: real - mono,
        })
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Waits until a datagram has arrived, for at most this time. A signal ends it early.
    pub(crate) fn wait(&self, at_most_ns: u64) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: (at_most_ns / 1_000_000_000) as i64,
            tv_nsec: (at_most_ns % 1_000_000_000) as i64,
        };
        let mut fds = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the next datagram; `None` when none waits. A datagram longer than `buffer` is cut off.
    pub(crate) fn take(&mut self, buffer: &mut [u8]) -> io::Result<Option<Came>> {
        loop {
            match self.receive(buffer) {
                Ok(came) => return Ok(Some(came)),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    // An ICMP error about an earlier datagram that was not delivered. The socket itself works.
                    io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkUnreachable => {}
                    _ => return Err(error),
                },
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Came> {
        let mut from = MaybeUninit::<libc::sockaddr_storage>::zeroed();
        let mut control = Control([0; CONTROL]);
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = from.as_mut_ptr().cast();
        message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL as _;
        // SAFETY: every pointer of the message leads to memory of the stated length that outlives the call.
        let length = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        let (mono, real) = both_clocks_ns();
        let at_ns = self.arrival(mono, real, stamp(&message));
        // SAFETY: it was zeroed, which is a valid value, and the kernel wrote an address over it.
        let from = socket_address(unsafe { from.assume_init_ref() })
            .ok_or_else(|| io::Error::other("a datagram without an address"))?;
        Ok(Came {
            length,
            from,
            at_ns,
        })
    }

    /// Converts a timestamp of the wall clock to the monotonic clock. Returns the instant of reading if there is no
    /// timestamp, or if the wall clock was set since the last datagram.
    fn arrival(&mut self, mono: i128, real: i128, stamp: Option<i128>) -> u64 {
        let offset = real - mono;
        let slewed = (offset - self.offset_ns).abs() <= SLEWED_NS;
        self.offset_ns = offset;
        let at = stamp
            .filter(|_| slewed)
            .map(|stamp| stamp - offset)
            .filter(|at| (0..=mono).contains(at));
        // Not negative, as above.
        at.unwrap_or(mono) as u64
    }
}

/// The buffer for ancillary data, aligned as its headers require.
#[repr(align(8))]
struct Control([u8; CONTROL]);

/// Returns the kernel's timestamp, nanoseconds of the wall clock.
fn stamp(message: &libc::msghdr) -> Option<i128> {
    // SAFETY: the kernel filled in the message; its control data is alive and as long as it says.
    let header = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    if header.cmsg_level != libc::SOL_SOCKET || header.cmsg_type != libc::SCM_TIMESTAMPNS {
        return None;
    }
    // SAFETY: a header of this type is followed by a timespec.
    let time = unsafe {
        libc::CMSG_DATA(header)
            .cast::<libc::timespec>()
            .read_unaligned()
    };
    Some(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec))
}

fn socket_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let storage: *const libc::sockaddr_storage = storage;
    // SAFETY: the storage is larger than either form, and the family says which it holds.
    unsafe {
        match i32::from((*storage).ss_family) {
            libc::AF_INET => {
                let v4 = &*storage.cast::<libc::sockaddr_in>();
                let ip = std::net::Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 => {
                let v6 = &*storage.cast::<libc::sockaddr_in6>();
                let ip = std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddr::new(ip.into(), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }
}

/// Returns a socket while which lives the kernel stamps what arrives. It begins some time after the first socket asks for it; until
/// then it stamps what is read.
#[cfg(test)]
pub(crate) fn stamping(any: SocketAddr) -> Stamped {
    let mut here = Stamped::bind(any).unwrap();
    let there = UdpSocket::bind(any).unwrap();
    let to = here.socket().local_addr().unwrap();
    let stamps = (0..30_000).any(|_| {
        there.send_to(&[7; 20], to).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let read = mono_ns();
        let came = here.take(&mut [0; 32]).unwrap();
        came.is_some_and(|came| came.at_ns + 1_000_000 < read)
    });
    assert!(stamps, "the kernel stamps nothing");
    while here.take(&mut [0; 32]).unwrap().is_some() {}
    here
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_datagram_says_when_it_came_not_when_it_was_read() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let mut here = stamping(any.parse().unwrap());
            let there = UdpSocket::bind(any).unwrap();
            let mut buffer = [0; 32];
            assert!(here.take(&mut buffer).unwrap().is_none());
            let to = here.socket().local_addr().unwrap();
            let before = mono_ns();
            there.send_to(&[7; 20], to).unwrap();
            let after = mono_ns();
            // The reader is away for a while.
            std::thread::sleep(Duration::from_millis(30));
            here.wait(1_000_000_000).unwrap();
            let came = here.take(&mut buffer).unwrap().unwrap();
            assert_eq!(came.length, 20);
            assert_eq!(came.from, there.local_addr().unwrap());
            // Two clocks are read one after the other: a microsecond or so off.
            let slack = 100_000;
            assert!(
                (before - slack..=after + slack).contains(&came.at_ns),
                "{before} {} {after}",
                came.at_ns
            );
        }
    }

    #[test]
    fn a_wall_clock_that_was_set_is_not_believed() {
        let mut socket = Stamped::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        socket.offset_ns = 1_000;
        assert_eq!(socket.arrival(500, 1_500, Some(1_400)), 400);
        // Set back by an hour after the stamp, then quiet.
        let hour = 3_600_000_000_000;
        assert_eq!(socket.arrival(600, 1_600 - hour, Some(1_550)), 600);
        assert_eq!(socket.arrival(700, 1_700 - hour, Some(1_690 - hour)), 690);
        // No stamp; one from the future.
        assert_eq!(socket.arrival(800, 1_800 - hour, None), 800);
        assert_eq!(socket.arrival(900, 1_900 - hour, Some(2_000 - hour)), 900);
    }
}
