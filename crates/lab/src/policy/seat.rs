//! The seat of a live policy: the step loop gives it states and takes decisions, and its connection does the reverse.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use constel_api::answers::{PolicyAnswer, PolicyPart, PolicyState};
use constel_api::{ApiError, ErrorCode, PolicySeat, PolicyTurn};
use constel_plan::{Blueprint, Decision};

use super::read::{Kinds, read};
use super::turns::{Counts, Outcome, Presence, Turns};
use crate::clock::LabClock;

/// A policy that is connected, or was.
pub(crate) struct Seat {
    pub(crate) name: String,
    pub(crate) wants: BTreeSet<PolicyPart>,
    blueprint: Arc<Blueprint>,
    kinds: Kinds,
    clock: Arc<LabClock>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    turns: Turns<Decision>,
    /// The latest state that was not sent yet.
    state: Option<Box<PolicyState>>,
    /// Whether the policy has left, and then whether it did so on purpose.
    gone: Option<bool>,
    /// Whether the lab does not ask any more.
    over: bool,
}

impl Seat {
    /// Creates the seat of a policy that has just joined.
    pub(crate) fn new(
        (name, within_ns): (String, u64),
        wants: BTreeSet<PolicyPart>,
        (blueprint, kinds): (Arc<Blueprint>, Kinds),
        clock: Arc<LabClock>,
    ) -> Self {
        Self {
            name,
            wants,
            blueprint,
            kinds,
            clock,
            inner: Mutex::new(Inner {
                turns: Turns::new(within_ns),
                state: None,
                gone: None,
                over: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time for an answer, nanoseconds.
    pub(crate) fn within_ns(&self) -> u64 {
        self.inner().turns.within_ns()
    }

    /// Returns the counts of its turns so far.
    pub(crate) fn counts(&self) -> Counts {
        self.inner().turns.counts().clone()
    }

    /// Opens a step's turn with its state.
    pub(crate) fn open(&self, state: PolicyState) {
        let mut inner = self.inner();
        inner.turns.open(state.step, self.clock.machine_ns());
        inner.state = Some(Box::new(state));
        self.changed.notify_all();
    }

    /// Waits for the outcome of the open turn, at most this long.
    pub(crate) fn wait(&self, most: Duration) -> Option<(u64, Outcome<Decision>)> {
        let mut inner = self.inner();
        let close = |inner: &mut Inner| {
            let presence = match inner.gone {
                None => Presence::There,
                Some(true) => Presence::Left,
                Some(false) => Presence::Lost,
            };
            inner.turns.close(self.clock.machine_ns(), presence)
        };
        if let Some(outcome) = close(&mut inner) {
            return Some(outcome);
        }
        let left = Duration::from_nanos(inner.turns.left_ns(self.clock.machine_ns()));
        let waited = self.changed.wait_timeout(inner, most.min(left));
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        close(&mut inner)
    }

    /// Returns the time that the open turn still has.
    pub(crate) fn left_of_turn(&self) -> Duration {
        Duration::from_nanos(self.inner().turns.left_ns(self.clock.machine_ns()))
    }

    /// Returns whether the policy has left, and then whether it did so on purpose.
    pub(crate) fn gone(&self) -> Option<bool> {
        self.inner().gone
    }

    /// Ends it: the lab does not ask any more.
    pub(crate) fn end(&self) {
        self.inner().over = true;
        self.changed.notify_all();
    }
}

impl PolicySeat for Seat {
    fn next(&self, within: Duration) -> PolicyTurn {
        let waits =
            |inner: &mut Inner| inner.state.is_none() && !inner.over && inner.gone.is_none();
        let waited = self.changed.wait_timeout_while(self.inner(), within, waits);
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if inner.over || inner.gone.is_some() {
            return PolicyTurn::Ended;
        }
        inner
            .state
            .take()
            .map_or(PolicyTurn::Nothing, PolicyTurn::Decide)
    }

    fn answer(&self, answer: PolicyAnswer) -> Result<(), ApiError> {
        if answer.leave {
            self.inner().gone.get_or_insert(true);
            self.changed.notify_all();
            return Ok(());
        }
        // An answer was in time if it had arrived then; reading it takes no time of the policy.
        let now_ns = self.clock.machine_ns();
        // Names are read here, in the thread of the connection, so that the step loop does not wait for it.
        let decision = read(&self.blueprint.lab, self.kinds, &answer);
        let (code, decision) = match decision {
            Ok(decision) => (ErrorCode::BadValue, Ok(decision)),
            Err(error) => (error.code, Err(error.error)),
        };
        let taken = self.inner().turns.answer(answer.step, now_ns, decision);
        self.changed.notify_all();
        taken.map_err(|reason| ApiError::new(code, reason))
    }

    fn misunderstood(&self, error: &ApiError) {
        // The refusal is sent by the caller.
        let _ = self.inner().turns.refuse(error.error.clone());
        self.changed.notify_all();
    }

    fn left(&self) {
        let mut inner = self.inner();
        // A connection that ends with the lab is no loss.
        if !inner.over {
            inner.gone.get_or_insert(false);
        }
        self.changed.notify_all();
    }
}
