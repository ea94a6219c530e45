//! What is in a loaded object.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{Map, MapCore, Object, Program};

use crate::error::{BpfError, Result};
use crate::mapped::Mapped;

/// BPF's ELF reader wants the object aligned.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Aligned<T: ?Sized>(pub T);

/// A map by its name.
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

/// A program by its name.
///
/// # Errors
/// [`BpfError::Mismatch`] when the object has none of this name.
pub fn program<'a>(object: &'a Object, name: &str) -> Result<Program<'a>> {
    let found = object.progs().find(|program| program.name() == name);
    found.ok_or_else(|| BpfError::Mismatch(format!("the BPF object has no program {name}")))
}

/// An object's constants (its `.rodata`), if they are those that its source has, in the order of their definition: in
/// a wrong order they would send frames astray.
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

/// Which frames of an interface a program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Those that come in.
    Ingress,
    /// Those that go out.
    Egress,
}

/// The same by a link, on either side: the program is taken off when the descriptor closes, and so with the process that holds it.
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
    // SAFETY: a fresh descriptor that nobody else owns.
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
