//! The embedded store as a value: no clock, no lock, no thread. Time is an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::{Entry, Event, Lease, LeaseId, Listing, Operation, Outcome, Revision, Txn};

/// Changes that are remembered for watches, unless compacted before.
const MOST_REMEMBERED: usize = 100_000;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Leased {
    ttl_ns: u64,
    ends_ns: u64,
    keys: BTreeSet<String>,
}

/// A store in memory. Equal calls give equal answers, byte for byte.
///
/// Times are nanoseconds of any clock that does not go back; [`Memory::expire`] ends the leases whose time has come, and
/// must be called before questions are asked at a later instant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Memory {
    revision: Revision,
    entries: BTreeMap<String, Entry>,
    leases: BTreeMap<LeaseId, Leased>,
    last_lease: u64,
    /// Events of the revisions that are remembered, in order.
    history: VecDeque<Event>,
    /// Watches may start here.
    oldest: Revision,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty store at revision 1, as etcd begins.
    #[must_use]
    pub fn new() -> Self {
        Self {
            revision: 1,
            entries: BTreeMap::new(),
            leases: BTreeMap::new(),
            last_lease: 0,
            history: VecDeque::new(),
            oldest: 1,
        }
    }

    /// The last change.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// One key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Keys that begin with `prefix`.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Listing {
        let from = self.entries.range(prefix.to_owned()..);
        let entries = from
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, entry)| (key.clone(), entry.clone()))
            .collect();
        Listing {
            revision: self.revision,
            entries,
        }
    }

    /// Carries a transaction out.
    ///
    /// # Errors
    /// As [`Store::commit`](crate::Store::commit).
    pub fn commit(&mut self, txn: &Txn) -> Result<Outcome> {
        txn.check()?;
        let holds = |c: &crate::Condition| c.holds(self.entries.get(c.key()));
        if !txn.conditions.iter().all(holds) {
            return Ok(Outcome::Refused);
        }
        for operation in &txn.operations {
            if let Operation::Put {
                lease: Some(id), ..
            } = operation
                && !self.leases.contains_key(id)
            {
                return Err(Error::LeaseLost(*id));
            }
        }
        self.change(&txn.operations);
        Ok(Outcome::Committed {
            revision: self.revision,
        })
    }

    /// One change with all operations that change anything.
    fn change(&mut self, operations: &[Operation]) {
        let next = self.revision + 1;
        let mut events = Vec::new();
        for operation in operations {
            let key = operation.key();
            let before = self.entries.get(key);
            if let Some(lease) = before.and_then(|entry| entry.lease)
                && let Some(lease) = self.leases.get_mut(&lease)
            {
                lease.keys.remove(key);
            }
            let entry = match operation {
                Operation::Put { value, lease, .. } => {
                    if let Some(lease) = lease.and_then(|id| self.leases.get_mut(&id)) {
                        lease.keys.insert(key.to_owned());
                    }
                    Some(Entry {
                        value: value.clone(),
                        created: before.map_or(next, |entry| entry.created),
                        modified: next,
                        lease: *lease,
                    })
                }
                Operation::Delete(_) if before.is_none() => continue,
                Operation::Delete(_) => None,
            };
            match &entry {
                Some(entry) => self.entries.insert(key.to_owned(), entry.clone()),
                None => self.entries.remove(key),
            };
            events.push(Event {
                key: key.to_owned(),
                revision: next,
                entry,
            });
        }
        if !events.is_empty() {
            self.revision = next;
            self.history.extend(events);
            self.forget_the_oldest();
        }
    }

    fn forget_the_oldest(&mut self) {
        self.remember(MOST_REMEMBERED);
    }

    /// Forgets the oldest changes until no more than `most` are remembered. Whole revisions only: a watch never sees a part
    /// of one.
    pub(crate) fn remember(&mut self, most: usize) {
        while self.history.len() > most {
            let Some(first) = self.history.front().map(|event| event.revision) else {
                return;
            };
            self.compact(first + 1);
        }
    }

    /// A lease that begins at `now_ns`.
    pub fn grant(&mut self, ttl: Duration, now_ns: u64) -> Lease {
        self.last_lease += 1;
        let id = LeaseId(self.last_lease);
        let ttl_ns = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
        let leased = Leased {
            ttl_ns,
            ends_ns: now_ns.saturating_add(ttl_ns),
            keys: BTreeSet::new(),
        };
        self.leases.insert(id, leased);
        Lease { id, ttl }
    }

    /// A sign of life at `now_ns`.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] when it is over by then.
    pub fn keep_alive(&mut self, lease: LeaseId, now_ns: u64) -> Result<()> {
        self.expire(now_ns);
        let leased = self.leases.get_mut(&lease).ok_or(Error::LeaseLost(lease))?;
        leased.ends_ns = now_ns.saturating_add(leased.ttl_ns);
        Ok(())
    }

    /// Ends a lease.
    pub fn revoke(&mut self, lease: LeaseId) {
        if let Some(leased) = self.leases.remove(&lease) {
            let gone: Vec<_> = leased.keys.into_iter().map(Operation::Delete).collect();
            self.change(&gone);
        }
    }

    /// Ends the leases whose time has come by `now_ns`, in the order of their times.
    pub fn expire(&mut self, now_ns: u64) {
        let mut over: Vec<(u64, LeaseId)> = self
            .leases
            .iter()
            .filter(|(_, leased)| leased.ends_ns <= now_ns)
            .map(|(id, leased)| (leased.ends_ns, *id))
            .collect();
        over.sort_unstable();
        for (_, lease) in over {
            self.revoke(lease);
        }
    }

    /// Ends all leases: the clock that they were counted by is gone.
    pub(crate) fn expire_all(&mut self) {
        self.expire(u64::MAX);
    }

    /// When the next lease ends unless it shows signs of life.
    #[must_use]
    pub fn next_expiry_ns(&self) -> Option<u64> {
        self.leases.values().map(|leased| leased.ends_ns).min()
    }

    /// What has happened from `revision` on to keys that begin with `prefix`.
    ///
    /// # Errors
    /// [`Error::Compacted`] when that is not all remembered.
    pub fn since(&self, prefix: &str, revision: Revision) -> Result<Vec<Event>> {
        if revision < self.oldest {
            return Err(Error::Compacted {
                oldest: self.oldest,
            });
        }
        let first = self
            .history
            .partition_point(|event| event.revision < revision);
        let events = self.history.range(first..);
        Ok(events
            .filter(|event| event.key.starts_with(prefix))
            .cloned()
            .collect())
    }

    /// Forgets what happened before `revision`, which is at most the last one.
    pub fn compact(&mut self, revision: Revision) {
        let revision = revision.min(self.revision);
        let gone = self
            .history
            .partition_point(|event| event.revision < revision);
        self.history.drain(..gone);
        self.oldest = self.oldest.max(revision);
    }
}
