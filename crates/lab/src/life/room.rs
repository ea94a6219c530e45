//! The resources of this machine for a lab.

use constel_analysis::capacity::{Estimate, MachineCapacity};
use constel_host::limits::{memory_bytes, most_open_files};
use constel_host::sysctl;
use constel_plan::Lab;

use crate::error::EngineError;
use crate::progress::Progress;

/// The memory that stays free if no daemons are started; with daemons the scenario has the value
/// (`routing.start.memory`).
const FREE_BYTES: u64 = 256 << 20;

/// Returns the resources that the machine has left now. A value that cannot be determined does not limit.
#[must_use]
pub fn room(lab: &Lab) -> MachineCapacity {
    let daemons = lab.scenario.routing.mode.daemons();
    let free_bytes = daemons.map_or(FREE_BYTES, |routing| routing.start.memory.bytes());
    let available = memory_bytes("MemAvailable:").unwrap_or(u64::MAX);
    // A quarter of the process numbers stays with the machine (`limits` of a lab).
    let numbers = sysctl::read_as::<u64>("kernel/pid_max").unwrap_or(u64::MAX);
    MachineCapacity {
        memory_bytes: available.saturating_sub(free_bytes),
        descriptors: most_open_files(),
        processes: numbers / 4 * 3,
        processors: std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64),
    }
}

/// Refuses a lab that cannot be created here, and warns if it may be too slow.
///
/// # Errors
/// [`EngineError::Unable`] with each resource that does not suffice, and the nearest size that fits.
pub(crate) fn fitting(
    lab: &Lab,
    traffic: bool,
    progress: &dyn Progress,
) -> Result<(), EngineError> {
    let estimate = Estimate::new(lab, traffic, room(lab));
    if estimate.hopeless().next().is_some() {
        return Err(EngineError::Unable {
            what: format!("this machine is too small: {}", estimate.short.join("\n  ")),
            remedy: "`constel check FILE --here` shows every figure; `--anyway` tries it"
                .to_owned(),
        });
    }
    for short in &estimate.short {
        progress.say(&format!("this may not fit: {short}"));
    }
    Ok(())
}
