//! Changes by command in a lab on several machines: the machine that gets the request sends it to all, and all make
//! it at the same lab time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use constel_api::{ApiError, ErrorCode};

use crate::answers::by_hand::{Made, ManualChange};
use crate::answers::view::View;
use crate::life::together::Gate;

/// The largest order, bytes: etcd accepts 1.5 MiB in a request.
const MOST_BYTES: usize = 1 << 20;
/// The time within which an order must be in force; otherwise the store is unavailable.
const WITHIN: Duration = Duration::from_secs(10);
/// How often the end of the lab is checked.
const LOOK: Duration = Duration::from_millis(50);
/// A change that takes effect later than this after its lab time counts as not simultaneous.
const LATE_NS: u64 = 10_000_000;

/// A change that all machines make at one lab time.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduledChange {
    /// The number of the machine that got the request, and the number of the order on it.
    pub by: (usize, u64),
    /// Lab time, nanoseconds.
    pub at_ns: u64,
    /// The change.
    pub what: ManualChange,
}

/// The result of an order.
type Done = Result<Made, ApiError>;

/// The orders that this machine sends to all, and those that it receives.
pub(crate) struct Orders {
    here: usize,
    gate: Arc<dyn Gate>,
    count: AtomicU64,
    /// The results of this machine's orders that a caller waits for, by number; `None` until the order is in force.
    waiting: Mutex<BTreeMap<u64, Option<Done>>>,
    told: Condvar,
    wrong: Mutex<Wrong>,
}

/// The differences between this machine and the others.
#[derive(Default)]
struct Wrong {
    /// The number of changes that took effect too late here.
    late: u64,
    latest_ns: u64,
    /// The first change that was refused here, with the reason.
    refused: Option<String>,
}

impl Orders {
    pub(crate) fn new(here: usize, gate: Arc<dyn Gate>) -> Self {
        Self {
            here,
            gate,
            count: AtomicU64::new(0),
            waiting: Mutex::default(),
            told: Condvar::new(),
            wrong: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Option<Done>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an order to all machines, and waits until it is in force here.
    ///
    /// # Errors
    /// The error of the change here; also when the order is too large for the store, no answer arrives within some
    /// seconds, or the lab ends.
    pub(crate) fn order(&self, what: &ManualChange, stop: &AtomicBool) -> Done {
        let bytes = serde_json::to_vec(what).map_or(0, |text| text.len());
        if bytes > MOST_BYTES {
            let error = format!(
                "this change is {bytes} bytes, and at most {MOST_BYTES} go through the store: make less of it at a time"
            );
            return Err(ApiError::new(ErrorCode::BadValue, error));
        }
        let number = self.count.fetch_add(1, Ordering::AcqRel);
        // The entry must exist before the order is sent, because the answer may arrive at once.
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
                    "the machines were not notified within {} s: check the store; the change may still take effect",
                    WITHIN.as_secs()
                );
                return Err(ApiError::new(ErrorCode::Failed, error));
            }
            let waited = self.told.wait_timeout(waiting, left.min(LOOK));
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Makes the changes that all machines receive, each at its lab time, until the lab is `over`.
    pub(crate) fn follow(&self, view: &View, over: &AtomicBool) {
        let is_over = || over.load(Ordering::Acquire);
        let (mut known, mut last_ns) = (0, 0);
        while !is_over() {
            let Some(ScheduledChange { by, at_ns, what }) = self.gate.set_together(known, LOOK)
            else {
                continue;
            };
            known += 1;
            // A later order can have an earlier lab time. All machines then make it at the time of the order
            // before, to keep the same sequence.
            let at_ns = at_ns.max(last_ns);
            last_ns = at_ns;
            // The wait is divided so that the end of the lab is noticed.
            while let Some(left) = view.clock.until(at_ns).filter(|left| !left.is_zero()) {
                if is_over() {
                    return;
                }
                view.clock.sleep(left.min(LOOK));
            }
            let late_ns = view.clock.now_ns().unwrap_or(0).saturating_sub(at_ns);
            let done = view.make(&what, Some(at_ns));
            // A refusal while the lab ends says nothing about the other machines.
            if !is_over() {
                self.judge(&what, late_ns, done.as_ref().err());
            }
            if by.0 == self.here
                && let Some(waits) = self.waiting().get_mut(&by.1)
            {
                *waits = Some(done);
                self.told.notify_all();
            }
        }
    }

    fn wrong(&self) -> MutexGuard<'_, Wrong> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, what: &ManualChange, late_ns: u64, refused: Option<&ApiError>) {
        let mut wrong = self.wrong();
        if late_ns > LATE_NS {
            wrong.late += 1;
            wrong.latest_ns = wrong.latest_ns.max(late_ns);
        }
        if let Some(error) = refused {
            let why = || format!("{} was not changed by hand here: {error}", what.words());
            wrong.refused.get_or_insert_with(why);
        }
    }

    /// Returns reasons against the run's measurements: changes that were made later here than on other machines, or
    /// not at all.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let wrong = self.wrong();
        let late = (wrong.late > 0).then(|| {
            format!(
                "{} changes by hand took force later here than on other machines, by up to {:.1} ms: the store is too slow, or \
                 the machine too busy",
                wrong.late,
                wrong.latest_ns as f64 / 1e6
            )
        });
        late.into_iter().chain(wrong.refused.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::by_hand::{Delays, EffectTarget, Impairing};
    use crate::testing::OpenGate;
    use constel_link::{Effects, PortId};

    #[test]
    fn nobody_waits_for_a_lab_that_ends() {
        let orders = Orders::new(0, Arc::new(OpenGate));
        let what = ManualChange::Link(Box::new(Impairing {
            link: "a/x".to_owned(),
            on: EffectTarget::Port(PortId(1)),
            effects: Effects::default(),
            reset: true,
            for_ns: None,
        }));
        let began = Instant::now();
        let refused = orders.order(&what, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::Failed);
        assert!(began.elapsed() < WITHIN && orders.waiting().is_empty());
        let large = ManualChange::Delays(Delays {
            network: 0,
            delays_ns: Some(vec![vec![Some(1_000_000); 500]; 500]),
        });
        let large = orders.order(&large, &AtomicBool::new(false)).unwrap_err();
        assert_eq!(large.code, ErrorCode::BadValue, "{large}");
        orders.judge(&what, LATE_NS, None);
        assert_eq!(orders.doubts(), [""; 0]);
        orders.judge(&what, 12_000_000, Some(&refused));
        let doubts = orders.doubts();
        assert!(doubts[0].contains("by up to 12.0 ms"), "{doubts:?}");
        assert!(doubts[1].starts_with("a/x was not changed by hand here"));
    }
}
