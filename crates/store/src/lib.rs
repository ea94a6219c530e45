//! What the machines of one lab share: keys with revisions, transactions, leases and watches.
//!
//! [`Store`] is the trait; [`Embedded`] lives in one process, [`Folder`] in files that processes of one host share, and neither
//! needs anything installed; [`Etcd`] is a cluster asked through its JSON gateway. One suite of tests (`tests/conformance.rs`)
//! holds for all. [`Memory`] is the embedded store
//! without a clock or a lock, for virtual time.
//!
//! The store is for little that changes seldom: who has which node, commands, failures, status. Steps are planned by
//! every machine from the same scenario and do not travel through it.
//!
//! ```
//! use constel_store::{Condition, Embedded, Outcome, Store, Txn};
//!
//! let store = Embedded::new();
//! let claim = Txn::new().when(Condition::absent("lab/owner")).put("lab/owner", "a");
//! assert!(matches!(store.commit(&claim)?, Outcome::Committed { .. }));
//! assert_eq!(store.commit(&claim)?, Outcome::Refused);
//! assert_eq!(store.get("lab/owner")?.unwrap().value, b"a");
//! # Ok::<(), constel_store::Error>(())
//! ```
#![forbid(unsafe_code)]

mod address;
mod embedded;
mod error;
mod etcd;
mod folder;
mod follow;
mod memory;
mod model;
mod place;
mod tenure;

use std::time::Duration;

pub use address::{Address, AddressError, Credentials, Tls};
pub use embedded::Embedded;
pub use error::{Error, Result};
pub use etcd::Etcd;
pub use folder::Folder;
pub use follow::Follow;
pub use memory::Memory;
pub use model::{
    Condition, Entry, Event, Lease, LeaseId, Listing, MOST_BYTES, MOST_OPERATIONS, Operation,
    Outcome, Revision, Txn,
};
pub use place::{Place, PlaceError};
pub use tenure::{Answer, Ask, Fence, LEASE, Tenure};

/// Keys with revisions. Every change of the store has a number, its revision, which only grows; a transaction is one
/// change, however much is in it.
pub trait Store: Send + Sync {
    /// One key.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn get(&self, key: &str) -> Result<Option<Entry>>;

    /// All keys that begin with `prefix`, sorted, as they were together at the listing's revision.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn list(&self, prefix: &str) -> Result<Listing>;

    /// Carries all operations out in one change if all conditions hold; otherwise none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what no store takes, [`Error::LeaseLost`] when a lease named is over; nothing has changed
    /// then. After [`Error::Uncertain`] it may have been carried out: look before it is tried again.
    fn commit(&self, txn: &Txn) -> Result<Outcome>;

    /// A lease: keys put under it go when it is over. The store may grant a longer time than asked for, and says so.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn grant(&self, ttl: Duration) -> Result<Lease>;

    /// The lease lasts its whole time again, from now on.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] when it is over.
    fn keep_alive(&self, lease: LeaseId) -> Result<()>;

    /// Ends a lease and deletes its keys. One that is over already is no error.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn revoke(&self, lease: LeaseId) -> Result<()>;

    /// Everything that happens to keys that begin with `prefix`, from `revision` on.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn watch(&self, prefix: &str, revision: Revision) -> Result<Box<dyn Watch>>;

    /// Forgets what happened before `revision`: watches from earlier ones are told so. What is there stays.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn compact(&self, revision: Revision) -> Result<()>;

    /// Puts one key, without a condition.
    ///
    /// # Errors
    /// As [`Store::commit`].
    fn put(&self, key: &str, value: &[u8]) -> Result<Revision> {
        self.unconditional(&Txn::new().put(key, value))
    }

    /// Deletes one key; one that is not there is no error, and no change.
    ///
    /// # Errors
    /// As [`Store::commit`].
    fn delete(&self, key: &str) -> Result<Revision> {
        self.unconditional(&Txn::new().delete(key))
    }

    #[doc(hidden)]
    fn unconditional(&self, txn: &Txn) -> Result<Revision> {
        match self.commit(txn)? {
            Outcome::Committed { revision } => Ok(revision),
            Outcome::Refused => Err(Error::Answer(
                "a transaction without conditions was refused".to_owned(),
            )),
        }
    }
}

/// Changes as they come.
pub trait Watch: Send {
    /// The next changes, in order; those of one revision always together. Empty when none came within `patience`.
    ///
    /// # Errors
    /// [`Error::Compacted`] ends the watch: list again, and watch from there. After [`Error::Unreachable`] it goes on,
    /// and misses nothing once the store is back.
    fn next(&mut self, patience: Duration) -> Result<Vec<Event>>;
}
