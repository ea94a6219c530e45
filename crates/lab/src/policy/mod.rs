//! Live policies: a program that decides links, attachments and routes for each step, with a bound of time.
//!
//! The decision rules are pure: [`turns`] has the time, [`read`] the names and the changes. [`seat`] joins the step loop and the
//! connection. Everything that is decided is recorded, so that the run repeats without the policy.

mod door;
mod read;
mod record;
mod seat;
mod state;
mod turns;

use std::time::Duration;

use constel_api::EventData;
use constel_api::summary::PolicyRow;
use constel_link::Tally;
use constel_plan::Decision;

use crate::clock::mono_ns;
use crate::error::EngineError;
use crate::life::lab_time::LabTime;
use crate::life::observed::Observed;
use crate::routing::daemons::Daemons;
use crate::routing::machine::Machine;
use crate::routing::steps::Steps;
use crate::watch::pace::SampleTimes;
use crate::watch::summary::quantiles;

pub(crate) use door::PolicyDoor;
use read::InForce;
use record::Record;
use seat::Seat;
use state::States;
use turns::Outcome;

/// How often the step loop does its other work while it waits for an answer.
const SLICE: Duration = Duration::from_millis(20);

/// The step loop's side of live policies.
#[derive(Debug)]
pub(crate) struct Decisions {
    record: Record,
    in_force: InForce,
    states: States,
    /// The time that collecting a state took, for the present policy, nanoseconds.
    state_ns: Tally,
    /// The number of changes by the present policy.
    changes: u64,
}

impl Decisions {
    /// Creates it without decisions; they are recorded in the results folder.
    pub(crate) fn new(results: &std::path::Path) -> Self {
        Self {
            record: Record::new(results),
            in_force: InForce::default(),
            states: States::default(),
            state_ns: Tally::default(),
            changes: 0,
        }
    }

    /// Returns the row of a policy that has left, or whose lab has ended, and begins the counts of the next one.
    fn row(&mut self, seat: &Seat) -> PolicyRow {
        let counts = seat.counts();
        self.states = States::default();
        PolicyRow {
            name: seat.name.clone(),
            within_ns: seat.within_ns(),
            steps: counts.steps,
            decided: counts.decided,
            late: counts.late,
            refused: counts.refused,
            changes: std::mem::take(&mut self.changes),
            answer_ns: quantiles(&counts.answer_ns),
            state_ns: quantiles(&std::mem::take(&mut self.state_ns)),
            stayed: seat.gone() != Some(false),
        }
    }
}

/// Returns why a policy makes a run untrustworthy, if it does.
fn doubt(row: &PolicyRow) -> Option<String> {
    let mut reasons = Vec::new();
    if row.late > 0 {
        let within_ms = row.within_ns as f64 / 1e6;
        reasons.push(format!(
            "did not answer within {within_ms} ms in {} of {} steps",
            row.late, row.steps
        ));
    }
    if row.refused > 0 {
        reasons.push(format!("gave {} answers that were refused", row.refused));
    }
    if !row.stayed {
        reasons.push("ended without leaving".to_owned());
    }
    let name = &row.name;
    (!reasons.is_empty()).then(|| {
        let reasons = reasons.join(", and ");
        format!("the live policy `{name}` {reasons}: its decisions before held")
    })
}

impl LabTime<'_> {
    /// Lets the live policy decide the step that is planned next, if there is one. Waits for its answer, at most the time that it
    /// has. The other work between steps goes on at the same time.
    ///
    /// # Errors
    /// When the link plane or a kernel refuses.
    pub(crate) fn policy_decides(
        &self,
        steps: &mut Steps<Machine>,
        daemons: &mut Daemons,
        look: &mut SampleTimes,
        seen: &mut Observed,
    ) -> Result<(), EngineError> {
        let Some(seat) = self.view.policy.seat() else {
            return Ok(());
        };
        if seat.gone().is_some() {
            self.policy_ends(&seat, seen);
            return Ok(());
        }
        let began_ns = mono_ns();
        let state = self.decisions.borrow_mut().states.collect(
            &mut steps.planner,
            self.fabric.handle.as_ref(),
            (&seat.wants, &seat.counts(), began_ns),
        )?;
        self.decisions
            .borrow_mut()
            .state_ns
            .record(mono_ns() - began_ns);
        seat.open(state);
        let current = std::sync::Arc::clone(steps.current());
        let (step, outcome) = loop {
            if let Some(outcome) = seat.wait(SLICE) {
                break outcome;
            }
            // A lab that is stopped does not wait, and its last turn does not count.
            if self.stopped() {
                return Ok(());
            }
            steps.route_round_failures()?;
            steps.look_after(seat.left_of_turn())?;
            if look.fits(seat.left_of_turn()) {
                self.between_steps(&current, daemons, look, seen)?;
            }
        };
        match outcome {
            Outcome::Decided(decision) => {
                let changes = self.decisions.borrow_mut().in_force.changes(decision);
                match changes {
                    Ok(changes) => self.decide(steps, changes, seen),
                    Err(why) => {
                        seen.fail(format!(
                            "a decision of the live policy was not carried out: {why}"
                        ));
                        self.policy_held(&seat, step, why);
                    }
                }
            }
            Outcome::Held(why) => self.policy_held(&seat, step, why),
            Outcome::Left => {}
        }
        Ok(())
    }

    fn decide(&self, steps: &mut Steps<Machine>, changes: Decision, seen: &mut Observed) {
        if changes.is_empty() {
            return;
        }
        let t_ns = steps.planner.next_t_ns();
        steps.planner.decide(&changes);
        let mut decisions = self.decisions.borrow_mut();
        decisions.changes += changes.len() as u64;
        let layout = &self.fabric.blueprint.lab.layout;
        if let Err(error) = decisions.record.write(layout, t_ns, &changes) {
            seen.fail(format!(
                "the record of the live policy is not complete: {error}"
            ));
        }
        self.view.policy.decided(t_ns, changes);
    }

    fn policy_held(&self, seat: &Seat, step: u64, why: String) {
        let policy = seat.name.clone();
        let t_ns = self.clock.now_ns().map(|t| t as i64);
        self.log
            .emit(t_ns, EventData::PolicyHeld { policy, step, why });
    }

    fn policy_ends(&self, seat: &Seat, seen: &mut Observed) {
        self.view.policy.leave();
        let row = self.decisions.borrow_mut().row(seat);
        let t_ns = self.clock.now_ns().map(|t| t as i64);
        let (policy, on_purpose) = (row.name.clone(), row.stayed);
        self.log
            .emit(t_ns, EventData::PolicyLeft { policy, on_purpose });
        self.note_policy(row, seen);
    }

    /// Ends the live policy with lab time.
    pub(crate) fn end_policy(&self, seen: &mut Observed) {
        if let Some(seat) = self.view.policy.seat() {
            self.view.policy.close();
            let row = self.decisions.borrow_mut().row(&seat);
            self.note_policy(row, seen);
        }
    }

    fn note_policy(&self, row: PolicyRow, seen: &mut Observed) {
        if let Some(doubt) = doubt(&row) {
            seen.fail(doubt);
        }
        seen.policies.push(row);
    }
}

#[cfg(test)]
mod tests;
