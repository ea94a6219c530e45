//! Containers of one lab in an engine: made and removed several at a time, never without our mark.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use constel_host::globals::Owner;
use constel_host::threads::results_of;
use constel_host::{Error, Result};

use crate::engine::{ContainerOptions, Engine, LAB_LABEL, OWNER_LABEL};

/// An engine removes a container in a tenth of a second, and takes longer when it has much to do.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// How long an engine may take to notice that a container has ended.
const SAYS_WITHIN: Duration = Duration::from_secs(10);

/// Engines answer several requests in parallel, and wait for disks and locks in between. On two processors, four requests in
/// parallel take half as long as the same requests one after another.
const LEAST_AT_ONCE: usize = 4;

/// The containers of a lab.
#[derive(Debug)]
pub struct Crew {
    engine: Engine,
    owner: Owner,
    at_once: usize,
    numbers: AtomicUsize,
}

impl Crew {
    /// Creates a crew for the lab of that owner.
    #[must_use]
    pub fn new(engine: Engine, owner: Owner) -> Arc<Self> {
        let processors = thread::available_parallelism().map_or(1, |n| n.get());
        Arc::new(Self {
            engine,
            owner,
            at_once: processors.max(LEAST_AT_ONCE),
            numbers: AtomicUsize::new(0),
        })
    }

    /// The labels that every container of the lab has.
    #[must_use]
    pub fn labels(owner: &Owner) -> [(String, String); 2] {
        [
            (LAB_LABEL.to_owned(), owner.name.clone()),
            (OWNER_LABEL.to_owned(), owner.process.mark()),
        ]
    }

    /// Removes every container of the lab that this process answers for, and waits until they are gone. Others are not
    /// touched, whatever they are called.
    ///
    /// # Errors
    /// The first that is not gone, after all have been tried; when the engine does not answer.
    pub fn remove_all(&self) -> Result<()> {
        let listed = self.engine.containers(Some(&self.owner.name));
        let mut listed = listed.map_err(refused)?;
        let mark = self.owner.process.mark();
        listed.retain(|one| one.owner.as_ref() == Some(&mark));
        let first = Mutex::new(None);
        self.each(listed.len(), |n| {
            if let Err(error) = self.engine.remove(&listed[n].id, GONE_WITHIN) {
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(refused(error));
            }
            Ok(())
        })?;
        let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map_or(Ok(()), Err)
    }

    /// A number that no other container of the lab has.
    pub(super) fn next_number(&self) -> usize {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Calls `work` `count` times, several calls in parallel, and returns the results in order.
    ///
    /// # Errors
    /// The first error. Results that already exist are then dropped.
    pub(super) fn each<T: Send>(
        &self,
        count: usize,
        work: impl Fn(usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let done = Mutex::new(Vec::with_capacity(count));
        let run = || {
            while !failed.load(Ordering::Acquire) {
                let n = next.fetch_add(1, Ordering::AcqRel);
                if n >= count {
                    return Ok(());
                }
                let one = work(n).inspect_err(|_| failed.store(true, Ordering::Release))?;
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                done.push((n, one));
            }
            Ok(())
        };
        let ended: Vec<Result<()>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.at_once.min(count))
                .map(|_| scope.spawn(run))
                .collect();
            results_of(threads)
        });
        ended.into_iter().collect::<Result<()>>()?;
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(n, _)| *n);
        Ok(done.into_iter().map(|(_, one)| one).collect())
    }

    /// Makes a container and starts it.
    pub(super) fn make(self: &Arc<Self>, order: &ContainerOptions) -> Result<Made> {
        let id = self.engine.create(order).map_err(refused)?;
        let made = Made {
            crew: Arc::clone(self),
            id,
        };
        self.engine.start(&made.id).map_err(refused)?;
        Ok(made)
    }
}

/// A container that was made; dropping it removes it.
pub(super) struct Made {
    crew: Arc<Crew>,
    id: String,
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}

impl Made {
    /// As the engine calls it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Removes it now. A missing container is not an error.
    pub(super) fn remove(&self) -> Result<()> {
        let removed = self.crew.engine.remove(&self.id, GONE_WITHIN);
        removed.map_err(refused)
    }

    /// Returns whether one of its processes was killed at its memory limit, as far as the engine has noticed and reports it.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        let patient = self.crew.engine.clone().patience(SAYS_WITHIN);
        patient.ran_out_of_memory(&self.id).unwrap_or(false)
    }

    /// The number of its first process.
    pub(super) fn first_process(&self) -> Result<u32> {
        let pid = self.crew.engine.first_process(&self.id).map_err(refused)?;
        pid.ok_or_else(|| self.explain(Error::Conflict("it ended at once".to_owned())))
    }

    /// Returns its exit code after its end.
    pub(super) fn exit_code(&self) -> Result<i64> {
        let patient = self.crew.engine.clone().patience(SAYS_WITHIN);
        patient.exit_code(&self.id).map_err(refused)
    }

    /// Why its first process did not come, as far as the engine knows.
    pub(super) fn explain(&self, error: Error) -> Error {
        let patient = self.crew.engine.clone().patience(Duration::from_secs(1));
        match patient.exit_code(&self.id) {
            Ok(code) => Error::Conflict(format!("{error} (its first process ended with {code})")),
            Err(_) => error,
        }
    }

    /// The engine's socket, as messages have it.
    pub(super) fn engine(&self) -> String {
        format!("the engine at {}", self.crew.engine.socket().display())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // Ignores errors: the removal was requested before, and its errors were reported then.
        drop(self.crew.engine.remove(&self.id, GONE_WITHIN));
    }
}

/// Converts the engine's error into one of the host's errors.
fn refused(error: crate::engine::Error) -> Error {
    Error::Conflict(error.to_string())
}
