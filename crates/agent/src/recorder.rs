//! What an agent tells of its machine in the store, every few seconds.
//!
//! By a thread of its own: to know its interface it asks the kernel, which may take seconds to answer while a large lab comes or
//! goes, and the lease must not wait for that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use constel_store::{Condition, Error, Outcome, Revision, Store, Txn};

use crate::facts;
use crate::keys;
use crate::measure::Latest;
use crate::record::{Clock, Record};
use crate::run::{Failure, LOOK_EVERY, Options, Watcher, lost};
use crate::underlay::Responder;

/// The record is written anew so often, and as soon as the clock is known.
const RECORD_EVERY: Duration = Duration::from_secs(5);

pub(crate) struct Recorder<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) options: &'a Options,
    pub(crate) watcher: &'a dyn Watcher,
    /// Since when the machine's name is ours.
    pub(crate) token: Revision,
    pub(crate) responder: Option<&'a Responder>,
    pub(crate) latest: &'a Latest,
    /// Why it writes no more.
    pub(crate) failure: Mutex<Option<Failure>>,
}

impl Recorder<'_> {
    /// Why no more is written, told once; `None`: it is, or it was told.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }

    /// Writes until `end`, or until there is no use in it.
    pub(crate) fn write_on(&self, end: &AtomicBool) {
        // When it was written last, and whether the clock was in it.
        let mut written: Option<(Instant, bool)> = None;
        let mut has_told_full = false;
        while !end.load(Ordering::Acquire) {
            let has_clock = self.clock().is_some();
            if written.is_none_or(|(at, had)| at.elapsed() >= RECORD_EVERY || has_clock != had) {
                if let Err(failure) = self.write(&mut has_told_full) {
                    let mut place = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                    *place = Some(failure);
                    return;
                }
                written = Some((Instant::now(), has_clock));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn clock(&self) -> Option<Clock> {
        let latest = self.latest.lock();
        let heard = latest.unwrap_or_else(PoisonError::into_inner);
        heard.as_ref().map(|heard| heard.clock.clone())
    }

    fn write(&self, has_told_full: &mut bool) -> Result<(), Failure> {
        let options = self.options;
        let record = Record {
            version: options.version.clone(),
            host: facts::host_name(),
            pid: std::process::id(),
            weight: options.weight,
            capacity: options.capacity,
            workers: options.workers.get(),
            cores: facts::cores(),
            memory_bytes: facts::memory(),
            load: facts::load(),
            nodes: self.watcher.nodes(),
            underlay: self.responder.map(Responder::now),
            clock: self.clock(),
        };
        let text = serde_json::to_vec(&record).map_err(|e| Error::Invalid(e.to_string()))?;
        let owned = Condition::created_at(keys::owner(&options.name), self.token);
        let txn = Txn::new()
            .when(owned)
            .put(keys::record(&options.name), text);
        match self.store.commit(&txn) {
            Ok(Outcome::Committed { .. }) => *has_told_full = false,
            Ok(Outcome::Refused) => {
                return Err(lost(&options.name, "the store has ended it"));
            }
            // It is written the next time. Whether we are still there, the lease decides.
            Err(Error::Unreachable(_) | Error::Uncertain(_)) => {}
            // Its lease is renewed all the same.
            Err(error @ Error::Full(_)) => {
                if !std::mem::replace(has_told_full, true) {
                    let text = format!("{error}; labs go on, nothing new begins");
                    self.watcher.tell(&text);
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
