//! Frames of one EtherType on an existing interface: sent and received below IP, without reading any of the interface's
//! other traffic.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::error::{Context, Error, Result};
use crate::netlink::{Mac, Socket};
use crate::wire::{bind_to, packet_socket};

/// Length of both addresses and the EtherType.
pub const HEADER_BYTES: usize = 14;

/// Returns the header of a frame.
#[must_use]
pub fn header(to: [u8; 6], from: [u8; 6], ether_type: u16) -> [u8; HEADER_BYTES] {
    let [high, low] = ether_type.to_be_bytes();
    let mut header = [0; HEADER_BYTES];
    header[..6].copy_from_slice(&to);
    header[6..12].copy_from_slice(&from);
    header[12..].copy_from_slice(&[high, low]);
    header
}

/// Returns the sender of a frame, and the bytes behind its header; `None`: it is too short for one.
pub fn split(frame: &mut [u8]) -> Option<([u8; 6], &mut [u8])> {
    let (header, rest) = frame.split_at_mut_checked(HEADER_BYTES)?;
    let (_, from) = header.split_first_chunk::<6>()?;
    Some((*from.first_chunk()?, rest))
}

/// An interface on which frames can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The interface's index.
    pub ifindex: u32,
    /// The interface's address.
    pub address: Mac,
    /// Maximum bytes of a frame behind its header.
    pub mtu_bytes: u32,
}

impl Interface {
    /// Finds an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// [`Error::Invalid`] when no interface has this name, or it is not Ethernet; the kernel's error.
    pub fn named(name: &str) -> Result<Self> {
        let links = Socket::open()?.links()?;
        let Some(link) = links.into_iter().find(|link| link.name == name) else {
            return Err(Error::Invalid(format!("no interface is called {name}")));
        };
        // The loopback interface has an all-zero address.
        let address = link.mac.filter(|address| address.0 != [0; 6]);
        let address = address.ok_or_else(|| {
            Error::Invalid(format!(
                "{name} has no Ethernet address: it carries IP alone"
            ))
        })?;
        Ok(Self {
            name: link.name,
            ifindex: link.ifindex,
            address,
            mtu_bytes: link.mtu,
        })
    }
}

/// Filter of received frames.
#[derive(Debug, Clone, Copy)]
pub enum Filter<'a> {
    /// Frames that a BPF program of the type "socket filter" accepts.
    Program(BorrowedFd<'a>),
    /// Frames that begin with these bytes, behind the header.
    Begins([u8; 4]),
}

/// A socket for frames of one EtherType, each with its header. It never blocks.
#[derive(Debug)]
pub struct EthernetSocket(OwnedFd);

impl EthernetSocket {
    /// Opens a socket on an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// The kernel's error: without `CAP_NET_RAW`, or when the interface is gone.
    pub fn open(ifindex: u32, ether_type: u16, filter: Filter<'_>) -> Result<Self> {
        let what = || format!("open a socket for frames on interface {ifindex}");
        // Without a protocol, so that no frame is received before the filter is attached.
        let socket = packet_socket(0).context(what)?;
        let filtered = match filter {
            Filter::Program(program) => set(&socket, libc::SO_ATTACH_BPF, &program.as_raw_fd()),
            Filter::Begins(bytes) => {
                let mut code = begins_with(bytes);
                let program = libc::sock_fprog {
                    len: code.len() as u16,
                    filter: code.as_mut_ptr(),
                };
                set(&socket, libc::SO_ATTACH_FILTER, &program)
            }
        };
        filtered.context(what)?;
        bind_to(&socket, ifindex, ether_type).context(what)?;
        Ok(Self(socket))
    }
}

impl AsFd for EthernetSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set<T>(socket: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: pointer and length describe `value`; the target of a filter's pointer lives until the call is over.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Classic BPF: accepts the whole frame if its first word equals this one, otherwise nothing.
fn begins_with(bytes: [u8; 4]) -> [libc::sock_filter; 4] {
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let word = u32::from_be_bytes(bytes);
    [
        step(
            libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
            0,
            HEADER_BYTES as u32,
        ),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, word),
        step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_header_says_is_read_back() {
        let mut frame = header([1; 6], [2; 6], 0x88b5).to_vec();
        assert_eq!(frame, [&[1; 6][..], &[2; 6], &[0x88, 0xb5]].concat());
        assert_eq!(split(&mut frame), Some(([2; 6], &mut [][..])));
        frame.push(7);
        assert_eq!(split(&mut frame), Some(([2; 6], &mut [7][..])));
        assert_eq!(split(&mut frame[..13]), None);
    }
}
