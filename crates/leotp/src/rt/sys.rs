//! The system calls, and the only unsafe code of the crate.
#![allow(
    unsafe_code,
    reason = "sendmmsg, recvmmsg, epoll_pwait2 and socket options have no safe form in std"
)]

use crate::Nanos;
use crate::core::{HopLimit, Path};
mod clocks;
mod poll;
pub(crate) mod tcp;
mod trains;

use clocks::{at_once, wall_clock};
pub(crate) use poll::{
    Epoll, cpu_seconds, eventfd, lock_file, netlink, on_stop_signals, raise_open_files,
};
use trains::Trains;
pub(crate) use trains::{Outgoing, TxBuffer};

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest time that a datagram waits in a socket's buffer, ns.
const MAX_AGE_NS: u64 = 1_000_000_000;
const UDP_SEGMENT: i32 = 103;
const UDP_GRO: i32 = 104;
const IPV6_ORIGDSTADDR: i32 = 74;
/// Room per received datagram: a whole GRO train.
const RX_ROOM: usize = 65_536;
/// Datagrams per recvmmsg.
const RX_BATCH: usize = 8;
/// Segments and bytes one GSO send may carry.
const GSO_SEGMENTS: usize = 60;
const GSO_BYTES: usize = 65_000;
/// Messages per sendmmsg.
const TX_BATCH: usize = 64;

fn check(r: i32) -> io::Result<i32> {
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(r)
    }
}

/// The purpose of a socket.
#[derive(Debug, Clone, Copy, Default)]
pub struct SocketOptions {
    /// IP_TRANSPARENT: receive and send with addresses of others (needs CAP_NET_ADMIN).
    pub transparent: bool,
    /// Bytes of receive buffer to request; 0: the kernel's default.
    pub recv_buffer: usize,
    /// Bytes of send buffer to request; 0: the kernel's default.
    pub send_buffer: usize,
}

/// A UDP socket that knows both addresses of every datagram.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    local: SocketAddr,
    transparent: bool,
    gso: AtomicBool,
}

fn set_opt(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let p: *const i32 = &raw const value;
    // SAFETY: `p` points at an i32 that outlives the call, as its length states.
    check(unsafe { libc::setsockopt(fd, level, name, p.cast(), size_of::<i32>() as u32) })
        .map(|_| ())
}

/// A socket address in the kernel's form.
fn to_raw(a: SocketAddr) -> (libc::sockaddr_storage, u32) {
    // SAFETY: all-zero bytes are a valid sockaddr_storage.
    let mut s: libc::sockaddr_storage = unsafe { zeroed() };
    let p = &raw mut s;
    match a {
        SocketAddr::V4(a) => {
            let v = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: a.port().to_be(),
                sin_addr: in_addr(*a.ip()),
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is larger than and aligned for sockaddr_in.
            unsafe { p.cast::<libc::sockaddr_in>().write(v) };
            (s, size_of::<libc::sockaddr_in>() as u32)
        }
        SocketAddr::V6(a) => {
            let v = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: a.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: a.ip().octets(),
                },
                sin6_scope_id: a.scope_id(),
            };
            // SAFETY: sockaddr_storage is larger than and aligned for sockaddr_in6.
            unsafe { p.cast::<libc::sockaddr_in6>().write(v) };
            (s, size_of::<libc::sockaddr_in6>() as u32)
        }
    }
}

fn in_addr(a: Ipv4Addr) -> libc::in_addr {
    libc::in_addr {
        s_addr: u32::from_ne_bytes(a.octets()),
    }
}

fn from_v4(v: &libc::sockaddr_in) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(
        Ipv4Addr::from(v.sin_addr.s_addr.to_ne_bytes()),
        u16::from_be(v.sin_port),
    ))
}

