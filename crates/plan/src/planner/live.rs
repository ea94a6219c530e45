//! Decisions of a live policy in a planner.

use constel_topology::StationCandidates;

use super::Planner;
use crate::live::Decision;

impl Planner {
    /// Returns the lab time of the step that [`Planner::advance`] plans next, nanoseconds.
    #[must_use]
    pub fn next_t_ns(&self) -> u64 {
        self.stepper.next_step() * self.blueprint.lab.step_ns()
    }

    /// Returns the satellites that each station could use in the step that is planned next.
    pub fn candidates(&mut self) -> Vec<StationCandidates> {
        self.stepper.candidates()
    }

    /// Decides from the step on that is planned next. Routes count only if the scenario takes them from a file
    /// (`routing.choices`).
    ///
    /// The scenario must have no choices of these kinds at later times.
    pub fn decide(&mut self, decision: &Decision) {
        let t_ns = self.next_t_ns();
        let (chosen, switched) = decision.at(t_ns);
        chosen.for_each(|(station, chosen)| self.stepper.choose(station, chosen));
        switched.for_each(|switched| self.stepper.switch(switched));
        if let Some(routes) = &self.blueprint.lab.next_nodes {
            routes.add(t_ns, &decision.routes);
        }
    }
}
