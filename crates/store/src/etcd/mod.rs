//! An etcd cluster, 3.4 or newer, asked through its JSON gateway.
//!
//! Synchronous, one question at a time on a thread; connections are kept. A member that does not answer within two
//! seconds is given up and the next one asked: those that lost their leader would let us wait for seven. What only reads,
//! or may be done twice, is asked of every member before it is an error; a transaction that went out and was not answered
//! is [`Error::Uncertain`].

mod client;
mod watch;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::address::Address;
use crate::error::{Error, Result};
use crate::model::{Entry, Lease, LeaseId, Listing, Outcome, Revision, Txn};
use crate::{Store, Watch};

use client::{Client, Twice};

/// An etcd cluster; clones are the same connections.
#[derive(Clone)]
pub struct Etcd {
    client: Arc<Client>,
}

impl Etcd {
    /// Reads the files that the address names. Asks nobody yet.
    ///
    /// # Errors
    /// [`Error::Invalid`]: files that cannot be read, or are not what they should be.
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
    /// Whether bytes can be read as some answer of a member. It needs no member: parsers are tested by it.
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
        // Whole seconds, and never less than asked for. One that is granted twice ends unused.
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
        // A lease that is over has no time left.
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
        // etcd takes the last revision that may be forgotten, and gives up nothing before the first.
        let Some(last) = revision.checked_sub(1).filter(|last| *last > 0) else {
            return Ok(());
        };
        let question = json!({"revision": last.to_string()});
        match self.client.ask("kv/compaction", &question, Twice::Harmless) {
            // It has been compacted at least so far.
            Ok(_) | Err(Error::Compacted { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Etcd {
    /// Which of a transaction's leases is over: etcd does not say. Any of them, if none is found to be.
    fn first_lost(&self, txn: &Txn) -> LeaseId {
        let leases = txn
            .operations
            .iter()
            .filter_map(|operation| match operation {
                crate::Operation::Put { lease, .. } => *lease,
                crate::Operation::Delete(_) => None,
            });
        let mut leases: Vec<LeaseId> = leases.collect();
        leases.dedup();
        let is_over = |lease: &&LeaseId| {
            let question = json!({"ID": lease.0.to_string()});
            let asked = self
                .client
                .ask("lease/timetolive", &question, Twice::Harmless);
            // Seconds left; -1 when it is over.
            asked.is_ok_and(|answer| answer["TTL"].as_str() == Some("-1"))
        };
        let lost = leases.iter().find(is_over).or(leases.first());
        lost.copied().unwrap_or(LeaseId(0))
    }
}
