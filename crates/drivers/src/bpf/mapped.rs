//! Memory shared with the kernel.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use crate::bpf::error::{BpfError, Result};

/// A shared mapping of a BPF map or of an AF_XDP ring, unmapped when dropped.
#[derive(Debug)]
pub struct Mapped {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; all access goes through atomics or
// through raw pointers whose users say why they may.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `len` bytes of `fd`, from `offset` on (both in whole pages), faulted in at once. `what` names the mapping
    /// in errors.
    ///
    /// # Errors
    /// When the kernel does not share it.
    pub fn new(
        what: &str,
        fd: BorrowedFd<'_>,
        len: usize,
        offset: i64,
        writable: bool,
    ) -> Result<Mapped> {
        let prot = if writable {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        // SAFETY: a fresh mapping at an address the kernel chooses touches no existing memory.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                prot,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(BpfError::Os {
                what: format!("map {what}"),
                source: io::Error::last_os_error(),
            });
        }
        let at = NonNull::new(at.cast())
            .ok_or_else(|| BpfError::Mismatch(format!("{what} was mapped at address zero")))?;
        Ok(Mapped { at, len })
    }

    /// Bytes mapped.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no mapping is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Pointer to `bytes` bytes at `offset`.
    ///
    /// # Panics
    /// When they are not inside the mapping.
    #[must_use]
    #[inline]
    pub fn ptr(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= self.len),
            "{bytes} bytes at {offset} are outside of a mapping of {}",
            self.len
        );
        // SAFETY: just checked to be inside the mapping.
        unsafe { self.at.as_ptr().add(offset) }
    }

    /// Returns a value of type `T` in the mapping, at `offset`.
    ///
    /// # Panics
    /// When it is not inside the mapping, or not aligned.
    ///
    /// # Safety
    /// `T` must consist of atomics (and padding) only, be aligned at `offset`, and be valid for
    /// all bit patterns, because the kernel writes it at any time.
    #[inline]
    pub unsafe fn shared<T>(&self, offset: usize) -> &T {
        let at = self.ptr(offset, size_of::<T>()).cast::<T>();
        assert!(at.is_aligned(), "misaligned shared value");
        // SAFETY: in bounds and aligned as checked; the caller vouches for the type.
        unsafe { &*at }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; borrows of it end with `self`.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}
