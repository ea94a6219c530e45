//! Labs on several machines, and how far their parts are.

use constel_store::{Result, Store};
use serde::{Deserialize, Serialize};

use super::keys;
use super::lead::running;
use super::model::{Part, Phase};

/// A lab on several machines, as `constel list --store STORE --json` tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name.
    pub lab: String,
    /// The scenario's file, as who leads named it.
    pub scenario: String,
    /// The host of the process that leads.
    pub host: String,
    /// That process.
    pub pid: u32,
    /// Its machines.
    pub parts: Vec<ListedPart>,
}

/// A machine's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPart {
    /// The machine.
    pub machine: String,
    /// How far it is; `null`: nothing was heard of it, or not any more.
    pub phase: Option<Phase>,
    /// Nodes that it has; `null`: not yet.
    pub nodes: Option<u64>,
}

/// Labs that are led now, by name.
///
/// # Errors
/// When the store cannot be asked.
pub fn listed(store: &dyn Store) -> Result<Vec<Listed>> {
    let mut labs = Vec::new();
    for order in running(store)? {
        let entries = store.list(&keys::parts(&order.lab))?.entries;
        let part = |machine: &str| -> Option<Part> {
            let key = keys::part(&order.lab, machine);
            let (_, entry) = entries.iter().find(|(known, _)| *known == key)?;
            serde_json::from_slice(&entry.value).ok()
        };
        let parts = order.machines.iter().map(|machine| {
            let part = part(&machine.name);
            ListedPart {
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
