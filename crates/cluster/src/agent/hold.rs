//! A name held in the store: a `Tenure` together with the store that it sends requests to.

use std::sync::Arc;

use crate::agent::clocks::lease_ns;
use crate::agent::keys;
use crate::store::{
    Error, LeaseId, Outcome, Result, Revision, Store, StoreReply, StoreRequest, Tenure, Txn,
};

/// The hold of one agent on its name.
pub(crate) struct Hold {
    store: Arc<dyn Store>,
    tenure: Tenure,
    part: String,
    lease: Option<LeaseId>,
    /// The error if the store did not answer the last request, or `None` if it did.
    pub(crate) trouble: Option<Error>,
}

/// The outcome of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// No request was due.
    Idle,
    /// A request was sent.
    Asked,
    /// Another agent holds the name.
    TakenByOther,
}

impl Hold {
    /// Prepares to hold `name`. `owner` becomes the value of its key.
    pub(crate) fn new(store: Arc<dyn Store>, name: &str, owner: &str) -> Self {
        let part = keys::owner(name);
        Self {
            store,
            tenure: Tenure::new(owner, [part.clone()]),
            part,
            lease: None,
            trouble: None,
        }
    }

    /// Returns the revision at which this agent got the name, or `None` if it does not hold the name now.
    pub(crate) fn token(&self) -> Option<Revision> {
        self.tenure.token(&self.part, lease_ns())
    }

    pub(crate) fn lease(&self) -> Option<LeaseId> {
        self.lease
    }

    /// Returns the `CLOCK_BOOTTIME` until which the name is held without another renewal, or 0 if it is not held.
    pub(crate) fn until_ns(&self) -> u64 {
        self.tenure.until_ns().unwrap_or(0)
    }

    /// Returns the time for which the name is held without another renewal, nanoseconds.
    pub(crate) fn left_ns(&self) -> u64 {
        self.until_ns().saturating_sub(lease_ns())
    }

    /// Sends the store the request that is due now.
    ///
    /// # Errors
    /// If another attempt is useless: the store refuses this agent or sends an invalid answer.
    pub(crate) fn turn(&mut self) -> Result<Turn> {
        let Some((number, ask)) = self.tenure.next(lease_ns()) else {
            return Ok(Turn::Idle);
        };
        let asked = self.ask(&ask);
        let (answer, trouble) = match asked {
            Ok(answer) => (answer, None),
            // A lost lease is an answer, and the tenure starts again. Without an answer the request is repeated.
            Err(Error::LeaseLost(_)) => (StoreReply::LeaseLost, None),
            Err(error @ (Error::Unreachable(_) | Error::Uncertain(_))) => {
                (StoreReply::Nothing, Some(error))
            }
            Err(error) => return Err(error),
        };
        self.trouble = trouble;
        if let StoreReply::Granted(lease, _) = answer {
            self.lease = Some(lease);
        }
        // After a claim without an answer the key may have this agent's own lease.
        let is_other =
            matches!(answer, StoreReply::Looked(Some((lease, _))) if lease != self.lease);
        self.tenure.answered(number, answer, lease_ns());
        Ok(if is_other {
            Turn::TakenByOther
        } else {
            Turn::Asked
        })
    }

    fn ask(&self, ask: &StoreRequest) -> Result<StoreReply> {
        Ok(match ask {
            StoreRequest::Grant(ttl) => {
                let lease = self.store.grant(*ttl)?;
                StoreReply::Granted(lease.id, lease.ttl)
            }
            StoreRequest::KeepAlive(lease) => {
                self.store.keep_alive(*lease)?;
                StoreReply::KeptAlive
            }
            StoreRequest::Claim(_, txn) => match self.store.commit(txn)? {
                Outcome::Committed { revision } => StoreReply::Claimed(revision),
                Outcome::Refused => StoreReply::Taken,
            },
            StoreRequest::Look(key) => {
                let entry = self.store.get(key)?;
                StoreReply::Looked(entry.map(|entry| (entry.lease, entry.created)))
            }
        })
    }

    /// Releases the name. If it is still held, `also` is applied in the same transaction.
    ///
    /// # Errors
    /// If the store cannot be reached. The name then becomes free when the lease ends.
    pub(crate) fn release(self, also: Txn) -> Result<()> {
        // If another agent has the name by now, its key must stay.
        if let Some(token) = self.token() {
            let txn = also.when(crate::store::Condition::created_at(&self.part, token));
            self.store.commit(&txn.delete(&self.part))?;
        }
        self.lease.map_or(Ok(()), |lease| self.store.revoke(lease))
    }
}
