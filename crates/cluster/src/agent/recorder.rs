//! Writes the description of an agent's machine into the store every few seconds.
//!
//! This is a thread of its own. Reading the interface needs the kernel, which may take seconds to answer while a large lab
//! starts or stops, and the renewal of the lease must not wait for that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::agent::facts;
use crate::agent::keys;
use crate::agent::measure::Latest;
use crate::agent::options::{Failure, LOOK_EVERY, Options, Watcher, lost};
use crate::agent::record::{Clock, Record};
use crate::agent::underlay::Responder;
use crate::store::{Condition, Error, Outcome, Revision, Store, Txn};

/// Interval at which the record is written. It is also written as soon as the clock is known.
const RECORD_EVERY: Duration = Duration::from_secs(5);

pub(crate) struct Recorder<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) options: &'a Options,
    pub(crate) watcher: &'a dyn Watcher,
    /// The revision since which the machine's name is held.
    pub(crate) token: Revision,
    pub(crate) responder: Option<&'a Responder>,
    pub(crate) latest: &'a Latest,
    /// The reason why writing ended.
    pub(crate) failure: Mutex<Option<Failure>>,
}

impl Recorder<'_> {
    /// Returns the reason why writing ended, once. Returns `None` while writing goes on, and after the first call.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }

    /// Writes until `end`, or until an error makes further writes useless.
    pub(crate) fn write_on(&self, end: &AtomicBool) {
        // The time of the last write, and whether the clock was in it.
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
            // The next turn writes it again. The lease decides whether this machine still belongs to the cluster.
            Err(Error::Unreachable(_) | Error::Uncertain(_)) => {}
            // A full store still renews the lease.
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
