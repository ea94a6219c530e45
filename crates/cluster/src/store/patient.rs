//! A store whose silence is waited out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{Entry, Error, Lease, LeaseId, Listing, Outcome, Result, Revision, Store, Txn, Watch};

/// Pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(200);

/// Repeats requests that the store does not answer, until a lease is lost: a store whose disk is busy for some seconds does
/// not end a lab. Transactions with conditions are repeated only if the store has certainly not executed them.
pub(crate) struct Patient<'a> {
    store: &'a dyn Store,
    lost: &'a AtomicBool,
}

impl<'a> Patient<'a> {
    /// The thread that renews the lease sets `lost`, at the latest when the lease would have ended.
    pub(crate) fn new(store: &'a dyn Store, lost: &'a AtomicBool) -> Self {
        Self { store, lost }
    }

    fn repeat<T>(&self, ask: impl Fn() -> Result<T>, unanswered: fn(&Error) -> bool) -> Result<T> {
        loop {
            match ask() {
                // After the loss of the lease the keys are gone, and another attempt would only delay the end.
                Err(error) if unanswered(&error) && !self.lost.load(Ordering::Acquire) => {
                    thread::sleep(PAUSE);
                }
                answered => return answered,
            }
        }
    }
}

fn not_done(error: &Error) -> bool {
    matches!(error, Error::Unreachable(_))
}

fn not_known(error: &Error) -> bool {
    matches!(error, Error::Unreachable(_) | Error::Uncertain(_))
}

impl Store for Patient<'_> {
    fn get(&self, key: &str) -> Result<Option<Entry>> {
        self.repeat(|| self.store.get(key), not_done)
    }

    fn list(&self, prefix: &str) -> Result<Listing> {
        self.repeat(|| self.store.list(prefix), not_done)
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        // Without conditions, the second execution writes what the first has written.
        let unanswered = match txn.conditions.is_empty() {
            true => not_known,
            false => not_done,
        };
        self.repeat(|| self.store.commit(txn), unanswered)
    }

    fn grant(&self, ttl: Duration) -> Result<Lease> {
        self.repeat(|| self.store.grant(ttl), not_done)
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        self.store.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Result<()> {
        self.repeat(|| self.store.revoke(lease), not_done)
    }

    fn watch(&self, prefix: &str, revision: Revision) -> Result<Box<dyn Watch>> {
        self.repeat(|| self.store.watch(prefix, revision), not_done)
    }

    fn compact(&self, revision: Revision) -> Result<()> {
        self.repeat(|| self.store.compact(revision), not_done)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::store::{Condition, Embedded};

    /// Fails the first requests, after it has executed them or before.
    struct Busy {
        store: Embedded,
        left: AtomicU32,
        error: Error,
    }

    impl Busy {
        fn new(left: u32, error: Error) -> Self {
            Self {
                store: Embedded::new(),
                left: AtomicU32::new(left),
                error,
            }
        }

        fn answer<T>(&self, answer: Result<T>) -> Result<T> {
            let one = |left: u32| left.checked_sub(1);
            match self
                .left
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, one)
            {
                Ok(_) => Err(self.error.clone()),
                Err(_) => answer,
            }
        }
    }

    impl Store for Busy {
        fn get(&self, key: &str) -> Result<Option<Entry>> {
            self.answer(self.store.get(key))
        }
        fn list(&self, prefix: &str) -> Result<Listing> {
            self.answer(self.store.list(prefix))
        }
        fn commit(&self, txn: &Txn) -> Result<Outcome> {
            self.answer(self.store.commit(txn))
        }
        fn grant(&self, ttl: Duration) -> Result<Lease> {
            self.answer(self.store.grant(ttl))
        }
        fn keep_alive(&self, lease: LeaseId) -> Result<()> {
            self.answer(self.store.keep_alive(lease))
        }
        fn revoke(&self, lease: LeaseId) -> Result<()> {
            self.answer(self.store.revoke(lease))
        }
        fn watch(&self, prefix: &str, revision: Revision) -> Result<Box<dyn Watch>> {
            self.answer(self.store.watch(prefix, revision))
        }
        fn compact(&self, revision: Revision) -> Result<()> {
            self.answer(self.store.compact(revision))
        }
    }

    fn silent() -> Error {
        Error::Unreachable("timeout".to_owned())
    }

    #[test]
    fn requests_are_repeated_until_the_store_answers() {
        let busy = Busy::new(2, silent());
        let lost = AtomicBool::new(false);
        let patient = Patient::new(&busy, &lost);
        assert_eq!(patient.get("a").unwrap(), None);
        busy.left.store(2, Ordering::Release);
        patient.put("a", b"1").unwrap();
        assert_eq!(busy.store.get("a").unwrap().unwrap().value, b"1");
    }

    #[test]
    fn a_lost_lease_ends_the_patience() {
        let busy = Busy::new(u32::MAX, silent());
        let lost = AtomicBool::new(true);
        let patient = Patient::new(&busy, &lost);
        assert_eq!(patient.get("a").unwrap_err(), silent());
        assert_eq!(
            busy.left.load(Ordering::Acquire),
            u32::MAX - 1,
            "asked once"
        );
    }

    #[test]
    fn what_may_have_been_done_is_repeated_only_if_that_changes_nothing() {
        let uncertain = Error::Uncertain("timeout".to_owned());
        let busy = Busy::new(1, uncertain.clone());
        let lost = AtomicBool::new(false);
        let patient = Patient::new(&busy, &lost);
        let claim = Txn::new().when(Condition::absent("a")).put("a", "1");
        assert_eq!(patient.commit(&claim).unwrap_err(), uncertain);
        busy.left.store(1, Ordering::Release);
        patient.put("a", b"2").unwrap();
        assert_eq!(busy.store.get("a").unwrap().unwrap().value, b"2");
    }
}
