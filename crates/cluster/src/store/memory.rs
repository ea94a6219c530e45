//! The embedded store as a value without clock, lock or thread. Time is an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::store::error::{Error, Result};
use crate::store::model::{
    Entry, Event, Lease, LeaseId, Listing, Operation, Outcome, Revision, Txn,
};

/// Number of changes that are remembered for watches, unless compacted earlier.
const MOST_REMEMBERED: usize = 100_000;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Leased {
    ttl_ns: u64,
    ends_ns: u64,
    keys: BTreeSet<String>,
}

/// A store in memory. Equal calls give equal answers, byte for byte.
///
/// Times are nanoseconds of any clock that does not go back. [`Memory::expire`] ends the leases whose time is over, and must
/// be called before requests at a later instant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Memory {
    revision: Revision,
    entries: BTreeMap<String, Entry>,
    leases: BTreeMap<LeaseId, Leased>,
    last_lease: u64,
    /// Events of the remembered revisions, in order.
    history: VecDeque<Event>,
    /// The oldest revision from which a watch can start.
    oldest: Revision,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// Creates an empty store at revision 1, like etcd.
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

    /// Returns the revision of the last change.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns one key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Returns the keys that begin with `prefix`.
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

    /// Executes a transaction.
    ///
    /// # Errors
    /// As [`Store::commit`](crate::store::Store::commit).
    pub fn commit(&mut self, txn: &Txn) -> Result<Outcome> {
        txn.check()?;
        // All conditions are tested before anything changes, so a refused transaction leaves no trace.
        let holds = |c: &crate::store::Condition| c.holds(self.entries.get(c.key()));
        if !txn.conditions.iter().all(holds) {
            return Ok(Outcome::Refused);
        }
        // As etcd does: a key under a lease that has ended would never be deleted.
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

    /// Makes one change of all operations that have an effect.
    fn change(&mut self, operations: &[Operation]) {
        let next = self.revision + 1;
        let mut events = Vec::new();
        for operation in operations {
            let key = operation.key();
            let before = self.entries.get(key);
            // The key leaves its old lease, which must not delete it any more when it ends.
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
                        // A replaced key keeps its first revision. Conditions on it distinguish an owner from its successor.
                        created: before.map_or(next, |entry| entry.created),
                        modified: next,
                        lease: *lease,
                    })
                }
                // The deletion of a missing key has no effect, so it causes no event.
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
            // All operations of a transaction have one revision, so a watch sees them together.
            self.revision = next;
            self.history.extend(events);
            self.forget_the_oldest();
        }
    }

    fn forget_the_oldest(&mut self) {
        self.remember(MOST_REMEMBERED);
    }

    /// Forgets the oldest changes until at most `most` are remembered. Only whole revisions are removed, so that a watch
    /// never sees a part of one.
    pub(crate) fn remember(&mut self, most: usize) {
        while self.history.len() > most {
            let before = self.history.len();
            let Some(first) = self.history.front().map(|event| event.revision) else {
                return;
            };
            self.compact(first.saturating_add(1));
            // The last revision stays, also if it alone has more changes: a lease may end with more keys.
            if self.history.len() == before {
                return;
            }
        }
    }

    /// Returns whether this is a store that can be used: its numbers leave room for more, and its history is in order. A file
    /// may contain anything.
    pub(crate) fn is_sound(&self) -> bool {
        const MOST: u64 = 1 << 62;
        let revisions = || self.history.iter().map(|event| event.revision);
        self.revision < MOST
            && self.last_lease < MOST
            && self.oldest <= self.revision
            && self.leases.keys().all(|lease| lease.0 <= self.last_lease)
            && self
                .entries
                .values()
                .all(|entry| entry.modified <= self.revision)
            && revisions().is_sorted()
            && revisions().all(|revision| revision <= self.revision)
    }

    /// Grants a lease that begins at `now_ns`.
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

    /// Renews a lease at `now_ns`.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] if it has ended by then.
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

    /// Ends the leases whose time is over at `now_ns`, in the order of their ends.
    pub fn expire(&mut self, now_ns: u64) {
        let mut over: Vec<(u64, LeaseId)> = self
            .leases
            .iter()
            .filter(|(_, leased)| leased.ends_ns <= now_ns)
            .map(|(id, leased)| (leased.ends_ns, *id))
            .collect();
        // Equal calls must give equal revisions, so the order may not depend on the map of leases.
        over.sort_unstable();
        for (_, lease) in over {
            self.revoke(lease);
        }
    }

    /// Ends all leases, because the clock that measured them no longer exists.
    pub(crate) fn expire_all(&mut self) {
        self.expire(u64::MAX);
    }

    /// Returns the time when the next lease ends unless it is renewed.
    #[must_use]
    pub fn next_expiry_ns(&self) -> Option<u64> {
        self.leases.values().map(|leased| leased.ends_ns).min()
    }

    /// Returns the changes from `revision` on of keys that begin with `prefix`.
    ///
    /// # Errors
    /// [`Error::Compacted`] if a part of them is forgotten.
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

    /// Forgets the history before `revision`. At most the history before the last revision is removed.
    pub fn compact(&mut self, revision: Revision) {
        let revision = revision.min(self.revision);
        let gone = self
            .history
            .partition_point(|event| event.revision < revision);
        self.history.drain(..gone);
        self.oldest = self.oldest.max(revision);
    }
}
