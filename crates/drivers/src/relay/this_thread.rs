//! The calling thread of the host: its clocks, and its scheduling by the kernel.

use constel_link::Nanos;

use super::sched::{Host, Priority};
use crate::clock::{mono_ns, thread_cpu_ns};

/// The calling thread.
pub(crate) struct ThisThread;

impl Host for ThisThread {
    fn now_ns(&self) -> Nanos {
        mono_ns()
    }

    fn cpu_ns(&self) -> Nanos {
        thread_cpu_ns()
    }

    fn set_real_time(&self, wanted: bool) -> bool {
        if wanted {
            schedule(libc::SCHED_FIFO, 50)
        } else {
            schedule(libc::SCHED_OTHER, 0)
        }
    }
}

/// Sets up the calling thread, once.
pub(crate) fn set_up(priority: Priority) {
    // SAFETY: calls about the calling thread, with plain values.
    unsafe {
        // Timers of threads without real-time priority are 50 us late by default.
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        let tid = libc::syscall(libc::SYS_gettid) as libc::id_t;
        libc::setpriority(libc::PRIO_PROCESS, tid, -20);
    }
    if priority == Priority::RealTime {
        ThisThread.set_real_time(true);
    }
}

/// Changes the calling thread's scheduling. Returns false if the kernel does not allow it.
fn schedule(policy: i32, priority: i32) -> bool {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: about the calling thread, with a local.
    unsafe {
        libc::sched_setscheduler(0, policy | libc::SCHED_RESET_ON_FORK, &raw const param) == 0
    }
}
