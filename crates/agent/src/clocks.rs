//! The clocks of an agent, and what is drawn at random.

use std::fs::File;
use std::io::{self, Read};

use constel_store::Error;
use rustix::time::{ClockId, clock_gettime};

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// For leases: it runs while the machine sleeps, and is never set.
pub(crate) fn lease_ns() -> u64 {
    read_ns(ClockId::Boottime)
}

/// The wall clock less `CLOCK_MONOTONIC`. It changes when somebody sets the wall clock.
pub(crate) fn wall_ahead_ns() -> i64 {
    // Whoever is interrupted between the readings is wrong by that: the closest of some is taken.
    let read = |_| {
        let before = mono_ns();
        let wall = read_ns(ClockId::Realtime);
        let after = mono_ns();
        let mono = i128::from(before) + i128::from(after - before) / 2;
        (after - before, i128::from(wall) - mono)
    };
    let closest = (0..5).map(read).min();
    // Fits for some centuries.
    closest.map_or(0, |(_, ahead)| i64::try_from(ahead).unwrap_or(i64::MAX))
}

/// `CLOCK_MONOTONIC`, which nobody sets: what machines compare.
pub(crate) fn mono_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// A number that nobody can guess.
///
/// # Errors
/// The operating system's.
pub(crate) fn drawn() -> io::Result<u64> {
    drawn_bytes().map(u64::from_be_bytes)
}

fn drawn_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Bytes that nobody can guess, for what a store is told.
///
/// # Errors
/// [`Error::Invalid`], with the operating system's words.
pub(crate) fn drawn_to_tell<const N: usize>() -> constel_store::Result<[u8; N]> {
    drawn_bytes().map_err(|e| Error::Invalid(format!("/dev/urandom: {e}")))
}
