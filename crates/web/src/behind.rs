//! Threads that wait behind everything else of the machine.

use rustix::process::setpriority_process;

/// The niceness of threads that only show what is: a tenth of a lab's share where both want the processor.
const NICE: i32 = 10;

/// From now on this thread waits behind the lab's and the nodes': who looks must not change what is measured. Never for a
/// thread that starts programs, which would be born behind, too.
pub(crate) fn step_back() {
    // Where it is refused it is as it was.
    let _ = setpriority_process(None, NICE);
}
