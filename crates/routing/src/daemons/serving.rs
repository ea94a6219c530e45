//! Which satellites a station will use: a terminal knows the ephemeris.

use constel_topology::{NodeId, Stepper};
use std::collections::BTreeSet;

/// The satellites each station uses in `steps` steps from `from`, by the spec's order of stations: the
/// neighbours its daemon must know to follow its handovers. Moves the stepper.
#[must_use]
pub fn serving_within(stepper: &mut Stepper, from: u64, steps: u64) -> Vec<BTreeSet<NodeId>> {
    let mut snapshot = stepper.at_step(from);
    let mut serving = vec![BTreeSet::new(); snapshot.serving.len()];
    for step in 0..steps {
        for (station, set) in serving.iter_mut().enumerate() {
            let beams = stepper.layout().beams_of(station);
            set.extend(snapshot.beams[beams].iter().flatten());
        }
        if step + 1 < steps {
            stepper.advance_into(&mut snapshot);
        }
    }
    serving
}
