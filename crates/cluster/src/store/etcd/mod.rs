//! An etcd cluster, 3.4 or newer, accessed through its JSON gateway.
//!
//! The client is synchronous: a thread has one request at a time, and connections are kept. A member that does not answer
//! within two seconds is abandoned, and the next one is tried, because members that have lost their leader would block for
//! seven seconds. Reads and repeatable requests are tried at every member before they fail. A transaction that was sent and
//! not answered is [`Error::Uncertain`].

mod client;
mod watch;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::store::address::Address;
use crate::store::error::{Error, Result};
use crate::store::model::{Entry, Lease, LeaseId, Listing, Outcome, Revision, Txn};
use crate::store::{Store, Watch};

use client::{Client, Twice};

/// An etcd cluster. Clones use the same connections.
#[derive(Clone)]
pub struct Etcd {
    client: Arc<Client>,
}

impl Etcd {
    /// Reads the files that the address names. Sends no request yet.
    ///
    /// # Errors
    /// [`Error::Invalid`]: a file cannot be read or is invalid.
    pub fn new(address: &Address) -> Result<Self> {
        Ok(Self {
            client: Arc::new(Client::new(address)?),
        })
    }

    fn range(&self, mut question: Value, key: &str, end: Option<&str>) -> Result<Listing> {
        question["key"] = wire::bytes(key.as_bytes());
        if let Some(end) = end {
            question["range_end"] = Value::String(end.to_owned());
        }
        let answer = self.client.ask("kv/range", &question, Twice::Harmless)?;
        wire::listing(&answer)
    }
}

impl Etcd {
    /// Returns whether bytes parse as some answer of a member. Fuzz tests use it, since it needs no member.
    #[must_use]
    pub fn reads(answer: &[u8]) -> bool {
        let Ok(answer) = serde_json::from_slice::<Value>(answer) else {
            return false;
        };
        let read = [
            wire::listing(&answer).is_ok(),
            wire::told(&answer).is_ok(),
            wire::outcome(&answer).is_ok() && wire::revision(&answer).is_ok(),
        ];
        read.contains(&true)
    }
}

impl Store for Etcd {
    fn get(&self, key: &str) -> Result<Option<Entry>> {
        if key.is_empty() {
            return Err(Error::Invalid("an empty key".to_owned()));
        }
        let mut found = self.range(json!({}), key, None)?.entries;
        Ok(found.pop().map(|(_, entry)| entry))
    }

    fn list(&self, prefix: &str) -> Result<Listing> {
        let (key, end) = wire::prefix(prefix);
        let order = json!({"sort_order": "ASCEND", "sort_target": "KEY"});
        self.range(order, &key, Some(&end))
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        txn.check()?;
        let answer = self.client.ask("kv/txn", &wire::txn(txn), Twice::Harmful);
        match answer {
            Err(Error::LeaseLost(_)) => Err(Error::LeaseLost(self.first_lost(txn))),
            answer => wire::outcome(&answer?),
        }
    }

    fn grant(&self, ttl: Duration) -> Result<Lease> {
        // etcd needs whole seconds, and the lease must not be shorter than requested. If a repeated request grants two
        // leases, the unused one expires.
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let question = json!({"TTL": seconds.max(1).to_string()});
        let answer = self.client.ask("lease/grant", &question, Twice::Harmless)?;
        Ok(Lease {
            id: LeaseId(wire::number(&answer, "ID")?),
            ttl: Duration::from_secs(wire::number(&answer, "TTL")?),
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        let question = json!({"ID": lease.0.to_string()});
        let answer = self
            .client
            .ask("lease/keepalive", &question, Twice::Harmless)?;
        // etcd reports 0 seconds left for a lease that has ended.
        match wire::number(&answer["result"], "TTL")? {
            0 => Err(Error::LeaseLost(lease)),
            _ => Ok(()),
        }
    }

    fn revoke(&self, lease: LeaseId) -> Result<()> {
        let question = json!({"ID": lease.0.to_string()});
        match self.client.ask("lease/revoke", &question, Twice::Harmless) {
            Ok(_) | Err(Error::LeaseLost(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn watch(&self, prefix: &str, revision: Revision) -> Result<Box<dyn Watch>> {
        Ok(Box::new(watch::start(&self.client, prefix, revision)))
    }

    fn compact(&self, revision: Revision) -> Result<()> {
        // etcd takes the last revision to forget, and there is nothing to forget before revision 1.
        let Some(last) = revision.checked_sub(1).filter(|last| *last > 0) else {
            return Ok(());
        };
        let question = json!({"revision": last.to_string()});
        match self.client.ask("kv/compaction", &question, Twice::Harmless) {
            // The history has been compacted at least up to this revision.
            Ok(_) | Err(Error::Compacted { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Etcd {
    /// Returns the lease of a transaction that has ended, because etcd does not report which one. Returns any of them if
    /// none is found.
    fn first_lost(&self, txn: &Txn) -> LeaseId {
        let leases = txn
            .operations
            .iter()
            .filter_map(|operation| match operation {
                crate::store::Operation::Put { lease, .. } => *lease,
                crate::store::Operation::Delete(_) => None,
            });
        let mut leases: Vec<LeaseId> = leases.collect();
        leases.dedup();
        let is_over = |lease: &&LeaseId| {
            let question = json!({"ID": lease.0.to_string()});
            let asked = self
                .client
                .ask("lease/timetolive", &question, Twice::Harmless);
            // The remaining seconds, or -1 for a lease that has ended.
            asked.is_ok_and(|answer| answer["TTL"].as_str() == Some("-1"))
        };
        let lost = leases.iter().find(is_over).or(leases.first());
        lost.copied().unwrap_or(LeaseId(0))
    }
}
