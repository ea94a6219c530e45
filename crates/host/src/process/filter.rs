//! Filters of system calls: their instructions, and how a process installs one.
//!
//! A filter can read a call's number and arguments as numbers, but not memory.

use std::mem::offset_of;

use super::errno;

#[cfg(target_arch = "x86_64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_00f3;

/// Returns the offset of an argument's low half: all of these machines are little-endian.
pub(super) const fn argument(number: usize) -> usize {
    offset_of!(libc::seccomp_data, args) + number * size_of::<u64>()
}

pub(super) const fn load(at: usize) -> libc::sock_filter {
    statement(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        (0, 0),
        at as u32,
    )
}

/// Compares the loaded value, and skips `holds` instructions if the comparison is true, otherwise `fails`.
pub(super) const fn jump(how: u32, value: u32, holds: u8, fails: u8) -> libc::sock_filter {
    statement(libc::BPF_JMP | how | libc::BPF_K, (holds, fails), value)
}

pub(super) const fn answer(value: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, (0, 0), value)
}

const fn statement(code: u32, (jt, jf): (u8, u8), k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Installs the filter for the calling thread, for the programs that it executes and for their children. Makes a single
/// system call: safe between `vfork` and `exec`.
///
/// # Errors
/// The error number, if the kernel does not have such filters or we are not root.
pub(super) fn take_on(filter: &[libc::sock_filter]) -> Result<(), i32> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        // The kernel only reads it.
        filter: filter.as_ptr().cast_mut(),
    };
    // Without the flag, older kernels slow down every branch of the process with speculation mitigations.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the program and its filter are live, and copied by the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    if done < 0 { Err(errno()) } else { Ok(()) }
}
