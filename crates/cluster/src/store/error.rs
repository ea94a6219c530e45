//! The errors of a store.

use crate::store::model::{LeaseId, Revision};

/// The reason why a store did not execute a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No member answers, or the answering ones have no majority. The store has not changed.
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    /// The request was sent and no answer arrived. It may have been executed or not.
    #[error("the store did not say whether it is done: {0}")]
    Uncertain(String),
    /// The history before the requested revision has been compacted.
    #[error("the store has forgotten what happened before revision {oldest}")]
    Compacted {
        /// The oldest revision from which a watch can start.
        oldest: Revision,
    },
    /// The lease has ended, or never existed.
    #[error("lease {0} is over")]
    LeaseLost(LeaseId),
    /// No store accepts this request.
    #[error("not for a store: {0}")]
    Invalid(String),
    /// The store denies access: user, password, rights.
    #[error("the store refuses: {0}")]
    Denied(String),
    /// The store is full: writes fail, but reads and renewals of leases still work.
    #[error("the store is full: {0}")]
    Full(String),
    /// The answer of the store is invalid.
    #[error("the store answers nonsense: {0}")]
    Answer(String),
}

/// The result of a request to a store.
pub type Result<T> = std::result::Result<T, Error>;
