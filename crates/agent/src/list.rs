//! Who is there.

use std::collections::BTreeMap;

use constel_store::{Condition, Listing, Outcome, Result, Revision, Store, Txn};
use constel_underlay::Endpoint;
use serde::{Deserialize, Serialize};

use crate::keys;
use crate::record::{By, Owner, Record};

/// What a machine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Its agent has the name.
    Up,
    /// Its agent ended, or was cut off, without leaving.
    Lost,
}

impl State {
    /// As in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Lost => "lost",
        }
    }
}

/// A machine, as `constel machines --json` tells of it. What is `null` is not known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub machine: String,
    /// What it does.
    pub state: State,
    /// Its part of a lab, in proportion to the other machines' weights.
    pub weight: Option<u32>,
    /// Nodes of labs that run there; of one that is lost, the last that was heard.
    pub nodes: Option<u64>,
    /// By so much its wall clock is ahead of that of the machine that has been there longest, nanoseconds.
    pub clock_offset_ns: Option<i64>,
    /// Constel's version.
    pub version: Option<String>,
    /// By so much the offset may be wrong, nanoseconds.
    pub clock_error_ns: Option<u64>,
    /// How it was measured.
    pub clock_by: Option<By>,
    /// How often its clock, or the other one, was found to have been set.
    pub clock_steps: Option<u64>,
    /// Nodes that it takes at most; `null` also for as many as fit.
    pub capacity: Option<u32>,
    /// Nodes that it makes at a time.
    pub workers: Option<u32>,
    /// Processors.
    pub cores: Option<u32>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Tasks that ran or waited, mean of a minute.
    pub load: Option<f64>,
    /// Address and UDP port where it listens for other machines; `null` also for nowhere.
    pub underlay: Option<String>,
    /// The name that its host has for itself.
    pub host: Option<String>,
    /// The agent's process there.
    pub pid: Option<u32>,
    /// Half of the shortest way to the reference and back, nanoseconds.
    pub way_ns: Option<u64>,
    /// The interface where it listens.
    pub interface: Option<String>,
    /// Its MTU, bytes.
    pub mtu_bytes: Option<u32>,
    /// Its Ethernet address; `null` also where raw frames cannot be had.
    pub ethernet: Option<String>,
}

/// One machine of a listing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Who has the name, and since which revision.
    pub(crate) owner: Option<(Owner, Revision)>,
    pub(crate) record: Option<Record>,
}

/// The machines of a listing, by name. What cannot be read is as if it were not there, but for who has the name.
pub(crate) fn roster(listing: &Listing) -> BTreeMap<String, Known> {
    let mut roster: BTreeMap<String, Known> = BTreeMap::new();
    for (key, entry) in &listing.entries {
        if let Some(name) = key.strip_prefix(keys::OWNERS) {
            // Another version may write something else there: it has the name nevertheless.
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

/// Whose clock is the reference: who has had its name longest.
pub(crate) fn reference(roster: &BTreeMap<String, Known>) -> Option<&str> {
    let owned = roster.iter().filter_map(|(name, known)| {
        let (_, since) = known.owner.as_ref()?;
        Some((*since, name.as_str()))
    });
    owned.min().map(|(_, name)| name)
}

/// Machines that are there, and those that were lost, by name.
///
/// # Errors
/// When the store cannot be asked.
pub fn machines(store: &dyn Store) -> Result<Vec<Row>> {
    let roster = roster(&store.list(keys::ROOT)?);
    Ok(roster
        .into_iter()
        .map(|(name, known)| row(name, known))
        .collect())
}

fn row(machine: String, known: Known) -> Row {
    let record = known.record.as_ref();
    // What was measured of a clock is not true for long.
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
        way_ns: clock.map(|c| c.way_ns),
        interface: underlay.map(|at| at.interface.clone()),
        mtu_bytes: underlay.map(|at| at.mtu_bytes),
        ethernet: underlay
            .and_then(|at| at.ethernet)
            .map(|address| Endpoint::Ethernet(address).to_string()),
    }
}

/// Forgets a machine that was lost. Whether it was there to be forgotten: not one that is up.
///
/// # Errors
/// When the store cannot be asked.
pub fn forget(store: &dyn Store, name: &str) -> Result<bool> {
    let key = keys::record(name);
    if store.get(&key)?.is_none() {
        return Ok(false);
    }
    let txn = Txn::new().when(Condition::absent(keys::owner(name)));
    Ok(store.commit(&txn.delete(key))? != Outcome::Refused)
}

#[cfg(test)]
mod tests {
    use constel_store::Embedded;

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
