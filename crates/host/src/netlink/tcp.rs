//! Ending of TCP connections whose owners are gone (`sock_diag(7)`, `SOCK_DESTROY`).
//!
//! A killed program's connection with unacknowledged data lives on in the kernel, retransmits for minutes, and keeps
//! its namespace alive. When a namespace is removed, such connections must be ended at once.

use std::io;

use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket as Raw, SocketAddr};

use super::socket::{set_receive_timeout, walk};
use crate::error::{Context, Result};
use crate::netns::NetNs;

/// `SOCK_DIAG_BY_FAMILY`: list sockets.
const LIST: u16 = 20;
/// `SOCK_DESTROY`: end one.
const DESTROY: u16 = 21;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const DONE: u16 = 3;
const ERROR: u16 = 2;

/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// `struct inet_diag_sockid`.
const SOCKET_ID: usize = 48;
/// Offset of the id in `struct inet_diag_msg`.
const ID_IN_ANSWER: usize = 4;

/// Ends every TCP connection of the namespace, and returns how many there were. Listening sockets are left: they end
/// with their owners.
///
/// # Errors
/// When the kernel does not list sockets, or cannot end them: [unsupported](crate::Error::is_unsupported) without
/// `CONFIG_INET_DIAG_DESTROY`.
pub fn destroy_tcp(ns: &NetNs) -> Result<usize> {
    let what = || "end TCP connections".to_owned();
    let mut raw = {
        let _inside = ns.enter()?;
        // Listing walks the host's whole table of connections, which is avoided for a namespace without any.
        if !has_tcp() {
            return Ok(0);
        }
        Raw::new(NETLINK_SOCK_DIAG).context(what)?
    };
    raw.bind_auto().context(what)?;
    raw.connect(&SocketAddr::new(0, 0)).context(what)?;
    set_receive_timeout(&raw, std::time::Duration::from_secs(10))?;
    let mut ended = 0;
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        for id in list(&raw, family)? {
            raw.send(&message(DESTROY, REQUEST | ACK, family, &id), 0)
                .context(what)?;
            match answer(&raw)? {
                0 => ended += 1,
                // It has ended by itself since.
                libc::ENOENT => {}
                errno => return Err(io::Error::from_raw_os_error(errno)).context(what),
            }
        }
    }
    Ok(ended)
}

/// Returns whether the calling thread's namespace has TCP sockets, by its own count. True if that is unknown.
fn has_tcp() -> bool {
    ["sockstat", "sockstat6"].iter().any(|file| {
        let Ok(text) = std::fs::read_to_string(format!("/proc/thread-self/net/{file}")) else {
            return *file == "sockstat";
        };
        // "TCP: inuse 0 orphan 0 ...", "TCP6: inuse 0"
        !text
            .lines()
            .any(|line| line.starts_with("TCP") && line.contains(": inuse 0"))
    })
}

/// Returns `nlmsghdr` and `inet_diag_req_v2` for all TCP states except LISTEN (1 << 10).
fn message(kind: u16, flags: u16, family: u8, id: &[u8; SOCKET_ID]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + 8 + SOCKET_ID);
    out.extend(((HEADER + 8 + SOCKET_ID) as u32).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(flags.to_ne_bytes());
    out.extend([0; 8]);
    out.extend([family, libc::IPPROTO_TCP as u8, 0, 0]);
    out.extend((!(1u32 << 10)).to_ne_bytes());
    out.extend(id);
    out
}

/// Returns the ids of all connections of a family.
fn list(raw: &Raw, family: u8) -> Result<Vec<[u8; SOCKET_ID]>> {
    let what = || "list TCP connections".to_owned();
    raw.send(&message(LIST, REQUEST | DUMP, family, &[0; SOCKET_ID]), 0)
        .context(what)?;
    let (mut ids, mut errno, mut done) = (Vec::new(), 0, false);
    let mut buffer = Vec::with_capacity(64 * 1024);
    while !done {
        buffer.clear();
        raw.recv(&mut buffer, 0).context(what)?;
        walk(&buffer, &mut |message| {
            match message.kind {
                DONE => done = true,
                ERROR => (errno, done) = (errno_of(message.payload), true),
                _ => ids.extend(
                    message
                        .payload
                        .get(ID_IN_ANSWER..)
                        .and_then(|rest| rest.first_chunk().copied()),
                ),
            }
            Ok(())
        })?;
    }
    match errno {
        0 => Ok(ids),
        // The kernel was built without diagnosis for this family: then it lists no such sockets.
        libc::ENOENT if family == libc::AF_INET6 as u8 => Ok(ids),
        _ => Err(io::Error::from_raw_os_error(errno)).context(what),
    }
}

/// Returns the error number of the answer to a request; 0 for success.
fn answer(raw: &Raw) -> Result<i32> {
    let mut buffer = Vec::with_capacity(4096);
    raw.recv(&mut buffer, 0)
        .context(|| "end a TCP connection".to_owned())?;
    let mut errno = 0;
    walk(&buffer, &mut |message| {
        if message.kind == ERROR {
            errno = errno_of(message.payload);
        }
        Ok(())
    })?;
    Ok(errno)
}

fn errno_of(payload: &[u8]) -> i32 {
    payload
        .first_chunk()
        .map_or(0, |code| i32::from_ne_bytes(*code).saturating_neg())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connections_end_and_others_live() {
        let ns = NetNs::new().unwrap();
        let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
        let untouched = TcpStream::connect(elsewhere.local_addr().unwrap()).unwrap();
        let (mut client, _server) = ns
            .run(|| {
                crate::netlink::Socket::open()
                    .and_then(|mut s| s.send(crate::netlink::Batch::new().link_up(1)))
                    .unwrap();
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                (client, listener.accept().unwrap())
            })
            .unwrap();
        // Ending one end resets the other, which may be gone before its turn.
        assert!((1..=2).contains(&destroy_tcp(&ns).unwrap()));
        let errno = client.read(&mut [0; 1]).unwrap_err().raw_os_error();
        assert!(
            [Some(libc::ECONNABORTED), Some(libc::ECONNRESET)].contains(&errno),
            "{errno:?}"
        );
        assert_eq!(destroy_tcp(&ns).unwrap(), 0);
        assert!(untouched.take_error().unwrap().is_none());
    }
}
