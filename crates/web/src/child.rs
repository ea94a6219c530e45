//! Programs that browsers started, and how they end.

use std::process::Child;

use constel_host::process::end_child;
use rustix::process::{Pid, Signal, kill_process};

/// Requests a program to end, and waits for its end.
pub(crate) fn terminate(child: &mut Child) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended just now.
        let _ = kill_process(pid, Signal::TERM);
    }
    end_child(child);
}
