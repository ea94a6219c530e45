//! Offset of this process's clocks from the kernel's own (`time_namespaces(7)`).

use std::fs;
use std::io::ErrorKind;

use crate::error::{Error, Result};

const OFFSETS: &str = "/proc/self/timens_offsets";

/// A clock that a time namespace may shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`; BPF programs read the kernel's own.
    Monotonic,
    /// `CLOCK_BOOTTIME`, and with it the start times of processes in `/proc`.
    Boottime,
}

/// Returns the nanoseconds that this process's time namespace adds to the kernel's own clock.
///
/// # Errors
/// [`Error::Os`] when the kernel's list cannot be read, [`Error::Protocol`] when it does not contain the clock.
pub fn ahead_of_kernel_ns(clock: Clock) -> Result<i64> {
    match fs::read_to_string(OFFSETS) {
        Ok(text) => offset_ns(&text, clock).ok_or_else(|| Error::Protocol {
            what: format!("read {OFFSETS}"),
            detail: format!("{text:?}"),
        }),
        // A kernel without time namespaces.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(source) => Err(Error::os(format!("read {OFFSETS}"), source)),
    }
}

/// Parses lines with a clock's name, seconds, and nanoseconds.
fn offset_ns(offsets: &str, clock: Clock) -> Option<i64> {
    let name = match clock {
        Clock::Monotonic => "monotonic ",
        Clock::Boottime => "boottime ",
    };
    let line = offsets.lines().find_map(|line| line.strip_prefix(name));
    let mut numbers = line?.split_whitespace().map(str::parse::<i64>);
    let (seconds, ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let monotonic_ns = |text| offset_ns(text, Clock::Monotonic);
        let text = "monotonic     4320000         7\nboottime            1         0\n";
        assert_eq!(monotonic_ns(text), Some(4_320_000_000_000_007));
        assert_eq!(monotonic_ns("monotonic  -5  0\n"), Some(-5_000_000_000));
        for wrong in ["", "boottime 1 0", "monotonic x 0", "monotonic 1"] {
            assert_eq!(monotonic_ns(wrong), None);
        }
        let boottime_ns = |text| offset_ns(text, Clock::Boottime);
        let text = "monotonic           5         0\nboottime        86400  20000000\n";
        assert_eq!(boottime_ns(text), Some(86_400_020_000_000));
        assert_eq!(boottime_ns("boottime -3 0"), Some(-3_000_000_000));
        assert_eq!(boottime_ns(""), None);
    }
}
