//! Watching for changes by other software in the stacks of many namespaces, with one socket for all of them.
//!
//! The kernel offers every announcement on the host to every netlink socket that has joined its group, one after the
//! other. With a socket per namespace, each change in any namespace would be offered as many times as there are
//! namespaces. One socket with `NETLINK_LISTEN_ALL_NSID` receives from all namespaces that have a number in its own
//! namespace, and needs one descriptor. A filter in the kernel drops the announcements of our own changes, and those of
//! changes that do not affect our configuration.

use std::collections::BTreeSet;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Mutex;

use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use netlink_sys::{Socket as Raw, SocketAddr};

use super::batch::{Batch, NLMSG_HDRLEN};
use super::filters::NFT_MSG_NEWGEN;
use super::socket::{Socket, force_buffer};
use super::types::ROUTE_PROTOCOL;
use crate::error::{Context, Error, Result};
use crate::netns::NetNs;

/// The netlink port of our own sockets in watched namespaces. Ports are numbered per namespace.
pub(super) const OWN_PORT: u32 = 0x0c05_7e11;

/// Room for announcements of some thousand routes that are deleted when an interface goes down.
const RECEIVE_BUFFER_BYTES: i32 = 8 << 20;

/// Maximum number of announcements read by one call, so that a namespace with constant changes does not block the
/// reader.
const AT_ONCE: usize = 4_096;

const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;

/// Groups of announcements.
const GROUPS: [u32; 8] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_TC,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_RULE,
    // `RTNLGRP_IPV6_RULE`, `RTNLGRP_IPV4_NETCONF` and `RTNLGRP_IPV6_NETCONF`.
    19,
    24,
    25,
];
/// Groups for objects that a lab with computed routes also configures.
const GROUPS_OF_ROUTES: [u32; 3] = [
    libc::RTNLGRP_NEIGH,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
];
/// `NFNLGRP_NFTABLES` of the kernel's `nfnetlink.h`.
const GROUP_OF_FILTERS: u32 = 7;

/// Announcements since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Numbers of namespaces with changes.
    pub ids: BTreeSet<u32>,
    /// Whether announcements were lost because there were more than fit: every namespace may have changed.
    pub lost: bool,
}

/// Receives announcements of changes in the namespaces that were [added](StackWatch::add).
#[derive(Debug)]
pub struct StackWatch {
    raw: Raw,
    /// Announcements of nftables; `None` on a kernel without.
    filters: Option<Raw>,
    /// Numbers namespaces. It belongs to the namespace of `raw`, in which no program runs.
    numbers: Mutex<Socket>,
}

impl StackWatch {
    /// Watches interfaces, addresses, rules, queueing disciplines and packet filters (nftables) and, with `routes`,
    /// routes and neighbours as well. No namespace is watched yet.
    ///
    /// # Errors
    /// [`Error::Os`] when no namespace or socket is available.
    pub fn open(routes: bool) -> Result<StackWatch> {
        NetNs::new()?.run(|| Self::open_here(routes))?
    }

    fn open_here(routes: bool) -> Result<StackWatch> {
        let routes = GROUPS_OF_ROUTES.into_iter().filter(|_| routes);
        let groups: Vec<u32> = GROUPS.into_iter().chain(routes).collect();
        Ok(StackWatch {
            raw: listen(NETLINK_ROUTE, &FILTER, &groups)?,
            filters: listen(NETLINK_NETFILTER, &FILTER_OF_FILTERS, &[GROUP_OF_FILTERS]).ok(),
            numbers: Mutex::new(Socket::open()?),
        })
    }

    /// Watches this namespace too from now on, and reports it by this number, which must be unique.
    ///
    /// # Errors
    /// When the kernel refuses: the namespace is watched already, or the number is taken.
    pub fn add(&self, ns: BorrowedFd<'_>, id: u32) -> Result<()> {
        let mut body = vec![0; 4];
        for (kind, value) in [(NETNSA_NSID, id), (NETNSA_FD, ns.as_raw_fd() as u32)] {
            body.extend(8u16.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(value.to_ne_bytes());
        }
        let mut batch = Batch::new();
        batch.push_bytes(libc::RTM_NEWNSID, 0, &body);
        let numbers = self.numbers.lock();
        numbers.unwrap_or_else(|e| e.into_inner()).send(&mut batch)
    }

    /// Returns the announcements so far that were not read yet, without blocking. The kernel announces a change before
    /// the request that made it returns.
    ///
    /// # Errors
    /// [`Error::Os`] when the socket fails.
    pub fn drain(&self) -> Result<Touched> {
        let mut touched = Touched::default();
        for raw in [Some(&self.raw), self.filters.as_ref()]
            .into_iter()
            .flatten()
        {
            for _ in 0..AT_ONCE {
                match next(raw) {
                    Ok(Some(id)) => touched.ids.extend(id),
                    Ok(None) => break,
                    Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                        touched.lost = true;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Error::os("read announced changes", error)),
                }
            }
        }
        Ok(touched)
    }
}

/// Returns a socket that receives the announcements of these groups, as far as the program keeps them, from all
/// namespaces with a number.
fn listen(protocol: isize, filter: &'static [libc::sock_filter], groups: &[u32]) -> Result<Raw> {
    let what = || "watch namespaces for changes".to_string();
    let mut raw = Raw::new(protocol).context(what)?;
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    set_option(&raw, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program).context(what)?;
    set_option(
        &raw,
        libc::SOL_NETLINK,
        libc::NETLINK_LISTEN_ALL_NSID,
        &1i32,
    )
    .context(what)?;
    raw.bind(&SocketAddr::new(0, 0)).context(what)?;
    force_buffer(
        &raw,
        libc::SO_RCVBUFFORCE,
        libc::SO_RCVBUF,
        RECEIVE_BUFFER_BYTES,
    )?;
    for group in groups {
        raw.add_membership(*group).context(what)?;
    }
    Ok(raw)
}

