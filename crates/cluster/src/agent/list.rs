//! The list of machines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agent::keys;
use crate::agent::record::{ClockMethod, Owner, Record};
use crate::store::{Condition, Listing, Outcome, Result, Revision, Store, Txn};
use crate::underlay::Endpoint;

/// The state of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// An agent holds the name.
    Up,
    /// The agent ended or was cut off without leaving.
    Lost,
}

impl State {
    /// Returns the state as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Lost => "lost",
        }
    }
}

/// A machine as `constel machines --json` prints it. `null` means unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the machine.
    pub machine: String,
    /// State of the machine.
    pub state: State,
    /// Share of a lab's nodes, in proportion to the weights of the other machines.
    pub weight: Option<u32>,
    /// Nodes of labs that run there. For a lost machine, the last reported number.
    pub nodes: Option<u64>,
    /// Lead of its wall clock over that of the machine that joined first, nanoseconds.
    pub clock_offset_ns: Option<i64>,
    /// Version of Constel.
    pub version: Option<String>,
    /// Upper bound of the error of the offset, nanoseconds.
    pub clock_error_ns: Option<u64>,
    /// Method by which the clock was measured.
    pub clock_by: Option<ClockMethod>,
    /// Number of times that its clock, or the reference's, was set.
    pub clock_steps: Option<u64>,
    /// Maximum number of nodes. `null` also if there is no maximum.
    pub capacity: Option<u32>,
    /// Number of nodes that it creates in parallel.
    pub workers: Option<u32>,
    /// Number of processors.
    pub cores: Option<u32>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Load average of one minute: tasks that ran or waited.
    pub load: Option<f64>,
    /// Address and UDP port where it listens for other machines. `null` also if it does not listen.
    pub underlay: Option<String>,
    /// Host name.
    pub host: Option<String>,
    /// Process ID of the agent on that host.
    pub pid: Option<u32>,
    /// Half of the shortest round-trip time to the reference, nanoseconds.
    pub one_way_ns: Option<u64>,
    /// Interface where it listens.
    pub interface: Option<String>,
    /// MTU of that interface, bytes.
    pub mtu_bytes: Option<u32>,
    /// Ethernet address of that interface. `null` also if raw frames are not available.
    pub ethernet: Option<String>,
}

/// The owner and the record of one machine in a listing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The agent that holds the name, and the revision since which it does.
    pub(crate) owner: Option<(Owner, Revision)>,
    pub(crate) record: Option<Record>,
}

/// Returns the machines of a listing by name. Records that cannot be parsed are ignored. An owner counts in any case.
pub(crate) fn roster(listing: &Listing) -> BTreeMap<String, Known> {
    let mut roster: BTreeMap<String, Known> = BTreeMap::new();
    for (key, entry) in &listing.entries {
        if let Some(name) = key.strip_prefix(keys::OWNERS) {
            // Another version may write another format here. It holds the name nevertheless.
            let owner = serde_json::from_slice(&entry.value).unwrap_or_else(|_| Owner {
                version: "unknown".to_owned(),
                session: String::new(),
            });
            let known = roster.entry(name.to_owned()).or_default();
            known.owner = Some((owner, entry.created));
        } else if let Some(name) = key.strip_prefix(keys::RECORDS) {
            let known = roster.entry(name.to_owned()).or_default();
            known.record = serde_json::from_slice(&entry.value).ok();
        }
    }
    roster
}

/// Returns the machine whose clock is the reference: the one that has held its name longest.
pub(crate) fn reference(roster: &BTreeMap<String, Known>) -> Option<&str> {
    let owned = roster.iter().filter_map(|(name, known)| {
        let (_, since) = known.owner.as_ref()?;
        Some((*since, name.as_str()))
    });
    // The machine that joined first. All machines read the same revisions and choose the same one.
    owned.min().map(|(_, name)| name)
}

