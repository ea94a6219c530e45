//! Threads that wait behind everything else of the machine.

use rustix::process::setpriority_process;

/// The niceness of threads that only display data: a tenth of a lab's share if both need the processor.
const NICE: i32 = 10;

/// Lowers the priority of this thread below the lab's and the nodes' threads, because viewers must not change the
/// measurements. Never use it for a thread that starts programs, which would inherit the priority.
pub(crate) fn step_back() {
    // If the system refuses this, the priority stays.
    let _ = setpriority_process(None, NICE);
}
