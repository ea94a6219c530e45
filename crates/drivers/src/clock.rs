//! `CLOCK_MONOTONIC`, which equals the clock of `bpf_ktime_get_ns` except in another time namespace.

use constel_link::Nanos;

fn read(clock: libc::clockid_t) -> Nanos {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    t.tv_sec as Nanos * 1_000_000_000 + t.tv_nsec as Nanos
}

/// Returns nanoseconds on `CLOCK_MONOTONIC`, the clock of all instants that the relay takes and returns.
#[must_use]
pub fn mono_ns() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns the CPU time of the calling thread.
pub(crate) fn thread_cpu_ns() -> Nanos {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}