fn from_v6(v: &libc::sockaddr_in6) -> SocketAddr {
    SocketAddr::V6(SocketAddrV6::new(
        Ipv6Addr::from(v.sin6_addr.s6_addr),
        u16::from_be(v.sin6_port),
        0,
        v.sin6_scope_id,
    ))
}

fn from_raw(s: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let p: *const libc::sockaddr_storage = s;
    match i32::from(s.ss_family) {
        // SAFETY: the family gives the type that the kernel has written.
        libc::AF_INET => Some(from_v4(unsafe { &*p.cast() })),
        // SAFETY: as above.
        libc::AF_INET6 => Some(from_v6(unsafe { &*p.cast() })),
        _ => None,
    }
}

impl Socket {
    /// Opens and binds.
    ///
    /// # Errors
    /// The kernel's: an address that is taken or not here, missing rights.
    pub fn bind(local: SocketAddr, o: SocketOptions) -> io::Result<Self> {
        let domain = if local.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        // SAFETY: a plain system call without pointers.
        let fd = check(unsafe {
            libc::socket(
                domain,
                libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
                0,
            )
        })?;
        // SAFETY: the call above has just returned this descriptor; it has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let raw = fd.as_raw_fd();
        let v6 = local.is_ipv6();
        if v6 {
            set_opt(raw, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
            set_opt(raw, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        } else {
            set_opt(raw, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
        }
        if o.transparent {
            set_opt(raw, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
            if v6 {
                set_opt(raw, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1)?;
                set_opt(raw, libc::IPPROTO_IPV6, IPV6_ORIGDSTADDR, 1)?;
                set_opt(raw, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
            } else {
                set_opt(raw, libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1)?;
                set_opt(raw, libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR, 1)?;
                set_opt(raw, libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
            }
        }
        for (size, force, plain) in [
            (o.recv_buffer, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
            (o.send_buffer, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ] {
            // More than the limit needs CAP_NET_ADMIN; without it the limit must do.
            if size > 0 && set_opt(raw, libc::SOL_SOCKET, force, size as i32).is_err() {
                set_opt(raw, libc::SOL_SOCKET, plain, size as i32)?;
            }
        }
        // When a datagram came, not when this process got to it: the wait for a
        // busy processor must not pass for a queue on the link.
        set_opt(raw, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        // Trains of segments where the kernel has them; single datagrams where not.
        let _ = set_opt(raw, libc::SOL_UDP, UDP_GRO, 1);
        let (s, len) = to_raw(local);
        // SAFETY: `s` holds an address of `len` bytes.
        check(unsafe { libc::bind(raw, (&raw const s).cast(), len) })?;
        // SAFETY: all-zero is valid; getsockname fills at most `len` bytes of it.
        let (mut s, mut len): (libc::sockaddr_storage, u32) = (
            unsafe { zeroed() },
            size_of::<libc::sockaddr_storage>() as u32,
        );
        // SAFETY: both pointers are valid for the call.
        check(unsafe { libc::getsockname(raw, (&raw mut s).cast(), &raw mut len) })?;
        let local = from_raw(&s).ok_or_else(|| io::Error::other("socket without address"))?;
        Ok(Self {
            fd,
            local,
            transparent: o.transparent,
            gso: AtomicBool::new(true),
        })
    }

    /// The bound address.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Asks the kernel which local address a packet to `remote` would have.
    ///
    /// # Errors
    /// The kernel's: no route.
    pub fn source_for(remote: SocketAddr) -> io::Result<IpAddr> {
        let any: SocketAddr = if remote.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let s = std::net::UdpSocket::bind(any)?;
        s.connect(remote)?;
        Ok(s.local_addr()?.ip())
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Receives the available datagrams, up to one batch; `f` gets every datagram, with trains
    /// already cut, its time of arrival by `clock`, ns, and, if the socket is transparent, its
    /// TTL or hop limit. Returns the number of messages from the kernel.
    pub(crate) fn recv(
        &self,
        rx: &mut RxBuffers,
        clock: impl Fn() -> Nanos,
        mut f: impl FnMut(Path, Nanos, HopLimit, &[u8]),
    ) -> io::Result<usize> {
        let msgs = rx.prepare();
        // SAFETY: every message points into buffers owned by `rx`, set up just now.
        let n = unsafe {
            libc::recvmmsg(
                self.raw(),
                msgs,
                RX_BATCH as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let n = match check(n) {
            Ok(n) => n as usize,
            Err(e)
                if e.kind() == io::ErrorKind::WouldBlock
                    || e.kind() == io::ErrorKind::Interrupted =>
            {
                return Ok(0);
            }
            Err(e) => return Err(e),
        };
        let (now, wall) = at_once(clock, wall_clock);
        for i in 0..n {
            let m = rx.parse(i, self.local);
            let Some(src) = m.src else { continue };
            // If the wall clock was set in the meantime the age makes no sense; the datagram then
            // counts as just received.
            let age = match wall.saturating_sub(m.came_ns.unwrap_or(wall)) {
                age if age < MAX_AGE_NS => age,
                _ => 0,
            };
            let data = &rx.room[i][..m.len];
            for d in data.chunks(m.segment.unwrap_or(m.len).max(1)) {
                f(
                    Path { src, dst: m.dst },
                    now.saturating_sub(age),
                    m.hop_limit,
                    d,
                );
            }
        }
        Ok(n)
    }

    /// Sends datagrams in order, equal neighbours as GSO trains. Returns how
    /// many the kernel refused for good (no route, no room after waiting).
    pub(crate) fn send(&self, tx: &TxBuffer, which: &[usize]) -> u64 {
        let mut refused = 0;
        let mut at = 0;
        while at < which.len() {
            let mut batch = Trains::default();
            let gso = self.gso.load(Ordering::Relaxed);
            at += batch.fill(tx, &which[at..], gso);
            refused += self.send_trains(tx, &mut batch);
        }
        refused
    }

    fn send_trains(&self, tx: &TxBuffer, batch: &mut Trains) -> u64 {
        let mut msgs = batch.messages(tx, self.transparent);
        let mut done = 0;
        let mut refused = 0;
        let mut waits = 0;
        while done < msgs.len() {
            // SAFETY: the messages point into `tx` and `batch`, which outlive the call.
            let n = unsafe {
                libc::sendmmsg(
                    self.raw(),
                    msgs[done..].as_mut_ptr(),
                    (msgs.len() - done) as u32,
                    libc::MSG_DONTWAIT as _,
                )
            };
            if n > 0 {
                done += n as usize;
                continue;
            }
            let e = io::Error::last_os_error();
            match e.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::ENOBUFS) if waits < 20 => {
                    waits += 1;
                    let mut p = libc::pollfd {
                        fd: self.raw(),
                        events: libc::POLLOUT,
                        revents: 0,
                    };
                    // SAFETY: one valid pollfd.
                    unsafe { libc::poll(&raw mut p, 1, 1) };
                }
                Some(libc::EIO | libc::EINVAL) if batch.trains[done].count > 1 => {
                    // This path cannot cut trains; from now on single datagrams.
                    self.gso.store(false, Ordering::Relaxed);
                    let which: Vec<usize> = batch.trains[done..]
                        .iter()
                        .flat_map(|t| batch.which[t.first..t.first + t.count].to_vec())
                        .collect();
                    return refused + self.send(tx, &which);
                }
                _ => {
                    refused += batch.trains[done].count as u64;
                    done += 1;
                }
            }
        }
        refused
    }
}

/// A message: one datagram or a train.
struct Received {
    len: usize,
    src: Option<SocketAddr>,
    dst: SocketAddr,
    /// Length of each datagram of a train but the last.
    segment: Option<usize>,
    /// When it came, ns of the wall clock.
    came_ns: Option<u64>,
    /// TTL or hop limit, of transparent sockets.
    hop_limit: HopLimit,
}

/// Buffers of one receiving thread.
pub(crate) struct RxBuffers {
    room: Vec<Box<[u8]>>,
    names: Vec<libc::sockaddr_storage>,
    control: Vec<[u64; 32]>,
    iov: Vec<libc::iovec>,
    msgs: Vec<libc::mmsghdr>,
}

// SAFETY: the raw pointers inside `iov` and `msgs` point only into the other
// fields' heap memory and `prepare` writes them before every use.
unsafe impl Send for RxBuffers {}

impl RxBuffers {
    pub(crate) fn new() -> Self {
        // SAFETY: all-zero bytes are valid for these plain C structures.
        let (name, iov, msg) = unsafe { (zeroed(), zeroed(), zeroed()) };
        Self {
            room: (0..RX_BATCH)
                .map(|_| vec![0; RX_ROOM].into_boxed_slice())
                .collect(),
            names: vec![name; RX_BATCH],
            control: vec![[0; 32]; RX_BATCH],
            iov: vec![iov; RX_BATCH],
            msgs: vec![msg; RX_BATCH],
        }
    }

    fn prepare(&mut self) -> *mut libc::mmsghdr {
        for i in 0..RX_BATCH {
            self.iov[i] = libc::iovec {
                iov_base: self.room[i].as_mut_ptr().cast(),
                iov_len: RX_ROOM,
            };
            let h = &mut self.msgs[i].msg_hdr;
            h.msg_name = (&raw mut self.names[i]).cast();
            h.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            h.msg_iov = &raw mut self.iov[i];
            h.msg_iovlen = 1;
            h.msg_control = self.control[i].as_mut_ptr().cast();
            h.msg_controllen = size_of::<[u64; 32]>() as _;
            h.msg_flags = 0;
        }
        self.msgs.as_mut_ptr()
    }

    /// Returns the kernel's description of message `i`.
    fn parse(&self, i: usize, local: SocketAddr) -> Received {
        let m = &self.msgs[i];
        let (mut dst, mut segment, mut came_ns) = (local, None, None);
        let mut hop_limit = None;
        let mut original = false;
        // SAFETY: the header and its control buffer have been filled by recvmmsg;
        // the CMSG macros stay inside msg_controllen.
        unsafe {
            let mut c = libc::CMSG_FIRSTHDR(&raw const m.msg_hdr);
            while !c.is_null() {
                let data = libc::CMSG_DATA(c);
                match ((*c).cmsg_level, (*c).cmsg_type) {
                    (libc::SOL_UDP, UDP_GRO) => {
                        segment = Some(data.cast::<i32>().read_unaligned() as usize)
                    }
                    (libc::IPPROTO_IP, libc::IP_TTL)
                    | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                        hop_limit = u8::try_from(data.cast::<i32>().read_unaligned()).ok();
                    }
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let t = data.cast::<libc::timespec>().read_unaligned();
                        came_ns = Some(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64);
                    }
                    (libc::IPPROTO_IP, libc::IP_ORIGDSTADDR) => {
                        dst = from_v4(&data.cast::<libc::sockaddr_in>().read_unaligned());
                        original = true;
                    }
                    (libc::IPPROTO_IPV6, IPV6_ORIGDSTADDR) => {
                        dst = from_v6(&data.cast::<libc::sockaddr_in6>().read_unaligned());
                        original = true;
                    }
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) if !original => {
                        let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                        dst.set_ip(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into());
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if !original => {
                        let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                        dst.set_ip(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                    }
                    _ => {}
                }
                c = libc::CMSG_NXTHDR(&raw const m.msg_hdr, c);
            }
        }
        Received {
            len: (m.msg_len as usize).min(RX_ROOM),
            src: from_raw(&self.names[i]),
            dst,
            segment,
            came_ns,
            hop_limit,
        }
    }
}
