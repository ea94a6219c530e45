//! The store of a lab on one machine: inside the process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::error::{Error, Result};
use crate::store::memory::Memory;
use crate::store::model::{Entry, Event, Lease, LeaseId, Listing, Outcome, Revision, Txn};
use crate::store::{Store, Watch};

/// A store in this process; clones are the same store.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
}

struct Shared {
    memory: Mutex<Memory>,
    changed: Condvar,
    began: Instant,
}

impl Default for Embedded {
    fn default() -> Self {
        Self::new()
    }
}

impl Embedded {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                memory: Mutex::new(Memory::new()),
                changed: Condvar::new(),
                began: Instant::now(),
            }),
        }
    }
}

impl Shared {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the store after ending all leases that have expired by now.
    fn now(&self) -> MutexGuard<'_, Memory> {
        // A poisoned lock is harmless: each change is one call, so a panic cannot leave a partial change.
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        self.expire(&mut memory);
        memory
    }

    fn expire(&self, memory: &mut Memory) {
        let before = memory.revision();
        memory.expire(self.now_ns());
        if memory.revision() != before {
            self.changed.notify_all();
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Memory, u64) -> T) -> T {
        let answer = change(&mut self.now(), self.now_ns());
        self.changed.notify_all();
        answer
    }
}

impl Store for Embedded {
    fn get(&self, key: &str) -> Result<Option<Entry>> {
        if key.is_empty() {
            return Err(Error::Invalid("an empty key".to_owned()));
        }
        Ok(self.shared.now().get(key).cloned())
    }

    fn list(&self, prefix: &str) -> Result<Listing> {
        Ok(self.shared.now().list(prefix))
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        self.shared.change(|memory, _| memory.commit(txn))
    }

    fn grant(&self, ttl: Duration) -> Result<Lease> {
        Ok(self
            .shared
            .change(|memory, now_ns| memory.grant(ttl, now_ns)))
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        self.shared
            .change(|memory, now_ns| memory.keep_alive(lease, now_ns))
    }

    fn revoke(&self, lease: LeaseId) -> Result<()> {
        self.shared.change(|memory, _| memory.revoke(lease));
        Ok(())
    }

    fn watch(&self, prefix: &str, revision: Revision) -> Result<Box<dyn Watch>> {
        Ok(Box::new(Watching {
            shared: Arc::clone(&self.shared),
            prefix: prefix.to_owned(),
            next: revision,
        }))
    }

    fn compact(&self, revision: Revision) -> Result<()> {
        self.shared.change(|memory, _| memory.compact(revision));
        Ok(())
    }
}

struct Watching {
    shared: Arc<Shared>,
    prefix: String,
    next: Revision,
}

impl Watch for Watching {
    fn next(&mut self, patience: Duration) -> Result<Vec<Event>> {
        let until = Instant::now() + patience;
        let mut memory = self.shared.now();
        loop {
            let events = memory.since(&self.prefix, self.next)?;
            // Skip changes of other keys too. Otherwise this watch could fall behind the remembered history.
            self.next = self.next.max(memory.revision() + 1);
            let left = until.saturating_duration_since(Instant::now());
            if !events.is_empty() || left.is_zero() {
                return Ok(events);
            }
            // No call accompanies the end of a lease, so wake up for it.
            let expiry = memory.next_expiry_ns().map_or(left, |ends_ns| {
                Duration::from_nanos(ends_ns.saturating_sub(self.shared.now_ns()))
            });
            let waited = self.shared.changed.wait_timeout(memory, left.min(expiry));
            memory = waited.unwrap_or_else(PoisonError::into_inner).0;
            self.shared.expire(&mut memory);
        }
    }
}
