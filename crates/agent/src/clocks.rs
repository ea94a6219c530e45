//! The two clocks of an agent, and what is drawn at random.

use std::fs::File;
use std::io::{self, Read};

use rustix::time::{ClockId, clock_gettime};

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// For leases: it runs while the machine sleeps, and is never set.
pub(crate) fn lease_ns() -> u64 {
    read_ns(ClockId::Boottime)
}

/// The wall clock, since 1970: what machines compare.
pub(crate) fn wall_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

/// The wall clock less `CLOCK_MONOTONIC`, which nobody sets.
pub(crate) fn wall_ahead_ns() -> i64 {
    let (wall, mono) = (wall_ns(), read_ns(ClockId::Monotonic));
    // Both fit for some centuries.
    i64::try_from(wall).unwrap_or(i64::MAX) - i64::try_from(mono).unwrap_or(i64::MAX)
}

/// `CLOCK_MONOTONIC`.
pub(crate) fn mono_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// A number that nobody guesses.
pub(crate) fn drawn() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}
