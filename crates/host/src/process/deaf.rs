//! Processes that receive no announcements of the kernel over netlink.
//!
//! Linux offers every announcement in any network namespace to every socket of the host that has joined a group of its
//! protocol, one after the other. With thousands of routing daemons that listen to `RTNLGRP_IPV4_ROUTE`, each route of
//! any of them costs thousands of such checks. A socket joins groups when it is bound, so a process whose `bind` of
//! netlink addresses fails does not listen. Requests and their answers need no binding.
//!
//! This is done by a seccomp filter, which can read numbers but not memory: it recognises a netlink address by its
//! length, 12 bytes. Other addresses have 16 (IPv4), 28 (IPv6), 110 or as many as a path needs (Unix), 20 (packet). The
//! filter is not a security boundary.

use std::mem::offset_of;

use super::filter::{ARCHITECTURE, answer, argument, jump, load, take_on};

/// `struct sockaddr_nl`.
const NETLINK_ADDRESS_BYTES: u32 = size_of::<libc::sockaddr_nl>() as u32;

/// Continues if equal, otherwise skips `skip` instructions.
const fn unless(value: u32, skip: u8) -> libc::sock_filter {
    jump(libc::BPF_JEQ, value, 0, skip)
}

static FILTER: [libc::sock_filter; 8] = [
    load(offset_of!(libc::seccomp_data, arch)),
    unless(ARCHITECTURE, 5),
    load(offset_of!(libc::seccomp_data, nr)),
    unless(libc::SYS_bind as u32, 3),
    load(argument(2)),
    unless(NETLINK_ADDRESS_BYTES, 1),
    answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    answer(libc::SECCOMP_RET_ALLOW),
];

/// Applies the filter to the calling thread, to the programs that it executes and to their children; see [`take_on`].
pub(super) fn enter() -> Result<(), i32> {
    take_on(&FILTER)
}
