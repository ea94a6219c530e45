//! Links set by hand in a lab on several machines: whoever is asked has all of them told, and all do it at the same lab time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use constel_api::answers::LinkSet;
use constel_api::{ApiError, ErrorCode};

use crate::answers::impair::Impairing;
use crate::answers::view::View;
use crate::life::together::Gate;

/// What is told is in force so soon, or the store is away.
const WITHIN: Duration = Duration::from_secs(10);
/// How soon an end is noticed.
const LOOK: Duration = Duration::from_millis(50);
/// A change that takes force later than this after its lab time was not at the same time everywhere.
const LATE_NS: u64 = 10_000_000;

/// What all machines are to put on edges at one lab time.
#[derive(Debug, Clone, PartialEq)]
pub struct SetTogether {
    /// The number of the machine that was asked, and which of its orders it is.
    pub by: (usize, u64),
    /// Lab time, nanoseconds.
    pub at_ns: u64,
    /// What is put where.
    pub what: Impairing,
}

/// What came of an order, with the version of the list of failed links if that changed.
type Done = Result<(LinkSet, Option<u64>), ApiError>;

/// This machine's orders to all, and those of others.
pub(crate) struct Orders {
    here: usize,
    gate: Arc<dyn Gate>,
    count: AtomicU64,
    /// By its number: what became of an order of ours that somebody waits for, once it is in force.
    waiting: Mutex<BTreeMap<u64, Option<Done>>>,
    told: Condvar,
    /// Changes that took force too late here, and the latest of them, nanoseconds.
    late: Mutex<(u64, u64)>,
}

impl Orders {
    pub(crate) fn new(here: usize, gate: Arc<dyn Gate>) -> Self {
        Self {
            here,
            gate,
            count: AtomicU64::new(0),
            waiting: Mutex::default(),
            told: Condvar::new(),
            late: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Option<Done>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has all machines told, and waits until it is in force here.
    ///
    /// # Errors
    /// What came of it here; when nothing did within some seconds, or the lab ends.
    pub(crate) fn order(&self, what: &Impairing, stop: &AtomicBool) -> Done {
        let number = self.count.fetch_add(1, Ordering::AcqRel);
        self.waiting().insert(number, None);
        self.gate.order(number, what);
        let done = self.wait(number, stop);
        self.waiting().remove(&number);
        done
    }

    fn wait(&self, number: u64, stop: &AtomicBool) -> Done {
        let until = Instant::now() + WITHIN;
        let mut waiting = self.waiting();
        loop {
            if let Some(done) = waiting.get_mut(&number).and_then(Option::take) {
                return done;
            }
            let left = until.saturating_duration_since(Instant::now());
            if stop.load(Ordering::Acquire) {
                let error = "the lab ends before that could take force on all machines";
                return Err(ApiError::new(ErrorCode::Failed, error.to_owned()));
            }
            if left.is_zero() {
                let error = format!(
                    "the machines did not hear of it within {} s: is the store away? It may still take force",
                    WITHIN.as_secs()
                );
                return Err(ApiError::new(ErrorCode::Failed, error));
            }
            let waited = self.told.wait_timeout(waiting, left.min(LOOK));
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Does what all machines are told, each at its lab time, until the lab is `over`.
    pub(crate) fn follow(&self, view: &View, over: &AtomicBool) {
        let is_over = || over.load(Ordering::Acquire);
        let mut known = 0;
        while !is_over() {
            let Some(SetTogether { by, at_ns, what }) = self.gate.set_together(known, LOOK) else {
                continue;
            };
            known += 1;
            while let Some(left) = view.clock.until(at_ns).filter(|left| !left.is_zero()) {
                if is_over() {
                    return;
                }
                view.clock.sleep(left.min(LOOK));
            }
            let late_ns = view.clock.now_ns().unwrap_or(0).saturating_sub(at_ns);
            if late_ns > LATE_NS {
                let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
                *late = (late.0 + 1, late.1.max(late_ns));
            }
            let done = view.put(&what, Some(at_ns));
            if by.0 == self.here
                && let Some(waits) = self.waiting().get_mut(&by.1)
            {
                *waits = Some(done);
                self.told.notify_all();
            }
        }
    }

    /// Why figures may not be trusted, if changes came too late here.
    pub(crate) fn doubt(&self) -> Option<String> {
        let (count, latest_ns) = *self.late.lock().unwrap_or_else(PoisonError::into_inner);
        (count > 0).then(|| {
            format!(
                "{count} changes of links by hand took force later here than on other machines, by up to {:.1} ms: the store is too \
                 slow, or the machine too busy",
                latest_ns as f64 / 1e6
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::impair::On;
    use crate::testing::OpenGate;
    use constel_link::{Effects, PortId};

    #[test]
    fn nobody_waits_for_a_lab_that_ends() {
        let orders = Orders::new(0, Arc::new(OpenGate));
        let what = Impairing {
            link: "a/x".to_owned(),
            on: On::Port(PortId(1)),
            effects: Effects::default(),
            reset: true,
        };
        let began = Instant::now();
        let refused = orders.order(&what, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::Failed);
        assert!(began.elapsed() < WITHIN && orders.waiting().is_empty());
        assert_eq!(orders.doubt(), None);
        *orders.late.lock().unwrap() = (2, 12_000_000);
        assert!(orders.doubt().unwrap().contains("by up to 12.0 ms"));
    }
}
