//! The shared state of a lab's machines: keys with revisions, transactions, leases and watches.
//!
//! [`Store`] is the trait. [`Embedded`] is inside one process, and [`Folder`] is in files that processes of one host share.
//! Neither needs installed software. [`Etcd`] is a cluster accessed through its JSON gateway. One test suite
//! (`tests/conformance.rs`) covers all of them. [`Memory`] is the embedded store without a clock or a lock, for virtual
//! time.
//!
//! The store holds small data that changes rarely: ownership of nodes, commands, failures, status. Every machine plans the
//! steps from the same scenario, so they do not pass through the store.
//!
//! ```
//! use constel_cluster::store::{Condition, Embedded, Outcome, Store, Txn};
//!
//! let store = Embedded::new();
//! let claim = Txn::new().when(Condition::absent("lab/owner")).put("lab/owner", "a");
//! assert!(matches!(store.commit(&claim)?, Outcome::Committed { .. }));
//! assert_eq!(store.commit(&claim)?, Outcome::Refused);
//! assert_eq!(store.get("lab/owner")?.unwrap().value, b"a");
//! # Ok::<(), constel_cluster::store::Error>(())
//! ```

mod address;
mod embedded;
mod error;
mod etcd;
mod folder;
mod follow;
mod memory;
mod model;
mod patient;
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
pub(crate) use patient::Patient;
pub use place::{StoreLocation, StoreLocationError};
pub use tenure::{Fence, LEASE, StoreReply, StoreRequest, Tenure};

/// Keys with revisions. Every change of the store has a number, its revision, which only increases. A transaction is one
/// change, whatever its size.
pub trait Store: Send + Sync {
    /// Returns one key.
    ///
    /// # Errors
    /// If the store cannot be reached.
    fn get(&self, key: &str) -> Result<Option<Entry>>;

    /// Returns all keys that begin with `prefix`, sorted, as a consistent snapshot at the listing's revision.
    ///
    /// # Errors
    /// If the store cannot be reached.
    fn list(&self, prefix: &str) -> Result<Listing>;

    /// Executes all operations in one change if all conditions hold. Otherwise executes none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a request that no store accepts, [`Error::LeaseLost`] if a named lease has ended. The store
    /// has not changed then. After [`Error::Uncertain`] the transaction may have been executed, so read the keys before you repeat
    /// it.
    fn commit(&self, txn: &Txn) -> Result<Outcome>;

    /// Grants a lease. Keys that are put under it are deleted when it ends. The store may grant a longer time than
    /// requested, and returns that time.
    ///
    /// # Errors
    /// If the store cannot be reached.
    fn grant(&self, ttl: Duration) -> Result<Lease>;

    /// Renews a lease for its whole time from now on.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] if it has ended.
    fn keep_alive(&self, lease: LeaseId) -> Result<()>;

    /// Ends a lease and deletes its keys. A lease that has already ended is not an error.
    ///
    /// # Errors
    /// If the store cannot be reached.
    fn revoke(&self, lease: LeaseId) -> Result<()>;

    /// Watches all changes of keys that begin with `prefix`, from `revision` on.
    ///
    /// # Errors
    /// If the store cannot be reached.
    fn watch(&self, prefix: &str, revision: Revision) -> Result<Box<dyn Watch>>;

    /// Forgets the history before `revision`. Watches from earlier revisions get an error. Present keys stay.
    ///
    /// # Errors
    /// If the store cannot be reached.
    fn compact(&self, revision: Revision) -> Result<()>;

    /// Puts one key without a condition.
    ///
    /// # Errors
    /// As [`Store::commit`].
    fn put(&self, key: &str, value: &[u8]) -> Result<Revision> {
        self.unconditional(&Txn::new().put(key, value))
    }

    /// Deletes one key. A missing key is neither an error nor a change.
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

/// A stream of changes.
pub trait Watch: Send {
    /// Returns the next changes in order. Those of one revision always come together. Returns nothing if none arrived within
    /// `patience`.
    ///
    /// # Errors
    /// [`Error::Compacted`] ends the watch: list again, and watch from there. After [`Error::Unreachable`] the watch
    /// continues, and misses nothing once the store is reachable again.
    fn next(&mut self, patience: Duration) -> Result<Vec<Event>>;
}
