//! Maps, programs and constants of a loaded object, and attaching its programs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{Map, MapCore, Object, Program};

use crate::bpf::error::{BpfError, Result};
use crate::bpf::mapped::Mapped;

/// Bytes aligned as BPF's ELF reader requires.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Aligned<T: ?Sized>(pub T);

/// Returns the map of this name.
///
/// # Errors
/// [`BpfError::Mismatch`] when the object has none of this name.
pub fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| BpfError::Mismatch(format!("the BPF object has no map {name}")))
}

/// The first `bytes` bytes of an array's memory, in whole pages.
///
/// # Errors
/// When the object has no such map, or the kernel does not share it.
pub fn mapped(object: &Object, name: &str, bytes: usize) -> Result<Mapped> {
    let len = bytes.next_multiple_of(page_bytes());
    Mapped::new(name, map(object, name)?.as_fd(), len, 0, true)
}

/// Returns the program of this name.
///
/// # Errors
/// [`BpfError::Mismatch`] when the object has none of this name.
pub fn program<'a>(object: &'a Object, name: &str) -> Result<Program<'a>> {
    let found = object.progs().find(|program| program.name() == name);
    found.ok_or_else(|| BpfError::Mismatch(format!("the BPF object has no program {name}")))
}

/// Returns an object's constants (its `.rodata`), if they equal those of its source in the order of their definition.
/// Constants written in a wrong order would send frames to wrong ports.
///
/// # Errors
/// [`BpfError::Mismatch`] when they are others.
pub fn constants<'a>(value: Option<&'a mut [u8]>, expected: &[u32]) -> Result<&'a mut [u8]> {
    let expected: Vec<u8> = expected.iter().flat_map(|c| c.to_ne_bytes()).collect();
    value.filter(|value| **value == *expected).ok_or_else(|| {
        BpfError::Mismatch("the BPF object's constants are not those expected".into())
    })
}

/// Attach a program to the ingress of an interface *of the calling thread's namespace*.
///
/// Attached without a link: no descriptor is kept, and the program goes with the interface.
///
/// # Errors
/// When the object has no such program, or the kernel refuses.
pub fn attach(object: &Object, name: &str, ifindex: u32) -> Result<()> {
    let found = program(object, name)?;
    attach_tcx(found.as_fd(), ifindex).map_err(|source| BpfError::Os {
        what: format!("attach {name} to interface {ifindex}"),
        source,
    })
}

/// Side of an interface, which decides the frames that a program receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Frames that enter the node at the interface.
    Ingress,
    /// Frames that leave the node at the interface.
    Egress,
}

/// Attaches a program by a link, on either side. The kernel detaches it when the descriptor closes, thus at the latest
/// when the process that holds it ends.
///
/// # Errors
/// When the object has no such program, or the kernel refuses.
pub fn link(object: &Object, name: &str, ifindex: u32, side: Side) -> Result<OwnedFd> {
    let refused = |source| BpfError::Os {
        what: format!("attach {name} to interface {ifindex}"),
        source,
    };
    let found = program(object, name)?;
    let target = i32::try_from(ifindex).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV));
    let target = target.map_err(refused)?;
    // SAFETY: plain descriptor and index; no options are passed.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(
            found.as_fd().as_raw_fd(),
            target,
            match side {
                Side::Ingress => libbpf_sys::BPF_TCX_INGRESS,
                Side::Egress => libbpf_sys::BPF_TCX_EGRESS,
            },
            std::ptr::null(),
        )
    };
    if fd < 0 {
        return Err(refused(io::Error::from_raw_os_error(-fd)));
    }
    // SAFETY: a fresh descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attach_tcx(program: BorrowedFd<'_>, ifindex: u32) -> io::Result<()> {
    let target = i32::try_from(ifindex).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: plain descriptor and index; no options are passed.
    let result = unsafe {
        libbpf_sys::bpf_prog_attach_opts(
            program.as_raw_fd(),
            target,
            libbpf_sys::BPF_TCX_INGRESS,
            std::ptr::null(),
        )
    };
    if result < 0 {
        Err(io::Error::from_raw_os_error(-result))
    } else {
        Ok(())
    }
}

/// Bytes of a page of memory.
#[must_use]
pub fn page_bytes() -> usize {
    // SAFETY: no pointers are involved.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
