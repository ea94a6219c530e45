//! A name held in the store: `Tenure`, and the store that it asks.

use std::sync::Arc;

use constel_store::{Answer, Ask, Error, LeaseId, Outcome, Result, Revision, Store, Tenure, Txn};

use crate::clocks::lease_ns;
use crate::keys;

/// One agent's hold on its name.
pub(crate) struct Hold {
    store: Arc<dyn Store>,
    tenure: Tenure,
    part: String,
    lease: Option<LeaseId>,
    /// Why the store did not answer the last question; `None`: it did.
    pub(crate) trouble: Option<Error>,
}

/// What a question brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing was to be asked.
    Idle,
    /// Something was asked.
    Asked,
    /// Somebody else has the name.
    TakenByOther,
}

impl Hold {
    /// Wants `name`; `owner` is what its key is to hold.
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

    /// The revision at which the name became ours; `None`: it is not, or not any more.
    pub(crate) fn token(&self) -> Option<Revision> {
        self.tenure.token(&self.part, lease_ns())
    }

    pub(crate) fn lease(&self) -> Option<LeaseId> {
        self.lease
    }

    /// Until when the name is ours without a further sign of life, `CLOCK_BOOTTIME`; 0: it is not.
    pub(crate) fn until_ns(&self) -> u64 {
        self.tenure.until_ns().unwrap_or(0)
    }

    /// For how long the name is ours without a further sign of life, nanoseconds.
    pub(crate) fn left_ns(&self) -> u64 {
        self.until_ns().saturating_sub(lease_ns())
    }

    /// Asks the store what is to be asked now.
    ///
    /// # Errors
    /// When asking again is no use: it refuses us, or answers nonsense.
    pub(crate) fn turn(&mut self) -> Result<Turn> {
        let Some((number, ask)) = self.tenure.next(lease_ns()) else {
            return Ok(Turn::Idle);
        };
        let asked = self.ask(&ask);
        let (answer, trouble) = match asked {
            Ok(answer) => (answer, None),
            Err(Error::LeaseLost(_)) => (Answer::LeaseLost, None),
            Err(error @ (Error::Unreachable(_) | Error::Uncertain(_))) => {
                (Answer::Nothing, Some(error))
            }
            Err(error) => return Err(error),
        };
        self.trouble = trouble;
        if let Answer::Granted(lease, _) = answer {
            self.lease = Some(lease);
        }
        let is_other = matches!(answer, Answer::Looked(Some((lease, _))) if lease != self.lease);
        self.tenure.answered(number, answer, lease_ns());
        Ok(if is_other {
            Turn::TakenByOther
        } else {
            Turn::Asked
        })
    }

    fn ask(&self, ask: &Ask) -> Result<Answer> {
        Ok(match ask {
            Ask::Grant(ttl) => {
                let lease = self.store.grant(*ttl)?;
                Answer::Granted(lease.id, lease.ttl)
            }
            Ask::KeepAlive(lease) => {
                self.store.keep_alive(*lease)?;
                Answer::KeptAlive
            }
            Ask::Claim(_, txn) => match self.store.commit(txn)? {
                Outcome::Committed { revision } => Answer::Claimed(revision),
                Outcome::Refused => Answer::Taken,
            },
            Ask::Look(key) => {
                let entry = self.store.get(key)?;
                Answer::Looked(entry.map(|entry| (entry.lease, entry.created)))
            }
        })
    }

    /// Gives the name back: `also` is done in the same change if it is still ours.
    ///
    /// # Errors
    /// When the store cannot be asked: the name is free when the lease is over.
    pub(crate) fn release(self, also: Txn) -> Result<()> {
        if let Some(token) = self.token() {
            let txn = also.when(constel_store::Condition::created_at(&self.part, token));
            self.store.commit(&txn.delete(&self.part))?;
        }
        self.lease.map_or(Ok(()), |lease| self.store.revoke(lease))
    }
}
