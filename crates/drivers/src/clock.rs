//! `CLOCK_MONOTONIC`: but for another time namespace's, the clock of `bpf_ktime_get_ns`.

use constel_link::Nanos;

use crate::error::{DriverError, Result};

fn read(clock: libc::clockid_t) -> Nanos {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    t.tv_sec as Nanos * 1_000_000_000 + t.tv_nsec as Nanos
}

/// Nanoseconds on `CLOCK_MONOTONIC`: the clock of all times the relay takes and gives.
#[must_use]
pub fn mono_ns() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// By how much our clock is ahead of the kernel's own, which its programs read: those of time namespaces are.
pub(crate) fn ahead_of_kernel_ns() -> Result<i64> {
    match std::fs::read_to_string("/proc/self/timens_offsets") {
        Ok(text) => monotonic_ns(&text)
            .ok_or_else(|| DriverError::Unable(format!("/proc/self/timens_offsets says {text:?}"))),
        // A kernel without time namespaces.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(source) => Err(DriverError::Os {
            what: "read /proc/self/timens_offsets".to_owned(),
            source,
        }),
    }
}

/// Lines of a clock's name, seconds, and nanoseconds that are added to them.
fn monotonic_ns(offsets: &str) -> Option<i64> {
    let line = offsets
        .lines()
        .find_map(|line| line.strip_prefix("monotonic "));
    let mut numbers = line?.split_whitespace().map(str::parse::<i64>);
    let (seconds, ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu_ns() -> Nanos {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let text = "monotonic     4320000         7\nboottime            1         0\n";
        assert_eq!(monotonic_ns(text), Some(4_320_000_000_000_007));
        assert_eq!(monotonic_ns("monotonic  -5  0\n"), Some(-5_000_000_000));
        for wrong in ["", "boottime 1 0", "monotonic x 0", "monotonic 1"] {
            assert_eq!(monotonic_ns(wrong), None);
        }
    }
}
