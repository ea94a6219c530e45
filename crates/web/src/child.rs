//! Programs that browsers started, and how they end.

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a program may take to end once it was asked to.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Waits for the end of a program that was told to end; kills one that does not.
pub(crate) fn end(child: &mut Child) {
    let end = Instant::now() + END_WITHIN;
    while Instant::now() < end {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(child.kill());
    drop(child.wait());
}

/// Asks a program to end, and waits for that.
pub(crate) fn terminate(child: &mut Child) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended just now.
        let _ = kill_process(pid, Signal::TERM);
    }
    end(child);
}
