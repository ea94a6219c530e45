//! Clock readings and random numbers for an agent.

use std::fs::File;
use std::io::{self, Read};

use rustix::time::{ClockId, clock_gettime};

use crate::store::Error;

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Returns the time for leases, in nanoseconds. `CLOCK_BOOTTIME` also runs while the machine sleeps, and is never set.
pub(crate) fn lease_ns() -> u64 {
    read_ns(ClockId::Boottime)
}

/// Returns the wall clock minus `CLOCK_MONOTONIC`, in nanoseconds. The value changes when the wall clock is set.
pub(crate) fn wall_ahead_ns() -> i64 {
    // An interruption between the two readings makes the difference wrong, so the closest of five pairs is used.
    let read = |_| {
        let before = mono_ns();
        let wall = read_ns(ClockId::Realtime);
        let after = mono_ns();
        let mono = i128::from(before) + i128::from(after - before) / 2;
        (after - before, i128::from(wall) - mono)
    };
    let closest = (0..5).map(read).min();
    // An `i64` of nanoseconds lasts for some centuries.
    closest.map_or(0, |(_, ahead)| i64::try_from(ahead).unwrap_or(i64::MAX))
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds. Machines compare this clock because it is never set.
pub(crate) fn mono_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Returns an unpredictable number.
///
/// # Errors
/// The error of the operating system.
pub(crate) fn drawn() -> io::Result<u64> {
    drawn_bytes().map(u64::from_be_bytes)
}

fn drawn_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Returns unpredictable bytes, for values that go into the store.
///
/// # Errors
/// [`Error::Invalid`] with the message of the operating system.
pub(crate) fn random_bytes<const N: usize>() -> crate::store::Result<[u8; N]> {
    drawn_bytes().map_err(|e| Error::Invalid(format!("/dev/urandom: {e}")))
}
