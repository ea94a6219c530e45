//! The door by which a live policy joins a lab.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use constel_api::answers::PolicyJoined;
use constel_api::{ApiError, ErrorCode, PolicyOrder};
use constel_plan::{Blueprint, Decision};
use constel_topology::Stepper;

use super::read::Kinds;
use super::seat::Seat;
use crate::clock::LabClock;

/// The policy of a lab, and everything that policies have decided.
#[derive(Default)]
pub(crate) struct PolicyDoor(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    seat: Option<Arc<Seat>>,
    /// The kinds of decisions that the scenario leaves to policies; known with the first one.
    kinds: Option<Kinds>,
    /// Decisions with their lab times, nanoseconds.
    decided: Vec<(u64, Decision)>,
    /// Whether lab time is over.
    closed: bool,
}

impl PolicyDoor {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a policy join.
    ///
    /// # Errors
    /// [`ErrorCode::BadValue`], [`ErrorCode::Unsupported`] if there is one, [`ErrorCode::ComingUp`] after lab time.
    pub(crate) fn join(
        &self,
        order: &PolicyOrder,
        blueprint: &Arc<Blueprint>,
        clock: &Arc<LabClock>,
    ) -> Result<(PolicyJoined, Arc<Seat>), ApiError> {
        let lab = &blueprint.lab;
        let step_ns = lab.step_ns();
        let most_ns = step_ns / 2;
        let within_ns = order.within_ns.map_or(most_ns, u64::from);
        let letters = order.name.chars().count();
        if !(1..=64).contains(&letters) || order.name.chars().any(char::is_control) {
            let error = "`name` of a policy has 1 to 64 characters, without control characters";
            return Err(ApiError::new(ErrorCode::BadValue, error));
        }
        if within_ns > most_ns {
            let (within_ms, most_ms) = (within_ns as f64 / 1e6, most_ns as f64 / 1e6);
            let error = format!(
                "`within_ns` is {within_ms} ms; at most {most_ms} ms, half a step, so that the step is planned in time. A longer `step` allows more"
            );
            return Err(ApiError::new(ErrorCode::BadValue, error));
        }
        let mut inner = self.inner();
        if inner.closed {
            return Err(ApiError::coming_up());
        }
        if let Some(other) = &inner.seat {
            let name = &other.name;
            let error = match other.gone() {
                None => format!("the policy `{name}` decides for this lab"),
                // The step loop has not noticed yet.
                Some(_) => {
                    format!("the policy `{name}` has just left: try again after the next step")
                }
            };
            return Err(ApiError::new(ErrorCode::Unsupported, error));
        }
        let kinds = *inner.kinds.get_or_insert_with(|| Kinds::of(lab));
        let seat = Arc::new(Seat::new(
            (order.name.clone(), within_ns),
            order.wants.clone(),
            (Arc::clone(blueprint), kinds),
            Arc::clone(clock),
        ));
        inner.seat = Some(Arc::clone(&seat));
        let nodes = lab.layout.nodes().iter();
        let joined = PolicyJoined {
            nodes: nodes.map(|node| node.name.clone()).collect(),
            step_ns,
            within_ns,
            attachments: kinds.attachments,
            links: kinds.links,
            routes: kinds.routes,
        };
        Ok((joined, seat))
    }

    /// Returns the policy that decides now.
    pub(crate) fn seat(&self) -> Option<Arc<Seat>> {
        self.inner().seat.clone()
    }

    /// Makes room for another policy.
    pub(crate) fn leave(&self) {
        if let Some(seat) = self.inner().seat.take() {
            seat.end();
        }
    }

    /// Ends the policy, and lets no other join.
    pub(crate) fn close(&self) {
        self.inner().closed = true;
        self.leave();
    }

    /// Remembers decisions that are in force from `t_ns` on.
    pub(crate) fn decided(&self, t_ns: u64, decision: Decision) {
        self.inner().decided.push((t_ns, decision));
    }

    /// Gives a new stepper all decisions so far, so that it shows the topology of this run.
    pub(crate) fn apply(&self, stepper: &mut Stepper) {
        for (t_ns, decision) in &self.inner().decided {
            let (chosen, switched) = decision.at(*t_ns);
            chosen.for_each(|(station, chosen)| stepper.choose(station, chosen));
            switched.for_each(|switched| stepper.switch(switched));
        }
    }
}
