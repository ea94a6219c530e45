//! What ends a verb from outside: Ctrl-C, a supervisor, a closed terminal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Signals that ask a verb to end in good order.
const ENDING: [i32; 3] = [
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
];

/// From now on each of them sets all `flags`, and ends nothing by itself.
pub(crate) fn set(flags: &[&Arc<AtomicBool>]) -> io::Result<()> {
    for signal in ENDING {
        for &flag in flags {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
        }
    }
    Ok(())
}
