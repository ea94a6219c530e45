//! What ends a verb from outside: Ctrl-C, a supervisor, a closed terminal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Signals that ask a verb to end in good order.
const ENDING: [i32; 5] = [
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
    // Ctrl-\.
    signal_hook::consts::SIGQUIT,
    // A limit of processor time is reached, and a second later the process is killed.
    signal_hook::consts::SIGXCPU,
];

/// Signals that would end a process which has no use for them, and leave a dead lab.
const UNUSED: [i32; 7] = [
    signal_hook::consts::SIGUSR1,
    signal_hook::consts::SIGUSR2,
    signal_hook::consts::SIGALRM,
    signal_hook::consts::SIGVTALRM,
    signal_hook::consts::SIGPROF,
    signal_hook::consts::SIGIO,
    // A file is at its limit: writing it is an error then.
    signal_hook::consts::SIGXFSZ,
];

/// From now on each of those that ask for an end sets all `flags` and ends nothing by itself; those without a use do nothing.
pub(crate) fn set(flags: &[&Arc<AtomicBool>]) -> io::Result<()> {
    for signal in ENDING {
        for &flag in flags {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
        }
    }
    for signal in UNUSED {
        // Not `SIG_IGN`, which programs would inherit.
        signal_hook::flag::register(signal, Arc::default())?;
    }
    Ok(())
}
