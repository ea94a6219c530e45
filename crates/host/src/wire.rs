//! Interfaces of the host that exist independently of Constel: they are inspected, never changed permanently. Every
//! setting ends with the descriptor that requested it.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::error::{Context, Result};

/// IEEE 802's EtherType for local experiments.
const EXPERIMENTAL: u16 = 0x88b5;
/// A multicast group of our own, which switches forward like any other.
const PROBE_GROUP: [u8; 6] = [0x03, 0xc5, 0x74, 0, 0, 1];
const PROBE_BYTES: usize = 60;
const TOKEN_AT: usize = 18;
const OUTGOING: u8 = 4;
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GFLAGS: u32 = 0x25;
const LARGE_RECEIVE: u32 = 1 << 15;

pub(crate) fn packet_socket(protocol: u16) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain system call; the result is checked.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, i32::from(protocol.to_be())) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds the socket to frames of this EtherType on this interface.
pub(crate) fn bind_to(socket: &OwnedFd, ifindex: u32, protocol: u16) -> io::Result<()> {
    let address = address_of(ifindex, protocol);
    // SAFETY: pointer and length describe `address`.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    checked(result as libc::ssize_t).map(|_| ())
}

fn address_of(ifindex: u32, protocol: u16) -> libc::sockaddr_ll {
    // SAFETY: plain old data.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = ifindex as i32;
    address
}

fn checked(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Keeps an interface in promiscuous mode while this is held. It stays promiscuous for other programs that requested
/// it.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Requests it for an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when there is no such interface, or without `CAP_NET_RAW`.
    pub fn hold(ifindex: u32) -> Result<Promiscuous> {
        let what = || format!("receive frames for others on interface {ifindex}");
        // Protocol 0: the socket itself receives no frames.
        let socket = packet_socket(0).context(what)?;
        // SAFETY: plain old data.
        let mut request: libc::packet_mreq = unsafe { std::mem::zeroed() };
        request.mr_ifindex = ifindex as i32;
        request.mr_type = libc::PACKET_MR_PROMISC as u16;
        // SAFETY: pointer and length describe `request`.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const request).cast(),
                size_of::<libc::packet_mreq>() as libc::socklen_t,
            )
        };
        checked(result as libc::ssize_t).context(what)?;
        Ok(Promiscuous { _socket: socket })
    }
}

/// Returns whether the hardware merges received frames in a way that cannot be undone (LRO); false if the interface
/// does not report it.
#[must_use]
pub fn merges_frames(interface: &str) -> bool {
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        data: *mut libc::c_void,
        rest: [u64; 2],
    }
    let mut words = [ETHTOOL_GFLAGS, 0];
    let mut request = Request {
        name: [0; 16],
        data: words.as_mut_ptr().cast(),
        rest: [0; 2],
    };
    let (Ok(socket), true) = (packet_socket(0), interface.len() < 16) else {
        return false;
    };
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    // SAFETY: the request and the two words it points to outlive the call, which writes the second.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    result == 0 && words[1] & LARGE_RECEIVE != 0
}

/// Sends a frame on each of these interfaces and listens for a while on all. Returns the pairs (sent on, received on)
/// of interfaces between which a path exists already, by a cable, a switch or a bridge. On such wires, frames of a box
/// would circulate for ever.
///
/// # Errors
/// [`Error::Os`](crate::Error::Os) when sending or receiving on an interface fails.
pub fn find_loops(interfaces: &[u32], listen: Duration) -> Result<Vec<(u32, u32)>> {
    let what = || "look for loops".to_owned();
    let all = libc::ETH_P_ALL as u16;
    let mut sockets = Vec::new();
    for &ifindex in interfaces {
        let socket = packet_socket(all).context(what)?;
        bind_to(&socket, ifindex, all).context(what)?;
        sockets.push(socket);
    }
    let mut token = [0u8; 16];
    // SAFETY: the length is that of the buffer.
    let drawn = unsafe { libc::getrandom(token.as_mut_ptr().cast(), token.len(), 0) };
    checked(drawn).context(what)?;
    for (socket, ifindex) in sockets.iter().zip(interfaces) {
        let mut frame = [0u8; PROBE_BYTES];
        frame[..6].copy_from_slice(&PROBE_GROUP);
        frame[6..12].copy_from_slice(&[0x02, 0xc5, 0x74, 0, 0, 2]);
        frame[12..14].copy_from_slice(&EXPERIMENTAL.to_be_bytes());
        frame[14..TOKEN_AT].copy_from_slice(&ifindex.to_be_bytes());
        frame[TOKEN_AT..TOKEN_AT + token.len()].copy_from_slice(&token);
        // SAFETY: the length is that of the buffer.
        let sent = unsafe {
            libc::send(
                socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
            )
        };
        checked(sent).context(|| format!("send on interface {ifindex}"))?;
    }
    let mut loops = Vec::new();
    let end = Instant::now() + listen;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut fds: Vec<libc::pollfd> = sockets
            .iter()
            .map(|socket| libc::pollfd {
                fd: socket.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        // SAFETY: pointer and count describe `fds`.
        let ready = unsafe {
            libc::poll(
                fds.as_mut_ptr(),
                fds.len() as libc::nfds_t,
                left.as_millis() as i32,
            )
        };
        if left.is_zero() || ready == 0 {
            break;
        }
        for (socket, seen_on) in sockets.iter().zip(interfaces) {
            while let Some(sent_on) = probe_in(socket, &token) {
                loops.push((sent_on, *seen_on));
            }
        }
    }
    loops.sort_unstable();
    loops.dedup();
    Ok(loops)
}

/// Returns the interface on which a probe was sent that waits in this socket; all other frames are discarded.
fn probe_in(socket: &OwnedFd, token: &[u8; 16]) -> Option<u32> {
    loop {
        let mut frame = [0u8; PROBE_BYTES];
        let mut from = address_of(0, 0);
        let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: pointers and lengths describe `frame` and `from`.
        let got = unsafe {
            libc::recvfrom(
                socket.as_raw_fd(),
                frame.as_mut_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
                (&raw mut from).cast(),
                &raw mut len,
            )
        };
        let got = checked(got).ok()?;
        let own = from.sll_pkttype == OUTGOING;
        if !own && got >= TOKEN_AT + token.len() && frame[TOKEN_AT..].starts_with(token) {
            let [a, b, c, d] = [frame[14], frame[15], frame[16], frame[17]];
            return Some(u32::from_be_bytes([a, b, c, d]));
        }
    }
}
