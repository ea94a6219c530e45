//! The input of a satellite choice: the satellites that stations could use.

use std::sync::{Arc, Mutex, PoisonError};

use constel_plan::Lab;
use constel_topology::{Candidate, Choice, NodeId, Policy, Snapshot, Stepper};

use crate::interval::Interval;

/// A satellite that a station can use at a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usable {
    /// The number of the sample in the interval.
    pub sample: u64,
    /// The station.
    pub station: NodeId,
    /// The satellite, its distance and elevation, and the time that it stays.
    pub candidate: Candidate,
}

/// The reason why the usable satellites cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CandidatesError {
    /// With bent pipes the satellites that users can use depend on the choices of feeders.
    #[error(
        "what users of `bent_pipe` satellites can use depends on what feeders choose, so it cannot be listed beforehand"
    )]
    BentPipe,
    /// More rows than anyone can hold.
    #[error("more than {MAX_USABLE} rows: ask for a shorter time, or less often")]
    TooMany,
}

/// Most rows of an answer.
pub const MAX_USABLE: usize = 20_000_000;

/// Returns, for every sample and station in order, the satellites that the station can use: those above its
/// mask, not behind an obstacle, within reach of its radio, not failed, by node number. Choices of other
/// stations are ignored, so satellites without a free beam are included.
///
/// # Errors
/// See [`CandidatesError`].
pub fn candidates(lab: &Lab, interval: Interval) -> Result<Vec<Usable>, CandidatesError> {
    let mut constellations = lab.layout.spec().constellations.iter();
    if constellations.any(|constellation| constellation.bent_pipe) {
        return Err(CandidatesError::BentPipe);
    }
    let gather = Arc::new(Gather::default());
    let policy: Arc<dyn Policy> = Arc::<Gather>::clone(&gather);
    let mut stepper = Stepper::with_policy(Arc::clone(&lab.layout), Arc::clone(&lab.sky), policy);
    let mut snapshot = Snapshot::default();
    let mut all = Vec::new();
    for sample in 0..interval.samples() {
        let step = interval.at(sample) / lab.step_ns();
        if stepper.next_step() == step {
            stepper.advance_into(&mut snapshot);
        } else {
            snapshot = stepper.at_step(step);
        }
        let mut seen = gather.take(step);
        // Antennas and terminals of a station are given the same.
        seen.sort_by_key(|(station, candidate)| (*station, candidate.satellite));
        seen.dedup_by_key(|(station, candidate)| (*station, candidate.satellite));
        let rows = seen.into_iter().map(|(station, candidate)| Usable {
            sample,
            station,
            candidate,
        });
        all.extend(rows);
        if all.len() > MAX_USABLE {
            return Err(CandidatesError::TooMany);
        }
    }
    Ok(all)
}

/// A policy that chooses no satellite, and notes the candidates.
#[derive(Default)]
struct Gather(Mutex<Vec<(u64, NodeId, Candidate)>>);

impl Gather {
    /// Returns the candidates noted at a step; those of the steps on the way there are discarded.
    fn take(&self, step: u64) -> Vec<(NodeId, Candidate)> {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_step = noted.drain(..).filter(|(at, ..)| *at == step);
        of_step
            .map(|(_, station, candidate)| (station, candidate))
            .collect()
    }
}

impl Policy for Gather {
    fn choose(&self, choice: &Choice<'_>) -> Option<NodeId> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(
            choice
                .candidates
                .iter()
                .map(|c| (choice.step, choice.station, *c)),
        );
        None
    }

    fn memoryless(&self) -> bool {
        true
    }

    fn wants_remaining(&self) -> bool {
        true
    }
}
