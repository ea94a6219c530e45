//! What can go wrong with a store.

use crate::model::{LeaseId, Revision};

/// Why a store did not do as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody answers, or those who do have no majority. Nothing has changed.
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    /// The question went out and no answer came: it may have been carried out or not.
    #[error("the store did not say whether it is done: {0}")]
    Uncertain(String),
    /// What was to be watched has been forgotten.
    #[error("the store has forgotten what happened before revision {oldest}")]
    Compacted {
        /// The oldest revision that can be watched from.
        oldest: Revision,
    },
    /// The lease is over, or never was.
    #[error("lease {0} is over")]
    LeaseLost(LeaseId),
    /// No store takes this.
    #[error("not for a store: {0}")]
    Invalid(String),
    /// The store does not let us: user, password, rights.
    #[error("the store refuses: {0}")]
    Denied(String),
    /// The store has no room: nothing is written, what is there can be read, and leases can be renewed.
    #[error("the store is full: {0}")]
    Full(String),
    /// The store says what no store should.
    #[error("the store answers nonsense: {0}")]
    Answer(String),
}

/// A result of asking a store.
pub type Result<T> = std::result::Result<T, Error>;
