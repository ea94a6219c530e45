//! What stores hold, are asked, and answer.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Number of a change of the whole store.
pub type Revision = u64;

/// Operations in one transaction; what etcd allows unless told otherwise.
pub const MOST_OPERATIONS: usize = 128;

/// Bytes of keys and values in one transaction: below the 1.5 MiB of a request that etcd allows unless told otherwise.
pub const MOST_BYTES: usize = 1 << 20;

/// Number of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A lease as granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub id: LeaseId,
    /// How long it lasts from each sign of life on.
    pub ttl: Duration,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What it holds.
    #[serde(with = "as_base64")]
    pub value: Vec<u8>,
    /// The change that made it. A key that is deleted and put again has a new one, which is larger: a fencing token.
    pub created: Revision,
    /// The last change of it.
    pub modified: Revision,
    /// The lease with which it goes.
    pub lease: Option<LeaseId>,
}

/// Keys at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The revision: watch from the next one on.
    pub revision: Revision,
    /// Keys and what they hold, sorted.
    pub entries: Vec<(String, Entry)>,
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The key.
    pub key: String,
    /// The change.
    pub revision: Revision,
    /// What it holds from then on; `None`: it was deleted, or its lease ended.
    pub entry: Option<Entry>,
}

/// What must hold for a transaction to be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// There is no such key.
    Absent(String),
    /// The key was made by this change, and has not been deleted since.
    CreatedAt(String, Revision),
    /// This was the last change of the key.
    ModifiedAt(String, Revision),
}

impl Condition {
    /// There is no such key.
    #[must_use]
    pub fn absent(key: impl Into<String>) -> Self {
        Self::Absent(key.into())
    }

    /// The key was made by this change, and has not been deleted since: who holds it still does.
    #[must_use]
    pub fn created_at(key: impl Into<String>, revision: Revision) -> Self {
        Self::CreatedAt(key.into(), revision)
    }

    /// Nobody has changed the key since.
    #[must_use]
    pub fn modified_at(key: impl Into<String>, revision: Revision) -> Self {
        Self::ModifiedAt(key.into(), revision)
    }

    /// The key that is looked at.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Absent(key) | Self::CreatedAt(key, _) | Self::ModifiedAt(key, _) => key,
        }
    }

    /// Whether it holds, given what the key holds.
    #[must_use]
    pub fn holds(&self, entry: Option<&Entry>) -> bool {
        match self {
            Self::Absent(_) => entry.is_none(),
            Self::CreatedAt(_, revision) => entry.is_some_and(|e| e.created == *revision),
            Self::ModifiedAt(_, revision) => entry.is_some_and(|e| e.modified == *revision),
        }
    }
}

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Puts a key; its lease is this one from then on, or none.
    Put {
        /// The key.
        key: String,
        /// What it holds.
        value: Vec<u8>,
        /// The lease with which it goes.
        lease: Option<LeaseId>,
    },
    /// Deletes a key, if it is there.
    Delete(String),
}

impl Operation {
    /// The key that it changes.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Delete(key) => key,
        }
    }
}

/// A transaction: all or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Txn {
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// All are carried out, then.
    pub operations: Vec<Operation>,
}

impl Txn {
    /// Nothing, without a condition.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With a further condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// With a key put, without a lease.
    #[must_use]
    pub fn put(self, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.put_leased(key, value, None)
    }

    /// With a key put that goes with a lease.
    #[must_use]
    pub fn put_leased(
        mut self,
        key: impl Into<String>,
        value: impl Into<Vec<u8>>,
        lease: impl Into<Option<LeaseId>>,
    ) -> Self {
        self.operations.push(Operation::Put {
            key: key.into(),
            value: value.into(),
            lease: lease.into(),
        });
        self
    }

    /// With a key deleted.
    #[must_use]
    pub fn delete(mut self, key: impl Into<String>) -> Self {
        self.operations.push(Operation::Delete(key.into()));
        self
    }

    /// Whether any store takes it.
    ///
    /// # Errors
    /// [`Error::Invalid`]: no operation or more than [`MOST_OPERATIONS`], a key that is empty or changed twice, more than
    /// [`MOST_BYTES`].
    pub fn check(&self) -> Result<()> {
        let invalid = |reason: String| Err(Error::Invalid(reason));
        if self.operations.is_empty() {
            return invalid("a transaction without operations".to_owned());
        }
        let parts = self.operations.len().max(self.conditions.len());
        if parts > MOST_OPERATIONS {
            return invalid(format!(
                "{parts} parts of a transaction; {MOST_OPERATIONS} are allowed"
            ));
        }
        let mut seen = BTreeSet::new();
        let mut bytes = 0;
        for operation in &self.operations {
            let key = operation.key();
            if !seen.insert(key) {
                return invalid(format!("a transaction that changes {key} twice"));
            }
            bytes += key.len();
            if let Operation::Put { value, .. } = operation {
                bytes += value.len();
            }
        }
        let mut keys = seen
            .into_iter()
            .chain(self.conditions.iter().map(Condition::key));
        if keys.any(str::is_empty) {
            return invalid("an empty key".to_owned());
        }
        if bytes > MOST_BYTES {
            return invalid(format!(
                "{bytes} bytes in a transaction; {MOST_BYTES} are allowed"
            ));
        }
        Ok(())
    }
}

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All conditions held, all is done.
    Committed {
        /// The store's revision with it.
        revision: Revision,
    },
    /// A condition did not hold; nothing has changed.
    Refused,
}

/// Bytes as text, for files.
mod as_base64 {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD
            .decode(String::deserialize(from)?)
            .map_err(D::Error::custom)
    }
}
