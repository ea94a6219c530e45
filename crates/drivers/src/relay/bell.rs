//! Primitives on which a thread sleeps: bells, alarms, and the sleep itself; and the signals of a relay thread.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use constel_link::Nanos;

use crate::clock::mono_ns;
use crate::error::{DriverError, Result};

/// An eventfd that wakes the thread that polls it, until it is read.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    /// # Errors
    /// The kernel has no more descriptors.
    pub(crate) fn new() -> io::Result<Bell> {
        // SAFETY: plain system call; the result is checked.
        owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).map(Bell)
    }

    pub(crate) fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight bytes from a local; an eventfd takes them or is full, and full rings too.
        unsafe { libc::write(self.fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    pub(crate) fn hear(&self) {
        hear(&self.0);
    }

    /// Descriptor that is readable while the bell rings.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A timer that fires at an instant.
#[derive(Debug)]
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    /// # Errors
    /// As [`Bell::new`].
    pub(crate) fn new() -> io::Result<Alarm> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: plain system call; the result is checked.
        owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) }).map(Alarm)
    }

    /// Sets the instant, whatever it was set to before.
    pub(crate) fn set(&self, at_ns: Nanos) {
        // SAFETY: plain old data.
        let mut when: libc::itimerspec = unsafe { std::mem::zeroed() };
        // All zero would disarm the timer.
        when.it_value = timespec(at_ns.max(1));
        // SAFETY: a descriptor of ours and a local.
        unsafe {
            libc::timerfd_settime(
                self.fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const when,
                std::ptr::null_mut(),
            )
        };
    }

    pub(crate) fn hear(&self) {
        hear(&self.0);
    }

    /// Descriptor that is readable once the timer has fired.
    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Sleeps until that time, or until one of these descriptors is readable.
pub(crate) fn sleep<const N: usize>(fds: [Option<RawFd>; N], until: Nanos) {
    // poll ignores negative descriptors.
    let mut fds = fds.map(|fd| libc::pollfd {
        fd: fd.unwrap_or(-1),
        events: libc::POLLIN,
        revents: 0,
    });
    let timeout = timespec(until.saturating_sub(mono_ns()));
    let timeout = if until == Nanos::MAX {
        std::ptr::null()
    } else {
        &raw const timeout
    };
    // SAFETY: N poll entries and a local timeout; no signal mask.
    unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            N as libc::nfds_t,
            timeout,
            std::ptr::null(),
        )
    };
}

fn timespec(ns: Nanos) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn hear(fd: &OwnedFd) {
    let mut count = 0u64;
    // SAFETY: eight bytes into a local; the descriptor does not block.
    unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
}
/// Signals shared with the handles.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Set when there are commands, or the thread must stop.
    pub(crate) attention: AtomicBool,
    pub(crate) stop: AtomicBool,
    /// Wakes the thread from its sleep.
    pub(crate) bell: Bell,
}

impl Signals {
    pub(crate) fn new() -> Result<Signals> {
        let bell = Bell::new().map_err(|source| DriverError::Os {
            what: "make an eventfd".into(),
            source,
        })?;
        Ok(Signals {
            attention: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            bell,
        })
    }

    /// Makes the thread check for commands, unless it sleeps.
    pub(crate) fn attract(&self) {
        self.attention.store(true, Ordering::SeqCst);
    }

    /// Makes the thread check for commands, even if it sleeps.
    pub(crate) fn ring(&self) {
        self.attract();
        self.bell.ring();
    }
}
