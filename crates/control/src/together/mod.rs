//! A lab on several machines: [led](Scenario::start_on) by one process, its parts [run](run_part) by one of each machine.

mod ask;
mod between;
mod events;
mod lead;
mod merge;
mod part;

pub use ask::{ChosenMachines, MachineCheck, MachinePair, machine_of};
pub use between::TransportChoice;
pub use events::{EventsComing, SeenEvent, merge_events};
pub use lead::{ClusterRun, OnMachines};
pub use part::{Underlay, run_part};

use constel_host::claim::LabName;

use crate::error::Error;

/// Returns the name of a lab on one of its machines. The names differ because several machines may be on one host.
///
/// # Errors
/// [`Error::BadLabName`] if the name is invalid.
fn name_there(lab: &str, machine: &str) -> Result<LabName, Error> {
    let machine = machine.to_ascii_lowercase().replace('.', "-");
    let name = format!("{lab}-{machine}");
    name.parse().map_err(|error: constel_host::Error| {
        Error::BadLabName(format!(
            "on machine {machine} the lab is called {name}: {error}; a shorter --name for the lab or for the agent would do"
        ))
    })
}
