//! How the relay's thread waits: asleep while nothing is due, spinning just before.

use std::os::fd::RawFd;

use constel_link::Nanos;

use super::clock::mono_ns;

/// How the thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Nice -20, normal scheduling.
    Nice,
    /// `SCHED_FIFO` where the kernel allows it, else as [`Priority::Nice`].
    RealTime,
}

/// A real-time thread that never sleeps is stopped by the kernel for 50 ms each second; sleeping
/// this long after each [`RT_SPIN_NS`] keeps it below that.
const RT_REST_NS: Nanos = 40_000;
const RT_SPIN_NS: Nanos = 500_000;

/// The waiting strategy.
#[derive(Debug)]
pub(crate) struct Waiting {
    priority: Priority,
    /// Wake this long before something is due and spin for the rest.
    lead_ns: Nanos,
    real_time: bool,
    last_sleep_ns: Nanos,
}

impl Waiting {
    pub(crate) fn new(priority: Priority, lead_ns: Nanos) -> Waiting {
        Waiting {
            priority,
            lead_ns,
            real_time: false,
            last_sleep_ns: 0,
        }
    }

    /// Set the calling thread up.
    pub(crate) fn enter(&mut self) {
        // SAFETY: calls about the calling thread, with plain values and a local struct.
        unsafe {
            // Timers of normal threads are 50 us late by default.
            libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
            let tid = libc::syscall(libc::SYS_gettid) as libc::id_t;
            libc::setpriority(libc::PRIO_PROCESS, tid, -20);
            if self.priority == Priority::RealTime {
                let param = libc::sched_param { sched_priority: 50 };
                let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
                self.real_time = libc::sched_setscheduler(0, policy, &raw const param) == 0;
            }
        }
        self.last_sleep_ns = mono_ns();
    }

    /// When to wake up if the next thing is due at `due`; `None`: too close, spin.
    pub(crate) fn sleep_until(&self, now: Nanos, due: Nanos) -> Option<Nanos> {
        let wake_at = due.saturating_sub(self.lead_ns);
        if wake_at > now {
            return Some(wake_at);
        }
        if self.real_time && now.saturating_sub(self.last_sleep_ns) > RT_SPIN_NS {
            return Some(now + RT_REST_NS);
        }
        None
    }

    /// Sleep until that time, a frame or the bell.
    pub(crate) fn sleep(&mut self, wake_at: Nanos, frames: RawFd, bell: RawFd) {
        let poll = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut fds = [poll(frames), poll(bell)];
        let left = wake_at.saturating_sub(mono_ns());
        let timeout = libc::timespec {
            tv_sec: (left / 1_000_000_000) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as libc::c_long,
        };
        let timeout = if wake_at == Nanos::MAX {
            std::ptr::null()
        } else {
            &raw const timeout
        };
        // SAFETY: two poll entries and a local timeout; no signal mask.
        unsafe { libc::ppoll(fds.as_mut_ptr(), 2, timeout, std::ptr::null()) };
        self.last_sleep_ns = mono_ns();
    }
}
