//! Signals that end a verb from outside: Ctrl-C, a supervisor, a closed terminal.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Signals that request a regular end.
const ENDING: [i32; 5] = [
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
    // Ctrl-\.
    signal_hook::consts::SIGQUIT,
    // The limit of processor time is reached; the process is killed a second later.
    signal_hook::consts::SIGXCPU,
];

/// Signals that would kill a process which does not handle them, and leave a crashed lab.
const UNUSED: [i32; 7] = [
    signal_hook::consts::SIGUSR1,
    signal_hook::consts::SIGUSR2,
    signal_hook::consts::SIGALRM,
    signal_hook::consts::SIGVTALRM,
    signal_hook::consts::SIGPROF,
    signal_hook::consts::SIGIO,
    // A file has reached its size limit; writing then returns an error.
    signal_hook::consts::SIGXFSZ,
];

/// Further signals that would do the same, by their numbers in Linux: `SIGSTKFLT`, `SIGPWR`, and real-time signals.
const UNNAMED: [RangeInclusive<i32>; 3] = [16..=16, 30..=30, 34..=64];

/// From now on each signal that requests an end sets all `flags` instead of killing the process, and unused signals have no
/// effect.
pub(crate) fn set(flags: &[&Arc<AtomicBool>]) -> io::Result<()> {
    for signal in ENDING {
        for &flag in flags {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
        }
    }
    for signal in UNUSED.into_iter().chain(UNNAMED.into_iter().flatten()) {
        // Not `SIG_IGN`, because programs would inherit it.
        match signal_hook::flag::register(signal, Arc::default()) {
            // A C library may keep the first real-time signals for itself.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            registered => {
                registered?;
            }
        }
    }
    Ok(())
}
