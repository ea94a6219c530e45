//! Processes that do not hear what the kernel announces over netlink.
//!
//! Linux offers every announcement in any network namespace to every socket of the host that has joined a group of its
//! protocol, one after the other. Thousands of routing daemons that listen to `RTNLGRP_IPV4_ROUTE` make each route
//! of any of them cost thousands of looks. A socket joins groups when it is bound, so a process whose `bind` of netlink
//! addresses fails does not listen; requests and their answers need no binding.
//!
//! That is a seccomp filter, which sees numbers but no memory: a netlink address is told by its length, 12 bytes. Others
//! have 16 (IPv4), 28 (IPv6), 110 or as many as a path needs (Unix), 20 (packet). It is no security boundary.

use std::ffi::{c_int, c_long};
use std::mem::offset_of;

/// `struct sockaddr_nl`.
const NETLINK_ADDRESS_BYTES: u32 = size_of::<libc::sockaddr_nl>() as u32;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: u32 = 0xc000_00f3;

/// Where the low half of the third argument is: all of these machines are little-endian.
const LENGTH_AT: u32 = (offset_of!(libc::seccomp_data, args) + 2 * size_of::<u64>()) as u32;

const fn load(at: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, at)
}

/// Goes on if equal, else skips so many.
const fn unless(value: u32, skip: u8) -> libc::sock_filter {
    statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, skip, value)
}

const fn answer(value: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, 0, value)
}

const fn statement(code: u32, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    }
}

static FILTER: [libc::sock_filter; 8] = [
    load(offset_of!(libc::seccomp_data, arch) as u32),
    unless(ARCHITECTURE, 5),
    load(offset_of!(libc::seccomp_data, nr) as u32),
    unless(libc::SYS_bind as u32, 3),
    load(LENGTH_AT),
    unless(NETLINK_ADDRESS_BYTES, 1),
    answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    answer(libc::SECCOMP_RET_ALLOW),
];

/// From here on the calling thread, whatever it executes and whatever that forks is deaf. Only a system call: safe
/// between `vfork` and `exec`. Negative, with `errno`, where the kernel has no such filters or we are not root.
pub(super) fn enter() -> c_int {
    let program = libc::sock_fprog {
        len: FILTER.len() as u16,
        // The kernel only reads it.
        filter: FILTER.as_ptr().cast_mut(),
    };
    // Without the flag, older kernels make every branch of the process slow: it is trusted as before.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the program and its filter are live, and copied by the call.
    let done: c_long = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    done as c_int
}
