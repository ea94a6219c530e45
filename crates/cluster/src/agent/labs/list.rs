//! The list of labs on several machines with the progress of their parts.

use serde::{Deserialize, Serialize};

use super::keys;
use super::lead::running;
use super::model::{Phase, WorkerRecord};
use crate::store::{Result, Store};

/// A lab on several machines, as `constel list --store STORE --json` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Name of the lab.
    pub lab: String,
    /// File of the scenario, as the controller's user named it.
    pub scenario: String,
    /// Host of the controller.
    pub host: String,
    /// Process ID of the controller.
    pub pid: u32,
    /// Machines of the lab.
    pub parts: Vec<ListedMachine>,
}

/// A machine's part of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMachine {
    /// Name of the machine.
    pub machine: String,
    /// The phase of the part. `null` if it has not reported, or no longer exists.
    pub phase: Option<Phase>,
    /// Number of nodes of the part. `null` if not known yet.
    pub nodes: Option<u64>,
}

/// Returns the running labs by name.
///
/// # Errors
/// If the store cannot be reached.
pub fn listed(store: &dyn Store) -> Result<Vec<Listed>> {
    let mut labs = Vec::new();
    for order in running(store)? {
        let entries = store.list(&keys::parts(&order.lab))?.entries;
        let part = |machine: &str| -> Option<WorkerRecord> {
            let key = keys::part(&order.lab, machine);
            let (_, entry) = entries.iter().find(|(known, _)| *known == key)?;
            serde_json::from_slice(&entry.value).ok()
        };
        let parts = order.machines.iter().map(|machine| {
            let part = part(&machine.name);
            ListedMachine {
                machine: machine.name.clone(),
                phase: part.as_ref().map(|part| part.phase),
                nodes: part.and_then(|part| Some(part.standing?.nodes)),
            }
        });
        labs.push(Listed {
            parts: parts.collect(),
            scenario: order
                .files
                .first()
                .map(|f| f.path.clone())
                .unwrap_or_default(),
            host: order.by.0,
            pid: order.by.1,
            lab: order.lab,
        });
    }
    Ok(labs)
}
