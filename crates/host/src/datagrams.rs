//! Sending and receiving many datagrams, or frames, with one system call.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

/// Maximum number sent or received at once.
pub const MOST_AT_ONCE: usize = 64;

/// A socket address, in the kernel's layout.
#[derive(Clone, Copy)]
#[repr(C)]
union Name {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
    /// The longest variant, for the addresses of packet sockets.
    frame: libc::sockaddr_ll,
}

impl Name {
    /// Returns the address with its length.
    fn of(address: SocketAddr) -> (Self, usize) {
        match address {
            SocketAddr::V4(address) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(address.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                (Self { v4 }, size_of::<libc::sockaddr_in>())
            }
            SocketAddr::V6(address) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: address.ip().octets(),
                    },
                    sin6_scope_id: address.scope_id(),
                };
                (Self { v6 }, size_of::<libc::sockaddr_in6>())
            }
        }
    }

    fn address(&self) -> Option<SocketAddr> {
        // SAFETY: all variants begin with the family, which determines the rest; any bytes are valid for each.
        unsafe {
            match i32::from(self.family) {
                libc::AF_INET => {
                    let ip = Ipv4Addr::from(self.v4.sin_addr.s_addr.to_ne_bytes());
                    Some(SocketAddrV4::new(ip, u16::from_be(self.v4.sin_port)).into())
                }
                libc::AF_INET6 => {
                    let v6 = self.v6;
                    let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                    let port = u16::from_be(v6.sin6_port);
                    Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
                }
                _ => None,
            }
        }
    }
}

/// A datagram to be sent: its destination and bytes. `None`: the destination of the connected socket.
pub type Outgoing = (Option<SocketAddr>, Vec<u8>);

/// Sends all of these, each behind `head`, without blocking. Returns how many were sent. A datagram that the kernel
/// refuses does not stop the others.
///
/// # Panics
/// With more than [`MOST_AT_ONCE`].
pub fn send_all(socket: &impl AsFd, head: &[u8], datagrams: &[Outgoing]) -> usize {
    assert!(datagrams.len() <= MOST_AT_ONCE, "{}", datagrams.len());
    // SAFETY: plain old data, of which zeros are valid.
    let (mut names, mut parts, mut messages) = unsafe {
        (
            zeroed::<[Name; MOST_AT_ONCE]>(),
            zeroed::<[[libc::iovec; 2]; MOST_AT_ONCE]>(),
            zeroed::<[libc::mmsghdr; MOST_AT_ONCE]>(),
        )
    };
    for (place, (to, bytes)) in datagrams.iter().enumerate() {
        parts[place] = [head, bytes].map(|part| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        });
        let header = &mut messages[place].msg_hdr;
        header.msg_iov = parts[place].as_mut_ptr();
        header.msg_iovlen = 2;
        if let Some(to) = to {
            let (name, length) = Name::of(*to);
            names[place] = name;
            header.msg_name = (&raw mut names[place]).cast();
            header.msg_namelen = length as libc::socklen_t;
        }
    }
    let (mut sent, mut next) = (0, 0);
    while next < datagrams.len() {
        // SAFETY: these messages and their targets are the locals from above and the arguments they were made of.
        let taken = unsafe {
            libc::sendmmsg(
                socket.as_fd().as_raw_fd(),
                messages[next..].as_mut_ptr(),
                (datagrams.len() - next) as u32,
                libc::MSG_DONTWAIT,
            )
        };
        match usize::try_from(taken) {
            Ok(taken) if taken > 0 => {
                sent += taken;
                next += taken;
            }
            // The first of them was refused; the ones behind it may be accepted.
            _ => next += 1,
        }
    }
    sent
}

/// Buffers for datagrams that are received at once.
pub struct Incoming {
    bytes: Vec<u8>,
    room: usize,
    names: [Name; MOST_AT_ONCE],
    lengths: [usize; MOST_AT_ONCE],
    count: usize,
}

impl Incoming {
    /// Creates buffers of `room` bytes each; longer datagrams are truncated.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self {
            bytes: vec![0; room * MOST_AT_ONCE],
            room,
            // SAFETY: plain old data, of which zeros are valid.
            names: unsafe { zeroed() },
            lengths: [0; MOST_AT_ONCE],
            count: 0,
        }
    }

    /// Receives the available datagrams without blocking, in place of earlier ones. Returns how many there are.
    ///
    /// # Errors
    /// The kernel's error: no datagram is available (`EAGAIN`), or an error about one that was sent before.
    pub fn receive(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        self.count = 0;
        // SAFETY: plain old data, of which zeros are valid.
        let (mut parts, mut messages) = unsafe {
            (
                zeroed::<[libc::iovec; MOST_AT_ONCE]>(),
                zeroed::<[libc::mmsghdr; MOST_AT_ONCE]>(),
            )
        };
        for (place, bytes) in self.bytes.chunks_exact_mut(self.room).enumerate() {
            parts[place] = libc::iovec {
                iov_base: bytes.as_mut_ptr().cast(),
                iov_len: bytes.len(),
            };
            let header = &mut messages[place].msg_hdr;
            header.msg_iov = &raw mut parts[place];
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut self.names[place]).cast();
            header.msg_namelen = size_of::<Name>() as libc::socklen_t;
        }
        // SAFETY: each message points to its own room, which outlives the call.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                messages.as_mut_ptr(),
                MOST_AT_ONCE as u32,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        self.count = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        for (length, message) in self.lengths.iter_mut().zip(&messages[..self.count]) {
            *length = message.msg_len as usize;
        }
        Ok(self.count)
    }

    /// Returns the received datagrams: their bytes and sources; `None`: the socket is not an IP socket.
    pub fn received(&mut self) -> impl Iterator<Item = (&mut [u8], Option<SocketAddr>)> {
        let all = self.bytes.chunks_exact_mut(self.room);
        let told = self.lengths.iter().zip(&self.names);
        let all = all.zip(told).take(self.count);
        all.map(|(bytes, (length, name))| (&mut bytes[..*length], name.address()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Over the loopback, by both families: bytes, order and where they came from; one that cannot go holds up no other.
    #[test]
    fn many_go_and_come_at_once() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let sockets = [(); 2].map(|()| UdpSocket::bind(address).unwrap());
            let [from, to] = sockets.each_ref().map(|s| s.local_addr().unwrap());
            let mut incoming = Incoming::new(100);
            let nothing = incoming.receive(&sockets[1]).unwrap_err();
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
            let mut out: Vec<Outgoing> = (0..5).map(|n| (Some(to), vec![n; 10])).collect();
            // Longer than any datagram can be.
            out[2].1 = vec![0; 70_000];
            out[4].1 = vec![4; 200];
            assert_eq!(send_all(&sockets[0], b"head", &out), 4);
            assert_eq!(incoming.receive(&sockets[1]).unwrap(), 4);
            let got: Vec<_> = incoming
                .received()
                .map(|(bytes, from)| (bytes.to_vec(), from))
                .collect();
            let sent = [0, 1, 3].map(|n| ([&b"head"[..], &[n; 10]].concat(), Some(from)));
            assert_eq!(got[..3], sent);
            assert_eq!(got[3].0.len(), 100, "cut off");
        }
    }
}
