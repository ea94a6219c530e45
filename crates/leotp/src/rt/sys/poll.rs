//! Waiting, waking, signals, netlink sockets, processor time.

use super::check;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// An epoll set.
#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the descriptor returned is ours alone.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // Deadlines are met to the microsecond, not to the default 50 us slack.
        // SAFETY: prctl with plain integers; fd has no other owner.
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1000);
            Ok(Self(OwnedFd::from_raw_fd(fd)))
        }
    }

    pub(crate) fn add(&self, fd: RawFd, token: u64) -> io::Result<()> {
        let mut e = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: token,
        };
        // SAFETY: `e` is valid for the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut e) })
            .map(|_| ())
    }

    /// Waits for readable descriptors at most `wait_ns`; appends their tokens.
    pub(crate) fn wait(&self, wait_ns: u64, ready: &mut Vec<u64>) -> io::Result<()> {
        // SAFETY: all-zero is a valid epoll_event.
        let mut ev: [libc::epoll_event; 16] = unsafe { zeroed() };
        let ts = libc::timespec {
            tv_sec: (wait_ns / 1_000_000_000) as i64,
            tv_nsec: (wait_ns % 1_000_000_000) as i64,
        };
        // By number: musl has no function of the name.
        // SAFETY: the array has 16 entries, the timespec is valid, no signal mask.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.0.as_raw_fd(),
                ev.as_mut_ptr(),
                16,
                &raw const ts,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        match check(n as i32) {
            Ok(n) => ready.extend(ev[..n as usize].iter().map(|e| e.u64)),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

/// An eventfd.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor returned is ours alone.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A netlink socket.
pub(crate) fn netlink(protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor returned is ours alone.
    let fd = check(unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            protocol,
        )
    })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

static FLAG: AtomicPtr<AtomicBool> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn on_signal(_: i32) {
    let p = FLAG.load(Ordering::Relaxed);
    if !p.is_null() {
        // SAFETY: only ever set to a `&'static AtomicBool`.
        unsafe { (*p).store(true, Ordering::Relaxed) };
    }
}

/// Sets `flag` on SIGINT and SIGTERM.
pub(crate) fn on_stop_signals(flag: &'static AtomicBool) -> io::Result<()> {
    FLAG.store(std::ptr::from_ref(flag).cast_mut(), Ordering::Relaxed);
    for s in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic; the structure is zeroed
        // and then given a handler of the right type.
        unsafe {
            let mut a: libc::sigaction = zeroed();
            a.sa_sigaction = on_signal as extern "C" fn(i32) as usize;
            check(libc::sigaction(s, &raw const a, std::ptr::null_mut()))?;
        }
    }
    Ok(())
}

/// User and system time, s.
pub(crate) fn cpu_seconds() -> f64 {
    // SAFETY: getrusage fills the zeroed structure.
    let u = unsafe {
        let mut u: libc::rusage = zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut u);
        u
    };
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    s(u.ru_utime) + s(u.ru_stime)
}

/// Makes the soft limit of open files the hard one.
pub(crate) fn raise_open_files() -> io::Result<()> {
    // SAFETY: getrlimit fills the zeroed structure, setrlimit only reads it.
    unsafe {
        let mut limit: libc::rlimit = zeroed();
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
        limit.rlim_cur = limit.rlim_max;
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)).map(|_| ())
    }
}

/// Locks an open file for this process, until it is closed; `false`: another process has it.
pub(crate) fn lock_file(file: &impl AsRawFd) -> io::Result<bool> {
    // SAFETY: a plain system call on a descriptor that is open.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}