/// Returns the namespace number of the next announcement, if it has one; `None`: there is no announcement.
fn next(raw: &Raw) -> io::Result<Option<Option<u32>>> {
    // The announcement itself is not read: the caller reads the stack, which has the present state.
    let mut header = [0u8; NLMSG_HDRLEN];
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: header.as_mut_ptr().cast(),
        iov_len: header.len(),
    };
    // SAFETY: a msghdr of zeros is a valid one: no address, no parts, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: `message` points to live buffers of the stated lengths, which outlive the call.
    let got = unsafe {
        libc::recvmsg(
            raw.as_raw_fd(),
            &raw mut message,
            libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC,
        )
    };
    if got < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock => Ok(None),
            _ => Err(error),
        };
    }
    Ok(Some(number(&message)))
}

/// Buffer for control messages, with their alignment.
#[repr(align(8))]
struct Control([u8; 64]);

/// Returns the number of the namespace that a received message is from.
fn number(message: &libc::msghdr) -> Option<u32> {
    // SAFETY: the kernel filled the control data, and `message` states its length; CMSG_FIRSTHDR stays within it.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: `at` is not null, so it points to a whole header within the control data.
        let header = unsafe { at.read_unaligned() };
        let ours = header.cmsg_level == libc::SOL_NETLINK
            && header.cmsg_type == libc::NETLINK_LISTEN_ALL_NSID;
        if ours {
            // SAFETY: this control message carries one i32 behind its header.
            let id = unsafe { libc::CMSG_DATA(at).cast::<i32>().read_unaligned() };
            return u32::try_from(id).ok();
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    None
}

fn set_option<T>(raw: &Raw, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the option value is a live `T` of the stated length.
    let set = unsafe {
        libc::setsockopt(
            raw.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns a load of this size at this offset of the announcement. The result is in network order on every host.
const fn load(size: u32, at: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | size | libc::BPF_ABS, at, 0, 0)
}

/// Returns a jump that skips `yes` instructions if the comparison with the loaded value is true, otherwise `no`.
const fn skip(how: u32, value: u32, yes: u8, no: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | how | libc::BPF_K, value, yes, no)
}

const fn verdict(bytes: u32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, bytes, 0, 0)
}

const fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Returns a two-byte number as a load in network order returns it.
const fn short(value: u16) -> u32 {
    u16::from_be_bytes(value.to_ne_bytes()) as u32
}

const KEEP: libc::sock_filter = verdict(u32::MAX);
const DROP: libc::sock_filter = verdict(0);

/// `nlmsg_type`, `nlmsg_flags` and `nlmsg_pid` of the header; then `rtm_protocol` of a route, `ndm_family` and `ndm_state`
/// of a neighbour.
const TYPE_AT: u32 = 4;
const FLAGS_AT: u32 = 6;
const PORT_AT: u32 = 12;
const ROUTE_PROTOCOL_AT: u32 = 16 + 5;
const NEIGHBOUR_FAMILY_AT: u32 = 16;
const NEIGHBOUR_STATE_AT: u32 = 16 + 8;

/// Drops announcements of: our own changes; new routes next to ours; deleted routes of other software; neighbours that
/// the kernel finds by itself.
static FILTER: [libc::sock_filter; 19] = [
    load(libc::BPF_W, PORT_AT),
    skip(
        libc::BPF_JEQ,
        u32::from_be_bytes(OWN_PORT.to_ne_bytes()),
        16,
        0,
    ),
    load(libc::BPF_H, TYPE_AT),
    skip(libc::BPF_JEQ, short(libc::RTM_NEWROUTE), 4, 0),
    skip(libc::BPF_JEQ, short(libc::RTM_DELROUTE), 5, 0),
    skip(libc::BPF_JEQ, short(libc::RTM_NEWNEIGH), 7, 0),
    skip(libc::BPF_JEQ, short(libc::RTM_DELNEIGH), 11, 0),
    KEEP,
    // A new route matters if it replaces another.
    load(libc::BPF_H, FLAGS_AT),
    skip(libc::BPF_JSET, short(libc::NLM_F_REPLACE as u16), 7, 8),
    // A deleted route matters if it is ours, or one of those that come with an address.
    load(libc::BPF_B, ROUTE_PROTOCOL_AT),
    skip(libc::BPF_JEQ, ROUTE_PROTOCOL as u32, 5, 0),
    skip(libc::BPF_JEQ, libc::RTPROT_KERNEL as u32, 4, 5),
    // A neighbour matters if it is or was permanent. When an entry is deleted, the kernel first marks it as failed. The
    // deletion is then announced as the kernel's own action, even if it was ours.
    load(libc::BPF_B, NEIGHBOUR_FAMILY_AT),
    skip(libc::BPF_JEQ, libc::AF_BRIDGE as u32, 3, 0),
    load(libc::BPF_H, NEIGHBOUR_STATE_AT),
    skip(
        libc::BPF_JSET,
        short(libc::NUD_PERMANENT | libc::NUD_FAILED),
        0,
        1,
    ),
    KEEP,
    DROP,
];

/// Keeps the announcement that ends each change of nftables, of which a change with many rules has one.
static FILTER_OF_FILTERS: [libc::sock_filter; 4] = [
    load(libc::BPF_H, TYPE_AT),
    skip(libc::BPF_JEQ, short(NFT_MSG_NEWGEN), 0, 1),
    KEEP,
    DROP,
];
