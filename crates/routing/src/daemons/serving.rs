//! The satellites that a station will use. A terminal knows the ephemeris.

use crate::ospf::Served;
use constel_topology::{CutReason, Effort, Snapshot, StepRefusal, Stepper};

/// Maximum number of satellite positions for which every step is examined, which takes a few seconds.
const EVERY_STEP: u64 = 4_000_000;

/// Returns the satellites that each station uses in `steps` steps from 0, in the spec's order of stations. These are the
/// neighbours that its daemon must know to follow its handovers. Moves the stepper.
///
/// If there are too many steps to examine each of them, the result contains additional satellites that a terminal only might
/// use: those that rise above its mask, or nearly do, with a margin that grows with the duration. It never takes more than
/// some seconds.
///
/// # Errors
/// If `wanted` becomes false.
pub fn serving_within(
    stepper: &mut Stepper,
    steps: u64,
    wanted: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Served>, StepRefusal> {
    let mut effort = Effort::new(u64::MAX, wanted);
    let layout = stepper.layout().clone();
    let stations = layout.spec().stations.len();
    let cost = (layout.nodes().len() + 4 * layout.terminals().len()) as u64;
    let called_off = |_: CutReason| StepRefusal::Unwanted;
    let mut serving = vec![Served::new(); stations];
    if steps.saturating_mul(cost) > EVERY_STEP {
        let end_ns = steps.saturating_mul(layout.spec().step_ns);
        let used = stepper.may_use((0, end_ns), EVERY_STEP, &mut effort);
        for (terminal, used) in layout.terminals().iter().zip(used.map_err(called_off)?) {
            serving[terminal.station].extend(used.into_iter().map(|s| (terminal.port, s)));
        }
        return Ok(serving);
    }
    let mut snapshot = Snapshot::default();
    for step in 0..steps {
        effort.spend(cost).map_err(called_off)?;
        if step == 0 {
            snapshot = stepper.try_step(0, &mut effort)?;
        } else {
            stepper.advance_into(&mut snapshot);
        }
        for terminal in layout.terminals() {
            let used = snapshot.beams[terminal.beams.clone()].iter().flatten();
            serving[terminal.station].extend(used.map(|satellite| (terminal.port, *satellite)));
        }
    }
    Ok(serving)
}