/// Returns the present and the lost machines, by name.
///
/// # Errors
/// If the store cannot be reached.
pub fn machines(store: &dyn Store) -> Result<Vec<Row>> {
    let roster = roster(&store.list(keys::ROOT)?);
    Ok(roster
        .into_iter()
        .map(|(name, known)| row(name, known))
        .collect())
}

fn row(machine: String, known: Known) -> Row {
    let record = known.record.as_ref();
    // Clock measurements become invalid quickly, so those of a lost machine are not shown.
    let clock = record
        .filter(|_| known.owner.is_some())
        .and_then(|record| record.clock.as_ref());
    let underlay = record.and_then(|record| record.underlay.as_ref());
    let owners = known.owner.as_ref().map(|(owner, _)| owner.version.clone());
    Row {
        machine,
        state: match known.owner {
            Some(_) => State::Up,
            None => State::Lost,
        },
        weight: record.map(|r| r.weight),
        nodes: record.map(|r| r.nodes),
        clock_offset_ns: clock.map(|c| c.offset_ns),
        version: owners.or_else(|| record.map(|r| r.version.clone())),
        clock_error_ns: clock.map(|c| c.error_ns),
        clock_by: clock.map(|c| c.by),
        clock_steps: clock.map(|c| c.steps),
        capacity: record.and_then(|r| r.capacity),
        workers: record.map(|r| r.workers),
        cores: record.map(|r| r.cores),
        memory_bytes: record.map(|r| r.memory_bytes),
        load: record.map(|r| r.load),
        underlay: underlay.map(|at| at.address.to_string()),
        host: record.map(|r| r.host.clone()),
        pid: record.map(|r| r.pid),
        one_way_ns: clock.map(|c| c.one_way_ns),
        interface: underlay.map(|at| at.interface.clone()),
        mtu_bytes: underlay.map(|at| at.mtu_bytes),
        ethernet: underlay
            .and_then(|at| at.ethernet)
            .map(|address| Endpoint::Ethernet(address).to_string()),
    }
}

/// Deletes the record of a lost machine. Returns whether a record was deleted. A machine that is up keeps its record.
///
/// # Errors
/// If the store cannot be reached.
pub fn forget(store: &dyn Store, name: &str) -> Result<bool> {
    let key = keys::record(name);
    if store.get(&key)?.is_none() {
        return Ok(false);
    }
    // The machine may join again between the two requests, and its new record must stay.
    let txn = Txn::new().when(Condition::absent(keys::owner(name)));
    Ok(store.commit(&txn.delete(key))? != Outcome::Refused)
}

#[cfg(test)]
mod tests {
    use crate::store::Embedded;

    use super::*;

    #[test]
    fn what_another_version_wrote_is_there_nevertheless() {
        let store = Embedded::new();
        store.put(&keys::owner("b"), b"?").unwrap();
        store.put(&keys::record("b"), b"{}").unwrap();
        store
            .put(
                &keys::owner("a"),
                br#"{"version": "9", "session": "s", "more": 1}"#,
            )
            .unwrap();
        store.put("constel/agents/ask/a/1", b"").unwrap();
        let listing = store.list(keys::ROOT).unwrap();
        assert_eq!(reference(&roster(&listing)), Some("b"));
        let rows = machines(&store).unwrap();
        let told: Vec<_> = rows
            .iter()
            .map(|r| (r.machine.as_str(), r.state, r.version.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                ("a", State::Up, Some("9")),
                ("b", State::Up, Some("unknown"))
            ]
        );
    }

    #[test]
    fn only_who_is_lost_is_forgotten() {
        let store = Embedded::new();
        store.put(&keys::owner("a"), b"?").unwrap();
        store.put(&keys::record("a"), b"{}").unwrap();
        assert!(!forget(&store, "a").unwrap());
        assert!(!forget(&store, "b").unwrap());
        store.delete(&keys::owner("a")).unwrap();
        assert_eq!(machines(&store).unwrap()[0].state, State::Lost);
        assert!(forget(&store, "a").unwrap());
        assert_eq!(machines(&store).unwrap(), []);
        assert!(!forget(&store, "a").unwrap());
    }
}
