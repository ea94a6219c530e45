//! The content of stores, and the types of requests and answers.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::store::error::{Error, Result};

/// Number of a change of the whole store.
pub type Revision = u64;

/// Maximum number of operations in one transaction: etcd's default.
pub const MOST_OPERATIONS: usize = 128;

/// Maximum size of keys and values in one transaction, bytes. It is below etcd's default limit of 1.5 MiB per request.
pub const MOST_BYTES: usize = 1 << 20;

/// Number of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A granted lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Number of the lease.
    pub id: LeaseId,
    /// Duration from each renewal on.
    pub ttl: Duration,
}

/// The value of a key with its revisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The value.
    #[serde(with = "as_base64")]
    pub value: Vec<u8>,
    /// The revision at which the key was created. A key that is deleted and put again has a new, larger one, so it serves as
    /// a fencing token.
    pub created: Revision,
    /// The revision of the last change of the key.
    pub modified: Revision,
    /// The lease whose end deletes the key.
    pub lease: Option<LeaseId>,
}

/// The keys at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The revision. Watch from the next one on.
    pub revision: Revision,
    /// Keys and their values, sorted.
    pub entries: Vec<(String, Entry)>,
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The key.
    pub key: String,
    /// The revision of the change.
    pub revision: Revision,
    /// The new value. `None`: the key was deleted, or its lease ended.
    pub entry: Option<Entry>,
}

/// A condition of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The key does not exist.
    Absent(String),
    /// The key was created at this revision, and has not been deleted since.
    CreatedAt(String, Revision),
    /// The last change of the key was at this revision.
    ModifiedAt(String, Revision),
}

impl Condition {
    /// Requires that the key does not exist.
    #[must_use]
    pub fn absent(key: impl Into<String>) -> Self {
        Self::Absent(key.into())
    }

    /// Requires that the key was created at this revision and not deleted since, so its holder still holds it.
    #[must_use]
    pub fn created_at(key: impl Into<String>, revision: Revision) -> Self {
        Self::CreatedAt(key.into(), revision)
    }

    /// Requires that the key has not changed since.
    #[must_use]
    pub fn modified_at(key: impl Into<String>, revision: Revision) -> Self {
        Self::ModifiedAt(key.into(), revision)
    }

    /// Returns the key of the condition.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Absent(key) | Self::CreatedAt(key, _) | Self::ModifiedAt(key, _) => key,
        }
    }

    /// Returns whether the condition holds for the present value of the key.
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
    /// Puts a key. This lease, or none, replaces its earlier lease.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: Vec<u8>,
        /// The lease whose end deletes the key.
        lease: Option<LeaseId>,
    },
    /// Deletes a key, if it exists.
    Delete(String),
}

impl Operation {
    /// Returns the key that the operation changes.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Delete(key) => key,
        }
    }
}

/// A transaction, which is executed completely or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Txn {
    /// The conditions, which must all hold.
    pub conditions: Vec<Condition>,
    /// The operations, which are then all executed.
    pub operations: Vec<Operation>,
}

impl Txn {
    /// Creates a transaction without operations and conditions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Adds a put of a key without a lease.
    #[must_use]
    pub fn put(self, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.put_leased(key, value, None)
    }

    /// Adds a put of a key under a lease.
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

    /// Adds a deletion of a key.
    #[must_use]
    pub fn delete(mut self, key: impl Into<String>) -> Self {
        self.operations.push(Operation::Delete(key.into()));
        self
    }

    /// Checks that any store accepts the transaction.
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

/// The outcome of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All conditions held, and all operations were executed.
    Committed {
        /// The revision of the change.
        revision: Revision,
    },
    /// A condition did not hold, and nothing has changed.
    Refused,
}

/// Encodes bytes as text in files.
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
